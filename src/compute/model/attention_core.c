/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/model/attention_core.h"

#include <math.h>
#include <string.h>

#include "base/number.h"

void *attention_core_row(const struct pass *pass, const struct run *run, uint32_t index,
                         uint32_t group) {
    return kv_pages_row(&pass->model->kv, run->pages[index / KV_BLOCK_TOKENS].index, pass->layer,
                        group, index % KV_BLOCK_TOKENS);
}

void *attention_core_own_row(const struct pass *pass, uint32_t token, uint32_t group) {
    const struct run *run = &pass->batch->runs[pass->batch->token_run[token]];
    return attention_core_row(pass, run, pass->batch->positions[token] + run->kv_shift, group);
}

struct kv_span attention_core_span(const struct pass *pass, const struct run *run, uint32_t block,
                                   uint32_t end) {
    uint32_t start = block * KV_BLOCK_TOKENS;
    uint32_t first = run->kv_shift > start ? run->kv_shift - start : 0;
    uint32_t last = end - start < KV_BLOCK_TOKENS ? end - start : KV_BLOCK_TOKENS;
    return (struct kv_span){
        .slice = kv_pages_slice(&pass->model->kv, run->pages[block].index, pass->layer),
        .start = start + first,
        .first = first,
        .count = last > first ? last - first : 0,
    };
}

static const void *rows_of(const struct model *model, const struct kv_span *span) {
    return (const char *)span->slice + span->first * model->kv.row_bytes;
}

uint32_t attention_core_blocks(const struct model *model) {
    return model->bf16_attention ? model->kernels->core_blocks : 1;
}

/* The KV index of a token of the run. */
static uint32_t attention_core_index_of(const struct run *run, uint32_t token) {
    return run->first_position + (token - run->first) + run->kv_shift;
}

struct core_walk attention_core_begin(const struct pass *pass, const struct run *run,
                                      uint32_t first, uint32_t last) {
    return (struct core_walk){.pass = pass,
                              .run = run,
                              .first = first,
                              .last = last,
                              .end = attention_core_index_of(run, last),
                              .next_token = last};
}

static void take_chunk(const struct core_walk *walk, struct core_chunk *chunk) {
    const struct pass *pass = walk->pass;
    const struct run *run = walk->run;
    const struct model *model = pass->model;
    uint32_t block = walk->block, end = walk->end;
    const uint32_t most = attention_core_blocks(model);
    const uint32_t blocks = (uint32_t)divide_up(end, KV_BLOCK_TOKENS);
    uint32_t last = block / most * most + most;
    if (last > blocks) last = blocks;
    chunk->count = chunk->rows = 0;
    for (bool more = true; more && block < last; block++) {
        struct kv_span *span = &chunk->spans[chunk->count];
        *span = attention_core_span(pass, run, block, end);
        chunk->pieces[chunk->count++] = rows_of(model, span);
        chunk->rows += span->count;
        more = !span->first;
    }
    chunk->floats = model->kv.element == KV_ELEMENT_F32 ? rows_of(model, &chunk->spans[0]) : NULL;
    uint32_t ahead = blocks - block < most ? blocks - block : most;
    if (!model->bf16_attention) ahead = 0; /* rows are read as floats, page by page */
    chunk->ahead_rows = ahead * KV_BLOCK_TOKENS;
    for (uint32_t i = 0; ahead && i < most; i++)
        chunk->ahead[i] = kv_pages_slice(
            &model->kv, run->pages[block + (i < ahead ? i : ahead - 1)].index, pass->layer);
}

bool attention_core_next_chunk(struct core_walk *walk) {
    struct core_chunk *chunk = &walk->chunk;
    chunk->is_first = !chunk->rows;
    do {
        if (walk->block * KV_BLOCK_TOKENS >= walk->end) return false;
        take_chunk(walk, chunk);
        walk->block += chunk->count;
    } while (!chunk->rows);
    return true;
}

bool attention_core_next(struct core_walk *walk) {
    const struct core_chunk *chunk = &walk->chunk;
    for (;;) {
        while (walk->next_token < walk->last) {
            walk->token = walk->next_token++;
            uint32_t index = attention_core_index_of(walk->run, walk->token);
            if (index < chunk->spans[0].start) continue;
            walk->seen = min_u32(index - chunk->spans[0].start + 1, chunk->rows);
            return true;
        }
        if (!attention_core_next_chunk(walk)) return false;
        walk->next_token = walk->first;
    }
}

void attention_core_gather(const struct pass *pass, const struct run *run, const uint32_t *chosen,
                           uint32_t count, struct core_chunk *chunk_out, uint16_t *values,
                           float *rows) {
    const struct model *model = pass->model;
    const size_t width = model->kv.width;
    *chunk_out =
        (struct core_chunk){.count = (uint32_t)divide_up(count, KV_BLOCK_TOKENS), .rows = count};
    for (uint32_t i = 0; i < count; i++) {
        const void *row = attention_core_row(pass, run, chosen[i], KV_GROUP_MLA);
        if (model->bf16_attention)
            memcpy(values + i * width, row, width * sizeof *values);
        else
            kv_pages_read(&model->kv, model->kernels, KV_GROUP_MLA, row, rows + i * width);
    }
    if (!model->bf16_attention) chunk_out->floats = rows;
    for (uint32_t i = 0; i < chunk_out->count; i++)
        chunk_out->pieces[i] = values + i * KV_BLOCK_TOKENS * width;
}

void attention_core_load(const struct model *model, const struct kv_span *span, float *rows) {
    const void *from = rows_of(model, span);
    if (model->kv.element == KV_ELEMENT_F32)
        memcpy(rows, from, span->count * model->kv.row_bytes);
    else
        model->kernels->float_from_bf16(rows, from, span->count * model->kv.width);
}

void attention_core_softmax(const struct kernels *kernels, float *scores, uint32_t count,
                            float scale, float *max, float *sum, float *factor_out) {
    float block_max = kernels->maximum(scores, count);
    float new_max = block_max > *max ? block_max : *max;
    float factor = *max == -INFINITY ? 0 : kernels_exp((*max - new_max) * scale);
    *sum = *sum * factor + kernels->exp_sum(scores, scores, scale, new_max * scale, count);
    *max = new_max;
    *factor_out = factor;
}
