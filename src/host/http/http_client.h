/* SPDX-License-Identifier: Apache-2.0
 * An HTTP/1.1 client for load: many connections to one server, each with one request at a time and
 * kept alive from request to request, all in one thread on libevent. The caller names a connection
 * by its index, receives each request's head, data and end, and sends the next from there.
 *
 * A kept connection that the server has closed meanwhile is opened again, once per request, without
 * a word to the caller. Plain HTTP only.
 */
#ifndef HOST_HTTP_HTTP_CLIENT_H
#define HOST_HTTP_HTTP_CLIENT_H

#include "base/bytes.h"
#include "base/status.h"

struct http_client;

enum http_end {
    HTTP_END_WHOLE,
    HTTP_END_NO_CONNECTION, /* refused, or too many files are open */
    HTTP_END_BROKEN,        /* the answer ended too early, or is not HTTP */
    HTTP_END_TIMEOUT,       /* no byte came for stall_ms_max */
    HTTP_END_LEFT,          /* the caller wanted no more: http_client_leave */
    HTTP_END_COUNT
};

struct http_client_options {
    const char *url; /* http://host[:port][/prefix] */
    uint32_t connections_max;
    uint32_t stall_ms_max;
    void (*head)(void *context, uint32_t connection, uint32_t http_status);
    void (*data)(void *context, uint32_t connection, struct bytes data);
    void (*end)(void *context, uint32_t connection, enum http_end end); /* it may send again */
    void (*wake)(void *context); /* at the time of http_client_wake_in */
    void *context;
};

/* Resolves the URL's host; nothing is sent yet. */
enum status http_client_open(const struct http_client_options *options,
                             struct http_client **client_out, struct error *error);
void http_client_close(struct http_client *client);

/* "http://host:port", as in error messages. */
const char *http_client_name(const struct http_client *client);

/* Begins a request on a connection that has none: POST with a JSON body, or GET if body.data is
 * NULL. `path` begins with a slash; the URL's prefix goes in front. STATUS_NO_MEMORY: nothing
 * happens. */
enum status http_client_send(struct http_client *client, uint32_t connection, const char *path,
                             struct bytes body);

/* From within `data` only: hangs up on the answer as soon as that returns. */
void http_client_leave(struct http_client *client, uint32_t connection);

/* Calls `wake` in so many seconds, once; a later call replaces an earlier one. */
void http_client_wake_in(struct http_client *client, double seconds);

/* Runs until http_client_stop. */
void http_client_run(struct http_client *client);
void http_client_stop(struct http_client *client);

#endif
