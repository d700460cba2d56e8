/* SPDX-License-Identifier: Apache-2.0
 * Protects real numbers as text: the digits of Python's repr(), and that they read back. */
#include <math.h>

#include "base/real.h"

#include "test_case.h"

TEST(numbers_are_written_as_python_does) {
    static const struct {
        double value;
        const char *text;
    } rows[] = {
        {0.0, "0.0"},
        {-0.0, "-0.0"},
        {1.0, "1.0"},
        {0.1, "0.1"},
        {0.1 + 0.2, "0.30000000000000004"},
        {1.0 / 3, "0.3333333333333333"},
        {1e15, "1000000000000000.0"},
        {1e16, "1e+16"},
        {1e22, "1e+22"},
        {1e-4, "0.0001"},
        {1e-5, "1e-05"},
        {123456789.123, "123456789.123"},
        {1.5e300, "1.5e+300"},
        {5e-324, "5e-324"},
        {9007199254740993.0, "9007199254740992.0"},
        {9.5367431640625e-7, "9.5367431640625e-07"},
        {1.7976931348623157e308, "1.7976931348623157e+308"},
        {INFINITY, "inf"},
        {-INFINITY, "-inf"},
        {NAN, "nan"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[REAL_TEXT_BYTES];
        size_t count = real_write(rows[i].value, text);
        assert_string_equal(text, rows[i].text);
        assert_int_equal(count, strlen(rows[i].text));
    }
}

TEST(what_is_written_reads_back) {
    uint64_t bits = 1;
    for (int i = 0; i < 20000; i++) {
        double value, back;
        char text[REAL_TEXT_BYTES];
        bits = bits * 6364136223846793005u + 1442695040888963407u;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value)) continue;
        size_t count = real_write(value, text);
        assert_true(real_read((struct bytes){text, count}, &back));
        assert_memory_equal(&value, &back, sizeof value);
    }
}

TEST(only_whole_numbers_are_read) {
    static const char *const good[] = {"1", "-1.5", "+.5", "5.", "1e5", "1.5E-7", "00.1"};
    static const char *const bad[] = {"",   ".",   "-",   "1e",   "e5",  "1.5.2", " 1",
                                      "1 ", "inf", "nan", "0x10", "1e+", "--1",   "1_0"};
    double value;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_true(real_read(bytes_of(good[i]), &value));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(real_read(bytes_of(bad[i]), &value));
    assert_true(real_read(bytes_of("1e999"), &value));
    assert_true(isinf(value));
}
