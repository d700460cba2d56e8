/* SPDX-License-Identifier: Apache-2.0
 * Protects that no message is lost and none comes before an earlier one, whatever turns a template
 * takes, and that a template which takes them all gets what was sent.
 */
#include "serving/text/chat_turns.h"

#include "chat_support.h"
#include "test_case.h"

#define SYSTEM(text) "{\"role\":\"system\",\"content\":\"" text "\"}"
#define USER(text) "{\"role\":\"user\",\"content\":\"" text "\"}"
#define ASSISTANT(text) "{\"role\":\"assistant\",\"content\":\"" text "\"}"
#define RESULT(text) "{\"role\":\"tool\",\"content\":\"" text "\",\"tool_call_id\":\"c\"}"
#define CALL "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"c\"}]}"

static void expect_turns(struct chat_turns turns, const char *messages, const char *expected) {
    const struct tree *folded;
    struct arena *arena = test_arena(1 << 16);
    assert_true(chat_turns_fold(&turns, test_tree(bytes_of(messages)), arena, &folded));
    struct bytes text = tree_text(arena, folded);
    if (!bytes_equal(text, bytes_of(expected)))
        fail_msg("gives %.*s\nnot   %s", (int)text.count, text.data, expected);
}

TEST(what_a_template_takes_stays_as_it_was_sent) {
    static const char sent[] = "[" SYSTEM("a") "," SYSTEM("b") "," USER("c") "," USER(
        "d") "," CALL "," RESULT("e") "," USER("f") "," SYSTEM("g") "]";
    expect_turns((struct chat_turns){0}, sent, sent);
}

TEST(systems_behind_the_front_are_a_users) {
    struct chat_turns turns = {.systems = CHAT_SYSTEMS_IN_FRONT};
    expect_turns(
        turns,
        "[" SYSTEM("a") ",{\"role\":\"developer\",\"content\":[{\"type\":\"text\",\"text\":"
                        "\"b\"},{\"type\":\"text\",\"text\":\"c\"}]}," USER("d") "," SYSTEM(
                            "e") "," ASSISTANT("f") "," SYSTEM("g") "]",
        "[" SYSTEM("a\\n\\nbc") "," USER("d") "," USER("e") "," ASSISTANT("f") "," USER("g") "]");
    turns.joins_users = true;
    expect_turns(turns, "[" USER("a") "," SYSTEM("b") "," USER("c") "]",
                 "[" USER("a\\n\\nb\\n\\nc") "]");
    turns.systems = CHAT_SYSTEMS_NOWHERE;
    expect_turns(turns, "[" SYSTEM("a") "," SYSTEM("") "," USER("b") "," ASSISTANT("c") "]",
                 "[" USER("a\\n\\nb") "," ASSISTANT("c") "]");
}

TEST(neighbours_are_joined_in_their_order) {
    struct chat_turns turns = {.joins_users = true, .joins_assistants = true};
    expect_turns(
        turns,
        "[" USER("a") "," USER("b") "," ASSISTANT(
            "c") ",{\"role\":\"assistant\","
                 "\"content\":\"d\",\"reasoning_content\":\"r\",\"tool_calls\":[{\"id\":\"c\"}]}"
                 "," RESULT("e") "," RESULT("f") "," USER("g") "]",
        "[" USER("a\\n\\nb") ",{\"role\":\"assistant\",\"content\":\"c\\n\\nd\","
                             "\"reasoning_content\":\"r\",\"tool_calls\":[{\"id\":\"c\"}]}," RESULT(
                                 "e") "," RESULT("f") "," USER("g") "]");
    expect_turns(turns, "[" CALL "," ASSISTANT("a") "]", "[" CALL "," ASSISTANT("a") "]");
    turns.joins_result = true;
    expect_turns(turns, "[" RESULT("a") "," RESULT("b") "," USER("c") "," USER("d") "]",
                 "[" RESULT("a") "," RESULT("b\\n\\nc\\n\\nd") "]");
}

TEST(calls_are_made_one_by_one) {
    struct chat_turns turns = {.splits_calls = true};
    expect_turns(
        turns,
        "[" USER("a") ",{\"role\":\"assistant\",\"content\":\"b\",\"tool_calls\":[{\"id\":\"1\"},"
                      "{\"id\":\"2\"}],\"reasoning_content\":\"r\"},"
                      "{\"role\":\"tool\",\"tool_call_id\":\"2\"},{\"role\":\"tool\",\"tool_call_"
                      "id\":\"1\"},"
                      "{\"role\":\"tool\",\"tool_call_id\":\"3\"}," USER("c") "," CALL "]",
        "[" USER("a") ",{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"1\"}],\"content\":\"b\","
                      "\"reasoning_content\":\"r\"},{\"role\":\"tool\",\"tool_call_id\":\"1\"},"
                      "{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"2\"}],\"content\":null},"
                      "{\"role\":\"tool\",\"tool_call_id\":\"2\"},{\"role\":\"tool\",\"tool_call_"
                      "id\":\"3\"}," USER("c") "," CALL "]");
}

TEST(calls_of_one_id_keep_their_places) {
    struct chat_turns turns = {.splits_calls = true};
#define CALLS(calls) "{\"role\":\"assistant\",\"tool_calls\":[" calls "],\"content\":null}"
    expect_turns(turns,
                 "[" CALLS("{\"id\":\"c\",\"n\":1},{\"id\":\"c\",\"n\":2}") "," RESULT(
                     "a") "," RESULT("b") "]",
                 "[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"c\",\"n\":1}]}," RESULT(
                     "a") "," CALLS("{\"id\":\"c\",\"n\":2}") "," RESULT("b") "]");
}

/* A client may send tens of thousands of turns: what they cost must not grow with their square. */
TEST(many_turns_take_memory_in_proportion) {
    enum { COUNT = 4000 };
    static char memory[1 << 23], text[1 << 20];
    size_t at = 0;
    for (int i = 0; i < COUNT; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s" USER("some words of a user"),
                               i ? "," : "[");
    snprintf(text + at, sizeof text - at, "]");
    const struct tree *sent = test_tree(bytes_of(text)), *folded;
    struct chat_turns turns = {.joins_users = true};
    struct arena arena;
    arena_over(&arena, memory, sizeof memory); /* all their copies would be 170 MB */
    assert_true(chat_turns_fold(&turns, sent, &arena, &folded));
    assert_int_equal(tree_count(folded), 1);
}

TEST(many_calls_find_their_results) {
    enum { COUNT = 2000 };
    static char memory[1 << 23], text[1 << 20];
    size_t at = (size_t)snprintf(text, sizeof text, "[{\"role\":\"assistant\",\"tool_calls\":[");
    for (int i = 0; i < COUNT; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s{\"id\":\"%d\"}", i ? "," : "", i);
    at += (size_t)snprintf(text + at, sizeof text - at, "]}");
    for (int i = COUNT; i-- > 0;)
        at += (size_t)snprintf(text + at, sizeof text - at,
                               ",{\"role\":\"tool\",\"tool_call_id\":\"%d\"}", i);
    snprintf(text + at, sizeof text - at, "]");
    const struct tree *sent = test_tree(bytes_of(text)), *folded;
    struct chat_turns turns = {.splits_calls = true};
    struct arena arena;
    arena_over(&arena, memory, sizeof memory);
    assert_true(chat_turns_fold(&turns, sent, &arena, &folded));
    assert_int_equal(tree_count(folded), 2 * COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        const struct tree *calls = tree_member(tree_at(folded, 2 * i), "tool_calls");
        struct bytes id, of;
        assert_true(tree_get_string(tree_member(tree_at(calls, 0), "id"), &id));
        assert_true(tree_get_string(tree_member(tree_at(folded, 2 * i + 1), "tool_call_id"), &of));
        assert_true(bytes_equal(id, of));
    }
}

TEST(a_small_arena_refuses) {
    const struct tree *sent =
        test_tree(BYTES_LITERAL("[" SYSTEM("a") "," SYSTEM("b") "," USER("c") "," USER("d") "]"));
    const struct chat_turns turns = {.systems = CHAT_SYSTEMS_IN_FRONT, .joins_users = true};
    static char memory[1 << 14];
    bool fitted = false;
    for (size_t bytes = 0; bytes < sizeof memory && !fitted; bytes += 16) {
        const struct tree *folded = NULL;
        struct arena arena;
        arena_over(&arena, memory, bytes);
        fitted = chat_turns_fold(&turns, sent, &arena, &folded);
        assert_int_equal(fitted, folded != NULL);
    }
    assert_true(fitted);
}
