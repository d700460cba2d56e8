/* SPDX-License-Identifier: Apache-2.0
 * The blocks of a choice in the order in which they came: runs of reasoning and of content, and
 * calls. What dialects with blocks or items list, and where each block's tokens stand.
 */
#ifndef SERVING_GATEWAY_API_ANSWER_WALK_H
#define SERVING_GATEWAY_API_ANSWER_WALK_H

#include "serving/gateway/api/api_answer.h"

struct answer_walk_block {
    enum token_stream_part part;    /* REASONING, CONTENT, CALL */
    size_t from, to;                /* of the text; not of a CALL */
    const struct answer_call *call; /* CALL */
    /* Tokens of the block, and those that made no text before and behind it, reasoning included. */
    uint32_t token_from, token_to;
    bool last; /* nothing comes behind it */
};

struct answer_walk {
    const struct api_choice *choice;
    const struct answer_run *run; /* the next ones */
    const struct answer_call *call;
    uint32_t token_at; /* from where the tokens of the next one count */
};

struct answer_walk answer_walk_open(const struct api_choice *choice);

/* False: there are no more. */
bool answer_walk_next(struct answer_walk *walk, struct answer_walk_block *out);

#endif
