/* SPDX-License-Identifier: Apache-2.0
 * Protects records between processes: whole, in order, in both directions; back-pressure loses
 * none; a peer that ends is lost once and comes back as another; what is not a record, or not the
 * peer's to send, costs it its connection; a peer of the version before is spoken with in it; keys
 * let in whom they name and nobody else.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#include "base/clock.h"
#include "contract/record_past.h"
#include "contract/record_unit.h"
#include "host/wire/wire.h"

#include "test_case.h"

#define PATIENCE_NS INT64_C(60000000000)

struct side {
    struct wire *wire;
    uint32_t peer, joins, losses, records;
    uint64_t next; /* records are numbered */
    bool holds;    /* takes nothing */
};

static struct event_base *base;
static char folder[64];

static void on_joined(void *context, uint32_t peer) {
    struct side *side = context;
    assert_int_not_equal(peer, side->peer);
    side->peer = peer;
    side->joins++;
}

static void on_record(void *context, uint32_t peer, const struct record *record) {
    struct side *side = context;
    assert_int_equal(peer, side->peer);
    assert_int_equal(((const struct record_cancel *)record)->request.high, side->next++);
    side->records++;
}

static void on_lost(void *context, uint32_t peer) {
    struct side *side = context;
    assert_int_equal(peer, side->peer);
    side->losses++;
}

static bool may_take(void *context) {
    return !((struct side *)context)->holds;
}

static struct wire_options options_of(struct side *side, const char *address, bool listens,
                                      const struct wire_keys *keys) {
    return (struct wire_options){.address = address,
                                 .listens = listens,
                                 .keys = keys,
                                 .kinds = wire_kind(RECORD_CANCEL),
                                 .context = side,
                                 .joined = on_joined,
                                 .take = on_record,
                                 .lost = on_lost,
                                 .may_take = may_take};
}

static void open_side(struct side *side, const char *address, bool listens,
                      const struct wire_keys *keys) {
    struct wire_options options = options_of(side, address, listens, keys);
    struct error error;
    enum status status = wire_open(&options, base, &side->wire, &error);
    if (status) fail_msg("%s", error.text);
}

static void turn(void) {
    struct timeval moment = {.tv_usec = 10000};
    event_base_loopexit(base, &moment);
    event_base_dispatch(base);
}

/* Until the counter has the value. */
static void wait_for(const uint32_t *counter, uint32_t value) {
    for (int64_t end_ns = clock_now_ns() + PATIENCE_NS; *counter < value; turn())
        assert_true(clock_now_ns() < end_ns);
    assert_int_equal(*counter, value);
}

static struct record_cancel numbered(uint64_t number) {
    return (struct record_cancel){record_head(RECORD_CANCEL, sizeof(struct record_cancel)),
                                  {number, 0, 0, 0}};
}

static void send_all(struct side *from, uint64_t first, uint32_t count) {
    for (uint32_t i = 0; i < count;) {
        struct record_cancel record = numbered(first + i);
        enum status status = wire_send(from->wire, from->peer, &record.record);
        if (status == STATUS_OK)
            i++;
        else
            assert_int_equal(status, STATUS_FULL);
        if (status) turn();
    }
}

static void path_in(char out[128], const char *scheme, const char *name) {
    snprintf(out, 128, "%s%s/%s", scheme, folder, name);
}

TEST(records_go_both_ways) {
    char ipc[128];
    path_in(ipc, "ipc://", "both");
    const char *const addresses[] = {ipc, "tcp://127.0.0.1:*"};
    for (int i = 0; i < 2; i++) {
        struct side gateway = {.next = 0}, unit = {.next = 0};
        open_side(&gateway, addresses[i], true, NULL);
        open_side(&unit, wire_address(gateway.wire), false, NULL);
        wait_for(&gateway.joins, 1);
        wait_for(&unit.joins, 1);
        send_all(&gateway, 0, 30000); /* more than queues hold: FULL must keep them whole */
        send_all(&unit, 0, 30000);
        wait_for(&gateway.records, 30000);
        wait_for(&unit.records, 30000);
        wire_close(unit.wire);
        wait_for(&gateway.losses, 1);
        struct record_cancel record = numbered(0);
        assert_int_equal(wire_send(gateway.wire, gateway.peer, &record.record), STATUS_GONE);
        wire_close(gateway.wire);
    }
}

#define STRANGERS 200

struct crowd { /* connections that say nothing */
    int files[STRANGERS];
    struct sockaddr_in address;
    FILE *said; /* what the log says meanwhile */
    int own_errors;
};

static void begin_crowd(struct crowd *crowd, const struct side *gateway) {
    const char *listens = wire_address(gateway->wire);
    crowd->address =
        (struct sockaddr_in){.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)atoi(strrchr(listens, ':') + 1)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    crowd->own_errors = dup(STDERR_FILENO);
    crowd->said = tmpfile();
    for (int i = 0; i < STRANGERS; i++) {
        crowd->files[i] = socket(AF_INET, SOCK_STREAM, 0);
        assert_true(crowd->files[i] >= 0);
    }
    dup2(fileno(crowd->said), STDERR_FILENO);
}

static void come(struct crowd *crowd) {
    for (int i = 0; i < STRANGERS; i++) {
        (void)connect(crowd->files[i], (struct sockaddr *)&crowd->address, sizeof crowd->address);
        if (i % 16 == 0) turn();
    }
}

/* Those that the other side has not ended. */
static uint32_t count_held(const struct crowd *crowd) {
    uint32_t held = 0;
    char byte;
    for (int i = 0; i < STRANGERS; i++) {
        ssize_t count;
        while ((count = recv(crowd->files[i], &byte, 1, MSG_DONTWAIT)) > 0)
            ; /* libzmq greets first */
        held += count < 0 && errno == EAGAIN;
    }
    return held;
}

/* The log has one line, with this text. */
static void end_crowd(struct crowd *crowd, const char *text) {
    char line[512];
    size_t lines = 0;
    dup2(crowd->own_errors, STDERR_FILENO);
    for (rewind(crowd->said); fgets(line, sizeof line, crowd->said); lines++)
        if (!strstr(line, text)) fail_msg("%s", line);
    assert_int_equal(lines, 1);
    fclose(crowd->said);
    close(crowd->own_errors);
    for (int i = 0; i < STRANGERS; i++)
        close(crowd->files[i]);
}

/* Strangers take all the files there may be: one line, no turning processor, the unit that is there
 * stays, and one that comes when they have gone is let in. */
TEST(files_that_run_out_end_no_unit) {
    struct side gateway = {.next = 0}, unit = {.next = 0}, next = {.next = 0};
    struct crowd crowd;
    open_side(&gateway, "tcp://127.0.0.1:*", true, NULL);
    open_side(&unit, wire_address(gateway.wire), false, NULL);
    wait_for(&gateway.joins, 1);
    wait_for(&unit.joins, 1);
    begin_crowd(&crowd, &gateway);
    struct rlimit before, limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    int lowest = dup(0);
    close(lowest);
    limit = (struct rlimit){(rlim_t)lowest + 4, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    come(&crowd);
    clock_t began = clock();
    for (int i = 0; i < 100; i++)
        turn();
    clock_t used = clock() - began;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    end_crowd(&crowd, "Too many open files");
    assert_true(used < CLOCKS_PER_SEC / 2);
    send_all(&unit, 0, 10);
    wait_for(&gateway.records, 10);
    assert_int_equal(gateway.losses, 0);
    wire_close(unit.wire);
    wait_for(&gateway.losses, 1);
    open_side(&next, wire_address(gateway.wire), false, NULL);
    wait_for(&gateway.joins, 2);
    wire_close(next.wire);
    wire_close(gateway.wire);
}

/* Of one address a quarter of all; and whoever has greeted is none of them, however old. */
TEST(strangers_are_few_and_units_are_none_of_them) {
    struct side gateway = {.next = 0}, unit = {.next = 0};
    struct crowd crowd;
    open_side(&gateway, "tcp://127.0.0.1:*", true, NULL);
    open_side(&unit, wire_address(gateway.wire), false, NULL);
    wait_for(&gateway.joins, 1);
    wait_for(&unit.joins, 1);
    begin_crowd(&crowd, &gateway);
    for (int round = 0; round < 3; round++) {
        come(&crowd);
        for (int64_t end_ns = clock_now_ns() + PATIENCE_NS;
             count_held(&crowd) > LIMIT_WIRE_STRANGERS / 4; turn())
            assert_true(clock_now_ns() < end_ns);
    }
    assert_true(count_held(&crowd) > 0);
    end_crowd(&crowd, "connections that do not greet are ended");
    send_all(&unit, 0, 10);
    wait_for(&gateway.records, 10);
    assert_int_equal(gateway.losses, 0);
    wire_close(unit.wire);
    wire_close(gateway.wire);
}

TEST(too_few_files_to_listen_are_an_error) {
    struct side gateway = {.next = 0};
    struct wire_options options = options_of(&gateway, "tcp://127.0.0.1:*", true, NULL);
    struct rlimit before, limit;
    struct error error;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    limit = (struct rlimit){200, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(wire_open(&options, base, &gateway.wire, &error), STATUS_INVALID);
    assert_non_null(strstr(error.text, "may open 200 files"));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(a_side_that_holds_makes_the_other_wait) {
    char address[128];
    path_in(address, "ipc://", "holds");
    struct side gateway = {.holds = false}, unit = {.holds = false};
    open_side(&gateway, address, true, NULL);
    open_side(&unit, address, false, NULL);
    wait_for(&unit.joins, 1);
    wait_for(&gateway.joins, 1);
    gateway.holds = true;
    uint32_t sent = 0;
    for (int64_t quiet_ns = clock_now_ns(); clock_now_ns() - quiet_ns < 300000000; turn()) {
        struct record_cancel record = numbered(sent);
        while (wire_send(unit.wire, unit.peer, &record.record) == STATUS_OK) {
            record = numbered(++sent);
            quiet_ns = clock_now_ns();
            assert_true(sent < 1000000); /* it is bounded */
        }
    }
    assert_int_equal(gateway.records, 0);
    gateway.holds = false;
    wire_resume(gateway.wire);
    wait_for(&gateway.records, sent);
    assert_int_equal(gateway.losses, 0);
    wire_close(unit.wire);
    wire_close(gateway.wire);
}

TEST(a_unit_comes_back_to_another_gateway) {
    char address[128];
    path_in(address, "ipc://", "again");
    struct side gateway = {.next = 0}, unit = {.next = 0};
    open_side(&unit, address, false, NULL); /* before there is one */
    turn();
    open_side(&gateway, address, true, NULL);
    wait_for(&unit.joins, 1);
    wait_for(&gateway.joins, 1);
    wire_close(gateway.wire);
    wait_for(&unit.losses, 1);
    struct side next = {.next = 7};
    open_side(&next, address, true, NULL);
    wait_for(&unit.joins, 2);
    wait_for(&next.joins, 1);
    send_all(&unit, 7, 1);
    wait_for(&next.records, 1);
    wire_close(next.wire);
    wire_close(unit.wire);
}

/* A peer that speaks ZeroMQ and says what it likes. */
static void *stranger(void *zmq, const char *address) {
    const int zero = 0;
    void *socket = zmq_socket(zmq, ZMQ_DEALER);
    zmq_setsockopt(socket, ZMQ_LINGER, &zero, sizeof zero);
    assert_int_equal(zmq_connect(socket, address), 0);
    return socket;
}

static void say(void *socket, const void *data, size_t bytes) {
    assert_int_equal(zmq_send(socket, data, bytes, 0), (int)bytes);
}

/* What the other side says last; skips its greeting and signs of life. */
static void expect_farewell(void *socket, const char *reason) {
    char text[512];
    for (int64_t end_ns = clock_now_ns() + PATIENCE_NS;;) {
        assert_true(clock_now_ns() < end_ns);
        int bytes = zmq_recv(socket, text, sizeof text - 1, ZMQ_DONTWAIT);
        if (bytes < 8 || memcmp(text, "FATHOMBY", 8) != 0) {
            turn();
            continue;
        }
        text[bytes] = 0;
        assert_non_null(strstr(text + 8, reason));
        return;
    }
}

struct greeting {
    char magic[8];
    uint32_t greeting, records;
    char version[24];
};

/* The next message of that size that a stranger gets. */
static void take_sized(void *socket, void *out, size_t bytes) {
    for (int64_t end_ns = clock_now_ns() + PATIENCE_NS;;) {
        char message[512];
        assert_true(clock_now_ns() < end_ns);
        int count = zmq_recv(socket, message, sizeof message, ZMQ_DONTWAIT);
        if (count < 0) turn();
        if (count != (int)bytes) continue;
        memcpy(out, message, bytes);
        return;
    }
}

/* As a process of the release before says and wants it. */
TEST(a_unit_of_the_version_before_is_understood) {
    struct greeting greeting = {"FATHOMGW", 1, record_past.version, "0.0.9"}, answer;
    struct record_cancel cancel = numbered(0);
    cancel.record.version = record_past.version;
    struct side gateway = {.next = 0};
    open_side(&gateway, "tcp://127.0.0.1:*", true, NULL);
    void *zmq = zmq_ctx_new(), *socket = stranger(zmq, wire_address(gateway.wire));
    say(socket, &greeting, sizeof greeting);
    take_sized(socket, &answer, sizeof answer);
    assert_int_equal(answer.records, record_past.version);
    wait_for(&gateway.joins, 1);
    say(socket, &cancel, sizeof cancel);
    wait_for(&gateway.records, 1);
    struct record_drain drain = {.one_rank = 1, .rank = 2, .pid = 9}, received = {.rank = 0};
    record_set_head(&drain, RECORD_DRAIN);
    assert_int_equal(wire_send(gateway.wire, gateway.peer, &drain.record), STATUS_OK);
    take_sized(socket, &received, sizeof received);
    assert_true(received.record.version == record_past.version && received.rank == 2);
    assert_int_equal(received.record.bytes, sizeof received);
    cancel.record.version = RECORD_VERSION; /* which it does not speak here */
    say(socket, &cancel, sizeof cancel);
    expect_farewell(socket, "an invalid record");
    wait_for(&gateway.losses, 1);
    zmq_close(socket);
    zmq_ctx_term(zmq);
    wire_close(gateway.wire);
}

/* Name and message of whoever has just connected. */
static size_t take_routed(void *socket, char name[16], void *message, size_t room) {
    for (int64_t end_ns = clock_now_ns() + PATIENCE_NS;;) {
        assert_true(clock_now_ns() < end_ns);
        int bytes = zmq_recv(socket, name, 16, ZMQ_DONTWAIT);
        if (bytes < 0) {
            turn();
            continue;
        }
        int count = zmq_recv(socket, message, room, 0);
        if (count > 0) return (size_t)bytes; /* else a sign of life */
    }
}

static void answer_routed(void *socket, const char *name, size_t name_bytes, const void *data,
                          size_t bytes) {
    assert_int_equal(zmq_send(socket, name, name_bytes, ZMQ_SNDMORE), (int)name_bytes);
    assert_int_equal(zmq_send(socket, data, bytes, 0), (int)bytes);
}

/* It knows nothing of ours and refuses us; then it is greeted as it greets. */
TEST(a_gateway_of_the_version_before_is_spoken_with) {
    struct greeting own = {"FATHOMGW", 1, record_past.version, "0.0.9"}, theirs;
    struct {
        char magic[8], why[248];
    } farewell = {"FATHOMBY", "run the same on both sides"};
    memcpy(farewell.magic, "FATHOMBY", 8);
    char address[128], name[16];
    size_t address_bytes = sizeof address;
    void *zmq = zmq_ctx_new(), *router = zmq_socket(zmq, ZMQ_ROUTER);
    const int zero = 0;
    zmq_setsockopt(router, ZMQ_LINGER, &zero, sizeof zero);
    assert_int_equal(zmq_bind(router, "tcp://127.0.0.1:*"), 0);
    zmq_getsockopt(router, ZMQ_LAST_ENDPOINT, address, &address_bytes);
    struct side unit = {.next = 0};
    open_side(&unit, address, false, NULL);
    size_t bytes = take_routed(router, name, &theirs, sizeof theirs);
    assert_int_equal(theirs.records, RECORD_VERSION);
    answer_routed(router, name, bytes, &own, sizeof own);
    answer_routed(router, name, bytes, &farewell, sizeof farewell);
    bytes = take_routed(router, name, &theirs, sizeof theirs);
    assert_int_equal(theirs.records, record_past.version);
    answer_routed(router, name, bytes, &own, sizeof own);
    wait_for(&unit.joins, 1);
    struct record_cancel cancel = numbered(0), received;
    assert_int_equal(wire_send(unit.wire, unit.peer, &cancel.record), STATUS_OK);
    bytes = take_routed(router, name, &received, sizeof received);
    assert_true(received.record.version == record_past.version && received.request.high == 0);
    answer_routed(router, name, bytes, &received, sizeof received);
    wait_for(&unit.records, 1);
    wire_close(unit.wire);
    zmq_close(router);
    zmq_ctx_term(zmq);
}

TEST(what_is_no_record_costs_the_connection) {
    struct greeting greeting = {"FATHOMGW", 1, RECORD_VERSION, "0.1.0"}, old = greeting;
    memcpy(greeting.magic, "FATHOMGW", 8);
    memcpy(old.magic, "FATHOMGW", 8);
    old.records = 900;
    struct record_cancel good = numbered(0), torn = good;
    torn.record.bytes = 4000;
    struct record_drain foreign = {.record = record_head(RECORD_DRAIN, sizeof foreign)};
    struct side gateway = {.next = 0};
    open_side(&gateway, "tcp://127.0.0.1:*", true, NULL);
    void *zmq = zmq_ctx_new();
    const struct {
        const void *data;
        size_t bytes;
        const char *reason;
        bool greets;
    } cases[] = {{"hello", 5, "does not greet", false},
                 {&good, sizeof good, "does not greet", false},
                 {&old, sizeof old, "records of version 900", false},
                 {&torn, sizeof torn, "an invalid record", true},
                 {&foreign, sizeof foreign, "not its to send", true},
                 {"abc", 3, "an invalid record", true}};
    uint32_t joins = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        void *socket = stranger(zmq, wire_address(gateway.wire));
        if (cases[i].greets) {
            say(socket, &greeting, sizeof greeting);
            wait_for(&gateway.joins, ++joins);
        }
        say(socket, cases[i].data, cases[i].bytes);
        expect_farewell(socket, cases[i].reason);
        assert_int_equal(gateway.losses, joins);
        say(socket, &good, sizeof good); /* to a deaf ear */
        turn();
        zmq_close(socket);
    }
    assert_int_equal(gateway.records, 0);
    zmq_ctx_term(zmq);
    wire_close(gateway.wire);
}

static void keys_of(struct wire_keys *keys, const char *name, const char *allowed,
                    const char *gateway) {
    char secret[128], allowed_path[128], gateway_path[128];
    struct error error = {""};
    path_in(secret, "", name);
    strcat(secret, ".secret");
    path_in(allowed_path, "", allowed ? allowed : "");
    path_in(gateway_path, "", gateway ? gateway : "");
    enum status status = wire_keys_open(secret, allowed ? allowed_path : NULL,
                                        gateway ? gateway_path : NULL, keys, &error);
    if (status) fail_msg("%s", error.text);
}

TEST(keys_let_in_whom_they_name) {
    struct error error;
    const char *const names[] = {"gateway", "unit", "stranger"};
    for (int i = 0; i < 3; i++) {
        char name[128];
        path_in(name, "", names[i]);
        assert_int_equal(wire_keys_generate(name, &error), STATUS_OK);
    }
    struct wire_keys of_gateway, of_unit, of_stranger, of_lost;
    keys_of(&of_gateway, "gateway", "unit.public", NULL);
    keys_of(&of_unit, "unit", NULL, "gateway.public");
    keys_of(&of_stranger, "stranger", NULL, "gateway.public");
    keys_of(&of_lost, "unit", NULL, "stranger.public");
    struct side gateway = {.next = 0}, unit = {.next = 0}, other = {.next = 0};
    open_side(&gateway, "tcp://127.0.0.1:*", true, &of_gateway);
    const char *address = wire_address(gateway.wire);
    const struct wire_keys *const wrong[] = {&of_stranger, &of_lost, NULL};
    struct side outside[3] = {{.next = 0}};
    for (int i = 0; i < 3; i++)
        open_side(&outside[i], address, false, wrong[i]);
    open_side(&unit, address, false, &of_unit);
    wait_for(&unit.joins, 1);
    send_all(&unit, 0, 10);
    wait_for(&gateway.records, 10);
    for (int i = 0; i < 30; i++)
        turn();
    assert_int_equal(gateway.joins, 1);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(outside[i].joins, 0);
        wire_close(outside[i].wire);
    }
    wire_close(unit.wire);
    wire_close(gateway.wire);
    wire_keys_close(&of_gateway);
    wire_keys_close(&of_unit);
    wire_keys_close(&of_stranger);
    wire_keys_close(&of_lost);
    (void)other;
}

TEST(an_address_that_cannot_be_opened_is_an_error) {
    struct error error;
    struct side gateway = {.next = 0};
    struct wire_options options = options_of(&gateway, "ipc:///nowhere/at/all", true, NULL);
    assert_int_equal(wire_open(&options, base, &gateway.wire, &error), STATUS_IO);
}

static int set_up(void **state) {
    snprintf(folder, sizeof folder, "/tmp/fathom-test-wire-XXXXXX");
    base = event_base_new();
    return base && mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state) {
    char command[128];
    event_base_free(base);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

TEST_GROUP(set_up, tear_down)
