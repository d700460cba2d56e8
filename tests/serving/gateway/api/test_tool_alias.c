/* SPDX-License-Identifier: Apache-2.0
 * Protects that a call is told by the client's name for its tool, also after the request's body,
 * in which that name stood, is gone.
 */
#include "serving/gateway/api/tool_alias.h"

#include "test_case.h"

static char memory[4096];

TEST(a_copy_outlives_what_it_was_made_of) {
    char name[] = "mail__send", own[] = "send", space[] = "mail";
    const struct tool_alias rows[] = {
        {.name = {name, 10}, .own = {own, 4}, .namespace = {space, 4}},
        {.name = {"patch", 5}, .own = {"patch", 5}, .namespace = {"", 0}, .takes_text = true}};
    const struct tool_aliases given = {rows, 2};
    struct tool_aliases copy;
    struct arena arena;
    arena_over(&arena, memory, sizeof memory);
    assert_true(tool_alias_copy(&given, &arena, &copy));
    memset(name, 'x', sizeof name);
    memset(own, 'x', sizeof own);
    memset(space, 'x', sizeof space);
    const struct tool_alias *found = tool_alias_find(&copy, BYTES_LITERAL("mail__send"));
    assert_non_null(found);
    assert_true(bytes_equal(found->own, BYTES_LITERAL("send")));
    assert_true(bytes_equal(found->namespace, BYTES_LITERAL("mail")));
    assert_false(found->takes_text);
    assert_true(tool_alias_find(&copy, BYTES_LITERAL("patch"))->takes_text);
    assert_null(tool_alias_find(&copy, BYTES_LITERAL("mail")));
}

TEST(nothing_takes_no_memory) {
    struct tool_aliases copy = {.count = 7};
    struct arena arena;
    arena_over(&arena, memory, 0);
    assert_true(tool_alias_copy(&(struct tool_aliases){0}, &arena, &copy));
    assert_int_equal(copy.count, 0);
    assert_null(tool_alias_find(&copy, BYTES_LITERAL("a")));
}
