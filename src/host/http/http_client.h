/* SPDX-License-Identifier: Apache-2.0
 * An HTTP/1.1 client for load tests and `chat --url`: many connections to one server, each with one
 * request at a time and keep-alive, all in one thread on libevent. The caller identifies a
 * connection by its index, receives each response's head, data and end, and may send the next
 * request from there.
 *
 * If the server has closed an idle connection, the client opens it again, once per request, without
 * notifying the caller. Plain HTTP only.
 */
#pragma once

#include "base/bytes.h"
#include "base/status.h"

struct http_client;

enum http_end {
    HTTP_END_WHOLE,
    HTTP_END_NO_CONNECTION, /* connection refused, or too many open files */
    HTTP_END_BROKEN,        /* the response ended early, or is not HTTP */
    HTTP_END_TIMEOUT,       /* no byte was received for stall_ms_max */
    HTTP_END_LEFT,          /* ended by the caller: http_client_leave */
    HTTP_END_COUNT
};

struct http_client_options {
    const char *url;    /* http://host[:port][/prefix] */
    const char *bearer; /* an account's key, sent with each request; NULL: none */
    uint32_t connections_max;
    uint32_t stall_ms_max;
    void (*head)(void *context, uint32_t connection, uint32_t http_status);
    void (*data)(void *context, uint32_t connection, struct bytes data);
    /* the callback may send again */
    void (*end)(void *context, uint32_t connection, enum http_end end);
    void (*wake)(void *context); /* called at the time of http_client_wake_in */
    void *context;
};

/* Resolves the URL's host. Sends nothing yet. */
enum status http_client_open(const struct http_client_options *options,
                             struct http_client **client_out, struct error *error);
void http_client_close(struct http_client *client);

/* "http://host:port", for error messages. */
const char *http_client_name(const struct http_client *client);

/* Sends a request on an idle connection: POST with a JSON body, or GET if body.data is NULL.
 * `path` begins with a slash and follows the URL's prefix. Has no effect if it returns
 * STATUS_NO_MEMORY. */
enum status http_client_send(struct http_client *client, uint32_t connection, const char *path,
                             struct bytes body);

/* Closes the connection when the `data` callback returns. Call only from that callback. */
void http_client_leave(struct http_client *client, uint32_t connection);

/* Calls `wake` once after `seconds`; a later call replaces an earlier one. */
void http_client_wake_in(struct http_client *client, double seconds);

/* Runs until http_client_stop. */
void http_client_run(struct http_client *client);
void http_client_stop(struct http_client *client);
