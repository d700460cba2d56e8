/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/model/plan_check.h"

#include "compute/model/model_state.h"

static enum status refuse(struct error *error, const struct step_plan *plan, uint32_t row,
                          const char *what, uint64_t found, uint64_t limit) {
    return error_set(error, STATUS_INVALID, "step %llu, row %u: %s is %llu, expected at most %llu",
                     (unsigned long long)plan->step, row, what, (unsigned long long)found,
                     (unsigned long long)limit);
}

static enum status check_drafts(const struct model *model, const struct step_plan *plan,
                                uint32_t index, struct error *error) {
    const struct step_row *row = &step_plan_rows(plan)[index];
    if (model->drafts && row->slot >= model->slots_max)
        return refuse(error, plan, index, "the slot", row->slot, model->slots_max - 1);
    if (row->draft_count == 0) return STATUS_OK;
    if (row->draft_count > LIMIT_DRAFTS)
        return refuse(error, plan, index, "the number of drafts", row->draft_count, LIMIT_DRAFTS);
    if (model->drafts && row->form == TOKEN_GENERATED && row->token_count == 1 &&
        row->logits_count == 1 && step_drafts_fit(row->first_position + 1, row->draft_count))
        return STATUS_OK;
    return error_set(error, STATUS_INVALID,
                     "step %llu, row %u: drafts need an MTP layer, and one generated token with "
                     "wanted logits; none may end a block",
                     (unsigned long long)plan->step, index);
}

static enum status check_scores(const struct model *model, const struct step_plan *plan,
                                uint32_t index, struct error *error) {
    const struct step_row *row = &step_plan_rows(plan)[index];
    bool next = row->next_token != STEP_NO_TOKEN;
    if (row->scored_count == 0) return STATUS_OK;
    if (row->scored_count > row->token_count - !next)
        return refuse(error, plan, index, "the number of scored tokens", row->scored_count,
                      row->token_count - !next);
    if (next && row->next_token >= model->shape->vocab)
        return refuse(error, plan, index, "the next token", row->next_token,
                      model->shape->vocab - 1);
    if (row->draft_count == 0 && model->follower.score) return STATUS_OK;
    return error_set(error, STATUS_INVALID,
                     "step %llu, row %u: tokens are scored only in rows without drafts, and if "
                     "something receives the scores",
                     (unsigned long long)plan->step, index);
}

static enum status check_row(const struct model *model, const struct step_plan *plan,
                             uint32_t index, struct error *error) {
    const struct step_row *row = &step_plan_rows(plan)[index];
    if (row->form >= MLA_MODE_COUNT)
        return refuse(error, plan, index, "the token form", row->form, MLA_MODE_COUNT - 1);
    if (row->token_count == 0 || row->token_count > plan->token_count)
        return refuse(error, plan, index, "the number of tokens (1 or more)", row->token_count,
                      plan->token_count);
    if (row->token_index > plan->token_count - row->token_count)
        return refuse(error, plan, index, "the first token's index", row->token_index,
                      plan->token_count - row->token_count);
    if (row->first_position > LIMIT_CONTEXT - row->token_count)
        return refuse(error, plan, index, "the first position", row->first_position,
                      LIMIT_CONTEXT - row->token_count);
    if (row->page_count > plan->page_count || row->page_index > plan->page_count - row->page_count)
        return refuse(error, plan, index, "the end of its pages",
                      (uint64_t)row->page_index + row->page_count, plan->page_count);
    if (row->first_page > 0)
        return refuse(error, plan, index, "the first page", row->first_page, 0);
    enum status status = check_drafts(model, plan, index, error);
    if (status == STATUS_OK && shape_is_compressed(model->shape))
        status = sequence_state_check(&model->state, plan, index, error);
    if (status != STATUS_OK) return status;
    uint32_t end = row->first_position + row->token_count + row->draft_count;
    if (shape_has_index(model->shape) && end > shape_positions_max(model->shape))
        return refuse(error, plan, index, "the number of positions", end,
                      shape_positions_max(model->shape));
    if (end > (uint64_t)row->page_count * KV_BLOCK_TOKENS)
        return refuse(error, plan, index, "the number of positions", end,
                      (uint64_t)row->page_count * KV_BLOCK_TOKENS);
    if (row->logits_count > row->token_count)
        return refuse(error, plan, index, "the number of logits", row->logits_count,
                      row->token_count);
    status = check_scores(model, plan, index, error);
    if (status != STATUS_OK) return status;
    if (row->sample && !row->logits_count)
        return error_set(error, STATUS_INVALID,
                         "step %llu, row %u: expected logits for a sampled row, found none",
                         (unsigned long long)plan->step, index);
    const uint32_t *tokens = step_plan_tokens(plan) + row->token_index;
    for (uint32_t i = 0; i < row->token_count; i++)
        if (tokens[i] >= model->shape->vocab)
            return refuse(error, plan, index, "a token id", tokens[i], model->shape->vocab - 1);
    const struct page_id *pages = step_plan_pages(plan) + row->page_index;
    for (uint32_t i = 0; i < row->page_count; i++)
        if (pages[i].index >= model->kv.page_count)
            return refuse(error, plan, index, "a page", pages[i].index, model->kv.page_count - 1);
    return STATUS_OK;
}

static enum status check_cuts(const struct step_plan *plan, struct error *error) {
    if (plan->overlap >= OVERLAP_KIND_COUNT)
        return refuse(error, plan, 0, "the schedule", plan->overlap, OVERLAP_KIND_COUNT - 1);
    for (uint32_t i = 0; i + 1 < overlap_of((enum overlap_kind)plan->overlap)->micro_batch_count;
         i++) {
        struct step_cut cut = plan->cuts[i];
        if (cut.row >= plan->row_count || cut.token == 0) continue;
        const struct step_row *row = &step_plan_rows(plan)[cut.row];
        if (row->form != TOKEN_PROMPT || cut.token >= row->token_count ||
            (row->first_position + cut.token) % KV_BLOCK_TOKENS != 0)
            return error_set(error, STATUS_INVALID,
                             "step %llu, row %u: cannot be cut at its token %u: only prompts are, "
                             "within the row, on block boundaries",
                             (unsigned long long)plan->step, cut.row, cut.token);
    }
    return STATUS_OK;
}

enum status plan_check(const struct model *model, const struct step_plan *plan,
                       struct error *error) {
    const struct step_row *rows = step_plan_rows(plan);
    if (plan->row_count > model->step_rows_max)
        return refuse(error, plan, 0, "the number of rows", plan->row_count, model->step_rows_max);
    uint64_t tokens = 0;
    for (uint32_t i = 0; i < plan->row_count; i++) {
        enum status status = check_row(model, plan, i, error);
        if (status != STATUS_OK) return status;
        tokens += (uint64_t)rows[i].token_count + rows[i].draft_count;
    }
    if (tokens > model->step_tokens_max)
        return refuse(error, plan, 0, "the number of tokens in the step", tokens,
                      model->step_tokens_max);
    return check_cuts(plan, error);
}
