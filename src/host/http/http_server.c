/* SPDX-License-Identifier: Apache-2.0
 * A connection is in one state at a time:
 *
 *   HEAD -> BODY -> WAITING -> STREAMING -> FLUSHING -> HEAD ...      (one request after the other)
 *     any of the first two, refused -> LINGERING -> closed
 *
 * FLUSHING lasts until the response has left the process's memory, so a client cannot pile up
 * responses. LINGERING discards what a refused client still sends: an immediate close would reset
 * the connection and lose the refusal.
 */
#include "host/http/http_server.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/format.h"
#include "contract/record_client.h"
#include "host/http/host_allowlist.h"
#include "host/http/http_message.h"
#include "host/http/http_reply.h"
#include "host/http/http_request.h"
#include "host/http/listen_socket.h"
#include "host/http/own_time.h"
#include "host/http/request_body.h"
#include "host/http/request_name.h"
#include "host/process/connection_eviction.h"
#include "host/process/file_limit.h"
#include "host/process/log/log.h"

#define LISTEN_BACKLOG 4096 /* the kernel's default of 128 made 5,000 connects take 15 s */
#define INPUT_WINDOW ((size_t)64 << 10) /* bytes read ahead */
#define LINGER_STRETCH 10 /* linger_ms_max limits silence; the total is limited to this multiple */
#define LINGER_BYTES_MAX ((uint64_t)1 << 30)
#define SUBJECT "http"
#define IDLE_GRACE_MS 1000  /* tolerance for clients that rely on Keep-Alive */
#define ACCEPTS_AT_ONCE 64  /* accepts before received requests are processed */
#define ACCEPT_PAUSE_MS 100 /* pause when connections or file descriptors have run out */
#define SLOT_BITS 20
#define LISTENER_BITS 1 /* position above the slot in a connection id */
#define NS_PER_MS ((int64_t)1000000)
#define OUTPUT_STRETCH 16 /* limit of unsent bytes, as a multiple of output_bytes_max */

enum server_place {
    PLACE_HEAD,
    PLACE_BODY,
    PLACE_WAITING,
    PLACE_STREAMING,
    PLACE_FLUSHING,
    PLACE_LINGERING
};

struct server_connection {
    struct http_server *server;
    struct bufferevent *stream;
    struct event *deadline;
    int64_t due_ns;    /* deadline, by the server's own clock */
    int64_t behind_ns; /* time since which its output is too long; 0: it is not */
    int64_t stall_ns;  /* the server's lost time when the stall timeout was last renewed */
    enum server_place place;
    uint32_t slot;
    uint8_t peer[16];         /* address, as in CLIENT_REQUEST */
    struct request_name name; /* of the current request */
    uint64_t exchange;        /* id of the current request at the gateway; 0: none */
    size_t searched;          /* bytes of the head already searched for its end */
    bool head_started;        /* the deadline is that of the head, not of an idle connection */
    char *head_text;          /* `head` points into it */
    struct http_head head;
    struct bytes allow_origin; /* origin from the server's list that may read the response */
    struct request_body body;
    size_t held_bytes; /* reserved memory for bodies */
    bool waits_to_decode;
    int64_t body_end_ns; /* deadline of the whole body */
    enum admission admission;
    bool body_left; /* not read, because it is not wanted */
    bool keep_alive;
    bool chunked_answer;
    uint64_t lingered_bytes;
    struct timeval linger_end; /* end of lingering even if bytes keep arriving */
};

struct http_server {
    struct http_server_options options;
    char cure[HOST_ALLOWLIST_CURE_BYTES]; /* of the Origin that was refused last */
    struct event_base *base;
    struct evconnlistener *listener;
    struct event *accept_pause, *tick;
    struct own_time time;
    struct listen_socket bound;
    struct file_shortage shortage;
    struct host_allowlist sites;
    struct server_connection **slots; /* [connections_max] */
    struct evict_client *clients;     /* [connections_max] input of connection_eviction */
    uint32_t *free_slots;             /* [free_count] */
    uint32_t free_count;
    uint64_t exchange_serial;
    uint64_t newcomer; /* owner of the newest connection */
    uint32_t open_exchanges, accepted_count;
    int64_t decode_ns;    /* no body is decoded before this time */
    size_t bodies_bytes;  /* reserved for unfinished bodies */
    size_t answers_bytes; /* responses that have not been sent */
    bool draining;
};

static void http_server_advance(struct server_connection *connection);
static bool is_ours_to_do(const struct server_connection *connection);
static void cut_off(struct server_connection *connection);

/* ---- connections ---- */

static int64_t own_ns(struct http_server *server) {
    return own_time_ns(&server->time, clock_now_ns());
}

static void set_deadline(struct server_connection *connection, uint32_t ms) {
    struct timeval time = {(time_t)(ms / 1000), (suseconds_t)(ms % 1000) * 1000};
    connection->due_ns = own_ns(connection->server) + (int64_t)ms * NS_PER_MS;
    event_add(connection->deadline, &time);
}

/* Returns false if the loop was blocked meanwhile; the deadline is then moved by that time. */
static bool deadline_is_over(struct server_connection *connection) {
    int64_t left_ns = connection->due_ns - own_ns(connection->server);
    if (left_ns <= NS_PER_MS) return true;
    set_deadline(connection, (uint32_t)(left_ns / NS_PER_MS) + 1);
    return false;
}

static struct evict_client *client_of(const struct server_connection *connection) {
    return &connection->server->clients[connection->slot];
}

/* Enters a state. The connection counts as active while the gateway has its request. */
static void http_server_enter(struct server_connection *connection, enum server_place place) {
    struct evict_client *client = client_of(connection);
    connection->place = place;
    bool works = place == PLACE_WAITING || place == PLACE_STREAMING;
    bool is_known = (place == PLACE_BODY && connection->admission == ADMISSION_KNOWN) ||
                    (place == PLACE_FLUSHING && connection->admission != ADMISSION_NO_BODY);
    client->idle_since_ns = works ? EVICT_BUSY : clock_now_ns();
    client->is_bound = !works && !is_known;
}

static void linger(struct server_connection *connection) {
    struct http_server *server = connection->server;
    uint32_t ms = server->options.linger_ms_max;
    http_server_enter(connection, PLACE_LINGERING);
    /* A full buffer would stop reading. */
    struct evbuffer *in = bufferevent_get_input(connection->stream);
    evbuffer_drain(in, evbuffer_get_length(in));
    event_base_gettimeofday_cached(server->base, &connection->linger_end);
    connection->linger_end.tv_sec += (time_t)ms * LINGER_STRETCH / 1000;
    set_deadline(connection, ms);
}

/* Continues lingering: silence is limited, and so is the total time. */
static void linger_on(struct server_connection *connection) {
    struct timeval now;
    event_base_gettimeofday_cached(connection->server->base, &now);
    if (evutil_timercmp(&now, &connection->linger_end, <))
        set_deadline(connection, connection->server->options.linger_ms_max);
}

static void forget_request(struct server_connection *connection) {
    connection->server->bodies_bytes -= connection->held_bytes;
    client_of(connection)->body_bytes = 0;
    request_body_clear(&connection->body);
    free(connection->head_text);
    connection->head_text = NULL;
    connection->held_bytes = 0;
    connection->waits_to_decode = false;
    connection->head = (struct http_head){0};
}

static bool is_answering(const struct server_connection *connection) {
    return connection->place == PLACE_WAITING || connection->place == PLACE_STREAMING ||
           connection->place == PLACE_FLUSHING;
}

/* Bytes sent renew the reader's deadline, as received bytes of a body renew its sender's. */
static void on_output(struct evbuffer *out, const struct evbuffer_cb_info *moved, void *context) {
    struct server_connection *connection = context;
    struct evict_client *client = client_of(connection);
    if (connection->place != PLACE_FLUSHING) return;
    connection->server->answers_bytes -= moved->n_deleted;
    client->answer_bytes -= moved->n_deleted;
    client->idle_since_ns =
        connection_eviction_credit(client->idle_since_ns, moved->n_deleted, clock_now_ns());
}

static void close_connection(struct server_connection *connection) {
    struct http_server *server = connection->server;
    if (connection->exchange) {
        struct record_client_gone gone = {.record = record_head(RECORD_CLIENT_GONE, sizeof gone),
                                          .connection = {connection->exchange}};
        check(server->options.deliver(server->options.deliver_context, &gone.record) == STATUS_OK);
    }
    if (is_answering(connection)) server->open_exchanges--;
    server->answers_bytes -= client_of(connection)->answer_bytes;
    evbuffer_remove_cb(bufferevent_get_output(connection->stream), on_output, connection);
    forget_request(connection);
    server->slots[connection->slot] = NULL;
    server->clients[connection->slot] = (struct evict_client){.idle_since_ns = EVICT_BUSY};
    server->free_slots[server->free_count++] = connection->slot;
    event_free(connection->deadline);
    bufferevent_free(connection->stream);
    free(connection);
    if (server->listener && server->free_count == 1) evconnlistener_enable(server->listener);
}

static void start_next_request(struct server_connection *connection) {
    client_of(connection)->owner = http_request_client(&connection->head, connection->peer, false);
    connection->admission = ADMISSION_NO_BODY;
    connection->body_left = false;
    connection->allow_origin = (struct bytes){NULL, 0};
    request_name_draw(&connection->name);
    http_server_enter(connection, PLACE_HEAD);
    connection->head = (struct http_head){0};
    connection->searched = 0;
    connection->head_started = false;
    set_deadline(connection, connection->server->options.idle_ms_max + IDLE_GRACE_MS);
}

/* Drops the responses of clients that do not read, in favour of other responses. */
static void bound_answers(struct http_server *server, uint32_t newest) {
    while (server->answers_bytes > server->options.answers_bytes_max) {
        uint32_t idlest = connection_eviction_answer(
            server->clients, server->options.connections_max, newest, clock_now_ns());
        if (idlest == EVICT_NONE) return;
        if (!is_ours_to_do(server->slots[idlest])) cut_off(server->slots[idlest]);
    }
}

/* Called when the complete response is in the output buffer. */
static void flush_answer(struct server_connection *connection) {
    struct http_server *server = connection->server;
    size_t bytes = evbuffer_get_length(bufferevent_get_output(connection->stream));
    connection->exchange = 0;
    http_server_enter(connection, PLACE_FLUSHING);
    client_of(connection)->answer_bytes = bytes;
    server->answers_bytes += bytes;
    bound_answers(server, connection->slot);
    /* An empty buffer causes no write event; this one is deferred to the loop. */
    bufferevent_trigger(connection->stream, EV_WRITE, BEV_TRIG_DEFER_CALLBACKS);
}

static void finish_flush(struct server_connection *connection) {
    connection->server->open_exchanges--;
    if (!connection->keep_alive || connection->server->draining) {
        linger(connection);
        shutdown(bufferevent_getfd(connection->stream), SHUT_WR);
        return;
    }
    start_next_request(connection);
    http_server_advance(connection);
}

/* ---- writing ---- */

static struct http_reply http_server_reply_of(const struct server_connection *connection) {
    const struct http_server *server = connection->server;
    return (struct http_reply){.out = bufferevent_get_output(connection->stream),
                               .request_name = connection->name.text,
                               .lets_pages_in = server->options.allow_origins != NULL,
                               .allow_origin = connection->allow_origin,
                               .closes = !connection->keep_alive || server->draining,
                               .idle_s = server->options.idle_ms_max / 1000,
                               .speaks_anthropic = connection->head.speaks_anthropic,
                               .knows_no_coding = connection->head.coding == CODING_OTHER,
                               .without_body = connection->head.verb == HTTP_VERB_HEAD};
}

static void http_server_write_error(struct server_connection *connection, uint32_t status,
                                    const char *message) {
    struct http_reply reply = http_server_reply_of(connection);
    http_reply_error(&reply, status, message);
}

/* Logs refused hosts and origins, and overload. Mistakes of clients are logged at debug level. */
static void http_server_log_refused(const struct server_connection *connection, uint32_t status,
                                    const char *message) {
    bool is_notable = status == 403 || status == 421 || status == 503;
    log_say(is_notable ? LOG_WARNING : LOG_DEBUG, SUBJECT,
            "a request was refused unread status=%u x_request_id=%s why=%s", status,
            connection->name.text, message);
}

/* Answers a request that will not be read completely. */
static void refuse(struct server_connection *connection, uint32_t status, const char *message) {
    connection->keep_alive = false;
    http_server_log_refused(connection, status, message);
    http_server_write_error(connection, status, message);
    forget_request(connection);
    linger(connection);
}

/* ---- requests that the server answers itself ---- */

static const struct http_asset *find_asset(const struct http_server *server, struct bytes path) {
    for (size_t i = 0; i < server->options.asset_count; i++)
        if (bytes_equal(path, bytes_of(server->options.assets[i].path)))
            return &server->options.assets[i];
    return NULL;
}

/* Returns true if the gateway is not needed for the request. */
static bool answer_alone(struct server_connection *connection) {
    const struct http_head *head = &connection->head;
    const struct http_asset *asset = find_asset(connection->server, head->path);
    bool options = head->verb == HTTP_VERB_OPTIONS && connection->server->options.allow_origins;
    if (!options && !asset) return false;
    struct http_reply reply = http_server_reply_of(connection);
    if (options)
        http_reply_options(&reply);
    else if (head->verb == HTTP_VERB_GET || head->verb == HTTP_VERB_HEAD)
        http_reply_asset(&reply, asset, head->if_none_match);
    else
        http_reply_error(&reply, 405, "this is a page: it takes GET only");
    flush_answer(connection);
    return true;
}

/* ---- passing requests to the gateway ---- */

static uint64_t name_exchange(struct server_connection *connection) {
    struct http_server *server = connection->server;
    uint64_t serial = ++server->exchange_serial << LISTENER_BITS | server->options.listener;
    return serial << SLOT_BITS | connection->slot;
}

static struct record_client_request *
http_server_make_request(struct server_connection *connection) {
    struct http_request request = {
        .head = &connection->head,
        .connection = {name_exchange(connection)},
        .name = &connection->name,
        .body = {connection->body.text, connection->body.count},
        .peer = connection->peer,
        .listener = connection->server->options.listener,
        .body_left = connection->body_left,
    };
    return http_request_make(&request);
}

/* Refuses a request that the gateway has not received. */
static void http_server_refuse_busy(struct server_connection *connection) {
    const char *message = "the server is busy; try again in a moment";
    connection->exchange = 0;
    http_server_log_refused(connection, 503, message);
    http_server_write_error(connection, 503, message);
    flush_answer(connection);
}

static void deliver_request(struct server_connection *connection) {
    struct http_server *server = connection->server;
    struct record_client_request *request = http_server_make_request(connection);
    enum status status = STATUS_FULL;
    if (request) {
        connection->exchange = request->connection.value;
        status = server->options.deliver(server->options.deliver_context, &request->record);
    }
    if (status != STATUS_OK) http_server_refuse_busy(connection);
    free(request);
}

/* Processes a request that is complete, or complete except for an unwanted body. */
static void handle_request(struct server_connection *connection) {
    const struct http_head *head = &connection->head;
    event_del(connection->deadline);
    http_server_enter(connection, PLACE_WAITING);
    connection->server->open_exchanges++;
    if (!answer_alone(connection)) deliver_request(connection);
    bool is_head = head->verb == HTTP_VERB_HEAD;
    uint32_t minor_version = head->minor_version;
    forget_request(connection);
    connection->head.verb = is_head ? HTTP_VERB_HEAD : HTTP_VERB_OTHER; /* reply_of needs both */
    connection->head.minor_version = minor_version;
}

/* ---- reading ---- */

/* True if the server is late, not the client: input is unread, or all output has been sent. */
static bool is_ours_to_do(const struct server_connection *connection) {
    int socket = bufferevent_getfd(connection->stream), bytes = 0;
    bool is_sending = connection->place == PLACE_HEAD || connection->place == PLACE_BODY;
    bool is_taking = connection->place == PLACE_FLUSHING;
    if (!is_sending && !is_taking) return false;
    if (ioctl(socket, is_sending ? FIONREAD : TIOCOUTQ, &bytes)) return false;
    bool is_ours = connection->waits_to_decode || (is_sending ? bytes > 0 : bytes == 0);
    if (is_ours) client_of(connection)->idle_since_ns = clock_now_ns();
    return is_ours;
}

/* Refuses a body in favour of another client's, if its client has more than half of all. */
static bool refuse_of_crowd(struct server_connection *newcomer) {
    struct http_server *server = newcomer->server;
    uint32_t slot = connection_eviction_of_crowd(server->clients, server->options.connections_max,
                                                 EVICT_BODIES, client_of(newcomer)->owner);
    if (slot == EVICT_NONE) return false;
    refuse(server->slots[slot], 503, "too many large requests at once; try again in a moment");
    return true;
}

/* Frees memory for bodies. Bodies without progress are evicted first. */
static bool http_server_find_room(struct server_connection *connection, size_t more) {
    struct http_server *server = connection->server;
    size_t so_far = connection->held_bytes + more, announced = connection->head.body_bytes;
    while (!connection_eviction_has_room(server->bodies_bytes, server->options.bodies_bytes_max,
                                         more, so_far > announced ? so_far : announced)) {
        uint32_t idlest = connection_eviction_body(server->clients, server->options.connections_max,
                                                   connection->slot, clock_now_ns());
        if (idlest == EVICT_NONE) {
            if (refuse_of_crowd(connection)) continue;
            return false;
        }
        if (is_ours_to_do(server->slots[idlest])) continue;
        log_say(LOG_WARNING, SUBJECT, "bodies take all their memory, the slowest makes way");
        refuse(server->slots[idlest], 408, "the request's body came too slowly for a busy server");
    }
    return true;
}

/* Reserves memory for a body. Returns false if there is none. */
static bool http_server_hold(void *context, size_t more) {
    struct server_connection *connection = context;
    if (!http_server_find_room(connection, more)) return false;
    connection->held_bytes += more;
    connection->server->bodies_bytes += more;
    client_of(connection)->body_bytes = connection->held_bytes;
    return true;
}

static struct http_refusal verify_head(struct http_server *server, const struct http_head *head) {
    enum allow_verdict verdict = host_allowlist_verify(&server->sites, head->host, head->origin);
    if (verdict == ALLOW_NOT_HOST)
        return (struct http_refusal){
            421, "the Host header does not name this machine; --allow-host NAME allows it"};
    if (verdict == ALLOW_NOT_ORIGIN)
        return (struct http_refusal){403, host_allowlist_cure(head->origin, server->cure)};
    if (head->coding == CODING_OTHER)
        return (struct http_refusal){
            415, "the Content-Encoding of a body must be one of " CONTENT_DECODER_NAMES};
    if (head->verb == HTTP_VERB_POST && !http_message_is_json(head->content_type))
        return (struct http_refusal){415, "the Content-Type of a POST must be application/json"};
    if (head->body_bytes > server->options.body_bytes_max)
        return (struct http_refusal){413, "the request's body is too large"};
    return (struct http_refusal){0, NULL};
}

static enum admission ask_admission(struct server_connection *connection) {
    const struct http_server_options *options = &connection->server->options;
    if (!options->admit) return ADMISSION_KEYLESS;
    struct record_client_request *head = http_server_make_request(connection);
    if (!head) return ADMISSION_NO_BODY;
    enum admission admission = options->admit(options->admit_context, head);
    free(head);
    return admission;
}

/* The time left for the body to send a byte, or to be complete; 0: expired. */
static uint32_t body_ms_left(const struct server_connection *connection) {
    int64_t pace_ns = connection->server->options.pace_ms_max * NS_PER_MS;
    int64_t end_ns = client_of(connection)->idle_since_ns + pace_ns, now_ns = clock_now_ns();
    if (end_ns > connection->body_end_ns) end_ns = connection->body_end_ns;
    return end_ns > now_ns ? (uint32_t)((end_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS) : 0;
}

/* Called after the head: decides whether a body is read. */
static void begin_body(struct server_connection *connection) {
    const struct http_head *head = &connection->head;
    bool has_body = head->chunked || head->body_bytes;
    connection->body =
        (struct request_body){.coding = head->coding,
                              .chunked = head->chunked,
                              .announced = head->body_bytes,
                              .bytes_max = connection->server->options.body_bytes_max,
                              .hold = http_server_hold,
                              .context = connection};
    connection->keep_alive = head->keep_alive;
    connection->admission = ask_admission(connection);
    client_of(connection)->owner =
        http_request_client(head, connection->peer, connection->admission == ADMISSION_KNOWN);
    connection->body_left = has_body && connection->admission == ADMISSION_NO_BODY;
    if (connection->body_left) connection->keep_alive = false; /* later bytes are not a request */
    http_server_enter(connection, PLACE_BODY);
    connection->body_end_ns = clock_now_ns() + connection->server->options.body_ms_max * NS_PER_MS;
    set_deadline(connection, body_ms_left(connection));
    if (head->expects_continue && has_body && !connection->body_left &&
        evbuffer_get_length(bufferevent_get_input(connection->stream)) == 0)
        evbuffer_add_printf(bufferevent_get_output(connection->stream),
                            "HTTP/1.1 100 Continue\r\n\r\n");
}

/* Each reader returns true if it made progress, false if it waits for bytes or gave up. */
static bool read_head(struct server_connection *connection) {
    struct http_server *server = connection->server;
    struct evbuffer *in = bufferevent_get_input(connection->stream);
    size_t there = evbuffer_get_length(in);
    if (there == 0) return false;
    if (!connection->head_started) {
        connection->head_started = true;
        http_server_enter(connection, PLACE_HEAD);
        set_deadline(connection, server->options.head_ms_max);
    }
    size_t looked_at =
        there < server->options.head_bytes_max ? there : server->options.head_bytes_max;
    const char *text = (const char *)evbuffer_pullup(in, (ev_ssize_t)looked_at);
    size_t bytes = http_message_head_bytes((struct bytes){text, looked_at}, connection->searched);
    if (bytes == 0) {
        connection->searched = looked_at;
        if (looked_at == server->options.head_bytes_max)
            refuse(connection, 431, "the request's header is too large");
        return false;
    }
    connection->head_text = malloc(bytes);
    if (!connection->head_text) {
        refuse(connection, 503, "out of memory; try again in a moment");
        return false;
    }
    evbuffer_remove(in, connection->head_text, bytes);
    struct http_refusal refusal =
        http_message_read_head((struct bytes){connection->head_text, bytes}, &connection->head);
    if (!refusal.status) request_name_take(&connection->name, connection->head.request_id);
    connection->allow_origin = host_allowlist_find_origin(&server->sites, connection->head.origin);
    if (!refusal.status) refusal = verify_head(server, &connection->head);
    if (refusal.status) {
        refuse(connection, refusal.status, refusal.message);
        return false;
    }
    begin_body(connection);
    return true;
}

/* After a slow piece, decoding pauses for the same time. A body that waits for that is not late. */
static bool decodes_later(struct server_connection *connection) {
    int64_t wait_ns = connection->server->decode_ns - clock_now_ns();
    bool waited = connection->waits_to_decode;
    connection->waits_to_decode = connection->body.coding && wait_ns > 0;
    if (!connection->waits_to_decode) return false;
    if (!waited) connection->body_end_ns += wait_ns;
    if (!waited) client_of(connection)->idle_since_ns += wait_ns;
    event_add(connection->deadline, &(struct timeval){.tv_usec = wait_ns / 1000 + 1});
    return true;
}

static void note_decoding(struct http_server *server, int64_t began_ns) {
    int64_t ended_ns = clock_now_ns(), took_ns = ended_ns - began_ns;
    if (took_ns > NS_PER_MS) server->decode_ns = ended_ns + took_ns;
}

static bool read_body(struct server_connection *connection) {
    struct request_body *body = &connection->body;
    struct evict_client *client = client_of(connection);
    if (!connection->body_left) {
        if (decodes_later(connection)) return false;
        int64_t began_ns = clock_now_ns();
        size_t before = body->came;
        struct http_refusal refusal =
            request_body_read(body, bufferevent_get_input(connection->stream));
        if (body->coding) note_decoding(connection->server, began_ns);
        if (refusal.status) {
            refuse(connection, refusal.status, refusal.message);
            return false;
        }
        client->idle_since_ns =
            connection_eviction_credit(client->idle_since_ns, body->came - before, clock_now_ns());
        if (!body->whole) return false;
    }
    handle_request(connection);
    return true;
}

static void http_server_advance(struct server_connection *connection) {
    bool going = true;
    while (going) {
        if (connection->place == PLACE_HEAD)
            going = read_head(connection);
        else if (connection->place == PLACE_BODY)
            going = read_body(connection);
        else
            going = false;
    }
}

/* ---- events ---- */

static void http_server_on_readable(struct bufferevent *stream, void *context) {
    struct server_connection *connection = context;
    if (connection->place == PLACE_LINGERING) {
        struct evbuffer *in = bufferevent_get_input(stream);
        connection->lingered_bytes += evbuffer_get_length(in);
        evbuffer_drain(in, evbuffer_get_length(in));
        if (connection->lingered_bytes > LINGER_BYTES_MAX)
            close_connection(connection);
        else
            linger_on(connection);
        return;
    }
    http_server_advance(connection);
}

/* Called when the output buffer is empty. */
static void on_written(struct bufferevent *stream, void *context) {
    struct server_connection *connection = context;
    if (evbuffer_get_length(bufferevent_get_output(stream))) return;
    if (connection->place == PLACE_FLUSHING)
        finish_flush(connection);
    else if (connection->place == PLACE_LINGERING)
        shutdown(bufferevent_getfd(stream), SHUT_WR);
}

static void cut_off(struct server_connection *connection) {
    log_say(LOG_WARNING, SUBJECT, "a client reads too slowly and is cut off x_request_id=%s",
            connection->name.text);
    close_connection(connection);
}

static void http_server_on_ended(struct bufferevent *stream, short what, void *context) {
    struct server_connection *connection = context;
    bool closed_its_side = (what & BEV_EVENT_EOF) != 0;
    own_ns(connection->server);
    if ((what & BEV_EVENT_TIMEOUT) && connection->stall_ns < connection->server->time.lost_ns) {
        connection->stall_ns = connection->server->time.lost_ns;
        bufferevent_enable(stream, EV_WRITE);
        return;
    }
    if (closed_its_side && connection->place == PLACE_FLUSHING &&
        evbuffer_get_length(bufferevent_get_output(stream))) {
        connection->keep_alive = false; /* the gateway may still be reading */
        return;
    }
    if (what & BEV_EVENT_TIMEOUT)
        cut_off(connection);
    else
        close_connection(connection);
}

static void on_deadline(evutil_socket_t socket, short what, void *context) {
    struct server_connection *connection = context;
    if (connection->waits_to_decode) {
        set_deadline(connection, body_ms_left(connection));
        http_server_advance(connection);
        return;
    }
    if (!deadline_is_over(connection)) return;
    bool in_request = (connection->place == PLACE_HEAD && connection->head_started) ||
                      connection->place == PLACE_BODY;
    uint32_t ms_left = connection->place == PLACE_BODY ? body_ms_left(connection) : 0;
    if (ms_left) {
        set_deadline(connection, ms_left);
        return;
    }
    if (in_request)
        refuse(connection, 408, "the request did not come in time");
    else
        close_connection(connection);
}

/* ---- eviction ---- */

static bool evict_idlest(struct http_server *server) {
    uint32_t idlest;
    do {
        idlest = connection_eviction_idlest(server->clients, server->options.connections_max,
                                            clock_now_ns());
        if (idlest == EVICT_NONE) return false;
    } while (is_ours_to_do(server->slots[idlest]));
    log_say(LOG_WARNING, SUBJECT, "all places are taken, the idlest connection makes way");
    close_connection(server->slots[idlest]);
    return true;
}

static void bind_network(struct http_server *server, uint64_t network) {
    uint32_t bound_max = server->options.connections_per_network, idlest = EVICT_NONE;
    uint32_t connection_count = server->options.connections_max - server->free_count;
    if (bound_max == 0) return;
    while (connection_count > bound_max) {
        idlest = connection_eviction_of_network(server->clients, server->options.connections_max,
                                                network, bound_max, clock_now_ns());
        if (idlest == EVICT_NONE) return;
        if (is_ours_to_do(server->slots[idlest])) continue;
        log_say(LOG_WARNING, SUBJECT,
                "too many connections of one address, the idlest makes way connections_max=%u",
                bound_max);
        close_connection(server->slots[idlest]);
        connection_count--;
    }
}

static void pause_accepting(struct http_server *server, uint32_t ms) {
    struct timeval pause = {0, ms * 1000};
    evconnlistener_disable(server->listener);
    event_add(server->accept_pause, &pause);
}

static bool evict_of_crowd(struct http_server *server) {
    uint32_t slot = connection_eviction_of_crowd(server->clients, server->options.connections_max,
                                                 EVICT_PLACES, server->newcomer);
    if (slot == EVICT_NONE) return false;
    log_say(LOG_WARNING, SUBJECT, "all places are taken, one of the client with most makes way");
    close_connection(server->slots[slot]);
    return true;
}

/* Keeps one slot free for the next connection. */
static void keep_a_place(struct http_server *server) {
    if (server->free_count || evict_idlest(server) || evict_of_crowd(server)) return;
    log_say(LOG_WARNING, SUBJECT, "all places are taken by requests, new connections wait");
    pause_accepting(server, ACCEPT_PAUSE_MS);
}

static void on_accepted(struct evconnlistener *listener, evutil_socket_t socket,
                        struct sockaddr *address, int address_bytes, void *context) {
    struct http_server *server = context;
    struct server_connection *connection = calloc(1, sizeof *connection);
    if (!connection) goto no_memory;
    connection->server = server;
    listen_socket_peer(address, connection->peer);
    connection->stall_ns = server->time.lost_ns;
    connection->deadline = evtimer_new(server->base, on_deadline, connection);
    if (!connection->deadline) goto no_timer;
    connection->stream = bufferevent_socket_new(server->base, socket, BEV_OPT_CLOSE_ON_FREE);
    if (!connection->stream) goto no_stream;
    int on = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    connection->slot = server->free_slots[--server->free_count];
    server->slots[connection->slot] = connection;
    uint64_t network = connection_eviction_network(connection->peer, sizeof connection->peer);
    client_of(connection)->network = network;
    struct timeval stall = {(time_t)(server->options.stall_ms_max / 1000),
                            (suseconds_t)(server->options.stall_ms_max % 1000) * 1000};
    bufferevent_set_timeouts(connection->stream, NULL, &stall);
    bufferevent_setwatermark(connection->stream, EV_READ, 0,
                             server->options.head_bytes_max + INPUT_WINDOW);
    evbuffer_add_cb(bufferevent_get_output(connection->stream), on_output, connection);
    bufferevent_setcb(connection->stream, http_server_on_readable, on_written, http_server_on_ended,
                      connection);
    bufferevent_enable(connection->stream, EV_READ | EV_WRITE);
    start_next_request(connection);
    bind_network(server, network);
    if (++server->accepted_count % ACCEPTS_AT_ONCE == 0) pause_accepting(server, 0);
    server->newcomer = client_of(connection)->owner;
    keep_a_place(server);
    return;
no_stream:
    event_free(connection->deadline);
no_timer:
    free(connection);
no_memory:
    evutil_closesocket(socket);
}

static void on_accept_failed(struct evconnlistener *listener, void *context) {
    struct http_server *server = context;
    if ((errno == EMFILE || errno == ENFILE) && evict_idlest(server)) return;
    file_limit_shortage_report(&server->shortage, server->bound.url, errno);
    pause_accepting(server, ACCEPT_PAUSE_MS);
}

static void http_server_on_tick(evutil_socket_t socket, short what, void *context) {
    own_ns(context);
}

static void on_accept_pause_over(evutil_socket_t socket, short what, void *context) {
    struct http_server *server = context;
    if (!server->listener) return;
    keep_a_place(server);
    if (server->free_count) evconnlistener_enable(server->listener);
}

/* ---- records from the gateway ---- */

enum http_listener http_server_listener(struct connection_id id) {
    return (enum http_listener)(id.value >> SLOT_BITS & ((1u << LISTENER_BITS) - 1));
}

static struct server_connection *find_exchange(struct http_server *server,
                                               struct connection_id id) {
    uint64_t slot = id.value & ((1u << SLOT_BITS) - 1);
    if (slot >= server->options.connections_max || !server->slots[slot]) return NULL;
    return server->slots[slot]->exchange == id.value ? server->slots[slot] : NULL;
}

static void respond(struct server_connection *connection, const struct record_respond *answer) {
    check(answer->content_type < CONTENT_TYPE_COUNT && connection->place == PLACE_WAITING);
    struct http_reply reply = http_server_reply_of(connection);
    http_reply_respond(&reply, answer);
    flush_answer(connection);
}

static void begin_stream(struct server_connection *connection,
                         const struct record_stream_begin *begin) {
    check(begin->content_type < CONTENT_TYPE_COUNT && connection->place == PLACE_WAITING);
    http_server_enter(connection, PLACE_STREAMING);
    connection->behind_ns = 0;
    connection->chunked_answer = connection->head.minor_version >= 1;
    if (!connection->chunked_answer)
        connection->keep_alive = false; /* the response ends with the connection */
    struct http_reply reply = http_server_reply_of(connection);
    http_reply_stream(&reply, begin, connection->chunked_answer);
}

/* True if a reader is slow. Much data may come in a burst, so a reader is slow only if its backlog
 * stays long for a while in which the loop ran. */
static bool reads_too_slowly(struct server_connection *connection, size_t output_bytes) {
    const struct http_server_options *options = &connection->server->options;
    int64_t now_ns = own_ns(connection->server);
    bool long_now = output_bytes > options->output_bytes_max;
    if (!long_now || !connection->behind_ns) connection->behind_ns = long_now ? now_ns : 0;
    if (!long_now) return false;
    return output_bytes / OUTPUT_STRETCH > options->output_bytes_max ||
           now_ns - connection->behind_ns > (int64_t)options->behind_ms_max * NS_PER_MS;
}

static void stream_more(struct server_connection *connection,
                        const struct record_stream_data *data) {
    if (data->data_bytes == 0) return;
    check(connection->place == PLACE_STREAMING);
    struct evbuffer *out = bufferevent_get_output(connection->stream);
    if (reads_too_slowly(connection, evbuffer_get_length(out))) {
        cut_off(connection);
        return;
    }
    char head[16];
    if (connection->chunked_answer)
        evbuffer_add(out, head, format_text(head, sizeof head, "%x\r\n", data->data_bytes));
    evbuffer_add(out, stream_data(data), data->data_bytes);
    if (connection->chunked_answer) evbuffer_add(out, "\r\n", 2);
}

static void end_stream(struct server_connection *connection) {
    check(connection->place == PLACE_STREAMING);
    if (connection->chunked_answer)
        evbuffer_add(bufferevent_get_output(connection->stream), "0\r\n\r\n", 5);
    flush_answer(connection);
}

void http_server_perform(struct http_server *server, const struct record *record) {
    struct server_connection *connection = find_exchange(server, record_connection(record));
    if (!connection) return;
    switch (record->kind) {
    case RECORD_RESPOND:
        respond(connection, (const struct record_respond *)record);
        break;
    case RECORD_STREAM_BEGIN:
        begin_stream(connection, (const struct record_stream_begin *)record);
        break;
    case RECORD_STREAM_DATA:
        stream_more(connection, (const struct record_stream_data *)record);
        break;
    case RECORD_STREAM_END:
        end_stream(connection);
        break;
    default:
        check(!"a record that is not for clients");
    }
}

/* ---- queries of the loop about waiting requests ---- */

uint64_t http_server_client(struct http_server *server, struct connection_id id) {
    struct server_connection *connection = find_exchange(server, id);
    return connection ? client_of(connection)->owner : 0;
}

bool http_server_close_left(struct http_server *server, struct connection_id id) {
    struct server_connection *connection = find_exchange(server, id);
    if (!connection) return false;
    struct pollfd file = {.fd = bufferevent_getfd(connection->stream), .events = POLLRDHUP};
    if (poll(&file, 1, 0) != 1) return false;
    close_connection(connection);
    return true;
}

bool http_server_refuse_waiting(struct http_server *server, struct connection_id id) {
    struct server_connection *connection = find_exchange(server, id);
    if (connection) http_server_refuse_busy(connection);
    return connection;
}

/* ---- opening and closing ---- */

void http_server_defaults(struct http_server_options *options) {
    *options = (struct http_server_options){
        .host = "127.0.0.1",
        .port = 8000,
        .connections_max = 8192,
        .connections_per_network = 1024,
        .head_bytes_max = 16 << 10,
        .body_bytes_max = (size_t)8 << 20,
        .bodies_bytes_max = (size_t)256 << 20,
        .answers_bytes_max = (size_t)256 << 20,
        .output_bytes_max = (size_t)256 << 10,
        .behind_ms_max = 5000,
        .head_ms_max = 10000,
        .body_ms_max = 60000,
        .pace_ms_max = 10000,
        .idle_ms_max = 120000, /* Go's transport keeps a connection for 90 s, nginx for 60 s */
        .stall_ms_max = 30000,
        .linger_ms_max = 3000,
    };
}

static const char *host_option(const struct http_server_options *options) {
    return options->listener == HTTP_ADMIN ? "--admin-host" : "--host";
}

static const char *port_option(const struct http_server_options *options) {
    return options->listener == HTTP_ADMIN ? "--admin-port" : "--port";
}

enum status http_server_open(const struct http_server_options *options, struct event_base *base,
                             struct http_server **server_out, struct error *error) {
    check(options->connections_max > 0 && options->connections_max < 1u << SLOT_BITS);
    struct http_server *server = calloc(1, sizeof *server);
    if (!server) return error_set(error, STATUS_NO_MEMORY, "no memory for the HTTP server");
    server->options = *options;
    server->base = base;
    server->bound.file = -1;
    server->slots = calloc(options->connections_max, sizeof *server->slots);
    server->clients = calloc(options->connections_max, sizeof *server->clients);
    server->free_slots = calloc(options->connections_max, sizeof *server->free_slots);
    server->accept_pause = evtimer_new(base, on_accept_pause_over, server);
    server->tick = event_new(base, -1, EV_PERSIST, http_server_on_tick, server);
    enum status status = STATUS_OK;
    if (!server->slots || !server->clients || !server->free_slots || !server->accept_pause ||
        !server->tick)
        status = error_set(error, STATUS_NO_MEMORY, "no memory for the HTTP server");
    if (!status)
        status =
            listen_socket_open(options->host, options->port, options->shares_port,
                               host_option(options), port_option(options), &server->bound, error);
    if (status) {
        http_server_close(server);
        return status;
    }
    server->sites = (struct host_allowlist){server->bound.is_local, options->host_allowlist,
                                            options->allow_origins};
    for (uint32_t i = options->connections_max; i-- > 0;) {
        server->clients[i].idle_since_ns = EVICT_BUSY;
        server->free_slots[server->free_count++] = i;
    }
    *server_out = server;
    return STATUS_OK;
}

enum status http_server_start(struct http_server *server, struct error *error) {
    server->listener = evconnlistener_new(server->base, on_accepted, server,
                                          LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC,
                                          LISTEN_BACKLOG, server->bound.file);
    if (!server->listener)
        return error_set(error, STATUS_IO,
                         "cannot listen on %s: %s; choose another with %s and %s (port 0 takes a "
                         "free one)",
                         server->bound.url, strerror(errno), host_option(&server->options),
                         port_option(&server->options));
    evconnlistener_set_error_cb(server->listener, on_accept_failed);
    event_add(server->tick, &(struct timeval){.tv_usec = OWN_TIME_TICK_NS / 1000});
    return STATUS_OK;
}

void http_server_close(struct http_server *server) {
    if (server->slots)
        for (uint32_t i = 0; i < server->options.connections_max; i++)
            if (server->slots[i]) close_connection(server->slots[i]);
    if (server->listener)
        evconnlistener_free(server->listener);
    else if (server->bound.file >= 0)
        close(server->bound.file);
    if (server->accept_pause) event_free(server->accept_pause);
    if (server->tick) event_free(server->tick);
    free(server->slots);
    free(server->clients);
    free(server->free_slots);
    free(server);
}

const char *http_server_url(const struct http_server *server) {
    return server->bound.url;
}

void http_server_drain(struct http_server *server) {
    server->draining = true;
}

uint32_t http_server_open_exchanges(const struct http_server *server) {
    return server->open_exchanges;
}
