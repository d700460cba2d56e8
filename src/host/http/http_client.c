/* SPDX-License-Identifier: Apache-2.0 */
#include "host/http/http_client.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "host/http/http_answer.h"
#include "host/http/http_message.h"
#include "host/process/file_limit.h"

#define HEAD_BYTES_MAX ((size_t)64 << 10)
#define NAME_BYTES_MAX 256

struct client_connection {
    struct http_client *client;
    struct bufferevent *socket; /* NULL: not connected */
    char *request;              /* head and body of the current request; NULL: idle */
    size_t request_bytes;
    const struct addrinfo *address; /* address being tried */
    bool connecting, reused;        /* reused: this request uses a kept connection */
    bool answered;                  /* a byte of the response was received */
    bool in_body;
    bool leaving;
    struct http_answer_head head;
    struct http_chunks chunks;
    uint64_t body_left;
};

struct http_client {
    struct http_client_options options;
    struct event_base *base;
    struct event *wake;
    struct addrinfo *addresses;
    const struct addrinfo *working;        /* address of the last successful connection */
    struct client_connection *connections; /* [connections_max] */
    char name[NAME_BYTES_MAX + 16], prefix[NAME_BYTES_MAX];
};

/* ---- one connection ---- */

static uint32_t http_client_index_of(const struct client_connection *connection) {
    return (uint32_t)(connection - connection->client->connections);
}

static void http_client_disconnect(struct client_connection *connection) {
    if (connection->socket) bufferevent_free(connection->socket);
    connection->socket = NULL;
    connection->connecting = false;
}

/* Ends the request. The caller may begin the next one before this returns. */
static void http_client_finish(struct client_connection *connection, enum http_end end) {
    struct http_client *client = connection->client;
    if (end != HTTP_END_WHOLE || !connection->head.keep_alive) http_client_disconnect(connection);
    free(connection->request);
    connection->request = NULL;
    client->options.end(client->options.context, http_client_index_of(connection), end);
}

/* Passes received bytes of the body to the caller. Returns true if the body is complete.
 * *broken_out: invalid chunks. */
static bool take_body(struct client_connection *connection, struct evbuffer *input,
                      bool *broken_out) {
    const struct http_client_options *options = &connection->client->options;
    uint32_t index = http_client_index_of(connection);
    struct evbuffer_iovec run;
    while (!connection->leaving && evbuffer_peek(input, -1, NULL, &run, 1) > 0 && run.iov_len) {
        struct bytes text = {run.iov_base, run.iov_len}, piece = text;
        size_t taken = text.count;
        if (connection->head.chunked) {
            taken = http_message_chunks_take(&connection->chunks, text, &piece);
        } else if (connection->head.has_length) {
            if (taken > connection->body_left) taken = (size_t)connection->body_left;
            piece.count = taken;
            connection->body_left -= taken;
        }
        if (piece.count) options->data(options->context, index, piece);
        evbuffer_drain(input, taken);
        if (connection->chunks.broken) *broken_out = true;
        if (connection->chunks.broken || connection->chunks.done || taken == 0) break;
    }
    return connection->head.chunked ? connection->chunks.done
                                    : connection->head.has_length && connection->body_left == 0;
}

/* Parses the head. Returns false if it is not HTTP. If the head is incomplete, in_body stays
 * false. */
static bool http_client_take_head(struct client_connection *connection, struct evbuffer *input) {
    const struct http_client_options *options = &connection->client->options;
    while (!connection->in_body) {
        size_t there = evbuffer_get_length(input);
        if (there > HEAD_BYTES_MAX) there = HEAD_BYTES_MAX;
        const char *data = (const char *)evbuffer_pullup(input, (ssize_t)there);
        size_t bytes = data ? http_message_head_bytes((struct bytes){data, there}, 0) : 0;
        if (bytes == 0) return there < HEAD_BYTES_MAX;
        if (!http_answer_read_head((struct bytes){data, bytes}, &connection->head)) return false;
        evbuffer_drain(input, bytes);
        /* else "100 Continue" or another interim response */
        connection->in_body = connection->head.status >= 200;
    }
    connection->body_left = connection->head.body_bytes;
    connection->chunks = (struct http_chunks){0};
    options->head(options->context, http_client_index_of(connection), connection->head.status);
    return true;
}

static void on_read(struct bufferevent *socket, void *context) {
    struct client_connection *connection = context;
    struct evbuffer *input = bufferevent_get_input(socket);
    if (!connection->request) { /* bytes without a request */
        http_client_disconnect(connection);
        return;
    }
    connection->answered = true;
    bool broken = false, whole = false;
    if (!connection->in_body && !http_client_take_head(connection, input)) broken = true;
    if (!broken && connection->in_body) whole = take_body(connection, input, &broken);
    if (connection->leaving)
        http_client_finish(connection, HTTP_END_LEFT);
    else if (broken)
        http_client_finish(connection, HTTP_END_BROKEN);
    else if (whole)
        http_client_finish(connection, HTTP_END_WHOLE);
}

static bool http_client_connect_to(struct client_connection *connection,
                                   const struct addrinfo *address);

static void http_client_write_request(struct client_connection *connection) {
    bufferevent_write(connection->socket, connection->request, connection->request_bytes);
}

static void on_event(struct bufferevent *socket, short what, void *context) {
    struct client_connection *connection = context;
    struct http_client *client = connection->client;
    if (what & BEV_EVENT_CONNECTED) {
        int yes = 1;
        setsockopt(bufferevent_getfd(socket), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        connection->connecting = false;
        client->working = connection->address;
        return;
    }
    bool was_connecting = connection->connecting;
    bool stale = connection->reused && !connection->answered && !(what & BEV_EVENT_TIMEOUT);
    bool ends_here = connection->in_body && !connection->head.chunked &&
                     !connection->head.has_length && (what & BEV_EVENT_EOF);
    http_client_disconnect(connection);
    if (!connection->request) return;
    if (stale) {
        connection->reused = false;
        if (http_client_connect_to(connection, client->working)) return;
        was_connecting = true;
    }
    while (was_connecting && connection->address && connection->address->ai_next)
        if (http_client_connect_to(connection, connection->address->ai_next)) return;
    http_client_finish(connection, ends_here                  ? HTTP_END_WHOLE
                                   : was_connecting           ? HTTP_END_NO_CONNECTION
                                   : what & BEV_EVENT_TIMEOUT ? HTTP_END_TIMEOUT
                                                              : HTTP_END_BROKEN);
}

/* Connects and sends the request. Returns false if no socket could be created. */
static bool http_client_connect_to(struct client_connection *connection,
                                   const struct addrinfo *address) {
    struct http_client *client = connection->client;
    uint32_t ms = client->options.stall_ms_max;
    struct timeval stall = {(time_t)(ms / 1000), (suseconds_t)(ms % 1000 * 1000)};
    connection->address = address;
    connection->socket =
        bufferevent_socket_new(client->base, -1, BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS);
    if (!connection->socket) return false;
    bufferevent_setcb(connection->socket, on_read, NULL, on_event, connection);
    bufferevent_set_timeouts(connection->socket, &stall, &stall);
    bufferevent_enable(connection->socket, EV_READ | EV_WRITE);
    connection->connecting = true;
    http_client_write_request(connection);
    if (bufferevent_socket_connect(connection->socket, address->ai_addr,
                                   (int)address->ai_addrlen) == 0)
        return true;
    http_client_disconnect(connection);
    return false;
}

enum status http_client_send(struct http_client *client, uint32_t connection_index,
                             const char *path, struct bytes body) {
    check(connection_index < client->options.connections_max);
    struct client_connection *connection = &client->connections[connection_index];
    check(!connection->request);
    const char *key = client->options.bearer;
    size_t room = 3 * (size_t)NAME_BYTES_MAX + strlen(path) + body.count + 256;
    if (key) room += strlen(key);
    char *request = malloc(room);
    if (!request) return STATUS_NO_MEMORY;
    int head = snprintf(request, room, "%s %s%s HTTP/1.1\r\nHost: %s\r\nAccept: */*\r\n",
                        body.data ? "POST" : "GET", client->prefix, path, client->name + 7);
    if (key)
        head += snprintf(request + head, room - (size_t)head, "Authorization: Bearer %s\r\n", key);
    if (body.data)
        head += snprintf(request + head, room - (size_t)head,
                         "Content-Type: application/json\r\nContent-Length: %zu\r\n", body.count);
    memcpy(request + head, "\r\n", 2);
    if (body.data) memcpy(request + head + 2, body.data, body.count);
    connection->request = request;
    connection->request_bytes = (size_t)head + 2 + body.count;
    connection->answered = connection->in_body = connection->leaving = false;
    connection->head = (struct http_answer_head){0};
    connection->reused = connection->socket != NULL;
    if (connection->reused) {
        http_client_write_request(connection);
        return STATUS_OK;
    }
    if (http_client_connect_to(connection, client->working)) return STATUS_OK;
    free(request);
    connection->request = NULL;
    return STATUS_NO_MEMORY;
}

/* ---- the client ---- */

static enum status bad_url(const char *url, const char *why, struct error *error) {
    return error_set(error, STATUS_INVALID, "'%.200s' %s; expected http://HOST[:PORT]", url, why);
}

/* Parses http://HOST[:PORT][/prefix]. A final /v1 is removed from the prefix, because paths contain
 * it. */
static enum status read_url(const char *url, struct http_client *client, char host[NAME_BYTES_MAX],
                            char port[8], struct error *error) {
    if (strncmp(url, "https://", 8) == 0)
        return bad_url(url,
                       "asks for TLS, which this client does not speak: go through `ssh -L "
                       "8000:127.0.0.1:8000 HOST`, or a proxy on this machine (`caddy "
                       "reverse-proxy --from :8000 --to https://HOST --change-host-header`), and "
                       "name http://127.0.0.1:8000",
                       error);
    if (strncmp(url, "http://", 7) != 0) return bad_url(url, "is not an http URL", error);
    const char *at = url + 7;
    size_t whole = strcspn(at, "/?#"), host_bytes = strcspn(at, ":/?#");
    if (at[0] == '[') { /* an IPv6 address */
        const char *end = strchr(at, ']');
        if (!end) return bad_url(url, "has no ']'", error);
        host_bytes = (size_t)(end - at) + 1;
        whole = host_bytes + strcspn(end + 1, "/?#");
    }
    if (host_bytes == 0 || whole >= NAME_BYTES_MAX) return bad_url(url, "names no host", error);
    const char *number = at[host_bytes] == ':' ? at + host_bytes + 1 : "80";
    size_t digits = strspn(number, "0123456789");
    if (at[host_bytes] == ':' && (digits == 0 || digits > 5 || number + digits != at + whole))
        return bad_url(url, "has a wrong port", error);
    bool bracket = at[0] == '[';
    snprintf(host, NAME_BYTES_MAX, "%.*s", (int)(host_bytes - (bracket ? 2 : 0)), at + bracket);
    snprintf(port, 8, "%.*s", (int)digits, number);
    snprintf(client->name, sizeof client->name, "http://%.*s", (int)whole, at);
    snprintf(client->prefix, sizeof client->prefix, "%.*s", (int)strcspn(at + whole, "?#"),
             at + whole);
    size_t prefix = strlen(client->prefix);
    while (prefix && client->prefix[prefix - 1] == '/')
        client->prefix[--prefix] = 0;
    if (prefix >= 3 && !strcmp(client->prefix + prefix - 3, "/v1")) client->prefix[prefix - 3] = 0;
    return STATUS_OK;
}

static enum status http_client_resolve(struct http_client *client, struct error *error) {
    char host[NAME_BYTES_MAX], port[8];
    enum status status = read_url(client->options.url, client, host, port, error);
    if (status) return status;
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    int failure = getaddrinfo(host, port, &hints, &client->addresses);
    if (failure)
        return error_set(error, STATUS_NOT_FOUND, "the host '%s' is not known: %s", host,
                         gai_strerror(failure));
    client->working = client->addresses;
    return STATUS_OK;
}

static void http_client_on_wake(evutil_socket_t file, short what, void *context) {
    struct http_client *client = context;
    client->options.wake(client->options.context);
}

enum status http_client_open(const struct http_client_options *options,
                             struct http_client **client_out, struct error *error) {
    struct http_client *client = calloc(1, sizeof *client);
    if (!client) return error_set(error, STATUS_NO_MEMORY, "no memory for an HTTP client");
    client->options = *options;
    client->connections = calloc(options->connections_max, sizeof *client->connections);
    client->base = event_base_new();
    if (client->base) client->wake = evtimer_new(client->base, http_client_on_wake, client);
    enum status status = STATUS_OK;
    if (!client->connections || !client->base || !client->wake)
        status = error_set(error, STATUS_NO_MEMORY, "no memory for %u connections",
                           options->connections_max);
    if (!status) status = http_client_resolve(client, error);
    if (status) {
        http_client_close(client);
        return status;
    }
    for (uint32_t i = 0; i < options->connections_max; i++)
        client->connections[i].client = client;
    signal(SIGPIPE, SIG_IGN);
    file_limit_raise(UINT64_MAX);
    *client_out = client;
    return STATUS_OK;
}

void http_client_close(struct http_client *client) {
    if (!client) return;
    for (uint32_t i = 0; client->connections && i < client->options.connections_max; i++) {
        http_client_disconnect(&client->connections[i]);
        free(client->connections[i].request);
    }
    if (client->wake) event_free(client->wake);
    if (client->base) event_base_free(client->base);
    if (client->addresses) freeaddrinfo(client->addresses);
    free(client->connections);
    free(client);
}

const char *http_client_name(const struct http_client *client) {
    return client->name;
}

void http_client_leave(struct http_client *client, uint32_t connection) {
    client->connections[connection].leaving = true;
}

void http_client_wake_in(struct http_client *client, double seconds) {
    if (seconds < 0) seconds = 0;
    struct timeval time = {(time_t)seconds,
                           (suseconds_t)((seconds - (double)(time_t)seconds) * 1e6)};
    event_add(client->wake, &time);
}

void http_client_run(struct http_client *client) {
    event_base_loop(client->base, EVLOOP_NO_EXIT_ON_EMPTY);
}

void http_client_stop(struct http_client *client) {
    event_base_loopbreak(client->base);
}
