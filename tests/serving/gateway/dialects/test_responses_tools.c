/* SPDX-License-Identifier: Apache-2.0
 * Protects what the model is told of a client's tools and the names by which it knows them, that
 * nothing of them is left out in silence, and that what is wrong is found where the client wrote
 * it.
 */
#include "serving/gateway/dialects/responses_tools.h"

#include "base/check.h"
#include "base/format.h"
#include "serving/gateway/dialects/responses_dialect.h"
#include "test_case.h"

static char memory[4 << 20], body[1 << 16];
static struct arena arena;
static struct api_request parsed;
static struct api_error error;

static const struct api_model model = {.name = {"tiny-r1", 7}};
static struct api_defaults defaults = {.models = &model,
                                       .model_count = 1,
                                       .thought = CHAT_THOUGHT_SWITCHED,
                                       .calls = TOOL_FORMAT_LLAMA,
                                       .prints_tools = true};

/* `more`: other members, each with a comma in front. */
static bool parse(const char *input, const char *tools, const char *more) {
    format_text(body, sizeof body, "{\"input\":%s,\"tools\":[%s]%s}", input, tools, more);
    arena_over(&arena, memory, sizeof memory);
    error = (struct api_error){0};
    return api_request_parse(&arena, &responses_dialect, bytes_of(body), &defaults, &parsed,
                             &error);
}

static void ask(const char *tools, const char *more) {
    if (!parse("\"hi\"", tools, more)) fail_msg("%s: %s", body, error.message);
}

static void expect(struct bytes found, const char *expected) {
    static char copy[1 << 12];
    assert_true(found.count < sizeof copy);
    memcpy(copy, found.data, found.count);
    copy[found.count] = '\0';
    assert_string_equal(copy, expected);
}

static void expect_alias(const char *name, const char *namespace, const char *own, bool text) {
    const struct tool_alias *alias = tool_alias_find(&parsed.aliases, bytes_of(name));
    assert_non_null(alias);
    expect(alias->namespace, namespace);
    expect(alias->own, own);
    assert_int_equal(alias->takes_text, text);
}

#define FUNCTION(name) "{\"type\":\"function\",\"name\":\"" name "\"}"
#define CUSTOM(more) "{\"type\":\"custom\",\"name\":\"apply_patch\"" more "}"
#define MAIL                                                                                       \
    "{\"type\":\"namespace\",\"name\":\"mcp__mail\",\"description\":\"Mail.\",\"tools\":["         \
    "{\"type\":\"function\",\"name\":\"send\",\"description\":\"Sends.\",\"strict\":false,"        \
    "\"parameters\":{\"type\":\"object\"}}]}"
#define TEXT                                                                                       \
    "\"parameters\":{\"type\":\"object\",\"properties\":{\"input\":{\"type\":\"string\"}},"        \
    "\"required\":[\"input\"],\"additionalProperties\":false}}}"

TEST(a_namespaces_tools_are_functions_with_its_name_in_front) {
    ask(FUNCTION("send") "," MAIL
                         ",{\"type\":\"namespace\",\"name\":\"disk_\",\"tools\":[" FUNCTION(
                             "read") "]}",
        "");
    expect(tree_text(&arena, parsed.tools),
           "[{\"type\":\"function\",\"function\":{\"name\":\"send\"}},"
           "{\"type\":\"function\",\"function\":{\"name\":\"mcp__mail__send\",\"description\":"
           "\"Sends.\",\"parameters\":{\"type\":\"object\"}}},"
           "{\"type\":\"function\",\"function\":{\"name\":\"disk_read\"}}]");
    assert_int_equal(parsed.aliases.count, 2);
    expect_alias("mcp__mail__send", "mcp__mail", "send", false);
    expect_alias("disk_read", "disk_", "read", false);
    assert_true(bytes_contain(parsed.reported, BYTES_LITERAL(MAIL)));
    assert_int_equal(parsed.warning.count, 0);
}

TEST(a_custom_tool_is_a_function_of_one_text) {
    ask(CUSTOM(",\"description\":\"Edits.\",\"format\":{\"type\":\"text\"}"), "");
    expect(tree_text(&arena, parsed.tools),
           "[{\"type\":\"function\",\"function\":{\"name\":\"apply_patch\",\"description\":"
           "\"Edits.\"," TEXT "]");
    expect_alias("apply_patch", "", "apply_patch", true);
    assert_int_equal(parsed.warning.count, 0);
}

TEST(a_grammar_is_reported_to_the_model_and_that_it_is_not_held_to_the_client) {
    ask(FUNCTION("f") "," CUSTOM(",\"description\":\"Edits.\",\"format\":{\"type\":\"grammar\","
                                 "\"syntax\":\"lark\",\"definition\":\"start: \\\"a\\\"\"}"),
        ",\"colour\":1");
    expect(tree_text(&arena, tree_at(parsed.tools, 1)),
           "{\"type\":\"function\",\"function\":{\"name\":\"apply_patch\",\"description\":"
           "\"Edits.\\n\\nThe input follows this grammar (lark):\\nstart: \\\"a\\\"\"," TEXT);
    expect(parsed.warning,
           "unknown fields: colour; tools[1].format is shown to the model, not enforced");
}

TEST(tools_that_the_server_would_run_are_left_out_and_reported) {
    ask("{\"type\":\"web_search\",\"external_web_access\":false}," FUNCTION(
            "f") ","
                 "{\"type\":\"image_generation\",\"output_format\":\"png\"}",
        "");
    expect(tree_text(&arena, parsed.tools),
           "[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]");
    expect(parsed.warning, "tools[0] is left out: no tools are run here; "
                           "tools[2] is left out: no tools are run here");
    assert_true(bytes_contain(parsed.reported, BYTES_LITERAL("\"tools\":[" FUNCTION("f") "],")));
    ask("{\"type\":\"web_search\"}", "");
    assert_null(parsed.tools);
    assert_true(bytes_contain(parsed.reported, BYTES_LITERAL("\"tools\":[],")));
}

TEST(earlier_calls_have_the_names_that_the_model_knows) {
    static const char input[] =
        "[{\"role\":\"user\",\"content\":\"hi\"},"
        "{\"type\":\"function_call\",\"call_id\":\"c1\",\"namespace\":\"mcp__mail\",\"name\":"
        "\"send\",\"arguments\":\"{}\"},"
        "{\"type\":\"custom_tool_call\",\"id\":\"ctc_1\",\"call_id\":\"c2\",\"name\":"
        "\"apply_patch\",\"input\":\"a\\n\\\"b\\\"\"},"
        "{\"type\":\"function_call_output\",\"call_id\":\"c1\",\"output\":\"sent\"},"
        "{\"type\":\"custom_tool_call_output\",\"call_id\":\"c2\",\"output\":[{\"type\":"
        "\"input_text\",\"text\":\"done\"}]}]";
    if (!parse(input, MAIL "," CUSTOM(""), "")) fail_msg("%s", error.message);
    expect(tree_text(&arena, parsed.messages),
           "[{\"role\":\"user\",\"content\":\"hi\"},"
           "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":["
           "{\"id\":\"c1\",\"type\":\"function\",\"function\":{\"name\":\"mcp__mail__send\","
           "\"arguments\":\"{}\"}},"
           "{\"id\":\"c2\",\"type\":\"function\",\"function\":{\"name\":\"apply_patch\","
           "\"arguments\":\"{\\\"input\\\":\\\"a\\\\n\\\\\\\"b\\\\\\\"\\\"}\"}}]},"
           "{\"role\":\"tool\",\"content\":\"sent\",\"tool_call_id\":\"c1\"},"
           "{\"role\":\"tool\",\"content\":\"done\",\"tool_call_id\":\"c2\"}]");
}

TEST(a_custom_tool_may_be_the_one_that_must_be_called) {
    ask(FUNCTION("f") "," CUSTOM(""),
        ",\"tool_choice\":{\"type\":\"custom\",\"name\":\"apply_patch\"}");
    assert_true(bytes_contain(parsed.constraint.form, BYTES_LITERAL("{\"text\":\"apply_patch\"}")));
    assert_false(bytes_contain(parsed.constraint.form, BYTES_LITERAL("{\"text\":\"f\"}")));
    assert_true(bytes_contain(parsed.constraint.form, BYTES_LITERAL("\"required\":[\"input\"]")));
    ask(FUNCTION("f") "," CUSTOM(""),
        ",\"tool_choice\":{\"type\":\"allowed_tools\",\"mode\":\"required\",\"tools\":["
        "{\"type\":\"custom\",\"name\":\"apply_patch\"}]}");
    assert_false(bytes_contain(parsed.constraint.form, BYTES_LITERAL("{\"text\":\"f\"}")));
}

TEST(what_is_wrong_is_found_where_the_client_wrote_it) {
    static const struct {
        const char *tools, *more, *param;
    } cases[] = {
        {"{\"type\":\"file_search\"}", "", "tools[0]"},
        {"{\"type\":\"web_search\"},{\"type\":\"local_shell\"}", "", "tools[1]"},
        {"{\"type\":\"web_search\"}," FUNCTION("a b"), "", "tools[1].name"},
        {"{\"type\":\"web_search\"}," FUNCTION("f") "," FUNCTION("f"), "", "tools[2].name"},
        {"{\"type\":\"namespace\",\"name\":\"n\",\"tools\":[" FUNCTION("f") "," FUNCTION("!") "]}",
         "", "tools[0].tools[1].name"},
        {"{\"type\":\"namespace\",\"name\":\"n\",\"tools\":[{\"type\":\"web_search\"}]}", "",
         "tools[0].tools[0]"},
        {"{\"type\":\"namespace\",\"name\":\"n\\u0000n\",\"tools\":[" FUNCTION("f") "]}", "",
         "tools[0].tools[0].name"}, /* it would be told whole, whatever its length */
        {"{\"type\":\"namespace\",\"name\":\"n\",\"tools\":[" FUNCTION("f\\u0000f") "]}", "",
         "tools[0].tools[0].name"},
        {"{\"type\":\"namespace\",\"name\":\"n\"}", "", "tools[0]"},
        {"{\"type\":\"namespace\",\"tools\":[]}", "", "tools[0]"},
        {FUNCTION("n__f") ",{\"type\":\"namespace\",\"name\":\"n\",\"tools\":[" FUNCTION("f") "]}",
         "", "tools[1].tools[0].name"},
        {"{\"type\":\"web_search\"},{\"type\":\"function\",\"name\":\"f\",\"strict\":true}", "",
         "tools[1].strict"},
        {CUSTOM(",\"description\":7"), "", "tools[0].description"},
        {CUSTOM(",\"format\":{\"type\":\"xml\"}"), "", "tools[0].format"},
        {CUSTOM(",\"format\":{\"type\":\"grammar\",\"syntax\":\"lark\"}"), "", "tools[0].format"},
        {"{\"type\":\"custom\"}", "", "tools[0].name"},
        {"7", "", "tools[0]"},
        {"{\"type\":\"web_search\"}", ",\"tool_choice\":\"required\"", "tool_choice"},
        {"{\"type\":\"web_search\"}", ",\"tool_choice\":{\"type\":\"web_search\"}", "tool_choice"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        if (parse("\"hi\"", cases[i].tools, cases[i].more)) fail_msg("accepted: %s", body);
        if (error.http_status != 400 || strcmp(error.param, cases[i].param) != 0)
            fail_msg("%s: %u %s: %s", body, error.http_status, error.param, error.message);
    }
}

TEST(a_name_may_have_128_bytes_with_its_namespace) {
    char tools[512], name[129];
    for (size_t count = 120; count <= 126; count++) {
        memset(name, 'f', count);
        name[count] = '\0';
        format_text(tools, sizeof tools,
                    "{\"type\":\"namespace\",\"name\":\"n\",\"tools\":[{\"type\":\"function\","
                    "\"name\":\"%s\"}]}",
                    name);
        assert_int_equal(parse("\"hi\"", tools, ""), count + 3 <= LIMIT_TOOL_NAME);
    }
}
