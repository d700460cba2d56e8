/* SPDX-License-Identifier: Apache-2.0
 * The writing half of HTTP/1.1, of our server: heads of its answers, and the bodies that come with
 * them, into the output buffer of a connection. Each function but http_reply_stream writes a whole
 * answer. It knows no connection: whether one stays open, and what is read from it, is up to
 * http_server.c.
 */
#ifndef HOST_HTTP_HTTP_REPLY_H
#define HOST_HTTP_HTTP_REPLY_H

#include "base/bytes.h"
#include "contract/record_client.h"

struct evbuffer;

struct http_reply { /* what all answers to a request share */
    struct evbuffer *out;
    const char *request_name;  /* X-Request-Id and Request-Id */
    bool lets_pages_in;        /* of some other sites */
    struct bytes allow_origin; /* "*" or the asking page's, if it may read the answer */
    bool closes;               /* its connection ends with it */
    uint32_t idle_s;           /* else it is kept for so long without a request */
    bool without_body;         /* the answer to a HEAD */
    bool knows_no_coding;      /* a 415 is because of a Content-Encoding */
    bool speaks_anthropic;     /* errors have the shape of Anthropic's API, else of OpenAI's */
};

/* A file of the embedded pages. */
struct http_asset {
    const char *path, *type;
    struct bytes content;
};

/* An API error of HTTP's own; the message is plain text that needs no escapes. */
void http_reply_error(const struct http_reply *reply, uint32_t status, const char *message);

/* `known`: the If-None-Match of the request; of the same file, 304. */
void http_reply_asset(const struct http_reply *reply, const struct http_asset *asset,
                      struct bytes known);

/* Answers a browser's preflight (OPTIONS) for a page of another origin. */
void http_reply_options(const struct http_reply *reply);

void http_reply_respond(const struct http_reply *reply, const struct record_respond *answer);

/* The head alone: what follows comes in chunks, or ends with the connection. */
void http_reply_stream(const struct http_reply *reply, const struct record_stream_begin *record,
                       bool chunked);

#endif
