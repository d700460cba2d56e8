/* SPDX-License-Identifier: Apache-2.0
 * Protects sets of code points: ordering, complement, and general categories with their groups.
 */
#include "automata.h"
#include "serving/grammar/automata/code_points.h"

static bool holds(const struct code_points *set, uint32_t character) {
    for (size_t i = 0; i < set->count; i++)
        if (set->ranges[i].first <= character && character <= set->ranges[i].last) return true;
    return false;
}

TEST(it_orders_ranges_and_takes_all_others) {
    uint64_t random = 1;
    for (int round = 0; round < 300; round++) {
        struct code_points set = {.work = test_work()};
        bool in[200] = {false};
        for (uint32_t i = test_random(&random) % 60; i > 0; i--) {
            uint32_t first = test_random(&random) % 190, last = first + test_random(&random) % 9;
            assert_int_equal(code_points_add(&set, first, last), STATUS_OK);
            memset(in + first, 1, last - first + 1);
        }
        code_points_order(&set);
        for (size_t i = 1; i < set.count; i++)
            assert_true(set.ranges[i].first > set.ranges[i - 1].last + 1);
        for (uint32_t c = 0; c < 200; c++)
            assert_int_equal(holds(&set, c), in[c]);
        assert_int_equal(code_points_complement(&set, 0), STATUS_OK);
        for (uint32_t c = 0; c < 200; c++)
            assert_int_equal(holds(&set, c), !in[c]);
        assert_true(holds(&set, CODE_POINT_MAX));
    }
}

static void check_property(const char *name, const char *in, const char *out) {
    struct code_points set = {.work = test_work()};
    assert_int_equal(code_points_add_property(&set, bytes_of(name)), STATUS_OK);
    for (; *in; in++)
        if (!holds(&set, (uint8_t)*in)) fail_msg("%s has no %c", name, *in);
    for (; *out; out++)
        if (holds(&set, (uint8_t)*out)) fail_msg("%s has %c", name, *out);
}

TEST(it_knows_general_categories_and_groups) {
    check_property("L", "aZ", "1_- ");
    check_property("Letter", "aZ", "1_- ");
    check_property("Lu", "ABZ", "abz1");
    check_property("Uppercase_Letter", "ABZ", "abz1");
    check_property("LC", "ABabz", "1_");
    check_property("Nd", "0189", "a-");
    check_property("P", "_-()!", "a1+$");
    check_property("Pc", "_", "-a");
    check_property("S", "+$<^", "a-_");
    check_property("Zs", " ", "\na");
    check_property("Cc", "\n\t\x7F", " a");
    check_property("Any", "a\n ", "");
    check_property("ASCII", "a\n ", "\x80");
    check_property("Assigned", "a1 ", "");
}

/* A letter of one category each, spread over the planes. */
TEST(it_places_characters_of_all_planes) {
    static const struct {
        const char *name;
        uint32_t character;
    } cases[] = {{"Lu", 0xC9},   {"Ll", 0xE9},    {"Lt", 0x1C5},    {"Lm", 0x3005},
                 {"Lo", 0x4E2D}, {"Mn", 0x301},   {"Nd", 0x9EA},    {"Nl", 0x2160},
                 {"Sc", 0x20AC}, {"So", 0x1F600}, {"Zl", 0x2028},   {"Cf", 0xFEFF},
                 {"Cs", 0xD800}, {"Co", 0xE000},  {"Cn", 0x10FFFF}, {"Lo", 0x20000}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t j = 0; j < sizeof cases / sizeof *cases; j++) {
            struct code_points set = {.work = test_work()};
            assert_int_equal(code_points_add_property(&set, bytes_of(cases[i].name)), STATUS_OK);
            assert_int_equal(holds(&set, cases[j].character),
                             strcmp(cases[i].name, cases[j].name) == 0);
        }
}

TEST(it_says_that_a_property_is_none) {
    struct code_points set = {.work = test_work()};
    assert_int_equal(code_points_add_property(&set, bytes_of("Greek")), STATUS_NOT_FOUND);
    assert_int_equal(code_points_add_property(&set, bytes_of("")), STATUS_NOT_FOUND);
    assert_int_equal(code_points_add_property(&set, bytes_of("X")), STATUS_NOT_FOUND);
}
