/* SPDX-License-Identifier: Apache-2.0
 * Protects what travels between ranks: rows come out of the wire bit for bit as the kernels made
 * them, for every E4M3 code, for BF16 and F32, with ragged last groups, and nothing is written
 * behind a row.
 */
#include <math.h>

#define TEST_OWN_MAIN
#include "test_case.h"

#include "base/bytes.h"
#include "base/limits.h"
#include "base/random.h"
#include "compute/model/exchange_rows.h"

#define ROW_MAX 400

static const struct kernels *kernels;

static void draw_row(float *x, uint32_t n, uint64_t seed) {
    for (uint32_t i = 0; i < n; i++)
        x[i] = (float)(random_uniform(seed, 0, i) - 0.5) *
               powf(2, (float)(random_uniform(seed, 1, i) * 40 - 20));
    if (n > 3) x[3] = -0.0f;
}

static void check_row(enum row_mla_mode form, const float *x, uint32_t n) {
    char wire[ROW_MAX * sizeof(float) + 64];
    float back[ROW_MAX];
    size_t bytes = exchange_rows_bytes(form, n);
    assert_true(bytes % 16 == 0 && bytes <= sizeof wire - 16);
    memset(wire, 0x5A, sizeof wire);
    exchange_rows_pack(kernels, form, x, n, wire);
    for (size_t i = bytes; i < sizeof wire; i++)
        assert_int_equal(wire[i], 0x5A);
    exchange_rows_unpack(kernels, form, wire, n, back);
    assert_memory_equal(back, x, n * sizeof *x);
}

static void check_codes(const float *x, uint32_t n) {
    uint16_t values[ROW_MAX], back[ROW_MAX];
    uint8_t codes[ROW_MAX + 1];
    kernels->bf16_from_float(values, x, n);
    codes[n] = 0x5A;
    exchange_rows_encode(values, n, codes);
    assert_int_equal(codes[n], 0x5A);
    exchange_rows_decode(codes, n, back);
    assert_memory_equal(back, values, n * sizeof *values);
}

TEST(rows_come_out_as_they_went_in) {
    static const uint32_t sizes[] = {1, 5, 16, 96, 127, 128, 200, 256, ROW_MAX};
    float x[ROW_MAX], rounded[ROW_MAX], scales[ROW_MAX / QUANT_GROUP + 1];
    for (uint32_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        draw_row(x, sizes[i], i);
        check_row(ROW_F32, x, sizes[i]);
        kernels->round_bf16(rounded, x, sizes[i]);
        check_row(ROW_BF16, rounded, sizes[i]);
        kernels->quantize_e4m3(rounded, scales, x, sizes[i], i % 2);
        check_codes(rounded, sizes[i]);
    }
}

/* Packing to BF16 is the rounding that one rank does in place. */
TEST(packing_rounds_as_one_rank_does) {
    float x[ROW_MAX], rounded[ROW_MAX], back[ROW_MAX];
    char wire[ROW_MAX * sizeof(float)];
    draw_row(x, ROW_MAX, 77);
    kernels->round_bf16(rounded, x, ROW_MAX);
    exchange_rows_pack(kernels, ROW_BF16, x, ROW_MAX, wire);
    exchange_rows_unpack(kernels, ROW_BF16, wire, ROW_MAX, back);
    assert_memory_equal(back, rounded, sizeof back);
}

TEST(every_e4m3_code_travels) {
    uint8_t codes[256], again[256];
    uint16_t values[256];
    float x[256];
    for (int code = 0; code < 256; code++)
        codes[code] = (uint8_t)code;
    exchange_rows_decode(codes, 256, values);
    kernels->float_from_bf16(x, values, 256);
    assert_true(x[0x01] == 0x1p-9f && x[0x07] == 0x7p-9f && x[0x08] == 0x1p-6f && x[0x38] == 1);
    assert_true(x[0x7E] == 448 && x[0xFE] == -448 && isnan(x[0x7F]) && isnan(x[0xFF]));
    exchange_rows_encode(values, 256, again);
    for (int code = 0; code < 256; code++)
        if (code != 0xFF) assert_int_equal(codes[code], again[code]); /* a NaN's sign may go */
}

int main(void) {
    if (kernels_select(kernels_detect(), &kernels, NULL) != STATUS_OK) return 1;
    return test_cases_run();
}
