/* SPDX-License-Identifier: Apache-2.0
 * Protects the loop: records find their way between clients, machines and threads, a machine that
 * is full gets its record again, what a step's end rests on comes before it, and signals end it.
 * Both machines are played by the test.
 */
#include <arpa/inet.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "contract/record_client.h"
#include "contract/record_kv.h"
#include "contract/record_unit.h"
#include "contract/step_plan.h"
#include "host/loop.h"
#include "test_case.h"

/* A request goes CLIENT_REQUEST -> TOKENIZE -> TOKENIZED -> CONSTRAIN -> CONSTRAINED -> SUBMIT ->
 * RUN_STEP -> STEP_DONE -> FINISHED -> RESPOND: every route there is. One at a time suffices. */
static char gateway_memory[65536], unit_memory[65536];
static struct outbox gateway_outbox = {gateway_memory, sizeof gateway_memory, 0};
static struct outbox unit_outbox = {unit_memory, sizeof unit_memory, 0};
static struct connection_id client;
static uint32_t came_on; /* its listener */
static int full_answers;
static int64_t wake_at;

/* What the visitor's and the engine's threads wait for. */
static atomic_int drains;
static atomic_bool woken, engine_began;

enum when { AT_ONCE, WHEN_ANSWERED, WHEN_ENGINE_WORKS };
enum engine_ends { ENGINE_ENDS_AT_ONCE, ENGINE_ENDS_AFTER_DRAIN, ENGINE_NEVER_ENDS };
static enum when first_signal;
static enum engine_ends engine_ends;
static bool asks, signals_twice;
static int64_t finish_ns_max;

/* A step of three ranks, of which the second one's row waited for a load that is told later. */
static struct loop *loop;

static void pause_briefly(void) {
    usleep(1000);
}

static void put_submit(void) {
    machine_outbox_put_envelope(&gateway_outbox, RECORD_TO_UNIT, (struct unit_id){1}, RECORD_SUBMIT,
                                &(struct record_submit){.new_tokens_max = 1});
}

static enum status gateway_receive(void *self, const struct record *record, int64_t now_ns) {
    if (record->kind == RECORD_FROM_UNIT)
        record = envelope_inner((const struct record_envelope *)record);
    if (record->kind == RECORD_TOKENIZED && full_answers++ == 0) { /* once: full, with an outbox */
        machine_outbox_put_envelope(&gateway_outbox, RECORD_TO_UNIT, (struct unit_id){1},
                                    RECORD_CANCEL, NULL);
        return STATUS_FULL;
    }
    if (record->kind == RECORD_CLIENT_REQUEST) {
        client = ((const struct record_client_request *)record)->connection;
        came_on = ((const struct record_client_request *)record)->listener;
        machine_outbox_put(&gateway_outbox, RECORD_TOKENIZE, NULL);
    } else if (record->kind == RECORD_TOKENIZED) {
        machine_outbox_put(&gateway_outbox, RECORD_CONSTRAIN, NULL);
    } else if (record->kind == RECORD_CONSTRAINED) {
        put_submit();
    } else if (record->kind == RECORD_FINISHED) {
        struct record_respond *respond = machine_outbox_put(
            &gateway_outbox, RECORD_RESPOND,
            &(struct record_respond){.connection = client, .http_status = 200, .body_bytes = 4});
        memcpy(respond_body(respond), "done", 4);
    } else if (record->kind == RECORD_DRAIN) {
        drains++;
    }
    return STATUS_OK;
}

static void gateway_step(void *self, int64_t now_ns) {
    if (wake_at == 0) wake_at = now_ns + 30000000;
    if (now_ns >= wake_at) woken = true;
}

static int64_t gateway_wake(const void *self) {
    return woken ? MACHINE_NEVER : wake_at;
}

static enum status unit_receive(void *self, const struct record *record, int64_t now_ns) {
    if (record->kind == RECORD_SUBMIT)
        machine_outbox_put(&unit_outbox, RECORD_RUN_STEP, NULL);
    else if (record->kind == RECORD_STEP_DONE)
        machine_outbox_put(&unit_outbox, RECORD_FINISHED, NULL);
    else if (record->kind == RECORD_DRAIN)
        drains++;
    return STATUS_OK;
}

static void unit_step(void *self, int64_t now_ns) {
}

static int64_t unit_wake(const void *self) {
    return MACHINE_NEVER;
}

static void engine(void *context, struct worker *worker, const struct record *record) {
    if (!record) return; /* it is called once to look around */
    engine_began = true;
    while (engine_ends == ENGINE_NEVER_ENDS ||
           (engine_ends == ENGINE_ENDS_AFTER_DRAIN && drains < 1))
        pause_briefly();
    struct step_result result = {.record = record_head(RECORD_STEP_DONE, sizeof result)};
    worker_answer(worker, &result.record);
}

static void forward(void *context, const struct record *record) {
}

static void tokenize(void *context, struct worker *worker, const struct record *record) {
    struct record_tokenized result = {.record = record_head(RECORD_TOKENIZED, sizeof result)};
    worker_answer(worker, &result.record);
}

static void constrain(void *context, struct worker *worker, const struct record *record) {
    struct record_constrained result = {.record = record_head(RECORD_CONSTRAINED, sizeof result)};
    worker_answer(worker, &result.record);
}

static char answer[4096];

/* Nothing at the end. */
static size_t receive_some(int file, size_t count) {
    ssize_t got = recv(file, answer + count, sizeof answer - 1 - count, 0);
    return got > 0 ? (size_t)got : 0;
}

static void *visit(void *url) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)atoi(strrchr(url, ':') + 1)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int file = socket(AF_INET, SOCK_STREAM, 0);
    check(connect(file, (struct sockaddr *)&address, sizeof address) == 0);
    const char *text = "GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n";
    if (asks) check(send(file, text, strlen(text), 0) > 0);
    size_t count = 0;
    while (first_signal == WHEN_ANSWERED && !strstr(answer, "done"))
        count += receive_some(file, count);
    while ((first_signal == WHEN_ANSWERED && !woken) ||
           (first_signal == WHEN_ENGINE_WORKS && !engine_began))
        pause_briefly();
    kill(getpid(), SIGTERM);
    if (signals_twice) {
        while (!drains)
            pause_briefly();
        kill(getpid(), SIGTERM);
    }
    if (asks)
        for (size_t got; (got = receive_some(file, count)); count += got)
            ;
    close(file);
    return NULL;
}

static pthread_t visitor;
static enum http_listener visits; /* this listener */

static void send_visitor(void *context, const char *const *urls) {
    const char *url = urls[visits];
    check(pthread_create(&visitor, NULL, visit, (void *)(uintptr_t)url) == 0);
}

static void run(void) {
    struct http_server_options http[HTTP_LISTENER_COUNT];
    struct error error = {""};
    memset(answer, 0, sizeof answer);
    gateway_outbox.used = unit_outbox.used = 0;
    full_answers = 0;
    drains = 0;
    wake_at = 0;
    woken = engine_began = false;
    for (uint32_t i = 0; i < HTTP_LISTENER_COUNT; i++) {
        http_server_defaults(&http[i]);
        http[i].listener = i;
        http[i].port = 0;
    }
    assert_int_equal(loop_open(http, HTTP_LISTENER_COUNT, &loop, &error), STATUS_OK);
    struct loop_parts parts = {
        .gateway = {NULL, &gateway_outbox, gateway_receive, gateway_step, gateway_wake},
        .unit = {NULL, &unit_outbox, unit_receive, unit_step, unit_wake},
        .engine = engine,
        .tokenize = tokenize,
        .constrain = constrain,
        .forward = forward,
        .finish_ns_max = finish_ns_max,
        .ready = send_visitor,
    };
    assert_int_equal(loop_run(loop, &parts, &error), STATUS_OK);
    bool closed = loop_close(loop);
    pthread_join(visitor, NULL);
    assert_true(closed == (engine_ends != ENGINE_NEVER_ENDS));
}

/* First, because it forks before there are threads. */
TEST(a_second_signal_ends_the_process) {
    pid_t child = fork();
    if (child == 0) {
        asks = signals_twice = true;
        first_signal = WHEN_ENGINE_WORKS;
        engine_ends = ENGINE_NEVER_ENDS;
        run();
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 128 + SIGTERM);
}

TEST(a_request_takes_every_route) {
    asks = true;
    first_signal = WHEN_ANSWERED;
    engine_ends = ENGINE_ENDS_AT_ONCE;
    run();
    assert_non_null(strstr(answer, "HTTP/1.1 200 OK"));
    assert_non_null(strstr(answer, "done"));
    assert_int_equal(full_answers, 2); /* refused once, given again */
    assert_true(woken);                /* at the time it asked for */
    assert_int_equal(drains, 1);
}

/* The gateway is told on which listener a request came, and the answer finds its way back to it. */
TEST(each_listener_has_its_clients) {
    asks = true;
    first_signal = WHEN_ANSWERED;
    engine_ends = ENGINE_ENDS_AT_ONCE;
    run();
    assert_int_equal(came_on, HTTP_PUBLIC);
    visits = HTTP_ADMIN;
    run();
    visits = HTTP_PUBLIC;
    assert_int_equal(came_on, HTTP_ADMIN);
    assert_non_null(strstr(answer, "done"));
}

TEST(a_signal_lets_the_begun_answer_finish) {
    asks = true;
    first_signal = WHEN_ENGINE_WORKS;
    engine_ends = ENGINE_ENDS_AFTER_DRAIN;
    run();
    assert_non_null(strstr(answer, "done"));
}

/* If it waited for anything, this would never end. */
TEST(an_idle_loop_ends) {
    asks = false;
    first_signal = AT_ONCE;
    run();
    assert_false(engine_began);
}

/* The connection of whoever asked is closed. */
TEST(a_step_that_never_ends_does_not_hold_the_end_up) {
    pid_t child = fork();
    if (child == 0) {
        asks = true;
        first_signal = WHEN_ENGINE_WORKS;
        engine_ends = ENGINE_NEVER_ENDS;
        finish_ns_max = 20000000;
        run();
        _exit(answer[0] ? 1 : 0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- large requests ---- */

enum { LARGE_COUNT = 5, LARGE_BYTES = 20000, CROWD = LARGE_COUNT + 2 };

static int crowd[CROWD]; /* the first one's and the last one's requests are small */
static char order[64];   /* in which the gateway got them, a letter each */
static atomic_uint taken;
static atomic_bool all_sent, last_sent;

static void wait_for(const atomic_bool *flag) {
    while (!*flag)
        pause_briefly();
}

static void answer_client(struct connection_id connection) {
    struct record_respond *respond = machine_outbox_put(&gateway_outbox, RECORD_RESPOND, NULL);
    respond->connection = connection;
    respond->http_status = 200;
}

/* The letter stands before the count tells the visitor of it. */
static void note_order(char letter) {
    order[taken] = letter;
    taken++;
}

/* The loop stands still, first until all large requests have come, then until a small one has. */
static enum status crowd_receive(void *self, const struct record *record, int64_t now_ns) {
    if (record->kind == RECORD_CLIENT_GONE) note_order('g');
    if (record->kind != RECORD_CLIENT_REQUEST) return STATUS_OK;
    const struct record_client_request *request = (const void *)record;
    note_order(client_request_path(request)[1]);
    if (order[taken - 1] == 'f') wait_for(&all_sent);
    if (taken == 2) wait_for(&last_sent);
    answer_client(request->connection);
    return STATUS_OK;
}

static int join_crowd(const char *url) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)atoi(strrchr(url, ':') + 1)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int file = socket(AF_INET, SOCK_STREAM, 0);
    check(connect(file, (struct sockaddr *)&address, sizeof address) == 0);
    return file;
}

static void post(int file, char name, size_t bytes) {
    static char text[LARGE_BYTES + 200];
    int head = snprintf(text, sizeof text,
                        "POST /%c HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                        "Content-Length: %zu\r\n\r\n",
                        name, bytes);
    memset(text + head, 'x', bytes);
    check(send(file, text, (size_t)head + bytes, 0) == (ssize_t)((size_t)head + bytes));
}

static void receive_answer(int file) {
    char text[1024];
    check(recv(file, text, sizeof text, 0) > 0);
}

static void *visit_in_a_crowd(void *url) {
    for (int i = 0; i < CROWD; i++)
        crowd[i] = join_crowd(url);
    post(crowd[0], 'f', 1);
    while (taken < 1)
        pause_briefly();
    for (int i = 1; i <= LARGE_COUNT; i++)
        post(crowd[i], (char)('0' + i), LARGE_BYTES);
    all_sent = true;
    while (taken < 2)
        pause_briefly();
    post(crowd[CROWD - 1], 's', 1);
    int leaver = order[1] == '1' ? 2 : 1; /* whose request has not been looked at yet */
    close(crowd[leaver]);
    last_sent = true;
    receive_answer(crowd[CROWD - 1]);
    for (int i = 0; i <= LARGE_COUNT; i++)
        if (i != leaver) receive_answer(crowd[i]);
    kill(getpid(), SIGTERM);
    for (int i = 0; i < CROWD; i++)
        if (i != leaver) close(crowd[i]);
    return NULL;
}

static void send_crowd(void *context, const char *const *urls) {
    check(pthread_create(&visitor, NULL, visit_in_a_crowd, (void *)(uintptr_t)urls[0]) == 0);
}

/* Five large requests have come whole when a small one does: it is next all the same, and who has
 * gone before his was looked at is not looked at. */
TEST(large_requests_let_others_pass) {
    struct http_server_options http;
    struct error error = {""};
    gateway_outbox.used = unit_outbox.used = 0;
    woken = true;
    http_server_defaults(&http);
    http.port = 0;
    assert_int_equal(loop_open(&http, 1, &loop, &error), STATUS_OK);
    struct loop_parts parts = {
        .gateway = {NULL, &gateway_outbox, crowd_receive, gateway_step, gateway_wake},
        .unit = {NULL, &unit_outbox, unit_receive, unit_step, unit_wake},
        .ready = send_crowd,
    };
    assert_int_equal(loop_run(loop, &parts, &error), STATUS_OK);
    assert_true(loop_close(loop));
    pthread_join(visitor, NULL);
    assert_int_equal(order[0], 'f');
    const char *small = strchr(order, 's');
    assert_non_null(small);
    if (small - order > 3) fail_msg("the small one came late: %s", order);
    assert_null(strchr(order, 'g'));
    assert_int_equal(strlen(order), LARGE_COUNT + 1); /* all but the one that left */
}

/* ---- small requests in turns ---- */

enum { FLOOD = 40 };

/* The gateway is in the first request until all others have come. */
static enum status flood_receive(void *self, const struct record *record, int64_t now_ns) {
    if (record->kind == RECORD_CLIENT_GONE) note_order('g');
    if (record->kind != RECORD_CLIENT_REQUEST) return STATUS_OK;
    const struct record_client_request *request = (const void *)record;
    note_order(client_request_path(request)[1]);
    if (order[taken - 1] == 'f') wait_for(&all_sent);
    pause_briefly(); /* more than a few of them take longer than a turn */
    answer_client(request->connection);
    return STATUS_OK;
}

static enum admission admit_all(void *context, const struct record_client_request *head) {
    return ADMISSION_KNOWN;
}

static void post_with_key(int file, char name, const char *key) {
    char text[300];
    int count = snprintf(text, sizeof text,
                         "POST /%c HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"
                         "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
                         name, key);
    check(send(file, text, (size_t)count, 0) == count);
}

/* Half of the flood leaves before the gateway has looked at a request of it. */
static void *visit_with_keys(void *url) {
    static int files[FLOOD];
    int first = join_crowd(url), other = join_crowd(url);
    for (int i = 0; i < FLOOD; i++)
        files[i] = join_crowd(url);
    post_with_key(first, 'f', "one");
    while (taken < 1)
        pause_briefly();
    for (int i = 0; i < FLOOD; i++)
        post_with_key(files[i], i % 2 ? 'l' : 'a', "one");
    post_with_key(other, 's', "other");
    for (int i = 1; i < FLOOD; i += 2)
        close(files[i]);
    all_sent = true;
    receive_answer(other);
    for (int i = 0; i < FLOOD; i += 2)
        receive_answer(files[i]);
    kill(getpid(), SIGTERM);
    for (int i = 0; i < FLOOD; i += 2)
        close(files[i]);
    close(first);
    close(other);
    return NULL;
}

static void send_flood(void *context, const char *const *urls) {
    check(pthread_create(&visitor, NULL, visit_with_keys, (void *)(uintptr_t)urls[0]) == 0);
}

/* Forty small requests of one key wait when one of another key comes: it is soon next, and those
 * whose clients have left never reach the gateway. */
TEST(small_requests_take_turns_by_key) {
    struct http_server_options http;
    struct error error = {""};
    gateway_outbox.used = unit_outbox.used = 0;
    memset(order, 0, sizeof order);
    taken = 0;
    all_sent = false;
    woken = true;
    http_server_defaults(&http);
    http.port = 0;
    assert_int_equal(loop_open(&http, 1, &loop, &error), STATUS_OK);
    struct loop_parts parts = {
        .gateway = {NULL, &gateway_outbox, flood_receive, gateway_step, gateway_wake},
        .unit = {NULL, &unit_outbox, unit_receive, unit_step, unit_wake},
        .ready = send_flood,
        .admit = admit_all,
    };
    assert_int_equal(loop_run(loop, &parts, &error), STATUS_OK);
    assert_true(loop_close(loop));
    pthread_join(visitor, NULL);
    const char *small = strchr(order, 's');
    assert_non_null(small);
    if (small - order > FLOOD / 4) fail_msg("the other key's request came late: %s", order);
    assert_null(strchr(order, 'l'));
    assert_null(strchr(order, 'g'));
    assert_int_equal(strlen(order), 2 + FLOOD / 2);
}
