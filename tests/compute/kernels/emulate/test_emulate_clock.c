/* SPDX-License-Identifier: Apache-2.0
 * Protects vector clocks: what one learns is the larger of both, entry by entry; clocks that others
 * hold never change; and the answers kept from the last question are right ones.
 */
#include "test_case.h"

#include "compute/kernels/emulate/emulate_clock.h"

static uint32_t entry(const struct emulate_clock *clock, uint32_t index) {
    return index < clock->count ? clock->at[index] : 0;
}

TEST(learning_takes_the_larger_of_each) {
    struct emulate_clock *a = emulate_clock_new(), *b = emulate_clock_new(), *c;
    emulate_clock_note(&a, 3, 7);
    emulate_clock_note(&a, 5, 1);
    emulate_clock_note(&b, 5, 4);
    emulate_clock_note(&b, CLOCK_ENTRIES - 1, 2);
    c = emulate_clock_hold(a);
    emulate_clock_learn(&a, b);
    assert_int_equal(entry(a, 3), 7);
    assert_int_equal(entry(a, 5), 4);
    assert_int_equal(entry(a, CLOCK_ENTRIES - 1), 2);
    assert_int_equal(entry(c, 5), 1);
    assert_int_equal(entry(c, CLOCK_ENTRIES - 1), 0);
    emulate_clock_learn(&b, a); /* who knows less gets the very clock */
    assert_ptr_equal(a, b);
    emulate_clock_drop(a);
    emulate_clock_drop(b);
    emulate_clock_drop(c);
}

TEST(held_clocks_never_change) {
    struct emulate_clock *threads[4], *first = emulate_clock_new();
    emulate_clock_note(&first, 0, 1);
    for (int i = 0; i < 4; i++) {
        threads[i] = emulate_clock_hold(first);
        emulate_clock_note(&threads[i], 2, 9);
    }
    assert_int_equal(entry(first, 2), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(entry(threads[i], 2), 9);
    emulate_clock_note(&threads[0], 2, 5); /* knows more already */
    assert_int_equal(entry(threads[0], 2), 9);
    emulate_clock_own(&threads[1], 8);
    threads[1]->at[7] = 1;
    assert_int_equal(entry(threads[2], 7), 0);
    for (int i = 0; i < 4; i++)
        emulate_clock_drop(threads[i]);
    emulate_clock_drop(first);
}

/* Against plain arrays, with the same question asked twice as often as not. */
TEST(random_histories_agree_with_arrays) {
    enum { CLOCKS = 6, ENTRIES = 40 };
    struct emulate_clock *clocks[CLOCKS];
    uint32_t plain[CLOCKS][ENTRIES] = {{0}}, random = 1;
    for (int i = 0; i < CLOCKS; i++)
        clocks[i] = emulate_clock_new();
    for (int step = 0; step < 20000; step++) {
        random = random * 1664525u + 1013904223u;
        uint32_t a = random >> 8 & 3, b = random >> 16 & 3, i = (random >> 20) % ENTRIES;
        if (random >> 30) {
            emulate_clock_learn(&clocks[a], clocks[b]);
            for (int k = 0; k < ENTRIES; k++)
                plain[a][k] = plain[a][k] > plain[b][k] ? plain[a][k] : plain[b][k];
        } else {
            emulate_clock_note(&clocks[a], i, plain[a][i] + 1);
            plain[a][i]++;
        }
        for (int k = 0; k < ENTRIES; k++)
            assert_int_equal(entry(clocks[a], (uint32_t)k), plain[a][k]);
    }
    for (int i = 0; i < CLOCKS; i++)
        emulate_clock_drop(clocks[i]);
}
