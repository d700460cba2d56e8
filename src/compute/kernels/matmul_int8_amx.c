/* SPDX-License-Identifier: Apache-2.0
 * Products of INT8 values and codes of four bits with AMX-INT8. TDPBSSD sums the 32 channels of a
 * group for 16 rows and 16 outputs. The four groups of a block have a square of sums each, which
 * leaves its tile for the scales. Codes are decoded to bytes, and four channels of 32 outputs lie
 * side by side: these are two tiles' rows.
 */
#include "compute/kernels/ints_avx512.h"

#undef INT_CODES_UNSIGNED
#define INT_CODES_UNSIGNED 0

#include "compute/kernels/amx.h"
#include "compute/kernels/int8_rows.h"
#include "compute/kernels/matmul_blocked.h"

#ifdef KERNEL_EMULATE_DOT
#define RUN matmul_int8_amx_emulated_run
#else
#define RUN matmul_int8_amx_run
#endif

#define PARTS (QUANT_GROUP / PART)
_Static_assert(PART == AMX_CHANNELS && INTS == AMX_COLUMNS && TILE_ROWS_MAX == AMX_ROWS,
               "a square");

/* A group's sums. Numbers of tiles are literals. */
#define MULTIPLY_PART(part, c, a, b)                                                               \
    do {                                                                                           \
        amx_zero(c);                                                                               \
        amx_load(a, x->x + (part)*PART, sizeof *x);                                                \
        amx_load(b, w + (part)*PART * MATMUL_PANEL, 4 * MATMUL_PANEL);                             \
        amx_multiply_int8(c, a, b);                                                                \
        amx_store(c, sum[part][0], sizeof sum[part][0]);                                           \
    } while (0)

/* 16 outputs of a panel from `out` on. Rows behind the tile's are multiplied, but not added. */
ALWAYS_INLINE void square(size_t parts, size_t out, const struct matmul_tile *t) {
    _Alignas(64) int32_t sum[PARTS][AMX_ROWS][AMX_COLUMNS];
    floats scale[PARTS];
    const struct packed_row *x = t->x;
    const char *w = (const char *)t->w + out * 4;
    float *y = t->y + out;
    MULTIPLY_PART(0, 0, 4, 6);
    if (parts > 1) MULTIPLY_PART(1, 1, 5, 7);
    if (parts > 2) MULTIPLY_PART(2, 2, 4, 6);
    if (parts > 3) MULTIPLY_PART(3, 3, 5, 7);
    for (size_t part = 0; part < parts; part++)
        scale[part] =
            floats_from_bf16(t->group_scales + part * PART / t->group * MATMUL_PANEL + out);
    for (uint32_t r = 0; r < t->rows; r++, y += t->y_stride) {
        floats before = t->first ? floats_all(0) : floats_load(y);
        for (size_t part = 0; part < parts; part++)
            before = floats_fma(floats_from_ints(ints_load(sum[part][r])),
                                floats_all(x[r].scale[part]) * scale[part], before);
        floats_store(y, before);
    }
}

static void run_tile(const struct matmul_tile *t) {
    for (size_t out = 0; out < MATMUL_PANEL; out += AMX_COLUMNS)
        if (t->count == QUANT_GROUP)
            square(PARTS, out, t);
        else
            square(t->count / PART, out, t);
}

void RUN(const struct matmul *job, uint32_t panel_first, uint32_t panel_count);
void RUN(const struct matmul *job, uint32_t panel_first, uint32_t panel_count) {
    static const struct matmul_leaf leaf = {
        .tile_rows = AMX_ROWS,
        .x_bytes = X_BYTES,
        .pack_int8 = pack_int8,
        .decode = decode,
        .tile = run_tile,
    };
    amx_configure(AMX_ROWS, AMX_DEPTH_INT8);
    matmul_blocked_run(&leaf, job, panel_first, panel_count);
    amx_release();
}
