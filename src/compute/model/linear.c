/* SPDX-License-Identifier: Apache-2.0
 * The team's loop runs over all panels of all jobs, so that eight small experts occupy as many
 * threads as one large matrix. The result of a panel does not depend on its thread.
 */
#include "compute/model/linear.h"

#include "base/check.h"
#include "compute/model/kv_rounding.h"

#include <string.h>

#define FEW_ROWS 12 /* up to here kernels may take panels in pairs */

enum input_kind linear_input_kind(enum activations activations, enum weight_type type, bool ue8m0) {
    bool quantized = type == WEIGHT_FP8 &&
                     (activations == ACTIVATIONS_FP8 || activations == ACTIVATIONS_FP8_F32);
    if (quantized) return ue8m0 ? INPUT_FP8_UE8M0 : INPUT_FP8;
    if (activations == ACTIVATIONS_INT8 && weight_type_group(type)) return INPUT_INT8;
    return activations_round_bf16(activations) ? INPUT_BF16 : INPUT_F32;
}

enum row_mla_mode linear_row_mode(enum input_kind kind) {
    static const enum row_mla_mode modes[] = {[INPUT_F32] = ROW_F32,
                                              [INPUT_BF16] = ROW_BF16,
                                              [INPUT_FP8] = ROW_FP8,
                                              [INPUT_FP8_UE8M0] = ROW_FP8,
                                              [INPUT_INT8] = ROW_INT8};
    return modes[kind];
}

enum input_kind linear_kind_of(enum activations activations, const struct packed_matrix *weights) {
    const bool fp8 = activations == ACTIVATIONS_FP8, floats = activations == ACTIVATIONS_FP8_F32;
    const bool narrow = weights->input_group == 32;
    if (weights->type == WEIGHT_FP8 || !weights->input_group || (!fp8 && !floats))
        return linear_input_kind(activations, weights->type, weights->ue8m0);
    if (floats) return narrow ? INPUT_CODES_32_F32 : INPUT_CODES_128_F32;
    return narrow ? INPUT_CODES_32_BF16 : INPUT_CODES_128_BF16;
}

enum input_kind linear_stored_kind(enum input_kind kind) {
    if (kind == INPUT_CODES_32_F32 || kind == INPUT_CODES_128_F32) return INPUT_F32;
    if (kind == INPUT_CODES_32_BF16 || kind == INPUT_CODES_128_BF16) return INPUT_BF16;
    return kind;
}

/* Replaces a row by the values of its codes, in place. */
static void linear_round_codes(enum input_kind kind, float *x, uint32_t n) {
    const bool narrow = kind == INPUT_CODES_32_F32 || kind == INPUT_CODES_32_BF16;
    kv_rounding_e4m3(x, n, narrow ? 32 : QUANT_GROUP);
}

static uint16_t *linear_block_of(const struct input_buffer *buffer, uint32_t row,
                                 uint32_t channel) {
    return buffer->blocks + channel / QUANT_GROUP * buffer->block_stride +
           (size_t)row * QUANT_GROUP;
}

static int8_t *linear_int8_of(const struct input_buffer *buffer, uint32_t row, uint32_t channel) {
    return (int8_t *)(void *)linear_block_of(buffer, row, channel);
}

static uint32_t linear_block_channels(uint32_t n, uint32_t first) {
    return n - first < QUANT_GROUP ? n - first : QUANT_GROUP;
}

static size_t scales_stride(const struct input_buffer *buffer) {
    return divide_up(buffer->columns, buffer->scale_group);
}

static float *row_scales(const struct input_buffer *buffer, uint32_t row) {
    return buffer->scales + row * scales_stride(buffer);
}

/* Fills up a row with zeros, as kernels read whole vectors of its last channels. */
static void fill_up(const struct input_buffer *buffer, uint32_t row, uint32_t n) {
    if (n % 16)
        memset(linear_block_of(buffer, row, n) + n % QUANT_GROUP, 0,
               (16 - n % 16) * sizeof(uint16_t));
}

void linear_prepare(const struct kernels *kernels, enum input_kind kind, const float *x, uint32_t n,
                    const struct input_buffer *buffer, uint32_t row) {
    check(n <= buffer->columns);
    const enum input_kind stored = linear_stored_kind(kind);
    if (stored == INPUT_F32) {
        float *to = buffer->x + (size_t)row * buffer->columns;
        memcpy(to, x, n * sizeof *x);
        if (kind != stored) linear_round_codes(kind, to, n);
        return;
    }
    float *scales = stored == INPUT_BF16 ? NULL : row_scales(buffer, row);
    if (kind == INPUT_INT8) {
        for (uint32_t c = 0; c < n; c += QUANT_GROUP)
            kernels->quantize_int8(linear_int8_of(buffer, row, c), scales + c / INT8_GROUP, x + c,
                                   linear_block_channels(n, c));
        return;
    }
    for (uint32_t c = 0; c < n; c += QUANT_GROUP) {
        float values[QUANT_GROUP];
        const float *from = x + c;
        if (scales) {
            kernels->quantize_e4m3(values, scales + c / QUANT_GROUP, from,
                                   linear_block_channels(n, c), kind == INPUT_FP8_UE8M0);
            from = values;
        } else if (kind != stored) {
            memcpy(values, from, linear_block_channels(n, c) * sizeof *values);
            linear_round_codes(kind, values, linear_block_channels(n, c));
            from = values;
        }
        kernels->bf16_from_float(linear_block_of(buffer, row, c), from,
                                 linear_block_channels(n, c));
    }
    fill_up(buffer, row, n);
}

void linear_copy(enum input_kind kind, uint32_t n, const struct input_buffer *from,
                 uint32_t from_row, const struct input_buffer *to, uint32_t to_row) {
    check(n <= from->columns && n <= to->columns);
    kind = linear_stored_kind(kind);
    if (kind == INPUT_F32) {
        memcpy(to->x + (size_t)to_row * to->columns, from->x + (size_t)from_row * from->columns,
               n * sizeof(float));
        return;
    }
    for (uint32_t c = 0; c < n; c += QUANT_GROUP)
        if (kind == INPUT_INT8)
            memcpy(linear_int8_of(to, to_row, c), linear_int8_of(from, from_row, c), QUANT_GROUP);
        else
            memcpy(linear_block_of(to, to_row, c), linear_block_of(from, from_row, c),
                   QUANT_GROUP * sizeof(uint16_t));
    if (kind != INPUT_BF16)
        memcpy(row_scales(to, to_row), row_scales(from, from_row),
               divide_up(n, from->scale_group) * sizeof(float));
}

void linear_row_out(enum row_mla_mode form, uint32_t n, const struct input_buffer *from,
                    uint32_t row, char *bytes) {
    if (form == ROW_F32) {
        memcpy(bytes, from->x + (size_t)row * from->columns, n * sizeof *from->x);
        return;
    }
    for (uint32_t c = 0; c < n; c += QUANT_GROUP) {
        const uint16_t *block = linear_block_of(from, row, c);
        if (form == ROW_INT8)
            memcpy(bytes + c, linear_int8_of(from, row, c), linear_block_channels(n, c));
        else if (form == ROW_FP8)
            exchange_rows_encode(block, linear_block_channels(n, c), (uint8_t *)bytes + c);
        else
            memcpy(bytes + c * sizeof *block, block, linear_block_channels(n, c) * sizeof *block);
    }
    if (form != ROW_BF16)
        memcpy(bytes + exchange_rows_scales_at(n), row_scales(from, row),
               divide_up(n, from->scale_group) * sizeof *from->scales);
}

void linear_row_in(enum row_mla_mode form, uint32_t n, const char *bytes,
                   const struct input_buffer *to, uint32_t row) {
    if (form == ROW_F32) {
        memcpy(to->x + (size_t)row * to->columns, bytes, n * sizeof *to->x);
        return;
    }
    for (uint32_t c = 0; c < n; c += QUANT_GROUP) {
        uint16_t *block = linear_block_of(to, row, c);
        if (form == ROW_INT8)
            memcpy(linear_int8_of(to, row, c), bytes + c, linear_block_channels(n, c));
        else if (form == ROW_FP8)
            exchange_rows_decode((const uint8_t *)bytes + c, linear_block_channels(n, c), block);
        else
            memcpy(block, bytes + c * sizeof *block, linear_block_channels(n, c) * sizeof *block);
    }
    if (form != ROW_INT8) fill_up(to, row, n);
    if (form != ROW_BF16)
        memcpy(row_scales(to, row), bytes + exchange_rows_scales_at(n),
               divide_up(n, to->scale_group) * sizeof *to->scales);
}

struct linear_input linear_prepared(enum input_kind kind, const struct input_buffer *buffer,
                                    uint32_t first_row) {
    kind = linear_stored_kind(kind);
    if (kind == INPUT_F32)
        return linear_plain(buffer->x + (size_t)first_row * buffer->columns, buffer->columns,
                            false);
    size_t scale_stride = scales_stride(buffer);
    const bool int8 = kind == INPUT_INT8;
    return (struct linear_input){
        .x_blocks = int8 ? NULL : linear_block_of(buffer, first_row, 0),
        .x_int8 = int8 ? linear_int8_of(buffer, first_row, 0) : NULL,
        .x_block_stride = buffer->block_stride,
        .scales = kind == INPUT_BF16 ? NULL : row_scales(buffer, first_row),
        .scale_stride = scale_stride,
        .is_bf16 = true,
    };
}

struct linear_input linear_plain(const float *x, size_t x_stride, bool is_bf16) {
    return (struct linear_input){.x = x, .x_stride = x_stride, .is_bf16 = is_bf16};
}

struct matmul linear_job(const struct packed_matrix *weights, const struct linear_input *input,
                         float *y, size_t y_stride, uint32_t m) {
    return (struct matmul){
        .weights = weights,
        .x = input->x,
        .x_stride = input->x_stride,
        .x_blocks = input->x_blocks,
        .x_int8 = input->x_int8,
        .x_block_stride = input->x_block_stride,
        .x_scales = input->scales,
        .x_scale_stride = input->scale_stride,
        .y = y,
        .y_stride = y_stride,
        .m = m,
        .x_is_bf16 = input->is_bf16,
    };
}

struct panel_loop {
    const struct kernels *kernels;
    const struct matmul *jobs;
    uint32_t job_count;
    const uint32_t *first_panel; /* [job_count + 1] running sum of panels */
};

static void run_panels(void *context, uint32_t first, uint32_t count, uint32_t member) {
    const struct panel_loop *loop = context;
    uint32_t low = 0, high = loop->job_count; /* the job that holds item `first` */
    while (high - low > 1) {
        uint32_t intermediate = (low + high) / 2;
        if (loop->first_panel[intermediate] <= first)
            low = intermediate;
        else
            high = intermediate;
    }
    for (uint32_t job = low; count; job++) {
        uint32_t panel = first - loop->first_panel[job];
        uint32_t left = loop->first_panel[job + 1] - first;
        uint32_t share = count < left ? count : left;
        if (share) loop->kernels->matmul(&loop->jobs[job], panel, share);
        first += share;
        count -= share;
    }
}

void linear_run(const struct kernels *kernels, struct team *team, const struct matmul *jobs,
                uint32_t job_count) {
    uint32_t first_panel[LINEAR_JOBS_MAX + 1], rows_max = 0;
    check(job_count <= LINEAR_JOBS_MAX);
    first_panel[0] = 0;
    for (uint32_t i = 0; i < job_count; i++) {
        first_panel[i + 1] =
            first_panel[i] + (jobs[i].m ? packed_panels(jobs[i].weights->rows) : 0);
        if (jobs[i].m > rows_max) rows_max = jobs[i].m;
    }
    uint32_t panels = first_panel[job_count];
    if (!panels) return;
    struct panel_loop loop = {kernels, jobs, job_count, first_panel};
    bool pairs = rows_max <= FEW_ROWS && panels >= team_threads(team) * 2;
    team_run_even(team, run_panels, &loop, panels, pairs ? 2 : 1);
}
