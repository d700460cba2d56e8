/* SPDX-License-Identifier: Apache-2.0
 * The forward pass of a step (DeepSeek-V3 inference/model.py):
 *
 *   x  = E[token];  per layer:  x += attention(rmsnorm(x));  x += ffn(rmsnorm(x))
 *   logits = head(rmsnorm(x)), only for the tokens whose logits are wanted, or which score others
 */
#include "compute/model/compute.h"

void forward_progress(struct model *model) {
    for (uint32_t lane = 0; lane < model->lane_count; lane++)
        if (model->lanes[lane].exchange) exchange_progress(model->lanes[lane].exchange);
    moves_progress(model);
}

const struct run *forward_run_of_row(const struct batch *batch, uint32_t plan_row) {
    for (uint32_t i = 0; i < batch->run_count; i++)
        if (batch->runs[i].plan_row == plan_row) return &batch->runs[i];
    return NULL;
}

/* Gathers the wanted tokens of all rows in plan order, then multiplies them together. */
static void run_head(struct model *model, const struct step_plan *plan, float *logits) {
    struct scratch *s = &model->scratch;
    uint32_t count = 0;
    for (uint32_t row = 0; row < plan->row_count; row++) {
        const struct run *run = forward_run_of_row(&s->batch, row);
        uint32_t wanted =
            step_plan_rows(plan)[row].logits_count + model_step_draft(model, row).count;
        compute_outputs(model, run->first + run->token_count - wanted, wanted, count);
        count += wanted;
    }
    if (count) compute_logits(model, s->normed, count, logits, NULL);
}

struct scoring { /* of one row */
    const struct model_follower *follower;
    uint32_t row;
};

static void score(void *context, uint32_t index, const float *logits) {
    const struct scoring *scoring = context;
    scoring->follower->score(scoring->follower->context, scoring->row, index, logits);
}

static void run_scores(struct model *model, const struct step_plan *plan) {
    for (uint32_t i = 0; i < plan->row_count; i++) {
        const struct step_row *row = &step_plan_rows(plan)[i];
        struct scoring scoring = {&model->follower, i};
        if (row->scored_count == 0) continue;
        uint32_t first = forward_run_of_row(&model->scratch.batch, i)->first;
        compute_show_logits(model, first + step_scored_first(row), row->scored_count, score,
                            &scoring);
    }
}

static void note_pages(struct model *model, const struct step_plan *plan) {
    const struct batch *batch = &model->scratch.batch;
    for (uint32_t i = 0; i < batch->run_count; i++) {
        const struct run *run = &batch->runs[i];
        uint32_t end = run->first_position + step_plan_rows(plan)[run->plan_row].token_count;
        for (uint32_t page = run->first_position / KV_BLOCK_TOKENS; page * KV_BLOCK_TOKENS < end;
             page++)
            kv_pages_note(&model->kv, run->pages[page].index, kv_block_rows(end, page));
    }
}

/* Position i takes token i + 1; the last one the probe's next token, or the greedy one. */
static void probe_mtp(struct model *model, const struct model_probe *probe) {
    if (probe->row == MODEL_NO_ROW) { /* other ranks' tokens may need our experts */
        draft_probe(model, NULL, 0, probe->mtp_argmax);
        return;
    }
    const struct run *run = forward_run_of_row(&model->scratch.batch, probe->row);
    uint32_t next = probe->mtp_next_token;
    size_t last = (size_t)(run->first + run->token_count - 1) * model->shape->hidden;
    if (next == UINT32_MAX) compute_logits(model, model->scratch.hidden + last, 1, NULL, &next);
    draft_probe(model, run, next, probe->mtp_argmax);
}

static enum status check_probe(const struct model *model, const struct step_plan *plan,
                               const struct model_probe *probe, struct error *error) {
    if (!probe || (probe->row == MODEL_NO_ROW && (!probe->mtp_argmax || model->weights.mtp)))
        return STATUS_OK;
    if (probe->row >= plan->row_count)
        return error_set(error, STATUS_INVALID, "row %u is to be probed, the plan has %u",
                         probe->row, plan->row_count);
    const struct step_row *row = &step_plan_rows(plan)[probe->row];
    if (row->draft_count)
        return error_set(error, STATUS_INVALID, "row %u has drafts and cannot be probed",
                         probe->row);
    if (!probe->mtp_argmax) return STATUS_OK;
    if (!model->weights.mtp)
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

void forward_tell(const struct model *model, const struct step_plan *plan, uint32_t slices) {
    if (model->follower.written && plan->row_count)
        model->follower.written(model->follower.context, plan->step, slices);
}

enum status model_check_plan(const struct model *model, const struct step_plan *plan,
                             struct error *error) {
    return plan_check(model, plan, error);
}

enum status model_step(struct model *model, const struct step_plan *plan, float *logits,
                       const struct model_probe *probe, struct error *error) {
    struct batch *batch = &model->scratch.batch;
    bool mtp = model_has_mtp(model);
    enum status status = plan_check(model, plan, error);
    if (status == STATUS_OK) status = check_probe(model, plan, probe, error);
    if (status != STATUS_OK) return status;
    if (mtp) draft_make(model, plan);
    plan_line_up(model, plan);
    model->tokens += batch->token_count;
    rope_prepare(model->shape, batch);
    compute_embed(model);
    stages_set_lanes(model, (enum overlap_kind)plan->overlap);
    stages_run(model, plan, probe);
    note_pages(model, plan);
    run_head(model, plan, logits);
    run_scores(model, plan);
    if (mtp) {
        compute_keep_outputs(model);
        draft_follow(model, plan);
        forward_tell(model, plan, model->kv.slice_count);
    }
    if (probe && probe->mtp_argmax) probe_mtp(model, probe);
    return STATUS_OK;
}
