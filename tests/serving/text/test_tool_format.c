/* SPDX-License-Identifier: Apache-2.0
 * Protects the choice of a format by a template's marks, which special tokens make text, and what
 * is known of a request's tools.
 */
#include "serving/text/tool_format.h"
#include "support.h"
#include "test_case.h"

static enum tool_format of(const char *source) {
    return tool_format_of(bytes_of(source));
}

TEST(it_finds_the_format_in_a_templates_marks) {
    assert_int_equal(of(""), TOOL_FORMAT_DEEPSEEK_V31);
    assert_int_equal(of("{{ '<｜tool▁calls▁begin｜>' }} ... + '\\n' + '```json' + "),
                     TOOL_FORMAT_DEEPSEEK_V3);
    assert_int_equal(of("{{ '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>' + name }}"),
                     TOOL_FORMAT_DEEPSEEK_V31);
    assert_int_equal(of("answer in ```json"), TOOL_FORMAT_DEEPSEEK_V31);
    assert_int_equal(of("<｜DSML｜function_calls>"), TOOL_FORMAT_DEEPSEEK_V32);
    assert_int_equal(of("<tool_call></tool_call>"), TOOL_FORMAT_HERMES);
    assert_int_equal(of("<tool_call>name<arg_key>"), TOOL_FORMAT_GLM);
    assert_int_equal(of("<|tool_calls_section_begin|><|tool_call_begin|>"), TOOL_FORMAT_KIMI);
    assert_int_equal(of("<|im_assistant|>assistant<|im_middle|>"), TOOL_FORMAT_KIMI);
    assert_int_equal(of("[TOOL_CALLS] ["), TOOL_FORMAT_MISTRAL);
    assert_int_equal(of("<|start_header_id|>assistant<|python_tag|>"), TOOL_FORMAT_LLAMA);
}

TEST(it_knows_deepseeks_own_templates) {
    static const char folder[] = "tests/serving/text/goldens/";
    static const struct {
        const char *file;
        enum tool_format format;
    } templates[] = {{"chat_v3_0324.json", TOOL_FORMAT_DEEPSEEK_V3},
                     {"chat_r1_0528.json", TOOL_FORMAT_DEEPSEEK_V3},
                     {"chat_v3_1.json", TOOL_FORMAT_DEEPSEEK_V31}};
    for (size_t i = 0; i < ARRAY_COUNT(templates); i++) {
        char path[128];
        snprintf(path, sizeof path, "%s%s", folder, templates[i].file);
        assert_int_equal(tool_format_of(test_file(path)), templates[i].format);
    }
}

static bool has(enum tool_format format, const char *token) {
    return tool_format_has_mark(format, bytes_of(token));
}

TEST(it_knows_the_tokens_of_marks) {
    assert_true(has(TOOL_FORMAT_KIMI, "<|tool_call_end|>"));
    assert_true(has(TOOL_FORMAT_DEEPSEEK_V32, "｜DSML｜"));
    assert_true(has(TOOL_FORMAT_DEEPSEEK_V3, "<｜tool▁sep｜>"));
    assert_true(has(TOOL_FORMAT_MISTRAL, "[ARGS]"));
    assert_true(has(TOOL_FORMAT_LLAMA, "<|python_tag|>"));
    assert_false(has(TOOL_FORMAT_LLAMA, "<|eom_id|>"));
    assert_false(has(TOOL_FORMAT_HERMES, "<|im_end|>"));
    assert_false(has(TOOL_FORMAT_HERMES, "<tool_call>>"));
    assert_false(has(TOOL_FORMAT_HERMES, ""));
}

static const char tools_json[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"get\",\"parameters\":{\"properties\":{"
    "\"s\":{\"type\":\"string\"},\"i\":{\"type\":\"integer\"},\"u\":{},"
    "\"sn\":{\"type\":[\"string\",\"null\"]},\"si\":{\"type\":[\"string\",\"integer\"]},"
    "\"any\":{\"anyOf\":[{\"type\":\"null\"},{\"oneOf\":[{\"type\":\"string\"}]}]},"
    "\"or\":{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"number\"}]},"
    "\"n\":{\"type\":\"null\"},\"odd\":true,\"also\":{\"anyOf\":[{\"type\":\"string\"},{}]}}}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"put\"}},{\"function\":7},3]";

TEST(it_knows_which_parameters_are_strings) {
    const struct tool_set *set = NULL;
    assert_int_equal(tool_format_set_open(test_arena(4096), TOOL_FORMAT_GLM,
                                          test_tree(bytes_of(tools_json)), &set, NULL),
                     STATUS_OK);
    assert_int_equal(set->format, TOOL_FORMAT_GLM);
    assert_int_equal(set->count, 2);
    const struct tool *tool = tool_format_set_find(set, BYTES_LITERAL("get"));
    static const struct {
        const char *name;
        bool is_string;
    } parameters[] = {{"s", true},    {"i", false},    {"u", false},   {"sn", true},
                      {"si", false},  {"any", true},   {"or", false},  {"n", false},
                      {"odd", false}, {"none", false}, {"also", false}};
    for (size_t i = 0; i < ARRAY_COUNT(parameters); i++)
        if (tool_format_takes_string(tool, bytes_of(parameters[i].name)) != parameters[i].is_string)
            fail_msg("%s", parameters[i].name);
    assert_false(tool_format_takes_string(tool_format_set_find(set, BYTES_LITERAL("put")),
                                          BYTES_LITERAL("s")));
    assert_null(tool_format_set_find(set, BYTES_LITERAL("ge")));
    assert_false(tool_format_takes_string(NULL, BYTES_LITERAL("s")));
}

TEST(it_says_when_memory_is_short) {
    const struct tree *tools = test_tree(bytes_of(tools_json));
    bool opened = false;
    for (size_t bytes = 0; bytes < 1024 && !opened; bytes += 16) {
        const struct tool_set *set = NULL;
        struct error error = {""};
        enum status status =
            tool_format_set_open(test_arena(bytes), TOOL_FORMAT_GLM, tools, &set, &error);
        opened = status == STATUS_OK;
        assert_true(opened || (status == STATUS_NO_MEMORY && !set && error.text[0]));
    }
    assert_true(opened);
}
