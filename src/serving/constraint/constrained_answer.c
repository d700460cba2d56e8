/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/constraint/constrained_answer.h"

#include <string.h>

static bool constrained_answer_is_stop(const struct constrained_answer *answer, uint32_t token) {
    for (uint32_t i = 0; i < answer->stop_count; i++)
        if (answer->stops[i] == token) return true;
    return false;
}

/* True if the next token is the answer's first and may be `opens`. */
static bool may_open(const struct constrained_answer *answer) {
    return answer->token_count == 0 && answer->constraint->opens != TOKEN_NONE;
}

static void constrained_answer_begin_form(struct constrained_answer *answer) {
    answer->place = CONSTRAINED_BOUND;
    answer->at = matcher_begin(answer->matcher);
    if (answer->at.number == 0) answer->place = CONSTRAINED_STUCK;
}

/* Begins the part after the reasoning, or the whole answer if there is none. */
static void begin_rest(struct constrained_answer *answer) {
    answer->waits_behind = false;
    answer->place = CONSTRAINED_FREE;
    if (answer->constraint->at == TOKEN_NONE) constrained_answer_begin_form(answer);
}

void constrained_answer_begin(struct constrained_answer *answer,
                              const struct constraint *constraint, struct matcher *matcher,
                              const uint32_t *stops, uint32_t stop_count) {
    *answer = (struct constrained_answer){.constraint = constraint,
                                          .matcher = matcher,
                                          .stops = stops,
                                          .stop_count = stop_count,
                                          .place = CONSTRAINED_FREE,
                                          .waits_behind = constraint->behind != TOKEN_NONE};
    if (constraint->behind == TOKEN_NONE || constraint->opens != TOKEN_NONE) begin_rest(answer);
}

static void push_bound(struct constrained_answer *answer, uint32_t token) {
    if (constrained_answer_is_stop(answer, token) && matcher_may_end(answer->matcher, answer->at)) {
        answer->place = CONSTRAINED_ENDED;
        return;
    }
    answer->at = matcher_push_token(answer->matcher, answer->at, token);
    if (!matcher_compact(answer->matcher, &answer->at)) answer->place = CONSTRAINED_STUCK;
}

static void push_free(struct constrained_answer *answer, uint32_t token) {
    if (answer->waits_behind) {
        if (token == answer->constraint->behind) begin_rest(answer);
        if (constrained_answer_is_stop(answer, token)) answer->place = CONSTRAINED_STUCK;
    } else if (token == answer->constraint->at) {
        constrained_answer_begin_form(answer);
        if (answer->place == CONSTRAINED_BOUND) push_bound(answer, token);
    } else if (constrained_answer_is_stop(answer, token)) {
        answer->place = CONSTRAINED_ENDED;
    }
}

void constrained_answer_push(struct constrained_answer *answer, uint32_t token) {
    bool opens = may_open(answer) && token == answer->constraint->opens;
    answer->token_count++;
    if (opens) {
        answer->place = CONSTRAINED_FREE;
        answer->waits_behind = true;
    } else if (answer->place == CONSTRAINED_FREE) {
        push_free(answer, token);
    } else if (answer->place == CONSTRAINED_BOUND) {
        push_bound(answer, token);
    } else {
        answer->place = CONSTRAINED_STUCK;
    }
}

/* ---- allowed tokens ---- */

static void constrained_answer_set_bit(uint64_t *mask, const struct token_trie *trie,
                                       uint32_t token) {
    if (token < trie->token_count) mask[token / 64] |= UINT64_C(1) << token % 64;
}

static bool constrained_answer_is_empty(const uint64_t *mask, uint32_t word_count) {
    uint64_t any = 0;
    for (uint32_t i = 0; i < word_count; i++)
        any |= mask[i];
    return any == 0;
}

static void mask_all_but_stops(const struct constrained_answer *answer,
                               const struct token_trie *trie, uint64_t *mask) {
    memset(mask, 0xFF, trie->word_count * sizeof *mask);
    if (trie->token_count % 64)
        mask[trie->token_count / 64] = (UINT64_C(1) << trie->token_count % 64) - 1;
    for (uint32_t i = 0; i < answer->stop_count; i++) {
        uint32_t stop = answer->stops[i];
        if (stop < trie->token_count) mask[stop / 64] &= ~(UINT64_C(1) << stop % 64);
    }
}

/* If only the end is allowed, the mask has the first end token alone, which is also the forced
 * one. */
static void mask_bound(struct constrained_answer *answer, const struct token_trie *trie,
                       uint64_t *mask) {
    matcher_mask(answer->matcher, answer->at, mask);
    if (matcher_may_end(answer->matcher, answer->at)) {
        uint32_t count =
            constrained_answer_is_empty(mask, trie->word_count) ? 1 : answer->stop_count;
        for (uint32_t i = 0; i < count && i < answer->stop_count; i++)
            constrained_answer_set_bit(mask, trie, answer->stops[i]);
    }
    if (may_open(answer)) constrained_answer_set_bit(mask, trie, answer->constraint->opens);
    if (constrained_answer_is_empty(mask, trie->word_count)) answer->place = CONSTRAINED_STUCK;
}

bool constrained_answer_mask(struct constrained_answer *answer, uint64_t *mask) {
    const struct token_trie *trie = matcher_trie(answer->matcher);
    if (answer->place == CONSTRAINED_FREE && !answer->waits_behind) return false;
    if (answer->place == CONSTRAINED_FREE)
        mask_all_but_stops(answer, trie, mask);
    else if (answer->place == CONSTRAINED_BOUND)
        mask_bound(answer, trie, mask);
    else
        memset(mask, 0, trie->word_count * sizeof *mask);
    return true;
}

bool constrained_answer_forced(struct constrained_answer *answer, uint32_t *token_out) {
    if (answer->place != CONSTRAINED_BOUND || may_open(answer)) return false;
    if (!matcher_must_end(answer->matcher, answer->at))
        return matcher_forced_token(answer->matcher, answer->at, token_out);
    if (answer->stop_count == 0) return false;
    *token_out = answer->stops[0];
    return true;
}
