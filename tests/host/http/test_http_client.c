/* SPDX-License-Identifier: Apache-2.0
 * Protects the client for load: answers come whole by length or in chunks, one after another over a
 * kept connection, which is opened again without a word where the server has closed it; each way in
 * which an answer fails has its name. The server is a thread that says what a script has.
 */
#include "host/http/http_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "test_case.h"

#define HELLO "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
#define CHUNKS                                                                                     \
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"
#define SILENCE "" /* until the client gives up */

enum { CONNECTIONS_MAX = 3, REPLIES_MAX = 3 };

/* Of each connection, what is said to each request; then it is closed. */
typedef const char *script_lines[CONNECTIONS_MAX][REPLIES_MAX];

struct server {
    int listener;
    script_lines *script;
    pthread_t thread;
};

/* One request, which has come when its body, "{}", or its head, without one, has. */
static bool read_request(int socket) {
    char text[1000] = "";
    for (size_t used = 0; !strstr(text, "\r\n\r\n{}") && strncmp(text, "GET", 3) != 0;) {
        ssize_t count = recv(socket, text + used, sizeof text - 1 - used, 0);
        if (count <= 0) return false;
        used += (size_t)count;
    }
    return true;
}

static void *serve(void *context) {
    struct server *server = context;
    for (int i = 0; i < CONNECTIONS_MAX && (*server->script)[i][0]; i++) {
        int socket = accept(server->listener, NULL, NULL);
        if (socket < 0) break;
        for (int k = 0; k < REPLIES_MAX && (*server->script)[i][k]; k++) {
            const char *reply = (*server->script)[i][k];
            if (!read_request(socket)) break;
            if (!reply[0]) read_request(socket);
            send(socket, reply, strlen(reply), MSG_NOSIGNAL);
        }
        close(socket);
    }
    return NULL;
}

static void server_open(struct server *server, script_lines *script, char url[64]) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t bytes = sizeof address;
    *server = (struct server){socket(AF_INET, SOCK_STREAM, 0), script, 0};
    assert_int_equal(bind(server->listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(getsockname(server->listener, (struct sockaddr *)&address, &bytes), 0);
    snprintf(url, 64, "http://127.0.0.1:%u/v1", ntohs(address.sin_port));
    if (!script) return; /* nobody listens */
    assert_int_equal(listen(server->listener, 8), 0);
    assert_int_equal(pthread_create(&server->thread, NULL, serve, server), 0);
}

static void server_close(struct server *server) {
    shutdown(server->listener, SHUT_RDWR);
    if (server->script) pthread_join(server->thread, NULL);
    close(server->listener);
}

struct asker {
    struct http_client *client;
    uint32_t left; /* requests */
    bool leaves;   /* as soon as something comes */
    char seen[400];
};

static void note(struct asker *asker, const char *text, size_t count) {
    size_t used = strlen(asker->seen);
    assert_true(used + count < sizeof asker->seen);
    memcpy(asker->seen + used, text, count);
}

static void on_head(void *context, uint32_t connection, uint32_t http_status) {
    char text[16];
    snprintf(text, sizeof text, "%u ", http_status);
    note(context, text, strlen(text));
}

static void on_data(void *context, uint32_t connection, struct bytes data) {
    struct asker *asker = context;
    note(asker, data.data, data.count);
    if (asker->leaves) http_client_leave(asker->client, connection);
}

static void ask(struct asker *asker) {
    struct bytes body = asker->left % 2 ? bytes_of("{}") : (struct bytes){NULL, 0};
    asker->left--;
    assert_int_equal(http_client_send(asker->client, 0, "/x", body), STATUS_OK);
}

static void on_end(void *context, uint32_t connection, enum http_end end) {
    static const char *const names[] = {" whole;", " no connection;", " broken;", " timeout;",
                                        " left;"};
    struct asker *asker = context;
    note(asker, names[end], strlen(names[end]));
    if (asker->left)
        ask(asker);
    else
        http_client_stop(asker->client);
}

/* Asks so many times, and asserts what came: each answer's status, data and end. */
static void assert_seen(script_lines *script, uint32_t requests, bool leaves,
                        const char *expected) {
    struct server server;
    struct asker asker = {.left = requests, .leaves = leaves};
    struct error error;
    char url[64];
    server_open(&server, script, url);
    struct http_client_options options = {.url = url,
                                          .connections_max = 1,
                                          .stall_ms_max = strstr(expected, "timeout") ? 50 : 60000,
                                          .head = on_head,
                                          .data = on_data,
                                          .end = on_end,
                                          .context = &asker};
    assert_int_equal(http_client_open(&options, &asker.client, &error), STATUS_OK);
    ask(&asker);
    http_client_run(asker.client);
    http_client_close(asker.client);
    server_close(&server);
    assert_string_equal(asker.seen, expected);
}

TEST(answers_come_one_after_another_by_length_and_in_chunks) {
    assert_seen(&(script_lines){{HELLO, CHUNKS, HELLO}}, 3, false,
                "200 hello whole;200 hello whole;200 hello whole;");
}

TEST(a_kept_connection_that_was_closed_is_opened_again) {
    assert_seen(&(script_lines){{HELLO}, {CHUNKS}, {HELLO}}, 3, false,
                "200 hello whole;200 hello whole;200 hello whole;");
}

TEST(an_answer_that_ends_too_early_or_is_none_is_broken) {
    assert_seen(&(script_lines){{"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello"}}, 1, false,
                "200 hello broken;");
    assert_seen(&(script_lines){{"SMTP ready\r\n\r\n"}}, 1, false, " broken;");
}

TEST(who_is_not_there_or_says_nothing_is_named) {
    assert_seen(NULL, 1, false, " no connection;");
    assert_seen(&(script_lines){{SILENCE}}, 1, false, " timeout;");
}

TEST(a_client_may_leave_in_the_middle_and_ask_again) {
    assert_seen(&(script_lines){{"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello"}, {HELLO}}, 2,
                true, "200 hello left;200 hello left;");
}

TEST(a_url_that_leads_nowhere_is_refused) {
    static const char *const urls[] = {"https://a", "http://", "http://a:99999", "127.0.0.1"};
    for (size_t i = 0; i < ARRAY_COUNT(urls); i++) {
        struct http_client_options options = {.url = urls[i], .connections_max = 1};
        struct http_client *client;
        struct error error;
        assert_int_not_equal(http_client_open(&options, &client, &error), STATUS_OK);
        assert_true(error.text[0]);
    }
}
