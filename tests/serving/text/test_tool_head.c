/* SPDX-License-Identifier: Apache-2.0
 * Protects where a call begins: no sooner than its text tells that it is one, and no later. More
 * text behind what was told changes nothing.
 */
#include "serving/text/tool_head.h"
#include "support.h"
#include "test_case.h"

static const struct tool_place nowhere, at_start = {.starts = true},
                                        behind = {.after_call = true, .in_section = true};

/* The shortest start of `text` that is told to be a call has `count` bytes; 0: it is told to be
 * none. Every shorter one is CUT. */
static struct tool_head begins(enum tool_format format, struct tool_place place, const char *text,
                               size_t count) {
    struct tool_head head = {.count = 0}, again = {.count = 0};
    enum tool_found found = TOOL_FOUND_CUT;
    size_t at = 0;
    for (; found == TOOL_FOUND_CUT && at <= strlen(text); at++)
        found = tool_head_find(format, place, (struct bytes){text, at}, false, &head);
    assert_int_equal(found, count ? TOOL_FOUND_YES : TOOL_FOUND_NO);
    if (count) assert_int_equal(at - 1, count);
    for (; at <= strlen(text); at++) {
        assert_int_equal(tool_head_find(format, place, (struct bytes){text, at}, false, &again),
                         found);
        assert_int_equal(again.count, head.count);
    }
    return head;
}

#define BEGINS(format, place, start, rest) begins(format, place, start rest, sizeof(start) - 1)

TEST(it_is_reported_as_soon_as_it_can_be) {
    BEGINS(TOOL_FORMAT_DEEPSEEK_V31, nowhere, "\n<｜tool▁call▁begin｜>get<｜tool▁sep｜>", "{}");
    BEGINS(TOOL_FORMAT_DEEPSEEK_V3, nowhere,
           "<｜tool▁call▁begin｜>function<｜tool▁sep｜>get\n```json", "\n{}");
    BEGINS(TOOL_FORMAT_DEEPSEEK_V32, nowhere, "<｜DSML｜invoke name=\"get\">", "\n");
    BEGINS(TOOL_FORMAT_HERMES, nowhere, "<tool_call>{\"name\": \"get\"", ", \"arguments\"");
    BEGINS(TOOL_FORMAT_HERMES, nowhere, "<function=get>", "");
    BEGINS(TOOL_FORMAT_LLAMA, at_start, "{\"name\": \"get\", \"parameters\": {", "}}");
    BEGINS(TOOL_FORMAT_LLAMA, behind, "; {\"parameters\": 1, \"name\": \"get\"", "}");
    BEGINS(TOOL_FORMAT_MISTRAL, behind, ", {\"name\":\"get\"", "}]");
    struct tool_head head =
        BEGINS(TOOL_FORMAT_KIMI, nowhere,
               "<|tool_call_begin|> functions.get:1 <|tool_call_argument_begin|>", "{");
    assert_true(bytes_equal(head.id, BYTES_LITERAL("functions.get:1")));
    assert_true(bytes_equal(head.name, BYTES_LITERAL("get")));
    assert_true(head.in_section && head.next == TOOL_STATE_RAW);
    /* what is seen is not part of it */
    head = begins(TOOL_FORMAT_GLM, nowhere, "<tool_call>get\n<arg_key>", 24);
    assert_int_equal(head.count, 15);
    head = begins(TOOL_FORMAT_MISTRAL, nowhere, "[TOOL_CALLS]get[CALL_ID]a1[ARGS] {}", 34);
    assert_int_equal(head.count, 33);
    assert_true(bytes_equal(head.id, BYTES_LITERAL("a1")));
}

TEST(it_is_reported_apart_from_text) {
    begins(TOOL_FORMAT_DEEPSEEK_V31, at_start, "text", 0);
    begins(TOOL_FORMAT_DEEPSEEK_V3, nowhere, "<｜tool▁call▁begin｜>get<｜tool▁sep｜>", 0);
    begins(TOOL_FORMAT_HERMES, nowhere, "<tool_call>{\"id\": \"x\"}", 0);
    begins(TOOL_FORMAT_HERMES, nowhere, "<tool_call>{\"name\": \"a b\"", 0);
    begins(TOOL_FORMAT_HERMES, nowhere, "\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n<tool_call>", 0);
    begins(TOOL_FORMAT_LLAMA, nowhere, "{\"name\": \"get\", \"parameters\": {}}", 0);
    begins(TOOL_FORMAT_LLAMA, at_start, "{\"name\": \"get\"}", 0);
    begins(TOOL_FORMAT_MISTRAL, nowhere, ", {\"name\":\"get\"}", 0);
    begins(TOOL_FORMAT_GLM, nowhere, "<tool_call>get more", 0);
}

TEST(it_is_none_where_the_text_ends_before) {
    struct tool_head head;
    struct bytes text = BYTES_LITERAL("<tool_call>{\"name\": \"get");
    assert_int_equal(tool_head_find(TOOL_FORMAT_HERMES, nowhere, text, false, &head),
                     TOOL_FOUND_CUT);
    assert_int_equal(tool_head_find(TOOL_FORMAT_HERMES, nowhere, text, true, &head), TOOL_FOUND_NO);
}

TEST(it_gives_an_id_that_comes_before_the_name) {
    struct tool_head head =
        BEGINS(TOOL_FORMAT_HERMES, nowhere, "<tool_call>{\"id\":\"c1\",\"name\":\"get\"", "}");
    assert_true(bytes_equal(head.id, BYTES_LITERAL("c1")));
    head = BEGINS(TOOL_FORMAT_HERMES, nowhere, "<tool_call>{\"id\":1234,\"name\":\"get\"", "}");
    assert_int_equal(head.id.count, 0);
}
