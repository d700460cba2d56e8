/* SPDX-License-Identifier: Apache-2.0
 * The body of a request, read in pieces and decoded if it is compressed, in memory that is reserved
 * first. Neither the received nor the decoded body may exceed its limit, so a small body that
 * expands beyond it is refused during decoding.
 */
#pragma once

#include "host/http/content_decoder.h"
#include "host/http/http_message.h"

struct evbuffer;

struct request_body {
    enum content_coding coding;
    bool chunked;     /* it has an end mark; else it ends after `announced` bytes */
    size_t announced; /* encoded bytes; 0: none, or unknown */
    size_t bytes_max;
    bool (*hold)(void *context, size_t more); /* reserves `more` bytes of memory; false: refused */
    void *context;
    /* Zeroed at the start: */
    char *text;
    size_t count, capacity;
    size_t came; /* encoded bytes received */
    struct content_decoder *decoder;
    struct http_chunks chunks;
    bool whole; /* the body is complete */
};

/* Reads available bytes of the body, but nothing after its end. Refuses with 400 (invalid or
 * truncated coding), 413 (too large) or 503 (no memory). */
struct http_refusal request_body_read(struct request_body *body, struct evbuffer *in);

/* request_body_read for bytes that belong to the body. Returns 0 or the status. */
uint32_t request_body_take(struct request_body *body, struct bytes piece);

/* True if the received bytes end at the end of their coding. */
bool request_body_is_decoded(const struct request_body *body);

/* Frees the memory and zeroes the struct. */
void request_body_clear(struct request_body *body);
