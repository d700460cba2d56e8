/* SPDX-License-Identifier: Apache-2.0
 * Speculative decoding within a step. Before the main pass, the MTP layer drafts the token after a
 * row's last known one. The main pass computes both, and sampling accepts or rejects the draft. MTP
 * position i takes h[i], the main model's output, and token i + 1. If the next token is not yet
 * known, the output is therefore kept in the row's slot until the next row has that token. The next
 * row's first position gives the number of accepted drafts.
 *
 *   row [a, b)   MTP positions a-1 .. b-2 get their KV rows: before the main pass if a draft is
 *                wanted (the last of them then runs through the whole block), else after it
 *   kept         h[b-1], and those of the drafts
 *
 * If the kept outputs do not fit the row (its tokens came from the prefix cache, or it was
 * preempted), the KV row of position a-1 is zeroed and there is no draft. Later drafts may then be
 * slightly worse, but answers stay exact. If a row did not count and is repeated, the KV row of
 * position a-1 is already written, and only the draft is missing.
 */
#include "compute/model/draft.h"

#include "base/check.h"
#include "compute/model/compute.h"
#include "compute/model/mtp.h"

#include <stdlib.h>
#include <string.h>

/* The row of a slot's kept outputs (compute.h, keep_slot). */
struct draft_kept {
    uint32_t row_position;         /* first position of their row */
    uint32_t first_position;       /* of the first kept output */
    uint32_t count;                /* 0: none */
    uint32_t tokens[LIMIT_DRAFTS]; /* drafts, from position first_position + 1 on */
};

struct drafts {
    struct model_draft *made; /* [step_rows_max] of the last step */
    uint32_t *guesses;        /* [step_tokens_max] scratch */
    struct draft_kept *kept;  /* [slots_max] */
};

enum status draft_open(struct model *model, struct error *error) {
    struct drafts *drafts = model->drafts = calloc(1, sizeof *drafts);
    if (drafts) {
        drafts->made = calloc(model->step_rows_max, sizeof *drafts->made);
        drafts->guesses = calloc(model->step_tokens_max, sizeof *drafts->guesses);
        drafts->kept = calloc(model->slots_max, sizeof *drafts->kept);
        if (drafts->made && drafts->guesses && drafts->kept) return STATUS_OK;
    }
    return error_set(error, STATUS_NO_MEMORY, "no memory for the drafts of %u requests",
                     model->slots_max);
}

void draft_close(struct model *model) {
    if (!model->drafts) return;
    free(model->drafts->made);
    free(model->drafts->guesses);
    free(model->drafts->kept);
    free(model->drafts);
}

struct model_draft draft_of_row(const struct model *model, uint32_t row) {
    check(row < model->step_rows_max);
    return model->drafts ? model->drafts->made[row] : (struct model_draft){0};
}

/* The number of kept outputs of positions before the row; 0: they do not fit the row. */
static uint32_t fitting(const struct model *model, const struct step_row *row) {
    const struct draft_kept *kept = &model->drafts->kept[row->slot];
    if (row->fresh || row->first_position <= kept->first_position) return 0;
    uint32_t count = row->first_position - kept->first_position;
    return count <= kept->count ? count : 0;
}

/* True if the kept outputs are of this same row, which did not count the first time. */
static bool comes_again(const struct model *model, const struct step_row *row) {
    const struct draft_kept *kept = &model->drafts->kept[row->slot];
    return !row->fresh && kept->count && row->first_position == kept->row_position;
}

static void begin_run(struct batch *batch, const struct step_plan *plan, uint32_t plan_row,
                      uint32_t first_position) {
    batch_begin_run(batch,
                    (struct run){
                        .plan_row = plan_row,
                        .slot = step_plan_rows(plan)[plan_row].slot,
                        .first_position = first_position,
                        .kv_shift = 1,
                        .pages = step_plan_pages(plan) + step_plan_rows(plan)[plan_row].page_index,
                    });
}

static void add_kept(struct batch *batch, uint32_t slot, uint32_t index, uint32_t next_token) {
    batch_add_output(batch, next_token, (struct output_ref){slot, index});
}

static void add_of_step(struct batch *batch, uint32_t token, uint32_t next_token) {
    batch_add_output(batch, next_token, (struct output_ref){OUTPUT_OF_STEP, token});
}

/* Begins a run with the first `count` kept outputs, because their drafts were accepted. */
static void begin_with_kept(const struct model *model, struct batch *batch,
                            const struct step_plan *plan, uint32_t plan_row, uint32_t count) {
    uint32_t slot = step_plan_rows(plan)[plan_row].slot;
    const struct draft_kept *kept = &model->drafts->kept[slot];
    begin_run(batch, plan, plan_row, kept->first_position);
    for (uint32_t i = 0; i < count; i++)
        add_kept(batch, slot, i, kept->tokens[i]);
}

void draft_make(struct model *model, const struct step_plan *plan) {
    struct drafts *drafts = model->drafts;
    struct batch *rows = &model->mtp_rows, *batch = &model->mtp_batch;
    memset(drafts->made, 0, plan->row_count * sizeof *drafts->made);
    batch_clear(rows);
    batch_clear(batch);
    for (uint32_t i = 0; i < plan->row_count; i++) {
        const struct step_row *row = &step_plan_rows(plan)[i];
        uint32_t count = row->draft_count ? fitting(model, row) : 0;
        if (count == 0) continue;
        begin_with_kept(model, rows, plan, i, count - 1);
        begin_run(batch, plan, i, row->first_position - 1);
        add_kept(batch, row->slot, count - 1, step_plan_tokens(plan)[row->token_index]);
    }
    if (batch->token_count == 0 && !plan->others_draft) return;
    mtp_run(model, drafts->guesses);
    for (uint32_t i = 0; i < batch->run_count; i++) {
        uint32_t plan_row = batch->runs[i].plan_row, guess = drafts->guesses[i];
        const struct model_guesser *guesser = &model->guesser;
        struct model_draft *made = &drafts->made[plan_row];
        if (guesser->guess)
            guess = guesser->guess(guesser->context, &step_plan_rows(plan)[plan_row], guess);
        made->tokens[made->count++] = guess;
    }
}

static void write_zeros(const struct model *model, const struct run *run) {
    uint32_t index = run->first_position; /* index of the KV row of position first_position - 1 */
    if (shape_is_compressed(model->shape)) {
        memset(sequence_state_row(&model->state, run->slot, model->shape->layers, index - 1), 0,
               model->state.row_bytes);
        return;
    }
    model->compute->clear_row(model, run->pages[index / KV_BLOCK_TOKENS], model->shape->layers,
                              index % KV_BLOCK_TOKENS);
}

/* `run`: the row's run in the main pass. `probed`: draft_probe computes its other positions. */
static void follow_row(struct model *model, const struct step_plan *plan, const struct run *run,
                       bool probed) {
    const struct step_row *row = &step_plan_rows(plan)[run->plan_row];
    struct batch *rows = &model->mtp_rows;
    const uint32_t *tokens = step_plan_tokens(plan) + row->token_index;
    uint32_t kept = fitting(model, row);
    if (kept) {
        begin_with_kept(model, rows, plan, run->plan_row, kept - 1);
        add_kept(rows, row->slot, kept - 1, tokens[0]);
    } else {
        begin_run(rows, plan, run->plan_row, row->first_position);
        if (row->first_position && !comes_again(model, row)) write_zeros(model, run);
    }
    for (uint32_t i = 0; !probed && i + 1 < row->token_count; i++)
        add_of_step(rows, run->first + i, tokens[i + 1]);
}

static void draft_keep(struct model *model, const struct step_plan *plan, const struct run *run) {
    const struct step_row *row = &step_plan_rows(plan)[run->plan_row];
    const struct model_draft *made = &model->drafts->made[run->plan_row];
    struct draft_kept *kept = &model->drafts->kept[row->slot];
    kept->row_position = row->first_position;
    kept->first_position = row->first_position + row->token_count - 1;
    kept->count = 1 + made->count;
    memcpy(kept->tokens, made->tokens, sizeof kept->tokens);
    model->compute->keep_slot(model, row->slot, run->first + row->token_count - 1, kept->count);
}

void draft_follow(struct model *model, const struct step_plan *plan, uint32_t probed_row) {
    const struct batch *batch = &model->batch;
    batch_clear(&model->mtp_rows);
    batch_clear(&model->mtp_batch);
    for (uint32_t i = 0; i < batch->run_count; i++)
        if (model->drafts->made[batch->runs[i].plan_row].count == 0)
            follow_row(model, plan, &batch->runs[i], batch->runs[i].plan_row == probed_row);
    if (model->mtp_rows.token_count) mtp_run(model, NULL);
    for (uint32_t i = 0; i < batch->run_count; i++)
        draft_keep(model, plan, &batch->runs[i]);
}

void draft_probe(struct model *model, const struct run *run, uint32_t next_token,
                 uint32_t *argmax_out) {
    struct batch *batch = &model->mtp_batch;
    batch_clear(&model->mtp_rows);
    batch_clear(batch);
    if (run) {
        uint32_t last = run->first + run->token_count - 1;
        batch_begin_run(batch, (struct run){.slot = run->slot,
                                            .first_position = run->first_position,
                                            .kv_shift = 1,
                                            .pages = run->pages});
        for (uint32_t token = run->first; token <= last; token++)
            add_of_step(batch, token,
                        token < last ? model->batch.token_ids[token + 1] : next_token);
        batch_end_prompts(batch);
    }
    mtp_run(model, argmax_out);
}
