/* SPDX-License-Identifier: Apache-2.0
 * Protects the list of an answer's calls: their order, their texts, the room that they take in
 * JSON, and ids that differ by request, choice and call.
 */
#include "serving/gateway/api/answer_calls.h"

#include "base/check.h"
#include "test_case.h"

static char memory[1 << 16];

TEST(calls_keep_their_order_and_texts) {
    struct arena arena;
    struct answer_calls calls = {0};
    arena_over(&arena, memory, sizeof memory);
    char name[] = "first";
    assert_true(answer_calls_add(&calls, &arena, BYTES_LITERAL("1"), bytes_of(name), 0, 0));
    memset(name, 'x', 5); /* it was copied */
    assert_true(answer_calls_add_arguments(&calls, &arena, BYTES_LITERAL("{\"a\":")));
    assert_true(answer_calls_add_arguments(&calls, &arena, BYTES_LITERAL("1}")));
    assert_true(
        answer_calls_add(&calls, &arena, BYTES_LITERAL("2"), BYTES_LITERAL("second"), 7, 3));
    assert_int_equal(calls.count, 2);
    assert_true(bytes_equal(calls.first->name, BYTES_LITERAL("first")));
    assert_int_equal(calls.first->arguments.count, 7);
    assert_ptr_equal(calls.first->next, calls.last);
    assert_int_equal(calls.last->text_at, 7);
    assert_int_equal(calls.last->token_at, 3);
    assert_int_equal(calls.escaped_count, 2 + strlen("firstsecond") + strlen("{\\\"a\\\":1}"));
}

TEST(arguments_are_written_as_an_object) {
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"", "{}"},
        {" {\"a\":[1,\"\\n\"]}", " {\"a\":[1,\"\\n\"]}"},
        {"{\"a\":", "{\"INVALID_JSON\":\"{\\\"a\\\":\"}"},
        {"[1]", "{\"INVALID_JSON\":\"[1]\"}"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct arena arena;
        struct answer_calls calls = {0};
        char out[64];
        struct json_writer writer = {.out = out, .room = sizeof out};
        arena_over(&arena, memory, sizeof memory);
        assert_true(answer_calls_add(&calls, &arena, BYTES_LITERAL("1"), BYTES_LITERAL("f"), 0, 0));
        assert_true(answer_calls_add_arguments(&calls, &arena, bytes_of(cases[i].text)));
        answer_calls_write_object(&writer, &calls.first->arguments);
        assert_true(bytes_equal((struct bytes){out, writer.count}, bytes_of(cases[i].expected)));
    }
}

TEST(memory_has_an_end) {
    struct arena arena;
    struct answer_calls calls = {0};
    arena_over(&arena, memory, 64);
    assert_false(answer_calls_add(&calls, &arena, BYTES_LITERAL("1"), BYTES_LITERAL("f"), 0, 0));
    assert_int_equal(calls.count, 0);
}

TEST(ids_differ_by_request_choice_and_call) {
    char ids[5][ANSWER_CALLS_ID_BYTES], again[ANSWER_CALLS_ID_BYTES];
    struct request_id one = {.high = 1, .low = 2}, other = {.high = 2, .low = 1};
    answer_calls_make_id("call_", 24, one, 0, 0, ids[0]);
    answer_calls_make_id("call_", 24, one, 0, 1, ids[1]);
    answer_calls_make_id("call_", 24, one, 1, 0, ids[2]);
    answer_calls_make_id("call_", 24, other, 0, 0, ids[3]);
    answer_calls_make_id("", 9, one, 0, 0, ids[4]);
    answer_calls_make_id("call_", 24, one, 0, 0, again);
    assert_string_equal(ids[0], again);
    for (size_t i = 0; i < ARRAY_COUNT(ids); i++)
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(ids[i], ids[j]);
    assert_int_equal(strlen(ids[0]), 5 + 24);
    assert_int_equal(strlen(ids[4]), 9);
    assert_int_equal(strspn(ids[4], "0123456789abcdef"), 9);
}
