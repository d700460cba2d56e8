/* SPDX-License-Identifier: Apache-2.0
 * Protects what binds calls, from its form to the matcher and back: calls as each format's template
 * shows them are let through, and whatever is let through, token by token, is read by the parser as
 * calls of the tools, with arguments that they take.
 */
#include "../text/support.h"
#include "serving/grammar/matcher/matcher.h"
#include "serving/grammar/rules/form.h"
#include "serving/text/tool_parser.h"
#include "serving/text/tool_writer.h"

#define MARKS_MAX 8
#define TOOLS                                                                                      \
    "[{\"type\":\"function\",\"function\":{\"name\":\"look\",\"strict\":true,\"parameters\":{"     \
    "\"type\":\"object\",\"properties\":{\"days\":{\"type\":\"integer\",\"minimum\":1,"            \
    "\"maximum\":12},\"at\":{\"type\":\"string\",\"enum\":[\"here\",\"there\"]}},\"required\":["   \
    "\"at\"],\"additionalProperties\":false}}},{\"type\":\"function\",\"function\":{\"name\":"     \
    "\"lo\"}}]"
#define SAY                                                                                        \
    "[{\"type\":\"function\",\"function\":{\"name\":\"say\",\"parameters\":{\"type\":\"object\","  \
    "\"properties\":{\"text\":{\"type\":\"string\"}},\"required\":[\"text\"]}}}]"

static const struct family {
    enum tool_format format;
    const char *marks[MARKS_MAX]; /* added tokens */
    const char *calls;            /* as the template shows two of them */
    const char *say;              /* one with a string that has much in it */
} families[] = {
    {TOOL_FORMAT_DEEPSEEK_V3,
     {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>",
      "<｜tool▁calls▁end｜>"},
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>look\n```json\n"
     "{\"at\": \"here\", \"days\": 12}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function"
     "<｜tool▁sep｜>lo\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>say\n```json\n"
     "{\"text\": \"</a> \\\"中\\\"\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
    {TOOL_FORMAT_DEEPSEEK_V31,
     {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>",
      "<｜tool▁calls▁end｜>"},
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>look<｜tool▁sep｜>{\"at\": \"here\"}"
     "<｜tool▁call▁end｜><｜tool▁call▁begin｜>lo<｜tool▁sep｜>{}<｜tool▁call▁end｜>"
     "<｜tool▁calls▁end｜>",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>say<｜tool▁sep｜>{\"text\": \"</a> 中\"}"
     "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
    {TOOL_FORMAT_DEEPSEEK_V32,
     {"｜DSML｜"},
     "\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"look\">\n<｜DSML｜parameter "
     "name=\"days\" "
     "string=\"false\">12</｜DSML｜parameter>\n<｜DSML｜parameter name=\"at\" string=\"true\">here"
     "</｜DSML｜parameter>\n</｜DSML｜invoke>\n<｜DSML｜invoke name=\"lo\">\n\n</｜DSML｜invoke>\n"
     "</｜DSML｜function_calls>",
     "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"say\">\n<｜DSML｜parameter name=\"text\" "
     "string=\"true\">a\n</ <<b></c> \"中\"</｜DSML｜parameter>\n</｜DSML｜invoke>"
     "</｜DSML｜tool_calls>"},
    {TOOL_FORMAT_HERMES,
     {"<tool_call>", "</tool_call>"},
     "<tool_call>\n{\"name\": \"look\", \"arguments\": {\"days\": 1, \"at\": \"there\"}}\n"
     "</tool_call>\n<tool_call>\n{\"name\": \"lo\", \"arguments\": {}}\n</tool_call>",
     "<tool_call>\n{\"name\": \"say\", \"arguments\": {\"text\": \"</a>\\n\"}}\n</tool_call>"},
    {TOOL_FORMAT_KIMI,
     {"<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<|tool_call_argument_begin|>",
      "<|tool_call_end|>", "<|tool_calls_section_end|>"},
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.look:0<|tool_call_argument_begin|>"
     "{\"at\": \"here\"}<|tool_call_end|><|tool_call_begin|>functions.lo:1"
     "<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.say:10<|tool_call_argument_begin|>"
     "{\"text\": \"中\"}<|tool_call_end|><|tool_calls_section_end|>"},
    {TOOL_FORMAT_GLM,
     {"<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"},
     "<tool_call>look\n<arg_key>days</arg_key>\n<arg_value>12</arg_value>\n<arg_key>at</arg_key>\n"
     "<arg_value>here</arg_value>\n</tool_call>\n<tool_call>lo\n</tool_call>",
     "<tool_call>say\n<arg_key>text</arg_key>\n<arg_value>a <b>\n</a></arg_value>\n</tool_call>"},
    {TOOL_FORMAT_GLM, /* since GLM-4.7 */
     {"<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"},
     "<tool_call>look<arg_key>days</arg_key><arg_value>12</arg_value><arg_key>at</arg_key>"
     "<arg_value>here</arg_value></tool_call><tool_call>lo</tool_call>",
     "<tool_call>say<arg_key>text</arg_key><arg_value>a <b>\n</a></arg_value></tool_call>"},
    {TOOL_FORMAT_GLM,
     {NULL},
     "<tool_call>look\n<arg_key>at</arg_key>\n<arg_value>here</arg_value>\n</tool_call>",
     "<tool_call>say\n<arg_key>text</arg_key>\n<arg_value>a <<</ /</arg_value>\n</tool_call>"},
    {TOOL_FORMAT_LLAMA,
     {NULL},
     "{\"name\": \"look\", \"parameters\": {\"at\": \"here\"}}; {\"name\": \"lo\", \"parameters\": "
     "{}}",
     "{\"name\": \"say\", \"parameters\": {\"text\": \"a\"}}"},
    {TOOL_FORMAT_MISTRAL,
     {"[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"},
     "[TOOL_CALLS]look[CALL_ID]aB3dE6gH9[ARGS]{\"at\": \"here\"}[TOOL_CALLS]lo[ARGS]{}",
     "[TOOL_CALLS]say[ARGS]{\"text\": \"[ARGS\"}"},
    {TOOL_FORMAT_MISTRAL,
     {"[TOOL_CALLS]"},
     "[TOOL_CALLS][{\"name\": \"look\", \"arguments\": {\"at\": \"here\"}}, {\"name\": \"lo\", "
     "\"arguments\": {}}]",
     "[TOOL_CALLS][{\"name\": \"say\", \"arguments\": {\"text\": \"]\"}}]"},
};

/* ---- a matcher ---- */

#define MEMORY_BYTES ((size_t)64 << 20)
static char memory[2 * MEMORY_BYTES];
static struct tokenizer_scratch *scratch;

struct bound {
    struct arena arena;
    struct tokenizer *tokenizer;
    const struct token_trie *trie;
    struct matcher *matcher;
};

static void open_bound(struct bound *bound, const struct family *family, const char *tools,
                       bool from_mark) {
    char added[1024] = "";
    size_t count = 0;
    for (unsigned i = 0; i < MARKS_MAX && family->marks[i]; i++)
        count += (size_t)snprintf(added + count, sizeof added - count,
                                  "%s{\"id\":%u,\"content\":\"%s\",\"special\":true}", i ? "," : "",
                                  256 + i, family->marks[i]);
    bound->tokenizer = test_tokenizer(test_json((struct test_parts){.added = added}), "t.json");
    struct arena work;
    struct error error = {""};
    struct tool_wish wish = {.format = family->format,
                             .tokenizer = bound->tokenizer,
                             .holds_all = true,
                             .from_mark = from_mark};
    const struct grammar_program *program;
    struct grammar *grammar;
    arena_over(&bound->arena, memory, MEMORY_BYTES);
    arena_over(&work, memory + MEMORY_BYTES, MEMORY_BYTES);
    assert_int_equal(tree_parse(&bound->arena, bytes_of(tools), "tools", &wish.tools, &error), 0);
    const struct tree *form = tool_writer_form(&bound->arena, &wish);
    assert_non_null(form);
    if (form_compile(&bound->arena, &work, form, bound->tokenizer, &schema_limits_usual, &program,
                     &error))
        fail_msg("format %d: %s", (int)family->format, error.text);
    assert_int_equal(token_trie_of_tokenizer(&bound->arena, &work, bound->tokenizer,
                                             tokenizer_vocab_count(bound->tokenizer), &bound->trie),
                     0);
    assert_int_equal(matcher_grammar_open(&bound->arena, program, bound->trie, &grammar, &error),
                     0);
    assert_int_equal(matcher_open(&bound->arena, grammar, &bound->matcher), 0);
}

/* Each token is let through, and behind the last the text may end. */
static void expect_through(struct bound *bound, const char *text) {
    static uint32_t ids[4096];
    static uint64_t mask[8];
    size_t count;
    assert_int_equal(tokenizer_encode(bound->tokenizer, scratch, bytes_of(text), plain_text_nowhere,
                                      ids, ARRAY_COUNT(ids), &count),
                     0);
    struct grammar_position at = matcher_begin(bound->matcher);
    for (size_t i = 0; i < count; i++) {
        matcher_mask(bound->matcher, at, mask);
        bool may = mask[ids[i] / 64] >> ids[i] % 64 & 1;
        at = matcher_push_token(bound->matcher, at, ids[i]);
        if (!may || !at.number) fail_msg("token %zu of %s", i, text);
    }
    if (!matcher_may_end(bound->matcher, at)) fail_msg("may not end: %s", text);
}

TEST(calls_as_templates_show_them_are_let_through) {
    for (size_t f = 0; f < ARRAY_COUNT(families); f++) {
        struct bound bound;
        open_bound(&bound, &families[f], TOOLS, false);
        expect_through(&bound, families[f].calls);
        tokenizer_close(bound.tokenizer);
        open_bound(&bound, &families[f], SAY, false);
        expect_through(&bound, families[f].say);
        tokenizer_close(bound.tokenizer);
    }
}

/* ---- what is let through ---- */

struct calls {
    char name[16];
    char arguments[4096];
    size_t count; /* bytes of arguments */
    size_t calls;
    bool content;
};

/* "days" and "at" are as TOOLS say; another tool takes nothing. */
static void check_call(const struct calls *calls) {
    static char tree_memory[1 << 16];
    struct arena arena;
    struct error error;
    const struct tree *root;
    double days = 1; /* which may be written 1.0 */
    arena_over(&arena, tree_memory, sizeof tree_memory);
    struct bytes text = {calls->arguments, calls->count};
    if (tree_parse(&arena, text, "arguments", &root, &error)) fail_msg("%s", error.text);
    if (strcmp(calls->name, "look") != 0) {
        assert_string_equal(calls->name, "lo");
        assert_true(bytes_equal(tree_text(&arena, root), BYTES_LITERAL("{}")));
        return;
    }
    struct bytes at = test_string(root, "at");
    assert_true(bytes_equal(at, BYTES_LITERAL("here")) || bytes_equal(at, BYTES_LITERAL("there")));
    if (tree_member(root, "days")) assert_true(tree_get_number(tree_member(root, "days"), &days));
    assert_true(days >= 1 && days <= 12);
}

static void take(void *context, enum token_stream_part part, struct bytes text) {
    struct calls *calls = context;
    if (part == TOKEN_STREAM_CONTENT) calls->content = true;
    if (part == TOKEN_STREAM_ARGUMENTS) {
        assert_true(calls->count + text.count <= sizeof calls->arguments);
        memcpy(calls->arguments + calls->count, text.data, text.count);
        calls->count += text.count;
    }
    if (part != TOKEN_STREAM_CALL) return;
    if (calls->calls++) check_call(calls);
    calls->count = 0;
    snprintf(calls->name, sizeof calls->name, "%.*s", (int)text.count, text.data);
}

static void check_text(const struct bound *bound, enum tool_format format, struct bytes text) {
    static struct tool_parser parser;
    static char set_memory[1 << 16];
    struct arena arena;
    struct error error;
    const struct tree *tools;
    const struct tool_set *set;
    struct calls calls = {.calls = 0};
    arena_over(&arena, set_memory, sizeof set_memory);
    assert_int_equal(tree_parse(&arena, BYTES_LITERAL(TOOLS), "tools", &tools, &error), 0);
    assert_int_equal(tool_format_set_open(&arena, format, tools, &set, &error), 0);
    tool_parser_open(&parser, set);
    tool_parser_push(&parser, text, take, &calls);
    tool_parser_finish(&parser, take, &calls);
    if (calls.content || calls.calls == 0)
        fail_msg("format %d: %.*s", (int)format, (int)text.count, text.data);
    check_call(&calls);
}

/* A token of those that may come, each as likely as any other. */
static uint32_t draw(const uint64_t *mask, uint32_t words, uint64_t *random) {
    uint32_t count = 0, found = TOKEN_NONE;
    for (uint32_t w = 0; w < words; w++)
        for (uint64_t left = mask[w]; left; left &= left - 1)
            if (test_random(random) % ++count == 0)
                found = 64 * w + (uint32_t)__builtin_ctzll(left);
    return found;
}

TEST(whatever_is_let_through_is_read_back_as_calls) {
    static char text[16384];
    static uint64_t mask[8];
    uint64_t random = 11;
    for (size_t f = 0; f < ARRAY_COUNT(families); f++) {
        struct bound bound;
        for (int round = 0; round < 40; round++) {
            bool from_mark = round >= 20 && families[f].format != TOOL_FORMAT_DEEPSEEK_V32;
            if (round % 20 == 0) open_bound(&bound, &families[f], TOOLS, from_mark);
            struct grammar_position at = matcher_begin(bound.matcher);
            size_t count = 0;
            while (!matcher_may_end(bound.matcher, at) || test_random(&random) % 2) {
                matcher_mask(bound.matcher, at, mask);
                uint32_t token = draw(mask, bound.trie->word_count, &random);
                if (token == TOKEN_NONE) break;
                struct bytes bytes = tokenizer_token_bytes(bound.tokenizer, token);
                if (count + bytes.count > sizeof text) break;
                memcpy(text + count, bytes.data, bytes.count);
                count += bytes.count;
                at = matcher_push_token(bound.matcher, at, token);
                assert_true(at.number != 0);
                assert_true(matcher_compact(bound.matcher, &at));
            }
            assert_true(matcher_may_end(bound.matcher, at));
            check_text(&bound, families[f].format, (struct bytes){text, count});
        }
    }
}

static int open_group(void **state) {
    (void)state;
    scratch = test_scratch();
    return 0;
}

TEST_GROUP(open_group, NULL)
