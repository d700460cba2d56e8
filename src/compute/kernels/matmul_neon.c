/* SPDX-License-Identifier: Apache-2.0
 * Matrix products with NEON: matmul_body.h, with tiles half a panel wide, or a whole one for one or
 * two rows. FP8 becomes float through half-floats, as in matmul_avx512.c, and codes of four bits
 * through integers of eight bits and a table of 16 (TBL). Nothing is fetched ahead by hand: panels
 * are read from their first byte to their last, which processors see by themselves, and no arm64
 * machine was there to measure more.
 */
#include "compute/kernels/tables.h"

#include "compute/kernels/lanes_neon.h"

#include "compute/kernels/code_values.h"
#include "compute/kernels/lanes.h"
#include "compute/kernels/matmul_blocked.h"
#include "compute/kernels/neon.h"

#define ROWS 6
#define WHOLE_ROWS 2
#define PAIR_ROWS 0
#define DIRECT_ROWS 2

ALWAYS_INLINE void load_16(enum tile_source source, const char *w, size_t k, size_t first,
                           lanes out[4]) {
    const size_t at = k * MATMUL_PANEL + first;
    if (source == TILE_FP8) {
        neon_load_codes(w + at, out);
        return;
    }
    for (size_t v = 0; v < 4; v++)
        out[v] = source == TILE_BF16
                     ? load_bf16((const uint16_t *)(const void *)w + at + v * LANES, LANES)
                     : lanes_load((const float *)(const void *)w + at + v * LANES);
}

ALWAYS_INLINE void look_ahead(enum tile_source source, const struct matmul_tile *t, size_t panel,
                              size_t k) {
}

/* Codes as integers: in each word those of channels 0, 4, 1 and 5, and those of 2, 6, 3 and 7. */
struct neon_codes {
    int32x4_t of[2];
};
typedef struct neon_codes lane_codes;

ALWAYS_INLINE lane_codes load_codes(enum weight_type type, const char *w) {
    const int8x16_t values = vld1q_s8(code_values_of(type));
    const uint8x16_t bytes = vld1q_u8((const uint8_t *)w);
    return (lane_codes){{vreinterpretq_s32_s8(vqtbl1q_s8(values, vandq_u8(bytes, vdupq_n_u8(15)))),
                         vreinterpretq_s32_s8(vqtbl1q_s8(values, vshrq_n_u8(bytes, 4)))}};
}

ALWAYS_INLINE lanes next_code(lane_codes *codes, int c) {
    const int byte = c % 2 * 2 + c / 4;
    int32x4_t top = vshlq_s32(codes->of[c / 2 % 2], vdupq_n_s32(24 - 8 * byte));
    return vcvtq_f32_s32(vshrq_n_s32(top, 24));
}

#include "compute/kernels/matmul_body.h"

static void decode_fp8(float *out, const char *w, uint32_t count) {
    decode_source(TILE_FP8, out, w, count);
}

static void run_fp8_tile(const struct matmul_tile *t) {
    tile_of_source(TILE_FP8, t);
}

void matmul_neon_run(const struct matmul *job, uint32_t panel_first, uint32_t panel_count) {
    if (job->x_int8) {
        matmul_int8_run_128(job, panel_first, panel_count);
        return;
    }
    multiply(job, panel_first, panel_count);
}
