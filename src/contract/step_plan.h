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

#include "contract/load_end.h"
#include "contract/overlap.h"
#include "contract/record.h"
#include "contract/sampling.h"

enum mla_mode { TOKEN_PROMPT, TOKEN_GENERATED, MLA_MODE_COUNT };

struct step_row {
    uint32_t slot;            /* the unit's slot of this request: echoed in the result */
    uint32_t form;            /* enum mla_mode, of every token of the row */
    uint32_t first_position;  /* of the row's first token in its sequence */
    uint32_t token_count;     /* >= 1 */
    uint32_t token_index;     /* first token, in the plan's tokens */
    uint32_t page_index;      /* the row's first page in the plan's pages */
    uint32_t page_count;      /* in the plan; with first_page before them, for first_position +
                              * token_count + draft_count positions */
    uint32_t logits_count;    /* logits wanted for the last so many tokens of the row; 0: none */
    uint32_t sample;          /* 1: choose the next token from the last token's logits (logits_count
                            * is then at least 1) */
    uint32_t output_position; /* of the token to choose: 0 for the answer's first */
    /* Only for rows with penalties, biases or masked stop tokens; else all 0. */
    uint32_t history_index; /* first token of the sequence's last ones, in the plan's history */
    uint32_t history_count;
    uint32_t history_prompt_count; /* of them, at the start, came with the prompt */
    uint32_t bias_index;           /* first of the row's, in the plan's biases */
    uint32_t bias_count;
    uint32_t draft_count;  /* guess up to so many tokens behind this one: only of a row that samples
                            * and is one generated token; none may be the last of its block
                            * (step_drafts_fit). Biases hold for all tokens chosen */
    uint32_t fresh;        /* 1: what the slot's last row left behind belongs to another sequence */
    uint32_t scored_count; /* tell how likely tokens were that are known already, each behind those
                            * before it: the last so many of the row's tokens but its first, and of
                            * next_token behind them */
    uint32_t next_token;   /* STEP_NO_TOKEN: none is known; read only with a scored_count */
    uint32_t loads; /* 1: of the pages before the row some are being filled by the slot's KV_LOAD,
                     * which was given with in_step: a layer's core attention waits until its
                     * slices are there */
    uint32_t constrained; /* 1: only tokens that the slot's constraint lets through are chosen. It
                           * comes with the slot's first row, which is `fresh`, in the plan's
                           * constraints, and once before that, ahead of the row; the tokens that
                           * results tell lead it on */
    uint32_t first_page;  /* of the sequence's pages, the first that the row tells: page i holds
                           * positions 64i..64i+63. Those before it are as the slot's last row had
                           * them (contract/slot_pages.h); 0 of a row that is fresh */
    struct sampling sampling;
};

#define STEP_NO_TOKEN UINT32_MAX
#define STEP_NO_ROW UINT32_MAX

/* The constraint of a fresh row's answer, and the answer's position in it. Or, with STEP_NO_ROW and
 * without an answer, a constraint for later: the slot's request waits until a result says that the rank
 * has it (step_result_ready). Without a text, too: the slot's request is over. */
struct step_constraint {
    uint32_t row;          /* in the plan, ascending; or STEP_NO_ROW: those stand first */
    uint32_t text_index;   /* first byte of its text, in the plan's constraint texts */
    uint32_t text_bytes;   /* 1..LIMIT_CONSTRAINT_BYTES; 0: the slot's request is over */
    uint32_t answer_index; /* first token of the answer so far, in the plan's constraint tokens */
    uint32_t answer_count;
    uint32_t stop_index; /* first of the tokens that may end it, ibid. */
    uint32_t stop_count;
    uint32_t slot;
    struct tenant_salt account; /* SUBMIT's: takes turns where constraints are compiled; zeros:
                                 * none, or no text */
};

/* The index of the row's first token with logits that score the token after it. */
static inline uint32_t step_scored_first(const struct step_row *row) {
    return row->token_count - (row->next_token == STEP_NO_TOKEN) - row->scored_count;
}

/* True if drafts may stand at `count` positions from `first_position` on. A block is complete only
 * with a token that the plan itself brings, because the MTP layer's KV row of a draft is written by
 * the sequence's next row, and a complete block may be shared before that. */
static inline bool step_drafts_fit(uint32_t first_position, uint32_t count) {
    return first_position / KV_BLOCK_TOKENS == (first_position + count) / KV_BLOCK_TOKENS;
}

/* A lane begins with the row's token'th token; rows stand prompt form first, then generated form,
 * each in the plan's order. A row of no such number: the lane is empty, and so are those behind it.
 * Prompts are cut on block boundaries, generated rows not at all. */
struct step_cut {
    uint32_t row, token;
};

/* RECORD_RUN_STEP. */
struct step_plan {
    struct record record;
    uint64_t step;
    uint32_t row_count;
    uint32_t token_count;
    uint32_t page_count;
    uint32_t history_count;
    uint32_t bias_count;
    uint32_t overlap; /* enum overlap_kind, the same on all ranks of a unit */
    /* Where the lanes of schedules with several begin, but the first; ascending. */
    struct step_cut cuts[OVERLAP_MICRO_BATCHES - 1];
    /* Among ranks, a step is one plan for each, perhaps with no rows: all compute it together. */
    uint16_t rank;
    uint8_t others_draft; /* 1: a row of another rank's plan may have drafts */
    uint8_t awaits;       /* 1: no rank has a row, and nothing is computed: the step lasts until a
                           * constraint or a mask is ready that a request waits for, or a moment */
    uint32_t
        constraint_count; /* of rows that are fresh and constrained, and of slots without rows */
    uint32_t constraint_token_count;
    uint32_t constraint_bytes; /* of their texts */
};

RECORD_TAIL(step_plan, 0, struct step_row, step_plan_rows)               /* [row_count] */
RECORD_TAIL(step_plan, 1, uint32_t, step_plan_tokens)                    /* [token_count] */
RECORD_TAIL(step_plan, 2, struct page_id, step_plan_pages)               /* [page_count] */
RECORD_TAIL(step_plan, 3, uint32_t, step_plan_history)                   /* [history_count] */
RECORD_TAIL(step_plan, 4, struct token_bias, step_plan_biases)           /* [bias_count] */
RECORD_TAIL(step_plan, 5, struct step_constraint, step_plan_constraints) /* [constraint_count] */
RECORD_TAIL(step_plan, 6, uint32_t, step_plan_constraint_tokens) /* [constraint_token_count] */
RECORD_TAIL(step_plan, 7, char, step_plan_constraint_texts)      /* [constraint_bytes] */

/* The first constraint of a row; those of slots without rows stand before it. */
static inline const struct step_constraint *
step_plan_row_constraints(const struct step_plan *plan) {
    const struct step_constraint *each = step_plan_constraints(plan);
    const struct step_constraint *end = each + plan->constraint_count;
    while (each < end && each->row == STEP_NO_ROW)
        each++;
    return each;
}

/* The index'th of a row's scored tokens; `tokens` are the row's. */
static inline uint32_t step_scored_token(const struct step_row *row, const uint32_t *tokens,
                                         uint32_t index) {
    uint32_t at = step_scored_first(row) + index + 1;
    return at < row->token_count ? tokens[at] : row->next_token;
}

/* Tokens that a row may bring: chosen, drafts that were right, forced. */
#define STEP_ROW_TOKENS (1 + LIMIT_DRAFTS + LIMIT_FORCED)

struct step_result_row {
    uint32_t slot;
    uint32_t token_count;             /* 0 if the row did not sample; else 1 chosen, one more for
                                       * each draft that was right, and forced ones */
    uint32_t tokens[STEP_ROW_TOKENS]; /* [token_count], then zeros */
    uint32_t forced_count;  /* of them, the last: the constraint lets nothing else through, so
                                       * the model was not asked; 0 if log probabilities are reported */
    uint32_t draft_count;   /* drafts made */
    uint32_t logprob_index; /* first of the row's, in the result's logprobs */
    uint32_t logprobs_each; /* 0: not asked for; else each token's own, then the likeliest ones' */
    uint32_t lost;  /* 1: what the row waited for, a load or its constraint's mask, did not come, or
                     * another rank has died; it does not count, and chose none */
    uint32_t late;  /* 1: it was lost for its mask, and all else of it is computed; a result says
                     * when the mask is ready */
    uint32_t stuck; /* 1: no token can follow under its constraint, or that outgrew its memory; it
                     * chose none, and never will */
    uint32_t load_ended;      /* 1: the load that it waited for is over, as load_end says */
    uint32_t score_index;     /* first of its scored tokens' logprobs, in the result's */
    uint32_t scored_count;    /* as the plan has it; 0 if lost */
    struct load_end load_end; /* zeros if not load_ended */
};

/* RECORD_STEP_DONE. */
struct step_result {
    struct record record;
    uint64_t step;
    int64_t compute_ns; /* without what rows waited for their loads */
    int64_t awaited_ns; /* what those of the rank did, in the step's layers */
    uint32_t row_count;
    uint32_t failed; /* 1: the engine could not run the step; no row counts */
    uint32_t logprob_count;
    uint32_t rank;             /* of the plan */
    uint32_t constraint_count; /* as the plan has it; 0: its constraints never came to the rank */
    uint32_t ready_count;
};

RECORD_TAIL(step_result, 0, struct step_result_row,
            step_result_rows) /* [row_count], in the plan's order */
RECORD_TAIL(step_result, 1, struct token_logprob, step_result_logprobs) /* [logprob_count] */
/* [ready_count] slots with a constraint sent ahead that is now compiled, or cannot be, and those
 * with a late mask that is now ready. A slot is reported with each result until its row comes. */
RECORD_TAIL(step_result, 2, uint32_t, step_result_ready)

/* The largest size of a result; no step scores more tokens than it has. */
static inline size_t step_result_bytes_max(uint32_t rows_max, uint32_t tokens_max) {
    return record_bytes(
        RECORD_STEP_DONE,
        &(struct step_result){.row_count = rows_max,
                              .logprob_count =
                                  (rows_max * (1 + LIMIT_DRAFTS) + tokens_max) * TOKEN_LOGPROBS_MAX,
                              .ready_count = LIMIT_UNIT_REQUESTS});
}

/* Check the fields' values, for record_forms.c. */
bool step_plan_valid(const void *record);
bool step_plan_result_valid(const void *record);

#endif
