/* SPDX-License-Identifier: Apache-2.0
 * Protects the order of an answer's blocks, and which tokens are of which.
 */
#include "serving/gateway/api/answer_walk.h"

#include "test_case.h"

static char memory[1 << 16];
static struct arena arena;
static struct answer_text text;
static struct answer_calls calls;

static void add(enum token_stream_part part, uint32_t token_at, const char *piece) {
    assert_true(answer_text_add_part(&text, &arena, part, token_at, bytes_of(piece)));
}

static void add_call(uint32_t token_at) {
    text.run_ended = true;
    assert_true(answer_calls_add(&calls, &arena, BYTES_LITERAL("1"), BYTES_LITERAL("f"), text.count,
                                 token_at));
}

/* Content, thoughts, content, two calls, content: tokens without text are the content's that
 * follows, but behind a call the call's. */
TEST(blocks_come_in_order_with_their_tokens) {
    static const struct answer_walk_block expected[] = {
        {.part = TOKEN_STREAM_CONTENT, .from = 0, .to = 2, .token_from = 0, .token_to = 3},
        {.part = TOKEN_STREAM_REASONING, .from = 2, .to = 4, .token_from = 3, .token_to = 7},
        {.part = TOKEN_STREAM_CONTENT, .from = 4, .to = 5, .token_from = 3, .token_to = 9},
        {.part = TOKEN_STREAM_CALL, .token_from = 9, .token_to = 12},
        {.part = TOKEN_STREAM_CALL, .token_from = 12, .token_to = 15},
        {.part = TOKEN_STREAM_CONTENT, .from = 5, .to = 6, .token_from = 15, .token_to = 20},
    };
    arena_over(&arena, memory, sizeof memory);
    add(TOKEN_STREAM_CONTENT, 1, "a");
    add(TOKEN_STREAM_CONTENT, 2, "b");
    add(TOKEN_STREAM_REASONING, 3, "hm");
    add(TOKEN_STREAM_CONTENT, 7, "c");
    add_call(9);
    add_call(12);
    add(TOKEN_STREAM_CONTENT, 15, "d");
    struct token_list tokens = {.count = 20};
    struct api_choice choice = {.text = &text, .calls = &calls, .tokens = &tokens};
    struct answer_walk walk = answer_walk_open(&choice);
    struct answer_walk_block block;
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        assert_true(answer_walk_next(&walk, &block));
        assert_int_equal(block.part, expected[i].part);
        assert_int_equal(block.from, expected[i].from);
        assert_int_equal(block.to, expected[i].to);
        assert_int_equal(block.token_from, expected[i].token_from);
        assert_int_equal(block.token_to, expected[i].token_to);
        assert_int_equal(block.last, i == 5);
        assert_int_equal(block.call != NULL, block.part == TOKEN_STREAM_CALL);
    }
    assert_false(answer_walk_next(&walk, &block));
    assert_int_equal(answer_text_part_count(&text, TOKEN_STREAM_CONTENT), 4);
    assert_int_equal(answer_text_part_count(&text, TOKEN_STREAM_REASONING), 2);
}

TEST(an_empty_answer_has_no_blocks) {
    struct answer_text nothing = {0};
    struct token_list tokens = {.count = 1};
    struct api_choice choice = {.text = &nothing, .tokens = &tokens};
    struct answer_walk walk = answer_walk_open(&choice);
    struct answer_walk_block block;
    assert_false(answer_walk_next(&walk, &block));
}
