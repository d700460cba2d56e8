/* SPDX-License-Identifier: Apache-2.0
 * Protects the dense products of attention: every level gives the plain C twin's bits for ragged
 * sizes and strides, stays inside its buffers, and a row has the same bits in any batch.
 */
#include "test_case.h"

#include "levels.h"

#include <math.h>

#include "base/check.h"
#include "base/number.h"
#include "compute/kernels/tables.h"

struct problem {
    struct gemm job;
    float *a, *b, *c;
    size_t a_bytes, b_bytes, c_bytes;
};

static struct problem problem_make(uint64_t *state, uint32_t m, uint32_t n, uint32_t k,
                                   bool accumulate, enum numbers numbers) {
    struct problem p = {.job = {.a_stride = k + 3,
                                .b_stride = n + 5,
                                .c_stride = n + 1,
                                .m = m,
                                .n = n,
                                .k = k,
                                .accumulate = accumulate}};
    p.a_bytes = ((m - 1) * p.job.a_stride + k) * sizeof(float);
    p.b_bytes = ((k - 1) * p.job.b_stride + n) * sizeof(float);
    p.c_bytes = ((m - 1) * p.job.c_stride + n) * sizeof(float);
    p.a = levels_buffer(p.a_bytes);
    p.b = levels_buffer(p.b_bytes);
    p.c = levels_buffer(p.c_bytes);
    levels_fill(state, numbers, p.a, p.a_bytes / sizeof(float));
    levels_fill(state, numbers == NUMBERS_LARGE ? NUMBERS_NORMAL : numbers, p.b,
                p.b_bytes / sizeof(float));
    levels_fill(state, numbers, p.c, p.c_bytes / sizeof(float));
    p.job.a = p.a;
    p.job.b = p.b;
    return p;
}

static void problem_free(struct problem *p) {
    levels_free(p->a, p->a_bytes);
    levels_free(p->b, p->b_bytes);
    levels_free(p->c, p->c_bytes);
}

/* C as the level leaves it: what lies between the rows must stay. */
static float *multiply(const struct kernels *level, const struct problem *p) {
    float *c = levels_buffer(p->c_bytes);
    memcpy(c, p->c, p->c_bytes);
    struct gemm job = p->job;
    job.c = c;
    level->gemm(&job);
    return c;
}

static void check_near_exact(const struct problem *p, const float *c) {
    const struct gemm *job = &p->job;
    for (uint32_t r = 0; r < job->m; r++)
        for (uint32_t n = 0; n < job->n; n++) {
            double exact = job->accumulate ? (double)p->c[r * job->c_stride + n] : 0;
            double size = fabs(exact);
            for (uint32_t k = 0; k < job->k; k++) {
                double term =
                    (double)p->a[r * job->a_stride + k] * (double)p->b[k * job->b_stride + n];
                exact += term;
                size += fabs(term);
            }
            double found = (double)c[r * job->c_stride + n];
            assert_true(fabs(found - exact) <= (job->k + 1) * 0x1p-24 * size + job->k * 0x1p-149);
        }
}

static void check_problem(const struct problem *p, const struct kernels *levels, uint32_t count) {
    float *expected = multiply(&levels[0], p);
    check_near_exact(p, expected);
    for (uint32_t l = 1; l < count; l++) {
        float *found = multiply(&levels[l], p);
        levels_check_same(levels[l].name, expected, found, p->c_bytes / sizeof(float));
        levels_free(found, p->c_bytes);
    }
    levels_free(expected, p->c_bytes);
}

TEST(levels_agree_to_the_bit) {
    static const uint32_t ms[] = {1, 2, 3, 4, 6, 7, 12, 13, 16, 31};
    static const uint32_t ns[] = {1, 7, 8, 9, 15, 16, 17, 31, 33, 64, 127, 128, 161};
    static const uint32_t ks[] = {1, 2, 63, 64, 191, 192, 193, 400};
    struct kernels levels[LEVELS_MAX];
    uint32_t count = levels_list(levels), turn = 0;
    uint64_t state = 11;
    for (size_t m = 0; m < ARRAY_COUNT(ms); m++)
        for (size_t n = 0; n < ARRAY_COUNT(ns); n++, turn++) {
            struct problem p = problem_make(&state, ms[m], ns[n], ks[turn % ARRAY_COUNT(ks)],
                                            turn / 8 % 2, (enum numbers)(turn % NUMBERS_COUNT));
            check_problem(&p, levels, count);
            problem_free(&p);
        }
}

/* The same product with A or B as BF16 values. */
TEST(bf16_values_are_their_floats) {
    static const uint32_t ms[] = {1, 3, 8, 13, 64}, ns[] = {1, 8, 13, 16, 40, 129};
    static const uint32_t ks[] = {1, 2, 63, 192, 193, 577};
    struct kernels levels[LEVELS_MAX];
    uint32_t count = levels_list(levels), turn = 0;
    uint64_t state = 13;
    for (size_t m = 0; m < ARRAY_COUNT(ms); m++)
        for (size_t n = 0; n < ARRAY_COUNT(ns); n++, turn++) {
            struct problem p = problem_make(&state, ms[m], ns[n], ks[turn % ARRAY_COUNT(ks)],
                                            turn % 2, NUMBERS_MIXED);
            const bool of_b = turn / 2 % 2;
            float *floats = of_b ? p.b : p.a;
            size_t values = (of_b ? p.b_bytes : p.a_bytes) / sizeof(float);
            uint16_t *bf16 = levels_buffer(values * sizeof *bf16);
            for (size_t i = 0; i < values; i++) {
                bf16[i] = bf16_from_float(floats[i]);
                floats[i] = float_from_bf16(bf16[i]);
            }
            float *expected = multiply(&levels[0], &p);
            struct problem halves = p;
            halves.job.a = of_b ? p.a : NULL;
            halves.job.b = of_b ? NULL : p.b;
            halves.job.a_bf16 = of_b ? NULL : bf16;
            halves.job.b_bf16 = of_b ? bf16 : NULL;
            for (uint32_t l = 0; l < count; l++) {
                float *found = multiply(&levels[l], &halves);
                levels_check_same(levels[l].name, expected, found, p.c_bytes / sizeof(float));
                levels_free(found, p.c_bytes);
            }
            levels_free(expected, p.c_bytes);
            levels_free(bf16, values * sizeof *bf16);
            problem_free(&p);
        }
}

/* A row alone, and a product in two steps over k, give the same bits as all at once. */
TEST(rows_and_stretches_do_not_matter) {
    struct kernels levels[LEVELS_MAX];
    uint32_t count = levels_list(levels);
    uint64_t state = 12;
    struct problem p = problem_make(&state, 30, 150, 250, false, NUMBERS_MIXED);
    for (uint32_t l = 0; l < count; l++) {
        float *all = multiply(&levels[l], &p);
        for (uint32_t r = 0; r < p.job.m; r++) {
            float row[150];
            struct gemm job = p.job;
            job.a += r * job.a_stride;
            job.m = 1;
            job.c = row;
            job.k = 1 + levels_random(&state) % 249;
            levels[l].gemm(&job);
            job.a += job.k;
            job.b += job.k * job.b_stride;
            job.k = p.job.k - job.k;
            job.accumulate = true;
            levels[l].gemm(&job);
            levels_check_same(levels[l].name, all + r * p.job.c_stride, row, 150);
        }
        levels_free(all, p.c_bytes);
    }
    problem_free(&p);
}

#define PIECES_MAX 16

/* Where each piece of 64 rows begins. */
static void cut_pieces(const uint16_t *rows, uint32_t count, size_t stride,
                       const uint16_t *pieces[PIECES_MAX]) {
    assert_true(count <= PIECES_MAX * KV_BLOCK_TOKENS);
    for (uint32_t i = 0; i * KV_BLOCK_TOKENS < count; i++)
        pieces[i] = rows + i * KV_BLOCK_TOKENS * stride;
}

/* Copies a context's rows into pieces of their own, the last one as long as it is. */
static void copy_pieces(const uint16_t *rows, uint32_t count, size_t stride, size_t last_row,
                        uint16_t *pieces[PIECES_MAX]) {
    for (uint32_t i = 0; i * KV_BLOCK_TOKENS < count; i++) {
        uint32_t first = i * KV_BLOCK_TOKENS, left = count - first;
        uint32_t rows_here = left < KV_BLOCK_TOKENS ? left : KV_BLOCK_TOKENS;
        size_t bytes = ((rows_here - 1) * stride + last_row) * sizeof *rows;
        pieces[i] = levels_buffer(bytes);
        memcpy(pieces[i], rows + first * stride, bytes);
    }
}

static void free_pieces(uint32_t count, size_t stride, size_t last_row,
                        uint16_t *pieces[PIECES_MAX]) {
    for (uint32_t i = 0; i * KV_BLOCK_TOKENS < count; i++) {
        uint32_t left = count - i * KV_BLOCK_TOKENS;
        uint32_t rows_here = left < KV_BLOCK_TOKENS ? left : KV_BLOCK_TOKENS;
        levels_free(pieces[i], ((rows_here - 1) * stride + last_row) * sizeof(uint16_t));
    }
}

/* A context whose rows lie in pieces, as A and as B, gives the bits of one whose rows follow each
 * other; and so does the twin. */
TEST(pieces_give_the_bits_of_the_whole) {
    enum { WIDTH = 72, MOST = 130 };
    static const uint32_t counts[] = {1, 2, 16, 31, 63, 64, 65, 70, 79, 80, 96, 127, 128, 129, 130};
    struct kernels levels[LEVELS_MAX];
    uint32_t level_count = levels_list(levels);
    uint64_t state = 14;
    uint16_t rows[MOST * WIDTH], others[MOST * WIDTH * 2], *pieces[PIECES_MAX] = {0};
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++)
        rows[i] = bf16_from_float(levels_number(&state, NUMBERS_NORMAL));
    for (size_t i = 0; i < ARRAY_COUNT(others); i++)
        others[i] = bf16_from_float(levels_number(&state, NUMBERS_MIXED));
    for (uint32_t l = 0; l < level_count; l++)
        for (size_t i = 0; i < ARRAY_COUNT(counts) && levels[l].gemm_bf16; i++) {
            if (levels[l].core_blocks == 1) continue; /* reads no pieces */
            const uint32_t count = counts[i];
            static float whole[MOST * WIDTH], found[MOST * WIDTH], simulator[MOST * WIDTH];
            struct gemm_bf16 as_a = {.layout = BF16_PAIRS,
                                     .a = rows,
                                     .a_stride = WIDTH,
                                     .b = others,
                                     .b_stride = 2 * 33,
                                     .c_stride = WIDTH,
                                     .m = count,
                                     .n = 33,
                                     .k = 66};
            struct gemm_bf16 as_b = {.layout = BF16_ROWS,
                                     .a = others,
                                     .a_stride = MOST + 2,
                                     .b = rows,
                                     .b_stride = WIDTH,
                                     .c_stride = WIDTH,
                                     .m = 19,
                                     .n = 70,
                                     .k = count};
            for (uint32_t row = 0; row < as_b.m && count % 2; row++)
                others[row * as_b.a_stride + count] = 0;
            copy_pieces(rows, count, WIDTH, WIDTH, pieces);
            for (int of_b = 0; of_b < 2; of_b++) {
                struct gemm_bf16 job = of_b ? as_b : as_a;
                size_t values = (size_t)job.m * job.c_stride;
                memset(whole, 0, sizeof whole);
                memset(found, 0, sizeof found);
                memset(simulator, 0, sizeof simulator);
                job.c = whole;
                levels[l].gemm_bf16(&job);
                job.pieces = (const uint16_t *const *)pieces;
                job.ahead = of_b ? job.pieces : NULL;
                job.c = found;
                levels[l].gemm_bf16(&job);
                job.c = simulator;
                levels_simulator(&levels[l])->gemm_bf16(&job);
                levels_check_same(levels[l].name, whole, found, values);
                levels_check_same("twin", whole, simulator, values);
            }
            free_pieces(count, WIDTH, WIDTH, pieces);
        }
}

/* Products of BF16 values: each level that has them gives its plain C twin's bits in every layout,
 * whether or not values are fetched ahead, and stays inside its buffers. */
TEST(bf16_layouts_agree_to_the_bit) {
    static const uint32_t ms[] = {1, 3, 4, 11, 14, 16, 64}, ns[] = {1, 8, 15, 16, 17, 32, 33, 144};
    struct kernels levels[LEVELS_MAX];
    uint32_t count = levels_list(levels);
    uint64_t state = 13;
    for (int layout = BF16_ROWS; layout <= BF16_FOURS; layout++)
        for (size_t turn = 0; turn < ARRAY_COUNT(ms) * ARRAY_COUNT(ns); turn++) {
            static const uint32_t beside[] = {1, 2, 4}, steps[] = {1, 32, 33, 64, 420};
            uint32_t k = beside[layout] * steps[turn % ARRAY_COUNT(steps)];
            struct gemm_bf16 job = {.layout = (enum bf16_layout)layout,
                                    .m = ms[turn % ARRAY_COUNT(ms)],
                                    .n = ns[turn / ARRAY_COUNT(ms)],
                                    .k = k,
                                    .accumulate = turn / 5 % 2};
            uint32_t k_even = (uint32_t)round_up(k, 2), sums = layout == BF16_FOURS ? 2 : 1;
            job.a_stride = k_even + 2;
            job.b_stride = job.n * beside[layout] + 6;
            job.c_stride = job.n * sums + 1;
            size_t a_count = (job.m - 1) * job.a_stride + k_even;
            size_t b_count = (k / beside[layout] - 1) * job.b_stride + job.n * beside[layout];
            size_t c_count = (job.m - 1) * job.c_stride + job.n * sums;
            uint16_t *a = levels_buffer(a_count * 2), *b = levels_buffer(b_count * 2);
            float *c = levels_buffer(c_count * 4), *expected = levels_buffer(c_count * 4);
            float *found = levels_buffer(c_count * 4);
            for (size_t i = 0; i < a_count; i++)
                a[i] = bf16_from_float(levels_number(&state, NUMBERS_NORMAL));
            for (uint32_t row = 0; row < job.m && k_even > k; row++)
                a[row * job.a_stride + k] = 0;
            for (size_t i = 0; i < b_count; i++)
                b[i] = bf16_from_float(levels_number(&state, NUMBERS_MIXED));
            levels_fill(&state, NUMBERS_NORMAL, c, c_count);
            job.a = a;
            job.b = b;
            const uint16_t *ahead[PIECES_MAX];
            if (layout == BF16_ROWS) cut_pieces(b, k, job.b_stride, ahead);
            if (layout == BF16_ROWS && turn % 2) job.ahead = ahead;
            for (uint32_t l = 0; l < count; l++) {
                if (!levels[l].gemm_bf16) continue;
                if (layout == BF16_FOURS && levels[l].few_columns != BF16_FOURS) continue;
                job.c = memcpy(expected, c, c_count * sizeof *c);
                levels_simulator(&levels[l])->gemm_bf16(&job);
                job.c = memcpy(found, c, c_count * sizeof *c);
                levels[l].gemm_bf16(&job);
                levels_check_same(levels[l].name, expected, found, c_count);
            }
            levels_free(a, a_count * 2);
            levels_free(b, b_count * 2);
            levels_free(c, c_count * 4);
            levels_free(expected, c_count * 4);
            levels_free(found, c_count * 4);
        }
}
