/* SPDX-License-Identifier: Apache-2.0
 * Dense products of attention with AMX: squares of 16 rows and 16 columns of C (matmul_amx.c), 32
 * channels at a time. Pairs of channels are read as they lie; rows of a KV page are paired first, a
 * strip of 32 columns at a time.
 *
 * KERNEL_EMULATE_BF16 builds the same code without AMX, for tests on CPUs that lack it.
 */
#include "compute/kernels/tables.h"

#include <immintrin.h>
#include <string.h>

#include "base/check.h"
#include "compute/kernels/amx.h"
#include "compute/kernels/bf16_dot.h"

#define STRIP 32                                   /* columns */
#define STRETCH 768                                /* channels: 48 KiB of a strip */
#define STRIP_BYTES (STRIP * 2 * sizeof(uint16_t)) /* of a pair of channels */

#ifdef KERNEL_EMULATE_BF16
#define gemm_amx_run gemm_amx_emulated_run
void gemm_amx_run(const struct gemm_bf16 *job);
#endif

/* A strip of B: [channels / 2][columns][2]. */
struct strip {
    const char *pairs;
    size_t stride; /* bytes */
    uint32_t first_channel, channels;
    uint32_t column, columns; /* at most 32 */
    /* Lines of job->ahead that are still to be fetched, and how many with each step: */
    uint32_t ahead_row, ahead_end, ahead_each;
};

/* Row `row` of what lies at pieces, each of KV_BLOCK_TOKENS rows. */
static const uint16_t *row_of(const uint16_t *const *pieces, uint32_t row, size_t stride) {
    return pieces[row / KV_BLOCK_TOKENS] + row % KV_BLOCK_TOKENS * stride;
}

/* Pairs of two rows of B: of 32 columns, or those of the mask. */
static __attribute__((always_inline)) inline void copy_pair(const uint16_t *even,
                                                            const uint16_t *odd, __mmask32 mask,
                                                            __mmask32 odd_mask, char *out) {
    const __m512i low = _mm512_loadu_si512(bf16_beside);
    const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
    __m512i first = _mm512_maskz_loadu_epi16(mask, even);
    __m512i second = _mm512_maskz_loadu_epi16(odd_mask, odd);
    _mm512_store_si512(out, _mm512_permutex2var_epi16(first, low, second));
    _mm512_store_si512(out + 64, _mm512_permutex2var_epi16(first, high, second));
}

/* Rows of B as pairs. */
static char *copy_rows(const struct gemm_bf16 *job, const struct strip *strip, char *out) {
    const __mmask32 mask = (__mmask32)((1ull << strip->columns) - 1);
    uint32_t k = strip->first_channel, end = k + strip->channels;
    while (k < end) {
        const uint16_t *b =
            (job->pieces ? row_of(job->pieces, k, job->b_stride) : job->b + k * job->b_stride) +
            strip->column;
        uint32_t next = job->pieces ? (uint32_t)round_up(k + 1, KV_BLOCK_TOKENS) : end;
        if (next > end) next = end;
        for (; k + 1 < next; k += 2, b += 2 * job->b_stride, out += STRIP_BYTES)
            copy_pair(b, b + job->b_stride, mask, mask, out);
        if (k == next) continue;
        copy_pair(b, b, mask, 0, out);
        out += STRIP_BYTES;
        k++;
    }
    return out;
}

static char *copy_pairs(const struct gemm_bf16 *job, const struct strip *strip, char *out) {
    const __mmask32 mask = (__mmask32)((1ull << strip->columns) - 1);
    uint32_t end = strip->first_channel + strip->channels;
    for (uint32_t k = strip->first_channel; k < end; k += 2, out += STRIP_BYTES) {
        const uint16_t *b = job->b + k / 2 * job->b_stride + (size_t)strip->column * 2;
        _mm512_store_si512(out, _mm512_maskz_loadu_epi32((__mmask16)mask, b));
        _mm512_store_si512(out + 64, _mm512_maskz_loadu_epi32((__mmask16)(mask >> 16), b + 32));
    }
    return out;
}

/* Some channels and columns of B as pairs, with zeros up to whole squares. */
static void copy_strip(const struct gemm_bf16 *job, const struct strip *strip, char *out) {
    char *end = out + round_up(strip->channels, AMX_CHANNELS) / 2 * STRIP_BYTES;
    out = job->layout == BF16_PAIRS ? copy_pairs(job, strip, out) : copy_rows(job, strip, out);
    memset(out, 0, (size_t)(end - out));
}

/* Brings some lines of what is wanted next near. */
static __attribute__((always_inline)) inline void fetch(const struct gemm_bf16 *job,
                                                        struct strip *strip) {
    uint32_t end = strip->ahead_row + strip->ahead_each;
    if (end > strip->ahead_end) end = strip->ahead_end;
    for (; strip->ahead_row < end; strip->ahead_row++)
        _mm_prefetch(
            (const char *)(row_of(job->ahead, strip->ahead_row, job->b_stride) + strip->column),
            _MM_HINT_T1);
}

/* Squares of sums in memory, side by side. */
typedef float sums[AMX_ROWS][STRIP];

/* Brings C's rows of a square here, those that were done before as they are now. */
static void load_sums(const struct gemm_bf16 *job, const struct strip *strip, uint32_t row,
                      const struct amx_square *square, sums to) {
    const __mmask32 mask = (__mmask32)((1ull << strip->columns) - 1);
    for (uint32_t r = 0; r < square->rows; r++) {
        const float *c =
            job->c + (row + (uint32_t)square->first + r) * job->c_stride + strip->column;
        _mm512_store_ps(to[r], _mm512_maskz_loadu_ps((__mmask16)mask, c));
        _mm512_store_ps(to[r] + 16, _mm512_maskz_loadu_ps((__mmask16)(mask >> 16), c + 16));
    }
}

static void store_sums(const struct gemm_bf16 *job, const struct strip *strip, uint32_t row,
                       const struct amx_square *square, sums from) {
    const __mmask32 mask = (__mmask32)((1ull << strip->columns) - 1);
    for (uint32_t r = square->skip; r < square->rows; r++) {
        float *c = job->c + (row + (uint32_t)square->first + r) * job->c_stride + strip->column;
        _mm512_mask_storeu_ps(c, (__mmask16)mask, _mm512_load_ps(from[r]));
        _mm512_mask_storeu_ps(c + 16, (__mmask16)(mask >> 16), _mm512_load_ps(from[r] + 16));
    }
}

/* Tiles 0 to 3 of sums, from and to rows that lie side by side. */
static __attribute__((always_inline)) inline void
load_tiles(int high, int wide, const float *const from[2], size_t stride) {
    amx_load(0, from[0], stride);
    if (wide == 2) amx_load(1, from[0] + AMX_COLUMNS, stride);
    if (high == 1) return;
    amx_load(2, from[1], stride);
    if (wide == 2) amx_load(3, from[1] + AMX_COLUMNS, stride);
}

static __attribute__((always_inline)) inline void store_tiles(int high, int wide,
                                                              float *const to[2], size_t stride) {
    amx_store(0, to[0], stride);
    if (wide == 2) amx_store(1, to[0] + AMX_COLUMNS, stride);
    if (high == 1) return;
    amx_store(2, to[1], stride);
    if (wide == 2) amx_store(3, to[1] + AMX_COLUMNS, stride);
}

/* Rows of A from the strip's first channel on, `stride` bytes apart: as they lie, or in room if
 * they are of two pieces. */
static const uint16_t *take_a(const struct gemm_bf16 *job, const struct strip *strip,
                              uint32_t first, uint32_t rows, uint16_t room[AMX_ROWS][STRETCH],
                              size_t *stride) {
    const uint32_t channel = strip->first_channel;
    *stride = job->a_stride * sizeof(uint16_t);
    if (!job->pieces || job->layout == BF16_ROWS) return job->a + first * job->a_stride + channel;
    if (first / KV_BLOCK_TOKENS == (first + rows - 1) / KV_BLOCK_TOKENS)
        return row_of(job->pieces, first, job->a_stride) + channel;
    for (uint32_t r = 0; r < rows; r++)
        memcpy(room[r], row_of(job->pieces, first + r, job->a_stride) + channel,
               strip->channels * sizeof(uint16_t));
    *stride = sizeof room[0];
    return room[0];
}

/* One or two squares high, one or two wide. Whole squares of new rows are summed where C lies,
 * others in a room of their own. */
static __attribute__((always_inline)) inline void multiply(int high, int wide,
                                                           const struct gemm_bf16 *job,
                                                           struct strip *strip, uint32_t row,
                                                           const struct amx_square square[2]) {
    _Alignas(64) sums room[2];
    const bool loads = job->accumulate || strip->first_channel > 0;
    const bool whole = strip->columns == (uint32_t)wide * AMX_COLUMNS && !square[0].skip &&
                       (high == 1 || !square[1].skip);
    _Alignas(64) uint16_t copy[AMX_ROWS][STRETCH]; /* of one square: only the last rows need it */
    size_t a_stride = 0;
    const size_t stride = whole ? job->c_stride * sizeof(float) : sizeof room[0][0];
    const uint16_t *a[2];
    float *sum[2];
    for (int i = 0; i < high; i++) {
        uint32_t first = row + (uint32_t)square[i].first;
        a[i] = take_a(job, strip, first, square[i].rows, copy, &a_stride);
        sum[i] = whole ? job->c + first * job->c_stride + strip->column : room[i][0];
        if (loads && !whole) load_sums(job, strip, row, &square[i], room[i]);
    }
    if (!loads) {
        amx_zero(0);
        amx_zero(1);
        amx_zero(2);
        amx_zero(3);
    } else {
        load_tiles(high, wide, (const float *const *)sum, stride);
    }
    const char *b = strip->pairs;
    uint32_t k = 0;
    for (; k + AMX_CHANNELS <= strip->channels; k += AMX_CHANNELS) {
        amx_multiply_step(high, wide, b, strip->stride, a, a_stride);
        fetch(job, strip);
        b += AMX_CHANNELS / 2 * strip->stride;
        a[0] += AMX_CHANNELS;
        if (high == 2) a[1] += AMX_CHANNELS;
    }
    if (k < strip->channels)
        amx_multiply_rest(high, wide, b, strip->stride, a, a_stride, square[0].rows,
                          strip->channels - k);
    store_tiles(high, wide, sum, stride);
    for (int i = 0; i < high && !whole; i++)
        store_sums(job, strip, row, &square[i], room[i]);
}

static void run_squares(const struct gemm_bf16 *job, struct strip *strip, uint32_t row) {
    struct amx_square square[2];
    uint32_t left = job->m - row;
    uint32_t high = amx_cut(left < 2 * AMX_ROWS ? left : 2 * AMX_ROWS, job->m, square);
    bool wide = strip->columns > AMX_COLUMNS;
    if (high == 2 && wide)
        multiply(2, 2, job, strip, row, square);
    else if (high == 2)
        multiply(2, 1, job, strip, row, square);
    else if (wide)
        multiply(1, 2, job, strip, row, square);
    else
        multiply(1, 1, job, strip, row, square);
}

/* `room`: of STRETCH / 2 * STRIP_BYTES, at a multiple of 64. */
static void run_strip(const struct gemm_bf16 *job, struct strip *strip, char *room) {
    bool whole = strip->columns % AMX_COLUMNS == 0 && strip->channels % AMX_CHANNELS == 0;
    if (job->layout == BF16_PAIRS && whole) {
        strip->pairs = (const char *)(job->b + strip->first_channel / 2 * job->b_stride +
                                      (size_t)strip->column * 2);
        strip->stride = job->b_stride * sizeof(uint16_t);
    } else {
        copy_strip(job, strip, room);
        strip->pairs = room;
        strip->stride = STRIP_BYTES;
    }
    strip->ahead_row = strip->first_channel;
    strip->ahead_end = strip->first_channel + (job->ahead ? strip->channels : 0);
    strip->ahead_each =
        (uint32_t)divide_up(strip->channels, divide_up(job->m, 2 * AMX_ROWS) *
                                                 divide_up(strip->channels, AMX_CHANNELS));
    for (uint32_t row = 0; row < job->m; row += 2 * AMX_ROWS)
        run_squares(job, strip, row);
}

void gemm_amx_run(const struct gemm_bf16 *job) {
    check(job->layout != BF16_FOURS);
    amx_configure(job->m < AMX_ROWS ? job->m : AMX_ROWS, AMX_DEPTH_BF16);
    struct strip strip;
    _Alignas(64) char room[STRETCH / 2 * STRIP_BYTES];
    for (uint32_t first = 0; first < job->k; first += STRETCH) {
        strip.first_channel = first;
        strip.channels = job->k - first < STRETCH ? job->k - first : STRETCH;
        for (uint32_t column = 0; column < job->n; column += STRIP) {
            strip.column = column;
            strip.columns = job->n - column < STRIP ? job->n - column : STRIP;
            run_strip(job, &strip, room);
        }
    }
    amx_release();
}
