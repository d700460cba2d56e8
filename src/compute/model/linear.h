/* SPDX-License-Identifier: Apache-2.0
 * Linear layers in each activation mode: the preparation (rounding or quantization) of an input,
 * and the matrix product, which the threads of the team share by panels of weights.
 *
 *   f32      nothing is rounded
 *   bf16     every linear's input is rounded to BF16; the router reads unrounded f32
 *   fp8      FP8 weights take inputs quantized in 1x128 groups; others as in bf16
 *   fp8-f32  FP8 weights take quantized inputs (kv_b never); everything else f32
 *   int8     weights in four bits take inputs rounded to INT8 in groups of 32; others as in bf16
 *
 * In V4 the quantized inputs are those of all linears that its releases store in FP8 or FP4, but
 * for wo_a (struct packed_matrix, input_group).
 */
#pragma once

#include "compute/kernels/kernels.h"
#include "compute/kernels/team.h"
#include "compute/model/activations.h"
#include "compute/model/exchange_rows.h"

enum input_kind {
    INPUT_F32,
    INPUT_BF16,
    INPUT_FP8,
    INPUT_FP8_UE8M0,
    INPUT_INT8,
    /* The values of E4M3 codes times powers of two, in groups of 128 or 32 channels, kept as F32 or
     * BF16, which both hold them exactly: where the weights have no E4M3 scales themselves. */
    INPUT_CODES_128_F32,
    INPUT_CODES_32_F32,
    INPUT_CODES_128_BF16,
    INPUT_CODES_32_BF16
};

/* A linear's input: rows of floats, or rows of BF16 or INT8 values in blocks of channels
 * (matmul.h). If they are INT8, or BF16 values of E4M3 codes, there are also scales. */
struct linear_input {
    const float *x; /* [m][x_stride] */
    size_t x_stride;
    const uint16_t *x_blocks;
    const int8_t *x_int8;
    size_t x_block_stride;
    const float *scales; /* [m][scale_stride], or NULL */
    size_t scale_stride;
    bool is_bf16;
};

/* A buffer for prepared rows. Floats and BF16 values have separate memory, as two micro-batches
 * that share a buffer may need one kind each at the same time. Memory that the mode never needs is
 * NULL. */
struct input_buffer {
    float *x; /* [rows][columns] for INPUT_F32 */
    /* [columns / 128, rounded up][block_stride], with [rows][128] used: BF16 values, for all other
     * kinds. INT8 values take the first half of a row's 256 bytes, as two micro-batches that share
     * a buffer may need one kind each */
    uint16_t *blocks;
    float *scales;        /* [rows][columns / scale_group, rounded up] for kinds that have them */
    uint32_t scale_group; /* 128; INT8_GROUP in a mode with INPUT_INT8 */
    size_t block_stride;  /* in values */
    uint32_t columns;     /* the widest input; also the stride */
};

/* The format of an input's values in a buffer: INPUT_F32, INPUT_BF16, or with scales. */
enum input_kind linear_stored_kind(enum input_kind kind);

/* The input format of a matrix in this mode. */
enum input_kind linear_kind_of(enum activations activations, const struct packed_matrix *weights);
/* The input format for a weight of `type` in this mode. `ue8m0`: scales are powers of two
 * (layout_is_ue8m0). */
enum input_kind linear_input_kind(enum activations activations, enum weight_type type, bool ue8m0);

/* Prepares x in the format `kind` as row `row` of the buffer. */
void linear_prepare(const struct kernels *kernels, enum input_kind kind, const float *x, uint32_t n,
                    const struct input_buffer *buffer, uint32_t row);

/* Copies a prepared row of n channels. */
void linear_copy(enum input_kind kind, uint32_t n, const struct input_buffer *from,
                 uint32_t from_row, const struct input_buffer *to, uint32_t to_row);

/* Copies a prepared row of n channels to `bytes`, and back. exchange_rows.h documents the layout of
 * `form`, which is the one of the kind's values (linear_row_mode). */
enum row_mla_mode linear_row_mode(enum input_kind kind);
void linear_row_out(enum row_mla_mode form, uint32_t n, const struct input_buffer *from,
                    uint32_t row, char *bytes);
void linear_row_in(enum row_mla_mode form, uint32_t n, const char *bytes,
                   const struct input_buffer *to, uint32_t row);

/* The prepared rows from first_row on as an input. */
struct linear_input linear_prepared(enum input_kind kind, const struct input_buffer *buffer,
                                    uint32_t first_row);

/* Unprepared rows of floats as an input. */
struct linear_input linear_plain(const float *x, size_t x_stride, bool is_bf16);

struct matmul linear_job(const struct packed_matrix *weights, const struct linear_input *input,
                         float *y, size_t y_stride, uint32_t m);

/* Computes all jobs in one loop of the team. The panels of all jobs are its work items. */
#define LINEAR_JOBS_MAX 4096
void linear_run(const struct kernels *kernels, struct team *team, const struct matmul *jobs,
                uint32_t job_count);
