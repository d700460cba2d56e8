/* SPDX-License-Identifier: Apache-2.0
 * The step plan describes one forward pass: a unit sends it to its engine, which replies with the
 * step result. A row is a run of consecutive tokens of one sequence. Prefill and decode rows may
 * share a step.
 *
 * The *form* of a token selects how its attention is computed (PROMPT: expanded, GENERATED:
 * absorbed) and enters the KV block key. It depends only on whether the token is part of the prompt
 * or was generated, never on chunk, batch or speed. Batch invariance relies on this
 * (docs/architecture.md).
 */
#pragma once

#include "contract/load_end.h"
#include "contract/overlap.h"
#include "contract/record.h"
#include "contract/sampling.h"

enum mla_mode { TOKEN_PROMPT, TOKEN_GENERATED, MLA_MODE_COUNT };

struct step_row {
    uint32_t slot;           /* the unit's slot of the request; the result repeats it */
    uint32_t form;           /* enum mla_mode of every token of the row */
    uint32_t first_position; /* position of the row's first token in its sequence */
    uint32_t token_count;    /* >= 1 */
    uint32_t token_index;    /* index of the first token in the plan's tokens */
    uint32_t page_index;     /* index of the row's first page in the plan's pages */
    /* pages in the plan. With the first_page earlier ones they cover first_position + token_count +
     * draft_count positions */
    uint32_t page_count;
    uint32_t logits_count; /* the last logits_count tokens of the row need logits; 0: none */
    /* 1: choose the next token from the logits of the last token (logits_count >= 1) */
    uint32_t sample;
    uint32_t output_position; /* position in the answer of the token to choose, from 0 */
    /* Set only in rows with penalties, biases or masked stop tokens; else 0. */
    uint32_t history_index; /* index of the last tokens of the sequence in the plan's history */
    uint32_t history_count;
    uint32_t history_prompt_count; /* those at the start of the history that belong to the prompt */
    uint32_t bias_index;           /* index of the row's first bias in the plan's biases */
    uint32_t bias_count;
    /* make up to this many speculative drafts after the chosen token. Only in a row that samples
     * and consists of one generated token. No draft may be the last token of its block
     * (step_drafts_fit). Biases apply to all chosen tokens */
    uint32_t draft_count;
    uint32_t fresh; /* 1: state left by the slot's last row belongs to another sequence */
    /* return the log probabilities of this many known tokens, each given the tokens before it: the
     * last tokens of the row (never its first one) and next_token */
    uint32_t scored_count;
    /* known token after the row; STEP_NO_TOKEN: none. Read only if scored_count > 0 */
    uint32_t next_token;
    /* 1: the slot's KV_LOAD with in_step set is still filling pages before the row. The core
     * attention of a layer waits until its slices are loaded */
    uint32_t loads;
    /* 1: choose only tokens that the slot's constraint allows. The plan with the slot's first row,
     * which is `fresh`, contains the constraint, and so does an earlier plan that sends it ahead.
     * The tokens in results advance it */
    uint32_t constrained;
    /* Index of the first page in this row among the pages of the sequence: page i holds positions
     * 64i..64i+63. Earlier pages are those of the slot's last row (contract/slot_pages.h). 0 if the
     * row is fresh */
    uint32_t first_page;
    struct sampling sampling;
};

#define STEP_NO_TOKEN UINT32_MAX
#define STEP_NO_ROW UINT32_MAX

/* A grammar constraint of a slot. With a fresh row, it has the answer so far. With STEP_NO_ROW and
 * a text, the constraint is sent ahead: the request of the slot waits until a result reports it as
 * ready (step_result_ready). With STEP_NO_ROW and no text, the request of the slot has ended. */
struct step_constraint {
    uint32_t row;          /* row in the plan, ascending; STEP_NO_ROW entries are first */
    uint32_t text_index;   /* first byte of the text in the plan's constraint texts */
    uint32_t text_bytes;   /* 1..LIMIT_CONSTRAINT_BYTES; 0: the request of the slot has ended */
    uint32_t answer_index; /* first token of the answer so far in the plan's constraint tokens */
    uint32_t answer_count;
    /* first of the tokens that may end the answer, in the plan's constraint tokens */
    uint32_t stop_index;
    uint32_t stop_count;
    uint32_t slot;
    /* from SUBMIT; key of the fair queue of constraint compilers; zeros: none, or no text */
    struct tenant_salt account;
};

/* The index of the row's first token with logits that score the next token. */
static inline uint32_t step_scored_first(const struct step_row *row) {
    return row->token_count - (row->next_token == STEP_NO_TOKEN) - row->scored_count;
}

/* True if `count` drafts may follow position first_position. The last token of a block must be in
 * the plan itself: the sequence's next row writes the MTP layer's KV row of a draft, and a complete
 * block may be shared before that. */
static inline bool step_drafts_fit(uint32_t first_position, uint32_t count) {
    return first_position / KV_BLOCK_TOKENS == (first_position + count) / KV_BLOCK_TOKENS;
}

/* The start of a micro-batch: token `token` of row `row`. Rows are ordered by form, prompt rows
 * first, and within a form as in the plan. If `row` is out of range, this micro-batch and the
 * following ones are empty. Prompt rows are split only at block boundaries, generated rows
 * never. */
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
    /* Where the micro-batches begin, except the first; ascending. */
    struct step_cut cuts[OVERLAP_MICRO_BATCHES - 1];
    /* In a unit of several ranks, a step has one plan for each rank, possibly without rows. All
     * ranks compute it together. */
    uint16_t rank;
    uint8_t others_draft; /* 1: a row of another rank's plan may have drafts */
    /* 1: no rank has a row and nothing is computed. The step waits briefly until a constraint or a
     * mask that a request needs is ready */
    uint8_t awaits;
    uint32_t
        constraint_count; /* constraints of fresh constrained rows, and of slots without rows */
    uint32_t constraint_token_count;
    uint32_t constraint_bytes; /* bytes of the constraint texts */
};

RECORD_TAIL(step_plan, 0, struct step_row, step_plan_rows)               /* [row_count] */
RECORD_TAIL(step_plan, 1, uint32_t, step_plan_tokens)                    /* [token_count] */
RECORD_TAIL(step_plan, 2, struct page_id, step_plan_pages)               /* [page_count] */
RECORD_TAIL(step_plan, 3, uint32_t, step_plan_history)                   /* [history_count] */
RECORD_TAIL(step_plan, 4, struct token_bias, step_plan_biases)           /* [bias_count] */
RECORD_TAIL(step_plan, 5, struct step_constraint, step_plan_constraints) /* [constraint_count] */
RECORD_TAIL(step_plan, 6, uint32_t, step_plan_constraint_tokens) /* [constraint_token_count] */
RECORD_TAIL(step_plan, 7, char, step_plan_constraint_texts)      /* [constraint_bytes] */

/* The first constraint with a row. Those of slots without rows precede it. */
static inline const struct step_constraint *
step_plan_row_constraints(const struct step_plan *plan) {
    const struct step_constraint *each = step_plan_constraints(plan);
    const struct step_constraint *end = each + plan->constraint_count;
    while (each < end && each->row == STEP_NO_ROW)
        each++;
    return each;
}

/* Scored token `index` of a row. `tokens` are the tokens of the row. */
static inline uint32_t step_scored_token(const struct step_row *row, const uint32_t *tokens,
                                         uint32_t index) {
    uint32_t at = step_scored_first(row) + index + 1;
    return at < row->token_count ? tokens[at] : row->next_token;
}

/* The maximum number of tokens in a result row: chosen token, accepted drafts, forced tokens. */
#define STEP_ROW_TOKENS (1 + LIMIT_DRAFTS + LIMIT_FORCED)

struct step_result_row {
    uint32_t slot;
    /* 0 if the row did not sample; else one chosen token, the accepted drafts and the forced
     * tokens */
    uint32_t token_count;
    uint32_t tokens[STEP_ROW_TOKENS]; /* [token_count], then zeros */
    /* Number of forced tokens, the last ones: the constraint allows nothing else, so the model did
     * not run. 0 if log probabilities are reported */
    uint32_t forced_count;
    uint32_t draft_count;   /* drafts made */
    uint32_t logprob_index; /* index of the row's first log probability in the result */
    uint32_t logprobs_each; /* 0: not requested; else each chosen token and the most likely ones */
    /* 1: the row has no effect and chose no token: a load or a mask that it waited for did not
     * arrive, or another rank has died */
    uint32_t lost;
    /* 1: the row was lost only because its mask was late; the rest of it is computed. A later
     * result reports when the mask is ready */
    uint32_t late;
    /* 1: the constraint allows no token or has outgrown its memory. The row chose none, and no
     * later row can */
    uint32_t stuck;
    uint32_t load_ended;   /* 1: the load that the row waited for has ended as load_end describes */
    uint32_t score_index;  /* index of the first score in the result's log probabilities */
    uint32_t scored_count; /* count in the plan; 0 if lost */
    struct load_end load_end; /* zeros unless load_ended */
};

/* RECORD_STEP_DONE. */
struct step_result {
    struct record record;
    uint64_t step;
    int64_t compute_ns; /* without the waits for loads */
    int64_t awaited_ns; /* time that the rank's rows waited for loads, in the layers of the step */
    uint32_t row_count;
    uint32_t failed; /* 1: the engine could not run the step; no row has an effect */
    uint32_t logprob_count;
    uint32_t rank;             /* rank in the plan */
    uint32_t constraint_count; /* count in the plan; 0: the constraints did not reach the rank */
    uint32_t ready_count;
};

RECORD_TAIL(step_result, 0, struct step_result_row,
            step_result_rows) /* [row_count], in the plan's order */
RECORD_TAIL(step_result, 1, struct token_logprob, step_result_logprobs) /* [logprob_count] */
/* [ready_count] slots that have become ready: a constraint sent ahead has been compiled (or cannot
 * be), or a late mask is complete. Each result repeats a slot until its row runs. */
RECORD_TAIL(step_result, 2, uint32_t, step_result_ready)

/* The largest size of a result. A step scores at most as many tokens as it has. */
static inline size_t step_result_bytes_max(uint32_t rows_max, uint32_t tokens_max) {
    return record_bytes(
        RECORD_STEP_DONE,
        &(struct step_result){.row_count = rows_max,
                              .logprob_count =
                                  (rows_max * (1 + LIMIT_DRAFTS) + tokens_max) * TOKEN_LOGPROBS_MAX,
                              .ready_count = LIMIT_UNIT_REQUESTS});
}

/* Validate the fields, for record_forms.c. */
bool step_plan_valid(const void *record);
bool step_plan_result_valid(const void *record);
