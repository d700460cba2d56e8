/* SPDX-License-Identifier: Apache-2.0
 * The parts of an answer's text, and the type of the callback that receives them. All stages of
 * token_stream.h use both.
 */
#pragma once

#include "base/bytes.h"

enum token_stream_part {
    TOKEN_STREAM_REASONING,
    TOKEN_STREAM_CONTENT,
    /* a call's id, complete, directly before its CALL; most calls have none */
    TOKEN_STREAM_CALL_ID,
    TOKEN_STREAM_CALL, /* a call begins: its complete name, at most TOOL_NAME_BYTES_MAX bytes */
    /* a piece of the call's arguments; the joined pieces are the JSON that the model wrote */
    TOKEN_STREAM_ARGUMENTS,
    TOKEN_STREAM_PART_COUNT
};

/* Receives a piece of output: valid UTF-8, never empty. Parts may alternate. A call's arguments end
 * when a piece of another part follows. */
typedef void token_stream_sink(void *context, enum token_stream_part part, struct bytes text);
