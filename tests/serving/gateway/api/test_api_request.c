/* SPDX-License-Identifier: Apache-2.0
 * Each thing a body can say, and each thing it can say wrongly: with the status, the parameter and
 * the code that the client gets to see.
 */
#include "serving/gateway/api/api_request.h"

#include "base/check.h"
#include "serving/gateway/dialects/chat_dialect.h"
#include "serving/gateway/dialects/completion_dialect.h"
#include "test_case.h"

static char memory[32 << 20];
static struct api_request parsed;
static struct api_error error;

static const struct api_model models[] = {{{"tiny-r1", 7}, CHAT_THINKING_DEFAULT},
                                          {{"tiny-chat", 9}, CHAT_THINKING_OFF}};

static struct api_defaults defaults = {
    .sampling = {.temperature = 0.6f, .top_p = 0.95f, .top_k = 3},
    .models = models,
    .model_count = ARRAY_COUNT(models),
    .thought = CHAT_THOUGHT_SWITCHED,
    .prints_tools = true,
    .reads_documents = true,
};

static bool parse_in(size_t bytes, const struct dialect *dialect, const char *body) {
    struct arena arena;
    arena_over(&arena, memory, bytes);
    error = (struct api_error){0};
    return api_request_parse(&arena, dialect, bytes_of(body), &defaults, &parsed, &error);
}

static bool parse(const struct dialect *dialect, const char *body) {
    return parse_in(1 << 25, dialect, body);
}

#define HI "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"

static const struct refusal {
    const struct dialect *dialect;
    const char *body;
    uint32_t http_status;
    const char *param, *code;
} refusals[] = {
    {&chat_dialect, "", 400, "", "invalid_json"},
    {&chat_dialect, "{", 400, "", "invalid_json"},
    {&chat_dialect, "{} x", 400, "", "invalid_json"},
    {&chat_dialect, "{\"a\":1,\"a\":2}", 400, "", "invalid_json"},
    {&chat_dialect, "\"\xff\"", 400, "", "invalid_json"},
    {&chat_dialect, "[]", 400, "", "invalid_type"},
    {&chat_dialect, "{}", 400, "messages", "missing_required_parameter"},
    {&chat_dialect, "{\"messages\":null}", 400, "messages", "missing_required_parameter"},
    {&chat_dialect, "{\"messages\":\"hi\"}", 400, "messages", "invalid_type"},
    {&chat_dialect, "{\"messages\":[]}", 400, "messages", "invalid_value"},
    {&chat_dialect, "{\"messages\":[7]}", 400, "messages[0]", "invalid_type"},
    {&chat_dialect, "{\"messages\":[{\"content\":\"hi\"}]}", 400, "messages[0].role",
     "missing_required_parameter"},
    {&chat_dialect, "{\"messages\":[{\"role\":1,\"content\":\"hi\"}]}", 400, "messages[0].role",
     "invalid_type"},
    {&chat_dialect, "{\"messages\":[{\"role\":\"cat\",\"content\":\"hi\"}]}", 422,
     "messages[0].role", "invalid_value"},
    {&chat_dialect, "{\"messages\":[{\"role\":\"user\"}]}", 400, "messages[0].content",
     "missing_required_parameter"},
    {&chat_dialect, "{\"messages\":[{\"role\":\"user\",\"content\":null}]}", 400,
     "messages[0].content", "missing_required_parameter"},
    {&chat_dialect, "{\"messages\":[{\"role\":\"user\",\"content\":{}}]}", 400,
     "messages[0].content", "invalid_type"},
    {&chat_dialect, "{\"messages\":[{\"role\":\"user\",\"content\":[\"x\"]}]}", 400,
     "messages[0].content", "invalid_type"},
    {&chat_dialect, "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]}",
     400, "messages[0].content", "unsupported_parameter"},
    {&chat_dialect, "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}]}", 400,
     "messages[0].content", "invalid_type"},
    {&chat_dialect, "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{}]}]}", 400,
     "messages[0].tool_calls", "invalid_type"},
    {&chat_dialect, "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":4}]}", 400,
     "messages[0].tool_calls", "invalid_type"},
    {&chat_dialect, "{" HI ",\"model\":\"gpt-4\"}", 404, "model", "model_not_found"},
    {&chat_dialect, "{" HI ",\"model\":4}", 400, "model", "invalid_type"},
    {&chat_dialect, "{" HI ",\"temperature\":\"hot\"}", 400, "temperature", "invalid_type"},
    {&chat_dialect, "{" HI ",\"temperature\":2.1}", 422, "temperature", "out_of_range"},
    {&chat_dialect, "{" HI ",\"temperature\":-1}", 422, "temperature", "out_of_range"},
    {&chat_dialect, "{" HI ",\"top_p\":1.5}", 422, "top_p", "out_of_range"},
    {&chat_dialect, "{" HI ",\"top_k\":-2}", 422, "top_k", "out_of_range"},
    {&chat_dialect, "{" HI ",\"seed\":1.5}", 400, "seed", "invalid_type"},
    {&chat_dialect, "{" HI ",\"max_tokens\":0}", 422, "max_tokens", "out_of_range"},
    {&chat_dialect, "{" HI ",\"max_tokens\":\"9\"}", 400, "max_tokens", "invalid_type"},
    {&chat_dialect, "{" HI ",\"max_tokens\":9000000000}", 422, "max_tokens", "out_of_range"},
    {&chat_dialect, "{" HI ",\"max_completion_tokens\":-4}", 422, "max_completion_tokens",
     "out_of_range"},
    {&chat_dialect, "{" HI ",\"stop\":5}", 400, "stop", "invalid_type"},
    {&chat_dialect, "{" HI ",\"stop\":[\"a\",5]}", 400, "stop", "invalid_type"},
    {&chat_dialect, "{" HI ",\"stop\":\"\"}", 422, "stop", "out_of_range"},
    {&chat_dialect, "{" HI ",\"stop\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]}", 422, "stop",
     "out_of_range"},
    {&chat_dialect, "{" HI ",\"stream\":1}", 400, "stream", "invalid_type"},
    {&chat_dialect, "{" HI ",\"stream_options\":true}", 400, "stream_options", "invalid_type"},
    {&chat_dialect, "{" HI ",\"stream_options\":{\"continuous_usage_stats\":true}}", 400,
     "stream_options.continuous_usage_stats", "unsupported_parameter"},
    {&chat_dialect, "{" HI ",\"stream_options\":{\"include_usage\":1}}", 400, "include_usage",
     "invalid_type"},
    {&chat_dialect, "{" HI ",\"n\":0}", 422, "n", "out_of_range"},
    {&chat_dialect, "{" HI ",\"n\":17}", 422, "n", "out_of_range"},
    {&chat_dialect, "{" HI ",\"n\":\"2\"}", 400, "n", "invalid_type"},
    {&chat_dialect, "{" HI ",\"logprobs\":1}", 400, "logprobs", "invalid_type"},
    {&chat_dialect, "{" HI ",\"top_logprobs\":5}", 400, "top_logprobs", "invalid_value"},
    {&chat_dialect, "{" HI ",\"logprobs\":true,\"top_logprobs\":21}", 422, "top_logprobs",
     "out_of_range"},
    {&chat_dialect, "{" HI ",\"logprobs\":true,\"top_logprobs\":true}", 400, "top_logprobs",
     "invalid_type"},
    {&chat_dialect, "{" HI ",\"min_p\":1.01}", 422, "min_p", "out_of_range"},
    {&chat_dialect, "{" HI ",\"min_p\":\"0\"}", 400, "min_p", "invalid_type"},
    {&chat_dialect, "{" HI ",\"repetition_penalty\":0}", 422, "repetition_penalty", "out_of_range"},
    {&chat_dialect, "{" HI ",\"repetition_penalty\":[]}", 400, "repetition_penalty",
     "invalid_type"},
    {&chat_dialect, "{" HI ",\"min_tokens\":-1}", 422, "min_tokens", "out_of_range"},
    {&chat_dialect, "{" HI ",\"min_tokens\":1.5}", 400, "min_tokens", "invalid_type"},
    {&chat_dialect, "{" HI ",\"min_tokens\":8,\"max_tokens\":7}", 422, "min_tokens",
     "out_of_range"},
    {&chat_dialect, "{" HI ",\"stop_token_ids\":7}", 400, "stop_token_ids", "invalid_type"},
    {&chat_dialect, "{" HI ",\"stop_token_ids\":[\"a\"]}", 400, "stop_token_ids", "invalid_type"},
    {&chat_dialect, "{" HI ",\"stop_token_ids\":[-1]}", 422, "stop_token_ids", "out_of_range"},
    {&chat_dialect, "{" HI ",\"stop_token_ids\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]}", 422,
     "stop_token_ids", "out_of_range"},
    {&chat_dialect, "{" HI ",\"return_token_ids\":1}", 400, "return_token_ids", "invalid_type"},
    {&chat_dialect, "{" HI ",\"tools\":[{}]}", 400, "tools[0].type", "unsupported_parameter"},
    {&chat_dialect, "{" HI ",\"functions\":[{}]}", 400, "functions", "unsupported_parameter"},
    {&chat_dialect, "{" HI ",\"logit_bias\":[1]}", 400, "logit_bias", "invalid_type"},
    {&chat_dialect, "{" HI ",\"logit_bias\":{\"1\":\"2\"}}", 400, "logit_bias", "invalid_type"},
    {&chat_dialect, "{" HI ",\"logit_bias\":{\"1\":101}}", 422, "logit_bias", "out_of_range"},
    {&chat_dialect, "{" HI ",\"logit_bias\":{\"-1\":1}}", 422, "logit_bias", "out_of_range"},
    {&chat_dialect, "{" HI ",\"logit_bias\":{\"01\":1}}", 422, "logit_bias", "out_of_range"},
    {&chat_dialect, "{" HI ",\"logit_bias\":{\"\":1}}", 422, "logit_bias", "out_of_range"},
    {&chat_dialect, "{" HI ",\"logit_bias\":{\"9999999\":1}}", 422, "logit_bias", "out_of_range"},
    {&chat_dialect, "{" HI ",\"presence_penalty\":2.5}", 422, "presence_penalty", "out_of_range"},
    {&chat_dialect, "{" HI ",\"presence_penalty\":true}", 400, "presence_penalty", "invalid_type"},
    {&chat_dialect, "{" HI ",\"frequency_penalty\":-2.5}", 422, "frequency_penalty",
     "out_of_range"},
    {&chat_dialect, "{" HI ",\"frequency_penalty\":\"1\"}", 400, "frequency_penalty",
     "invalid_type"},
    {&chat_dialect, "{" HI ",\"response_format\":{\"type\":\"yaml\"}}", 400, "response_format",
     "unsupported_parameter"},
    {&chat_dialect, "{" HI ",\"response_format\":\"text\"}", 400, "response_format",
     "invalid_type"},
    {&completion_dialect, "{}", 400, "prompt", "missing_required_parameter"},
    {&completion_dialect, "{\"prompt\":7}", 400, "prompt", "invalid_type"},
    {&completion_dialect, "{\"prompt\":[]}", 400, "prompt", "invalid_value"},
    {&completion_dialect, "{\"prompt\":[\"a\",\"b\",[1]]}", 400, "prompt[2]", "invalid_type"},
    {&completion_dialect, "{\"prompt\":[\"a\",1]}", 400, "prompt[1]", "invalid_type"},
    {&completion_dialect, "{\"prompt\":[[1],\"a\"]}", 400, "prompt[1]", "invalid_type"},
    {&completion_dialect, "{\"prompt\":[[1],2]}", 400, "prompt[1]", "invalid_type"},
    {&completion_dialect, "{\"prompt\":[null,\"a\"]}", 400, "prompt[0]", "invalid_type"},
    {&completion_dialect, "{\"prompt\":[[1],[2,\"a\"]]}", 400, "prompt[1]", "invalid_type"},
    {&completion_dialect, "{\"prompt\":[[1],[2,-1]]}", 422, "prompt[1]", "out_of_range"},
    {&completion_dialect,
     "{\"prompt\":[\"a\",\"b\",\"c\",\"d\",\"e\",\"f\",\"g\",\"h\",\"i\"],\"n\":16}", 422, "prompt",
     "out_of_range"},
    {&completion_dialect, "{\"prompt\":[1,\"a\"]}", 400, "prompt", "invalid_type"},
    {&completion_dialect, "{\"prompt\":[1,-2]}", 422, "prompt", "out_of_range"},
    {&completion_dialect, "{\"prompt\":[99999999]}", 422, "prompt", "out_of_range"},
    {&completion_dialect, "{\"prompt\":[1.5]}", 400, "prompt[0]", "invalid_type"},
    {&completion_dialect, "{\"prompt\":[1],\"suffix\":\"b\"}", 400, "suffix",
     "unsupported_parameter"},
    {&completion_dialect, "{\"prompt\":\"a\",\"best_of\":2}", 400, "best_of",
     "unsupported_parameter"},
    {&completion_dialect, "{\"prompt\":\"a\",\"logprobs\":true}", 400, "logprobs", "invalid_type"},
    {&completion_dialect, "{\"prompt\":\"a\",\"logprobs\":21}", 422, "logprobs", "out_of_range"},
    {&completion_dialect, "{\"prompt\":\"a\",\"max_tokens\":0}", 422, "max_tokens", "out_of_range"},
    {&completion_dialect, "{\"prompt\":\"a\",\"max_tokens\":0,\"logprobs\":1}", 422, "max_tokens",
     "out_of_range"},
    {&completion_dialect, "{\"prompt\":\"a\",\"max_tokens\":0,\"echo\":true}", 422, "max_tokens",
     "out_of_range"},
    {&completion_dialect,
     "{\"prompt\":\"a\",\"max_tokens\":0,\"echo\":true,\"logprobs\":1,\"min_tokens\":1}", 422,
     "min_tokens", "out_of_range"},
    {&chat_dialect, "{" HI ",\"max_tokens\":0,\"logprobs\":true}", 422, "max_tokens",
     "out_of_range"},
    {&completion_dialect, "{\"prompt\":\"a\",\"echo\":\"yes\"}", 400, "echo", "invalid_type"},
};

TEST(each_mistake_is_named) {
    for (size_t i = 0; i < ARRAY_COUNT(refusals); i++) {
        const struct refusal *row = &refusals[i];
        if (parse(row->dialect, row->body)) fail_msg("accepted: %s", row->body);
        if (error.http_status != row->http_status || strcmp(error.param, row->param) != 0 ||
            strcmp(error.code, row->code) != 0)
            fail_msg("%s: %u %s %s (%s)", row->body, error.http_status, error.param, error.code,
                     error.message);
        assert_true(strlen(error.message) > 10);
    }
}

TEST(a_chat_is_read_whole) {
    assert_true(parse(
        &chat_dialect,
        "{\"model\":\"tiny-r1\",\"messages\":[{\"role\":\"system\",\"content\":\"be kind\"},"
        "{\"role\":\"developer\",\"content\":\"\"},"
        "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
        "{\"type\":\"text\",\"text\":\"bc\"}],\"name\":\"joe\"},"
        "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"1\",\"type\":"
        "\"function\","
        "\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]},"
        "{\"role\":\"tool\",\"content\":\"4\",\"tool_call_id\":\"1\"}],"
        "\"temperature\":0,\"top_p\":1,\"top_k\":40,\"seed\":-1,\"max_tokens\":5,"
        "\"max_completion_tokens\":7,\"stop\":[\"x\",\"yz\"],\"stream\":true,"
        "\"stream_options\":{\"include_usage\":true},\"ignore_eos\":true,\"n\":1,\"user\":\"u\","
        "\"metadata\":{\"a\":\"b\"},\"store\":false,\"tools\":[],\"logprobs\":false,"
        "\"presence_penalty\":0,\"logit_bias\":{},\"response_format\":{\"type\":\"text\"},"
        "\"who_knows\":[1,2,3]}"));
    assert_int_equal(tree_count(parsed.messages), 5);
    assert_true(parsed.sampling.temperature == 0.0f && parsed.sampling.top_p == 1.0f);
    assert_int_equal(parsed.sampling.top_k, 40);
    assert_true(parsed.has_seed && parsed.sampling.seed == UINT64_MAX);
    assert_int_equal(parsed.new_tokens_max, 7);
    assert_int_equal(parsed.stops->count, 2);
    assert_true(parsed.stream && parsed.include_usage && parsed.ignore_eos);
    assert_true(bytes_equal(parsed.warning, BYTES_LITERAL("unknown fields: who_knows")));
}

/* What is left out, or null, is the server's default. */
TEST(absent_and_null_fields_mean_the_defaults) {
    static const char *const bodies[] = {
        "{" HI "}",
        "{" HI ",\"model\":null,\"temperature\":null,\"top_p\":null,\"top_k\":null,\"seed\":null,"
        "\"max_tokens\":null,\"max_completion_tokens\":null,\"stop\":null,\"stream\":null,"
        "\"stream_options\":null,\"n\":null,\"logprobs\":null,\"tools\":null,"
        "\"response_format\":null,\"presence_penalty\":null}",
        "{" HI ",\"model\":\"default\",\"stop\":[]}",
    };
    for (size_t i = 0; i < ARRAY_COUNT(bodies); i++) {
        assert_true(parse(&chat_dialect, bodies[i]));
        assert_true(parsed.sampling.temperature == 0.6f && parsed.sampling.top_p == 0.95f);
        assert_int_equal(parsed.sampling.top_k, 3);
        assert_int_equal(parsed.new_tokens_max, 0);
        assert_null(parsed.stops);
        assert_false(parsed.stream || parsed.include_usage || parsed.has_seed || parsed.echo);
    }
}

/* As in llama.cpp. */
TEST(a_length_of_minus_one_is_no_limit) {
    assert_true(parse(&chat_dialect, "{" HI ",\"max_tokens\":-1}"));
    assert_int_equal(parsed.new_tokens_max, 0);
    assert_true(parse(&chat_dialect, "{" HI ",\"max_tokens\":5,\"max_completion_tokens\":-1}"));
    assert_int_equal(parsed.new_tokens_max, 5);
    assert_true(parse(&completion_dialect, "{\"prompt\":\"a\",\"max_tokens\":-1}"));
    assert_true(!parsed.prompt_only && parsed.new_tokens_max == 0);
    assert_false(parse(&chat_dialect, "{" HI ",\"max_tokens\":-2}"));
    assert_false(parse(&chat_dialect, "{" HI ",\"max_tokens\":\"-1\"}"));
}

TEST(the_choice_of_tokens_is_read_whole) {
    assert_true(parse(&chat_dialect,
                      "{" HI ",\"min_p\":0.25,\"frequency_penalty\":-2,\"presence_penalty\":2,"
                      "\"repetition_penalty\":1.5,\"min_tokens\":3,\"logprobs\":true,"
                      "\"top_logprobs\":20,\"n\":16,\"best_of\":16,\"return_token_ids\":true,"
                      "\"logit_bias\":{\"0\":-100,\"77\":1.5},\"stop_token_ids\":[9,0]}"));
    const struct sampling *sampling = &parsed.sampling;
    assert_true(sampling->min_p == 0.25f && sampling->frequency_penalty == -2.0f);
    assert_true(sampling->presence_penalty == 2.0f && sampling->repetition_penalty == 1.5f);
    assert_int_equal(sampling->min_tokens, 3);
    assert_int_equal(sampling->flags, SAMPLING_LOGPROBS);
    assert_int_equal(sampling->top_logprobs, 20);
    assert_true(parsed.return_token_ids && parsed.choice_count == 16);
    assert_int_equal(parsed.bias_count, 2);
    assert_true(parsed.biases[0].token == 0 && parsed.biases[0].bias == -100.0f);
    assert_true(parsed.biases[1].token == 77 && parsed.biases[1].bias == 1.5f);
    assert_int_equal(parsed.stop_token_count, 2);
    assert_int_equal(parsed.stop_tokens[0], 9);
    assert_true(parse(&completion_dialect, "{\"prompt\":\"a\",\"logprobs\":0}"));
    assert_int_equal(parsed.sampling.flags, SAMPLING_LOGPROBS);
    assert_true(parse(&completion_dialect, "{\"prompt\":\"a\"}"));
    assert_int_equal(parsed.sampling.flags, 0);
    assert_int_equal(parsed.choice_count, 1);
    assert_true(sampling->repetition_penalty == 0.0f && sampling->min_p == 0.0f);
}

TEST(prompts_come_in_many_forms) {
    assert_true(parse(&completion_dialect, "{\"prompt\":\"hello\",\"echo\":true}"));
    assert_int_equal(parsed.prompt_count, 1);
    assert_null(parsed.prompts->tokens);
    assert_true(parsed.echo && bytes_equal(parsed.prompts->text, BYTES_LITERAL("hello")));
    assert_true(parse(&completion_dialect, "{\"prompt\":[\"hello\"]}"));
    assert_true(bytes_equal(parsed.prompts->text, BYTES_LITERAL("hello")));
    static const char *const tokens[] = {"{\"prompt\":[5,0,9]}", "{\"prompt\":[[5,0,9]]}"};
    for (size_t i = 0; i < ARRAY_COUNT(tokens); i++) {
        assert_true(parse(&completion_dialect, tokens[i]));
        assert_int_equal(parsed.prompt_count, 1);
        assert_int_equal(parsed.prompts->token_count, 3);
        assert_int_equal(parsed.prompts->tokens[2], 9);
    }
    assert_true(
        parse(&completion_dialect, "{\"prompt\":[[]]}")); /* refused later: it has no tokens */
    assert_int_equal(parsed.prompts->token_count, 0);
    assert_true(parse(&completion_dialect, "{\"prompt\":[\"a\",\"bc\"],\"n\":3}"));
    assert_int_equal(parsed.prompt_count, 2);
    assert_int_equal(parsed.choice_count, 3);
    assert_true(bytes_equal(parsed.prompts[1].text, BYTES_LITERAL("bc")));
    assert_true(parse(&completion_dialect, "{\"prompt\":[[1,2],[],[7]]}"));
    assert_int_equal(parsed.prompt_count, 3);
    assert_int_equal(parsed.prompts[0].token_count, 2);
    assert_true(parsed.prompts[1].tokens && parsed.prompts[1].token_count == 0);
    assert_int_equal(parsed.prompts[2].tokens[0], 7);
}

/* Only there no token at all is an answer. */
TEST(echo_with_logprobs_asks_about_the_prompt) {
    assert_true(parse(&completion_dialect, "{\"prompt\":\"a\",\"echo\":true,\"logprobs\":5}"));
    assert_int_equal(parsed.sampling.flags, SAMPLING_LOGPROBS | SAMPLING_SCORES);
    assert_false(parsed.prompt_only);
    assert_int_equal(parsed.new_tokens_max, 0);
    assert_true(parse(&completion_dialect,
                      "{\"prompt\":\"a\",\"echo\":true,\"logprobs\":0,\"max_tokens\":0}"));
    assert_true(parsed.prompt_only && parsed.new_tokens_max == 0);
    assert_true(parse(&completion_dialect, "{\"prompt\":\"a\",\"echo\":true,\"logprobs\":1,"
                                           "\"max_tokens\":0,\"max_completion_tokens\":3}"));
    assert_true(!parsed.prompt_only && parsed.new_tokens_max == 3);
    assert_true(parse(&completion_dialect, "{\"prompt\":\"a\",\"echo\":true}"));
    assert_int_equal(parsed.sampling.flags, 0);
}

static char large_body[4 << 20];

/* `item` so many times, after `start`. */
static void make_body(const char *start, const char *item, size_t count, const char *end) {
    size_t at = strlen(start), bytes = strlen(item);
    assert_true(at + count * bytes + strlen(end) < sizeof large_body);
    memcpy(large_body, start, at);
    for (size_t i = 0; i < count; i++, at += bytes)
        memcpy(large_body + at, item, bytes);
    strcpy(large_body + at, end);
}

static void assert_refused(const struct dialect *dialect, uint32_t http_status, const char *code,
                           const char *words) {
    assert_false(parse(dialect, large_body));
    assert_int_equal(error.http_status, http_status);
    assert_string_equal(error.code, code);
    if (!strstr(error.message, words)) fail_msg("%s", error.message);
}

/* What would take long to parse is not parsed: the message names the limit. */
TEST(bodies_of_too_many_parts_are_not_parsed) {
    make_body("{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"x\":{",
              "\"a\":{},\"b\":[],\"c\":\"\",\"d\":0,", LIMIT_BODY_KEYS / 4, "\"e\":\"\"}}");
    assert_refused(&chat_dialect, 413, "request_too_large", "more than 65536 keys");
    make_body("{\"prompt\":\"a\",\"x\":[", "{},", LIMIT_BODY_VALUES, "[]]}");
    assert_refused(&completion_dialect, 413, "request_too_large", "more than 65536 values");
    make_body("{\"prompt\":\"a\",\"x\":[", "1.5,", LIMIT_BODY_VALUES, "1.5]}");
    assert_refused(&completion_dialect, 413, "request_too_large", "more than 65536 values");
    make_body("{\"prompt\":\"a\",\"x\":", "[", LIMIT_BODY_DEPTH, "");
    assert_refused(&completion_dialect, 413, "request_too_large", "more than 64 levels");
    make_body("{\"x\":[", "1,", LIMIT_BODY_INTEGERS, "1]}");
    assert_refused(&chat_dialect, 413, "request_too_large", "more than 16384 integers");
    defaults.tokens_max = 1000;
    make_body("{\"prompt\":[", "1,", LIMIT_BODY_INTEGERS + LIMIT_PROMPTS_IDS, "1]}");
    assert_refused(&completion_dialect, 400, "context_length_exceeded",
                   "than this server's maximum context length, 1000");
    defaults.tokens_max = 0;
}

/* A prompt of token ids as long as the longest context is read, and so is a long conversation. */
TEST(large_requests_are_read) {
    make_body("{\"logit_bias\":{\"7\":-1},\"prompt\":[", "4,", 163840, "5]}");
    assert_true(parse(&completion_dialect, large_body));
    assert_int_equal(parsed.prompts->token_count, 163841);
    assert_int_equal(parsed.prompts->tokens[163840], 5);
    make_body("{\"prompt\":[", "\"a\",", LIMIT_ANSWERS - 1, "\"b\"]}");
    assert_true(parse(&completion_dialect, large_body));
    assert_int_equal(parsed.prompt_count, LIMIT_ANSWERS);
    make_body("{\"prompt\":[", "\"a\",", LIMIT_ANSWERS, "\"b\"]}");
    assert_refused(&completion_dialect, 422, "out_of_range", "129 prompts");
    make_body("{\"messages\":[{\"role\":\"system\",\"content\":\"a\"}",
              ",{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"{[\\\"1,2]\"}]}",
              8000, "]}");
    assert_true(parse(&chat_dialect, large_body));
    assert_int_equal(tree_count(parsed.messages), 8001);
}

/* Bodies made to eat memory meet the arena's end, and are told so. */
TEST(memory_has_an_end) {
    make_body("{\"messages\":[", "[],", 10000, "[]]}");
    assert_false(parse_in(1 << 18, &chat_dialect, large_body));
    assert_int_equal(error.http_status, 413);
    assert_non_null(strstr(error.message, "too many parts"));
}
