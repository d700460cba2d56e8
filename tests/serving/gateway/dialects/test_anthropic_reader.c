/* SPDX-License-Identifier: Apache-2.0
 * Protects what a body of Anthropic's Messages API becomes: the inner request's messages and tools,
 * and what is refused, by name.
 */
#include "serving/gateway/dialects/anthropic_reader.h"

#include "reading.h"
#include "serving/gateway/dialects/anthropic_dialect.h"
#include "test_case.h"

static bool parse(const char *body) {
    return read_as(&anthropic_dialect, body);
}

#define HI "\"max_tokens\":9,\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"
#define SAYS(messages) "{\"max_tokens\":9,\"messages\":[" messages "]}"

static void expect_messages(const char *body, const char *expected) {
    if (!parse(body)) fail_msg("%s: %s", body, error.message);
    expect(tree_text(&arena, parsed.messages), expected);
}

TEST(strings_and_blocks_of_text_are_content) {
    expect_messages("{\"system\":\"be brief\"," HI "}",
                    "[{\"role\":\"system\",\"content\":\"be brief\"},"
                    "{\"role\":\"user\",\"content\":\"hi\"}]");
    expect_messages("{\"system\":[{\"type\":\"text\",\"text\":\"a\",\"cache_control\":{\"type\":"
                    "\"ephemeral\"}},{\"type\":\"text\",\"text\":\"b\"}]," HI "}",
                    "[{\"role\":\"system\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
                    "{\"type\":\"text\",\"text\":\"b\"}]},{\"role\":\"user\",\"content\":\"hi\"}]");
    expect_messages(SAYS("{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"x\"}]}"),
                    "[{\"role\":\"user\",\"content\":\"x\"}]");
    expect_messages("{\"system\":\"\"," HI "}", "[{\"role\":\"user\",\"content\":\"hi\"}]");
    assert_int_equal(parsed.new_tokens_max, 9);
    assert_false(parsed.continues);
}

TEST(calls_and_their_results_become_messages) {
    expect_messages(
        SAYS("{\"role\":\"user\",\"content\":\"weather?\"},"
             "{\"role\":\"assistant\",\"content\":["
             "{\"type\":\"thinking\",\"thinking\":\"hm\",\"signature\":\"\"},"
             "{\"type\":\"redacted_thinking\",\"data\":\"zzz\"},"
             "{\"type\":\"text\",\"text\":\"I look.\"},"
             "{\"type\":\"tool_use\",\"id\":\"t1\",\"name\":\"look\",\"input\":{\"at\":"
             "[1,0.50,-0,1E5,18446744073709551616,1e400]}}]},"
             "{\"role\":\"user\",\"content\":["
             "{\"type\":\"tool_result\",\"tool_use_id\":\"t1\",\"content\":[{\"type\":\"text\","
             "\"text\":\"rain\"}]},"
             "{\"type\":\"text\",\"text\":\"and?\"},"
             "{\"type\":\"tool_result\",\"tool_use_id\":\"t2\",\"is_error\":true}]}"),
        "[{\"role\":\"user\",\"content\":\"weather?\"},"
        "{\"role\":\"assistant\",\"content\":\"I look.\",\"reasoning_content\":\"hm\","
        "\"tool_calls\":[{\"id\":\"t1\",\"type\":\"function\",\"function\":{\"name\":\"look\","
        "\"arguments\":\"{\\\"at\\\":[1,0.50,-0,1E5,18446744073709551616,1e400]}\"}}]},"
        "{\"role\":\"tool\",\"content\":\"rain\",\"tool_call_id\":\"t1\"},"
        "{\"role\":\"tool\",\"content\":\"\",\"tool_call_id\":\"t2\"},"
        "{\"role\":\"user\",\"content\":\"and?\"}]");
}

TEST(turns_of_one_speaker_in_a_row_are_one) {
    expect_messages(
        SAYS("{\"role\":\"user\",\"content\":\"a\"},"
             "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"b\"},"
             "{\"type\":\"text\",\"text\":\"c\"}]},"
             "{\"role\":\"assistant\",\"content\":\"d\"},"
             "{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":\"t1\",\"name\":"
             "\"look\",\"input\":{}}]},"
             "{\"role\":\"user\",\"content\":\"e\"},"
             "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"t1\"}]}"),
        "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
        "{\"type\":\"text\",\"text\":\"\\n\\n\"},{\"type\":\"text\",\"text\":\"b\"},"
        "{\"type\":\"text\",\"text\":\"c\"}]},"
        "{\"role\":\"assistant\",\"content\":\"d\",\"tool_calls\":[{\"id\":\"t1\",\"type\":"
        "\"function\",\"function\":{\"name\":\"look\",\"arguments\":\"{}\"}}]},"
        "{\"role\":\"tool\",\"content\":\"\",\"tool_call_id\":\"t1\"},"
        "{\"role\":\"user\",\"content\":\"e\"}]");
    expect_messages(
        SAYS("{\"role\":\"user\",\"content\":\"a\"},"
             "{\"role\":\"system\",\"content\":\"b\"},"
             "{\"role\":\"user\",\"content\":\"c\"}"),
        "[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"system\",\"content\":\"b\"},"
        "{\"role\":\"user\",\"content\":\"c\"}]");
}

TEST(an_assistants_message_at_the_end_goes_on) {
    assert_true(parse(SAYS("{\"role\":\"user\",\"content\":\"hi\"},"
                           "{\"role\":\"assistant\",\"content\":\"He\"}")));
    assert_true(parsed.continues);
    assert_false(parsed.opens_turn);
}

TEST(tools_become_functions) {
    static const char tools[] =
        "{" HI ",\"tools\":[{\"name\":\"look\",\"description\":\"looks\",\"input_schema\":"
        "{\"type\":\"object\"},\"cache_control\":{\"type\":\"ephemeral\"},\"strict\":false},"
        "{\"type\":\"custom\",\"name\":\"b\",\"input_schema\":{}}]%s}";
    char body[1024];
    (void)snprintf(body, sizeof body, tools,
                   ",\"tool_choice\":{\"type\":\"auto\",\"disable_parallel_tool_use\":true}");
    assert_true(parse(body));
    expect(tree_text(&arena, parsed.tools),
           "[{\"type\":\"function\",\"function\":{\"name\":\"look\",\"description\":\"looks\","
           "\"parameters\":{\"type\":\"object\"}}},"
           "{\"type\":\"function\",\"function\":{\"name\":\"b\",\"parameters\":{}}}]");
    assert_true(parsed.one_call);
    (void)snprintf(body, sizeof body, tools, ",\"tool_choice\":{\"type\":\"none\"}");
    assert_true(parse(body));
    assert_null(parsed.tools);
}

#define RESULT(block)                                                                              \
    "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"t\",\"content\":" \
    "[" block "]}]}"

/* Claude Code's ToolSearch. */
TEST(a_deferred_tool_is_shown_where_a_result_refers_to_it) {
    expect_messages(
        "{\"tools\":[{\"name\":\"a\",\"input_schema\":{}},{\"name\":\"b\",\"description\":\"bees\","
        "\"input_schema\":{\"type\":\"object\"},\"defer_loading\":true}],\"max_tokens\":9,"
        "\"messages\":[" RESULT("{\"type\":\"tool_reference\",\"tool_name\":\"b\"}") "]}",
        "[{\"role\":\"tool\",\"content\":\"{\\\"description\\\":\\\"bees\\\",\\\"name\\\":"
        "\\\"b\\\","
        "\\\"parameters\\\":{\\\"type\\\":\\\"object\\\"}}\",\"tool_call_id\":\"t\"}]");
    expect(tree_text(&arena, parsed.tools),
           "[{\"type\":\"function\",\"function\":{\"name\":\"a\",\"parameters\":{}}}]");
}

TEST(thinking_effort_and_user_are_read) {
    assert_true(parse("{" HI "}"));
    assert_int_equal(parsed.thinking, CHAT_THINKING_DEFAULT);
    assert_true(parse("{" HI ",\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":2048},"
                      "\"output_config\":{\"effort\":\"low\"},\"metadata\":{\"user_id\":\"u_1\"},"
                      "\"stop_sequences\":[\"END\"],\"service_tier\":\"auto\"}"));
    assert_int_equal(parsed.thinking, CHAT_THINKING_ON);
    assert_true(bytes_equal(parsed.effort, BYTES_LITERAL("low")));
    assert_true(bytes_equal(parsed.user_id, BYTES_LITERAL("u_1")));
    assert_int_equal(parsed.stops->count, 1);
    assert_int_equal(parsed.warning.count, 0);
    assert_true(parse("{" HI ",\"thinking\":{\"type\":\"disabled\"},\"metadata\":{\"user_id\":"
                      "\"no user's\"}}"));
    assert_int_equal(parsed.thinking, CHAT_THINKING_OFF);
    assert_true(bytes_equal(parsed.user_id, BYTES_LITERAL("no user's")));
    assert_true(parse("{" HI ",\"thinking\":{\"type\":\"adaptive\"},\"context_management\":"
                      "{\"edits\":[{\"type\":\"clear_thinking_20251015\",\"keep\":\"all\"}]}}"));
    assert_int_equal(parsed.thinking, CHAT_THINKING_DEFAULT);
}

/* None of them may be told apart by what it looks like. */
TEST(every_user_id_is_a_user) {
    static const char *const ids[] = {
        "ann@example.org",
        "user_9f86d081884c7d65_account_6ba7b810-9dad-11d1-80b4-00c04fd430c8_session_"
        "7c9e6679-7425-40de-944b-e07fc1f90ae7",
        "{\\\"device_id\\\":\\\"9f86\\\",\\\"session_id\\\":\\\"7c9e\\\"}",
        "\u00fc \u4e2d",
    };
    for (size_t i = 0; i < ARRAY_COUNT(ids); i++) {
        char body[512];
        (void)snprintf(body, sizeof body, "{" HI ",\"metadata\":{\"user_id\":\"%s\"}}", ids[i]);
        assert_true(parse(body));
        assert_true(parsed.user_id.count > 4);
        assert_int_equal(parsed.warning.count, 0);
    }
    assert_true(parse("{" HI ",\"metadata\":{\"user_id\":null}}"));
    assert_int_equal(parsed.user_id.count, 0);
    assert_false(parse("{" HI ",\"metadata\":{\"user_id\":7}}"));
    assert_string_equal(error.param, "metadata.user_id");
}

TEST(a_count_needs_no_length) {
    assert_true(read_as(&anthropic_count_dialect,
                        "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}"));
    assert_true(parsed.tokens_only);
}

TEST(unknown_fields_are_reported) {
    assert_true(parse("{" HI ",\"colour\":1,\"n\":2}"));
    assert_true(bytes_equal(parsed.warning, BYTES_LITERAL("unknown fields: colour, n")));
}

#define FORMAT(schema) "{\"type\":\"json_schema\",\"schema\":" schema "}"

TEST(a_format_binds_the_answer_under_both_its_names) {
    assert_true(parse("{" HI ",\"output_format\":" FORMAT("{\"type\": \"null\"}") "}"));
    expect(parsed.constraint.form, "{\"schema\":{\"type\":\"null\"}}");
    assert_string_equal(parsed.constraint.field, "output_format");
    assert_true(parse("{" HI ",\"strict_order\":true,\"output_config\":{\"effort\":\"low\","
                      "\"format\":" FORMAT("{\"type\":\"null\"}") "}}"));
    expect(parsed.constraint.form, "{\"schema\":{\"type\":\"null\"},\"in_order\":true}");
    assert_string_equal(parsed.constraint.field, "output_config.format");
    assert_int_equal(parsed.warning.count, 0);
    assert_true(parse("{" HI ",\"output_config\":{\"effort\":\"low\"}}"));
    assert_int_equal(parsed.constraint.form.count, 0);
}

#define TOOL                                                                                       \
    ",\"tools\":[{\"name\":\"f\",\"input_schema\":{\"type\":\"object\",\"maxProperties\":1}}]"

TEST(a_choice_of_tools_binds_the_answer) {
    static const char one[] =
        "{\"sequence\":[{\"text\":\"{\\\"name\\\": "
        "\\\"\"},{\"sequence\":[{\"text\":\"f\"},{\"text\":"
        "\"\\\", \\\"parameters\\\": \"},{\"schema\":{\"type\":\"object\",\"maxProperties\":1}}]},"
        "{\"text\":\"}\"}]}";
    defaults.calls = TOOL_FORMAT_LLAMA;
    assert_true(parse("{" HI TOOL ",\"tool_choice\":{\"type\":\"tool\",\"name\":\"f\"}}"));
    expect(parsed.constraint.form, one);
    assert_false(parsed.one_call);
    assert_true(parse("{" HI TOOL
                      ",\"tool_choice\":{\"type\":\"any\",\"disable_parallel_tool_use\":"
                      "true}}"));
    expect(parsed.constraint.form, one);
    assert_string_equal(parsed.constraint.field, "tool_choice");
    assert_true(parsed.one_call);
    assert_true(parse("{" HI TOOL ",\"tool_choice\":{\"type\":\"any\"}}"));
    assert_true(bytes_contain(parsed.constraint.form, BYTES_LITERAL("{\"repeat\":")));
    assert_true(parse("{" HI TOOL ",\"tool_choice\":{\"type\":\"auto\"}}"));
    assert_int_equal(parsed.constraint.form.count, 0);
    defaults.calls = TOOL_FORMAT_DEEPSEEK_V3;
}

static const struct refusal refusals[] = {
    {"{}", 400, "max_tokens"},
    {"{\"max_tokens\":4}", 400, "messages"},
    {"{\"max_tokens\":0,\"messages\":[]}", 422, "max_tokens"},
    {"{\"max_tokens\":4,\"messages\":[]}", 400, "messages"},
    {SAYS("7"), 400, "messages[0]"},
    {SAYS("{\"role\":\"user\"}"), 400, "messages[0].content"},
    {SAYS("{\"role\":\"user\",\"content\":[]}"), 400, "messages[0].content"},
    {SAYS("{\"role\":\"user\",\"content\":{}}"), 400, "messages[0].content"},
    {SAYS("{\"role\":\"cat\",\"content\":\"x\"}"), 400, "messages[0].role"},
    {SAYS("{\"role\":\"user\",\"content\":[{\"type\":\"image\"}]}"), 400, "messages[0].content[0]"},
    {SAYS("{\"role\":\"user\",\"content\":[5]}"), 400, "messages[0].content[0]"},
    {SAYS("{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}"), 400, "messages[0].content[0]"},
    {SAYS("{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\"}]}"), 400,
     "messages[0].content[0]"},
    {SAYS("{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"t\","
          "\"content\":[{\"type\":\"image\"}]}]}"),
     400, "messages[0].content[0]"},
    {SAYS("{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":\"t\"}]}"), 400,
     "messages[0].content[0]"},
    {SAYS("{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":\"t\",\"name\":"
          "\"f\",\"input\":[]}]}"),
     400, "messages[0].content[0]"},
    {SAYS("{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":\"t\",\"name\":"
          "\"f\",\"input\":{}}]}"),
     400, "messages"},
    {SAYS("{\"role\":\"assistant\",\"content\":[{\"type\":\"redacted_thinking\"}]}"), 400,
     "messages"},
    {"{\"system\":7," HI "}", 400, "system"},
    {"{\"system\":[{\"type\":\"image\"}]," HI "}", 400, "system"},
    {"{" HI ",\"model\":\"claude-sonnet-4-5\"}", 404, "model"},
    {"{" HI ",\"temperature\":1.5}", 422, "temperature"},
    {"{" HI ",\"stop_sequences\":\"x\"}", 400, "stop_sequences"},
    {"{" HI ",\"tools\":{}}", 400, "tools"},
    {"{" HI ",\"tools\":[{\"type\":\"web_search_20250305\",\"name\":\"web_search\"}]}", 400,
     "tools[0]"},
    {"{" HI ",\"tools\":[{\"name\":\"a b\",\"input_schema\":{}}]}", 400, "tools[0].name"},
    {"{" HI ",\"tools\":[{\"name\":\"a\"}]}", 400, "tools[0]"},
    {"{" HI ",\"tools\":[{\"name\":\"a\",\"input_schema\":{},\"strict\":true}]}", 400,
     "tools[0].strict"}, /* where calls begin like text */
    {"{" HI ",\"tools\":[{\"name\":\"a\",\"input_schema\":{},\"strict\":1}]}", 400,
     "tools[0].strict"},
    {"{" HI ",\"tools\":[{\"name\":\"a\",\"input_schema\":{},\"defer_loading\":1}]}", 400,
     "defer_loading"},
    {"{\"tools\":[{\"name\":\"a\",\"input_schema\":{}}],\"max_tokens\":9,\"messages\":[" RESULT(
         "{\"type\":\"tool_reference\",\"tool_name\":\"b\"}") "]}",
     400, "messages[0].content[0]"},
    {"{" HI ",\"tool_choice\":{\"type\":\"any\"}}", 400, "tool_choice"},
    {"{" HI ",\"tool_choice\":{\"type\":\"tool\",\"name\":\"f\"}}", 400, "tool_choice"},
    {"{" HI TOOL ",\"tool_choice\":{\"type\":\"tool\",\"name\":\"g\"}}", 400, "tool_choice"},
    {"{" HI TOOL ",\"tool_choice\":{\"type\":\"tool\"}}", 400, "tool_choice"},
    {"{" HI ",\"tool_choice\":{}}", 400, "tool_choice"},
    {"{" HI ",\"thinking\":{\"type\":\"deep\"}}", 400, "thinking"},
    {"{" HI ",\"thinking\":true}", 400, "thinking"},
    {"{" HI ",\"output_config\":{\"format\":{\"type\":\"json_schema\"}}}", 400,
     "output_config.format"},
    {"{" HI ",\"output_format\":{\"type\":\"xml\"}}", 400, "output_format"},
    {"{" HI
     ",\"output_format\":" FORMAT("{}") ",\"output_config\":{\"format\":" FORMAT("true") "}}",
     400, "output_config.format"},
    {"{" HI ",\"context_management\":{\"edits\":[{\"type\":\"clear_tool_uses_20250919\"}]}}", 400,
     "context_management"},
    {"{" HI ",\"container\":\"c\"}", 400, "container"},
    {"{" HI ",\"mcp_servers\":[{}]}", 400, "mcp_servers"},
};

TEST(what_cannot_be_done_is_refused_by_name) {
    expect_refused(&anthropic_dialect, refusals, ARRAY_COUNT(refusals));
}

TEST(what_the_model_cannot_do_is_refused) {
    defaults.thought = CHAT_THOUGHT_ALWAYS;
    assert_false(parse("{" HI ",\"thinking\":{\"type\":\"disabled\"}}"));
    assert_string_equal(error.param, "thinking");
    defaults.thought = CHAT_THOUGHT_SWITCHED;
    defaults.prints_tools = false;
    assert_false(parse("{" HI ",\"tools\":[{\"name\":\"a\",\"input_schema\":{}}]}"));
    assert_string_equal(error.param, "tools");
    defaults.prints_tools = true;
}

TEST(a_small_arena_refuses) {
    static const char body[] =
        SAYS("{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"thinking\":\"hm\"},"
             "{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"f\",\"input\":{\"a\":1}}]},"
             "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"t\"},"
             "{\"type\":\"text\",\"text\":\"x\"}]}");
    expect_taken_with_room(&anthropic_dialect, body);
}
