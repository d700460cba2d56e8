/* SPDX-License-Identifier: Apache-2.0
 * Equal frames are one; what was put last can be taken back; a full table says so.
 */
#include "matcher_cases.h"

#include "serving/grammar/matcher/stack_table.h"

static char memory[1 << 16];

TEST(equal_frames_have_one_number) {
    struct arena arena;
    struct stack_table table;
    uint64_t tail[2] = {1, 2};
    arena_over(&arena, memory, sizeof memory);
    assert_false(stack_table_open(&table, &arena, 64));
    struct stack_frame frame = {.kind = STACK_OBJECT, .tail_words = 2, .subject = 3};
    uint32_t first = stack_table_put(&table, &frame, tail);
    assert_int_equal(stack_table_put(&table, &frame, tail), first);
    tail[1] = 3;
    assert_int_not_equal(stack_table_put(&table, &frame, tail), first);
}

TEST(the_youngest_are_taken_back_and_a_full_table_says_so) {
    struct arena arena;
    struct stack_table table;
    arena_over(&arena, memory, sizeof memory);
    assert_false(stack_table_open(&table, &arena, 16));
    struct stack_frame frame = {.kind = STACK_STRING};
    uint32_t old = stack_table_put(&table, &frame, NULL), put = 0;
    for (frame.state = 1; stack_table_put(&table, &frame, NULL); frame.state++)
        put++;
    assert_int_equal(put, 14);
    stack_table_truncate(&table, old + 1);
    frame.state = 0;
    assert_int_equal(stack_table_put(&table, &frame, NULL), old);
    frame.state = 77;
    assert_int_equal(stack_table_put(&table, &frame, NULL), old + 1);
}
