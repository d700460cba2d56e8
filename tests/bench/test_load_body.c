/* SPDX-License-Identifier: Apache-2.0
 * Protects load requests' bodies: a prompt follows from seed and number alone, blocks of a trace
 * have the same tokens whoever asks, and every body is JSON that such servers take.
 */
#include "bench/load_body.h"

#include "base/tree.h"
#include "test_case.h"

static struct load_options options;
static char memory[1 << 20];
static struct arena arena;

static const struct tree *take(const struct load_request *request, uint64_t number) {
    const struct tree *root;
    struct error error;
    struct bytes body = load_body_take(&options, "a \"model\"", request, number);
    assert_non_null(body.data);
    if (tree_parse(&arena, body, "body", &root, &error)) fail_msg("%s", error.text);
    free((void *)(uintptr_t)body.data);
    return root;
}

static int begin(void **state) {
    arena_over(&arena, memory, sizeof memory);
    options = (struct load_options){.token_low = 100, .token_high = 1100, .seed = 5};
    return 0;
}

static uint32_t same_tokens(const struct tree *a, const struct tree *b) {
    const struct tree *ids = tree_member(a, "prompt"), *other_ids = tree_member(b, "prompt");
    int64_t id, other;
    uint32_t same = 0;
    assert_int_equal(tree_count(ids), tree_count(other_ids));
    for (size_t i = 0; i < tree_count(ids); i++) {
        assert_true(tree_get_integer(tree_at(ids, i), &id));
        assert_true(tree_get_integer(tree_at(other_ids, i), &other));
        assert_in_range(id, 100, 1099);
        same += id == other && same == i;
    }
    return same;
}

TEST_AROUND(a_prompt_follows_from_seed_and_number_alone, begin, NULL) {
    const struct load_request request = {.prompt_tokens = 50, .output_tokens = 7};
    const struct tree *one = take(&request, 1), *again = take(&request, 1);
    int64_t most;
    assert_int_equal(same_tokens(one, again), 50);
    assert_true(same_tokens(one, take(&request, 2)) < 5);
    options.seed = 6;
    assert_true(same_tokens(one, take(&request, 1)) < 5);
    assert_true(tree_get_integer(tree_member(one, "max_tokens"), &most));
    assert_int_equal(most, 7);
}

TEST_AROUND(equal_blocks_have_equal_tokens_in_any_request, begin, NULL) {
    static const uint64_t first[] = {7, 8}, second[] = {7, 9};
    struct load_request request = {
        .prompt_tokens = 50, .blocks = first, .block_count = 2, .block_tokens = 20};
    const struct tree *one = take(&request, 1);
    assert_int_equal(same_tokens(one, take(&request, 2)), 40); /* and not what is the request's */
    request.blocks = second;
    assert_int_equal(same_tokens(one, take(&request, 1)), 20);
}

TEST_AROUND(chats_and_texts_are_words, begin, NULL) {
    const struct load_request request = {.prompt_tokens = 3, .output_tokens = 1};
    struct bytes text;
    assert_string_equal(load_body_path(&options), "/v1/completions");
    options.text_prompts = true;
    assert_true(tree_get_string(tree_member(take(&request, 1), "prompt"), &text));
    options.chat = true;
    options.extra = "\"top_k\":5";
    const struct tree *chat = take(&request, 1);
    const struct tree *message = tree_at(tree_member(chat, "messages"), 0);
    struct bytes said;
    assert_string_equal(load_body_path(&options), "/v1/chat/completions");
    assert_true(tree_get_string(tree_member(message, "content"), &said));
    assert_true(bytes_equal(said, text));
    assert_non_null(tree_member(chat, "top_k"));
    assert_true(tree_get_string(tree_member(chat, "model"), &text));
    assert_true(bytes_equal(text, bytes_of("a \"model\"")));
}
