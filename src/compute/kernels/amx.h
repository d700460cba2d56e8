/* SPDX-License-Identifier: Apache-2.0
 * AMX's tiles, and what stands for them in tests on CPUs that lack them (KERNEL_EMULATE_BF16). Private to
 * src/compute/kernels, for files that are compiled for AMX or emulate it.
 *
 * A tile is a register of 16 rows of 64 bytes. Here tiles 0 to 3 are sums C[16][16] of floats, 4 and
 * 5 are A[16][32] of BF16 values, 6 and 7 are B[16][16][2]: of row k the channels 2k and 2k + 1 of 16
 * columns. Sums and A may have fewer rows. Numbers of tiles are constants to the compiler.
 */
#ifndef COMPUTE_KERNELS_AMX_H
#define COMPUTE_KERNELS_AMX_H

#include <stddef.h>
#include <stdint.h>

#define AMX_ROWS 16
#define AMX_COLUMNS 16
#define AMX_CHANNELS 32 /* of A and B */

#ifdef KERNEL_EMULATE_BF16
#include <math.h>
#include <string.h>

static _Thread_local struct {
    uint32_t rows; /* of sums and of A */
    char tile[8][16][64];
} amx_state;

static inline uint32_t amx_rows_of(int tile) {
    return tile < 6 ? amx_state.rows : 16;
}

static inline void amx_configure(uint32_t rows) {
    memset(&amx_state, 0, sizeof amx_state);
    amx_state.rows = rows;
}

#define amx_release() ((void)0)
#define amx_zero(t) memset(amx_state.tile[t], 0, sizeof amx_state.tile[t])

static inline void amx_load(int t, const void *from, size_t stride) {
    for (uint32_t r = 0; r < amx_rows_of(t); r++)
        memcpy(amx_state.tile[t][r], (const char *)from + r * stride, 64);
}

static inline void amx_store(int t, void *to, size_t stride) {
    for (uint32_t r = 0; r < amx_rows_of(t); r++)
        memcpy((char *)to + r * stride, amx_state.tile[t][r], 64);
}

static inline float amx_flushed(float value) {
    return fabsf(value) < 0x1p-126f ? copysignf(0, value) : value;
}

/* A BF16 value of a tile: its row and its place in the row. */
static inline float amx_value(int t, uint32_t row, uint32_t at) {
    uint32_t bits = 0;
    float value;
    memcpy((char *)&bits + 2, &amx_state.tile[t][row][at * 2], 2);
    memcpy(&value, &bits, sizeof value);
    return amx_flushed(value);
}

/* Intel's manual: TDPBF16PS. */
static inline void amx_multiply(int c, int a, int b) {
    for (uint32_t m = 0; m < amx_state.rows; m++)
        for (uint32_t n = 0; n < AMX_COLUMNS; n++) {
            float sums[2] = {0, 0}, all;
            for (uint32_t k = 0; k < AMX_CHANNELS; k++)
                sums[k % 2] = amx_flushed(
                    fmaf(amx_value(a, m, k), amx_value(b, k / 2, 2 * n + k % 2), sums[k % 2]));
            memcpy(&all, &amx_state.tile[c][m][n * 4], sizeof all);
            all = amx_flushed(amx_flushed(all) + amx_flushed(sums[0] + sums[1]));
            memcpy(&amx_state.tile[c][m][n * 4], &all, sizeof all);
        }
}

#else
#include <immintrin.h>

/* GCC 12 does not know that tiles are loaded from memory, and might drop or move what was stored there. */
#define AMX_STORED __asm__ volatile("" ::: "memory")

/* All tiles are zero afterwards. */
static inline void amx_configure(uint32_t rows) {
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } configuration = {.palette = 1};
    for (int t = 0; t < 8; t++) {
        configuration.row_bytes[t] = 64;
        configuration.rows[t] = t < 6 ? (uint8_t)rows : 16;
    }
    __asm__ volatile("" : : "r"(&configuration) : "memory");
    _tile_loadconfig(&configuration);
}

#define amx_release() _tile_release() /* switching threads is dearer while tiles are in use */
#define amx_zero(t) _tile_zero(t)
#define amx_load(t, from, stride)                                                                  \
    do {                                                                                           \
        AMX_STORED;                                                                                \
        _tile_loadd(t, from, stride);                                                              \
    } while (0)
#define amx_store(t, to, stride) _tile_stored(t, to, stride)
#define amx_multiply(c, a, b) _tile_dpbf16ps(c, a, b)
#endif

#endif
