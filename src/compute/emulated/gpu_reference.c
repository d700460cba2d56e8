/* SPDX-License-Identifier: Apache-2.0
 * Reference bodies of the device's kernels, for the emulated device alone: plain loops over its
 * memory with the arithmetic of the CPU's set and its order, so that a step on it gives the CPU's
 * bits, and what differs is the engine's fault. They stand in for kernels; none will ever run on a
 * GPU.
 */
#include "compute/emulated/gpu_reference.h"

#include "base/check.h"
#include "base/number.h"
#include "compute/model/attention_core.h"
#include "compute/model/rope.h"
#include "compute/model/router.h"
#include "compute/model/sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The fastest of those that share the plain C arithmetic. */
static const struct kernels *arithmetic(void) {
    static const struct kernels *kernels;
    if (kernels) return kernels;
    const struct kernels *found;
    enum status status = kernels_select(kernels_detect_fma1(), &found, NULL);
    check(status == STATUS_OK);
    return kernels = found;
}

static void *gpu_reference_take_room(size_t bytes) {
    void *room = aligned_alloc(64, round_up(bytes + 1, 64));
    check(room);
    return room;
}

/* How many of `rows` rows are there, if there are `each` for each live one, and `before` before
 * them. */
static uint32_t rows_there(const uint32_t *live, uint32_t each, uint32_t before, uint32_t rows) {
    uint32_t all = live ? *live * each : before + rows;
    uint32_t there = all > before ? all - before : 0;
    return there < rows ? there : rows;
}

static void store(const struct gpu_form *form, void *rows, float *scales, uint32_t row,
                  const float *x, uint32_t n) {
    const struct kernels *kernels = arithmetic();
    char *to = (char *)rows + (size_t)row * form->pitch;
    float values[QUANT_GROUP];
    switch (form->kind) {
    case INPUT_F32:
        memcpy(to, x, n * sizeof *x);
        break;
    case INPUT_BF16:
        kernels->bf16_from_float((uint16_t *)(void *)to, x, n);
        break;
    case INPUT_FP8:
    case INPUT_FP8_UE8M0:
        for (uint32_t first = 0; first < n; first += QUANT_GROUP) {
            uint32_t count = n - first < QUANT_GROUP ? n - first : QUANT_GROUP;
            kernels->quantize_e4m3(
                values, scales + (size_t)(first / QUANT_GROUP) * form->scale_stride + row,
                x + first, count, form->kind == INPUT_FP8_UE8M0);
            for (uint32_t i = 0; i < count; i++)
                to[first + i] = (char)e4m3_from_float(values[i]);
        }
        break;
    }
}

/* A prepared row as floats, and its scales, if it has any. */
static void gpu_reference_load(const struct gpu_form *form, const void *rows, const float *scales,
                               uint32_t row, float *x, float *x_scales, uint32_t n) {
    const char *from = (const char *)rows + (size_t)row * form->pitch;
    if (form->kind == INPUT_F32) {
        memcpy(x, from, n * sizeof *x);
    } else if (form->kind == INPUT_BF16) {
        arithmetic()->float_from_bf16(x, (const uint16_t *)(const void *)from, n);
    } else {
        for (uint32_t i = 0; i < n; i++)
            x[i] = float_from_e4m3((uint8_t)from[i]);
        for (uint32_t block = 0; block < divide_up(n, QUANT_GROUP); block++)
            x_scales[block] = scales[(size_t)block * form->scale_stride + row];
    }
}

/* Rows [first, first + count) of W, without gaps. */
static void gpu_reference_take_rows(const struct packed_matrix *matrix, const void *data,
                                    uint32_t first, uint32_t count, void *to) {
    size_t bytes = weight_type_bytes(matrix->type, matrix->cols);
    for (uint32_t row = 0; row < count; row++)
        memcpy((char *)to + row * bytes, (const char *)data + (first + row) * matrix->pitch, bytes);
}

/* Packs a panel of W at a time, and multiplies by it as the CPU does. */
static void gpu_reference_multiply(const struct packed_matrix *matrix, const void *data,
                                   const float *scales, const struct linear_input *x, float *y,
                                   size_t y_stride, uint32_t rows) {
    size_t bytes = packed_data_bytes(matrix->type, MATMUL_PANEL, matrix->cols);
    char *room = gpu_reference_take_room(2 * bytes), *packed = room + bytes;
    float *out = gpu_reference_take_room(rows * MATMUL_PANEL * sizeof *out);
    for (uint32_t first = 0; first < matrix->rows && rows; first += MATMUL_PANEL) {
        uint32_t left = matrix->rows - first;
        struct packed_matrix panel = *matrix;
        panel.rows = left < MATMUL_PANEL ? left : MATMUL_PANEL;
        panel.data = packed;
        panel.scales =
            scales ? scales + first / QUANT_GROUP * divide_up(matrix->cols, QUANT_GROUP) : NULL;
        gpu_reference_take_rows(matrix, data, first, panel.rows, room);
        matmul_pack(matrix->type, room, panel.rows, matrix->cols, 0, panel.rows, packed);
        struct matmul job = linear_job(&panel, x, out, MATMUL_PANEL, rows);
        arithmetic()->matmul(&job, 0, 1);
        for (uint32_t row = 0; row < rows; row++)
            memcpy(y + row * y_stride + first, out + (size_t)row * MATMUL_PANEL,
                   panel.rows * sizeof *y);
    }
    free(room);
    free(out);
}

static void embed_row(const struct packed_matrix *form, const void *embedding, uint32_t id,
                      float *x) {
    const char *from = (const char *)embedding + id * form->pitch;
    if (form->type == WEIGHT_BF16)
        arithmetic()->float_from_bf16(x, (const uint16_t *)(const void *)from, form->cols);
    else if (form->type == WEIGHT_F32)
        memcpy(x, from, form->cols * sizeof *x);
    else
        for (uint32_t i = 0; i < form->cols; i++)
            x[i] = float_from_e4m3((uint8_t)from[i]);
}

static void gpu_reference_embed(const void *arguments, void *native) {
    const struct gpu_embed *of = arguments;
    uint32_t rows = rows_there(of->live, 1, 0, of->rows);
    for (uint32_t row = 0; row < rows; row++)
        embed_row(&of->form, of->embedding, of->ids[row], of->x + (size_t)row * of->x_stride);
}

static void gpu_reference_prepare(const void *arguments, void *native) {
    const struct gpu_prepare *of = arguments;
    float *normed = gpu_reference_take_room(of->n * sizeof *normed);
    uint32_t rows = rows_there(of->live, 1, 0, of->rows);
    for (uint32_t row = 0; row < rows; row++) {
        const float *x = of->x + (size_t)row * of->x_stride;
        if (of->weight) {
            arithmetic()->rmsnorm(normed, x, of->weight, of->n, of->epsilon);
            x = normed;
        }
        if (of->first) store(&of->first_form, of->first, of->first_scales, row, x, of->n);
        if (of->second) store(&of->second_form, of->second, of->second_scales, row, x, of->n);
        if (of->plain) memmove(of->plain + (size_t)row * of->plain_stride, x, of->n * sizeof *x);
    }
    free(normed);
}

/* Rows [first, first + count) of x times a matrix. */
static void multiply_rows(const struct gpu_product *of, uint32_t first, uint32_t count,
                          uint32_t slot) {
    uint32_t n = of->matrix.cols;
    bool quantized = of->form.kind == INPUT_FP8 || of->form.kind == INPUT_FP8_UE8M0;
    size_t blocks = divide_up(n, QUANT_GROUP);
    float *x = gpu_reference_take_room((size_t)count * (n + blocks) * sizeof *x);
    float *scales = x + (size_t)count * n;
    for (uint32_t row = 0; row < count; row++)
        gpu_reference_load(&of->form, of->x, of->x_scales, first + row, x + (size_t)row * n,
                           scales + row * blocks, n);
    struct linear_input input = {.x = x,
                                 .x_stride = n,
                                 .scales = quantized ? scales : NULL,
                                 .scale_stride = blocks,
                                 .is_bf16 = of->form.kind != INPUT_F32};
    const char *data = (const char *)of->weights + slot * of->slot_bytes;
    const float *weight_scales = of->weight_scales;
    if (weight_scales) weight_scales += slot * of->slot_bytes / sizeof *weight_scales;
    gpu_reference_multiply(&of->matrix, data, weight_scales, &input,
                           of->y + (size_t)first * of->y_stride, of->y_stride, count);
    free(x);
}

static void gpu_reference_product(const void *arguments, void *native) {
    const struct gpu_product *of = arguments;
    if (!of->groups) multiply_rows(of, 0, rows_there(of->live, 1, 0, of->rows), 0);
    for (uint32_t i = 0; of->groups && i < of->group_count; i++)
        if (of->groups[i].row_count)
            multiply_rows(of, of->groups[i].first_row, of->groups[i].row_count, of->groups[i].slot);
}

static void gpu_reference_activate(const void *arguments, void *native) {
    const struct gpu_activate *of = arguments;
    float *values = gpu_reference_take_room(of->n * sizeof *values);
    uint32_t rows = rows_there(of->live, of->live_each, 0, of->rows);
    for (uint32_t row = 0; row < rows; row++) {
        arithmetic()->silu_multiply(values, of->gate + (size_t)row * of->stride,
                                    of->up + (size_t)row * of->stride, of->n);
        store(&of->form, of->to, of->to_scales, row, values, of->n);
    }
    free(values);
}

static void gpu_reference_add(const void *arguments, void *native) {
    const struct gpu_add *of = arguments;
    uint32_t rows = rows_there(of->live, 1, 0, of->rows);
    for (uint32_t row = 0; row < rows; row++)
        arithmetic()->add_scaled(of->y + (size_t)row * of->y_stride,
                                 of->x + (size_t)row * of->x_stride, 1, of->n);
}

static void gpu_reference_route(const void *arguments, void *native) {
    const struct gpu_route *of = arguments;
    struct shape shape = {.experts = of->experts_all,
                          .experts_per_token = of->per_token,
                          .groups = of->groups,
                          .groups_kept = of->groups_kept,
                          .scoring = (enum router_scoring)of->scoring,
                          .method = (enum router_method)of->method,
                          .normalize_weights = of->normalizes,
                          .routed_scaling = of->scaling};
    uint32_t rows = rows_there(of->live, 1, 0, of->rows);
    for (uint32_t row = 0; row < rows; row++)
        router_choose(&shape, of->logits + (size_t)row * of->stride, of->bias,
                      of->experts + (size_t)row * of->per_token,
                      of->weights + (size_t)row * of->per_token);
}

static void gpu_reference_sort(const void *arguments, void *native) {
    const struct gpu_sort *of = arguments;
    uint32_t row = 0, pairs = rows_there(of->live, 1, 0, of->tokens) * of->per_token;
    for (uint32_t slot = 0; slot < of->slots; slot++) {
        struct gpu_group *group = &of->groups[slot];
        *group = (struct gpu_group){.first_row = row, .slot = slot};
        for (uint32_t pair = 0; pair < pairs; pair++) {
            if (of->experts[pair] != slot) continue;
            of->row_token[row] = pair / of->per_token;
            of->pair_row[pair] = row++;
        }
        group->row_count = row - group->first_row;
        of->slot_tokens[slot] += group->row_count;
    }
}

static void gpu_reference_gather(const void *arguments, void *native) {
    const struct gpu_gather *of = arguments;
    size_t element = of->from_form.kind == INPUT_F32    ? sizeof(float)
                     : of->from_form.kind == INPUT_BF16 ? sizeof(uint16_t)
                                                        : 1;
    bool quantized = element == 1;
    uint32_t rows = rows_there(of->live, of->live_each, 0, of->rows);
    for (uint32_t row = 0; row < rows; row++) {
        uint32_t token = of->row_token ? of->row_token[row] : row;
        const char *from = of->from_rows
                               ? of->from_rows[row]
                               : (const char *)of->from + (size_t)token * of->from_form.pitch;
        char *to =
            of->to_rows ? of->to_rows[row] : (char *)of->to + (size_t)row * of->to_form.pitch;
        memcpy(to, from, of->n * element);
        float *to_scales = of->to_scales + (size_t)row * of->to_scale_step;
        const float *from_scales = of->from_rows
                                       ? (const float *)(const void *)(from + of->scales_at)
                                       : of->from_scales + (size_t)token * of->from_scale_step;
        for (uint32_t block = 0; quantized && block < divide_up(of->n, QUANT_GROUP); block++)
            to_scales[(size_t)block * of->to_form.scale_stride] =
                from_scales[(size_t)block * of->from_form.scale_stride];
    }
}

static void load_plain(bool is_bf16, const void *from, float *x, uint32_t n);

/* The pairs of a token in the group of its k'th one: that pair and the `count` - 1 after it. */
static uint32_t group_of(const struct gpu_combine *of, size_t pair, uint32_t k) {
    uint32_t count = 1, left = of->per_token - k;
    if (!of->experts) return left;
    while (count < left &&
           of->experts[pair + count] / of->group_experts == of->experts[pair] / of->group_experts)
        count++;
    return count;
}

/* to += the pairs' results times their weights; of a sum, its one row. */
static void gpu_reference_add_pairs(const struct gpu_combine *of, size_t pair, uint32_t count,
                                    float *to, float *result) {
    bool summed = count > 1 && of->pair_row[pair + 1] == GPU_SUMMED;
    for (uint32_t i = 0; i < (summed ? 1 : count); i++) {
        uint32_t row = of->pair_row[pair + i];
        if (row == GPU_NO_PAIR) continue;
        load_plain(of->is_bf16, (const char *)of->results + (size_t)row * of->pitch, result, of->n);
        if (of->rounds_bf16) arithmetic()->round_bf16(result, result, of->n);
        arithmetic()->add_scaled(to, result, summed ? 1 : of->weights[pair + i], of->n);
    }
}

static void gpu_reference_combine(const void *arguments, void *native) {
    const struct gpu_combine *of = arguments;
    float *result = gpu_reference_take_room(2 * of->n * sizeof *result), *group = result + of->n;
    uint32_t tokens = rows_there(of->live, 1, 0, of->tokens);
    for (uint32_t token = 0; token < tokens; token++) {
        float *y = of->y + (size_t)token * of->y_stride;
        size_t first = (size_t)token * of->per_token;
        memset(y, 0, of->n * sizeof *y);
        if (!of->group_experts) gpu_reference_add_pairs(of, first, of->per_token, y, result);
        for (uint32_t k = 0, count; of->group_experts && k < of->per_token; k += count) {
            count = group_of(of, first + k, k);
            memset(group, 0, of->n * sizeof *group);
            gpu_reference_add_pairs(of, first + k, count, group, result);
            if (of->rounds_bf16) arithmetic()->round_bf16(group, group, of->n);
            arithmetic()->add_scaled(y, group, 1, of->n);
        }
    }
    free(result);
}

static void gpu_reference_draw(const void *arguments, void *native) {
    const struct gpu_draw *of = arguments;
    const struct draw_rule likeliest = {.temperature = 0};
    float *scratch = gpu_reference_take_room(2 * (size_t)of->n * sizeof *scratch);
    for (uint32_t row = 0; row < of->rows; row++)
        of->to[row] = sample_draw(of->logits + (size_t)row * of->stride, of->n,
                                  of->rules ? &of->rules[row] : &likeliest, NULL, scratch);
    free(scratch);
}

static void gpu_reference_pair(const void *arguments, void *native) {
    const struct gpu_mtp_pair *of = arguments;
    const struct kernels *kernels = arithmetic();
    for (uint32_t row = 0; row < of->rows; row++) {
        uint32_t source = of->source[row];
        const float *h = source & GPU_KEPT ? of->kept + (size_t)(source & ~GPU_KEPT) * of->n
                                           : of->hidden + (size_t)source * of->n;
        float *to = of->pair + (size_t)row * 2 * of->n;
        embed_row(&of->form, of->embedding, of->ids[row], to);
        kernels->rmsnorm(to, to, of->embedding_norm, of->n, of->epsilon);
        kernels->rmsnorm(to + of->n, h, of->hidden_norm, of->n, of->epsilon);
    }
}

/* ---- attention ---- */

static void load_plain(bool is_bf16, const void *from, float *x, uint32_t n) {
    if (is_bf16)
        arithmetic()->float_from_bf16(x, from, n);
    else
        memcpy(x, from, n * sizeof *x);
}

static void store_plain(bool is_bf16, void *to, const float *x, uint32_t n) {
    if (is_bf16)
        arithmetic()->bf16_from_float(to, x, n);
    else
        memcpy(to, x, n * sizeof *x);
}

static char *kv_row(const struct gpu_kv_form *kv, const char *memory, const uint32_t *pages,
                    uint32_t index) {
    return (char *)(uintptr_t)memory + pages[index / KV_BLOCK_TOKENS] * kv->page_bytes +
           kv->slice_at + index % KV_BLOCK_TOKENS * kv->row_bytes;
}

static void gpu_reference_latent(const void *arguments, void *native) {
    const struct gpu_latent *of = arguments;
    struct shape shape = {.rope_dim = of->rope_dim, .rope_interleaved = of->interleaved};
    float *kv = gpu_reference_take_room(of->kv.width * sizeof *kv);
    uint32_t rows = rows_there(of->live, 1, 0, of->rows);
    for (uint32_t row = 0; row < rows; row++) {
        memcpy(kv, of->kv_a + (size_t)row * of->stride, of->kv.width * sizeof *kv);
        arithmetic()->rmsnorm(kv, kv, of->weight, of->kv_rank, of->epsilon);
        rope_rotate(&shape, of->angles + (size_t)of->positions[row] * of->rope_dim,
                    kv + of->kv_rank);
        store_plain(of->kv.is_bf16,
                    kv_row(&of->kv, of->memory, of->pages + of->first_page[row], of->kv_index[row]),
                    kv, of->kv.width);
    }
    free(kv);
}

static void gpu_reference_queries(const void *arguments, void *native) {
    const struct gpu_queries *of = arguments;
    struct shape shape = {.rope_dim = of->rope_dim, .rope_interleaved = of->interleaved};
    uint32_t dim = of->nope_dim + of->rope_dim;
    float *q = gpu_reference_take_room(of->heads * dim * sizeof *q);
    uint32_t rows = rows_there(of->live, 1, 0, of->rows);
    for (uint32_t row = 0; row < rows; row++) {
        memcpy(q, of->q + (size_t)row * of->stride, of->heads * dim * sizeof *q);
        for (uint32_t head = 0; head < of->heads; head++)
            rope_rotate(&shape, of->angles + (size_t)of->positions[row] * of->rope_dim,
                        q + head * dim + of->nope_dim);
        store_plain(of->is_bf16, (char *)of->to + (size_t)row * of->to_pitch, q, of->heads * dim);
    }
    free(q);
}

/* ---- halves of kv_b ---- */

struct half {              /* of a head */
    uint32_t first, count; /* rows of kv_b */
    bool transposed;
};

static void turn(size_t element, const char *from, char *to, uint32_t rows, uint32_t cols) {
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t c = 0; c < cols; c++)
            memcpy(to + ((size_t)c * rows + r) * element, from + ((size_t)r * cols + c) * element,
                   element);
}

static void dequantize(const struct packed_matrix *kv_b, const char *data, const float *scales,
                       const struct half *half, float *to) {
    size_t blocks = divide_up(kv_b->cols, QUANT_GROUP);
    for (uint32_t r = 0; r < half->count; r++)
        for (uint32_t c = 0; c < kv_b->cols; c++)
            to[(size_t)r * kv_b->cols + c] =
                float_from_e4m3((uint8_t)data[(half->first + r) * kv_b->pitch + c]) *
                scales[(half->first + r) / QUANT_GROUP * blocks + c / QUANT_GROUP];
}

/* y = half x: FP8 stays where its rows share a scale block, or start on one, as on the CPU. */
static void multiply_half(const struct packed_matrix *kv_b, const char *data, const float *scales,
                          const struct half *half, const struct linear_input *x, float *y,
                          size_t y_stride, uint32_t rows) {
    bool one_block = half->first / QUANT_GROUP == (half->first + half->count - 1) / QUANT_GROUP;
    bool aligned = !half->transposed && half->first % QUANT_GROUP == 0;
    enum weight_type type =
        kv_b->type == WEIGHT_FP8 && !one_block && !aligned ? WEIGHT_F32 : kv_b->type;
    size_t row_bytes = weight_type_bytes(type, kv_b->cols), all = half->count * row_bytes;
    char *room = gpu_reference_take_room(2 * all), *taken = room;
    if (type != kv_b->type)
        dequantize(kv_b, data, scales, half, (float *)(void *)room);
    else
        for (uint32_t r = 0; r < half->count; r++)
            memcpy(room + r * row_bytes, data + (half->first + r) * kv_b->pitch, row_bytes);
    struct packed_matrix matrix = {.type = type, .rows = half->count, .cols = kv_b->cols};
    if (half->transposed) {
        taken = room + all;
        turn(weight_type_bytes(type, 1), room, taken, half->count, kv_b->cols);
        matrix.rows = kv_b->cols;
        matrix.cols = half->count;
    }
    matrix.pitch = weight_type_bytes(type, matrix.cols);
    const float *of_half =
        type == WEIGHT_FP8 ? scales + half->first / QUANT_GROUP * divide_up(kv_b->cols, QUANT_GROUP)
                           : NULL;
    gpu_reference_multiply(&matrix, taken, of_half, x, y, y_stride, rows);
    free(room);
}

static void gpu_reference_absorb(const void *arguments, void *native) {
    const struct gpu_absorb *of = arguments;
    const struct gpu_heads *heads = &of->of;
    uint32_t rows = rows_there(of->live, 1, of->live_before, of->rows);
    uint32_t dim = heads->nope_dim + heads->rope_dim, width = heads->kv_rank + heads->rope_dim;
    size_t stride = (size_t)heads->heads * dim, out_stride = (size_t)heads->heads * width;
    float *q = gpu_reference_take_room(rows * (stride + out_stride) * sizeof *q);
    float *out = q + rows * stride;
    for (uint32_t row = 0; row < rows; row++)
        load_plain(heads->is_bf16, (const char *)of->queries + (size_t)row * of->queries_pitch,
                   q + row * stride, (uint32_t)stride);
    for (uint32_t head = 0; head < heads->heads; head++) {
        struct half half = {head * (heads->nope_dim + heads->value_dim), heads->nope_dim, true};
        struct linear_input x = linear_plain(q + head * dim, stride, heads->is_bf16);
        multiply_half(&of->matrix, of->kv_b, of->kv_b_scales, &half, &x, out + head * width,
                      out_stride, rows);
        for (uint32_t row = 0; row < rows; row++)
            memcpy(out + row * out_stride + head * width + heads->kv_rank,
                   q + row * stride + head * dim + heads->nope_dim, heads->rope_dim * sizeof *q);
    }
    for (uint32_t row = 0; row < rows; row++)
        store_plain(heads->is_bf16, (char *)of->to + (size_t)row * of->to_pitch,
                    out + row * out_stride, (uint32_t)out_stride);
    free(q);
}

static void gpu_reference_release(const void *arguments, void *native) {
    const struct gpu_release *of = arguments;
    const struct gpu_heads *heads = &of->of;
    uint32_t rows = rows_there(of->live, 1, of->live_before, of->rows);
    size_t stride = (size_t)heads->heads * heads->kv_rank;
    float *u = gpu_reference_take_room(rows * stride * sizeof *u);
    for (uint32_t row = 0; row < rows; row++)
        load_plain(heads->is_bf16, (const char *)of->u + (size_t)row * of->u_pitch,
                   u + row * stride, (uint32_t)stride);
    for (uint32_t head = 0; head < heads->heads; head++) {
        uint32_t first = head * (heads->nope_dim + heads->value_dim) + heads->nope_dim;
        struct half half = {first, heads->value_dim, false};
        struct linear_input x = linear_plain(u + head * heads->kv_rank, stride, heads->is_bf16);
        multiply_half(&of->matrix, of->kv_b, of->kv_b_scales, &half, &x,
                      of->attended + head * heads->value_dim,
                      (size_t)heads->heads * heads->value_dim, rows);
    }
    free(u);
}

/* ---- cores ---- */

/* KV rows [start + first, ...) of a block that a token at `index` sees; returns how many. */
static uint32_t load_block(const struct gpu_kv_form *kv, const char *memory, const uint32_t *pages,
                           uint32_t block, uint32_t kv_first, uint32_t end, float *rows,
                           uint32_t *start_out) {
    uint32_t start = block * KV_BLOCK_TOKENS;
    if (kv_first > start) start = kv_first;
    uint32_t last = (block + 1) * KV_BLOCK_TOKENS < end ? (block + 1) * KV_BLOCK_TOKENS : end;
    *start_out = start;
    for (uint32_t index = start; index < last; index++)
        load_plain(kv->is_bf16, kv_row(kv, memory, pages, index),
                   rows + (size_t)(index - start) * kv->width, kv->width);
    return last > start ? last - start : 0;
}

struct core_room {
    float *q, *rows, *turned, *keys, *scores, *u, *max, *sum;
    void *memory;
};

static struct core_room open_core(const struct gpu_core *of) {
    size_t heads = of->of.heads, width = of->kv.width, block = KV_BLOCK_TOKENS;
    size_t counts[] = {heads * width, block * width,          width * heads, block * heads,
                       heads * block, heads * of->of.kv_rank, heads,         heads};
    size_t all = 0, at = 0;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        all += counts[i];
    struct core_room room;
    float *memory = room.memory = gpu_reference_take_room(all * sizeof(float));
    float **parts[] = {&room.q,      &room.rows, &room.turned, &room.keys,
                       &room.scores, &room.u,    &room.max,    &room.sum};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++, at += counts[i - 1])
        *parts[i] = memory + at;
    return room;
}

static void attend_block(const struct gpu_core *of, uint32_t seen, struct core_room *room) {
    const struct kernels *kernels = arithmetic();
    uint32_t heads = of->of.heads, rank = of->of.kv_rank, width = of->kv.width;
    struct gemm score = {.a = room->rows,
                         .a_stride = width,
                         .b = room->turned,
                         .b_stride = heads,
                         .c = room->keys,
                         .c_stride = heads,
                         .m = seen,
                         .n = heads,
                         .k = width};
    kernels->gemm(&score);
    kernels->transpose(room->scores, KV_BLOCK_TOKENS, room->keys, heads, seen, heads);
    for (uint32_t head = 0; head < heads; head++) {
        float factor;
        attention_core_softmax(kernels, room->scores + head * KV_BLOCK_TOKENS, seen, of->of.scale,
                               &room->max[head], &room->sum[head], &factor);
        if (factor != 1) kernels->scale(room->u + (size_t)head * rank, factor, rank);
    }
    struct gemm gather = {.a = room->scores,
                          .a_stride = KV_BLOCK_TOKENS,
                          .b = room->rows,
                          .b_stride = width,
                          .c = room->u,
                          .c_stride = rank,
                          .m = heads,
                          .n = rank,
                          .k = seen,
                          .accumulate = true};
    kernels->gemm(&gather);
}

static void gpu_reference_core(const void *arguments, void *native) {
    const struct gpu_core *of = arguments;
    const struct kernels *kernels = arithmetic();
    struct core_room room = open_core(of);
    uint32_t heads = of->of.heads, rank = of->of.kv_rank, width = of->kv.width;
    uint32_t rows = rows_there(of->live, 1, of->live_before, of->rows);
    for (uint32_t row = 0; row < rows; row++) {
        uint32_t end = of->kv_index[row] + 1, start;
        load_plain(of->of.is_bf16, (const char *)of->absorbed + (size_t)row * of->absorbed_pitch,
                   room.q, heads * width);
        kernels->transpose(room.turned, heads, room.q, width, heads, width);
        memset(room.u, 0, (size_t)heads * rank * sizeof *room.u);
        for (uint32_t head = 0; head < heads; head++) {
            room.max[head] = -INFINITY;
            room.sum[head] = 0;
        }
        for (uint32_t block = 0; block * KV_BLOCK_TOKENS < end; block++) {
            uint32_t seen = load_block(&of->kv, of->memory, of->pages + of->first_page[row], block,
                                       of->kv_first[row], end, room.rows, &start);
            if (seen) attend_block(of, seen, &room);
        }
        for (uint32_t head = 0; head < heads; head++)
            kernels->scale(room.u + (size_t)head * rank, 1 / room.sum[head], rank);
        store_plain(of->of.is_bf16, (char *)of->to + (size_t)row * of->to_pitch, room.u,
                    heads * rank);
    }
    free(room.memory);
}

struct prompt_room {
    float *q;              /* [count][heads][nope + rope] of the run */
    float *max, *sum;      /* [count][heads] */
    float *rows;           /* [64][width] */
    float *codes, *scales; /* [64][kv_rank] of quantized latents */
    float *expanded;       /* [64][heads * (nope + value)] */
    float *keys;           /* [nope + rope][64] */
    float scores[KV_BLOCK_TOKENS];
    void *memory;
};

static struct prompt_room open_prompt(const struct gpu_prompt *of, const struct gpu_run *run) {
    const struct gpu_heads *heads = &of->of;
    uint32_t dim = heads->nope_dim + heads->rope_dim;
    size_t blocks = divide_up(heads->kv_rank, QUANT_GROUP), block = KV_BLOCK_TOKENS;
    size_t q = (size_t)run->count * heads->heads * dim, state = (size_t)run->count * heads->heads;
    size_t all = q + 2 * state + block * (of->kv.width + heads->kv_rank + blocks + dim) +
                 block * of->matrix.rows;
    struct prompt_room room;
    float *at = room.memory = gpu_reference_take_room(all * sizeof *at);
    room.q = at;
    room.max = room.q + q;
    room.sum = room.max + state;
    room.rows = room.sum + state;
    room.codes = room.rows + block * of->kv.width;
    room.scales = room.codes + block * heads->kv_rank;
    room.expanded = room.scales + block * blocks;
    room.keys = room.expanded + block * of->matrix.rows;
    return room;
}

/* Keys and values of a block's rows, for all heads. */
static void gpu_reference_expand(const struct gpu_prompt *of, uint32_t count,
                                 struct prompt_room *room) {
    const struct kernels *kernels = arithmetic();
    uint32_t rank = of->of.kv_rank;
    size_t blocks = divide_up(rank, QUANT_GROUP);
    struct linear_input input = linear_plain(room->rows, of->kv.width, of->of.is_bf16);
    if (of->latents == INPUT_FP8) {
        for (uint32_t t = 0; t < count; t++)
            kernels->quantize_e4m3(room->codes + (size_t)t * rank, room->scales + t * blocks,
                                   room->rows + (size_t)t * of->kv.width, rank, false);
        input = linear_plain(room->codes, rank, true);
        input.scales = room->scales;
        input.scale_stride = blocks;
    }
    gpu_reference_multiply(&of->matrix, of->kv_b, of->kv_b_scales, &input, room->expanded,
                           of->matrix.rows, count);
    if (of->of.is_bf16)
        kernels->round_bf16(room->expanded, room->expanded, count * of->matrix.rows);
}

/* A query against the block, for one head with rotated keys. */
static void attend_query(const struct gpu_prompt *of, const struct gpu_run *run, uint32_t query,
                         uint32_t head, uint32_t seen, uint32_t count, struct prompt_room *room) {
    const struct kernels *kernels = arithmetic();
    const struct gpu_heads *heads = &of->of;
    uint32_t dim = heads->nope_dim + heads->rope_dim, value_dim = heads->value_dim;
    size_t state = (size_t)query * heads->heads + head;
    float factor,
        *out = of->attended + ((size_t)(run->first + query) * heads->heads + head) * value_dim;
    struct gemm score = {.a = room->q + state * dim,
                         .a_stride = dim,
                         .b = room->keys,
                         .b_stride = KV_BLOCK_TOKENS,
                         .c = room->scores,
                         .c_stride = KV_BLOCK_TOKENS,
                         .m = 1,
                         .n = count,
                         .k = dim};
    kernels->gemm(&score);
    attention_core_softmax(kernels, room->scores, seen, heads->scale, &room->max[state],
                           &room->sum[state], &factor);
    if (factor != 1) kernels->scale(out, factor, value_dim);
    struct gemm gather = {.a = room->scores,
                          .a_stride = KV_BLOCK_TOKENS,
                          .b = room->expanded + (size_t)head * (heads->nope_dim + value_dim) +
                               heads->nope_dim,
                          .b_stride = of->matrix.rows,
                          .c = out,
                          .c_stride = value_dim,
                          .m = 1,
                          .n = value_dim,
                          .k = seen,
                          .accumulate = true};
    kernels->gemm(&gather);
}

static void attend_prompt_block(const struct gpu_prompt *of, const struct gpu_run *run,
                                uint32_t start, uint32_t count, struct prompt_room *room) {
    const struct kernels *kernels = arithmetic();
    const struct gpu_heads *heads = &of->of;
    for (uint32_t head = 0; head < heads->heads; head++) {
        kernels->transpose(room->keys, KV_BLOCK_TOKENS,
                           room->expanded + (size_t)head * (heads->nope_dim + heads->value_dim),
                           of->matrix.rows, count, heads->nope_dim);
        kernels->transpose(room->keys + heads->nope_dim * KV_BLOCK_TOKENS, KV_BLOCK_TOKENS,
                           room->rows + heads->kv_rank, of->kv.width, count, heads->rope_dim);
        for (uint32_t query = 0; query < run->count; query++) {
            uint32_t index = of->kv_index[run->first + query];
            if (index < start) continue;
            uint32_t seen = index - start + 1 < count ? index - start + 1 : count;
            attend_query(of, run, query, head, seen, count, room);
        }
    }
}

static void gpu_reference_attend_run(const struct gpu_prompt *of, const struct gpu_run *run) {
    const struct gpu_heads *heads = &of->of;
    struct prompt_room room = open_prompt(of, run);
    uint32_t dim = heads->nope_dim + heads->rope_dim, width = heads->heads * heads->value_dim;
    uint32_t end = of->kv_index[run->first + run->count - 1] + 1, start;
    float *attended = of->attended + (size_t)run->first * width;
    memset(attended, 0, (size_t)run->count * width * sizeof *attended);
    for (uint32_t i = 0; i < run->count; i++)
        load_plain(heads->is_bf16,
                   (const char *)of->queries + (size_t)(run->first + i) * of->queries_pitch,
                   room.q + (size_t)i * heads->heads * dim, heads->heads * dim);
    for (uint32_t i = 0; i < run->count * heads->heads; i++) {
        room.max[i] = -INFINITY;
        room.sum[i] = 0;
    }
    for (uint32_t block = 0; block * KV_BLOCK_TOKENS < end; block++) {
        uint32_t count = load_block(&of->kv, of->memory, of->pages + run->first_page, block,
                                    run->kv_first, end, room.rows, &start);
        if (!count) continue;
        gpu_reference_expand(of, count, &room);
        attend_prompt_block(of, run, start, count, &room);
    }
    for (uint32_t i = 0; i < run->count * heads->heads; i++)
        arithmetic()->scale(attended + (size_t)i * heads->value_dim, 1 / room.sum[i],
                            heads->value_dim);
    free(room.memory);
}

static void gpu_reference_prompt(const void *arguments, void *native) {
    const struct gpu_prompt *of = arguments;
    for (uint32_t i = 0; i < of->run_count; i++)
        gpu_reference_attend_run(of, &of->runs[i]);
}

#define GPU_REFERENCE_RUN(kernel, pointer_count)                                                   \
    .kernel = {#kernel " (reference)", pointer_count, gpu_reference_##kernel},

const struct gpu_kernels gpu_reference = {.numerics = "reference1", GPU_KERNELS(GPU_REFERENCE_RUN)};
