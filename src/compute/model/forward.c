/* SPDX-License-Identifier: Apache-2.0
 * The forward pass of a step (DeepSeek-V3 inference/model.py):
 *
 *   x  = E[token];  per layer:  x += attention(rmsnorm(x));  x += ffn(rmsnorm(x))
 *   logits = head(rmsnorm(x)), only for tokens with requested logits, or to score tokens
 */
#include "compute/model/forward.h"

#include <string.h>

#include "base/check.h"
#include "compute/model/compute.h"
#include "compute/model/draft.h"
#include "compute/model/plan_check.h"
#include "compute/model/stages.h"

static void forward_add_row(struct model *model, const struct step_plan *plan, uint32_t index) {
    const struct step_row *row = &step_plan_rows(plan)[index];
    const uint32_t *tokens = step_plan_tokens(plan) + row->token_index;
    struct model_draft drafts = draft_of_row(model, index);
    batch_begin_run(&model->batch, (struct run){.plan_row = index,
                                                .slot = row->slot,
                                                .first_position = row->first_position,
                                                .pages = step_plan_pages(plan) + row->page_index});
    for (uint32_t i = 0; i < row->token_count; i++)
        batch_add(&model->batch, tokens[i]);
    for (uint32_t i = 0; i < drafts.count; i++)
        batch_add(&model->batch, drafts.tokens[i]);
    if (shape_is_compressed(model->shape))
        sequence_state_note(&model->state, row->slot, row->first_position,
                            row->first_position + row->token_count + drafts.count);
}

/* Fills the batch with the plan's tokens and their drafts, in internal order. */
static void line_up(struct model *model, const struct step_plan *plan) {
    const struct step_row *rows = step_plan_rows(plan);
    batch_clear(&model->batch);
    for (uint32_t i = 0; i < plan->row_count; i++)
        if (rows[i].form == TOKEN_PROMPT) forward_add_row(model, plan, i);
    batch_end_prompts(&model->batch);
    for (uint32_t i = 0; i < plan->row_count; i++)
        if (rows[i].form == TOKEN_GENERATED) forward_add_row(model, plan, i);
}

/* Moves the rules of a row of the plan behind those of `count` earlier outputs. */
static void line_up_rules(struct draw_rule *rules, uint32_t row, uint32_t count, uint32_t wanted) {
    const struct draw_rule *of_row = rules + (size_t)row * (1 + LIMIT_DRAFTS);
    check(wanted <= 1 + LIMIT_DRAFTS);
    memmove(rules + count, of_row, wanted * sizeof *rules);
}

/* Gathers, in plan order, the outputs of rows that need logits or (`drawn`) sampled tokens, after
 * `first` others. Returns their number. */
static uint32_t gather_wanted(struct model *model, const struct step_plan *plan, bool drawn,
                              uint32_t first) {
    uint32_t count = 0;
    for (uint32_t row = 0; row < plan->row_count; row++) {
        const struct run *run = batch_run_of_row(&model->batch, row);
        uint32_t wanted = step_plan_rows(plan)[row].logits_count + draft_of_row(model, row).count;
        if (drawn != (model->draws.rows && model->draws.rows[row])) continue;
        if (drawn) line_up_rules(model->draws.rules, row, count, wanted);
        model->compute->outputs(model, run->first + run->token_count - wanted, wanted,
                                first + count);
        count += wanted;
    }
    return count;
}

/* Gathers all outputs and multiplies them with the head together. */
static void forward_run_head(struct model *model, const struct step_plan *plan, float *logits) {
    uint32_t count = gather_wanted(model, plan, false, 0);
    uint32_t drawn = gather_wanted(model, plan, true, count);
    if (count) model->compute->logits(model, count, logits);
    if (drawn) model->compute->draw(model, count, drawn, model->draws.rules, model->draws.tokens);
}

struct scoring { /* one row's scores for the follower */
    const struct model_follower *follower;
    uint32_t row;
};

static void forward_score(void *context, uint32_t index, const float *logits) {
    const struct scoring *scoring = context;
    scoring->follower->score(scoring->follower->context, scoring->row, index, logits);
}

static void run_scores(struct model *model, const struct step_plan *plan) {
    for (uint32_t i = 0; i < plan->row_count; i++) {
        const struct step_row *row = &step_plan_rows(plan)[i];
        struct scoring scoring = {&model->follower, i};
        if (row->scored_count == 0) continue;
        uint32_t first = batch_run_of_row(&model->batch, i)->first;
        model->compute->show_logits(model, first + step_scored_first(row), row->scored_count,
                                    forward_score, &scoring);
    }
}

static void forward_note_pages(struct model *model, const struct step_plan *plan) {
    const struct batch *batch = &model->batch;
    for (uint32_t i = 0; i < batch->run_count; i++) {
        const struct run *run = &batch->runs[i];
        uint32_t end = run->first_position + step_plan_rows(plan)[run->plan_row].token_count;
        for (uint32_t page = run->first_position / KV_BLOCK_TOKENS; page * KV_BLOCK_TOKENS < end;
             page++)
            kv_pages_note(&model->kv, run->pages[page].index, kv_block_rows(end, page));
    }
}

/* Position i takes token i + 1. The last one takes the probe's next token, or the greedy one. */
static void probe_mtp(struct model *model, const struct model_probe *probe) {
    if (probe->row == MODEL_NO_ROW) { /* other ranks' tokens may need our experts */
        draft_probe(model, NULL, 0, probe->mtp_argmax);
        return;
    }
    const struct run *run = batch_run_of_row(&model->batch, probe->row);
    uint32_t next = probe->mtp_next_token;
    if (next == UINT32_MAX) next = model->compute->greedy(model, run->first + run->token_count - 1);
    draft_probe(model, run, next, probe->mtp_argmax);
}

static enum status check_probe(const struct model *model, const struct step_plan *plan,
                               const struct model_probe *probe, struct error *error) {
    if (!probe || (probe->row == MODEL_NO_ROW && (!probe->mtp_argmax || model->drafts)))
        return STATUS_OK;
    if (probe->row >= plan->row_count)
        return error_set(error, STATUS_INVALID, "row %u cannot be probed: the plan has %u rows",
                         probe->row, plan->row_count);
    const struct step_row *row = &step_plan_rows(plan)[probe->row];
    if (row->draft_count)
        return error_set(error, STATUS_INVALID, "row %u has drafts and cannot be probed",
                         probe->row);
    if (!probe->mtp_argmax) return STATUS_OK;
    if (!model->drafts)
        return error_set(error, STATUS_INVALID, "the model was opened without its MTP layer");
    if (probe->mtp_next_token != UINT32_MAX && probe->mtp_next_token >= model->shape->vocab)
        return error_set(error, STATUS_INVALID, "MTP's next token is %u, expected less than %u",
                         probe->mtp_next_token, model->shape->vocab);
    if (row->first_position + row->token_count >= row->page_count * KV_BLOCK_TOKENS)
        return error_set(error, STATUS_INVALID,
                         "MTP needs a page for position %u, one past the row's last",
                         row->first_position + row->token_count);
    return STATUS_OK;
}

enum status forward_run(struct model *model, const struct step_plan *plan, float *logits,
                        const struct model_probe *probe, struct error *error) {
    bool mtp = model->drafts != NULL;
    enum status status = plan_check(model, plan, error);
    if (status == STATUS_OK) status = check_probe(model, plan, probe, error);
    if (status != STATUS_OK) return status;
    if (mtp) draft_make(model, plan);
    line_up(model, plan);
    model->tokens += model->batch.token_count;
    stages_set_micro_batches(model, plan);
    if (model->compute->begin(model, stages_number(model, plan, probe)))
        stages_report_all(model, plan);
    else
        stages_run(model, plan, probe);
    forward_note_pages(model, plan);
    forward_run_head(model, plan, logits);
    run_scores(model, plan);
    if (mtp) {
        model->compute->keep_outputs(model);
        draft_follow(model, plan, probe && probe->mtp_argmax ? probe->row : MODEL_NO_ROW);
        stages_report(model, plan, model->kv.format.slice_count);
    }
    if (probe && probe->mtp_argmax) probe_mtp(model, probe);
    return model->compute->end(model, error);
}
