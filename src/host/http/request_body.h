/* SPDX-License-Identifier: Apache-2.0
 * The body of a request as it comes, piece by piece: decoded where it is encoded, in memory that is asked
 * for before it is taken. Neither as it comes nor decoded it grows beyond its limit, so a few bytes that
 * would become many are refused while they are decoded.
 */
#ifndef HOST_HTTP_REQUEST_BODY_H
#define HOST_HTTP_REQUEST_BODY_H

#include "host/http/content_decoder.h"
#include "host/http/http_message.h"

struct evbuffer;

struct request_body {
    enum content_coding coding;
    bool chunked;     /* it ends by itself; else with the last of the bytes announced */
    size_t announced; /* its bytes as they come; 0: none, or not known */
    size_t bytes_max;
    bool (*hold)(void *context, size_t more); /* may it take so many bytes more? */
    void *context;
    /* Zeros at first: */
    char *text;
    size_t count, capacity;
    size_t came; /* bytes, as they come */
    struct content_decoder *decoder;
    struct http_chunks chunks;
    bool whole; /* all of it has come */
};

/* Reads what has come of it, and of a whole one nothing that follows. Why the request is refused: 400
 * (not of its coding, or cut off in it), 413 (too large) or 503 (no memory). */
struct http_refusal request_body_read(struct request_body *body, struct evbuffer *in);

/* The same of bytes that are the body's alone: 0, or the status. */
uint32_t request_body_take(struct request_body *body, struct bytes piece);

/* True if what has come does not end within its coding. */
bool request_body_is_decoded(const struct request_body *body);

/* Frees what it has, and becomes zeros. */
void request_body_clear(struct request_body *body);

#endif
