/* SPDX-License-Identifier: Apache-2.0
 * The head of an HTTP/1.1 answer, for our own client. More forgiving than http_message.h, which
 * guards our server: unknown headers and spellings pass, but an answer of uncertain length
 * is refused. Pure: bytes in, facts out. Bodies in chunks are read with
 * http_message_chunks_take.
 */
#ifndef HOST_HTTP_HTTP_ANSWER_H
#define HOST_HTTP_HTTP_ANSWER_H

#include "base/bytes.h"

struct http_answer_head {
    uint32_t status;
    bool keep_alive;
    bool chunked;    /* the body comes in chunks */
    bool has_length; /* it is body_bytes long; neither: it ends with the connection */
    uint64_t body_bytes;
};

/* Reads a whole head, its empty line included (http_message_head_bytes finds its end); false when
 * it is not HTTP/1.x. */
bool http_answer_read_head(struct bytes text, struct http_answer_head *head_out);

#endif
