/* SPDX-License-Identifier: Apache-2.0
 * Dense products of attention with BFDOT: gemm_neon.c, two channels at a time. B is read as it
 * lies: rows of a KV page are paired within the tile. Columns that are no whole vector go to the
 * plain C twin, which has the same bits.
 */
#include "compute/kernels/tables.h"

#include "compute/kernels/neon.h"

#define ROWS 6
#define STRETCH 192 /* steps: 12 KiB of a B strip 16 wide */

/* Some rows and columns of a job. Columns are sums: 32 bits of C, and of B but in BF16_ROWS. */
struct bfdot_piece {
    const uint16_t *a, *b;
    float *c;
    size_t a_stride, b_stride, c_stride;
    uint32_t steps; /* of two channels; BF16_FOURS: of four */
    bool half_last; /* BF16_ROWS: the last step has one channel */
    bool accumulate;
};

/* A step's vectors of B, four columns each; BF16_ROWS: of rows 2 step and 2 step + 1. */
ALWAYS_INLINE void load_step(enum bf16_layout layout, int vectors, const struct bfdot_piece *t,
                             const uint16_t *b, bool half, bfloat16x8_t right[8]) {
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++) {
        uint16x8_t pairs;
        if (layout == BF16_ROWS) {
            uint16x4_t even = vld1_u16(b + 4 * v);
            uint16x4_t odd = half ? vdup_n_u16(0) : vld1_u16(b + t->b_stride + 4 * v);
            uint16x4x2_t both = vzip_u16(even, odd);
            pairs = vcombine_u16(both.val[0], both.val[1]);
        } else {
            pairs = vld1q_u16(b + 8 * v);
        }
        right[v] = vreinterpretq_bf16_u16(pairs);
    }
}

ALWAYS_INLINE void multiply_step(enum bf16_layout layout, int rows, int vectors,
                                 const struct bfdot_piece *t, const uint16_t *a, const uint16_t *b,
                                 bool half, float32x4_t sum[ROWS][8]) {
    bfloat16x8_t right[8];
    load_step(layout, vectors, t, b, half, right);
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) {
        uint64_t values = 0;
        memcpy(&values, a + (size_t)r * t->a_stride, layout == BF16_FOURS ? 8 : 4);
        bfloat16x8_t factor = layout == BF16_FOURS
                                  ? vreinterpretq_bf16_u64(vdupq_n_u64(values))
                                  : vreinterpretq_bf16_u32(vdupq_n_u32((uint32_t)values));
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++)
            sum[r][v] = vbfdotq_f32(sum[r][v], right[v], factor);
    }
}

/* rows x 4 * vectors of C. */
ALWAYS_INLINE void tile(enum bf16_layout layout, int rows, int vectors,
                        const struct bfdot_piece *t) {
    float32x4_t sum[ROWS][8];
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++)
            sum[r][v] = t->accumulate ? vld1q_f32(t->c + (size_t)r * t->c_stride + 4 * (size_t)v)
                                      : vdupq_n_f32(0);
    const uint16_t *a = t->a, *b = t->b;
    uint32_t a_step = layout == BF16_FOURS ? 4 : 2, whole = t->steps - t->half_last;
    size_t b_step = layout == BF16_ROWS ? 2 * t->b_stride : t->b_stride;
    for (uint32_t step = 0; step < whole; step++, a += a_step, b += b_step)
        multiply_step(layout, rows, vectors, t, a, b, false, sum);
    if (layout == BF16_ROWS && t->half_last)
        multiply_step(layout, rows, vectors, t, a, b, true, sum);
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++)
            vst1q_f32(t->c + (size_t)r * t->c_stride + 4 * (size_t)v, sum[r][v]);
}

/* vectors: 1, 4, or 8 for one or two rows, where more chains must be in flight. */
ALWAYS_INLINE void run_tile(enum bf16_layout layout, uint32_t rows, uint32_t vectors,
                            const struct bfdot_piece *t) {
    /* clang-format off */
    switch (rows + 10 * vectors) {
    case 11: tile(layout, 1, 1, t); break;
    case 12: tile(layout, 2, 1, t); break;
    case 13: tile(layout, 3, 1, t); break;
    case 14: tile(layout, 4, 1, t); break;
    case 15: tile(layout, 5, 1, t); break;
    case 16: tile(layout, 6, 1, t); break;
    case 41: tile(layout, 1, 4, t); break;
    case 42: tile(layout, 2, 4, t); break;
    case 43: tile(layout, 3, 4, t); break;
    case 44: tile(layout, 4, 4, t); break;
    case 45: tile(layout, 5, 4, t); break;
    case 46: tile(layout, 6, 4, t); break;
    case 81: tile(layout, 1, 8, t); break;
    case 82: tile(layout, 2, 8, t); break;
    default: __builtin_unreachable();
    }
    /* clang-format on */
}

static void run_layout(enum bf16_layout layout, uint32_t rows, uint32_t vectors,
                       const struct bfdot_piece *t) {
    if (layout == BF16_ROWS)
        run_tile(BF16_ROWS, rows, vectors, t);
    else if (layout == BF16_PAIRS)
        run_tile(BF16_PAIRS, rows, vectors, t);
    else
        run_tile(BF16_FOURS, rows, vectors, t);
}

/* `width` sums of a row. */
static void run_stretch(const struct gemm_bf16 *job, uint32_t width, uint32_t first_step,
                        uint32_t steps) {
    uint32_t a_step = job->layout == BF16_FOURS ? 4 : 2;
    uint32_t b_rows = job->layout == BF16_ROWS ? 2 : 1,
             b_columns = job->layout == BF16_ROWS ? 1 : 2;
    uint32_t tiles = (uint32_t)divide_up(job->m, ROWS), columns;
    for (uint32_t n = 0; n < width; n += columns) {
        uint32_t left = width - n;
        columns = left >= 32 && job->m <= 2 ? 32 : left >= 16 ? 16 : 4;
        for (uint32_t i = 0; i < tiles; i++) {
            uint32_t first = (uint32_t)((uint64_t)job->m * i / tiles);
            struct bfdot_piece piece = {
                .a = job->a + first * job->a_stride + (size_t)first_step * a_step,
                .b = job->b + (size_t)first_step * b_rows * job->b_stride + (size_t)n * b_columns,
                .c = job->c + first * job->c_stride + n,
                .a_stride = job->a_stride,
                .b_stride = job->b_stride,
                .c_stride = job->c_stride,
                .steps = steps,
                .half_last = (first_step + steps) * a_step > job->k,
                .accumulate = job->accumulate || first_step > 0,
            };
            run_layout(job->layout, (uint32_t)((uint64_t)job->m * (i + 1) / tiles) - first,
                       columns / 4, &piece);
        }
    }
}

void gemm_neonbf16_run(const struct gemm_bf16 *job) {
    static const uint32_t adjacent[] = {[BF16_ROWS] = 1, [BF16_PAIRS] = 2, [BF16_FOURS] = 4};
    uint32_t sums = job->layout == BF16_FOURS ? 2 : 1; /* of a column */
    uint32_t steps = (uint32_t)divide_up(job->k, job->layout == BF16_FOURS ? 4 : 2), step = 0;
    struct gemm_bf16 rest = *job;
    rest.n = job->n % (4 / sums);
    uint32_t whole = job->n - rest.n;
    do {
        uint32_t count = steps - step < STRETCH ? steps - step : STRETCH;
        run_stretch(job, whole * sums, step, count);
        step += count;
    } while (step < steps);
    rest.b += (size_t)whole * adjacent[job->layout];
    rest.c += (size_t)whole * sums;
    if (rest.n) matmul_c_gemm_bfdot_c_run(&rest);
}
