/* SPDX-License-Identifier: Apache-2.0
 * The HTTP server. It converts requests to RECORD_CLIENT_REQUEST, and converts RECORD_RESPOND and
 * RECORD_STREAM_* to responses. It serves the embedded pages itself. It uses libevent's
 * bufferevents, in the event loop's only thread.
 *
 * Time during which the event loop was blocked does not count against clients
 * (host/http/own_time).
 *
 * Protection: heads and bodies have limits and deadlines, so a slow sender is disconnected, and
 * so is a reader that lets its response pile up. A body that the gateway does not want is not
 * stored. The memory of all unfinished bodies together is bounded, and so is that of whole
 * responses that wait to be sent. When the memory or the connections run out, the idlest clients
 * are disconnected (host/process/connection_eviction.h). A client that disconnects is detected
 * at once, also while nothing is being written, and reported with RECORD_CLIENT_GONE. A client
 * that closes its sending side counts as gone. Requests from web pages of other sites are
 * rejected (host/http/host_allowlist.h).
 *
 * A process has at most one server of each kind (enum http_listener). Their connection ids
 * differ.
 */
#pragma once

#include "base/bytes.h"
#include "base/status.h"
#include "contract/record_client.h"
#include "host/http/http_reply.h"

struct event_base;
struct http_server;

struct http_server_options {
    enum http_listener listener;
    const char *host;           /* name or address to listen on */
    uint32_t port;              /* 0: any free one */
    bool shares_port;           /* share the port with other processes that set this */
    const char *host_allowlist; /* as `named` in struct host_allowlist */
    /* as `origins` in struct host_allowlist; NULL: pages of other sites are rejected */
    const char *allow_origins;
    uint32_t connections_max;
    /* limit of idle connections without a known key per network; 0: unlimited */
    uint32_t connections_per_network;
    size_t head_bytes_max, body_bytes_max;
    size_t bodies_bytes_max;  /* limit for all unfinished requests together */
    size_t answers_bytes_max; /* limit for all responses that are not sent completely, together */
    size_t output_bytes_max;  /* a stream with more unsent bytes has a late reader */
    uint32_t behind_ms_max;   /* a reader that is late for this long is disconnected */
    uint32_t head_ms_max;     /* from the first byte of a request to the end of its head */
    uint32_t body_ms_max;
    uint32_t pace_ms_max; /* time after which a body is idle (connection_eviction_credit) */
    /* timeout of a connection without a request; also in the header Keep-Alive, in seconds */
    uint32_t idle_ms_max;
    uint32_t stall_ms_max;  /* timeout of a reader that reads nothing */
    uint32_t linger_ms_max; /* timeout of a refused client that neither sends nor disconnects */
    const struct http_asset *assets;
    size_t asset_count;
    /* Delivers a copy of the record. STATUS_FULL is answered with 503 (requests only: a CLIENT_GONE
     * must always be accepted). */
    enum status (*deliver)(void *context, const struct record *record);
    void *deliver_context;
    /* Called with the head of a request, before its body is read. NULL: every body is read. */
    enum admission (*admit)(void *context, const struct record_client_request *head);
    void *admit_context;
};

/* Sets limits that suit a public server. The caller sets host, port, assets and deliver. */
void http_server_defaults(struct http_server_options *options);

/* Binds the address, so that a wrong one is detected before a slow start-up. Clients are refused
 * until http_server_start. */
enum status http_server_open(const struct http_server_options *options, struct event_base *base,
                             struct http_server **server_out, struct error *error);
enum status http_server_start(struct http_server *server, struct error *error);
void http_server_close(struct http_server *server);

/* "http://127.0.0.1:8000", with the port in use. */
const char *http_server_url(const struct http_server *server);

/* The listener of the connection. */
enum http_listener http_server_listener(struct connection_id id);

/* Performs a RECORD_RESPOND, STREAM_BEGIN, STREAM_DATA or STREAM_END. Does nothing if the client
 * has disconnected. */
void http_server_perform(struct http_server *server, const struct record *record);

/* The client of a request (http_request_client), from within `deliver` on; 0 if the connection is
 * closed. */
uint64_t http_server_client(struct http_server *server, struct connection_id id);

/* If the client has closed its sending side, closes the connection, which delivers CLIENT_GONE, and
 * returns true. */
bool http_server_close_left(struct http_server *server, struct connection_id id);

/* Answers a delivered request that the caller has dropped with 503. */
bool http_server_refuse_waiting(struct http_server *server, struct connection_id id);

/* From now on every response closes its connection. */
void http_server_drain(struct http_server *server);

/* The number of complete requests without a complete response. */
uint32_t http_server_open_exchanges(const struct http_server *server);
