/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/api/answer_walk.h"

struct answer_walk answer_walk_open(const struct api_choice *choice) {
    return (struct answer_walk){.choice = choice,
                                .run = choice->text->first_run,
                                .call = choice->calls ? choice->calls->first : NULL};
}

static bool call_is_next(const struct answer_walk *walk) {
    return walk->call && (!walk->run || walk->call->text_at <= walk->run->from);
}

/* The first token of the next block. */
static uint32_t next_token(const struct answer_walk *walk) {
    if (call_is_next(walk)) return walk->call->token_at;
    return walk->run ? walk->run->token_at : walk->choice->tokens->count;
}

/* Tokens without text belong to the content after them. After a call they belong to the call. */
bool answer_walk_next(struct answer_walk *walk, struct answer_walk_block *out) {
    if (!walk->run && !walk->call) return false;
    *out = (struct answer_walk_block){.token_from = walk->token_at};
    if (call_is_next(walk)) {
        out->part = TOKEN_STREAM_CALL;
        out->call = walk->call;
        walk->call = walk->call->next;
    } else {
        out->part = walk->run->part;
        out->from = walk->run->from;
        out->to = walk->run->to;
        walk->run = walk->run->next;
    }
    out->last = !walk->run && !walk->call;
    out->token_to = next_token(walk);
    if (out->part != TOKEN_STREAM_REASONING) walk->token_at = out->token_to;
    return true;
}
