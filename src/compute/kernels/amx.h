/* SPDX-License-Identifier: Apache-2.0
 * AMX's tiles, and what stands for them in tests on CPUs that lack them (KERNEL_EMULATE_BF16).
 * Private to src/compute/kernels, for files that are compiled for AMX or emulate it.
 *
 * A tile is a register of 16 rows of 64 bytes. Here tiles 0 to 3 are sums C[16][16] of floats, 4
 * and 5 are A[16][32] of BF16 values, 6 and 7 are B[16][16][2]: of row k the channels 2k and 2k + 1
 * of 16 columns. Sums and A may have fewer rows. Numbers of tiles are constants to the compiler.
 * Of INT8 values sums are integers, A[16][32] has rows of 32 bytes, and B[8][16][4] has 8 rows.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define AMX_ROWS 16
#define AMX_COLUMNS 16
#define AMX_CHANNELS 32 /* of A and B */

/* Rows of B, each of which meets 4 bytes of A's rows. */
enum amx_depth { AMX_DEPTH_BF16 = 16, AMX_DEPTH_INT8 = 8 };

#ifdef KERNEL_EMULATE_BF16
#include <math.h>

static _Thread_local struct {
    uint32_t rows; /* of sums and of A */
    enum amx_depth depth;
    char tile[8][16][64];
} amx_state;

static inline uint32_t amx_rows_of(int tile) {
    return tile < 6 ? amx_state.rows : (uint32_t)amx_state.depth;
}

static inline size_t amx_bytes_of(int tile) {
    return tile == 4 || tile == 5 ? 4 * (size_t)amx_state.depth : 64;
}

static inline void amx_configure(uint32_t rows, enum amx_depth depth) {
    memset(&amx_state, 0, sizeof amx_state);
    amx_state.rows = rows;
    amx_state.depth = depth;
}

#define amx_release() ((void)0)
#define amx_zero(t) memset(amx_state.tile[t], 0, sizeof amx_state.tile[t])

static inline void amx_load(int t, const void *from, size_t stride) {
    for (uint32_t r = 0; r < amx_rows_of(t); r++)
        memcpy(amx_state.tile[t][r], (const char *)from + r * stride, amx_bytes_of(t));
}

static inline void amx_store(int t, void *to, size_t stride) {
    for (uint32_t r = 0; r < amx_rows_of(t); r++)
        memcpy((char *)to + r * stride, amx_state.tile[t][r], amx_bytes_of(t));
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

/* Intel's manual: TDPBSSD. */
static inline void amx_multiply_int8(int c, int a, int b) {
    for (uint32_t m = 0; m < amx_state.rows; m++)
        for (uint32_t n = 0; n < AMX_COLUMNS; n++) {
            int32_t sum;
            memcpy(&sum, &amx_state.tile[c][m][n * 4], sizeof sum);
            for (uint32_t k = 0; k < 4 * (uint32_t)amx_state.depth; k++)
                sum += (int8_t)amx_state.tile[a][m][k] *
                       (int8_t)amx_state.tile[b][k / 4][4 * n + k % 4];
            memcpy(&amx_state.tile[c][m][n * 4], &sum, sizeof sum);
        }
}

#else
#include <immintrin.h>

/* GCC 12 does not know that tiles are loaded from memory, and might drop or move what is stored
 * there, before or afterwards. */
#define AMX_STORED __asm__ volatile("" ::: "memory")

/* All tiles are zero afterwards. */
static inline void amx_configure(uint32_t rows, enum amx_depth depth) {
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } configuration = {.palette = 1};
    for (int t = 0; t < 8; t++) {
        configuration.row_bytes[t] = t == 4 || t == 5 ? (uint16_t)(4 * depth) : 64;
        configuration.rows[t] = t < 6 ? (uint8_t)rows : (uint8_t)depth;
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
        AMX_STORED;                                                                                \
    } while (0)
#define amx_store(t, to, stride) _tile_stored(t, to, stride)
#define amx_multiply(c, a, b) _tile_dpbf16ps(c, a, b)
#define amx_multiply_int8(c, a, b) _tile_dpbssd(c, a, b)
#endif

/* Rows that are multiplied at once: 16, or all of a job that has fewer. The first `skip` of them
 * were multiplied in an earlier square. */
struct amx_square {
    int32_t first; /* of the rows that were cut; before them if negative */
    uint32_t rows, skip;
};

/* Cuts at most 32 rows; `all`: how many the job has. Fewer than 16 begin with rows that precede
 * them, unless the job is as small. Returns how many squares there are. */
static inline uint32_t amx_cut(uint32_t rows, uint32_t all, struct amx_square out[2]) {
    uint32_t size = all < AMX_ROWS ? all : AMX_ROWS, done = 0, count = 0;
    for (; done < rows; count++) {
        uint32_t end = done + size < rows ? done + size : rows;
        out[count] = (struct amx_square){
            .first = (int32_t)(end - size), .rows = size, .skip = size - (end - done)};
        done = end;
    }
    return count;
}

/* 32 channels of one or two squares high by one or two wide; strides in bytes. */
static inline __attribute__((always_inline)) void amx_multiply_step(int high, int wide,
                                                                    const char *b, size_t b_stride,
                                                                    const uint16_t *const a[2],
                                                                    size_t a_stride) {
    amx_load(6, b, b_stride);
    if (wide == 2) amx_load(7, b + 64, b_stride);
    amx_load(4, a[0], a_stride);
    amx_multiply(0, 4, 6);
    if (wide == 2) amx_multiply(1, 4, 7);
    if (high == 1) return;
    amx_load(5, a[1], a_stride);
    amx_multiply(2, 5, 6);
    if (wide == 2) amx_multiply(3, 5, 7);
}

/* Fewer than 32 channels: what lies behind them in A may be anything. */
static inline __attribute__((always_inline)) void
amx_multiply_rest(int high, int wide, const char *b, size_t b_stride, const uint16_t *const a[2],
                  size_t a_stride, uint32_t rows, uint32_t channels) {
    _Alignas(64) uint16_t rest[2][AMX_ROWS][AMX_CHANNELS] = {{{0}}};
    for (int i = 0; i < high; i++)
        for (uint32_t r = 0; r < rows; r++)
            memcpy(rest[i][r], (const char *)a[i] + r * a_stride, channels * sizeof(uint16_t));
    amx_multiply_step(high, wide, b, b_stride, (const uint16_t *const[]){rest[0][0], rest[1][0]},
                      sizeof rest[0][0]);
}
