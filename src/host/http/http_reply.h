/* SPDX-License-Identifier: Apache-2.0
 * Writes HTTP/1.1 responses of the server to the output buffer of a connection: heads, and bodies
 * that are complete. Each function except http_reply_stream writes a whole response. http_server.c
 * decides whether a connection stays open and what is read from it.
 */
#pragma once

#include "base/bytes.h"
#include "contract/record_client.h"

struct evbuffer;

struct http_reply { /* the common properties of all responses to a request */
    struct evbuffer *out;
    const char *request_name;  /* X-Request-Id and Request-Id */
    bool lets_pages_in;        /* some other origins are allowed */
    struct bytes allow_origin; /* "*" or the page's origin, if the page may read the response */
    bool closes;               /* the connection closes after the response */
    uint32_t idle_s;           /* seconds that an idle connection is kept otherwise */
    bool without_body;         /* the response to a HEAD */
    bool knows_no_coding;      /* the reason for a 415 is the Content-Encoding */
    bool speaks_anthropic;     /* errors have the format of Anthropic's API; else of OpenAI's */
};

/* An embedded file. */
struct http_asset {
    const char *path, *type;
    struct bytes content;
};

/* An API error of the HTTP server. The message is plain text that needs no escapes. */
void http_reply_error(const struct http_reply *reply, uint32_t status, const char *message);

/* `known` is the request's If-None-Match. If it matches the file, the response is 304. */
void http_reply_asset(const struct http_reply *reply, const struct http_asset *asset,
                      struct bytes known);

/* Answers a browser's preflight (OPTIONS) for a page of another origin. */
void http_reply_options(const struct http_reply *reply);

void http_reply_respond(const struct http_reply *reply, const struct record_respond *answer);

/* Writes the head alone. The body follows in chunks, or ends with the connection. */
void http_reply_stream(const struct http_reply *reply, const struct record_stream_begin *record,
                       bool chunked);
