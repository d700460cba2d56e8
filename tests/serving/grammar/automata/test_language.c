/* SPDX-License-Identifier: Apache-2.0
 * Protects that equal languages share a number, and that lengths alone stay without an automaton.
 */
#include "serving/grammar/automata/language.h"

#include "schema_cases.h"

static char memory[16 << 20], passing[16 << 20];
static struct arena arena, scratch;
static struct automaton_work work;
static struct language_table table;

static int open_table(void **state) {
    arena_over(&arena, memory, sizeof memory);
    arena_over(&scratch, passing, sizeof passing);
    work = (struct automaton_work){&arena, &scratch, 1000, 1000000};
    return language_open(&table, &work);
}

TEST_AROUND(equal_languages_share_a_number, open_table, NULL) {
    struct bytes texts[] = {BYTES_LITERAL("a"), BYTES_LITERAL("b")};
    uint32_t both, a, b, joined, again;
    assert_int_equal(language_of_texts(&table, texts, 2, &both), STATUS_OK);
    assert_int_equal(language_of_texts(&table, texts, 1, &a), STATUS_OK);
    assert_int_equal(language_of_texts(&table, texts + 1, 1, &b), STATUS_OK);
    assert_int_equal(language_combine(&table, AUTOMATON_OR, a, b, &joined), STATUS_OK);
    assert_int_equal(language_combine(&table, AUTOMATON_OR, b, a, &again), STATUS_OK);
    assert_int_equal(again, joined);
    assert_int_equal(language_of_texts(&table, texts, 2, &again), STATUS_OK);
    assert_int_equal(again, both);
    assert_int_equal(language_combine(&table, AUTOMATON_AND, a, b, &again), STATUS_OK);
    assert_int_equal(again, LANGUAGE_NONE);
}

TEST_AROUND(lengths_need_no_automaton, open_table, NULL) {
    uint32_t some, more, both;
    assert_int_equal(language_of_lengths(&table, 0, 0, &some), STATUS_OK);
    assert_true(table.languages[some].of_lengths);
    assert_int_equal(language_of_lengths(&table, 5, 1000000, &some), STATUS_OK);
    assert_int_equal(language_of_lengths(&table, 7, UINT32_MAX, &more), STATUS_OK);
    assert_int_equal(language_combine(&table, AUTOMATON_AND, some, more, &both), STATUS_OK);
    assert_null(table.languages[both].automaton);
    assert_int_equal(table.languages[both].length_min, 7);
    assert_int_equal(table.languages[both].length_max, 1000000);
    assert_int_equal(language_of_lengths(&table, 2, 1, &both), STATUS_OK);
    assert_int_equal(both, LANGUAGE_NONE);
}
