/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/calibrate_shapes.h"

#include "base/check.h"
#include "contract/kv_block.h"

/* Copies the numbers of a list that are below `most`, and `most` itself. */
static uint32_t up_to(const uint32_t *list, uint32_t count, uint32_t most, uint32_t *out) {
    uint32_t taken = 0;
    for (uint32_t i = 0; i < count && list[i] < most; i++)
        out[taken++] = list[i];
    if (most > 0) out[taken++] = most;
    return taken;
}

struct shape_list {
    const struct calibrate_limits *limits;
    struct calibrate_shape *shapes;
    uint32_t count;
};

static void add(struct shape_list *list, struct calibrate_shape shape) {
    const struct calibrate_limits *limits = list->limits;
    uint64_t tokens = (uint64_t)shape.chunks * shape.chunk_tokens + shape.rows;
    shape.cached = shape.cached / KV_BLOCK_TOKENS * KV_BLOCK_TOKENS;
    bool fits = tokens <= limits->tokens_max && shape.rows + shape.chunks <= limits->rows_max &&
                shape.cached + shape.chunk_tokens <= limits->context_max &&
                shape.context <= limits->context_max;
    if (!fits) return;
    for (uint32_t busy = 0; busy < 1 + (limits->ranks > 1); busy++) {
        check(list->count < CALIBRATE_SHAPES_MAX);
        list->shapes[list->count] = shape;
        list->shapes[list->count++].one_busy = busy == 1;
    }
}

static void add_answers(struct shape_list *list) {
    static const uint32_t steps[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256};
    uint32_t rows[ARRAY_COUNT(steps) + 1], most = list->limits->context_max;
    uint32_t count = up_to(steps, ARRAY_COUNT(steps), list->limits->rows_max, rows);
    const uint32_t contexts[] = {KV_BLOCK_TOKENS, most / 2, most};
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = 0; j < ARRAY_COUNT(contexts); j++)
            add(list, (struct calibrate_shape){.rows = rows[i], .context = contexts[j]});
}

static void calibrate_shapes_add_prompts(struct shape_list *list) {
    static const uint32_t steps[] = {4, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192};
    uint32_t chunks[ARRAY_COUNT(steps) + 1], most = list->limits->context_max;
    uint32_t count = up_to(steps, ARRAY_COUNT(steps), list->limits->tokens_max, chunks);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t rest = chunks[i] < most ? most - chunks[i] : 0;
        const uint32_t behind[] = {0, rest / 2, rest};
        for (uint32_t j = 0; j < ARRAY_COUNT(behind); j++)
            add(list, (struct calibrate_shape){
                          .chunks = 1, .chunk_tokens = chunks[i], .cached = behind[j]});
    }
    for (uint32_t several = 2; several <= 8; several *= 2)
        for (uint32_t tokens = 16; tokens <= 128; tokens *= 2)
            add(list, (struct calibrate_shape){.chunks = several,
                                               .chunk_tokens = tokens,
                                               .cached = tokens == 32 ? most / 2 : 0});
}

static void calibrate_shapes_add_both(struct shape_list *list) {
    static const uint32_t tokens[] = {16, 64, 128, 256, 480}, rows[] = {1, 4, 16};
    uint32_t most = list->limits->context_max;
    for (uint32_t i = 0; i < ARRAY_COUNT(tokens); i++)
        for (uint32_t j = 0; j < ARRAY_COUNT(rows); j++)
            add(list, (struct calibrate_shape){.chunks = 1,
                                               .chunk_tokens = tokens[i],
                                               .cached = j == 1 ? most / 2 : 0,
                                               .rows = rows[j],
                                               .context = most / 2});
}

uint32_t calibrate_shapes_list(const struct calibrate_limits *limits,
                               struct calibrate_shape *shapes_out) {
    struct shape_list list = {.limits = limits, .shapes = shapes_out};
    add_answers(&list);
    calibrate_shapes_add_prompts(&list);
    calibrate_shapes_add_both(&list);
    return list.count;
}

struct calibrate_share calibrate_shapes_share(const struct calibrate_shape *shape) {
    uint64_t n = shape->chunk_tokens, p = shape->cached;
    return (struct calibrate_share){
        .prompt_tokens = shape->chunks * n,
        .attended = shape->chunks * (n * p + n * (n + 1) / 2),
        .cached = shape->chunks * p,
        .answer_rows = shape->rows,
        .answer_tokens = shape->rows,
        .context = (uint64_t)shape->rows * shape->context,
    };
}
