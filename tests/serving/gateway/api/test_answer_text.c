/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/api/answer_text.h"

#include "test_case.h"

/* Pieces of all sizes across block borders come back as one text, whole and in parts. */
TEST(pieces_become_one_text) {
    static char memory[4 << 20], expected[300000], out[1 << 20];
    struct arena arena;
    struct answer_text text = {0};
    size_t count = 0;
    arena_over(&arena, memory, sizeof memory);
    for (size_t size = 0; count + size <= sizeof expected; size = size * 2 % 9973 + 1) {
        for (size_t i = 0; i < size; i++)
            expected[count + i] = (char)("ab\"\nc"[(count + i) % 5]);
        assert_true(answer_text_add(&text, &arena, (struct bytes){expected + count, size}));
        count += size;
    }
    assert_int_equal(text.count, count);
    struct json_writer writer = {.out = out, .room = sizeof out};
    answer_text_write(&text, 0, text.count, false, &writer);
    assert_int_equal(writer.count, count);
    assert_memory_equal(out, expected, count);

    struct json_writer escaped = {.out = out, .room = sizeof out};
    answer_text_write(&text, 0, text.count, true, &escaped);
    assert_int_equal(escaped.count, text.escaped_count);

    for (size_t from = 1; from < count / 2; from = from * 3 + 1) {
        struct json_writer part = {.out = out, .room = sizeof out};
        answer_text_write(&text, from, count - from / 2, false, &part);
        assert_int_equal(part.count, count - from / 2 - from);
        assert_memory_equal(out, expected + from, part.count);
    }
}

TEST(memory_that_ends_is_said) {
    static char memory[4096], piece[6000];
    struct arena arena;
    struct answer_text text = {0};
    arena_over(&arena, memory, sizeof memory);
    assert_false(answer_text_add(&text, &arena, (struct bytes){piece, sizeof piece}));
    assert_true(text.count > 0 && text.count < sizeof piece);
}
