/* SPDX-License-Identifier: Apache-2.0
 * Protects answers of the families of models that Fathom serves, with thoughts and calls as the
 * models write them: the same parts reach the client however the answer is split into tokens.
 */
#include "serving/text/token_stream.h"
#include "support.h"
#include "tool_support.h"

#define PIECE_BYTES_MAX 6

#define DSML_CALL(name, values)                                                                    \
    "<｜DSML｜invoke name=\"" name "\">\n" values "\n</｜DSML｜invoke>\n"
#define DSML_VALUE(key, string, value)                                                             \
    "<｜DSML｜parameter name=\"" key "\" string=\"" string "\">" value "</｜DSML｜parameter>"
#define DSML_CALLS(calls) "\n\n<｜DSML｜function_calls>\n" calls "</｜DSML｜function_calls>"
#define GLM_VALUE(key, line, value)                                                                \
    "<arg_key>" key "</arg_key>" line "<arg_value>" value "</arg_value>"
#define KIMI_CALL(id, arguments)                                                                   \
    "<|tool_call_begin|>" id "<|tool_call_argument_begin|>" arguments "<|tool_call_end|>"
#define KIMI_CALLS(calls) "<|tool_calls_section_begin|>" calls "<|tool_calls_section_end|>"
#define DEEPSEEK_CALLS(calls) "<｜tool▁calls▁begin｜>" calls "<｜tool▁calls▁end｜>"

/* Answers as the models write them, with the tokens of their tokenizers. */
static const struct answer {
    enum tool_format format;
    enum token_stream_mode mode;
    const char *text, *reasoning, *seen;
} answers[] = {
    /* V3.2 */
    {TOOL_FORMAT_DEEPSEEK_V32, TOKEN_STREAM_IN_REASONING,
     "Bonn, <b>中</b>?</think>I look." DSML_CALLS(
         DSML_CALL("get", DSML_VALUE("city", "true", "Bonn \"中\"\n</b>") "\n" DSML_VALUE(
                              "days", "false", "[1, {\"a\": null}]")) DSML_CALL("now", "")),
     "Bonn, <b>中</b>?",
     "I look.«get({\"city\":\"Bonn \\\"中\\\"\\n</b>\",\"days\":[1, {\"a\": null}]})»«now({})»"},
    {TOOL_FORMAT_DEEPSEEK_V32, TOKEN_STREAM_IN_REASONING,
     "Now.</think>" DSML_CALLS(DSML_CALL("now", "")), "Now.", "«now({})»"},
    {TOOL_FORMAT_DEEPSEEK_V32, TOKEN_STREAM_GOES_ON, "It is 7:10.\n\nDo not miss it <｜.", "",
     "It is 7:10.\n\nDo not miss it <｜."},
    /* GLM-4.7, GLM-5 */
    {TOOL_FORMAT_GLM, TOKEN_STREAM_IN_REASONING,
     "Hm,\n\n中.\n</think>Text <arg<tool_call>get" GLM_VALUE("city", "", "12 < 13")
         GLM_VALUE("days", "", "[1, 2]") "</tool_call><tool_call>now</tool_call>",
     "Hm,\n\n中.", "Text <arg«get({\"city\":\"12 < 13\",\"days\":[1, 2]})»«now({})»"},
    {TOOL_FORMAT_GLM, TOKEN_STREAM_IN_CONTENT, "<tool_call>now</tool_call>", "", "«now({})»"},
    /* GLM-4.5, GLM-4.6 */
    {TOOL_FORMAT_GLM, TOKEN_STREAM_MAY_THINK,
     "\n<think>Hm</think>\nText\n<tool_call>get\n" GLM_VALUE("city", "\n", "Bonn\n") "\n" GLM_VALUE(
         "days", "\n", "3") "\n</tool_call>",
     "Hm", "Text«get({\"city\":\"Bonn\\n\",\"days\":3})»"},
    {TOOL_FORMAT_GLM, TOKEN_STREAM_BEHIND_TOOL, "\n<think>Hm</think>\nText", "Hm", "Text"},
    /* Kimi K2, K2 Thinking, K2.5 */
    {TOOL_FORMAT_KIMI, TOKEN_STREAM_PLAIN,
     "Yes: 中." KIMI_CALLS(KIMI_CALL("functions.get:0", "{\"city\": \"<|中\"}")
                               KIMI_CALL("functions.now:1", "{}")),
     "", "Yes: 中.«functions.get:0#get({\"city\": \"<|中\"})»«functions.now:1#now({})»"},
    {TOOL_FORMAT_KIMI, TOKEN_STREAM_MAY_THINK,
     "<think>I see.\n</think>" KIMI_CALLS(KIMI_CALL("functions.now:0", "{}")), "I see.",
     "«functions.now:0#now({})»"},
    {TOOL_FORMAT_KIMI, TOKEN_STREAM_IN_REASONING,
     "I see.\n" KIMI_CALLS(KIMI_CALL("functions.now:0", "{}")), "I see.",
     "«functions.now:0#now({})»"},
    {TOOL_FORMAT_KIMI, TOKEN_STREAM_IN_REASONING,
     "So.</think>Done." KIMI_CALLS(KIMI_CALL("functions.now:0", "{\"a\": [\"</think>\"]}")), "So.",
     "Done.«functions.now:0#now({\"a\": [\"</think>\"]})»"},
    /* V3.1 */
    {TOOL_FORMAT_DEEPSEEK_V31, TOKEN_STREAM_IN_CONTENT,
     "I look." DEEPSEEK_CALLS("<｜tool▁call▁begin｜>get<｜tool▁sep｜>{\"city\": \"<｜中\"}"
                              "<｜tool▁call▁end｜>"),
     "", "I look.«get({\"city\": \"<｜中\"})»"},
};

/* The added tokens of each format's models; the first two are tags. */
static const char *const family_tokens[TOOL_FORMAT_COUNT][12] = {
    [TOOL_FORMAT_DEEPSEEK_V31] = {"<think>", "</think>", "<｜tool▁calls▁begin｜>",
                                  "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>",
                                  "<｜tool▁calls▁end｜>"},
    [TOOL_FORMAT_DEEPSEEK_V32] = {"<think>", "</think>", "｜DSML｜"},
    [TOOL_FORMAT_GLM] = {"<think>", "</think>", "<tool_call>", "</tool_call>", "<arg_key>",
                         "</arg_key>", "<arg_value>", "</arg_value>"},
    [TOOL_FORMAT_KIMI] = {"<think>", "</think>", "<|tool_calls_section_begin|>",
                          "<|tool_calls_section_end|>", "<|tool_call_begin|>",
                          "<|tool_call_argument_begin|>", "<|tool_call_end|>"},
};

/* ---- tokens ---- */

/* Writes a line of tiktoken.model. */
static size_t write_line(char *out, struct bytes token, uint32_t rank) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t count = 0;
    for (size_t i = 0; i < token.count; i += 3) {
        size_t bytes = token.count - i < 3 ? token.count - i : 3;
        uint32_t word = 0;
        for (size_t k = 0; k < 3; k++)
            word = word << 8 | (k < bytes ? (uint8_t)token.data[i + k] : 0);
        for (size_t k = 0; k < 4; k++)
            out[count++] = k > bytes ? '=' : digits[word >> (18 - 6 * k) & 63];
    }
    return count + (size_t)sprintf(out + count, " %u\n", rank);
}

/* A tokenizer of all bytes, all short pieces of the answer, and the tokens of its family. */
static struct tokenizer *tokenizer_for(const struct answer *answer) {
    static char model[1 << 18], config[2048];
    struct bytes text = bytes_of(answer->text);
    size_t count = 0, used = 0;
    uint32_t ids = 0;
    for (unsigned byte = 0; byte < 256; byte++) {
        char one = (char)byte;
        count += write_line(model + count, (struct bytes){&one, 1}, ids++);
    }
    for (size_t bytes = 2; bytes <= PIECE_BYTES_MAX; bytes++)
        for (size_t at = 0; at + bytes <= text.count; at++) {
            struct bytes piece = {text.data + at, bytes};
            if (bytes_contain((struct bytes){text.data, at + bytes - 1}, piece)) continue;
            count += write_line(model + count, piece, ids++);
            check(count + 64 < sizeof model);
        }
    used += (size_t)sprintf(config, "{\"added_tokens_decoder\":{");
    for (size_t i = 0; family_tokens[answer->format][i]; i++)
        used +=
            (size_t)snprintf(config + used, sizeof config - used, "%s\"%zu\":{\"content\":\"%s\"}",
                             i ? "," : "", ids + i, family_tokens[answer->format][i]);
    used += (size_t)snprintf(config + used, sizeof config - used, "}}");
    struct tiktoken_files files = {{model, count}, {config, used}, "model", "config"};
    struct tokenizer *tokenizer = NULL;
    struct error error;
    if (tokenizer_open_tiktoken(test_arena(tokenizer_tiktoken_arena_bytes(&files)),
                                test_arena(tokenizer_tiktoken_scratch_bytes(&files)), files,
                                &tokenizer, &error))
        fail_msg("%s", error.text);
    return tokenizer;
}

/* The length of the family's token that the rest of the answer starts with, or 0. A tag in quotes
 * is not a token. */
static size_t token_bytes(const struct answer *answer, struct bytes rest) {
    if (rest.data > answer->text && rest.data[-1] == '"') return 0;
    for (size_t i = 0; family_tokens[answer->format][i]; i++) {
        struct bytes token = bytes_of(family_tokens[answer->format][i]);
        if (bytes_start_with(rest, token)) return token.count;
    }
    return 0;
}

/* The bytes up to the family's next token. */
static size_t text_bytes(const struct answer *answer, struct bytes rest) {
    size_t count = 0;
    while (count < rest.count &&
           !token_bytes(answer, (struct bytes){rest.data + count, rest.count - count}))
        count++;
    return count;
}

/* ---- what a client sees ---- */

struct shown {
    char reasoning[1024];
    size_t count;
    struct tool_seen seen;
};

static void show(void *context, enum token_stream_part part, struct bytes text) {
    struct shown *shown = context;
    if (part != TOKEN_STREAM_REASONING) {
        seen_take(&shown->seen, part, text);
        return;
    }
    check(text.count > 0 && utf8_valid_prefix(text) == text.count);
    check(shown->count + text.count < sizeof shown->reasoning);
    memcpy(shown->reasoning + shown->count, text.data, text.count);
    shown->count += text.count;
    shown->reasoning[shown->count] = '\0';
}

static const char tools_json[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"get\",\"parameters\":{\"type\":\"object\","
    "\"properties\":{\"city\":{\"type\":\"string\"},\"days\":{}}}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"now\"}}]";

/* Pushes the answer in tokens of `first` bytes, then of `bytes`, or of random lengths (0). */
static void shows(const struct answer *answer, const struct tokenizer *tokenizer,
                  const struct tool_set *set, size_t first, size_t bytes, uint64_t *random) {
    static struct shown shown;
    struct token_stream stream;
    struct bytes rest = bytes_of(answer->text);
    shown.reasoning[0] = '\0';
    shown.count = 0;
    seen_open(&shown.seen);
    token_stream_open(&stream, tokenizer, NULL, answer->mode, set);
    while (rest.count > 0) {
        size_t count = token_bytes(answer, rest), most = text_bytes(answer, rest);
        uint32_t token = 0;
        if (count == 0) count = first ? first : bytes;
        if (count == 0) count = 1 + test_random(random) % PIECE_BYTES_MAX;
        if (most > 0 && count > most) count = most;
        assert_true(tokenizer_find(tokenizer, (struct bytes){rest.data, count}, &token));
        assert_false(token_stream_push(&stream, token, show, &shown));
        rest = (struct bytes){rest.data + count, rest.count - count};
        first = 0;
    }
    token_stream_finish(&stream, show, &shown);
    seen_end_call(&shown.seen);
    if (strcmp(shown.reasoning, answer->reasoning) || strcmp(shown.seen.text, answer->seen))
        fail_msg("'%s' shows '%s' and '%s'", answer->text, shown.reasoning, shown.seen.text);
}

TEST(answers_show_the_same_however_they_are_split) {
    const struct tree *tools = test_tree(bytes_of(tools_json));
    uint64_t random = 31;
    for (size_t i = 0; i < ARRAY_COUNT(answers); i++) {
        const struct tokenizer *tokenizer = tokenizer_for(&answers[i]);
        const struct tool_set *set;
        struct error error;
        assert_int_equal(
            tool_format_set_open(test_arena(1 << 16), answers[i].format, tools, &set, &error),
            STATUS_OK);
        for (size_t bytes = 1; bytes <= PIECE_BYTES_MAX; bytes++)
            for (size_t first = 1; first <= bytes; first++)
                shows(&answers[i], tokenizer, set, first, bytes, NULL);
        for (int round = 0; round < 2000; round++)
            shows(&answers[i], tokenizer, set, 0, 0, &random);
    }
}
