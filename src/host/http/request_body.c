/* SPDX-License-Identifier: Apache-2.0 */
#include "host/http/request_body.h"

#include <event2/buffer.h>
#include <stdlib.h>

#define FIRST_BYTES 4096
#define DECODED_BYTES ((size_t)16 << 10) /* decoded at a time */

static bool grow(struct request_body *body, size_t bytes) {
    if (bytes <= body->capacity) return true;
    size_t capacity = body->capacity ? body->capacity * 2 : FIRST_BYTES;
    if (!body->coding && body->announced && capacity > body->announced) capacity = body->announced;
    if (capacity < bytes) capacity = bytes;
    char *text = realloc(body->text, capacity);
    if (!text) return false;
    body->text = text;
    body->capacity = capacity;
    return true;
}

static uint32_t request_body_keep(struct request_body *body, struct bytes piece) {
    size_t bytes = body->count + piece.count;
    if (bytes > body->bytes_max) return 413;
    if (!body->hold(body->context, piece.count * content_decoder_weight(body->coding))) return 503;
    if (!grow(body, bytes)) return 503;
    memcpy(body->text + body->count, piece.data, piece.count);
    body->count = bytes;
    return 0;
}

/* Decodes a piece, at most to the limit of a body. */
static uint32_t keep_decoded(struct request_body *body, struct bytes piece) {
    char out[DECODED_BYTES];
    size_t count;
    uint32_t status = 0;
    if (!body->decoder && body->hold(body->context, content_decoder_bytes(body->coding)))
        body->decoder = content_decoder_open(body->coding);
    if (!body->decoder) return 503;
    do {
        if (!content_decoder_take(body->decoder, &piece, out, sizeof out, &count)) return 400;
        if (count) status = request_body_keep(body, (struct bytes){out, count});
    } while (!status && (piece.count || count == sizeof out));
    return status;
}

uint32_t request_body_take(struct request_body *body, struct bytes piece) {
    body->came += piece.count;
    if (body->came > body->bytes_max) return 413;
    return body->coding ? keep_decoded(body, piece) : request_body_keep(body, piece);
}

bool request_body_is_decoded(const struct request_body *body) {
    return !body->decoder || content_decoder_is_whole(body->decoder);
}

static struct http_refusal refuse_with(uint32_t status) {
    return (struct http_refusal){
        status, status == 413   ? "the request's body is too large"
                : status == 400 ? "the body is not what its Content-Encoding says"
                                : "too many large requests at once; try again in a moment"};
}

/* Finds the bytes of the body among the next bytes. Returns the number of bytes consumed. */
static size_t find_piece(struct request_body *body, struct bytes text, struct bytes *piece_out) {
    if (body->chunked) return http_message_chunks_take(&body->chunks, text, piece_out);
    size_t left = body->announced - body->came;
    *piece_out = (struct bytes){text.data, text.count < left ? text.count : left};
    return piece_out->count;
}

struct http_refusal request_body_read(struct request_body *body, struct evbuffer *in) {
    for (;;) {
        struct evbuffer_iovec run = {NULL, 0};
        struct bytes piece;
        uint32_t status = 0;
        body->whole = body->chunked ? body->chunks.done : body->came >= body->announced;
        if (body->whole || evbuffer_get_length(in) == 0) break;
        evbuffer_peek(in, -1, NULL, &run, 1);
        size_t taken = find_piece(body, (struct bytes){run.iov_base, run.iov_len}, &piece);
        if (piece.count) status = request_body_take(body, piece);
        if (status) return refuse_with(status);
        evbuffer_drain(in, taken);
        if (body->chunks.broken) return (struct http_refusal){400, "the chunked body is broken"};
    }
    bool cut_off = body->whole && !request_body_is_decoded(body);
    return cut_off ? refuse_with(400) : (struct http_refusal){0, NULL};
}

void request_body_clear(struct request_body *body) {
    free(body->text);
    content_decoder_close(body->decoder);
    *body = (struct request_body){.text = NULL};
}
