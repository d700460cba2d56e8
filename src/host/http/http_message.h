/* SPDX-License-Identifier: Apache-2.0
 * The reading half of HTTP/1.1 (RFC 9112), strictly: the head of a request, and bodies in chunks;
 * and the names of an answer's statuses.
 * Pure: bytes in, facts out; no socket. What two readers could understand differently (two lengths,
 * a length and chunks, two hosts, keys or content types, blanks before a colon, folded lines, bare
 * line feeds) is refused, so that no request can be smuggled past a proxy in front of us.
 */
#ifndef HOST_HTTP_HTTP_MESSAGE_H
#define HOST_HTTP_HTTP_MESSAGE_H

#include <stdbool.h>

#include "base/bytes.h"
#include "host/http/content_decoder.h"

enum http_verb {
    HTTP_VERB_GET,
    HTTP_VERB_HEAD,
    HTTP_VERB_POST,
    HTTP_VERB_OPTIONS,
    HTTP_VERB_OTHER
};

struct http_head {
    enum http_verb verb;
    struct bytes path;      /* without the query; slices point into the text that was read */
    uint32_t minor_version; /* HTTP/1.<this> */
    bool keep_alive;
    bool chunked; /* the body comes in chunks; else it is body_bytes long */
    bool expects_continue;
    uint64_t body_bytes; /* as they come: encoded */
    enum content_coding coding;
    bool wants_receipt;    /* X-Fathom-Receipt is there and not 0 or false */
    bool speaks_anthropic; /* anthropic-version is there, or the path is one of Anthropic's API */
    /* data NULL: absent. `host` is the target's where that is absolute (RFC 9112, 3.2.2) */
    struct bytes host, authorization, api_key, origin, content_type, if_none_match;
    struct bytes request_id; /* X-Request-Id's */
};

/* Why a request is refused: an HTTP status and a sentence for its sender; status 0: it is not. */
struct http_refusal {
    uint32_t status;
    const char *message;
};

/* Bytes of the head at the start of `text`, its empty line included; 0 when its end is not there
 * yet. The first `searched` bytes are known not to hold the end. */
size_t http_message_head_bytes(struct bytes text, size_t searched);

/* Reads a whole head (as long as http_message_head_bytes said). */
struct http_refusal http_message_read_head(struct bytes text, struct http_head *head_out);

/* Is a Content-Type application/json, with or without parameters? */
bool http_message_is_json(struct bytes content_type);

/* A chunked body as it comes. Zero it first. */
struct http_chunks {
    uint8_t place;
    bool done;
    bool broken;
    uint32_t digits;
    uint64_t left;     /* bytes of the current chunk still to come */
    uint32_t overhead; /* bytes of extensions and trailers so far */
};

/* Takes bytes from the start of `text`: returns how many (all of them, unless the body ends before
 * or is broken), and the run of body bytes among them in *piece_out (possibly empty). Call again
 * with the rest until everything is taken, done or broken. */
size_t http_message_chunks_take(struct http_chunks *chunks, struct bytes text,
                                struct bytes *piece_out);

/* "OK" of 200. */
const char *http_message_phrase(uint32_t status);

#endif
