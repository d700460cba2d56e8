/* SPDX-License-Identifier: Apache-2.0
 * Protects what a body of Ollama's API becomes: the inner request's messages, tools, options and
 * constraint, and what is refused, by name.
 */
#include "serving/gateway/dialects/ollama_reader.h"

#include "reading.h"
#include "serving/gateway/dialects/ollama_dialect.h"
#include "test_case.h"

#define HI "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"
#define SAYS(messages) "{\"messages\":[" messages "]}"
#define CALL(members) "{\"function\":{" members "}}"
#define CALLS(calls) "{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[" calls "]}"

static void expect_messages(const struct dialect *dialect, const char *body, const char *expected) {
    if (!read_as(dialect, body)) fail_msg("%s: %s", body, error.message);
    expect(tree_text(&arena, parsed.messages), expected);
}

static void expect_chat(const char *body, const char *expected) {
    expect_messages(&ollama_chat_dialect, body, expected);
}

static void take(const char *body) {
    if (!read_as(&ollama_chat_dialect, body)) fail_msg("%s: %s", body, error.message);
}

TEST(messages_become_those_of_a_chat) {
    expect_chat(SAYS("{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":\"u\","
                     "\"images\":[]},{\"role\":\"assistant\",\"content\":\"a\",\"thinking\":\"t\"},"
                     "{\"role\":\"user\"}"),
                "[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":\"u\"},"
                "{\"role\":\"assistant\",\"content\":\"a\",\"reasoning_content\":\"t\"},"
                "{\"role\":\"user\",\"content\":\"\"}]");
    assert_true(parsed.stream && parsed.opens_turn && !parsed.continues);
}

TEST(calls_and_results_without_ids_are_paired) {
    expect_chat(
        SAYS("{\"role\":\"user\",\"content\":\"u\"}," CALLS(
            CALL("\"name\":\"a\",\"arguments\":{\"x\":1}") "," CALL(
                "\"name\":\"b\"")) ","
                                   "{\"role\":\"tool\",\"tool_name\":\"b\",\"content\":\"rb\"},"
                                   "{\"role\":\"tool\",\"content\":\"ra\"}," CALLS(
                                       "{\"id\":\"own\",\"function\":{\"name\":\"a\",\"arguments\":"
                                       "\"{}\"}}") ","
                                                   "{\"role\":\"tool\",\"tool_call_id\":\"own\","
                                                   "\"content\":\"r\"}"),
        "[{\"role\":\"user\",\"content\":\"u\"},{\"role\":\"assistant\",\"content\":null,"
        "\"tool_calls\":[{\"id\":\"call_0\",\"type\":\"function\",\"function\":{\"name\":\"a\","
        "\"arguments\":\"{\\\"x\\\":1}\"}},{\"id\":\"call_1\",\"type\":\"function\",\"function\":{"
        "\"name\":\"b\",\"arguments\":\"{}\"}}]},"
        "{\"role\":\"tool\",\"content\":\"rb\",\"tool_call_id\":\"call_1\"},"
        "{\"role\":\"tool\",\"content\":\"ra\",\"tool_call_id\":\"call_0\"},"
        "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"own\",\"type\":"
        "\"function\",\"function\":{\"name\":\"a\",\"arguments\":\"{}\"}}]},"
        "{\"role\":\"tool\",\"content\":\"r\",\"tool_call_id\":\"own\"}]");
}

TEST(an_assistants_text_at_the_end_is_continued) {
    take(SAYS("{\"role\":\"user\",\"content\":\"u\"},{\"role\":\"assistant\",\"content\":\"so\"}"));
    assert_true(parsed.continues && !parsed.opens_turn);
    take(SAYS("{\"role\":\"user\",\"content\":\"u\"},{\"role\":\"assistant\",\"content\":\"\"}"));
    assert_true(!parsed.continues && parsed.opens_turn);
}

TEST(a_prompt_becomes_a_conversation) {
    expect_messages(&ollama_generate_dialect, "{\"system\":\"s\",\"prompt\":\"p\",\"raw\":false}",
                    "[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":"
                    "\"p\"}]");
    assert_true(parsed.stream);
    expect_messages(&ollama_generate_dialect,
                    "{\"system\":\"\",\"prompt\":\"p\",\"stream\":false,\"format\":\"json\"}",
                    "[{\"role\":\"user\",\"content\":\"p\"}]");
    assert_false(parsed.stream);
    expect(parsed.constraint.form, "{\"schema\":{\"type\":\"object\"}}");
}

/* As `ollama run` asks before its first prompt. */
TEST(a_request_without_text_loads_the_model) {
    take("{\"messages\":[],\"keep_alive\":\"5m\"}");
    assert_true(parsed.tokens_only && !parsed.stream);
    expect_messages(&ollama_generate_dialect, "{\"prompt\":\"\"}",
                    "[{\"role\":\"user\",\"content\":\"\"}]");
    assert_true(parsed.tokens_only);
    expect_taken_with_room(&ollama_chat_dialect, "{\"messages\":[]}");
}

TEST(options_are_read) {
    take("{" HI ",\"options\":{\"temperature\":0.5,\"top_p\":0.25,\"top_k\":7,\"min_p\":0.125,"
         "\"seed\":9,\"stop\":[\"a\",\"b\"],\"num_predict\":11,\"repeat_penalty\":1.5,"
         "\"presence_penalty\":1,\"frequency_penalty\":-1,\"num_ctx\":4096,\"mirostat\":0,"
         "\"typical_p\":1}}");
    const struct sampling *sampling = &parsed.sampling;
    assert_true(sampling->temperature == 0.5f && sampling->top_p == 0.25f);
    assert_true(sampling->min_p == 0.125f && sampling->repetition_penalty == 1.5f);
    assert_true(sampling->presence_penalty == 1 && sampling->frequency_penalty == -1);
    assert_int_equal(sampling->top_k, 7);
    assert_true(parsed.has_seed && sampling->seed == 9);
    assert_int_equal(parsed.new_tokens_max, 11);
    assert_int_equal(parsed.stops->count, 2);
    assert_int_equal(parsed.warning.count, 0);
    take("{" HI ",\"options\":{\"num_predict\":-1,\"seed\":-1,\"top_k\":-1,\"zig\":1}}");
    assert_true(parsed.new_tokens_max == 0 && !parsed.has_seed && parsed.sampling.top_k == 0);
    expect(parsed.warning, "unknown fields: options.zig");
}

TEST(thinking_and_a_format_are_asked_for) {
    take("{" HI ",\"think\":false,\"format\":{\"type\":\"array\"}}");
    assert_int_equal(parsed.thinking, CHAT_THINKING_OFF);
    expect(parsed.constraint.form, "{\"schema\":{\"type\":\"array\"}}");
    assert_string_equal(parsed.constraint.field, "format");
    take("{" HI ",\"think\":\"high\",\"format\":\"\"}");
    assert_int_equal(parsed.thinking, CHAT_THINKING_ON);
    expect(parsed.effort, "high");
    assert_null(parsed.constraint.field);
}

TEST(tools_are_those_of_a_chat) {
    take("{" HI ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]}");
    assert_int_equal(tree_count(parsed.tools), 1);
    take("{" HI ",\"tools\":[]}");
    assert_null(parsed.tools);
}

TEST(what_will_not_do_is_refused_by_name) {
    static const struct refusal chats[] = {
        {"{}", 400, "messages"},
        {"{\"messages\":{}}", 400, "messages"},
        {SAYS("7"), 400, "messages[0]"},
        {SAYS("{\"role\":\"ghost\"}"), 400, "messages[0].role"},
        {SAYS("{\"role\":\"user\",\"content\":[]}"), 400, "messages[0].content"},
        {SAYS("{\"role\":\"user\",\"images\":[\"aGk=\"]}"), 400, "messages[0].images"},
        {SAYS("{\"role\":\"tool\",\"content\":\"r\"}"), 400, "messages[0]"},
        {SAYS("{\"role\":\"assistant\",\"tool_calls\":7}"), 400, "messages[0].tool_calls"},
        {SAYS(CALLS(CALL("\"arguments\":{}"))), 400, "messages[0].tool_calls"},
        {SAYS(CALLS(CALL("\"name\":\"f\",\"arguments\":[]"))), 400, "messages[0].tool_calls"},
        {"{" HI ",\"model\":\"llama\"}", 404, "model"},
        {"{" HI ",\"think\":7}", 400, "think"},
        {"{" HI ",\"think\":\"much\"}", 422, "think"},
        {"{" HI ",\"format\":\"yaml\"}", 400, "format"},
        {"{" HI ",\"format\":7}", 400, "format"},
        {"{" HI ",\"options\":7}", 400, "options"},
        {"{" HI ",\"options\":{\"temperature\":3}}", 422, "temperature"},
        {"{" HI ",\"options\":{\"mirostat\":2}}", 400, "mirostat"},
        {"{" HI ",\"options\":{\"num_predict\":-3}}", 422, "num_predict"},
        {"{" HI ",\"options\":{\"stop\":7}}", 400, "stop"},
        {"{" HI ",\"tools\":7}", 400, "tools"},
        {"{" HI ",\"tools\":[{\"type\":\"function\",\"function\":{}}]}", 400,
         "tools[0].function.name"},
        {"{" HI ",\"logprobs\":true}", 400, "logprobs"},
    };
    static const struct refusal prompts[] = {
        {"{}", 400, "prompt"},
        {"{\"prompt\":7}", 400, "prompt"},
        {"{\"prompt\":\"p\",\"system\":7}", 400, "system"},
        {"{\"prompt\":\"p\",\"images\":[\"aGk=\"]}", 400, "images"},
        {"{\"prompt\":\"p\",\"raw\":true}", 400, "raw"},
        {"{\"prompt\":\"p\",\"suffix\":\"s\"}", 400, "suffix"},
        {"{\"prompt\":\"p\",\"context\":[1]}", 400, "context"},
        {"{\"prompt\":\"p\",\"template\":\"t\"}", 400, "template"},
    };
    expect_refused(&ollama_chat_dialect, chats, ARRAY_COUNT(chats));
    expect_refused(&ollama_generate_dialect, prompts, ARRAY_COUNT(prompts));
}

TEST(memory_has_an_end) {
    expect_taken_with_room(&ollama_chat_dialect,
                           SAYS("{\"role\":\"user\",\"content\":\"u\"}," CALLS(
                               CALL("\"name\":\"a\"")) ","
                                                       "{\"role\":\"tool\",\"content\":\"r\"}"));
    expect_taken_with_room(&ollama_generate_dialect, "{\"prompt\":\"p\",\"system\":\"s\"}");
}
