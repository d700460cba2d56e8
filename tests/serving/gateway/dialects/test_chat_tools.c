/* SPDX-License-Identifier: Apache-2.0
 * Protects custom tools in chats: what the model reads of them and of its earlier calls, how one is
 * chosen, and that what is wrong is found where the client wrote it.
 */
#include "serving/gateway/dialects/chat_tools.h"

#include "reading.h"
#include "serving/gateway/dialects/chat_dialect.h"
#include "test_case.h"

#define USER "{\"role\":\"user\",\"content\":\"a\"}"
#define ASK "{\"messages\":[" USER "],\"tools\":["
#define EDIT "{\"type\":\"custom\",\"custom\":{\"name\":\"edit\"}}"
#define LOOK "{\"type\":\"function\",\"function\":{\"name\":\"look\"}}"

static void parse(const char *body) {
    if (!read_as(&chat_dialect, body)) fail_msg("%s: %s", body, error.message);
}

TEST(a_custom_tool_is_a_function_of_one_text) {
    parse(ASK LOOK "," EDIT "]}");
    expect(tree_text(&arena, parsed.tools),
           "[" LOOK ",{\"type\":\"function\",\"function\":{\"name\":\"edit\",\"parameters\":{"
           "\"type\":\"object\",\"properties\":{\"input\":{\"type\":\"string\"}},\"required\":"
           "[\"input\"],\"additionalProperties\":false}}}]");
    assert_int_equal(parsed.aliases.count, 1);
    assert_true(tool_alias_find(&parsed.aliases, BYTES_LITERAL("edit"))->takes_text);
    parse(ASK LOOK "]}");
    assert_int_equal(parsed.aliases.count, 0);
}

TEST(one_is_chosen_by_its_own_type) {
    static const char *const choices[] = {
        "{\"type\":\"custom\",\"custom\":{\"name\":\"edit\"}}",
        "{\"type\":\"allowed_tools\",\"allowed_tools\":{\"mode\":\"required\",\"tools\":[{\"type\":"
        "\"custom\",\"custom\":{\"name\":\"edit\"}}]}}",
    };
    char body[1024];
    for (size_t i = 0; i < 2; i++) {
        (void)snprintf(body, sizeof body, "%s,\"tool_choice\":%s}", ASK LOOK "," EDIT "]",
                       choices[i]);
        parse(body);
        assert_non_null(parsed.constraint.field);
    }
}

TEST(an_earlier_call_is_one_of_a_function) {
    parse("{\"messages\":[" USER ",{\"role\":\"assistant\",\"content\":null,\"tool_calls\":["
          "{\"id\":\"c1\",\"type\":\"custom\",\"custom\":{\"name\":\"edit\",\"input\":\"x\"}}]},"
          "{\"role\":\"tool\",\"tool_call_id\":\"c1\",\"content\":\"done\"}]}");
    const struct tree *message = tree_at(parsed.messages, 1);
    expect(tree_text(&arena, tree_member(message, "tool_calls")),
           "[{\"id\":\"c1\",\"type\":\"function\",\"function\":{\"name\":\"edit\",\"arguments\":"
           "\"{\\\"input\\\":\\\"x\\\"}\"}}]");
    expect(tree_text(&arena, tree_member(message, "role")), "\"assistant\"");
    assert_int_equal(tree_count(parsed.messages), 3);
}

TEST(what_is_wrong_is_found_where_it_stands) {
    static const struct {
        const char *body, *param;
    } cases[] = {
        {ASK LOOK ",{\"type\":\"custom\",\"custom\":{\"name\":\"a b\"}}]}", "tools[1].custom.name"},
        {ASK "{\"type\":\"custom\",\"custom\":{\"name\":\"a\",\"format\":{\"type\":\"x\"}}}]}",
         "tools[0].custom.format"},
        {ASK EDIT ",{\"type\":\"function\",\"function\":{\"name\":\"a b\"}}]}",
         "tools[1].function.name"},
        {ASK "{\"type\":\"custom\",\"name\":\"edit\"}]}", "tools[0].type"},
        {"{\"messages\":[" USER ",{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"c1\",\"type\":"
         "\"custom\",\"custom\":{\"name\":\"edit\"}}]}]}",
         "messages[1].tool_calls"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (read_as(&chat_dialect, cases[i].body)) fail_msg("%s", cases[i].body);
        assert_string_equal(error.param, cases[i].param);
    }
}
