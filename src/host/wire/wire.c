/* SPDX-License-Identifier: Apache-2.0
 * How the wire uses ZeroMQ, and why:
 *
 *   - A ROUTER does not report the loss of a peer. A socket monitor does, without naming it. So
 *     after each such event, and on a timer, every peer is sent an empty message: ROUTER_MANDATORY
 *     refuses it if the peer is gone (EHOSTUNREACH). The empty messages also serve as heartbeats.
 *   - A DEALER reconnects by itself and would then continue as before. So each connection gets a
 *     socket of its own, and its first message is the greeting.
 *   - ZMQ_FD is edge-triggered: after any call the socket may be readable without it. Each sender
 *     reads ZMQ_EVENTS afterwards, and a timer checks periodically.
 *   - Disconnecting a peer of a ROUTER is not in the stable API. A dropped peer is asked to
 *     disconnect (STATE_DROPPED), and its messages are ignored from then on.
 *   - Unbinding a socket closes all connections that were accepted there. So it stays bound, and
 *     wire_door limits the connections without a greeting: the monitor reports their descriptors,
 *     and each message has the descriptor of its connection.
 *   - A listening side replies in the record version of the greeting, the present one or the
 *     previous one. A connecting side greets in the present version. An older listening process
 *     replies in its own version and closes that connection. The next greeting uses that version.
 *   - A ZAP handler at inproc://zeromq.zap.01, of this context alone, accepts keys.
 */
#include "host/wire/wire.h"

#include "base/bytes.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/message_order.h"
#include "contract/machine.h"
#include "contract/record_past.h"
#include "host/process/log/log.h"
#include "host/wire/wire_door.h"

#include <errno.h>
#include <event2/event.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#define TICK_MS 250
#define REOPEN_MS 100
#define REFUSED_MS 5000 /* retry interval after a refusal by a gateway */
#define SILENT_NS_MAX ((int64_t)10000000000)
#define MESSAGES_MAX 8192 /* queued to or from one peer */
#define TURN_MESSAGES 512 /* messages read before other events are handled */
#define ID_BYTES 5        /* bytes of an id assigned by a ROUTER: zero, and four bytes */
#define SUBJECT "wire"
#define MONITOR "inproc://monitor"
#define ZAP "inproc://zeromq.zap.01"

/* The first message of each side. */
#define GREETING_MAGIC "FATHOMGW"
#define GREETING_VERSION 1
struct greeting {
    char magic[8];
    uint32_t greeting_version;
    uint32_t record_version;
    char version[24]; /* version of the program, for messages */
};

/* Sent instead of a greeting, or at any time: asks the peer to disconnect, with the reason. */
#define FAREWELL_MAGIC "FATHOMBY"
struct farewell {
    char magic[8];
    char why[248];
};

enum wire_state { STATE_NONE, STATE_UP, STATE_DROPPED };

struct wire_peer {
    enum wire_state state;
    uint32_t number;
    uint32_t version;     /* version of records for this peer */
    uint8_t id[ID_BYTES]; /* on a listening side */
    int file;             /* descriptor of its connection, on a listening side; -1: closed */
    int64_t last_seen_ns;
};

struct wire {
    struct wire_options options;
    struct event_base *base;
    void *zmq;
    void *socket, *monitor, *zap;
    struct event *socket_event, *monitor_event, *zap_event; /* events of their ZMQ_FDs */
    struct event *tick, *reopen;
    struct wire_door *door;  /* on a listening side */
    struct wire_peer *peers; /* [peer_count]; a connecting side has one */
    uint32_t peer_count;
    uint32_t last_number;
    uint32_t monitors;  /* number so far, for new names: an old name may still be bound */
    uint32_t greets_in; /* on a connecting side: version of its next greeting */
    bool reported;      /* the reason for not connecting was logged */
    bool has_ended;     /* a connection has closed, and peers were not checked since */
    bool ending;        /* the socket will be closed */
    bool full_reported;
    char address[256];
    void *buffer; /* [WIRE_MESSAGE_BYTES_MAX] a message, aligned */
    /* [WIRE_MESSAGE_BYTES_MAX] a received message, and one to send, translated between versions */
    void *came, *goes;
};

/* ---- peers ---- */

static struct wire_peer *find_number(struct wire *wire, uint32_t number) {
    for (uint32_t i = 0; i < wire->peer_count; i++)
        if (wire->peers[i].number == number && wire->peers[i].state == STATE_UP)
            return &wire->peers[i];
    return NULL;
}

static struct wire_peer *wire_find_id(struct wire *wire, const uint8_t id[ID_BYTES]) {
    for (uint32_t i = 0; i < wire->peer_count; i++)
        if (wire->peers[i].state != STATE_NONE && memcmp(wire->peers[i].id, id, ID_BYTES) == 0)
            return &wire->peers[i];
    return NULL;
}

/* Adds a peer. Returns NULL if the limit is reached. */
static struct wire_peer *wire_add_peer(struct wire *wire, const uint8_t id[ID_BYTES]) {
    uint32_t at = 0;
    while (at < wire->peer_count && wire->peers[at].state != STATE_NONE)
        at++;
    if (at == WIRE_PEERS_MAX) return NULL;
    if (at == wire->peer_count) wire->peer_count++;
    wire->peers[at] = (struct wire_peer){
        .state = STATE_UP, .number = ++wire->last_number, .version = RECORD_VERSION, .file = -1};
    memcpy(wire->peers[at].id, id, ID_BYTES);
    wire->peers[at].last_seen_ns = clock_now_ns();
    return &wire->peers[at];
}

static void wire_end_peer(struct wire *wire, struct wire_peer *peer) {
    enum wire_state before = peer->state;
    uint32_t number = peer->number;
    peer->state = STATE_NONE;
    if (before != STATE_UP) return;
    wire->greets_in = RECORD_VERSION; /* the next process may have another version */
    wire->options.lost(wire->options.context, number);
}

/* ---- sending ---- */

/* Sending may leave readable messages that ZMQ_FD does not report. */
static void look_again(struct wire *wire) {
    int events = 0;
    size_t bytes = sizeof events;
    if (!wire->ending && wire->socket_event &&
        zmq_getsockopt(wire->socket, ZMQ_EVENTS, &events, &bytes) == 0 && (events & ZMQ_POLLIN))
        event_active(wire->socket_event, EV_READ, 0);
}

static enum status send_bytes(struct wire *wire, const struct wire_peer *peer, const void *data,
                              size_t bytes) {
    int sent = 0;
    if (!wire->socket || wire->ending) return STATUS_GONE;
    message_order_sending();
    if (wire->options.listens)
        sent = zmq_send(wire->socket, peer->id, ID_BYTES, ZMQ_SNDMORE | ZMQ_DONTWAIT);
    if (sent >= 0) sent = zmq_send(wire->socket, data, bytes, ZMQ_DONTWAIT);
    int failure = errno;
    look_again(wire);
    if (sent >= 0) return STATUS_OK;
    return failure == EAGAIN ? STATUS_FULL : STATUS_GONE;
}

enum status wire_send(struct wire *wire, uint32_t number, const struct record *record) {
    struct wire_peer *peer = find_number(wire, number);
    check(record->bytes <= WIRE_MESSAGE_BYTES_MAX);
    if (!peer) return STATUS_GONE;
    if (peer->version == RECORD_VERSION) return send_bytes(wire, peer, record, record->bytes);
    size_t bytes = record_past_to_past(&record_past, record, wire->goes, WIRE_MESSAGE_BYTES_MAX);
    /* a record that the peer's version does not have is skipped */
    return bytes ? send_bytes(wire, peer, wire->goes, bytes) : STATUS_OK;
}

static enum status send_greeting(struct wire *wire, const struct wire_peer *peer,
                                 uint32_t record_version) {
    struct greeting greeting = {.greeting_version = GREETING_VERSION,
                                .record_version = record_version};
    memcpy(greeting.magic, GREETING_MAGIC, sizeof greeting.magic);
    snprintf(greeting.version, sizeof greeting.version, "%s", FATHOM_VERSION);
    return send_bytes(wire, peer, &greeting, sizeof greeting);
}

static void read_events(struct wire *wire);

/* Treats the peer as a connection without a greeting: it has a short time to disconnect. */
static void show_door(struct wire *wire, struct wire_peer *peer) {
    if (!wire->door) return;
    read_events(wire); /* the descriptor may be closed and reused */
    event_active(wire->monitor_event, EV_READ, 0);
    if (peer->file >= 0) wire_door_enter(wire->door, peer->file);
}

static void wire_drop_each(struct wire *wire, struct wire_peer *peer, const char *why) {
    struct farewell farewell = {.why = ""};
    memcpy(farewell.magic, FAREWELL_MAGIC, sizeof farewell.magic);
    snprintf(farewell.why, sizeof farewell.why, "%s", why);
    bool is_unit = wire->options.listens && peer->state == STATE_UP;
    log_say(LOG_WARNING, SUBJECT, "a connection was ended address=%s connection=%.0f why=%s",
            wire->address, is_unit ? (double)peer->number : NAN, farewell.why);
    if (send_bytes(wire, peer, &farewell, sizeof farewell))
        farewell.why[0] = 0; /* full: the peer does not read */
    bool up = peer->state == STATE_UP;
    peer->state = STATE_DROPPED;
    show_door(wire, peer);
    if (up) wire->options.lost(wire->options.context, peer->number);
}

void wire_drop(struct wire *wire, uint32_t number, const char *why) {
    struct wire_peer *peer = find_number(wire, number);
    if (peer) wire_drop_each(wire, peer, why);
}

/* ---- receiving ---- */

static bool has_magic(const void *data, size_t bytes, const char magic[8]) {
    return bytes >= 8 && memcmp(data, magic, 8) == 0;
}

/* Checks a greeting. Returns NULL if the peer is a Fathom process with records of a supported
 * version, else a description of the fault. */
static const char *greeting_fault(const void *data, size_t bytes, uint32_t *version_out,
                                  char text[static 200]) {
    const struct greeting *greeting = data;
    if (bytes < sizeof *greeting || !has_magic(data, bytes, GREETING_MAGIC))
        return "it does not greet as Fathom does";
    *version_out = greeting->record_version;
    if (greeting->greeting_version == GREETING_VERSION && bytes == sizeof *greeting &&
        (*version_out == RECORD_VERSION || *version_out == record_past.version))
        return NULL;
    char version[sizeof greeting->version] = "";
    for (size_t i = 0; i + 1 < sizeof version; i++)
        if (greeting->version[i] > ' ' && greeting->version[i] < 0x7F)
            version[i] = greeting->version[i];
        else
            break;
    snprintf(text, 200,
             "it is Fathom %s, which speaks records of version %u; here is %s with versions %d and "
             "%d: run releases that follow one another",
             version, greeting->record_version, FATHOM_VERSION, record_past.version,
             RECORD_VERSION);
    return text;
}

/* `file`: descriptor of the connection. */
static void wire_take_first(struct wire *wire, const uint8_t id[ID_BYTES], size_t bytes, int file) {
    char text[200];
    if (bytes == 0) return; /* a heartbeat of a peer that was dropped and removed */
    uint32_t version = RECORD_VERSION;
    const char *fault = greeting_fault(wire->buffer, bytes, &version, text);
    struct wire_peer *peer = wire_add_peer(wire, id);
    if (!peer) {
        if (!wire->full_reported)
            log_say(LOG_WARNING, SUBJECT, "no more connections are taken address=%s connections=%d",
                    wire->address, WIRE_PEERS_MAX);
        wire->full_reported = true;
        return;
    }
    if (!fault) peer->version = version;
    enum status status = send_greeting(wire, peer, peer->version);
    if (fault) {
        peer->state = STATE_DROPPED; /* never announced */
        wire_drop_each(wire, peer, fault);
    } else if (status) {
        peer->state = STATE_NONE;
    } else {
        read_events(wire); /* it may have been accepted just now */
        event_active(wire->monitor_event, EV_READ, 0);
        wire_door_know(wire->door, file);
        peer->file = file;
        wire->options.joined(wire->options.context, peer->number);
    }
}

static void wire_take_record(struct wire *wire, struct wire_peer *peer, size_t bytes) {
    const struct record *record = wire->buffer;
    peer->last_seen_ns = clock_now_ns();
    if (bytes == 0) return;
    if (peer->version != RECORD_VERSION) {
        bytes =
            record_past_from_past(&record_past, record, bytes, wire->came, WIRE_MESSAGE_BYTES_MAX);
        record = wire->came;
    }
    if (!record_valid(record, bytes))
        wire_drop_each(wire, peer, "it sent an invalid record");
    else if (!(wire->options.kinds & wire_kind((enum record_kind)record->kind)))
        wire_drop_each(wire, peer, "it sent a record that is not its to send");
    else
        wire->options.take(wire->options.context, peer->number, record);
}

/* Receives one message on a listening side: an id, and one part. Returns false if there is none. */
static bool take_routed(struct wire *wire) {
    uint8_t id[ID_BYTES] = {1};
    zmq_msg_t name;
    int more = 0, parts = 0;
    size_t size = sizeof more;
    zmq_msg_init(&name);
    int id_bytes = zmq_msg_recv(&name, wire->socket, ZMQ_DONTWAIT);
    if (id_bytes == ID_BYTES) memcpy(id, zmq_msg_data(&name), ID_BYTES);
    struct wire_peer *peer = id[0] == 0 ? wire_find_id(wire, id) : NULL;
    const int file = id_bytes >= 0 && !peer ? zmq_msg_get(&name, ZMQ_SRCFD) : -1;
    zmq_msg_close(&name);
    if (id_bytes < 0) return false;
    message_order_taking();
    size_t bytes = 0;
    while (zmq_getsockopt(wire->socket, ZMQ_RCVMORE, &more, &size) == 0 && more) {
        int count = zmq_recv(wire->socket, wire->buffer, WIRE_MESSAGE_BYTES_MAX, ZMQ_DONTWAIT);
        if (count < 0) return false;
        bytes = (size_t)count;
        parts++;
    }
    if (id[0] != 0) return true; /* the peer chose its id, which Fathom never does */
    if (!peer)
        wire_take_first(wire, id, parts == 1 ? bytes : 1, file);
    else if (peer->state == STATE_UP)
        wire_take_record(wire, peer, parts == 1 ? bytes : 1);
    return true;
}

static void open_again(struct wire *wire, long ms);

/* Logs once why the wire does not connect. */
static void wire_report(struct wire *wire, const char *why) {
    if (!wire->reported)
        log_say(LOG_WARNING, SUBJECT, "no connection yet, it is tried again address=%s why=%s",
                wire->address, why);
    wire->reported = true;
}

static void wire_leave(struct wire *wire, const char *why, long ms) {
    if (why) wire_report(wire, why);
    wire_end_peer(wire, &wire->peers[0]);
    open_again(wire, ms);
}

/* Receives one message on a connecting side. Returns false if there is none, or the socket is
 * closed. */
static bool take_single(struct wire *wire) {
    struct wire_peer *peer = &wire->peers[0];
    char text[200];
    int more = 0;
    size_t size = sizeof more;
    int bytes = zmq_recv(wire->socket, wire->buffer, WIRE_MESSAGE_BYTES_MAX, ZMQ_DONTWAIT);
    if (bytes < 0) return false;
    message_order_taking();
    bool whole = zmq_getsockopt(wire->socket, ZMQ_RCVMORE, &more, &size) == 0 && !more;
    if (has_magic(wire->buffer, (size_t)bytes, FAREWELL_MAGIC) &&
        bytes == sizeof(struct farewell)) {
        struct farewell *farewell = wire->buffer;
        farewell->why[sizeof farewell->why - 1] = 0;
        for (char *c = farewell->why; *c; c++)
            if (*c < ' ' || *c == 0x7F) *c = '?';
        snprintf(text, sizeof text, "refused: %.150s", farewell->why);
        wire_leave(wire, text, REFUSED_MS);
        return false;
    }
    if (peer->state == STATE_UP) {
        wire_take_record(wire, peer, whole ? (size_t)bytes : 1);
        if (peer->state == STATE_UP) return true;
        wire_leave(wire, NULL, REFUSED_MS);
        return false;
    }
    uint32_t version;
    const char *fault = greeting_fault(wire->buffer, whole ? (size_t)bytes : 1, &version, text);
    if (fault) {
        wire_leave(wire, fault, REFUSED_MS);
        return false;
    }
    if (version != wire->greets_in) { /* the listener does not support this version */
        wire->greets_in = version;
        wire_leave(wire, NULL, REOPEN_MS);
        return false;
    }
    wire->reported = false;
    *peer = (struct wire_peer){.state = STATE_UP,
                               .number = ++wire->last_number,
                               .version = version,
                               .last_seen_ns = clock_now_ns()};
    wire->options.joined(wire->options.context, peer->number);
    return true;
}

static void wire_take_messages(struct wire *wire) {
    for (int i = 0; wire->socket && !wire->ending; i++) {
        if (!wire->options.may_take(wire->options.context)) return; /* wire_resume continues */
        if (i == TURN_MESSAGES) {
            event_active(wire->socket_event, EV_READ, 0);
            return;
        }
        if (!(wire->options.listens ? take_routed(wire) : take_single(wire))) break;
    }
    if (wire->socket) look_again(wire);
}

static void on_socket(evutil_socket_t file, short what, void *context) {
    wire_take_messages(context);
}

void wire_resume(struct wire *wire) {
    if (wire->socket) look_again(wire);
}

/* ---- heartbeats ---- */

static void look_after_peers(struct wire *wire) {
    int64_t now_ns = clock_now_ns();
    bool takes = wire->options.may_take(wire->options.context);
    for (uint32_t i = 0; i < wire->peer_count; i++) {
        struct wire_peer *peer = &wire->peers[i];
        if (peer->state == STATE_NONE) continue;
        if (!takes) peer->last_seen_ns = now_ns; /* this side does not read */
        if (send_bytes(wire, peer, "", 0) == STATUS_GONE)
            wire_end_peer(wire, peer);
        else if (peer->state == STATE_UP && now_ns - peer->last_seen_ns > SILENT_NS_MAX)
            wire_drop_each(wire, peer, "it has been silent for too long");
    }
}

static void tick_in(struct wire *wire, long ms) {
    event_add(wire->tick, &(struct timeval){.tv_usec = ms * 1000});
}

static void wire_on_tick(evutil_socket_t file, short what, void *context) {
    struct wire *wire = context;
    tick_in(wire, TICK_MS);
    if (wire->options.listens) {
        look_after_peers(wire);
        wire_door_tick(wire->door);
    } else if (wire->peers[0].state == STATE_UP) {
        enum status status = send_bytes(wire, &wire->peers[0], "", 0);
        if (status == STATUS_OK && clock_now_ns() - wire->peers[0].last_seen_ns > SILENT_NS_MAX &&
            wire->options.may_take(wire->options.context))
            wire_leave(wire, "it has been silent for too long", REOPEN_MS);
    }
    wire_take_messages(wire);
}

/* Reads the next event. Returns false if there is none. */
static bool next_event(void *monitor, uint16_t *event_out, uint32_t *value_out) {
    uint8_t first[16], address[1024];
    if (zmq_recv(monitor, first, sizeof first, ZMQ_DONTWAIT) < 6) return false;
    zmq_recv(monitor, address, sizeof address, ZMQ_DONTWAIT);
    memcpy(event_out, first, 2);
    memcpy(value_out, first + 2, 4);
    return true;
}

static void report_mismatch(struct wire *wire) {
    const char *why =
        "keys do not match, only one side has them, or one of the two got no time to greet";
    if (!wire->options.listens)
        wire_report(wire, why);
    else if (!wire_door_is_crowded(wire->door)) /* else a line was logged already */
        log_say(LOG_WARNING, SUBJECT, "a peer was refused address=%s why=%s", wire->address, why);
}

static void forget_file(struct wire *wire, int file) {
    wire_door_leave(wire->door, file);
    for (uint32_t i = 0; i < wire->peer_count; i++)
        if (wire->peers[i].file == file) wire->peers[i].file = -1;
}

/* Reads the socket's events: wire_door needs them before a greeting is read. */
static void read_events(struct wire *wire) {
    uint16_t event;
    uint32_t value;
    while (wire->monitor && !wire->ending && next_event(wire->monitor, &event, &value)) {
        if (event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH && !wire->options.listens)
            wire_report(wire, "this side's key is not let in there");
        else if (event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL ||
                 event == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL)
            report_mismatch(wire);
        wire->has_ended |= event == ZMQ_EVENT_DISCONNECTED;
        if (!wire->door) continue;
        if (event == ZMQ_EVENT_LISTENING) wire_door_listens(wire->door, (int)value);
        if (event == ZMQ_EVENT_ACCEPTED) wire_door_enter(wire->door, (int)value);
        if (event == ZMQ_EVENT_DISCONNECTED) forget_file(wire, (int)value);
        if (event == ZMQ_EVENT_ACCEPT_FAILED) wire_door_fail(wire->door, (int)value);
    }
}

static void on_monitor(evutil_socket_t file, short what, void *context) {
    struct wire *wire = context;
    read_events(wire);
    if (!wire->has_ended || wire->ending) return;
    wire->has_ended = false;
    if (wire->options.listens) {
        look_after_peers(wire); /* the tick detects the loss if the socket does not report it yet */
        tick_in(wire, 20);
    } else {
        wire_take_messages(wire); /* last messages, possibly a farewell */
        if (!wire->ending) wire_leave(wire, NULL, REOPEN_MS);
    }
}

/* ---- keys ---- */

static void answer_zap(struct wire *wire) {
    char parts[8][256];
    int sizes[8] = {0}, count = 0, more = 1;
    size_t size = sizeof more;
    while (more && count < 8) {
        sizes[count] = zmq_recv(wire->zap, parts[count], sizeof parts[count], ZMQ_DONTWAIT);
        if (sizes[count] < 0) return;
        count++;
        zmq_getsockopt(wire->zap, ZMQ_RCVMORE, &more, &size);
    }
    /* version, request, domain, address, identity, mechanism, credentials */
    bool allowed = count == 7 && sizes[5] == 5 && memcmp(parts[5], "CURVE", 5) == 0 &&
                   sizes[6] == 32 && wire_keys_allow(wire->options.keys, (const uint8_t *)parts[6]);
    if (!allowed)
        log_say(LOG_WARNING, SUBJECT, "a peer was refused address=%s peer=%.*s why=%s",
                wire->address, count > 3 && sizes[3] < (int)sizeof parts[3] ? sizes[3] : 0,
                parts[3], "its key is not let in");
    zmq_send(wire->zap, "1.0", 3, ZMQ_SNDMORE);
    zmq_send(wire->zap, parts[1], (size_t)(count > 1 ? sizes[1] : 0), ZMQ_SNDMORE);
    zmq_send(wire->zap, allowed ? "200" : "400", 3, ZMQ_SNDMORE);
    zmq_send(wire->zap, "", 0, ZMQ_SNDMORE);
    zmq_send(wire->zap, "", 0, ZMQ_SNDMORE);
    zmq_send(wire->zap, "", 0, 0);
}

static bool readable(void *socket) {
    int events = 0;
    size_t bytes = sizeof events;
    return zmq_getsockopt(socket, ZMQ_EVENTS, &events, &bytes) == 0 && (events & ZMQ_POLLIN);
}

static void on_zap(evutil_socket_t file, short what, void *context) {
    struct wire *wire = context;
    while (readable(wire->zap))
        answer_zap(wire);
}

static int set_keys(const struct wire *wire, void *socket) {
    const struct wire_keys *keys = wire->options.keys;
    const int yes = 1;
    int failed = 0;
    if (!keys) return 0;
    failed |= zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, keys->public, WIRE_KEY_TEXT);
    failed |= zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, keys->secret, WIRE_KEY_TEXT);
    if (wire->options.listens) {
        failed |= zmq_setsockopt(socket, ZMQ_CURVE_SERVER, &yes, sizeof yes);
        failed |= zmq_setsockopt(socket, ZMQ_ZAP_DOMAIN, "fathom", 6);
    } else {
        failed |= zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, keys->gateway, WIRE_KEY_TEXT);
    }
    return failed;
}

/* ---- sockets ---- */

static struct event *wire_watch(struct wire *wire, void *socket, event_callback_fn call) {
    int file = -1;
    size_t bytes = sizeof file;
    if (zmq_getsockopt(socket, ZMQ_FD, &file, &bytes)) return NULL;
    struct event *event = event_new(wire->base, file, EV_READ | EV_PERSIST, call, wire);
    if (event) {
        event_add(event, NULL);
        event_active(event, EV_READ, 0); /* it may already be readable */
    }
    return event;
}

static int set_options(const struct wire *wire, void *socket) {
    static const struct {
        int name, value;
    } rows[] = {{ZMQ_LINGER, 0},
                {ZMQ_SNDHWM, MESSAGES_MAX},
                {ZMQ_RCVHWM, MESSAGES_MAX},
                {ZMQ_HEARTBEAT_IVL, 1000},
                {ZMQ_HEARTBEAT_TIMEOUT, 4000},
                {ZMQ_HEARTBEAT_TTL, 5000},
                {ZMQ_HANDSHAKE_IVL, 10000},
                {ZMQ_RECONNECT_IVL, 100},
                {ZMQ_RECONNECT_IVL_MAX, 1000}};
    const int64_t bytes_max = WIRE_MESSAGE_BYTES_MAX;
    const int yes = 1;
    int failed = zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &bytes_max, sizeof bytes_max);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        failed |= zmq_setsockopt(socket, rows[i].name, &rows[i].value, sizeof rows[i].value);
    if (strchr(wire->options.address, '['))
        failed |= zmq_setsockopt(socket, ZMQ_IPV6, &yes, sizeof yes);
    if (wire->options.listens)
        failed |= zmq_setsockopt(socket, ZMQ_ROUTER_MANDATORY, &yes, sizeof yes);
    return failed | set_keys(wire, socket);
}

static void close_socket(void **socket, struct event **event) {
    if (*event) event_free(*event);
    if (*socket) zmq_close(*socket);
    *event = NULL;
    *socket = NULL;
}

static void wire_close_sockets(struct wire *wire) {
    if (wire->socket) zmq_socket_monitor(wire->socket, NULL, 0);
    close_socket(&wire->monitor, &wire->monitor_event);
    close_socket(&wire->socket, &wire->socket_event);
}

static enum status wire_failed(const struct wire *wire, const char *what, struct error *error) {
    return error_set(error, STATUS_IO, "cannot %s %.200s: %s", what, wire->address,
                     zmq_strerror(errno));
}

static enum status open_sockets(struct wire *wire, struct error *error) {
    const int events = ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                       ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH |
                       ZMQ_EVENT_LISTENING | ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_ACCEPT_FAILED;
    char monitor[64];
    snprintf(monitor, sizeof monitor, MONITOR "-%u", ++wire->monitors);
    wire->socket = zmq_socket(wire->zmq, wire->options.listens ? ZMQ_ROUTER : ZMQ_DEALER);
    wire->monitor = zmq_socket(wire->zmq, ZMQ_PAIR);
    if (!wire->socket || !wire->monitor || set_options(wire, wire->socket) ||
        zmq_socket_monitor(wire->socket, monitor, events) || zmq_connect(wire->monitor, monitor))
        return wire_failed(wire, "prepare", error);
    if (wire->options.listens) {
        size_t bytes = sizeof wire->address;
        if (zmq_bind(wire->socket, wire->options.address))
            return wire_failed(wire, "listen on", error);
        zmq_getsockopt(wire->socket, ZMQ_LAST_ENDPOINT, wire->address, &bytes);
    } else if (zmq_connect(wire->socket, wire->options.address)) {
        return wire_failed(wire, "connect to", error);
    }
    wire->socket_event = wire_watch(wire, wire->socket, on_socket);
    wire->monitor_event = wire_watch(wire, wire->monitor, on_monitor);
    if (!wire->socket_event || !wire->monitor_event)
        return error_set(error, STATUS_NO_MEMORY, "no memory for %.200s", wire->address);
    if (!wire->options.listens) /* sent as soon as there is a connection */
        return send_greeting(wire, &wire->peers[0], wire->greets_in)
                   ? wire_failed(wire, "greet", error)
                   : STATUS_OK;
    return STATUS_OK;
}

static void open_again(struct wire *wire, long ms) {
    event_add(wire->reopen, &(struct timeval){.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000});
    wire->ending = true; /* closed later: this may run within its events */
    event_del(wire->socket_event);
    event_del(wire->monitor_event);
}

static void on_reopen(evutil_socket_t file, short what, void *context) {
    struct wire *wire = context;
    struct error error;
    wire_close_sockets(wire);
    wire->ending = false;
    if (!open_sockets(wire, &error)) return;
    wire_report(wire, error.text);
    wire_close_sockets(wire);
    event_add(wire->reopen, &(struct timeval){.tv_sec = 1});
}

/* ---- opening and closing ---- */

static enum status open_zap(struct wire *wire, struct error *error) {
    if (!wire->options.keys || !wire->options.listens) return STATUS_OK;
    wire->zap = zmq_socket(wire->zmq, ZMQ_REP);
    if (!wire->zap || zmq_bind(wire->zap, ZAP)) return wire_failed(wire, "guard", error);
    wire->zap_event = wire_watch(wire, wire->zap, on_zap);
    return wire->zap_event ? STATUS_OK : wire_failed(wire, "guard", error);
}

bool wire_next_address(struct bytes *rest, struct bytes *address_out) {
    if (!rest->data) return false;
    const char *comma = memchr(rest->data, ',', rest->count);
    size_t count = comma ? (size_t)(comma - rest->data) : rest->count;
    *address_out = (struct bytes){rest->data, count};
    *rest = comma ? (struct bytes){comma + 1, rest->count - count - 1} : (struct bytes){NULL, 0};
    return true;
}

enum status wire_open(const struct wire_options *options, struct event_base *base,
                      struct wire **wire_out, struct error *error) {
    enum status status = wire_keys_check_address(options->address, options->keys != NULL,
                                                 options->plain_anywhere, error);
    if (status) return status;
    struct wire *wire = calloc(1, sizeof *wire);
    if (!wire) return error_set(error, STATUS_NO_MEMORY, "no memory for a wire");
    wire->options = *options;
    wire->base = base;
    snprintf(wire->address, sizeof wire->address, "%s", options->address);
    wire->peers = calloc(WIRE_PEERS_MAX, sizeof *wire->peers);
    wire->peer_count = options->listens ? 0 : 1;
    wire->greets_in = RECORD_VERSION;
    wire->buffer = malloc(WIRE_MESSAGE_BYTES_MAX);
    /* stays untouched if all peers have one version */
    wire->came = calloc(1, WIRE_MESSAGE_BYTES_MAX);
    wire->goes = calloc(1, WIRE_MESSAGE_BYTES_MAX);
    wire->zmq = zmq_ctx_new();
    wire->tick = evtimer_new(base, wire_on_tick, wire);
    wire->reopen = evtimer_new(base, on_reopen, wire);
    if (!wire->peers || !wire->buffer || !wire->came || !wire->goes || !wire->zmq || !wire->tick ||
        !wire->reopen)
        status = error_set(error, STATUS_NO_MEMORY, "no memory for a wire");
    if (!status && options->listens) status = wire_door_open(wire->address, &wire->door, error);
    if (!status) status = open_zap(wire, error);
    if (!status) status = open_sockets(wire, error);
    if (status) {
        wire_close(wire);
        return status;
    }
    tick_in(wire, TICK_MS);
    *wire_out = wire;
    return STATUS_OK;
}

void wire_close(struct wire *wire) {
    if (!wire) return;
    wire_close_sockets(wire);
    close_socket(&wire->zap, &wire->zap_event);
    if (wire->tick) event_free(wire->tick);
    if (wire->reopen) event_free(wire->reopen);
    if (wire->zmq) zmq_ctx_term(wire->zmq);
    wire_door_close(wire->door);
    free(wire->peers);
    free(wire->buffer);
    free(wire->came);
    free(wire->goes);
    free(wire);
}

const char *wire_address(const struct wire *wire) {
    return wire->address;
}
