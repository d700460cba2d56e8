/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/step_plan.h"

/* True if [index, index + count) is within [0, total). */
static bool step_plan_inside(uint32_t index, uint32_t count, uint32_t total) {
    return index <= total && count <= total - index;
}

static bool row_extras_valid(const struct step_plan *plan, const struct step_row *row) {
    return step_plan_inside(row->history_index, row->history_count, plan->history_count) &&
           row->history_count <= LIMIT_HISTORY_TOKENS &&
           row->history_prompt_count <= row->history_count &&
           step_plan_inside(row->bias_index, row->bias_count, plan->bias_count) &&
           row->bias_count <= LIMIT_ROW_BIASES;
}

static bool row_drafts_valid(const struct step_row *row) {
    if (row->fresh > 1 || row->draft_count > LIMIT_DRAFTS) return false;
    return row->draft_count == 0 ||
           (row->sample && row->form == TOKEN_GENERATED && row->token_count == 1 &&
            step_drafts_fit(row->first_position + 1, row->draft_count));
}

static bool row_scores_valid(const struct step_row *row) {
    bool next = row->next_token != STEP_NO_TOKEN;
    return row->scored_count == 0 ||
           (row->scored_count <= row->token_count - !next && row->draft_count == 0 &&
            (row->sampling.flags & SAMPLING_LOGPROBS));
}

/* True if the row refers only to tokens, pages and other parts within the plan. */
static bool row_valid(const struct step_plan *plan, const struct step_row *row) {
    uint64_t end = (uint64_t)row->first_position + row->token_count + row->draft_count;
    return row->form < MLA_MODE_COUNT && row->token_count > 0 && end <= LIMIT_CONTEXT &&
           step_plan_inside(row->token_index, row->token_count, plan->token_count) &&
           step_plan_inside(row->page_index, row->page_count, plan->page_count) &&
           row->first_page <= LIMIT_CONTEXT / KV_BLOCK_TOKENS && !(row->fresh && row->first_page) &&
           end <= ((uint64_t)row->first_page + row->page_count) * KV_BLOCK_TOKENS &&
           row->logits_count <= row->token_count && row->sample <= 1 && row->loads <= 1 &&
           row->constrained <= 1 && row->sample <= row->logits_count &&
           sampling_valid(&row->sampling) && row_extras_valid(plan, row) && row_drafts_valid(row) &&
           row_scores_valid(row);
}

static bool constraint_valid(const struct step_plan *plan, const struct step_constraint *it) {
    if (it->row == STEP_NO_ROW && (it->answer_count || it->stop_count)) return false;
    if (it->text_bytes == 0 &&
        (it->row != STEP_NO_ROW || !record_zeros(&it->account, sizeof it->account)))
        return false;
    return it->slot < LIMIT_UNIT_REQUESTS && it->text_bytes <= LIMIT_CONSTRAINT_BYTES &&
           it->stop_count <= 2 * LIMIT_STOP_TOKENS &&
           step_plan_inside(it->text_index, it->text_bytes, plan->constraint_bytes) &&
           step_plan_inside(it->answer_index, it->answer_count, plan->constraint_token_count) &&
           step_plan_inside(it->stop_index, it->stop_count, plan->constraint_token_count);
}

/* True if constraints of slots without rows come first, followed by one for each fresh constrained
 * row in order. */
static bool constraints_valid(const struct step_plan *plan) {
    const struct step_constraint *each = step_plan_constraints(plan);
    uint32_t count = 0;
    while (count < plan->constraint_count && each[count].row == STEP_NO_ROW)
        count++;
    for (uint32_t i = 0; i < plan->row_count; i++) {
        const struct step_row *row = &step_plan_rows(plan)[i];
        if (!row->constrained || !row->fresh) continue;
        if (count == plan->constraint_count || each[count].row != i ||
            each[count].slot != row->slot)
            return false;
        count++;
    }
    for (uint32_t i = 0; i < plan->constraint_count; i++)
        if (!constraint_valid(plan, &each[i])) return false;
    return count == plan->constraint_count;
}

bool step_plan_valid(const void *record) {
    const struct step_plan *plan = record;
    if (plan->overlap >= OVERLAP_KIND_COUNT || plan->rank >= LIMIT_RANKS ||
        plan->others_draft > 1 || plan->awaits > (plan->row_count == 0) ||
        plan->row_count > LIMIT_STEP_ROWS || plan->token_count > LIMIT_STEP_TOKENS)
        return false;
    for (uint32_t i = 0; i < plan->row_count; i++)
        if (!row_valid(plan, &step_plan_rows(plan)[i])) return false;
    return constraints_valid(plan) &&
           sampling_token_biases_valid(step_plan_biases(plan), plan->bias_count);
}

static bool result_row_valid(const struct step_result *result, const struct step_result_row *row) {
    if (row->draft_count > LIMIT_DRAFTS || row->forced_count > LIMIT_FORCED ||
        row->token_count > 1 + row->draft_count + row->forced_count ||
        (row->forced_count && (row->forced_count >= row->token_count || row->logprobs_each)) ||
        row->logprobs_each > TOKEN_LOGPROBS_MAX || row->lost > 1 || row->stuck > 1 ||
        (row->lost && (row->token_count || row->scored_count || row->stuck)) ||
        row->late > row->lost || (row->stuck && row->token_count) || row->load_ended > 1 ||
        !load_end_valid(&row->load_end) ||
        (!row->load_ended && !record_zeros(&row->load_end, sizeof row->load_end)) ||
        row->scored_count > LIMIT_STEP_TOKENS ||
        !step_plan_inside(row->score_index, row->scored_count * row->logprobs_each,
                          result->logprob_count))
        return false;
    for (uint32_t i = row->token_count; i < STEP_ROW_TOKENS; i++)
        if (row->tokens[i]) return false;
    return step_plan_inside(row->logprob_index, row->token_count * row->logprobs_each,
                            result->logprob_count);
}

bool step_plan_result_valid(const void *record) {
    const struct step_result *result = record;
    if (result->failed > 1 || result->rank >= LIMIT_RANKS || result->row_count > LIMIT_STEP_ROWS ||
        result->awaited_ns < 0)
        return false;
    for (uint32_t i = 0; i < result->row_count; i++)
        if (!result_row_valid(result, &step_result_rows(result)[i])) return false;
    for (uint32_t i = 0; i < result->ready_count; i++)
        if (step_result_ready(result)[i] >= LIMIT_UNIT_REQUESTS) return false;
    return sampling_token_logprobs_valid(step_result_logprobs(result), result->logprob_count);
}
