/* SPDX-License-Identifier: Apache-2.0
 * Protects that automata made of automata hold what both hold, one of them, or the first alone, and
 * that a join tells of each text which languages it lies in.
 */
#include "base/check.h"

#include "automata.h"

static const char *const patterns[] = {"^a*$", "^(ab)*$", "b",          "^.{2,3}$", "^[^b]*$",
                                       "^$",   "a$",      "^\\u00e9|b", "^x",       "^(a|b)*abb$"};
#define PATTERNS ARRAY_COUNT(patterns)

static void random_text(uint64_t *random, char *out) {
    static const char *const parts[] = {"a", "b", "ab", "\xC3\xA9", "x", "bb"};
    *out = '\0';
    for (uint32_t i = test_random(random) % 6; i > 0; i--)
        strcat(out, parts[test_random(random) % 6]);
}

TEST(it_combines_two_languages) {
    uint64_t random = 1;
    char text[64];
    for (size_t i = 0; i < PATTERNS; i++)
        for (size_t j = 0; j < PATTERNS; j++) {
            struct automaton_work *work = test_work();
            const uint32_t five[] = {5};
            const struct automaton *a = test_pattern(work, patterns[i]), *both, *either, *without;
            const struct automaton *b = test_pattern(work, patterns[j]);
            assert_int_equal(automaton_relabel(work, b, five, &b), STATUS_OK);
            assert_int_equal(automaton_combine(work, AUTOMATON_AND, a, b, &both), STATUS_OK);
            assert_int_equal(automaton_combine(work, AUTOMATON_OR, a, b, &either), STATUS_OK);
            assert_int_equal(automaton_combine(work, AUTOMATON_WITHOUT, a, b, &without), STATUS_OK);
            for (int round = 0; round < 50; round++) {
                random_text(&random, text);
                bool in_a = test_label(a, text), in_b = test_label(b, text);
                assert_int_equal(test_label(both, text), in_a && in_b);
                assert_int_equal(test_label(either, text), in_a ? 1 : in_b ? 5 : 0);
                assert_int_equal(test_label(without, text), in_a && !in_b);
            }
            if (i == j) assert_int_equal(without->start, 0);
        }
}

TEST(it_says_which_languages_a_text_lies_in) {
    uint64_t random = 1;
    char text[64];
    struct automaton_work *work = test_work();
    const struct automaton *languages[PATTERNS], *join = NULL;
    const uint64_t *sets = NULL;
    uint32_t set_count = 0;
    for (size_t i = 0; i < PATTERNS; i++)
        languages[i] = test_pattern(work, patterns[i]);
    assert_int_equal(automaton_join(work, languages, PATTERNS, &join, &sets, &set_count),
                     STATUS_OK);
    for (int round = 0; round < 2000; round++) {
        uint64_t expected = 0;
        random_text(&random, text);
        for (size_t i = 0; i < PATTERNS; i++)
            if (test_label(languages[i], text)) expected |= (uint64_t)1 << i;
        uint32_t label = test_label(join, text);
        assert_true(label <= set_count);
        assert_true((label ? sets[label - 1] : 0) == expected);
    }
    for (uint32_t i = 0; i < set_count; i++)
        for (uint32_t j = 0; j < i; j++)
            assert_true(sets[i] != sets[j]);
}

TEST(it_joins_hundreds_of_names_with_few_steps) {
    struct automaton_work *work = test_work();
    static char names[800][16];
    struct bytes texts[800];
    const struct automaton *languages[3], *join = NULL;
    const uint64_t *sets = NULL;
    uint32_t set_count = 0;
    for (int i = 0; i < 800; i++) {
        snprintf(names[i], sizeof names[i], "name_%d_%d", i % 7, i);
        texts[i] = bytes_of(names[i]);
    }
    assert_int_equal(automaton_of_texts(work, texts, 800, &languages[0]), STATUS_OK);
    languages[1] = test_pattern(work, "^name");
    languages[2] = test_pattern(work, "_5");
    assert_int_equal(automaton_join(work, languages, 3, &join, &sets, &set_count), STATUS_OK);
    assert_true(sets[test_label(join, "name_1_8") - 1] == 3);
    assert_true(sets[test_label(join, "name_5_5") - 1] == 7);
    assert_true(sets[test_label(join, "a_5") - 1] == 4);
    assert_true(TEST_STEPS_MAX - work->steps_left < 1000000);
}

TEST(it_takes_texts_away_by_their_label) {
    static const struct bytes texts[] = {{"ab", 2}, {"abc", 3}, {"x", 1}};
    static const uint32_t labels[] = {0, 9, 9};
    struct automaton_work *work = test_work();
    const struct automaton *automaton = NULL;
    assert_int_equal(automaton_of_texts(work, texts, 3, &automaton), STATUS_OK);
    assert_int_equal(automaton_relabel(work, automaton, labels, &automaton), STATUS_OK);
    assert_int_equal(test_label(automaton, "ab"), 0);
    assert_int_equal(test_label(automaton, "abc"), 9);
    assert_int_equal(test_label(automaton, "x"), 9);
    assert_int_equal(automaton_member_count(automaton), 2);
}
