/* SPDX-License-Identifier: Apache-2.0
 * Iterates over the blocks of a choice in order: runs of reasoning and of content, and calls. For
 * dialects that list blocks or items, with each block's range of tokens.
 */
#pragma once

#include "serving/gateway/api/api_answer.h"

struct answer_walk_block {
    enum token_stream_part part;    /* REASONING, CONTENT, CALL */
    size_t from, to;                /* bytes of the text; not for a CALL */
    const struct answer_call *call; /* CALL */
    /* Tokens of the block, including those without text before and after it, and those of the
     * reasoning. */
    uint32_t token_from, token_to;
    bool last; /* no block follows */
};

struct answer_walk {
    const struct api_choice *choice;
    const struct answer_run *run; /* the next run */
    const struct answer_call *call;
    uint32_t token_at; /* where the tokens of the next block start */
};

struct answer_walk answer_walk_open(const struct api_choice *choice);

/* False: there are no more. */
bool answer_walk_next(struct answer_walk *walk, struct answer_walk_block *out);
