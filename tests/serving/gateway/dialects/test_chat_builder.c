/* SPDX-License-Identifier: Apache-2.0
 * Protects the shape of what other dialects' conversations become: what an assistant says in a row
 * is one message, and a full arena is a refusal.
 */
#include "serving/gateway/dialects/chat_builder.h"

#include "test_case.h"

static _Alignas(16) char memory[1 << 18];
static struct arena arena;

static struct chat_builder open(void) {
    arena_over(&arena, memory, sizeof memory);
    return chat_builder_open(&arena);
}

static const struct tree *text(const char *value) {
    return tree_make_string(&arena, bytes_of(value));
}

static void expect(const struct tree *tree, const char *expected) {
    struct bytes found = tree_text(&arena, tree);
    char copy[1024];
    assert_true(found.count < sizeof copy);
    memcpy(copy, found.data, found.count);
    copy[found.count] = '\0';
    assert_string_equal(copy, expected);
}

TEST(what_an_assistant_says_in_a_row_is_one_message) {
    struct chat_builder builder = open();
    chat_builder_message(&builder, "user", text("hi"));
    chat_builder_reason(&builder, text("a"));
    chat_builder_reason(&builder, text("b"));
    chat_builder_say(&builder, text("one"));
    chat_builder_call(&builder, text("id"), text("f"), text("{}"));
    chat_builder_result(&builder, text("id"), text("4"));
    chat_builder_say(&builder, text("two"));
    chat_builder_say(&builder, text("three"));
    assert_true(chat_builder_end(&builder));
    expect(builder.messages,
           "[{\"role\":\"user\",\"content\":\"hi\"},"
           "{\"role\":\"assistant\",\"content\":\"one\",\"reasoning_content\":\"a\\nb\","
           "\"tool_calls\":[{\"id\":\"id\",\"type\":\"function\",\"function\":{\"name\":\"f\","
           "\"arguments\":\"{}\"}}]},"
           "{\"role\":\"tool\",\"content\":\"4\",\"tool_call_id\":\"id\"},"
           "{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"two\"},"
           "{\"type\":\"text\",\"text\":\"three\"}]}]");
}

TEST(calls_without_words_have_no_content) {
    struct chat_builder builder = open();
    chat_builder_call(&builder, text("id"), text("f"), text("{}"));
    assert_true(chat_builder_end(&builder));
    assert_true(tree_is_null(tree_member(tree_at(builder.messages, 0), "content")));
}

TEST(tools_become_functions) {
    struct chat_builder builder = open();
    struct tree *schema = tree_make_object(&arena);
    chat_builder_tool(&builder, text("f"), text("does"), schema, tree_make_bool(false));
    chat_builder_tool(&builder, text("g"), NULL, NULL, tree_make_bool(true));
    chat_builder_tool(&builder, NULL, NULL, NULL, NULL);
    assert_true(chat_builder_end(&builder));
    expect(builder.tools, "[{\"type\":\"function\",\"function\":{\"name\":\"f\","
                          "\"description\":\"does\",\"parameters\":{}}},"
                          "{\"type\":\"function\",\"function\":{\"name\":\"g\",\"strict\":true}},"
                          "{\"type\":\"function\",\"function\":{}}]");
}

TEST(a_full_arena_is_reported_at_the_end) {
    struct chat_builder builder = open();
    const struct tree *hi = text("hi");
    for (int i = 0; i < 10000; i++)
        chat_builder_message(&builder, "user", hi);
    assert_false(chat_builder_end(&builder));
}
