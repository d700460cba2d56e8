/* SPDX-License-Identifier: Apache-2.0
 * The HTTP server: turns requests into RECORD_CLIENT_REQUEST, and RECORD_RESPOND and
 * RECORD_STREAM_* back into answers. Serves the pages embedded in the binary itself. Runs on
 * libevent's bufferevents, in the event loop's one thread.
 *
 * Time in which the event loop stood still counts against no client (host/http/own_time).
 *
 * What it protects: heads and bodies have limits and deadlines, so a slow sender is cut off; a
 * reader who lets its answer pile up is cut off; nothing is kept of a body that the gateway does
 * not want, and the memory of all unfinished bodies together is bounded, and so is that of whole
 * answers that wait to be taken; when it or the connections run out, the idlest clients leave
 * (host/process/connection_eviction.h). A client that leaves is
 * noticed at once, also while nothing is being written, and reported with RECORD_CLIENT_GONE. A
 * client that closes its sending side counts as gone. Requests that come from other sites' web
 * pages are refused (host/http/host_allowlist.h).
 *
 * A process has up to one of each kind (enum http_listener). Their connections' ids differ.
 */
#ifndef HOST_HTTP_HTTP_SERVER_H
#define HOST_HTTP_HTTP_SERVER_H

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
    bool shares_port;           /* with other processes that say so */
    const char *host_allowlist; /* as struct host_allowlist' named */
    const char *
        allow_origins; /* as struct host_allowlist' origins; NULL: other sites' pages are kept out */
    uint32_t connections_max;
    uint32_t connections_per_network; /* idle and unknown ones; 0: any number */
    size_t head_bytes_max, body_bytes_max;
    size_t bodies_bytes_max;  /* of all unfinished requests together */
    size_t answers_bytes_max; /* of all answers that are made and have not left, likewise */
    size_t output_bytes_max;  /* unsent bytes of a stream before its reader is late */
    uint32_t behind_ms_max;   /* a reader who is late for so long is cut off */
    uint32_t head_ms_max;     /* from a request's first byte to its head's end */
    uint32_t body_ms_max;
    uint32_t pace_ms_max;   /* a body idle for so long (connection_eviction_credit) */
    uint32_t idle_ms_max;   /* a connection without a request; Keep-Alive says so, in seconds */
    uint32_t stall_ms_max;  /* a reader that takes nothing */
    uint32_t linger_ms_max; /* a refused client that sends nothing and does not leave */
    const struct http_asset *assets;
    size_t asset_count;
    /* Takes a copy of the record. STATUS_FULL is answered with 503 (requests only: a CLIENT_GONE
     * must be taken always). */
    enum status (*deliver)(void *context, const struct record *record);
    void *deliver_context;
    /* Asked with a request's head, before its body is read. NULL: every body is wanted. */
    enum admission (*admit)(void *context, const struct record_client_request *head);
    void *admit_context;
};

/* Limits that suit a public server; host, port, assets and deliver are left to the caller. */
void http_server_defaults(struct http_server_options *options);

/* Binds the address, so that a wrong one is known before anything slow starts; clients are refused
 * until http_server_start. */
enum status http_server_open(const struct http_server_options *options, struct event_base *base,
                             struct http_server **server_out, struct error *error);
enum status http_server_start(struct http_server *server, struct error *error);
void http_server_close(struct http_server *server);

/* "http://127.0.0.1:8000", with the port in use. */
const char *http_server_url(const struct http_server *server);

/* The listener of the server that has the connection. */
enum http_listener http_server_listener(struct connection_id id);

/* Carries out a RECORD_RESPOND, STREAM_BEGIN, STREAM_DATA or STREAM_END. It does nothing if the client
 * is gone. */
void http_server_perform(struct http_server *server, const struct record *record);

/* The client that a request counts for (http_request_client), from within deliver on; 0: the
 * connection is closed. */
uint64_t http_server_client(struct http_server *server, struct connection_id id);

/* If the client of that request has closed its sending side, closes the connection, which delivers
 * CLIENT_GONE. False: the client is there. */
bool http_server_close_left(struct http_server *server, struct connection_id id);

/* Answers a request with 503 that was delivered and that the caller has dropped. */
bool http_server_refuse_waiting(struct http_server *server, struct connection_id id);

/* From now on every answer closes its connection. */
void http_server_drain(struct http_server *server);

/* Requests that have come whole and are not answered to the last byte. */
uint32_t http_server_open_exchanges(const struct http_server *server);

#endif
