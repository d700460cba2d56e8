/* SPDX-License-Identifier: Apache-2.0
 * Protects clients of the HTTP server from one that has most of its places: that one makes way at
 * once, a request counts for a key or an address, and one that waits may be dropped, since its
 * client has left or for another client's.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "host/http/http_server.h"
#include "host/wire/record_queue.h"
#include "test_case.h"

static struct event_base *base;
static struct http_server *server;
static struct record_queue delivered = {.bytes_max = SIZE_MAX};
static enum admission admission;

static enum status deliver(void *context, const struct record *record) {
    record_queue_force(&delivered, record);
    return STATUS_OK;
}

static enum admission admit(void *context, const struct record_client_request *head) {
    return admission;
}

static int open_server(void **state) {
    struct http_server_options options;
    struct error error;
    http_server_defaults(&options);
    options.port = 0;
    options.host_allowlist = "a";
    options.deliver = deliver;
    options.admit = admit;
    options.connections_max = 4;
    admission = ADMISSION_KEYLESS;
    base = event_base_new();
    if (http_server_open(&options, base, &server, &error)) return -1;
    return http_server_start(server, &error) ? -1 : 0;
}

static int close_server(void **state) {
    http_server_close(server);
    record_queue_clear(&delivered);
    event_base_free(base);
    return 0;
}

/* From 127.0.0.`host`. */
static int connect_from(uint32_t host) {
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)atoi(strrchr(http_server_url(server), ':') + 1)),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in from = {.sin_family = AF_INET,
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + host)};
    int client = socket(AF_INET, SOCK_STREAM, 0);
    check(bind(client, (struct sockaddr *)&from, sizeof from) == 0);
    check(connect(client, (struct sockaddr *)&address, sizeof address) == 0);
    fcntl(client, F_SETFL, O_NONBLOCK);
    return client;
}

static void say(int client, const char *text) {
    check(send(client, text, strlen(text), MSG_NOSIGNAL) == (ssize_t)strlen(text));
}

static struct connection_id take_record(enum record_kind kind) {
    while (!record_queue_first(&delivered))
        event_base_loop(base, EVLOOP_ONCE);
    const struct record *record = record_queue_first(&delivered);
    assert_int_equal(record->kind, kind);
    struct connection_id id = kind == RECORD_CLIENT_GONE
                                  ? ((const struct record_client_gone *)record)->connection
                                  : ((const struct record_client_request *)record)->connection;
    record_queue_drop(&delivered);
    return id;
}

static struct connection_id take_request(void) {
    return take_record(RECORD_CLIENT_REQUEST);
}

static bool client_is_gone(struct connection_id id) {
    return take_record(RECORD_CLIENT_GONE).value == id.value;
}

static void wait_for_answer(int client, const char *start) {
    char text[4096] = "";
    while (recv(client, text, sizeof text - 1, 0) <= 0)
        event_base_loop(base, EVLOOP_NONBLOCK);
    assert_memory_equal(text, start, strlen(start));
}

#define POST "POST /v1/x HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"

/* Its connections have just come, so nobody would have to leave yet. */
TEST_AROUND(a_crowd_of_one_address_makes_way_at_once, open_server, close_server) {
    int crowd[3], closed = 0;
    char byte;
    for (int i = 0; i < 3; i++)
        crowd[i] = connect_from(1);
    int other = connect_from(2);
    say(other, POST "Content-Length: 0\r\n\r\n");
    (void)take_request();
    for (int i = 0; i < 3; i++)
        closed += recv(crowd[i], &byte, 1, 0) == 0;
    assert_int_equal(closed, 1);
    for (int i = 0; i < 3; i++)
        close(crowd[i]);
    close(other);
}

TEST_AROUND(a_request_counts_for_its_key_or_its_address, open_server, close_server) {
    admission = ADMISSION_KNOWN;
    int one = connect_from(1), same = connect_from(2), stranger = connect_from(1);
    say(one, POST "Authorization: Bearer k\r\nContent-Length: 0\r\n\r\n");
    struct connection_id first = take_request();
    say(same, POST "x-api-key: k\r\nContent-Length: 0\r\n\r\n");
    struct connection_id second = take_request();
    admission = ADMISSION_KEYLESS;
    say(stranger, POST "Authorization: Bearer k\r\nContent-Length: 0\r\n\r\n");
    struct connection_id third = take_request();
    uint64_t client = http_server_client(server, first);
    assert_true(client != 0 && client == http_server_client(server, second));
    assert_true(client != http_server_client(server, third));
    assert_true(http_server_client(server, (struct connection_id){1}) == 0);
    close(one);
    close(same);
    close(stranger);
}

TEST_AROUND(a_waiting_request_may_be_dropped, open_server, close_server) {
    int leaver = connect_from(1), waiter = connect_from(1);
    say(leaver, POST "Content-Length: 0\r\n\r\n");
    struct connection_id left = take_request();
    say(waiter, POST "Content-Length: 0\r\n\r\n");
    struct connection_id waits = take_request();
    assert_false(http_server_close_left(server, left));
    close(leaver);
    while (!http_server_close_left(server, left)) /* before the server's loop has seen it */
        ;
    assert_true(client_is_gone(left));
    assert_false(http_server_close_left(server, left));
    assert_false(http_server_refuse_waiting(server, left));
    assert_true(http_server_refuse_waiting(server, waits));
    wait_for_answer(waiter, "HTTP/1.1 503");
    assert_int_equal(http_server_open_exchanges(server), 0);
    say(waiter, POST "Content-Length: 0\r\n\r\n"); /* the connection goes on */
    (void)take_request();
    close(waiter);
}
