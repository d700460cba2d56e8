/* SPDX-License-Identifier: Apache-2.0
 * Protects sets of numbers: what an automaton accepts is a JSON number within the bounds, and every
 * number without an exponent within them is accepted. Held against arithmetic on integers.
 */
#include <math.h>

#include "automata.h"
#include "base/check.h"
#include "serving/grammar/automata/number_set.h"

static struct decimal read_decimal(const char *text) {
    struct decimal value;
    if (number_set_decimal_read(bytes_of(text), &value)) fail_msg("%s is no decimal", text);
    return value;
}

TEST(it_reads_decimals_in_one_form) {
    static const char *const same[][2] = {{"1", "1.0"},     {"100", "1e2"},      {"-0", "0.00e5"},
                                          {"0.05", "5E-2"}, {"12.50", "125e-1"}, {"1e+3", "1000"},
                                          {"-7", "-7.000"}};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        struct decimal a = read_decimal(same[i][0]), b = read_decimal(same[i][1]);
        assert_memory_equal(&a, &b, sizeof a);
        assert_int_equal(number_set_decimal_compare(&a, &b), 0);
    }
}

TEST(it_refuses_what_is_no_decimal) {
    struct decimal value;
    static const char *const cases[] = {"", "-", "a", "1x", "1e", "1e+", ".5", "--1", "1.2.3"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(number_set_decimal_read(bytes_of(cases[i]), &value), STATUS_INVALID);
    assert_int_equal(number_set_decimal_read(bytes_of("1e999"), &value), STATUS_UNSUPPORTED);
    assert_int_equal(
        number_set_decimal_read(bytes_of("1.00000000000000000000000000000000000000001"), &value),
        STATUS_UNSUPPORTED);
}

TEST(it_orders_decimals) {
    static const char *const ascending[] = {"-1e5", "-99.5", "-99",  "-1",     "-0.05",
                                            "0",    "0.001", "0.05", "0.0501", "1",
                                            "9",    "10",    "10.5", "1e300"};
    size_t count = sizeof ascending / sizeof *ascending;
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < count; j++) {
            struct decimal a = read_decimal(ascending[i]), b = read_decimal(ascending[j]);
            int compared = number_set_decimal_compare(&a, &b);
            assert_true(i < j ? compared < 0 : i > j ? compared > 0 : compared == 0);
        }
}

/* Thousandths of what "-12.050" spells. */
static long thousandths(const char *text) {
    bool negative = *text == '-';
    long value = 0, digits = -1;
    for (text += negative; *text; text++) {
        if (*text == '.') digits = 0;
        if (*text == '.') continue;
        value = value * 10 + (*text - '0');
        digits += digits >= 0;
    }
    for (digits = digits < 0 ? 0 : digits; digits < 3; digits++)
        value *= 10;
    return negative ? -value : value;
}

static void random_number(uint64_t *random, char *out) {
    static const char *const tails[] = {"", ".0", ".00", ".5", ".25", ".125", ".050", ".999"};
    sprintf(out, "%s%u%s", test_random(random) % 2 ? "-" : "",
            test_random(random) % (test_random(random) % 2 ? 12 : 1200),
            tails[test_random(random) % 8]);
}

static bool is_in(const struct number_set *set, const char *min, const char *max,
                  const char *multiple, const char *text) {
    long value = thousandths(text);
    if (set->whole && value % 1000) return false;
    if (set->has_min && value < thousandths(min) + set->min_excluded) return false;
    if (set->has_max && value > thousandths(max) - set->max_excluded) return false;
    return !set->has_multiple || value % thousandths(multiple) == 0;
}

TEST(it_holds_the_numbers_within_its_bounds) {
    static const char *const multiples[] = {"1", "2", "3", "0.5", "0.05", "10", "2.5", "1.0", "60"};
    uint64_t random = 1;
    int in = 0;
    for (int round = 0; round < 400; round++) {
        char min[16], max[16], text[16];
        random_number(&random, min);
        random_number(&random, max);
        const char *multiple = multiples[test_random(&random) % 9];
        uint32_t flags = test_random(&random);
        struct number_set set = {.has_min = flags & 1,
                                 .has_max = flags & 2,
                                 .min_excluded = flags & 4,
                                 .max_excluded = flags & 8,
                                 .whole = (flags & 48) == 0,
                                 .has_multiple = (flags & 192) == 0,
                                 .min = read_decimal(min),
                                 .max = read_decimal(max),
                                 .multiple = read_decimal(multiple)};
        const struct automaton *automaton = NULL;
        assert_int_equal(number_set_automaton_of_numbers(test_work(), &set, &automaton), STATUS_OK);
        for (int i = 0; i < 200; i++) {
            random_number(&random, text);
            if (i < 2) strcpy(text, i ? min : max);
            bool expected = is_in(&set, min, max, multiple, text);
            in += expected;
            if (test_label(automaton, text) != expected)
                fail_msg("%s, %s to %s, flags %x, multiple %s", text, min, max, flags & 255,
                         multiple);
        }
    }
    assert_true(in > 10000);
}

TEST(it_accepts_nothing_but_json_numbers) {
    static const char *const none[] = {"",   "-",  "01",   "1.",  ".5",   "+1",  "1e", "1e+", "--1",
                                       "0x", "1 ", "1..2", "-01", "1e5.", "NaN", "00", "1-"};
    static const char *const sets[][2] = {{NULL, NULL}, {"0", NULL}, {NULL, "7.5"}, {"-3", "1e20"}};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        struct number_set set = {.has_min = sets[i][0], .has_max = sets[i][1]};
        if (set.has_min) set.min = read_decimal(sets[i][0]);
        if (set.has_max) set.max = read_decimal(sets[i][1]);
        const struct automaton *automaton = NULL;
        assert_int_equal(number_set_automaton_of_numbers(test_work(), &set, &automaton), STATUS_OK);
        for (size_t j = 0; j < sizeof none / sizeof *none; j++)
            if (test_label(automaton, none[j])) fail_msg("%s is taken", none[j]);
    }
}

/* As Python's json writes floats. */
TEST(it_knows_exponents) {
    static const struct {
        const char *min, *max;
        bool whole;
        const char *text;
        bool in;
    } cases[] = {
        {NULL, NULL, false, "1e-05", true},     {NULL, NULL, false, "-1.5E+300", true},
        {NULL, NULL, true, "1.5e+16", true},    {NULL, NULL, true, "1e-05", false},
        {NULL, NULL, true, "1.25e1", false},    {"0", NULL, false, "1.5e-07", true},
        {"0", NULL, false, "-1e-07", false},    {"0", NULL, false, "12.5e300", true},
        {"0", "1", false, "9.99e-05", true},    {"0", "1", false, "1e0", true},
        {"0", "1", false, "1.1e0", false},      {"0", "1", false, "1e+16", false},
        {"-5.5", "5.5", false, "-5.5e0", true}, {"-5.5", "5.5", false, "-5.6e0", false},
        {"1000", NULL, true, "1e+22", true},    {"1000", NULL, true, "9.99e2", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct number_set set = {
            .has_min = cases[i].min, .has_max = cases[i].max, .whole = cases[i].whole};
        if (set.has_min) set.min = read_decimal(cases[i].min);
        if (set.has_max) set.max = read_decimal(cases[i].max);
        const struct automaton *automaton = NULL;
        assert_int_equal(number_set_automaton_of_numbers(test_work(), &set, &automaton), STATUS_OK);
        if (test_label(automaton, cases[i].text) != cases[i].in)
            fail_msg("case %zu: %s", i, cases[i].text);
    }
}

TEST(it_spells_one_number_in_its_ways) {
    struct decimal value = read_decimal("1.5e-5");
    const struct automaton *automaton = NULL;
    assert_int_equal(number_set_automaton_of_number(test_work(), &value, &automaton), STATUS_OK);
    assert_int_equal(test_label(automaton, "1.5e-05"), 1);
    assert_int_equal(test_label(automaton, "1.50E-5"), 1);
    assert_int_equal(test_label(automaton, "0.0000150"), 1);
    assert_int_equal(test_label(automaton, "0.000016"), 0);
    assert_int_equal(test_label(automaton, "-0.000015"), 0);
    value = read_decimal("0");
    assert_int_equal(number_set_automaton_of_number(test_work(), &value, &automaton), STATUS_OK);
    assert_int_equal(test_label(automaton, "-0.0"), 1);
    assert_int_equal(test_label(automaton, "0e7"), 1);
    assert_int_equal(test_label(automaton, "1"), 0);
}

/* Each text of random digits, against what strtod makes of it. */
TEST(it_spells_what_a_double_holds) {
    static const char *const tails[] = {"",     ".",     ".5",     "e",    "e5",    "E+99",
                                        "e100", "e-999", ".0e307", "e308", "e+0307"};
    const struct automaton *all = NULL, *whole = NULL;
    char text[420];
    uint64_t random = 1;
    size_t in = 0;
    assert_int_equal(number_set_automaton_of_spellings(test_work(), false, &all), STATUS_OK);
    assert_int_equal(number_set_automaton_of_spellings(test_work(), true, &whole), STATUS_OK);
    for (int round = 0; round < 20000; round++) {
        size_t count = 1 + test_random(&random) % (round % 2 ? 4 : 320), negative = round % 3 == 0;
        memset(text, '-', negative);
        for (size_t i = 0; i < count; i++)
            text[negative + i] = (char)('0' + test_random(&random) % 10);
        const char *tail = tails[test_random(&random) % ARRAY_COUNT(tails)];
        strcpy(text + negative + count, tail);
        if (test_label(all, text)) {
            char *end;
            in++;
            assert_true(isfinite(strtod(text, &end)) && *end == '\0');
        }
        bool digits = !*tail && count <= 308 && (text[negative] != '0' || count + negative == 1);
        assert_int_equal(test_label(whole, text), digits);
        if (digits) assert_int_equal(test_label(all, text), 1);
    }
    assert_true(in > 1000);
}

TEST(it_refuses_a_multiple_that_needs_too_many_states) {
    struct number_set set = {.has_multiple = true, .multiple = read_decimal("123456789")};
    const struct automaton *automaton = NULL;
    assert_int_equal(number_set_automaton_of_numbers(test_work(), &set, &automaton),
                     STATUS_UNSUPPORTED);
}
