/* SPDX-License-Identifier: Apache-2.0
 * Iterates over the blocks of a choice in order, with each block's range of tokens. A block is a
 * run of reasoning or content, or a tool call. Dialects that list blocks or items use it.
 */
#pragma once

#include "serving/gateway/api/api_answer.h"

struct answer_walk_block {
    enum token_stream_part part;    /* REASONING, CONTENT, CALL */
    size_t from, to;                /* bytes [from, to) of the text; unused for a CALL */
    const struct answer_call *call; /* the call of a CALL block */
    /* Tokens [token_from, token_to) of the block, including those without text around it. A block
     * after reasoning also includes the reasoning's tokens. */
    uint32_t token_from, token_to;
    bool last; /* no block follows */
};

struct answer_walk {
    const struct api_choice *choice;
    const struct answer_run *run; /* the next run */
    const struct answer_call *call;
    uint32_t token_at; /* index of the next block's first token */
};

struct answer_walk answer_walk_open(const struct api_choice *choice);

/* False: there are no more blocks. */
bool answer_walk_next(struct answer_walk *walk, struct answer_walk_block *out);
