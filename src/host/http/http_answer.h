/* SPDX-License-Identifier: Apache-2.0
 * Parser of HTTP/1.1 response heads, for Fathom's own client. It is more tolerant than
 * http_message.h, the server's parser: unknown headers and spellings are accepted, but a response
 * of uncertain length is rejected. Pure: bytes in, facts out. http_message_chunks_take reads bodies
 * in chunks.
 */
#pragma once

#include "base/bytes.h"

struct http_answer_head {
    uint32_t status;
    bool keep_alive;
    bool chunked; /* the body is in chunks */
    /* the length is body_bytes; without chunks and length the body ends with the connection */
    bool has_length;
    uint64_t body_bytes;
};

/* Parses a complete head, its empty line included (http_message_head_bytes finds its end). Returns
 * false if it is not HTTP/1.x. */
bool http_answer_read_head(struct bytes text, struct http_answer_head *head_out);
