/* SPDX-License-Identifier: Apache-2.0 */
#include "host/engine/solo.h"

#include "base/check.h"
#include "base/clock.h"
#include "compute/exchange/job.h"
#include "compute/model/kv_pages.h"
#include "compute/weights/checkpoint.h"
#include "host/engine/micro_batches.h"

#include <stdlib.h>
#include <string.h>

/* A rank's part of a step. */
struct solo_part {
    struct step_plan *plan;
    float *logits; /* [rows with logits][vocab] if they must be sorted into the caller's order */
    size_t logits_bytes;
    uint32_t tokens, rows, logits_count;
};

struct solo {
    struct rank_group *group;
    struct rebalancer *rebalancer;
    uint32_t ranks;
    uint32_t sequences, pages_each, step_tokens_max;
    uint32_t sequences_each; /* per rank; the last ones may be unused */
    uint32_t *lengths;       /* [sequences] */
    struct solo_part *parts; /* [ranks] */
    struct rank_step *steps; /* [ranks] */
    struct micro_batches micro_batches;
    bool unmeasured;          /* step times are not measured */
    struct step_plan **plans; /* [ranks] plans of the parts */
    struct {
        bool set;
        enum overlap_kind overlap;
        struct step_cut cuts[OVERLAP_MICRO_BATCHES - 1];
    } next_cut;
};

/* The number of pages must be known before the model is opened, so the shape is read first. */
static enum status solo_count_pages(const struct solo_options *options, uint32_t *pages_out,
                                    uint64_t *bytes_out, struct error *error) {
    struct checkpoint *checkpoint;
    enum status status =
        checkpoint_open(options->model.directory, CHECKPOINT_CONFIG_ONLY, &checkpoint, error);
    if (status != STATUS_OK) return status;
    const struct shape *shape = checkpoint_shape(checkpoint);
    uint32_t mtp = options->model.mtp && shape->mtp_layers;
    struct kv_format format =
        kv_pages_format(shape, options->model.activations, shape->layers + mtp, mtp);
    size_t page_bytes = kv_format_block_bytes(&format);
    /* one token more, because an MTP row is one position behind */
    *pages_out = (uint32_t)divide_up((size_t)options->context_max + 1, KV_BLOCK_TOKENS);
    *bytes_out = (uint64_t)page_bytes * *pages_out;
    checkpoint_close(checkpoint);
    return STATUS_OK;
}

static enum status solo_open_parts(struct solo *solo, struct error *error) {
    struct step_plan largest = {.row_count = solo->sequences_each,
                                .token_count = solo->step_tokens_max,
                                .page_count = solo->sequences_each * solo->pages_each};
    size_t plan_bytes = record_bytes(RECORD_RUN_STEP, &largest);
    solo->lengths = calloc(solo->sequences, sizeof *solo->lengths);
    solo->parts = calloc(solo->ranks, sizeof *solo->parts);
    solo->steps = calloc(solo->ranks, sizeof *solo->steps);
    solo->plans = calloc(solo->ranks, sizeof *solo->plans);
    bool whole = solo->lengths && solo->parts && solo->steps && solo->plans;
    for (uint32_t rank = 0; whole && rank < solo->ranks; rank++)
        whole = (solo->parts[rank].plan = malloc(plan_bytes)) != NULL;
    if (whole) return STATUS_OK;
    return error_set(error, STATUS_NO_MEMORY, "no memory for %u sequences", solo->sequences);
}

enum status solo_open(const struct solo_options *options, struct solo **solo_out,
                      struct error *error) {
    struct solo *solo = calloc(1, sizeof *solo);
    struct model_options model_options = options->model;
    if (!solo) return error_set(error, STATUS_NO_MEMORY, "no memory");
    solo->ranks = job_count();
    solo_set_schedule(solo, options->schedule ? options->schedule : "sequential");
    if (model_options.echoes) solo->micro_batches.echoed_ranks = model_options.rank_count;
    solo->sequences = options->sequences;
    solo->sequences_each = (uint32_t)divide_up(options->sequences, solo->ranks);
    solo->step_tokens_max = model_options.step_tokens_max;
    model_options.step_rows_max = solo->sequences_each;
    enum status status =
        solo_count_pages(options, &solo->pages_each, &model_options.kv_bytes, error);
    model_options.kv_bytes *= solo->sequences_each;
    if (status == STATUS_OK) status = solo_open_parts(solo, error);
    if (status == STATUS_OK) status = rank_group_open(&model_options, &solo->group, error);
    if (status == STATUS_OK)
        status = rebalancer_open(solo->group, &options->rebalance, &solo->rebalancer, error);
    if (status != STATUS_OK) {
        solo_close(solo);
        return status;
    }
    *solo_out = solo;
    return STATUS_OK;
}

void solo_close(struct solo *solo) {
    if (!solo) return;
    rebalancer_close(solo->rebalancer);
    rank_group_close(solo->group);
    for (uint32_t rank = 0; solo->parts && rank < solo->ranks; rank++) {
        free(solo->parts[rank].plan);
        free(solo->parts[rank].logits);
    }
    free(solo->parts);
    free(solo->steps);
    free(solo->plans);
    free(solo->lengths);
    free(solo);
}

struct model *solo_model(const struct solo *solo) {
    return rank_group_model(solo->group);
}

struct rank_group *solo_group(const struct solo *solo) {
    return solo->group;
}

void solo_reset(struct solo *solo, uint32_t sequence) {
    check(sequence < solo->sequences);
    solo->lengths[sequence] = 0;
}

void solo_truncate(struct solo *solo, uint32_t sequence, uint32_t length) {
    check(sequence < solo->sequences && length <= solo->lengths[sequence]);
    solo->lengths[sequence] = length;
}

/* Pages of sequences are interleaved and in descending order. `sequence` is the index on its
 * rank. */
static struct page_id solo_page_of(const struct solo *solo, uint32_t sequence, uint32_t index) {
    uint32_t all = solo->sequences_each * solo->pages_each;
    return (struct page_id){all - 1 - (index * solo->sequences_each + sequence)};
}

static uint32_t solo_rank_of(const struct solo *solo, uint32_t sequence) {
    check(solo->ranks > 0);
    return sequence % solo->ranks;
}

static void begin_parts(struct solo *solo, const struct solo_row *rows, uint32_t row_count) {
    for (uint32_t rank = 0; rank < solo->ranks; rank++) {
        struct solo_part *part = &solo->parts[rank];
        part->rows = part->tokens = part->logits_count = 0;
        for (uint32_t i = 0; i < row_count; i++) {
            if (solo_rank_of(solo, rows[i].sequence) != rank) continue;
            part->rows++;
            part->tokens += rows[i].token_count;
            part->logits_count += rows[i].logits_count;
        }
        check(part->rows <= solo->sequences_each && part->tokens <= solo->step_tokens_max);
        *part->plan = (struct step_plan){.row_count = part->rows,
                                         .token_count = part->tokens,
                                         .page_count = part->rows * solo->pages_each};
        record_set_head(part->plan, RECORD_RUN_STEP);
        part->rows = part->tokens = 0; /* counted again as rows are added */
    }
}

static void solo_add_row(struct solo *solo, const struct solo_row *row) {
    struct solo_part *part = &solo->parts[solo_rank_of(solo, row->sequence)];
    uint32_t index = part->rows++, sequence = row->sequence / solo->ranks;
    step_plan_rows(part->plan)[index] = (struct step_row){
        .slot = sequence,
        .form = row->form,
        .first_position = solo->lengths[row->sequence],
        .token_count = row->token_count,
        .token_index = part->tokens,
        .page_index = index * solo->pages_each,
        .page_count = solo->pages_each,
        .logits_count = row->logits_count,
    };
    memcpy(step_plan_tokens(part->plan) + part->tokens, row->tokens,
           row->token_count * sizeof(uint32_t));
    for (uint32_t page = 0; page < solo->pages_each; page++)
        step_plan_pages(part->plan)[index * solo->pages_each + page] =
            solo_page_of(solo, sequence, page);
    part->tokens += row->token_count;
}

void solo_set_schedule(struct solo *solo, const char *schedule) {
    bool known = micro_batches_named(schedule, &solo->micro_batches);
    check(known);
}

void solo_forget_measured(struct solo *solo) {
    solo->micro_batches.choose = (struct choose_overlap){0};
}

void solo_set_measured(struct solo *solo, bool measured) {
    solo->unmeasured = !measured;
}

struct choose_overlap_choice solo_schedule(const struct solo *solo) {
    return (struct choose_overlap_choice){solo->micro_batches.kind, solo->micro_batches.reason};
}

void solo_cut_next(struct solo *solo, enum overlap_kind overlap,
                   const struct step_cut cuts[OVERLAP_MICRO_BATCHES - 1]) {
    solo->next_cut.set = true;
    solo->next_cut.overlap = overlap;
    memcpy(solo->next_cut.cuts, cuts, sizeof solo->next_cut.cuts);
}

static void cut_parts(struct solo *solo) {
    for (uint32_t rank = 0; rank < solo->ranks; rank++)
        solo->plans[rank] = solo->parts[rank].plan;
    micro_batches_begin(&solo->micro_batches, solo->plans, solo->ranks,
                        model_shape(solo_model(solo)));
    for (uint32_t rank = 0; solo->next_cut.set && rank < solo->ranks; rank++) {
        solo->plans[rank]->overlap = solo->next_cut.overlap;
        memcpy(solo->plans[rank]->cuts, solo->next_cut.cuts, sizeof solo->next_cut.cuts);
    }
    solo->next_cut.set = false;
}

/* Receives the logits of several ranks here and sorts them into the caller's order. */
static enum status solo_take_room(const struct solo *solo, struct solo_part *part,
                                  struct error *error) {
    size_t bytes =
        (size_t)part->logits_count * model_shape(solo_model(solo))->vocab * sizeof(float);
    if (bytes <= part->logits_bytes) return STATUS_OK;
    free(part->logits);
    part->logits = malloc(bytes);
    part->logits_bytes = part->logits ? bytes : 0;
    return part->logits ? STATUS_OK
                        : error_set(error, STATUS_NO_MEMORY, "no memory for %u rows of logits",
                                    part->logits_count);
}

static void sort_logits(struct solo *solo, const struct solo_row *rows, uint32_t row_count,
                        float *logits) {
    size_t vocab = model_shape(solo_model(solo))->vocab;
    for (uint32_t rank = 0; rank < solo->ranks; rank++)
        solo->parts[rank].logits_count = 0;
    for (uint32_t i = 0; i < row_count; i++) {
        struct solo_part *part = &solo->parts[solo_rank_of(solo, rows[i].sequence)];
        if (!rows[i].logits_count) continue;
        memcpy(logits, part->logits + part->logits_count * vocab,
               rows[i].logits_count * vocab * sizeof *logits);
        part->logits_count += rows[i].logits_count;
        logits += rows[i].logits_count * vocab;
    }
}

enum status solo_step(struct solo *solo, const struct solo_row *rows, uint32_t row_count,
                      float *logits, const struct model_probe *probe, struct error *error) {
    struct model_probe moved;
    enum status status = STATUS_OK;
    const uint32_t ranks = solo->ranks;
    begin_parts(solo, rows, row_count);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        struct solo_part *part = &solo->parts[rank];
        if (ranks > 1) status = solo_take_room(solo, part, error);
        if (status != STATUS_OK) return status;
        solo->steps[rank] =
            (struct rank_step){.plan = part->plan, .logits = ranks > 1 ? part->logits : logits};
    }
    for (uint32_t i = 0; i < row_count; i++) {
        uint32_t rank = solo_rank_of(solo, rows[i].sequence);
        if (probe && probe->row == i) {
            moved = *probe;
            moved.row = solo->parts[rank].rows;
            solo->steps[rank].probe = &moved;
        }
        solo_add_row(solo, &rows[i]);
    }
    cut_parts(solo);
    int64_t began_ns = clock_now_ns();
    status = rank_group_step(solo->group, solo->steps, error);
    if (status != STATUS_OK) return status;
    if (!solo->unmeasured) micro_batches_end(&solo->micro_batches, clock_now_ns() - began_ns);
    if (ranks > 1) sort_logits(solo, rows, row_count, logits);
    for (uint32_t i = 0; i < row_count; i++)
        solo->lengths[rows[i].sequence] += rows[i].token_count;
    rebalancer_turn(solo->rebalancer);
    return STATUS_OK;
}

uint32_t solo_chunk(const struct solo *solo, uint32_t token_count, uint32_t done, uint32_t chunk) {
    if (chunk == 0 || chunk > solo->step_tokens_max) chunk = solo->step_tokens_max;
    chunk = chunk / KV_BLOCK_TOKENS * KV_BLOCK_TOKENS;
    if (chunk == 0) chunk = KV_BLOCK_TOKENS;
    uint32_t left = token_count - done;
    return left < chunk ? left : chunk;
}

enum status solo_prefill(struct solo *solo, uint32_t sequence, const uint32_t *tokens,
                         uint32_t token_count, uint32_t chunk, float *logits, struct error *error) {
    for (uint32_t done = 0; done < token_count;) {
        uint32_t count = solo_chunk(solo, token_count, done, chunk);
        struct solo_row row = {.sequence = sequence,
                               .form = TOKEN_PROMPT,
                               .tokens = tokens + done,
                               .token_count = count,
                               .logits_count = done + count == token_count};
        enum status status = solo_step(solo, &row, 1, logits, NULL, error);
        if (status != STATUS_OK) return status;
        done += count;
    }
    return STATUS_OK;
}
