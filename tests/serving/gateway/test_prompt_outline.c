/* SPDX-License-Identifier: Apache-2.0
 * Protects the reason that a receipt names for a miss: the first part in which a prompt differs
 * from the most similar earlier one of its tenant, and none where a conversation goes on.
 */
#include "serving/gateway/prompt_outline.h"

#include "base/check.h"
#include "base/format.h"
#include "test_case.h"

static char memory[1 << 20];
static struct prompt_outlines outlines;

static const struct tree *message_of(struct arena *arena, struct bytes content) {
    struct tree *message = tree_make_object(arena);
    assert_true(tree_set(arena, message, "content", tree_make_string(arena, content)));
    return message;
}

/* Each letter is a message; `tools` are a text. */
static uint32_t compare(uint8_t tenant, const char *tools, const char *messages) {
    struct arena arena;
    struct prompt_outline outline;
    arena_over(&arena, memory, sizeof memory);
    struct tree *list = tree_make_array(&arena);
    for (; *messages; messages++)
        assert_true(tree_append(&arena, list, message_of(&arena, (struct bytes){messages, 1})));
    struct tenant_salt salt = {.bytes = {tenant}};
    const struct tree *told = tools ? tree_make_string(&arena, bytes_of(tools)) : NULL;
    assert_true(prompt_outline_of(&arena, salt, told, list, &outline));
    return prompt_outline_compare(&outlines, &outline);
}

TEST(a_conversation_that_goes_on_differs_nowhere) {
    outlines = (struct prompt_outlines){0};
    assert_int_equal(compare(1, "t", "su"), 0);
    assert_int_equal(compare(1, "t", "su"), 0);
    assert_int_equal(compare(1, "t", "suau"), 0);
    assert_int_equal(compare(1, "t", "su"), 0); /* asked again */
}

TEST(the_first_difference_is_named) {
    outlines = (struct prompt_outlines){0};
    assert_int_equal(compare(1, "t", "suau"), 0);
    assert_int_equal(compare(1, "T", "suauau"), 1);
    assert_int_equal(compare(1, "T", "Suauauau"), 2);
    assert_int_equal(compare(1, "T", "Suaxauau"), 5);
    assert_int_equal(compare(1, NULL, "Suaxauau"), 1);
}

TEST(the_most_similar_prompt_counts) {
    outlines = (struct prompt_outlines){0};
    assert_int_equal(compare(1, "t", "suaua"), 0);
    assert_int_equal(compare(1, "t", "vwx"), 2); /* another conversation between two turns */
    assert_int_equal(compare(1, "t", "suauauau"), 0);
}

TEST(other_tenants_and_other_prompts_are_not_compared) {
    outlines = (struct prompt_outlines){0};
    assert_int_equal(compare(1, "t", "su"), 0);
    assert_int_equal(compare(2, "T", "su"), 0);
    assert_int_equal(compare(1, "T", "xy"), 0);
}

TEST(old_ones_make_room) {
    char tools[16];
    outlines = (struct prompt_outlines){0};
    assert_int_equal(compare(1, "t", "su"), 0);
    for (int i = 0; i < PROMPT_OUTLINES; i++) {
        format_text(tools, sizeof tools, "%d", i);
        assert_int_equal(compare(2, tools, "a"), i ? 1 : 0);
    }
    assert_int_equal(compare(1, "T", "su"), 0);
}

TEST(long_conversations_are_compared_by_their_beginning) {
    char long_one[PROMPT_OUTLINE_PARTS + 10];
    memset(long_one, 'a', sizeof long_one);
    long_one[sizeof long_one - 1] = 0;
    outlines = (struct prompt_outlines){0};
    assert_int_equal(compare(1, "t", long_one), 0);
    long_one[PROMPT_OUTLINE_PARTS] = 'b';
    assert_int_equal(compare(1, "t", long_one), 0);
    long_one[PROMPT_OUTLINE_PARTS - 2] = 'b';
    assert_int_equal(compare(1, "t", long_one), PROMPT_OUTLINE_PARTS);
}

TEST(a_content_is_the_same_as_a_string_and_in_parts) {
    static const char *const same[] = {
        "[{\"role\":\"user\",\"content\":\"ab\"}]",
        "[{\"content\":[{\"type\":\"text\",\"text\":\"ab\"}],\"role\":\"user\"}]",
        "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\","
        "\"text\":\"b\"}]}]",
        "[{\"role\":\"tool\",\"content\":\"ab\"}]",
    };
    uint64_t hashes[ARRAY_COUNT(same)];
    for (size_t i = 0; i < ARRAY_COUNT(same); i++) {
        struct arena arena;
        struct prompt_outline outline;
        struct error error;
        const struct tree *messages;
        arena_over(&arena, memory, sizeof memory);
        assert_int_equal(tree_parse(&arena, bytes_of(same[i]), "messages", &messages, &error), 0);
        assert_true(prompt_outline_of(&arena, (struct tenant_salt){0}, NULL, messages, &outline));
        hashes[i] = outline.parts[1];
    }
    assert_true(hashes[0] == hashes[1] && hashes[0] == hashes[2] && hashes[0] != hashes[3]);
}

TEST(memory_has_an_end) {
    struct arena arena, small;
    struct prompt_outline outline;
    arena_over(&arena, memory, sizeof memory / 2);
    struct tree *list = tree_make_array(&arena);
    assert_true(tree_append(&arena, list, message_of(&arena, BYTES_LITERAL("hello there"))));
    arena_over(&small, memory + sizeof memory / 2, 8);
    assert_false(prompt_outline_of(&small, (struct tenant_salt){0}, NULL, list, &outline));
}
