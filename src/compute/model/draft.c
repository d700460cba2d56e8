/* SPDX-License-Identifier: Apache-2.0
 * Speculation inside a step. Before the main pass, the MTP layer guesses the token behind a row's
 * last known one; the main pass then computes both, and whoever samples sees whether the guess was
 * right. MTP position i takes h[i], the main model's output, and token i + 1: so the outputs of the
 * positions whose next token is not known yet are kept, per slot, until the next row brings it.
 * That row's first position tells how many guesses were right.
 *
 *   row [a, b)   MTP positions a-1 .. b-2 get their KV rows: before the main pass where a guess is
 *                wanted (the last of them then runs through the whole block), else behind it
 *   kept         h[b-1], and those of the drafts
 *
 * If what is kept does not fit the row (its tokens came from the prefix cache, or it was
 * interrupted), the KV row of position a-1 becomes zeros and there is no guess: the guesses after
 * it may be a little worse, answers cannot be.
 */
#include "compute/model/compute.h"

#include <stdlib.h>
#include <string.h>

struct draft_kept {
    uint32_t first_position;       /* of the first output kept */
    uint32_t count;                /* 0: none */
    uint32_t tokens[LIMIT_DRAFTS]; /* of positions first_position + 1 and on: drafts */
};

enum status draft_open(struct draft *draft, const struct model *model, uint32_t slots,
                       struct error *error) {
    size_t row = (size_t)(1 + LIMIT_DRAFTS) * model->shape->hidden;
    *draft = (struct draft){.slot_count = slots};
    draft->made = calloc(model->step_rows_max, sizeof *draft->made);
    draft->guesses = calloc(model->step_tokens_max, sizeof *draft->guesses);
    draft->kept = calloc(slots, sizeof *draft->kept);
    draft->hidden = calloc(slots, row * sizeof *draft->hidden);
    if (draft->made && draft->guesses && draft->kept && draft->hidden) return STATUS_OK;
    return error_set(error, STATUS_NO_MEMORY, "no memory for the drafts of %u requests", slots);
}

void draft_close(struct draft *draft) {
    free(draft->made);
    free(draft->guesses);
    free(draft->kept);
    free(draft->hidden);
    *draft = (struct draft){0};
}

/* How many of the outputs kept belong to the positions before the row; 0: they do not fit it. */
static uint32_t fitting(const struct model *model, const struct step_row *row) {
    const struct draft_kept *kept = &model->draft.kept[row->slot];
    if (row->fresh || row->first_position <= kept->first_position) return 0;
    uint32_t count = row->first_position - kept->first_position;
    return count <= kept->count ? count : 0;
}

static void begin_run(struct batch *batch, const struct step_plan *plan, uint32_t plan_row) {
    batch->runs[batch->run_count++] = (struct run){
        .plan_row = plan_row,
        .first = batch->token_count,
        .kv_shift = 1,
        .pages = step_plan_pages(plan) + step_plan_rows(plan)[plan_row].page_index,
    };
}

static void add_position(struct batch *batch, uint32_t position, uint32_t next_token,
                         const float *hidden) {
    struct run *run = &batch->runs[batch->run_count - 1];
    if (run->token_count++ == 0) run->first_position = position;
    batch->token_ids[batch->token_count] = next_token;
    batch->positions[batch->token_count] = position;
    batch->token_run[batch->token_count] = batch->run_count - 1;
    batch->hidden[batch->token_count++] = hidden;
}

/* The first `count` outputs kept, whose next tokens were drafts that turned out right. */
static void add_kept(const struct model *model, struct batch *batch, uint32_t slot,
                     uint32_t count) {
    const struct draft_kept *kept = &model->draft.kept[slot];
    for (uint32_t i = 0; i < count; i++)
        add_position(batch, kept->first_position + i, kept->tokens[i],
                     compute_kept(model, slot, i));
}

static void clear(struct batch *batch) {
    batch->token_count = batch->prompt_tokens = batch->run_count = batch->prompt_runs = 0;
}

void draft_make(struct model *model, const struct step_plan *plan) {
    struct draft *draft = &model->draft;
    struct batch *rows = &model->scratch.mtp_rows, *batch = &model->scratch.mtp_batch;
    memset(draft->made, 0, plan->row_count * sizeof *draft->made);
    clear(rows);
    clear(batch);
    for (uint32_t i = 0; i < plan->row_count; i++) {
        const struct step_row *row = &step_plan_rows(plan)[i];
        uint32_t count = row->draft_count ? fitting(model, row) : 0;
        if (count == 0) continue;
        begin_run(rows, plan, i);
        add_kept(model, rows, row->slot, count - 1);
        begin_run(batch, plan, i);
        add_position(batch, row->first_position - 1, step_plan_tokens(plan)[row->token_index],
                     compute_kept(model, row->slot, count - 1));
    }
    if (batch->token_count == 0 && !plan->others_draft) return;
    mtp_run(model, draft->guesses);
    for (uint32_t i = 0; i < batch->run_count; i++) {
        struct model_draft *made = &draft->made[batch->runs[i].plan_row];
        made->tokens[made->count++] = draft->guesses[i];
    }
}

static void write_zeros(const struct model *model, const struct run *run) {
    uint32_t index = run->first_position; /* of position first_position - 1 */
    compute_clear_row(model, run->pages[index / KV_BLOCK_TOKENS], model->shape->layers,
                      index % KV_BLOCK_TOKENS);
}

/* `run` is the row's in the main pass. */
static void follow_row(struct model *model, const struct step_plan *plan, const struct run *run) {
    const struct step_row *row = &step_plan_rows(plan)[run->plan_row];
    const struct scratch *s = &model->scratch;
    struct batch *rows = &model->scratch.mtp_rows;
    const uint32_t *tokens = step_plan_tokens(plan) + row->token_index;
    uint32_t kept = fitting(model, row), first = row->first_position;
    begin_run(rows, plan, run->plan_row);
    if (kept) {
        add_kept(model, rows, row->slot, kept - 1);
        add_position(rows, first - 1, tokens[0], compute_kept(model, row->slot, kept - 1));
    } else if (first) {
        write_zeros(model, run);
    }
    for (uint32_t i = 0; i + 1 < row->token_count; i++)
        add_position(rows, first + i, tokens[i + 1],
                     s->hidden + (size_t)(run->first + i) * model->shape->hidden);
}

static void keep(struct model *model, const struct step_plan *plan, const struct run *run) {
    const struct step_row *row = &step_plan_rows(plan)[run->plan_row];
    const struct model_draft *made = &model->draft.made[run->plan_row];
    struct draft_kept *kept = &model->draft.kept[row->slot];
    kept->first_position = row->first_position + row->token_count - 1;
    kept->count = 1 + made->count;
    memcpy(kept->tokens, made->tokens, sizeof kept->tokens);
    compute_keep_slot(model, row->slot, run->first + row->token_count - 1, kept->count);
}

void draft_follow(struct model *model, const struct step_plan *plan) {
    const struct batch *batch = &model->scratch.batch;
    struct batch *rows = &model->scratch.mtp_rows;
    clear(rows);
    clear(&model->scratch.mtp_batch);
    for (uint32_t i = 0; i < batch->run_count; i++)
        if (model->draft.made[batch->runs[i].plan_row].count == 0)
            follow_row(model, plan, &batch->runs[i]);
    if (rows->token_count) mtp_run(model, NULL);
    for (uint32_t i = 0; i < batch->run_count; i++)
        keep(model, plan, &batch->runs[i]);
}

void draft_probe(struct model *model, const struct run *run, uint32_t next_token,
                 uint32_t *argmax_out) {
    const struct scratch *s = &model->scratch;
    struct batch *batch = &model->scratch.mtp_batch;
    clear(&model->scratch.mtp_rows);
    clear(batch);
    if (!run) {
        mtp_run(model, argmax_out);
        return;
    }
    batch->runs[batch->run_count++] = (struct run){.kv_shift = 1, .pages = run->pages};
    for (uint32_t i = 0; i < run->token_count; i++) {
        uint32_t token = run->first + i;
        add_position(batch, run->first_position + i,
                     i + 1 < run->token_count ? s->batch.token_ids[token + 1] : next_token,
                     s->hidden + (size_t)token * model->shape->hidden);
    }
    batch->prompt_tokens = batch->token_count;
    batch->prompt_runs = 1;
    mtp_run(model, argmax_out);
}
