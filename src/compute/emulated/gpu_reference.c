/* SPDX-License-Identifier: Apache-2.0
 * Reference bodies of the device's kernels, for the emulated device: plain loops over its memory
 * with the CPU's arithmetic in the CPU's order. So a step on the emulated device must compute the
 * same bits as the CPU, and a difference is a fault of the engine.
 */
#include "compute/emulated/gpu_reference.h"

#include "base/check.h"
#include "base/number.h"
#include "compute/model/attention_core.h"
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

static void store(const struct gpu_row_format *format, void *rows, float *scales, uint32_t row,
                  const float *x, uint32_t n) {
    const struct kernels *kernels = arithmetic();
    char *to = (char *)rows + (size_t)row * format->pitch;
    float values[QUANT_GROUP];
    switch (format->kind) {
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
                values, scales + (size_t)(first / QUANT_GROUP) * format->scale_stride + row,
                x + first, count, format->kind == INPUT_FP8_UE8M0);
            for (uint32_t i = 0; i < count; i++)
                to[first + i] = (char)e4m3_from_float(values[i]);
        }
        break;
    case INPUT_INT8: /* for weights in four bits, which devices refuse */
    default:         /* of V4, which they refuse, too */
        check(false);
        break;
    }
}

/* A prepared row as floats, and its scales, if it has any. */
static void gpu_reference_load(const struct gpu_row_format *format, const void *rows,
                               const float *scales, uint32_t row, float *x, float *x_scales,
                               uint32_t n) {
    const char *from = (const char *)rows + (size_t)row * format->pitch;
    if (format->kind == INPUT_F32) {
        memcpy(x, from, n * sizeof *x);
    } else if (format->kind == INPUT_BF16) {
        arithmetic()->float_from_bf16(x, (const uint16_t *)(const void *)from, n);
    } else {
        for (uint32_t i = 0; i < n; i++)
            x[i] = float_from_e4m3((uint8_t)from[i]);
        for (uint32_t block = 0; block < divide_up(n, QUANT_GROUP); block++)
            x_scales[block] = scales[(size_t)block * format->scale_stride + row];
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

static void embed_row(const struct packed_matrix *format, const void *embedding, uint32_t id,
                      float *x) {
    const char *from = (const char *)embedding + id * format->pitch;
    if (format->type == WEIGHT_BF16)
        arithmetic()->float_from_bf16(x, (const uint16_t *)(const void *)from, format->cols);
    else if (format->type == WEIGHT_F32)
        memcpy(x, from, format->cols * sizeof *x);
    else
        for (uint32_t i = 0; i < format->cols; i++)
            x[i] = float_from_e4m3((uint8_t)from[i]);
}

static void gpu_reference_embed(const void *arguments, void *native) {
    const struct gpu_embed *args = arguments;
    uint32_t rows = rows_there(args->live, 1, 0, args->rows);
    for (uint32_t row = 0; row < rows; row++)
        embed_row(&args->format, args->embedding, args->ids[row],
                  args->x + (size_t)row * args->x_stride);
}

static void gpu_reference_prepare(const void *arguments, void *native) {
    const struct gpu_prepare *args = arguments;
    float *normed = gpu_reference_take_room(args->n * sizeof *normed);
    uint32_t rows = rows_there(args->live, 1, 0, args->rows);
    for (uint32_t row = 0; row < rows; row++) {
        const float *x = args->x + (size_t)row * args->x_stride;
        if (args->weight) {
            arithmetic()->rmsnorm(normed, x, args->weight, args->n, args->epsilon);
            x = normed;
        }
        if (args->first)
            store(&args->first_format, args->first, args->first_scales, row, x, args->n);
        if (args->second)
            store(&args->second_format, args->second, args->second_scales, row, x, args->n);
        if (args->plain)
            memmove(args->plain + (size_t)row * args->plain_stride, x, args->n * sizeof *x);
    }
    free(normed);
}

/* Rows [first, first + count) of x times a matrix. */
static void multiply_rows(const struct gpu_product *args, uint32_t first, uint32_t count,
                          uint32_t slot) {
    uint32_t n = args->matrix.cols;
    bool quantized = args->format.kind == INPUT_FP8 || args->format.kind == INPUT_FP8_UE8M0;
    size_t blocks = divide_up(n, QUANT_GROUP);
    float *x = gpu_reference_take_room((size_t)count * (n + blocks) * sizeof *x);
    float *scales = x + (size_t)count * n;
    for (uint32_t row = 0; row < count; row++)
        gpu_reference_load(&args->format, args->x, args->x_scales, first + row, x + (size_t)row * n,
                           scales + row * blocks, n);
    struct linear_input input = {.x = x,
                                 .x_stride = n,
                                 .scales = quantized ? scales : NULL,
                                 .scale_stride = blocks,
                                 .is_bf16 = args->format.kind != INPUT_F32};
    const char *data = (const char *)args->weights + slot * args->slot_bytes;
    const float *weight_scales = args->weight_scales;
    if (weight_scales) weight_scales += slot * args->slot_bytes / sizeof *weight_scales;
    gpu_reference_multiply(&args->matrix, data, weight_scales, &input,
                           args->y + (size_t)first * args->y_stride, args->y_stride, count);
    free(x);
}

static void gpu_reference_product(const void *arguments, void *native) {
    const struct gpu_product *args = arguments;
    if (!args->groups) multiply_rows(args, 0, rows_there(args->live, 1, 0, args->rows), 0);
    for (uint32_t i = 0; args->groups && i < args->group_count; i++)
        if (args->groups[i].row_count)
            multiply_rows(args, args->groups[i].first_row, args->groups[i].row_count,
                          args->groups[i].slot);
}

static void gpu_reference_activate(const void *arguments, void *native) {
    const struct gpu_activate *args = arguments;
    float *values = gpu_reference_take_room(args->n * sizeof *values);
    uint32_t rows = rows_there(args->live, args->live_each, 0, args->rows);
    for (uint32_t row = 0; row < rows; row++) {
        arithmetic()->silu_multiply(values, args->gate + (size_t)row * args->stride,
                                    args->up + (size_t)row * args->stride, args->n);
        store(&args->format, args->to, args->to_scales, row, values, args->n);
    }
    free(values);
}

static void gpu_reference_add(const void *arguments, void *native) {
    const struct gpu_add *args = arguments;
    uint32_t rows = rows_there(args->live, 1, 0, args->rows);
    for (uint32_t row = 0; row < rows; row++)
        arithmetic()->add_scaled(args->y + (size_t)row * args->y_stride,
                                 args->x + (size_t)row * args->x_stride, 1, args->n);
}

static void gpu_reference_route(const void *arguments, void *native) {
    const struct gpu_route *args = arguments;
    struct shape shape = {.experts = args->experts_all,
                          .experts_per_token = args->per_token,
                          .groups = args->groups,
                          .groups_kept = args->groups_kept,
                          .scoring = (enum router_scoring)args->scoring,
                          .method = (enum router_method)args->method,
                          .normalize_weights = args->normalizes,
                          .routed_scaling = args->scaling};
    uint32_t rows = rows_there(args->live, 1, 0, args->rows);
    for (uint32_t row = 0; row < rows; row++)
        router_choose(&shape, args->logits + (size_t)row * args->stride, args->bias,
                      args->experts + (size_t)row * args->per_token,
                      args->weights + (size_t)row * args->per_token);
}

static void gpu_reference_sort(const void *arguments, void *native) {
    const struct gpu_sort *args = arguments;
    uint32_t row = 0, pairs = rows_there(args->live, 1, 0, args->tokens) * args->per_token;
    for (uint32_t slot = 0; slot < args->slots; slot++) {
        struct gpu_group *group = &args->groups[slot];
        *group = (struct gpu_group){.first_row = row, .slot = slot};
        for (uint32_t pair = 0; pair < pairs; pair++) {
            if (args->experts[pair] != slot) continue;
            args->row_token[row] = pair / args->per_token;
            args->pair_row[pair] = row++;
        }
        group->row_count = row - group->first_row;
        args->slot_tokens[slot] += group->row_count;
    }
}

static void gpu_reference_gather(const void *arguments, void *native) {
    const struct gpu_gather *args = arguments;
    size_t element = args->from_format.kind == INPUT_F32    ? sizeof(float)
                     : args->from_format.kind == INPUT_BF16 ? sizeof(uint16_t)
                                                            : 1;
    bool quantized = element == 1;
    uint32_t rows = rows_there(args->live, args->live_each, 0, args->rows);
    for (uint32_t row = 0; row < rows; row++) {
        uint32_t token = args->row_token ? args->row_token[row] : row;
        const char *from = args->from_rows
                               ? args->from_rows[row]
                               : (const char *)args->from + (size_t)token * args->from_format.pitch;
        char *to = args->to_rows ? args->to_rows[row]
                                 : (char *)args->to + (size_t)row * args->to_format.pitch;
        memcpy(to, from, args->n * element);
        float *to_scales = args->to_scales + (size_t)row * args->to_scale_step;
        const float *from_scales = args->from_rows
                                       ? (const float *)(const void *)(from + args->scales_at)
                                       : args->from_scales + (size_t)token * args->from_scale_step;
        for (uint32_t block = 0; quantized && block < divide_up(args->n, QUANT_GROUP); block++)
            to_scales[(size_t)block * args->to_format.scale_stride] =
                from_scales[(size_t)block * args->from_format.scale_stride];
    }
}

static void load_plain(bool is_bf16, const void *from, float *x, uint32_t n);

/* The pairs of a token in the group of its k'th one: that pair and the `count` - 1 after it. */
static uint32_t group_of(const struct gpu_combine *args, size_t pair, uint32_t k) {
    uint32_t count = 1, left = args->per_token - k;
    if (!args->experts) return left;
    while (count < left && args->experts[pair + count] / args->group_experts ==
                               args->experts[pair] / args->group_experts)
        count++;
    return count;
}

/* to += the pairs' results times their weights; of a sum, its one row. */
static void gpu_reference_add_pairs(const struct gpu_combine *args, size_t pair, uint32_t count,
                                    float *to, float *result) {
    bool summed = count > 1 && args->pair_row[pair + 1] == GPU_SUMMED;
    for (uint32_t i = 0; i < (summed ? 1 : count); i++) {
        uint32_t row = args->pair_row[pair + i];
        if (row == GPU_NO_PAIR) continue;
        load_plain(args->is_bf16, (const char *)args->results + (size_t)row * args->pitch, result,
                   args->n);
        if (args->rounds_bf16) arithmetic()->round_bf16(result, result, args->n);
        arithmetic()->add_scaled(to, result, summed ? 1 : args->weights[pair + i], args->n);
    }
}

static void gpu_reference_combine(const void *arguments, void *native) {
    const struct gpu_combine *args = arguments;
    float *result = gpu_reference_take_room(2 * args->n * sizeof *result),
          *group = result + args->n;
    uint32_t tokens = rows_there(args->live, 1, 0, args->tokens);
    for (uint32_t token = 0; token < tokens; token++) {
        float *y = args->y + (size_t)token * args->y_stride;
        size_t first = (size_t)token * args->per_token;
        memset(y, 0, args->n * sizeof *y);
        if (!args->group_experts) gpu_reference_add_pairs(args, first, args->per_token, y, result);
        for (uint32_t k = 0, count; args->group_experts && k < args->per_token; k += count) {
            count = group_of(args, first + k, k);
            memset(group, 0, args->n * sizeof *group);
            gpu_reference_add_pairs(args, first + k, count, group, result);
            if (args->rounds_bf16) arithmetic()->round_bf16(group, group, args->n);
            arithmetic()->add_scaled(y, group, 1, args->n);
        }
    }
    free(result);
}

static void gpu_reference_draw(const void *arguments, void *native) {
    const struct gpu_draw *args = arguments;
    const struct draw_rule likeliest = {.temperature = 0};
    float *scratch = gpu_reference_take_room(2 * (size_t)args->n * sizeof *scratch);
    for (uint32_t row = 0; row < args->rows; row++)
        args->to[row] = sample_draw(args->logits + (size_t)row * args->stride, args->n,
                                    args->rules ? &args->rules[row] : &likeliest, NULL, scratch);
    free(scratch);
}

static void gpu_reference_pair(const void *arguments, void *native) {
    const struct gpu_mtp_pair *args = arguments;
    const struct kernels *kernels = arithmetic();
    for (uint32_t row = 0; row < args->rows; row++) {
        uint32_t source = args->source[row];
        const float *h = source & GPU_KEPT ? args->kept + (size_t)(source & ~GPU_KEPT) * args->n
                                           : args->hidden + (size_t)source * args->n;
        float *to = args->pair + (size_t)row * 2 * args->n;
        embed_row(&args->format, args->embedding, args->ids[row], to);
        kernels->rmsnorm(to, to, args->embedding_norm, args->n, args->epsilon);
        kernels->rmsnorm(to + args->n, h, args->hidden_norm, args->n, args->epsilon);
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

static char *kv_row(const struct gpu_kv_layout *kv, const char *memory, const uint32_t *pages,
                    uint32_t index) {
    return (char *)(uintptr_t)memory + pages[index / KV_BLOCK_TOKENS] * kv->page_bytes +
           kv->slice_at + index % KV_BLOCK_TOKENS * kv->row_bytes;
}

static void gpu_reference_latent(const void *arguments, void *native) {
    const struct gpu_latent *args = arguments;
    float *kv = gpu_reference_take_room(args->kv.width * sizeof *kv);
    uint32_t rows = rows_there(args->live, 1, 0, args->rows);
    for (uint32_t row = 0; row < rows; row++) {
        memcpy(kv, args->kv_a + (size_t)row * args->stride, args->kv.width * sizeof *kv);
        arithmetic()->rmsnorm(kv, kv, args->weight, args->kv_rank, args->epsilon);
        arithmetic()->rotate(kv + args->kv_rank,
                             args->angles + (size_t)args->positions[row] * args->rope_dim,
                             args->rope_dim / 2, args->interleaved);
        store_plain(args->kv.is_bf16,
                    kv_row(&args->kv, args->memory, args->pages + args->first_page[row],
                           args->kv_index[row]),
                    kv, args->kv.width);
    }
    free(kv);
}

static void gpu_reference_queries(const void *arguments, void *native) {
    const struct gpu_queries *args = arguments;
    uint32_t dim = args->nope_dim + args->rope_dim;
    float *q = gpu_reference_take_room(args->heads * dim * sizeof *q);
    uint32_t rows = rows_there(args->live, 1, 0, args->rows);
    for (uint32_t row = 0; row < rows; row++) {
        memcpy(q, args->q + (size_t)row * args->stride, args->heads * dim * sizeof *q);
        for (uint32_t head = 0; head < args->heads; head++)
            arithmetic()->rotate(q + head * dim + args->nope_dim,
                                 args->angles + (size_t)args->positions[row] * args->rope_dim,
                                 args->rope_dim / 2, args->interleaved);
        store_plain(args->is_bf16, (char *)args->to + (size_t)row * args->to_pitch, q,
                    args->heads * dim);
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
    const struct gpu_absorb *args = arguments;
    const struct gpu_heads *heads = &args->heads;
    uint32_t rows = rows_there(args->live, 1, args->live_before, args->rows);
    uint32_t dim = heads->nope_dim + heads->rope_dim, width = heads->kv_rank + heads->rope_dim;
    size_t stride = (size_t)heads->heads * dim, out_stride = (size_t)heads->heads * width;
    float *q = gpu_reference_take_room(rows * (stride + out_stride) * sizeof *q);
    float *out = q + rows * stride;
    for (uint32_t row = 0; row < rows; row++)
        load_plain(heads->is_bf16, (const char *)args->queries + (size_t)row * args->queries_pitch,
                   q + row * stride, (uint32_t)stride);
    for (uint32_t head = 0; head < heads->heads; head++) {
        struct half half = {head * (heads->nope_dim + heads->value_dim), heads->nope_dim, true};
        struct linear_input x = linear_plain(q + head * dim, stride, heads->is_bf16);
        multiply_half(&args->matrix, args->kv_b, args->kv_b_scales, &half, &x, out + head * width,
                      out_stride, rows);
        for (uint32_t row = 0; row < rows; row++)
            memcpy(out + row * out_stride + head * width + heads->kv_rank,
                   q + row * stride + head * dim + heads->nope_dim, heads->rope_dim * sizeof *q);
    }
    for (uint32_t row = 0; row < rows; row++)
        store_plain(heads->is_bf16, (char *)args->to + (size_t)row * args->to_pitch,
                    out + row * out_stride, (uint32_t)out_stride);
    free(q);
}

static void gpu_reference_release(const void *arguments, void *native) {
    const struct gpu_release *args = arguments;
    const struct gpu_heads *heads = &args->heads;
    uint32_t rows = rows_there(args->live, 1, args->live_before, args->rows);
    size_t stride = (size_t)heads->heads * heads->kv_rank;
    float *u = gpu_reference_take_room(rows * stride * sizeof *u);
    for (uint32_t row = 0; row < rows; row++)
        load_plain(heads->is_bf16, (const char *)args->u + (size_t)row * args->u_pitch,
                   u + row * stride, (uint32_t)stride);
    for (uint32_t head = 0; head < heads->heads; head++) {
        uint32_t first = head * (heads->nope_dim + heads->value_dim) + heads->nope_dim;
        struct half half = {first, heads->value_dim, false};
        struct linear_input x = linear_plain(u + head * heads->kv_rank, stride, heads->is_bf16);
        multiply_half(&args->matrix, args->kv_b, args->kv_b_scales, &half, &x,
                      args->attended + head * heads->value_dim,
                      (size_t)heads->heads * heads->value_dim, rows);
    }
    free(u);
}

/* ---- cores ---- */

/* KV rows [start + first, ...) of a block that a token at `index` sees; returns how many. */
static uint32_t load_block(const struct gpu_kv_layout *kv, const char *memory,
                           const uint32_t *pages, uint32_t block, uint32_t kv_first, uint32_t end,
                           float *rows, uint32_t *start_out) {
    uint32_t start = block * KV_BLOCK_TOKENS;
    if (kv_first > start) start = kv_first;
    uint32_t last = (block + 1) * KV_BLOCK_TOKENS < end ? (block + 1) * KV_BLOCK_TOKENS : end;
    *start_out = start;
    for (uint32_t index = start; index < last; index++)
        load_plain(kv->is_bf16, kv_row(kv, memory, pages, index),
                   rows + (size_t)(index - start) * kv->width, kv->width);
    return last > start ? last - start : 0;
}

struct core_workspace {
    float *q, *rows, *turned, *keys, *scores, *u, *max, *sum;
    void *memory;
};

static struct core_workspace open_core(const struct gpu_core *args) {
    size_t heads = args->heads.heads, width = args->kv.width, block = KV_BLOCK_TOKENS;
    size_t counts[] = {heads * width, block * width, width * heads,
                       block * heads, heads * block, heads * args->heads.kv_rank,
                       heads,         heads};
    size_t all = 0, at = 0;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        all += counts[i];
    struct core_workspace room;
    float *memory = room.memory = gpu_reference_take_room(all * sizeof(float));
    float **parts[] = {&room.q,      &room.rows, &room.turned, &room.keys,
                       &room.scores, &room.u,    &room.max,    &room.sum};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++, at += counts[i - 1])
        *parts[i] = memory + at;
    return room;
}

static void attend_block(const struct gpu_core *args, uint32_t seen, struct core_workspace *room) {
    const struct kernels *kernels = arithmetic();
    uint32_t heads = args->heads.heads, rank = args->heads.kv_rank, width = args->kv.width;
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
        attention_core_softmax(kernels, room->scores + head * KV_BLOCK_TOKENS, seen,
                               args->heads.scale, &room->max[head], &room->sum[head], &factor);
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
    const struct gpu_core *args = arguments;
    const struct kernels *kernels = arithmetic();
    struct core_workspace room = open_core(args);
    uint32_t heads = args->heads.heads, rank = args->heads.kv_rank, width = args->kv.width;
    uint32_t rows = rows_there(args->live, 1, args->live_before, args->rows);
    for (uint32_t row = 0; row < rows; row++) {
        uint32_t end = args->kv_index[row] + 1, start;
        load_plain(args->heads.is_bf16,
                   (const char *)args->absorbed + (size_t)row * args->absorbed_pitch, room.q,
                   heads * width);
        kernels->transpose(room.turned, heads, room.q, width, heads, width);
        memset(room.u, 0, (size_t)heads * rank * sizeof *room.u);
        for (uint32_t head = 0; head < heads; head++) {
            room.max[head] = -INFINITY;
            room.sum[head] = 0;
        }
        for (uint32_t block = 0; block * KV_BLOCK_TOKENS < end; block++) {
            uint32_t seen = load_block(&args->kv, args->memory, args->pages + args->first_page[row],
                                       block, args->kv_first[row], end, room.rows, &start);
            if (seen) attend_block(args, seen, &room);
        }
        for (uint32_t head = 0; head < heads; head++)
            kernels->scale(room.u + (size_t)head * rank, 1 / room.sum[head], rank);
        store_plain(args->heads.is_bf16, (char *)args->to + (size_t)row * args->to_pitch, room.u,
                    heads * rank);
    }
    free(room.memory);
}

struct prompt_workspace {
    float *q;              /* [count][heads][nope + rope] of the run */
    float *max, *sum;      /* [count][heads] */
    float *rows;           /* [64][width] */
    float *codes, *scales; /* [64][kv_rank] of quantized latents */
    float *expanded;       /* [64][heads * (nope + value)] */
    float *keys;           /* [nope + rope][64] */
    float scores[KV_BLOCK_TOKENS];
    void *memory;
};

static struct prompt_workspace open_prompt(const struct gpu_prompt *args,
                                           const struct gpu_run *run) {
    const struct gpu_heads *heads = &args->heads;
    uint32_t dim = heads->nope_dim + heads->rope_dim;
    size_t blocks = divide_up(heads->kv_rank, QUANT_GROUP), block = KV_BLOCK_TOKENS;
    size_t q = (size_t)run->count * heads->heads * dim, state = (size_t)run->count * heads->heads;
    size_t all = q + 2 * state + block * (args->kv.width + heads->kv_rank + blocks + dim) +
                 block * args->matrix.rows;
    struct prompt_workspace room;
    float *at = room.memory = gpu_reference_take_room(all * sizeof *at);
    room.q = at;
    room.max = room.q + q;
    room.sum = room.max + state;
    room.rows = room.sum + state;
    room.codes = room.rows + block * args->kv.width;
    room.scales = room.codes + block * heads->kv_rank;
    room.expanded = room.scales + block * blocks;
    room.keys = room.expanded + block * args->matrix.rows;
    return room;
}

/* Keys and values of a block's rows, for all heads. */
static void gpu_reference_expand(const struct gpu_prompt *args, uint32_t count,
                                 struct prompt_workspace *room) {
    const struct kernels *kernels = arithmetic();
    uint32_t rank = args->heads.kv_rank;
    size_t blocks = divide_up(rank, QUANT_GROUP);
    struct linear_input input = linear_plain(room->rows, args->kv.width, args->heads.is_bf16);
    if (args->latents == INPUT_FP8) {
        for (uint32_t t = 0; t < count; t++)
            kernels->quantize_e4m3(room->codes + (size_t)t * rank, room->scales + t * blocks,
                                   room->rows + (size_t)t * args->kv.width, rank, false);
        input = linear_plain(room->codes, rank, true);
        input.scales = room->scales;
        input.scale_stride = blocks;
    }
    gpu_reference_multiply(&args->matrix, args->kv_b, args->kv_b_scales, &input, room->expanded,
                           args->matrix.rows, count);
    if (args->heads.is_bf16)
        kernels->round_bf16(room->expanded, room->expanded, count * args->matrix.rows);
}

/* A query against the block, for one head with rotated keys. */
static void attend_query(const struct gpu_prompt *args, const struct gpu_run *run, uint32_t query,
                         uint32_t head, uint32_t seen, uint32_t count,
                         struct prompt_workspace *room) {
    const struct kernels *kernels = arithmetic();
    const struct gpu_heads *heads = &args->heads;
    uint32_t dim = heads->nope_dim + heads->rope_dim, value_dim = heads->value_dim;
    size_t state = (size_t)query * heads->heads + head;
    float factor,
        *out = args->attended + ((size_t)(run->first + query) * heads->heads + head) * value_dim;
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
                          .b_stride = args->matrix.rows,
                          .c = out,
                          .c_stride = value_dim,
                          .m = 1,
                          .n = value_dim,
                          .k = seen,
                          .accumulate = true};
    kernels->gemm(&gather);
}

static void attend_prompt_block(const struct gpu_prompt *args, const struct gpu_run *run,
                                uint32_t start, uint32_t count, struct prompt_workspace *room) {
    const struct kernels *kernels = arithmetic();
    const struct gpu_heads *heads = &args->heads;
    for (uint32_t head = 0; head < heads->heads; head++) {
        kernels->transpose(room->keys, KV_BLOCK_TOKENS,
                           room->expanded + (size_t)head * (heads->nope_dim + heads->value_dim),
                           args->matrix.rows, count, heads->nope_dim);
        kernels->transpose(room->keys + heads->nope_dim * KV_BLOCK_TOKENS, KV_BLOCK_TOKENS,
                           room->rows + heads->kv_rank, args->kv.width, count, heads->rope_dim);
        for (uint32_t query = 0; query < run->count; query++) {
            uint32_t index = args->kv_index[run->first + query];
            if (index < start) continue;
            uint32_t seen = index - start + 1 < count ? index - start + 1 : count;
            attend_query(args, run, query, head, seen, count, room);
        }
    }
}

static void gpu_reference_attend_run(const struct gpu_prompt *args, const struct gpu_run *run) {
    const struct gpu_heads *heads = &args->heads;
    struct prompt_workspace room = open_prompt(args, run);
    uint32_t dim = heads->nope_dim + heads->rope_dim, width = heads->heads * heads->value_dim;
    uint32_t end = args->kv_index[run->first + run->count - 1] + 1, start;
    float *attended = args->attended + (size_t)run->first * width;
    memset(attended, 0, (size_t)run->count * width * sizeof *attended);
    for (uint32_t i = 0; i < run->count; i++)
        load_plain(heads->is_bf16,
                   (const char *)args->queries + (size_t)(run->first + i) * args->queries_pitch,
                   room.q + (size_t)i * heads->heads * dim, heads->heads * dim);
    for (uint32_t i = 0; i < run->count * heads->heads; i++) {
        room.max[i] = -INFINITY;
        room.sum[i] = 0;
    }
    for (uint32_t block = 0; block * KV_BLOCK_TOKENS < end; block++) {
        uint32_t count = load_block(&args->kv, args->memory, args->pages + run->first_page, block,
                                    run->kv_first, end, room.rows, &start);
        if (!count) continue;
        gpu_reference_expand(args, count, &room);
        attend_prompt_block(args, run, start, count, &room);
    }
    for (uint32_t i = 0; i < run->count * heads->heads; i++)
        arithmetic()->scale(attended + (size_t)i * heads->value_dim, 1 / room.sum[i],
                            heads->value_dim);
    free(room.memory);
}

static void gpu_reference_prompt(const void *arguments, void *native) {
    const struct gpu_prompt *args = arguments;
    for (uint32_t i = 0; i < args->run_count; i++)
        gpu_reference_attend_run(args, &args->runs[i]);
}

#define GPU_REFERENCE_RUN(kernel, pointer_count)                                                   \
    .kernel = {#kernel " (reference)", pointer_count, gpu_reference_##kernel},

const struct gpu_kernels gpu_reference = {.numerics = "reference1", GPU_KERNELS(GPU_REFERENCE_RUN)};
