/* SPDX-License-Identifier: Apache-2.0
 * The step plan: what the serving plane asks of the compute plane, and its answer. A row is a run
 * of consecutive tokens of one sequence; rows of all kinds share a step.
 *
 * A token's *form* fixes the attention form that computes it (PROMPT: expanded, GENERATED:
 * absorbed) and enters the KV block key. It depends only on whether the token came with the prompt
 * or was generated, never on chunk, batch or speed: this is half of batch invariance
 * (docs/architecture.md).
 */
#ifndef CONTRACT_STEP_PLAN_H
#define CONTRACT_STEP_PLAN_H

#include "contract/record.h"

enum token_form { TOKEN_PROMPT, TOKEN_GENERATED, TOKEN_FORM_COUNT };

struct step_row {
    uint32_t slot;           /* the unit's slot of this request: echoed in the result */
    uint32_t form;           /* enum token_form, of every token of the row */
    uint32_t first_position; /* of the row's first token in its sequence */
    uint32_t token_count;    /* >= 1 */
    uint32_t token_index;    /* first token, in the plan's tokens */
    uint32_t page_index;   /* first page, in the plan's pages: page i holds positions 64i..64i+63 */
    uint32_t page_count;   /* covers first_position + token_count positions */
    uint32_t logits_count; /* logits wanted for the last so many tokens of the row; 0: none */
    uint32_t sample;       /* 1: choose the next token from the last token's logits (logits_count
                            * is then at least 1) */
    uint32_t output_position; /* of the token to choose: 0 for the answer's first */
    struct sampling sampling;
};

/* RECORD_RUN_STEP. Tails: struct step_row rows[row_count]; uint32_t tokens[token_count];
 * struct page_id pages[page_count]. */
struct step_plan {
    struct record record;
    uint64_t step;
    uint32_t row_count;
    uint32_t token_count;
    uint32_t page_count;
    uint32_t reserved;
};

static inline size_t step_plan_rows_at(void) {
    return record_tail(sizeof(struct step_plan));
}
static inline size_t step_plan_tokens_at(uint32_t row_count) {
    return record_tail(step_plan_rows_at() + row_count * sizeof(struct step_row));
}
static inline size_t step_plan_pages_at(uint32_t row_count, uint32_t token_count) {
    return record_tail(step_plan_tokens_at(row_count) + token_count * sizeof(uint32_t));
}
static inline size_t step_plan_bytes(uint32_t row_count, uint32_t token_count,
                                     uint32_t page_count) {
    return record_tail(step_plan_pages_at(row_count, token_count) +
                       page_count * sizeof(struct page_id));
}
static inline struct step_row *step_plan_rows(const struct step_plan *plan) {
    return (struct step_row *)((char *)(uintptr_t)plan + step_plan_rows_at());
}
static inline uint32_t *step_plan_tokens(const struct step_plan *plan) {
    return (uint32_t *)((char *)(uintptr_t)plan + step_plan_tokens_at(plan->row_count));
}
static inline struct page_id *step_plan_pages(const struct step_plan *plan) {
    return (struct page_id *)((char *)(uintptr_t)plan +
                              step_plan_pages_at(plan->row_count, plan->token_count));
}

struct step_result_row {
    uint32_t slot;
    uint32_t token; /* chosen token; UINT32_MAX if the row did not sample */
};

/* RECORD_STEP_DONE. Tail: struct step_result_row rows[row_count], in the plan's order. */
struct step_result {
    struct record record;
    uint64_t step;
    int64_t compute_ns;
    uint32_t row_count;
    uint32_t failed; /* 1: the engine could not run the step; no row counts */
};

static inline size_t step_result_bytes(uint32_t row_count) {
    return record_tail(record_tail(sizeof(struct step_result)) +
                       row_count * sizeof(struct step_result_row));
}
static inline struct step_result_row *step_result_rows(const struct step_result *result) {
    return (struct step_result_row *)((char *)(uintptr_t)result +
                                      record_tail(sizeof(struct step_result)));
}

#endif
