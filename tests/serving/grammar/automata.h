/* SPDX-License-Identifier: Apache-2.0
 * What tests of automata share: work with memory of its own, and a tiny generator of numbers.
 */
#pragma once

#include "serving/grammar/automata/automaton_builder.h"

#include "../../keep.h"
#include "test_case.h"

#define TEST_ARENA_BYTES ((size_t)64 << 20)
#define TEST_STATES_MAX 50000
#define TEST_STEPS_MAX 50000000

/* Empty arenas and the whole allowance, each time; results of before are gone. */
static inline struct automaton_work *test_work(void) {
    static struct arena arena, scratch;
    static struct automaton_work work;
    if (!arena.start) {
        arena_over(&arena, test_keep(malloc(TEST_ARENA_BYTES)), TEST_ARENA_BYTES);
        arena_over(&scratch, test_keep(malloc(TEST_ARENA_BYTES)), TEST_ARENA_BYTES);
    }
    arena_clear(&arena);
    arena_clear(&scratch);
    work = (struct automaton_work){&arena, &scratch, TEST_STATES_MAX, TEST_STEPS_MAX};
    return &work;
}

static inline uint32_t test_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

static inline uint32_t test_label(const struct automaton *automaton, const char *text) {
    uint32_t label = 0;
    return automaton_accepts(automaton, bytes_of(text), &label) ? label : 0;
}

static inline const struct automaton *test_pattern(struct automaton_work *work,
                                                   const char *pattern) {
    const struct automaton *automaton = NULL;
    struct error error = {""};
    if (automaton_of_pattern(work, bytes_of(pattern), &automaton, &error))
        fail_msg("%s: %s", pattern, error.text);
    return automaton;
}
