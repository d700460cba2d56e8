/* SPDX-License-Identifier: Apache-2.0
 * Protects that a built DFA accepts the texts that were added, that all its states are live, and
 * that no two of them are equal; and that work has an end where it is told to.
 */
#include "automata.h"

#define CLASSES 3
#define STATES_MAX 24

static uint32_t draft_label(struct automaton_builder *dfa, const uint8_t *text, size_t count) {
    uint32_t state = dfa->start;
    for (size_t i = 0; i < count; i++)
        state = automaton_builder_row(dfa, state)[dfa->classes[text[i]]];
    return dfa->labels[state];
}

/* Every state of a minimal automaton is told from each other by some text, and leads to an end. */
static void check_minimal(const struct automaton *automaton) {
    uint32_t n = automaton->state_count;
    bool *differ = calloc((size_t)n * n, sizeof *differ);
    assert_non_null(differ);
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t a = 0; a < n; a++)
            for (uint32_t b = 0; b < n; b++) {
                bool differs = automaton->labels[a] != automaton->labels[b];
                for (uint32_t c = 0; c < automaton->class_count; c++)
                    differs |= differ[automaton->next[a * automaton->class_count + c] * n +
                                      automaton->next[b * automaton->class_count + c]];
                changed |= differs && !differ[a * n + b];
                differ[a * n + b] |= differs;
            }
    }
    for (uint32_t a = 0; a < n; a++)
        for (uint32_t b = 0; b < n; b++)
            if (a != b && !differ[a * n + b]) fail_msg("states %u and %u are equal", a, b);
    free(differ);
}

TEST(it_makes_the_smallest_automaton) {
    uint64_t random = 1;
    for (int round = 0; round < 2000; round++) {
        struct automaton_work *work = test_work();
        struct automaton_builder dfa;
        const struct automaton *automaton = NULL;
        uint8_t classes[256] = {['a'] = 1, ['b'] = 2};
        uint32_t count = 1 + test_random(&random) % STATES_MAX, added = 0;
        assert_int_equal(automaton_builder_open(&dfa, work, classes, CLASSES), STATUS_OK);
        for (uint32_t i = 0; i < count; i++)
            assert_int_equal(automaton_builder_add(&dfa, &added), STATUS_OK);
        dfa.start = test_random(&random) % (count + 1);
        for (uint32_t s = 1; s <= count; s++) {
            dfa.labels[s] = test_random(&random) % 3 ? 0 : 1 + test_random(&random) % 2;
            for (int c = 0; c < CLASSES; c++)
                automaton_builder_row(&dfa, s)[c] =
                    test_random(&random) % 3 ? test_random(&random) % (count + 1) : 0;
        }
        uint8_t texts[40][12];
        uint32_t labels[40];
        for (int i = 0; i < 40; i++) {
            for (int j = 0; j < 12; j++)
                texts[i][j] = (uint8_t) "abc"[test_random(&random) % 3];
            labels[i] = draft_label(&dfa, texts[i], (size_t)i % 12);
        }
        assert_int_equal(automaton_builder_finish(&dfa, &automaton), STATUS_OK);
        for (int i = 0; i < 40; i++) {
            uint32_t label = 0;
            struct bytes text = {(const char *)texts[i], (size_t)i % 12};
            (void)automaton_accepts(automaton, text, &label);
            assert_int_equal(label, labels[i]);
        }
        check_minimal(automaton);
    }
}

TEST(it_gives_equal_sequences_equal_numbers) {
    struct tuple_table tuple_table;
    struct automaton_work *work = test_work();
    assert_int_equal(automaton_builder_tuples_open(&tuple_table, work), STATUS_OK);
    for (int round = 0; round < 2; round++)
        for (uint32_t i = 0; i < 5000; i++) {
            const uint32_t words[3] = {i / 100, i % 100, 7};
            uint32_t number = 0;
            assert_int_equal(
                automaton_builder_tuples_intern(&tuple_table, words, i % 3 ? 3 : 2, &number),
                STATUS_OK);
            assert_int_equal(number, i);
        }
    assert_int_equal(tuple_table.count, 5000);
}

TEST(it_stops_when_steps_or_states_are_spent) {
    const struct automaton *automaton = NULL;
    struct automaton_work *work = test_work();
    work->steps_left = 1000;
    assert_int_equal(automaton_of_lengths(work, 0, 500, &automaton), STATUS_TOO_LARGE);
    assert_int_equal(work->steps_left, 0);
    work = test_work();
    work->states_max = 100;
    assert_int_equal(automaton_of_lengths(work, 0, 500, &automaton), STATUS_TOO_LARGE);
    work = test_work();
    work->scratch->end = work->scratch->start + 5000;
    assert_int_equal(automaton_of_lengths(work, 0, 500, &automaton), STATUS_NO_MEMORY);
    work->scratch->end = work->scratch->start + TEST_ARENA_BYTES;
    assert_null(automaton);
}
