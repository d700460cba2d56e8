/* SPDX-License-Identifier: Apache-2.0
 * The parts of an answer's text, and the sink type of the stages of token_stream.h.
 */
#ifndef SERVING_TEXT_TOKEN_STREAM_PART_H
#define SERVING_TEXT_TOKEN_STREAM_PART_H

#include "base/bytes.h"

enum token_stream_part {
    TOKEN_STREAM_REASONING,
    TOKEN_STREAM_CONTENT,
    TOKEN_STREAM_CALL_ID,   /* a call's own id, whole; right before its CALL; most have none */
    TOKEN_STREAM_CALL,      /* a call begins: its whole name, at most TOOL_NAME_BYTES_MAX */
    TOKEN_STREAM_ARGUMENTS, /* of the call before; joined they are JSON as the model wrote it */
    TOKEN_STREAM_PART_COUNT
};

/* Takes a piece of output: valid UTF-8, never empty. Parts come in any order. A call's arguments end
 * with the next piece that is none of them. */
typedef void token_stream_sink(void *context, enum token_stream_part part, struct bytes text);

#endif
