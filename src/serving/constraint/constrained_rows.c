/* SPDX-License-Identifier: Apache-2.0
 * A row stores its answer's tokens and advances the matcher only when a mask is needed. Adding a
 * token therefore never waits for another user of the constraint. The matcher may be ahead of the
 * engine by tokens that were reported as forced. The engine pushes those one by one; a mask that it
 * asks for in between allows only the next of them.
 */
#include "serving/constraint/constrained_rows.h"

#include <string.h>

#include "base/check.h"
#include "base/checksum.h"

#define STOPS_MAX (2 * LIMIT_STOP_TOKENS)

struct constrained_row {
    struct constrained_loan *loan; /* NULL: none */
    bool follows;                  /* the answer has begun */
    bool is_lost;                  /* no mask will ever be available */
    uint32_t known;                /* tokens of the answer so far */
    uint32_t led; /* tokens pushed to `answer`; more than `known` after forced ones */
    uint32_t stop_count;
    uint32_t stops[STOPS_MAX];
    struct constrained_answer answer;
};

struct constrained_rows {
    struct constrained_lender lender;
    uint32_t slots, tokens_max;   /* tokens_max: limit of an answer */
    struct constrained_row *slot; /* [slots] */
    uint32_t *tokens;             /* [slots][tokens_max] */
};

static uint32_t constrained_rows_answer_tokens(uint32_t context_tokens_max) {
    return context_tokens_max + STEP_ROW_TOKENS;
}

size_t constrained_rows_bytes(uint32_t slots, uint32_t context_tokens_max) {
    size_t tokens = constrained_rows_answer_tokens(context_tokens_max) * sizeof(uint32_t);
    return slots * (sizeof(struct constrained_row) + tokens) + sizeof(struct constrained_rows) + 64;
}

struct constrained_rows *constrained_rows_open(struct arena *arena, uint32_t slots,
                                               uint32_t context_tokens_max,
                                               const struct constrained_lender *lender) {
    struct constrained_rows *rows = arena_take(arena, sizeof *rows);
    if (!rows) return NULL;
    *rows = (struct constrained_rows){.lender = *lender, .slots = slots};
    rows->tokens_max = constrained_rows_answer_tokens(context_tokens_max);
    rows->slot = arena_take_zeroed(arena, slots * sizeof *rows->slot);
    rows->tokens = arena_take(arena, (size_t)slots * rows->tokens_max * sizeof *rows->tokens);
    return rows->slot && rows->tokens ? rows : NULL;
}

static struct constrained_row *constrained_rows_of(const struct constrained_rows *rows,
                                                   uint32_t slot) {
    check(slot < rows->slots);
    return &rows->slot[slot];
}

static uint32_t *constrained_rows_tokens_of(const struct constrained_rows *rows, uint32_t slot) {
    return rows->tokens + (size_t)slot * rows->tokens_max;
}

void constrained_rows_end(struct constrained_rows *rows, uint32_t slot) {
    struct constrained_row *row = constrained_rows_of(rows, slot);
    if (row->loan) rows->lender.give_back(rows->lender.context, row->loan);
    *row = (struct constrained_row){.loan = NULL};
}

uint64_t constrained_rows_client(const struct step_constraint *from) {
    const struct tenant_salt *account = &from->account;
    bool has_account = !record_zeros(account, sizeof *account);
    return has_account ? checksum_of(account, sizeof *account) : from->slot;
}

void constrained_rows_begin(struct constrained_rows *rows, uint32_t slot,
                            const struct step_plan *plan, const struct step_constraint *from) {
    struct constrained_row *row = constrained_rows_of(rows, slot);
    const uint32_t *tokens = step_plan_constraint_tokens(plan);
    struct bytes text = {step_plan_constraint_texts(plan) + from->text_index, from->text_bytes};
    constrained_rows_end(rows, slot);
    row->loan = rows->lender.ask(rows->lender.context, text, constrained_rows_client(from));
    row->is_lost = !row->loan || from->answer_count > rows->tokens_max - STEP_ROW_TOKENS ||
                   from->stop_count > STOPS_MAX;
    if (row->is_lost) return;
    row->stop_count = from->stop_count;
    row->known = from->answer_count;
    memcpy(row->stops, tokens + from->stop_index, from->stop_count * sizeof *tokens);
    memcpy(constrained_rows_tokens_of(rows, slot), tokens + from->answer_index,
           from->answer_count * sizeof *tokens);
}

void constrained_rows_take(struct constrained_rows *rows, const struct step_plan *plan) {
    const struct step_constraint *next = step_plan_row_constraints(plan);
    for (uint32_t i = 0; i < plan->row_count; i++) {
        const struct step_row *row = &step_plan_rows(plan)[i];
        if (row->fresh && row->constrained)
            constrained_rows_begin(rows, row->slot, plan, next++);
        else if (row->fresh)
            constrained_rows_end(rows, row->slot);
    }
}

struct constrained_loan *constrained_rows_loan(const struct constrained_rows *rows, uint32_t slot) {
    return constrained_rows_of(rows, slot)->loan;
}

/* Advances the row's answer over all of its tokens. */
static enum constrained_mask constrained_rows_follow(struct constrained_rows *rows, uint32_t slot) {
    struct constrained_row *row = constrained_rows_of(rows, slot);
    const struct constraint *constraint;
    struct matcher *matcher;
    if (row->is_lost || !row->loan) return CONSTRAINED_MASK_STUCK;
    if (!row->follows) {
        if (!rows->lender.ready(rows->lender.context, row->loan, &constraint, &matcher))
            return CONSTRAINED_MASK_LATE;
        row->is_lost = !constraint || !matcher;
        if (row->is_lost) return CONSTRAINED_MASK_STUCK;
        constrained_answer_begin(&row->answer, constraint, matcher, row->stops, row->stop_count);
        row->follows = true;
    }
    const uint32_t *tokens = constrained_rows_tokens_of(rows, slot);
    while (row->led < row->known)
        constrained_answer_push(&row->answer, tokens[row->led++]);
    return CONSTRAINED_MASK_SET;
}

enum constrained_mask constrained_rows_mask(struct constrained_rows *rows, uint32_t slot,
                                            uint64_t *mask) {
    struct constrained_row *row = constrained_rows_of(rows, slot);
    enum constrained_mask outcome = constrained_rows_follow(rows, slot);
    if (outcome != CONSTRAINED_MASK_SET) return outcome;
    if (row->led > row->known) {
        uint32_t token = constrained_rows_tokens_of(rows, slot)[row->known];
        memset(mask, 0, matcher_trie(row->answer.matcher)->word_count * sizeof *mask);
        mask[token / 64] = UINT64_C(1) << token % 64;
        return CONSTRAINED_MASK_SET;
    }
    if (!constrained_answer_mask(&row->answer, mask)) return CONSTRAINED_MASK_FREE;
    return row->answer.place >= CONSTRAINED_ENDED ? CONSTRAINED_MASK_STUCK : CONSTRAINED_MASK_SET;
}

void constrained_rows_push(struct constrained_rows *rows, uint32_t slot, uint32_t token) {
    struct constrained_row *row = constrained_rows_of(rows, slot);
    uint32_t *tokens = constrained_rows_tokens_of(rows, slot);
    if (row->is_lost || !row->loan) return;
    row->is_lost = row->known == rows->tokens_max;
    if (row->is_lost) return;
    check(row->known >= row->led || tokens[row->known] == token);
    tokens[row->known++] = token;
}

uint32_t constrained_rows_forced(struct constrained_rows *rows, uint32_t slot, uint32_t most,
                                 uint32_t *tokens_out) {
    struct constrained_row *row = constrained_rows_of(rows, slot);
    uint32_t *tokens = constrained_rows_tokens_of(rows, slot), count = 0;
    if (constrained_rows_follow(rows, slot) != CONSTRAINED_MASK_SET) return 0;
    for (; count < most && row->known + count < rows->tokens_max; count++) {
        if (row->known + count == row->led) {
            if (!constrained_answer_forced(&row->answer, &tokens[row->led])) break;
            constrained_answer_push(&row->answer, tokens[row->led++]);
        }
        tokens_out[count] = tokens[row->known + count];
    }
    return count;
}
