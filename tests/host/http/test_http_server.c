/* SPDX-License-Identifier: Apache-2.0
 * Protects the HTTP server: requests become records and records answers, limits and deadlines hold,
 * clients that leave or do not read are noticed. The gateway is played by the test itself. Whatever
 * must happen is waited for with patience, so that a busy machine fails nothing; only what must not
 * happen is given a short time.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <event2/event.h>

#include "base/check.h"
#include "base/clock.h"
#include "contract/machine.h"
#include "contract/record_client.h"
#include "host/http/http_server.h"
#include "host/wire/record_queue.h"
#include "test_case.h"

static struct event_base *base;
static struct http_server *server;
static struct record_queue delivered;
static enum status deliver_status;
static struct error error;

static enum status deliver(void *context, const struct record *record) {
    if (record->kind == RECORD_CLIENT_REQUEST && deliver_status) return deliver_status;
    record_queue_force(&delivered, record);
    return STATUS_OK;
}

static const struct http_asset assets[] = {{"/", "text/html", {"<p>page", 7}}};

#define PATIENCE_MS 60000

static enum admission admission; /* of every request */

static enum admission admit(void *context, const struct record_client_request *head) {
    assert_true(record_valid(head, head->record.bytes));
    assert_int_equal(head->body_bytes, 0);
    return admission;
}

static struct http_server_options options; /* of the server */

static int open_again(void) {
    delivered.bytes_max = SIZE_MAX;
    deliver_status = STATUS_OK;
    base = event_base_new();
    if (http_server_open(&options, base, &server, &error)) return -1;
    return http_server_start(server, &error) ? -1 : 0;
}

static int open_with(uint32_t request_ms, uint32_t idle_ms, uint32_t behind_ms) {
    http_server_defaults(&options);
    options.port = 0;
    options.head_bytes_max = 4096;
    options.body_bytes_max = 100000;
    options.bodies_bytes_max = 300000;
    options.head_ms_max = options.body_ms_max = request_ms;
    options.idle_ms_max = idle_ms;
    options.stall_ms_max = options.linger_ms_max = options.pace_ms_max = PATIENCE_MS;
    options.behind_ms_max = behind_ms;
    options.connections_max = 40;
    options.host_allowlist = "a";
    options.admit = admit;
    admission = ADMISSION_KEYLESS;
    options.assets = assets;
    options.asset_count = ARRAY_COUNT(assets);
    options.deliver = deliver;
    return open_again();
}

static int open_server(void **state) {
    return open_with(PATIENCE_MS, PATIENCE_MS, PATIENCE_MS);
}

static int open_hasty_server(void **state) {
    return open_with(150, 400, 150);
}

static int open_patient_server(void **state) {
    return open_with(3000, 3000, 3000);
}

static int close_server(void **state) {
    http_server_close(server);
    record_queue_clear(&delivered);
    event_base_free(base);
    return 0;
}

/* With other options from here on. */
static void reopen(void) {
    close_server(NULL);
    assert_int_equal(open_again(), 0);
}

static int64_t now_ms(void) {
    return clock_now_ns() / 1000000;
}

static void pump(int64_t ms) {
    int64_t until = now_ms() + ms;
    do { /* once, also if this machine pauses meanwhile */
        event_base_loop(base, EVLOOP_NONBLOCK);
        usleep(500);
    } while (now_ms() < until);
}

static int connect_client(void) {
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)atoi(strrchr(http_server_url(server), ':') + 1)),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int client = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(client, (struct sockaddr *)&address, sizeof address), 0);
    fcntl(client, F_SETFL, O_NONBLOCK);
    return client;
}

static void say_bytes(int client, const char *text, size_t count) {
    for (size_t sent = 0; sent < count;) {
        ssize_t some = send(client, text + sent, count - sent, MSG_NOSIGNAL);
        if (some > 0)
            sent += (size_t)some;
        else
            assert_int_equal(errno, EAGAIN);
        if (sent < count) pump(1);
    }
}

static void say(int client, const char *text) {
    say_bytes(client, text, strlen(text));
}

static char received[1 << 16];
static bool hung_up;

/* What the client receives within `ms`, or until that holds `until` (may be NULL) or the connection
 * is closed. */
static const char *receive_for(int client, int64_t ms, const char *until) {
    size_t count = 0;
    hung_up = false;
    received[0] = 0;
    int64_t end = now_ms() + ms;
    do {
        pump(1);
        ssize_t got = recv(client, received + count, sizeof received - 1 - count, 0);
        if (got > 0)
            count += (size_t)got;
        else if (got == 0 || errno != EAGAIN)
            hung_up = true;
        received[count] = 0;
        if (until && strstr(received, until)) break;
    } while (now_ms() < end && !hung_up);
    return received;
}

static const char *receive(int client, const char *until) {
    return receive_for(client, PATIENCE_MS, until);
}

static void wait_for_record(void) {
    for (int64_t end = now_ms() + PATIENCE_MS; now_ms() < end && !record_queue_first(&delivered);)
        pump(1);
}

static const struct record_client_request *first_request(void) {
    wait_for_record();
    const struct record *record = record_queue_first(&delivered);
    assert_non_null(record);
    assert_int_equal(record->kind, RECORD_CLIENT_REQUEST);
    assert_true(record_valid(record, record->bytes));
    return (const struct record_client_request *)record;
}

/* Takes the oldest request off; returns its connection. */
static struct connection_id take_request(void) {
    struct connection_id id = first_request()->connection;
    record_queue_drop(&delivered);
    return id;
}

static const char *headers = ""; /* of the next answers */
static uint32_t allow;
static enum content_type stream_type = CONTENT_EVENTS;

static void perform(enum record_kind kind, struct connection_id id, uint32_t status,
                    const char *text) {
    static char memory[9 << 20];
    struct outbox outbox = {memory, sizeof memory, 0};
    uint32_t count = (uint32_t)strlen(text), header_bytes = (uint32_t)strlen(headers);
    struct record_respond respond = {
        .http_status = status, .allow = allow, .body_bytes = count, .header_bytes = header_bytes};
    struct record_stream_begin begin = {.content_type = stream_type, .header_bytes = header_bytes};
    struct record_stream_data data = {.data_bytes = count};
    struct record *record = machine_outbox_put(&outbox, kind,
                                               kind == RECORD_RESPOND ? (const void *)&respond
                                               : kind == RECORD_STREAM_BEGIN ? (const void *)&begin
                                               : kind == RECORD_STREAM_DATA  ? (const void *)&data
                                                                             : NULL);
    memcpy((char *)record + sizeof *record, &id, sizeof id);
    if (kind == RECORD_RESPOND) memcpy(record_tail(record, 1), headers, header_bytes);
    if (kind == RECORD_STREAM_BEGIN) memcpy(record_tail(record, 0), headers, header_bytes);
    if (kind == RECORD_RESPOND || kind == RECORD_STREAM_DATA)
        memcpy(record_tail(record, 0), text, count);
    http_server_perform(server, record);
}

static bool client_is_gone(struct connection_id id) {
    wait_for_record();
    const struct record_client_gone *gone = (const void *)record_queue_first(&delivered);
    if (!gone || gone->record.kind != RECORD_CLIENT_GONE) return false;
    bool same = gone->connection.value == id.value;
    record_queue_drop(&delivered);
    return same;
}

#define POST "POST /v1/x HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"

TEST_AROUND(a_request_becomes_a_record, open_server, close_server) {
    int client = connect_client();
    say(client, POST "Authorization: Bearer k\r\nContent-Length: 5\r\n\r\nhel");
    pump(20);
    say(client, "lo");
    const struct record_client_request *request = first_request();
    assert_int_equal(request->method, HTTP_POST);
    assert_memory_equal(client_request_path(request), "/v1/x", 5);
    assert_memory_equal(client_request_authorization(request), "Bearer k", 8);
    assert_memory_equal(client_request_body(request), "hello", 5);
    assert_true(request->random[0] != request->random[1]);
    assert_true(request->unix_time > 1600000000);
    struct connection_id first = take_request();
    assert_int_equal(http_server_open_exchanges(server), 1);
    perform(RECORD_RESPOND, first, 200, "{}");
    assert_non_null(strstr(receive(client, "{}"), "HTTP/1.1 200 OK\r\n"));
    assert_null(strstr(received, "Access-Control-"));
    for (int64_t end = now_ms() + PATIENCE_MS;
         now_ms() < end && http_server_open_exchanges(server);)
        pump(1);
    assert_int_equal(http_server_open_exchanges(server), 0);
    say(client, POST "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
    assert_int_equal(first_request()->body_bytes, 3);
    assert_true(first_request()->connection.value != first.value);
    close(client);
}

TEST_AROUND(answers_have_the_headers_that_the_gateway_says, open_server, close_server) {
    int client = connect_client();
    say(client, POST "x-fathom-receipt: 1\r\nContent-Length: 2\r\n\r\n{}");
    assert_int_equal(first_request()->wants_receipt, 1);
    headers = "X-Fathom-Receipt: {\"request\":\"7\"}\r\nX-Y: z\r\n";
    perform(RECORD_RESPOND, take_request(), 200, "{ }");
    assert_non_null(
        strstr(receive(client, "{ }"), "\r\nX-Fathom-Receipt: {\"request\":\"7\"}\r\nX-Y: z\r\n"));
    say(client, POST "Content-Length: 2\r\n\r\n{}");
    struct connection_id id = take_request();
    perform(RECORD_STREAM_BEGIN, id, 0, "");
    perform(RECORD_STREAM_END, id, 0, "");
    headers = "";
    assert_non_null(strstr(receive(client, "0\r\n\r\n"), "\r\nX-Y: z\r\n"));
    say(client, POST "Content-Length: 2\r\n\r\n{}");
    assert_int_equal(first_request()->wants_receipt, 0);
    perform(RECORD_RESPOND, take_request(), 200, "{\"\"}");
    assert_null(strstr(receive(client, "{\"\"}"), "\r\nX-Fathom-Receipt:"));
    close(client);
}

TEST_AROUND(each_answer_names_its_request, open_server, close_server) {
    char made[64];
    int client = connect_client();
    say(client, POST "Content-Length: 2\r\n\r\n{}");
    snprintf(made, sizeof made, "\r\nX-Request-Id: %016llx%016llx\r\n",
             (unsigned long long)first_request()->random[0],
             (unsigned long long)first_request()->random[1]);
    perform(RECORD_RESPOND, take_request(), 200, "{1}");
    assert_non_null(strstr(receive(client, "{1}"), made));
    say(client, POST "x-request-id: job 7\r\nContent-Length: 2\r\n\r\n{}");
    perform(RECORD_RESPOND, take_request(), 200, "{2}");
    assert_null(strstr(receive(client, "{2}"), "job")); /* it has a blank */
    assert_non_null(strstr(received, "\r\nX-Request-Id: "));
    assert_null(strstr(received, made));
    say(client, POST "x-request-id: job-7\r\nContent-Length: 2\r\n\r\n{}");
    struct connection_id id = take_request();
    perform(RECORD_STREAM_BEGIN, id, 0, "");
    perform(RECORD_STREAM_END, id, 0, "");
    assert_non_null(strstr(receive(client, "0\r\n\r\n"), "\r\nX-Request-Id: job-7\r\n"));
    say(client, "GET / HTTP/1.1\r\nHost: a\r\nX-Request-Id: page\r\n\r\n");
    assert_non_null(strstr(receive(client, "<p>page"), "\r\nX-Request-Id: page\r\n"));
    say(client, "GET / HTTP/1.1\r\nHost: b\r\nX-Request-Id: r\r\n\r\n"); /* refused */
    assert_non_null(strstr(receive(client, "}}"), "\r\nX-Request-Id: r\r\n"));
    close(client);
}

TEST_AROUND(a_bare_key_is_a_key, open_server, close_server) {
    int client = connect_client();
    say(client, POST "x-api-key: sk-1\r\nContent-Length: 2\r\n\r\n{}");
    assert_int_equal(first_request()->authorization_bytes, 11);
    assert_memory_equal(client_request_authorization(first_request()), "Bearer sk-1", 11);
    perform(RECORD_RESPOND, take_request(), 200, "{1}");
    receive(client, "{1}");
    say(client, POST "x-api-key: a\r\nAuthorization: Bearer b\r\nContent-Length: 2\r\n\r\n{}");
    assert_int_equal(first_request()->authorization_bytes, 8);
    assert_memory_equal(client_request_authorization(first_request()), "Bearer b", 8);
    perform(RECORD_RESPOND, take_request(), 200, "{2}");
    receive(client, "{2}");
    say(client, POST "x-api-key: a\r\nx-api-key: b\r\nContent-Length: 2\r\n\r\n{}");
    assert_non_null(strstr(receive(client, "}}"), "HTTP/1.1 400 "));
    close(client);
}

/* A whole answer whose head goes out before it is there. */
TEST_AROUND(json_may_come_in_pieces, open_server, close_server) {
    int client = connect_client();
    say(client, POST "Content-Length: 2\r\n\r\n{}");
    struct connection_id id = take_request();
    stream_type = CONTENT_JSON;
    perform(RECORD_STREAM_BEGIN, id, 0, "");
    stream_type = CONTENT_EVENTS;
    perform(RECORD_STREAM_DATA, id, 0, "\n");
    assert_non_null(strstr(receive(client, "1\r\n\n"), "Content-Type: application/json\r\n"));
    perform(RECORD_STREAM_DATA, id, 0, "{}");
    perform(RECORD_STREAM_END, id, 0, "");
    assert_non_null(strstr(receive(client, "0\r\n\r\n"), "2\r\n{}\r\n"));
    close(client);
}

TEST_AROUND(streams_in_chunks_and_keeps_the_connection, open_server, close_server) {
    int client = connect_client();
    say(client, POST "\r\n" POST "\r\n"); /* the second waits for the first one's end */
    struct connection_id id = take_request();
    pump(20);
    assert_null(record_queue_first(&delivered));
    perform(RECORD_STREAM_BEGIN, id, 0, "");
    perform(RECORD_STREAM_DATA, id, 0, "data: a\n\n");
    assert_non_null(strstr(receive(client, "\n\n"), "\r\n\r\n9\r\ndata: a\n\n"));
    perform(RECORD_STREAM_DATA, id, 0, "data: b\n\n");
    perform(RECORD_STREAM_END, id, 0, "");
    assert_non_null(strstr(receive(client, "0\r\n\r\n"), "9\r\ndata: b\n\n\r\n0\r\n\r\n"));
    assert_true(take_request().value != id.value);
    perform(RECORD_STREAM_DATA, id, 0, "late words are dropped");
    close(client);
}

TEST_AROUND(streams_to_http_1_0_until_the_end, open_server, close_server) {
    int client = connect_client();
    say(client, "POST /x HTTP/1.0\r\nContent-Type: application/json\r\n\r\n");
    struct connection_id id = take_request();
    perform(RECORD_STREAM_BEGIN, id, 0, "");
    perform(RECORD_STREAM_DATA, id, 0, "data: a\n\n");
    perform(RECORD_STREAM_END, id, 0, "");
    assert_non_null(strstr(receive(client, NULL), "\r\n\r\ndata: a\n\n"));
    assert_null(strstr(received, "chunked"));
    assert_true(hung_up);
    close(client);
}

TEST_AROUND(notices_a_client_that_leaves, open_server, close_server) {
    int client = connect_client();
    say(client, POST "\r\n");
    struct connection_id waiting = take_request();
    close(client);
    assert_true(client_is_gone(waiting));
    client = connect_client();
    say(client, POST "\r\n");
    struct connection_id streaming = take_request();
    perform(RECORD_STREAM_BEGIN, streaming, 0, "");
    pump(10);
    close(client);
    assert_true(client_is_gone(streaming));
    assert_int_equal(http_server_open_exchanges(server), 0);
}

TEST_AROUND(cuts_off_a_reader_that_does_not_read, open_server, close_server) {
    static char piece[60001];
    memset(piece, 'x', sizeof piece - 1);
    int client = connect_client();
    say(client, POST "\r\n");
    struct connection_id id = take_request();
    perform(RECORD_STREAM_BEGIN, id, 0, "");
    size_t pieces = 0;
    for (; pieces < 1000 && !record_queue_first(&delivered); pieces++) {
        perform(RECORD_STREAM_DATA, id, 0, piece);
        pump(1);
    }
    assert_true(pieces > 4 && pieces < 1000);
    assert_true(client_is_gone(id));
    close(client);
}

/* A reader that stays behind is cut off long before its output has no room at all. */
TEST_AROUND(it_cuts_off_a_reader_that_stays_behind, open_hasty_server, close_server) {
    static char piece[60001];
    memset(piece, 'x', sizeof piece - 1);
    int client = connect_client(), little = 4096;
    setsockopt(client, SOL_SOCKET, SO_RCVBUF, &little, sizeof little);
    say(client, POST "\r\n");
    struct connection_id id = take_request();
    perform(RECORD_STREAM_BEGIN, id, 0, "");
    for (uint32_t pieces = 0; pieces < 400 && !record_queue_first(&delivered); pieces++) {
        perform(RECORD_STREAM_DATA, id, 0, pieces < 100 ? piece : "x");
        pump(pieces < 100 ? 0 : 50);
    }
    assert_true(client_is_gone(id));
    close(client);
}

/* Nobody could read while the loop stood still: not what was written to him then, nor is he late
 * with what we did not take. */
/* Pooled connections of proxies and clients are used again for as long as they are told. */
TEST_AROUND(an_idle_connection_lasts_as_long_as_it_is_reported, open_server, close_server) {
    options.idle_ms_max = 1000;
    reopen();
    int client = connect_client();
    say(client, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_non_null(strstr(receive(client, "page"), "\r\nKeep-Alive: timeout=1\r\n"));
    int64_t began_ms = now_ms();
    char byte;
    ssize_t got;
    while ((got = recv(client, &byte, 1, 0)) < 0)
        pump(5);
    assert_int_equal(got, 0);
    assert_true(now_ms() - began_ms >= 1000);
    close(client);
}

TEST_AROUND(a_stand_still_counts_against_nobody, open_patient_server, close_server) {
    static char piece[30001], text[1 << 17];
    memset(piece, 'x', sizeof piece - 1);
    int client = connect_client(), late = connect_client(), idle = connect_client();
    say(client, POST "\r\n");
    struct connection_id id = take_request();
    say(late, "POST /x HTTP/1.1\r\n");
    perform(RECORD_STREAM_BEGIN, id, 0, "");
    perform(RECORD_STREAM_DATA, id, 0, "y");
    receive(client, "y");
    pump(200);
    usleep(4000000); /* longer than anybody has time */
    size_t sent = 0, got = 0;
    for (uint32_t i = 0; i < 100; i++, sent += sizeof piece - 1) /* 3 MB at once */
        perform(RECORD_STREAM_DATA, id, 0, piece);
    pump(1);
    say(late, "Host: a\r\nContent-Type: application/json\r\n\r\n");
    while (!record_queue_first(&delivered)) {
        pump(1);
        assert_true(recv(late, text, sizeof text, 0) < 0); /* no refusal */
    }
    assert_int_equal(record_queue_first(&delivered)->kind, RECORD_CLIENT_REQUEST);
    record_queue_drop(&delivered);
    while (got < sent) { /* and the chunks' heads besides */
        pump(1);
        ssize_t some = recv(client, text, sizeof text, 0);
        if (some > 0) got += (size_t)some;
        assert_true(some != 0 && !record_queue_first(&delivered));
    }
    say(idle, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_non_null(strstr(receive(idle, "page"), "200 OK"));
    close(client);
    close(late);
    close(idle);
}

TEST_AROUND(refuses_with_json, open_server, close_server) {
    static const struct {
        const char *request, *status;
    } cases[] = {
        {"nonsense\r\n\r\n", "HTTP/1.1 400 "},
        {POST "Content-Length: 100001\r\n\r\n", "HTTP/1.1 413 "},
        {POST "Transfer-Encoding: chunked\r\n\r\nzz\r\n", "HTTP/1.1 400 "},
        {POST "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "HTTP/1.1 400 "},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        int client = connect_client();
        say(client, cases[i].request);
        receive(client, "}}");
        assert_memory_equal(received, cases[i].status, strlen(cases[i].status));
        assert_non_null(strstr(received, "{\"error\":{\"message\":\""));
        assert_non_null(strstr(received, "Connection: close\r\n"));
        close(client);
    }
    assert_null(record_queue_first(&delivered));
}

TEST_AROUND(refuses_large_heads_and_hears_large_bodies_out, open_server, close_server) {
    static char text[90001];
    memset(text, 'a', sizeof text - 1);
    int client = connect_client();
    say(client, "GET / HTTP/1.1\r\nX: ");
    send(client, text, 8000, MSG_NOSIGNAL);
    assert_non_null(strstr(receive(client, "}}"), "HTTP/1.1 431 "));
    close(client);
    /* The refusal arrives although its client first sends everything: nothing resets it. */
    client = connect_client();
    say(client, POST "Transfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 40; i++) {
        say(client, "15f90\r\n"); /* 90,000 */
        say_bytes(client, text, 90000);
        say(client, "\r\n");
        pump(1);
    }
    assert_non_null(strstr(receive(client, "}}"), "HTTP/1.1 413 "));
    close(client);
}

TEST_AROUND(bounds_the_memory_of_all_bodies, open_server, close_server) {
    static char text[90001];
    int clients[5];
    memset(text, 'a', sizeof text - 1);
    for (int i = 0; i < 5; i++) {
        clients[i] = connect_client();
        say(clients[i], POST "Content-Length: 99999\r\n\r\n");
        say_bytes(clients[i], text, 90000);
    }
    bool refused = false;
    for (int64_t end = now_ms() + PATIENCE_MS; now_ms() < end && !refused;)
        for (int i = 0; i < 5 && !refused; i++)
            refused = strstr(receive_for(clients[i], 20, "}}"), "HTTP/1.1 503 ") != NULL;
    assert_true(refused);
    for (int i = 0; i < 5; i++)
        close(clients[i]);
}

TEST_AROUND(it_closes_slow_senders, open_hasty_server, close_server) {
    int idle = connect_client(), drip = connect_client(), body = connect_client();
    say(body, POST "Content-Length: 50\r\n\r\nx");
    const char *text = "GET / HTTP/1.1\r\nX: aaaaaaaaaaaaaaaaaaaaaa";
    for (size_t i = 0; i < 12; i++) { /* some byte comes every 20 ms; that does not help */
        send(drip, text + i, 1, MSG_NOSIGNAL);
        pump(20);
    }
    assert_non_null(strstr(receive(drip, "}}"), "HTTP/1.1 408 "));
    assert_non_null(strstr(receive(body, "}}"), "HTTP/1.1 408 "));
    receive(idle, NULL);
    assert_true(hung_up && received[0] == 0);
    close(idle);
    close(drip);
    close(body);
}

TEST_AROUND(serves_its_pages, open_server, close_server) {
    int client = connect_client();
    say(client, "GET /?q=1 HTTP/1.1\r\nHost: a\r\n\r\n");
    receive(client, "<p>page");
    assert_non_null(strstr(received, "Content-Security-Policy: default-src 'none';"));
    assert_non_null(strstr(received, "trusted-types dompurify\r\n"));
    char *tag = strstr(received, "ETag: ");
    assert_non_null(tag);
    char request[128];
    snprintf(request, sizeof request, "GET / HTTP/1.1\r\nHost: a\r\nIf-None-Match: %.18s\r\n\r\n",
             tag + 6);
    say(client, request);
    assert_non_null(strstr(receive(client, "\r\n\r\n"), "HTTP/1.1 304 "));
    say(client, "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_non_null(strstr(receive(client, "\r\n\r\n"), "Content-Length: 7\r\n"));
    assert_string_equal(strstr(received, "\r\n\r\n"), "\r\n\r\n");
    assert_string_equal(receive_for(client, 50, "page"), "");
    say(client, "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n\r\n");
    assert_non_null(strstr(receive(client, "}}"), "HTTP/1.1 405 "));
    assert_non_null(strstr(received, "\r\nAllow: GET, HEAD\r\n"));
    close(client);
}

TEST_AROUND(wrong_methods_are_reported_the_right_ones, open_server, close_server) {
    static const struct {
        uint32_t allow;
        const char *header;
    } cases[] = {{1 << HTTP_GET, "\r\nAllow: GET, HEAD\r\n"},
                 {1 << HTTP_POST, "\r\nAllow: POST\r\n"}};
    int client = connect_client();
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        say(client, "OPTIONS /x HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_int_equal(first_request()->method, HTTP_OTHER);
        allow = cases[i].allow;
        perform(RECORD_RESPOND, take_request(), 405, "{ }");
        allow = 0;
        assert_non_null(strstr(receive(client, "{ }"), cases[i].header));
        assert_null(strstr(received, "Access-Control-"));
    }
    close(client);
}

/* The whole answer to one request on a connection of its own. */
static const char *ask(const char *request) {
    int client = connect_client();
    say(client, request);
    receive(client, "}}");
    close(client);
    return received;
}

TEST_AROUND(requests_of_other_sites_are_refused, open_server, close_server) {
    static const struct {
        const char *request, *status, *cure;
    } cases[] = {
        {"GET /x HTTP/1.1\r\nHost: evil.example\r\n\r\n", "HTTP/1.1 421 ", "--allow-host"},
        {"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", "HTTP/1.1 421 ", "--allow-host"},
        {"GET http://evil.example/ HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 421 ", ""},
        {"GET /x HTTP/1.1\r\nHost: a\r\nOrigin: http://b\r\n\r\n", "HTTP/1.1 403 ",
         "--allow-origin"},
        {POST "Origin: null\r\n\r\n", "HTTP/1.1 403 ", "--allow-origin null"},
        {"OPTIONS /x HTTP/1.1\r\nHost: a\r\nOrigin: http://b\r\n\r\n", "HTTP/1.1 403 ",
         "--allow-origin http://b (or '*' for any)"},
        {"POST /x HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 415 ", "application/json"},
        {"POST /x HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}",
         "HTTP/1.1 415 ", ""},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        ask(cases[i].request);
        if (strncmp(received, cases[i].status, strlen(cases[i].status)))
            fail_msg("%s\n%s", cases[i].request, received);
        assert_non_null(strstr(received, cases[i].cure));
        assert_null(strstr(received, "Access-Control-"));
    }
    assert_null(record_queue_first(&delivered));
    int client = connect_client();
    say(client, POST "Origin: http://a\r\n\r\n");
    take_request();
    close(client);
}

TEST_AROUND(an_origin_may_be_let_in, open_server, close_server) {
    options.allow_origins = "http://d,http://b";
    reopen();
    int client = connect_client();
    say(client, "OPTIONS /x HTTP/1.1\r\nHost: a\r\nOrigin: http://b\r\n\r\n");
    assert_non_null(strstr(receive(client, "\r\n\r\n"), "HTTP/1.1 204 "));
    assert_non_null(strstr(received, "Access-Control-Allow-Methods: "));
    say(client, POST "Origin: http://b\r\n\r\n");
    perform(RECORD_RESPOND, take_request(), 200, "{ }");
    assert_non_null(
        strstr(receive(client, "{ }"), "\r\nAccess-Control-Allow-Origin: http://b\r\n"));
    close(client);
    assert_non_null(strstr(ask(POST "Origin: http://c\r\n\r\n"), "HTTP/1.1 403 "));
}

/* ---- clients that hold what others need ---- */

TEST_AROUND(nothing_is_kept_of_an_unwanted_body, open_server, close_server) {
    static char text[60001];
    memset(text, 'a', sizeof text - 1);
    admission = ADMISSION_NO_BODY;
    int client = connect_client();
    say(client, POST "Expect: 100-continue\r\nContent-Length: 99999\r\n\r\n");
    assert_int_equal(first_request()->body_left, 1); /* though none of it has come */
    assert_int_equal(first_request()->body_bytes, 0);
    struct connection_id id = take_request();
    say_bytes(client, text, 60000);
    perform(RECORD_RESPOND, id, 401, "{ }");
    say_bytes(client, text, 39999); /* and all of it is read, so that the answer arrives */
    assert_non_null(strstr(receive(client, NULL), "HTTP/1.1 401 "));
    assert_null(strstr(received, "100 Continue"));
    assert_non_null(strstr(received, "Connection: close\r\n"));
    assert_true(hung_up);
    close(client);
    client = connect_client();
    say(client, POST "Transfer-Encoding: chunked\r\n\r\n");
    assert_int_equal(first_request()->body_left, 1);
    perform(RECORD_RESPOND, take_request(), 401, "{ }");
    receive(client, NULL);
    close(client);
    client = connect_client(); /* without a body the connection stays */
    say(client, "GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_int_equal(first_request()->body_left, 0);
    perform(RECORD_RESPOND, take_request(), 401, "{ }");
    assert_null(strstr(receive(client, "{ }"), "Connection: close"));
    close(client);
}

static int send_half_a_body(void) {
    static char text[50001];
    memset(text, 'a', sizeof text - 1);
    int client = connect_client();
    say(client, POST "Content-Length: 100000\r\n\r\n");
    say_bytes(client, text, 50000);
    return client;
}

static void expect_body(int client, uint32_t bytes) {
    assert_int_equal(first_request()->body_bytes, bytes);
    perform(RECORD_RESPOND, take_request(), 200, "{ }");
    assert_non_null(strstr(receive(client, "{ }"), "HTTP/1.1 200 "));
}

/* Small ones find room at once; a large one as soon as one of those has stood still for a second.
 */
TEST_AROUND(half_sent_bodies_stop_nobody, open_server, close_server) {
    enum { HALVES = 6 }; /* 300,000 bytes: all there is */
    static char text[100001];
    memset(text, 'a', sizeof text - 1);
    int halves[HALVES];
    for (int i = 0; i < HALVES; i++)
        halves[i] = send_half_a_body();
    pump(50);
    int client = connect_client();
    say(client, POST "Content-Length: 5\r\n\r\nhello");
    expect_body(client, 5);
    close(client);
    pump(1100);
    client = connect_client();
    say(client, POST "Content-Length: 100000\r\n\r\n");
    say_bytes(client, text, 100000);
    expect_body(client, 100000);
    close(client);
    int refused = 0;
    for (int i = 0; i < HALVES; i++)
        refused += strstr(receive_for(halves[i], 50, "}}"), "HTTP/1.1 ") != NULL;
    assert_true(refused > 0 && refused < HALVES); /* no more than were in the way */
    for (int i = 0; i < HALVES; i++)
        close(halves[i]);
}

#define PACE_MS 1000

/* A body that takes longer than PACE_MS, but never stands still for that long: true if so. */
static bool sends_slowly(void) {
    static char text[6000];
    int client = connect_client();
    int64_t longest_ms = 0;
    say(client, POST "Content-Length: 96000\r\n\r\n");
    for (int i = 0; i < 16; i++) {
        int64_t began_ms = now_ms();
        send(client, text, sizeof text, MSG_NOSIGNAL);
        pump(PACE_MS / 10);
        if (now_ms() - began_ms > longest_ms) longest_ms = now_ms() - began_ms;
    }
    close(client);
    return longest_ms < PACE_MS / 2;
}

TEST_AROUND(a_body_that_stands_still_ends, open_server, close_server) {
    options.pace_ms_max = PACE_MS;
    reopen();
    int client = send_half_a_body();
    assert_non_null(strstr(receive(client, "}}"), "HTTP/1.1 408 "));
    close(client);
    while (!sends_slowly()) { /* a pause of this machine was in it */
        pump(50);             /* that this client has gone is told, too */
        record_queue_clear(&delivered);
    }
    assert_int_equal(first_request()->body_bytes, 96000);
}

TEST_AROUND(idle_connections_make_way, open_server, close_server) {
    int clients[40];
    for (int i = 0; i < 39; i++)
        clients[i] = connect_client();
    say(clients[0], POST "\r\n"); /* the oldest, but at work */
    struct connection_id id = take_request();
    pump(1100);
    for (int round = 0; round < 3; round++) {
        clients[39] = connect_client();
        say(clients[39], "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_non_null(strstr(receive(clients[39], "page"), "200 OK"));
        close(clients[39]);
        pump(10);
        clients[39] = connect_client();
        pump(10);
        close(clients[39]);
    }
    perform(RECORD_RESPOND, id, 200, "{ }");
    assert_non_null(strstr(receive(clients[0], "{ }"), "HTTP/1.1 200 "));
    int gone = 0;
    for (int i = 1; i < 39; i++) {
        receive_for(clients[i], 2, NULL);
        gone += hung_up;
    }
    assert_true(gone > 0 && gone < 8);
    for (int i = 0; i < 39; i++)
        close(clients[i]);
}

static char large[8000001]; /* an answer: more than the kernel keeps for who does not read */

static int ask_for_much(void) {
    int client = connect_client();
    memset(large, 'x', sizeof large - 1);
    say(client, POST "\r\n");
    perform(RECORD_RESPOND, take_request(), 200, large);
    pump(5);
    return client;
}

/* True if all of it comes. */
static bool comes_whole(int client) {
    static char piece[1 << 16];
    size_t taken = 0;
    for (int64_t end = now_ms() + PATIENCE_MS; now_ms() < end && taken < sizeof large - 1;
         pump(0)) {
        ssize_t some = recv(client, piece, sizeof piece, 0);
        if (some == 0 || (some < 0 && errno != EAGAIN)) break;
        if (some > 0) taken += (size_t)some;
    }
    return taken >= sizeof large - 1;
}

TEST_AROUND(who_does_not_take_its_answer_makes_way, open_server, close_server) {
    for (int places = 0; places < 2; places++) { /* these run out, or memory does */
        options.connections_max = places ? 4 : 40;
        options.answers_bytes_max = places ? SIZE_MAX : sizeof large / 2;
        reopen();
        int first = ask_for_much(), second = ask_for_much();
        pump(1100);
        int third = ask_for_much(), fourth = places ? connect_client() : dup(third);
        pump(20);
        assert_false(comes_whole(first));
        if (places) assert_true(comes_whole(second));
        assert_true(comes_whole(third));
        close(first), close(second), close(third), close(fourth);
    }
}

/* The server was busy for longer than a client may idle, and hears of the newcomer first. */
TEST_AROUND(who_has_sent_is_not_idle, open_server, close_server) {
    int clients[40];
    for (int i = 0; i < 39; i++)
        clients[i] = connect_client();
    pump(50);
    usleep(1100000);
    clients[39] = connect_client();
    for (int i = 0; i < 39; i++)
        say(clients[i], POST "\r\n");
    for (int i = 0; i < 39; i++)
        take_request();
    for (int i = 0; i < 40; i++)
        close(clients[i]);
}

TEST_AROUND(one_address_holds_so_many_idle_ones, open_server, close_server) {
    int clients[12];
    options.connections_per_network = 4;
    reopen();
    for (int i = 0; i < 10; i++)
        clients[i] = connect_client();
    say(clients[0], POST "\r\n");
    struct connection_id id = take_request();
    pump(1100);
    clients[10] = connect_client();
    say(clients[10], "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_non_null(strstr(receive(clients[10], "page"), "200 OK"));
    int left = 0;
    for (int i = 1; i < 10; i++) {
        receive_for(clients[i], 5, NULL);
        left += !hung_up;
    }
    assert_int_equal(left, 3); /* and the one that came */
    perform(RECORD_RESPOND, id, 200, "{ }");
    assert_non_null(strstr(receive(clients[0], "{ }"), "HTTP/1.1 200 "));
    for (int i = 0; i < 11; i++)
        close(clients[i]);
}

TEST_AROUND(asks_for_bodies_that_wait_for_it, open_server, close_server) {
    int client = connect_client();
    say(client, POST "Content-Length: 2\r\nExpect: 100-continue\r\n\r\n");
    assert_string_equal(receive(client, "\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
    say(client, "hi");
    assert_int_equal(first_request()->body_bytes, 2);
    close(client);
}

TEST_AROUND(is_busy_when_the_gateway_is, open_server, close_server) {
    deliver_status = STATUS_FULL;
    int client = connect_client();
    say(client, POST "\r\n");
    assert_non_null(strstr(receive(client, "}}"), "HTTP/1.1 503 "));
    assert_non_null(strstr(received, "Retry-After: "));
    close(client);
}

TEST_AROUND(waits_with_clients_beyond_its_limit, open_server, close_server) {
    int clients[50];
    for (int i = 0; i < 50; i++) {
        clients[i] = connect_client();
        if (i < 40) say(clients[i], POST "\r\n"); /* at work: nobody has to leave */
        if (i < 40) take_request();
    }
    pump(1200);
    say(clients[49], "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_string_equal(receive_for(clients[49], 50, "page"), "");
    for (int i = 0; i < 20; i++)
        close(clients[i]);
    assert_non_null(strstr(receive(clients[49], "page"), "200 OK"));
    for (int i = 20; i < 50; i++)
        close(clients[i]);
}

/* The files that are open now, and `more`. */
static struct rlimit allow_files(rlim_t more) {
    struct rlimit before, limit;
    int lowest = dup(0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    limit = (struct rlimit){(rlim_t)lowest + more, before.rlim_max};
    close(lowest);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    return before;
}

static size_t count_lines(FILE *said, const char *what) {
    char line[512];
    size_t count = 0;
    rewind(said);
    while (fgets(line, sizeof line, said))
        count += strstr(line, what) != NULL;
    return count;
}

/* Who cannot be taken waits, for one line and without turning the processor; later they are. */
TEST_AROUND(waits_with_clients_while_files_are_short, open_server, close_server) {
    int clients[6], own_errors = dup(STDERR_FILENO);
    FILE *said = tmpfile();
    for (int i = 0; i < 6; i++)
        clients[i] = connect_client();
    struct rlimit before = allow_files(2);
    dup2(fileno(said), STDERR_FILENO);
    clock_t began = clock();
    pump(1000);
    clock_t used = clock() - began;
    dup2(own_errors, STDERR_FILENO);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    close(own_errors);
    assert_int_equal(count_lines(said, ""), 1);
    assert_int_equal(count_lines(said, "Too many open files"), 1);
    assert_true(used < CLOCKS_PER_SEC / 2);
    fclose(said);
    for (int i = 0; i < 6; i++) {
        say(clients[i], "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_non_null(strstr(receive(clients[i], "<p>page"), "200 OK"));
        close(clients[i]);
    }
}

TEST_AROUND(says_why_an_address_is_wrong, open_server, close_server) {
    struct http_server *other;
    options.port = 8000;
    options.host = "192.0.2.1"; /* reserved for documentation: never an address of this machine */
    assert_int_equal(http_server_open(&options, base, &other, &error), STATUS_IO);
    assert_non_null(strstr(error.text, "192.0.2.1 port 8000"));
    options.host = "127.0.0.1";
    options.port = (uint32_t)atoi(strrchr(http_server_url(server), ':') + 1);
    assert_int_equal(http_server_open(&options, base, &other, &error), STATUS_IO);
    assert_non_null(strstr(error.text, "--host and --port"));
    options.listener = HTTP_ADMIN;
    assert_int_equal(http_server_open(&options, base, &other, &error), STATUS_IO);
    assert_non_null(strstr(error.text, "--admin-host and --admin-port"));
}
