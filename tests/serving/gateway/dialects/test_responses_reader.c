/* SPDX-License-Identifier: Apache-2.0
 * Protects what a body of OpenAI's Responses API becomes: the inner request's messages and tools,
 * what its answers repeat, and what is refused, by name.
 */
#include "serving/gateway/dialects/responses_reader.h"

#include "reading.h"
#include "serving/gateway/dialects/responses_dialect.h"
#include "test_case.h"

static bool parse(const char *text) {
    return read_as(&responses_dialect, text);
}

#define HI "\"input\":\"hi\""
#define ITEMS(items) "{\"input\":[" items "]}"

static void expect_messages(const char *text, const char *expected) {
    if (!parse(text)) fail_msg("%s: %s", text, error.message);
    expect(tree_text(&arena, parsed.messages), expected);
}

TEST(texts_and_messages_are_content) {
    expect_messages("{\"instructions\":\"be brief\"," HI "}",
                    "[{\"role\":\"system\",\"content\":\"be brief\"},"
                    "{\"role\":\"user\",\"content\":\"hi\"}]");
    expect_messages(
        ITEMS("{\"role\":\"developer\",\"content\":\"d\"},"
              "{\"type\":\"message\",\"role\":\"user\",\"content\":[{\"type\":\"input_text\","
              "\"text\":\"a\"},{\"type\":\"input_text\",\"text\":\"b\"}]},"
              "{\"type\":\"message\",\"id\":\"msg_1\",\"status\":\"completed\",\"role\":"
              "\"assistant\",\"content\":[{\"type\":\"output_text\",\"text\":\"c\","
              "\"annotations\":[]}]},"
              "{\"role\":\"assistant\",\"content\":\"e\"}"),
        "[{\"role\":\"developer\",\"content\":\"d\"},"
        "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
        "{\"type\":\"text\",\"text\":\"b\"}]},"
        "{\"role\":\"assistant\",\"content\":\"c\"},"
        "{\"role\":\"assistant\",\"content\":\"e\"}]");
    assert_false(parsed.continues);
}

TEST(items_of_an_assistants_turn_are_one_message) {
    expect_messages(
        ITEMS("{\"role\":\"user\",\"content\":\"weather?\"},"
              "{\"type\":\"reasoning\",\"id\":\"rs_1\",\"summary\":[],\"content\":[{\"type\":"
              "\"reasoning_text\",\"text\":\"hm\"}]},"
              "{\"type\":\"message\",\"role\":\"assistant\",\"content\":\"I look.\"},"
              "{\"type\":\"function_call\",\"id\":\"fc_1\",\"call_id\":\"c1\",\"name\":\"look\","
              "\"arguments\":\"{}\"},"
              "{\"type\":\"function_call\",\"call_id\":\"c2\",\"name\":\"wait\",\"arguments\":"
              "\"{}\"},"
              "{\"type\":\"function_call_output\",\"call_id\":\"c1\",\"output\":\"rain\"},"
              "{\"type\":\"function_call_output\",\"call_id\":\"c2\",\"output\":[{\"type\":"
              "\"input_text\",\"text\":\"ok\"}]},"
              "{\"type\":\"reasoning\",\"summary\":[{\"type\":\"summary_text\",\"text\":\"so\"}],"
              "\"encrypted_content\":\"zzz\"},"
              "{\"role\":\"assistant\",\"content\":\"Rain.\"},"
              "{\"role\":\"user\",\"content\":\"thanks\"}"),
        "[{\"role\":\"user\",\"content\":\"weather?\"},"
        "{\"role\":\"assistant\",\"content\":\"I look.\",\"reasoning_content\":\"hm\","
        "\"tool_calls\":[{\"id\":\"c1\",\"type\":\"function\",\"function\":{\"name\":\"look\","
        "\"arguments\":\"{}\"}},{\"id\":\"c2\",\"type\":\"function\",\"function\":{\"name\":"
        "\"wait\",\"arguments\":\"{}\"}}]},"
        "{\"role\":\"tool\",\"content\":\"rain\",\"tool_call_id\":\"c1\"},"
        "{\"role\":\"tool\",\"content\":\"ok\",\"tool_call_id\":\"c2\"},"
        "{\"role\":\"assistant\",\"content\":\"Rain.\",\"reasoning_content\":\"so\"},"
        "{\"role\":\"user\",\"content\":\"thanks\"}]");
}

/* Clients that keep no reasoning_text (Codex) have what was sealed alone. */
TEST(reasoning_that_was_sealed_comes_back) {
    expect_messages(
        ITEMS("{\"role\":\"user\",\"content\":\"hi\"},"
              "{\"type\":\"reasoning\",\"summary\":[{\"type\":\"summary_text\",\"text\":\"s\"}],"
              "\"encrypted_content\":\"fathom.reasoning.1:hm\\n\"},"
              "{\"role\":\"assistant\",\"content\":\"a\"},"
              "{\"type\":\"reasoning\",\"summary\":[],\"content\":[{\"text\":\"so\"}],"
              "\"encrypted_content\":\"fathom.reasoning.1:other\"},"
              "{\"role\":\"assistant\",\"content\":\"b\"},"
              "{\"type\":\"reasoning\",\"summary\":[],\"encrypted_content\":\"gAAAA\"},"
              "{\"type\":\"reasoning\",\"summary\":[],\"encrypted_content\":null},"
              "{\"role\":\"assistant\",\"content\":\"c\"}"),
        "[{\"role\":\"user\",\"content\":\"hi\"},"
        "{\"role\":\"assistant\",\"content\":\"a\",\"reasoning_content\":\"hm\\n\"},"
        "{\"role\":\"assistant\",\"content\":\"b\",\"reasoning_content\":\"so\"},"
        "{\"role\":\"assistant\",\"content\":\"c\"}]");
    assert_false(parsed.seals_reasoning);
    assert_true(parse("{" HI ",\"include\":[\"reasoning.encrypted_content\"]}"));
    assert_true(parsed.seals_reasoning);
}

#define TOOL                                                                                       \
    "{\"type\":\"function\",\"name\":\"look\",\"description\":\"looks\",\"parameters\":{\"type\":" \
    "\"object\"},\"strict\":false}"

TEST(answers_repeat_what_was_asked) {
    assert_true(parse("{" HI "}"));
    expect(parsed.reported,
           "\"instructions\":null,\"tools\":[],\"metadata\":{},\"text\":{\"format\":{\"type\":"
           "\"text\"}},"
           "\"tool_choice\":\"auto\","
           "\"parallel_tool_calls\":true,\"max_output_tokens\":null,\"temperature\":0.6,"
           "\"top_p\":0.95,\"top_logprobs\":0,\"reasoning\":{\"effort\":null,\"summary\":null},");
    assert_true(parse("{\"instructions\":\"i\",\"tools\":[" TOOL "],\"metadata\":{\"a\":\"b\"},"
                      "\"parallel_tool_calls\":false,\"max_output_tokens\":20,\"temperature\":0.7,"
                      "\"reasoning\":{\"effort\":\"low\",\"summary\":\"auto\"}," HI "}"));
    expect(parsed.reported,
           "\"instructions\":\"i\",\"tools\":[" TOOL "],\"metadata\":{\"a\":\"b\"},"
           "\"text\":{\"format\":{\"type\":\"text\"}},"
           "\"tool_choice\":\"auto\",\"parallel_tool_calls\":false,\"max_output_tokens\":20,"
           "\"temperature\":0.7,\"top_p\":0.95,\"top_logprobs\":0,\"reasoning\":{\"effort\":"
           "\"low\",\"summary\":null},");
    expect(tree_text(&arena, parsed.tools),
           "[{\"type\":\"function\",\"function\":{\"name\":\"look\",\"description\":\"looks\","
           "\"parameters\":{\"type\":\"object\"}}}]");
    assert_true(parsed.one_call);
    assert_int_equal(parsed.new_tokens_max, 20);
    assert_int_equal(parsed.thinking, CHAT_THINKING_ON);
    assert_int_equal(parsed.warning.count, 0);
}

#define FORMAT                                                                                     \
    "{\"format\":{\"type\":\"json_schema\",\"name\":\"n\",\"schema\":{\"type\":\"null\"}}}"

TEST(a_format_binds_the_answer_and_is_repeated) {
    assert_true(parse("{" HI ",\"text\":" FORMAT "}"));
    expect(parsed.constraint.form, "{\"schema\":{\"type\":\"null\"}}");
    assert_string_equal(parsed.constraint.field, "text.format");
    assert_true(bytes_contain(parsed.reported, BYTES_LITERAL("\"text\":" FORMAT ",")));
    assert_true(parse("{" HI ",\"strict_order\":true,\"text\":" FORMAT "}"));
    expect(parsed.constraint.form, "{\"schema\":{\"type\":\"null\"},\"in_order\":true}");
    assert_int_equal(parsed.warning.count, 0);
    assert_true(parse("{" HI ",\"text\":{\"format\":{\"type\":\"json_object\"}}}"));
    expect(parsed.constraint.form, "{\"schema\":{\"type\":\"object\"}}");
}

TEST(a_choice_of_tools_binds_the_answer) {
    static const char form[] =
        "{\"sequence\":[{\"text\":\"{\\\"name\\\": \\\"\"},{\"sequence\":[{\"text\":\"look\"},{"
        "\"text\":\"\\\", \\\"parameters\\\": \"},{\"schema\":{\"type\":\"object\"}}]},{\"text\":"
        "\"}\"}]}";
    defaults.calls = TOOL_FORMAT_LLAMA;
    assert_true(parse("{" HI ",\"tools\":[" TOOL
                      "],\"tool_choice\":{\"type\":\"function\",\"name\":"
                      "\"look\"}}"));
    expect(parsed.constraint.form, form);
    assert_string_equal(parsed.constraint.field, "tool_choice");
    assert_true(parse("{" HI ",\"tools\":[" TOOL "],\"tool_choice\":\"required\","
                      "\"parallel_tool_calls\":false}"));
    expect(parsed.constraint.form, form);
    assert_true(parsed.one_call);
    assert_true(parse("{" HI ",\"tools\":[" TOOL "],\"tool_choice\":\"auto\"}"));
    assert_int_equal(parsed.constraint.form.count, 0);
    defaults.calls = TOOL_FORMAT_DEEPSEEK_V3;
}

TEST(long_instructions_are_not_repeated) {
    static char body[1 << 20];
    strcpy(body, "{" HI ",\"instructions\":\"");
    size_t count = strlen(body);
    memset(body + count, 'x', RESPONSES_READER_REPORTED_BYTES_MAX);
    strcpy(body + count + RESPONSES_READER_REPORTED_BYTES_MAX, "\"}");
    assert_true(parse(body));
    assert_true(parsed.reported.count < 1024);
    assert_int_equal(tree_count(parsed.messages), 2);
}

TEST(what_asks_for_nothing_is_fine) {
    assert_true(parse("{" HI ",\"store\":false,\"background\":false,\"truncation\":\"disabled\","
                      "\"previous_response_id\":null,\"text\":{\"format\":{\"type\":\"text\"},"
                      "\"verbosity\":\"medium\"},\"include\":[\"reasoning.encrypted_content\"],"
                      "\"user\":\"u\",\"prompt_cache_key\":\"k\",\"service_tier\":\"auto\","
                      "\"stream_options\":{\"include_obfuscation\":false},\"tools\":[],"
                      "\"tool_choice\":\"none\",\"reasoning\":{\"effort\":\"none\"}}"));
    assert_int_equal(parsed.warning.count, 0);
    assert_int_equal(parsed.sampling.flags & SAMPLING_LOGPROBS, 0);
    assert_int_equal(parsed.thinking, CHAT_THINKING_OFF);
}

TEST(log_probabilities_are_asked_for_in_two_ways) {
    assert_true(parse("{" HI ",\"include\":[\"message.output_text.logprobs\"]}"));
    assert_true(parsed.sampling.flags & SAMPLING_LOGPROBS);
    assert_int_equal(parsed.sampling.top_logprobs, 0);
    assert_true(parse("{" HI ",\"top_logprobs\":3}"));
    assert_true(parsed.sampling.flags & SAMPLING_LOGPROBS);
    assert_int_equal(parsed.sampling.top_logprobs, 3);
}

TEST(unknown_fields_are_reported) {
    assert_true(parse("{" HI ",\"colour\":1}"));
    assert_true(bytes_equal(parsed.warning, BYTES_LITERAL("unknown fields: colour")));
}

static const struct refusal refusals[] = {
    {"{}", 400, "input"},
    {"{\"input\":[]}", 400, "input"},
    {"{\"input\":7}", 400, "input"},
    {ITEMS("7"), 400, "input[0]"},
    {ITEMS("{\"type\":\"item_reference\",\"id\":\"m\"}"), 400, "input[0]"},
    {ITEMS("{\"type\":\"web_search_call\"}"), 400, "input[0]"},
    {ITEMS("{\"role\":\"user\"}"), 400, "input[0].content"},
    {ITEMS("{\"role\":\"tool\",\"content\":\"x\"}"), 400, "input[0].role"},
    {ITEMS("{\"role\":\"user\",\"content\":[{\"type\":\"input_image\"}]}"), 400,
     "input[0].content"},
    {ITEMS("{\"role\":\"user\",\"content\":[{\"type\":\"input_text\"}]}"), 400, "input[0].content"},
    {ITEMS("{\"type\":\"function_call\",\"name\":\"f\"}"), 400, "input[0]"},
    {ITEMS("{\"type\":\"function_call_output\",\"output\":\"\"}"), 400, "input[0]"},
    {ITEMS("{\"type\":\"function_call_output\",\"call_id\":\"c\"}"), 400, "input[0].output"},
    {ITEMS("{\"type\":\"reasoning\",\"content\":[{}]}"), 400, "input[0]"},
    {ITEMS("{\"type\":\"reasoning\",\"content\":\"x\"}"), 400, "input[0]"},
    {"{" HI ",\"instructions\":[]}", 400, "instructions"},
    {"{" HI ",\"model\":\"gpt-5\"}", 404, "model"},
    {"{" HI ",\"max_output_tokens\":0}", 422, "max_output_tokens"},
    {"{" HI ",\"store\":true}", 400, "store"},
    {"{" HI ",\"background\":true}", 400, "background"},
    {"{" HI ",\"previous_response_id\":\"resp_1\"}", 400, "previous_response_id"},
    {"{" HI ",\"conversation\":\"conv_1\"}", 400, "conversation"},
    {"{" HI ",\"prompt\":{\"id\":\"p\"}}", 400, "prompt"},
    {"{" HI ",\"truncation\":\"auto\"}", 400, "truncation"},
    {"{" HI ",\"max_tool_calls\":3}", 400, "max_tool_calls"},
    {"{" HI ",\"context_management\":[{\"type\":\"compaction\"}]}", 400, "context_management"},
    {"{" HI ",\"text\":{\"format\":{\"type\":\"json_schema\",\"name\":\"n\"}}}", 400,
     "text.format"},
    {"{" HI ",\"text\":{\"format\":{\"type\":\"grammar\"}}}", 400, "text.format"},
    {"{" HI ",\"text\":{\"verbosity\":\"low\"}}", 400, "text.verbosity"},
    {"{" HI ",\"reasoning\":{\"effort\":\"huge\"}}", 422, "reasoning.effort"},
    {"{" HI ",\"include\":\"x\"}", 400, "include"},
    {"{" HI ",\"top_logprobs\":21}", 422, "top_logprobs"},
    {"{" HI ",\"tools\":[{\"type\":\"file_search\"}]}", 400, "tools[0]"},
    {"{" HI ",\"tools\":[{\"type\":\"function\",\"name\":\"\"}]}", 400, "tools[0].name"},
    {"{" HI ",\"tools\":[{\"type\":\"function\",\"name\":\"f\",\"strict\":true}]}", 400,
     "tools[0].strict"}, /* where calls begin like text */
    {"{" HI ",\"tools\":[{\"type\":\"function\",\"name\":\"f\",\"strict\":1}]}", 400,
     "tools[0].strict"},
    {"{" HI ",\"tool_choice\":\"required\"}", 400, "tool_choice"},
    {"{" HI ",\"tool_choice\":{\"type\":\"function\",\"name\":\"f\"}}", 400, "tool_choice"},
};

TEST(what_cannot_be_done_is_refused_by_name) {
    expect_refused(&responses_dialect, refusals, ARRAY_COUNT(refusals));
}

TEST(a_part_without_its_text_is_not_taken_for_another_type) {
    assert_false(parse(ITEMS("{\"role\":\"user\",\"content\":[{\"type\":\"input_text\"}]}")));
    assert_string_equal(error.message,
                        "'input[0].content' needs parts with a string 'text' or 'refusal'.");
    assert_false(parse(ITEMS("{\"role\":\"user\",\"content\":[{\"type\":\"input_image\"}]}")));
    assert_string_equal(error.message,
                        "'input[0].content': the type 'input_image' is not supported here.");
}

TEST(a_small_arena_refuses) {
    static const char text[] =
        ITEMS("{\"type\":\"reasoning\",\"content\":[{\"text\":\"hm\"}]},"
              "{\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"a\"}]}");
    expect_taken_with_room(&responses_dialect, text);
}
