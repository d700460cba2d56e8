/* SPDX-License-Identifier: Apache-2.0
 * A strict parser of HTTP/1.1 (RFC 9112): request heads, and bodies in chunks; also the names of
 * response statuses. Pure: bytes in, facts out; no socket. It rejects everything that two parsers
 * could interpret differently (two lengths, a length and chunks, two hosts, keys or content types,
 * blanks before a colon, folded lines, bare line feeds), so that no request can be smuggled past a
 * proxy.
 */
#pragma once

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
    struct bytes path;      /* without the query; a slice of the parsed text */
    uint32_t minor_version; /* HTTP/1.<this> */
    bool keep_alive;
    bool chunked; /* the body is in chunks; else its length is body_bytes */
    bool expects_continue;
    uint64_t body_bytes; /* encoded length */
    enum content_coding coding;
    bool wants_receipt;    /* X-Fathom-Receipt is present and not 0 or false */
    bool speaks_anthropic; /* anthropic-version is present, or the path is one of Anthropic's API */
    /* data NULL: absent. An absolute target takes precedence over the header Host (RFC 9112,
     * 3.2.2). */
    struct bytes host, authorization, api_key, origin, content_type, if_none_match;
    struct bytes request_id; /* value of X-Request-Id */
};

/* The refusal of a request: an HTTP status and a sentence for the client; status 0: not refused. */
struct http_refusal {
    uint32_t status;
    const char *message;
};

/* Bytes of the head at the start of `text`, its empty line included; 0 if the head is incomplete.
 * The first `searched` bytes do not contain the end. */
size_t http_message_head_bytes(struct bytes text, size_t searched);

/* Parses a complete head, as long as http_message_head_bytes returned. */
struct http_refusal http_message_read_head(struct bytes text, struct http_head *head_out);

/* True if a Content-Type is application/json, with or without parameters. */
bool http_message_is_json(struct bytes content_type);

/* The state of a chunked body. Initialize with zeros. */
struct http_chunks {
    uint8_t place;
    bool done;
    bool broken;
    uint32_t digits;
    uint64_t left;     /* remaining bytes of the current chunk */
    uint32_t overhead; /* bytes of extensions and trailers so far */
};

/* Consumes bytes from the start of `text` and returns their number: all, unless the body ends or is
 * invalid. *piece_out is the run of body bytes among them (possibly empty). Call again with the
 * rest until everything is consumed, done or broken. */
size_t http_message_chunks_take(struct http_chunks *chunks, struct bytes text,
                                struct bytes *piece_out);

/* "OK" for 200. */
const char *http_message_phrase(uint32_t status);
