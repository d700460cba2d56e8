/* SPDX-License-Identifier: Apache-2.0 */
#include "host/solo.h"

#include "base/check.h"
#include "contract/kv_block.h"
#include "model/checkpoint.h"

#include <stdlib.h>
#include <string.h>

struct solo {
    struct model *model;
    uint32_t sequences, pages_each, step_tokens_max;
    uint32_t *lengths; /* [sequences] */
    struct step_plan *plan;
};

/* Pages must be counted before the model is opened, hence a first look at the shape. */
static enum status count_pages(const struct solo_options *options, uint32_t *pages_out,
                               uint64_t *bytes_out, struct error *error) {
    struct checkpoint *checkpoint;
    enum status status =
        checkpoint_open(options->model.directory, CHECKPOINT_SHAPE_ONLY, &checkpoint, error);
    if (status != STATUS_OK) return status;
    const struct shape *shape = checkpoint_shape(checkpoint);
    bool bf16 = options->model.activations == ACTIVATIONS_BF16 ||
                options->model.activations == ACTIVATIONS_FP8;
    uint32_t slices = shape->layers + (options->model.mtp && shape->mtp_layers);
    size_t page_bytes =
        kv_block_bytes(bf16 ? KV_ELEMENT_BF16 : KV_ELEMENT_F32, shape_kv_width(shape), slices);
    /* one token more: an MTP row stands one behind its position */
    *pages_out = (uint32_t)divide_up((size_t)options->context_max + 1, KV_BLOCK_TOKENS);
    *bytes_out = (uint64_t)page_bytes * *pages_out * options->sequences;
    checkpoint_close(checkpoint);
    return STATUS_OK;
}

enum status solo_open(const struct solo_options *options, struct solo **solo_out,
                      struct error *error) {
    struct solo *solo = calloc(1, sizeof *solo);
    struct model_options model_options = options->model;
    if (!solo) return error_set(error, STATUS_NO_MEMORY, "no memory");
    model_options.step_rows_max = options->sequences;
    enum status status = count_pages(options, &solo->pages_each, &model_options.kv_bytes, error);
    if (status == STATUS_OK) status = model_open(&model_options, &solo->model, error);
    if (status != STATUS_OK) {
        solo_close(solo);
        return status;
    }
    solo->sequences = options->sequences;
    solo->step_tokens_max = model_options.step_tokens_max;
    solo->lengths = calloc(solo->sequences, sizeof *solo->lengths);
    solo->plan = malloc(step_plan_bytes(solo->sequences, solo->step_tokens_max,
                                        solo->sequences * solo->pages_each));
    if (!solo->lengths || !solo->plan) {
        solo_close(solo);
        return error_set(error, STATUS_NO_MEMORY, "no memory for %u sequences", options->sequences);
    }
    *solo_out = solo;
    return STATUS_OK;
}

void solo_close(struct solo *solo) {
    if (!solo) return;
    model_close(solo->model);
    free(solo->lengths);
    free(solo->plan);
    free(solo);
}

struct model *solo_model(const struct solo *solo) {
    return solo->model;
}

void solo_reset(struct solo *solo, uint32_t sequence) {
    check(sequence < solo->sequences);
    solo->lengths[sequence] = 0;
}

void solo_truncate(struct solo *solo, uint32_t sequence, uint32_t length) {
    check(sequence < solo->sequences && length <= solo->lengths[sequence]);
    solo->lengths[sequence] = length;
}

/* Sequences' pages lie interleaved and from the end backwards. */
static struct page_id page_of(const struct solo *solo, uint32_t sequence, uint32_t index) {
    uint32_t all = solo->sequences * solo->pages_each;
    return (struct page_id){all - 1 - (index * solo->sequences + sequence)};
}

enum status solo_step(struct solo *solo, const struct solo_row *rows, uint32_t row_count,
                      float *logits, const struct model_probe *probe, struct error *error) {
    struct step_plan *plan = solo->plan;
    uint32_t tokens = 0;
    for (uint32_t i = 0; i < row_count; i++)
        tokens += rows[i].token_count;
    check(row_count <= solo->sequences && tokens <= solo->step_tokens_max);
    size_t bytes = step_plan_bytes(row_count, tokens, row_count * solo->pages_each);
    *plan = (struct step_plan){
        .record = {.version = RECORD_VERSION, .kind = RECORD_RUN_STEP, .bytes = (uint32_t)bytes},
        .row_count = row_count,
        .token_count = tokens,
        .page_count = row_count * solo->pages_each,
    };
    uint32_t token_index = 0;
    for (uint32_t i = 0; i < row_count; i++) {
        uint32_t sequence = rows[i].sequence;
        step_plan_rows(plan)[i] = (struct step_row){
            .slot = sequence,
            .form = rows[i].form,
            .first_position = solo->lengths[sequence],
            .token_count = rows[i].token_count,
            .token_index = token_index,
            .page_index = i * solo->pages_each,
            .page_count = solo->pages_each,
            .logits_count = rows[i].logits_count,
        };
        memcpy(step_plan_tokens(plan) + token_index, rows[i].tokens,
               rows[i].token_count * sizeof(uint32_t));
        for (uint32_t page = 0; page < solo->pages_each; page++)
            step_plan_pages(plan)[i * solo->pages_each + page] = page_of(solo, sequence, page);
        token_index += rows[i].token_count;
    }
    enum status status = model_step(solo->model, plan, logits, probe, error);
    if (status == STATUS_OK)
        for (uint32_t i = 0; i < row_count; i++)
            solo->lengths[rows[i].sequence] += rows[i].token_count;
    return status;
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
