/* SPDX-License-Identifier: Apache-2.0
 * Protects the log from floods, and its reader from not knowing of them: few lines of a kind are
 * said, and each of the others is told of as a count, once.
 */
#include "host/process/log/limit_lines.h"

#include "test_case.h"

#define SECOND ((int64_t)1000000000)

static struct limit_lines limits;

static bool say(uint64_t key, int64_t now_ns) {
    uint32_t kind;
    return limit_lines_say(&limits, key, now_ns, &kind);
}

static int begin(void **state) {
    limits = (struct limit_lines){.counting = 0};
    return 0;
}

TEST_AROUND(ten_lines_are_said_at_once_and_one_a_second_behind_them, begin, NULL) {
    int said = 0;
    for (int i = 0; i < 1000; i++)
        said += say(7, 0);
    assert_int_equal(said, LIMIT_LINES_AT_ONCE);
    said = 0;
    for (int64_t now_ns = SECOND; now_ns <= 9 * SECOND; now_ns += SECOND / 100)
        said += say(7, now_ns);
    assert_int_equal(said, 9);
    assert_true(say(8, 0)); /* another kind */
}

TEST_AROUND(what_is_left_out_is_reported_ten_seconds_later_and_once, begin, NULL) {
    uint64_t left_out = 0;
    int64_t took_ns = 0;
    assert_true(limit_lines_next_ns(&limits) == LIMIT_LINES_NEVER);
    for (int i = 0; i < LIMIT_LINES_AT_ONCE + 90; i++)
        say(7, 5 * SECOND);
    assert_true(limit_lines_next_ns(&limits) == 15 * SECOND);
    assert_int_equal(limit_lines_report(&limits, 14 * SECOND, &left_out, &took_ns),
                     LIMIT_LINES_NONE);
    assert_int_not_equal(limit_lines_report(&limits, 16 * SECOND, &left_out, &took_ns),
                         LIMIT_LINES_NONE);
    assert_int_equal(left_out, 90);
    assert_int_equal(took_ns, 11 * SECOND);
    assert_int_equal(limit_lines_report(&limits, 99 * SECOND, &left_out, &took_ns),
                     LIMIT_LINES_NONE);
    assert_true(limit_lines_next_ns(&limits) == LIMIT_LINES_NEVER);
}

TEST_AROUND(a_kind_that_was_quiet_may_say_as_much_again, begin, NULL) {
    for (int i = 0; i < 100; i++)
        say(7, SECOND);
    int said = 0;
    for (int i = 0; i < 100; i++)
        said += say(7, 100 * SECOND);
    assert_int_equal(said, LIMIT_LINES_AT_ONCE);
}

TEST_AROUND(every_line_of_a_long_flood_is_said_or_counted, begin, NULL) {
    uint64_t said = 0, reported = 0, left_out;
    int64_t now_ns = 0, took_ns;
    for (int i = 0; i < 100000; i++, now_ns += SECOND / 1000) {
        said += say((uint64_t)(i % 3), now_ns);
        while (limit_lines_report(&limits, now_ns, &left_out, &took_ns) != LIMIT_LINES_NONE)
            reported += left_out;
    }
    assert_true(said < 3 * 120);
    while (limit_lines_report(&limits, LIMIT_LINES_NEVER, &left_out, &took_ns) != LIMIT_LINES_NONE)
        reported += left_out;
    assert_int_equal(said + reported, 100000);
    assert_int_equal(limits.counting, 0);
}

TEST_AROUND(counts_are_never_lost_to_new_kinds, begin, NULL) {
    uint64_t reported = 0, left_out;
    int64_t took_ns;
    for (int i = 0; i < LIMIT_LINES_AT_ONCE + 5; i++)
        say(1, 0);
    for (uint64_t key = 2; key < 100000; key++)
        assert_true(say(key, SECOND)); /* more kinds than there are places */
    while (limit_lines_report(&limits, LIMIT_LINES_NEVER, &left_out, &took_ns) != LIMIT_LINES_NONE)
        reported += left_out;
    assert_int_equal(reported, 5);
}

/* Whichever it is: the first place counts like any other, and the earliest is told first. */
TEST_AROUND(the_next_count_is_the_earliest, begin, NULL) {
    for (uint64_t key = 0; key < 2; key++)
        for (int i = 0; i < LIMIT_LINES_AT_ONCE + 1; i++)
            say(key, (5 + (int64_t)key) * SECOND);
    assert_true(limit_lines_next_ns(&limits) == 15 * SECOND);
    uint64_t left_out;
    int64_t took_ns;
    assert_int_equal(limit_lines_report(&limits, 15 * SECOND, &left_out, &took_ns), 0);
    assert_true(limit_lines_next_ns(&limits) == 16 * SECOND);
}

/* Five kinds that share four places; of the first four the third is said first. */
TEST_AROUND(the_kind_that_was_said_least_lately_makes_way, begin, NULL) {
    enum { APART = LIMIT_LINES_KINDS / 4 };
    for (uint64_t i = 0; i < 4; i++)
        for (int line = 0; line < LIMIT_LINES_AT_ONCE; line++)
            assert_true(say((i + 2) % 4 * APART, (int64_t)i * SECOND / 1000));
    assert_true(say(4 * APART, SECOND / 100));
    for (uint64_t i = 0; i < 4; i++)
        if (i != 2) assert_false(say(i * APART, SECOND / 100));
    assert_true(say(2 * APART, SECOND / 100)); /* it is new again */
}

TEST_AROUND(where_all_places_count_a_line_is_said, begin, NULL) {
    uint32_t kind;
    for (uint64_t key = 0; key < LIMIT_LINES_KINDS; key++)
        for (int i = 0; i < LIMIT_LINES_AT_ONCE + 1; i++)
            say(key, 0);
    assert_int_equal(limits.counting, LIMIT_LINES_KINDS);
    assert_true(limit_lines_say(&limits, LIMIT_LINES_KINDS, 0, &kind));
    assert_int_equal(kind, LIMIT_LINES_NONE);
}
