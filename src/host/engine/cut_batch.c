/* SPDX-License-Identifier: Apache-2.0 */
#include "host/engine/cut_batch.h"

static uint64_t cut_batch_work_of(const struct step_row *row, uint32_t tokens,
                                  uint64_t token_work) {
    uint64_t count = tokens;
    return count * token_work + count * row->first_position + count * (count + 1) / 2;
}

static uint64_t distance(uint64_t a, uint64_t b) {
    return a > b ? a - b : b - a;
}

struct cut_state {
    struct cut_batch best;
    uint32_t micro_batch_count;
    const uint8_t *shares;
    uint64_t before; /* work of the rows before this one */
};

static uint64_t sum_shares(const struct cut_state *state, uint32_t micro_batches) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < micro_batches; i++)
        sum += state->shares ? state->shares[i] : 1;
    return sum;
}

/* Considers a cut here. Each micro-batch begins at the first place that is nearest to its share, so
 * cuts ascend. */
static void consider(struct cut_state *state, uint32_t row, uint32_t token, uint64_t before) {
    struct cut_batch *best = &state->best;
    uint64_t all = sum_shares(state, state->micro_batch_count);
    for (uint32_t i = 0; i + 1 < state->micro_batch_count; i++) {
        uint64_t share = best->work * sum_shares(state, i + 1);
        if (distance(all * before, share) >= distance(all * best->before[i], share)) continue;
        best->cuts[i] = (struct step_cut){.row = row, .token = token};
        best->before[i] = before;
    }
}

static void walk_row(struct cut_state *state, const struct step_row *rows, uint32_t index,
                     uint64_t token_work) {
    const struct step_row *row = &rows[index];
    consider(state, index, 0, state->before);
    uint32_t token = KV_BLOCK_TOKENS - row->first_position % KV_BLOCK_TOKENS;
    if (row->form == TOKEN_PROMPT)
        for (; token < row->token_count; token += KV_BLOCK_TOKENS)
            consider(state, index, token,
                     state->before + cut_batch_work_of(row, token, token_work));
    state->before += cut_batch_work_of(row, row->token_count, token_work);
}

struct cut_batch cut_batch_by_work(const struct step_plan *plan, uint32_t micro_batch_count,
                                   const uint8_t *shares, uint64_t token_work) {
    const struct step_row *rows = step_plan_rows(plan);
    struct cut_state state = {.micro_batch_count = micro_batch_count, .shares = shares};
    for (uint32_t i = 0; i < plan->row_count; i++)
        state.best.work += cut_batch_work_of(&rows[i], rows[i].token_count, token_work);
    for (uint32_t i = 0; i + 1 < micro_batch_count; i++) { /* everything in the first one */
        state.best.cuts[i].row = plan->row_count;
        state.best.before[i] = state.best.work;
    }
    for (int form = 0; form < MLA_MODE_COUNT; form++)
        for (uint32_t i = 0; i < plan->row_count; i++)
            if (rows[i].form == (uint32_t)form) walk_row(&state, rows, i, token_work);
    return state.best;
}
