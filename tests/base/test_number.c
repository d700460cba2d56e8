/* SPDX-License-Identifier: Apache-2.0
 * Protects the smaller and the larger of two; and the number formats: every code of the small ones,
 * and rounding against its definition.
 */
#include "base/number.h"

#include "test_case.h"

/* Also at the ends of their types, and with the larger one on either side. */
TEST(the_smaller_and_the_larger_of_two_are_found) {
    assert_int_equal(min_u32(1, UINT32_MAX), 1);
    assert_int_equal(min_u32(UINT32_MAX, 1), 1);
    assert_int_equal(max_u32(0, UINT32_MAX), UINT32_MAX);
    assert_int_equal(max_u32(7, 7), 7);
    assert_true(max_u64(UINT64_MAX, UINT32_MAX) == UINT64_MAX);
    assert_true(max_u64((uint64_t)1 << 32, 5) == (uint64_t)1 << 32);
    assert_true(min_i64(INT64_MIN, INT64_MAX) == INT64_MIN);
    assert_true(min_i64(-1, 0) == -1 && min_i64(0, -1) == -1);
    assert_true(max_double(-0.5, 0.25) == 0.25 && max_double(0.25, -0.5) == 0.25);
    assert_true(isinf(max_double(1e308, INFINITY)));
}

TEST(bf16_rounds_to_nearest_even) {
    for (uint32_t high = 0; high < 0x10000; high += 7) {
        if ((high & 0x7FFF) >= 0x7F80) continue;
        assert_int_equal(bf16_from_float(float_from_bits(high << 16)), high);
        assert_int_equal(bf16_from_float(float_from_bits(high << 16 | 0x7FFF)), high);
        assert_int_equal(bf16_from_float(float_from_bits(high << 16 | 0x8000)), high + (high & 1));
        assert_int_equal(bf16_from_float(float_from_bits(high << 16 | 0x8001)), high + 1);
    }
    assert_int_equal(bf16_from_float(INFINITY), 0x7F80);
    assert_true(isnan(float_from_bf16(bf16_from_float(float_from_bits(0x7F800001)))));
}

/* value = (-1)^s (1 + f/1024) 2^(e-15), or f 2^-24 when e is 0 */
TEST(every_f16_code_has_its_value) {
    for (uint32_t code = 0; code < 0x10000; code++) {
        int exponent = (int)(code >> 10 & 31), fraction = (int)(code & 1023);
        float value = float_from_f16((uint16_t)code);
        if (exponent == 31) {
            assert_true(fraction ? isnan(value) : isinf(value));
            continue;
        }
        double wanted = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
        assert_true(fabs((double)value) == wanted && !signbit(value) == !(code >> 15));
    }
}

/* Every code comes back; halfway between neighbours goes to the even one, beyond it to the nearer.
 */
TEST(f16_rounds_to_nearest_even) {
    for (uint32_t code = 0; code < 0x7C00; code++) {
        float low = float_from_f16((uint16_t)code), high = float_from_f16((uint16_t)(code + 1));
        if (code == 0x7BFF) high = 65536.0f;
        float middle = low + (high - low) / 2;
        assert_int_equal(f16_from_float(low), code);
        assert_int_equal(f16_from_float(-low), code | 0x8000);
        assert_int_equal(f16_from_float(middle), code + (code & 1));
        assert_int_equal(f16_from_float(nextafterf(middle, 0)), code);
        assert_int_equal(f16_from_float(nextafterf(middle, INFINITY)), code + 1);
    }
    assert_int_equal(f16_from_float(INFINITY), 0x7C00);
    assert_true(isnan(float_from_f16(f16_from_float(NAN))));
}

static double e4m3_value(uint32_t code) {
    int exponent = (int)(code >> 3 & 15), fraction = (int)(code & 7);
    return exponent ? ldexp(8 + fraction, exponent - 10) : ldexp(fraction, -9);
}

TEST(every_e4m3_code_has_its_value) {
    for (uint32_t code = 0; code < 256; code++) {
        float value = float_from_e4m3((uint8_t)code);
        if ((code & 0x7F) == 0x7F) {
            assert_true(isnan(value));
            continue;
        }
        assert_true(fabs((double)value) == e4m3_value(code & 0x7F));
        assert_int_equal(e4m3_from_float(value), code);
    }
}

/* Between two neighbours the nearer wins, and in the middle the even one. */
TEST(e4m3_rounds_to_nearest_even) {
    for (uint32_t code = 0; code < 0x7E; code++) {
        float low = float_from_e4m3((uint8_t)code), high = float_from_e4m3((uint8_t)(code + 1));
        float middle = (low + high) / 2;
        assert_int_equal(e4m3_from_float(middle), code + (code & 1));
        assert_int_equal(e4m3_from_float(nextafterf(middle, 0)), code);
        assert_int_equal(e4m3_from_float(nextafterf(middle, 1000)), code + 1);
        assert_int_equal(e4m3_from_float(-middle), 0x80 | (code + (code & 1)));
    }
    assert_int_equal(e4m3_from_float(1e30f), 0x7E);
    assert_int_equal(e4m3_from_float(-INFINITY), 0xFE);
    assert_int_equal(e4m3_from_float(NAN) & 0x7F, 0x7F);
}

TEST(a_sum_stays_at_its_end) {
    assert_true(sum_i64(3, -5) == -2);
    assert_true(sum_i64(INT64_MAX, 1) == INT64_MAX);
    assert_true(sum_i64(INT64_MAX - 1, 1) == INT64_MAX);
    assert_true(sum_i64(-1, INT64_MIN) == INT64_MIN);
    assert_true(sum_i64(INT64_MIN, INT64_MAX) == -1);
}
