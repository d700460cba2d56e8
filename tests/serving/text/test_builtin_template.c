/* SPDX-License-Identifier: Apache-2.0
 * Protects tools with checkpoints whose templates have no place for them: each published template
 * gets the built-in one of its release, which writes the same bytes without tools, and renders
 * tools, calls and results with the marks of the release.
 */
#include "base/limits.h"
#include "chat_support.h"
#include "serving/text/builtin_template.h"
#include "test_case.h"

#define GOLDENS "tests/serving/text/goldens/"
#define BOS "<｜begin▁of▁sentence｜>"
#define EOS "<｜end▁of▁sentence｜>"

static const struct {
    const char *file, *builtin;
} releases[] = {
    {GOLDENS "chat_v2.json", "hermes"},
    {GOLDENS "chat_v3.json", "deepseek-v3"},
    {GOLDENS "chat_v3_0324.json", "deepseek-v3-0324"},
    {GOLDENS "chat_r1.json", "deepseek-r1"},
    {GOLDENS "chat_r1_0528.json", "deepseek-r1-0528"},
    {GOLDENS "chat_v3_1.json", "deepseek-v3.1"},
};

/* A release's tokenizer_config.json, with its own template or another one. */
static struct chat_template take(const char *file, struct bytes own, bool brings_tools) {
    struct chat_template found;
    struct chat_files files = {.config = {test_file(file), "c.json"},
                               .own = {own, "t.jinja"},
                               .brings_tools = brings_tools};
    memset(&error, 0, sizeof error);
    if (chat_template_open(test_arena(8 << 20), chat_scratch(), files, &found, &error))
        fail_msg("%s", error.text);
    return found;
}

static struct builtin_template builtin_of(const char *name) {
    for (size_t i = 0; i < BUILTIN_TEMPLATE_COUNT; i++)
        if (strcmp(builtin_template_at(i).name, name) == 0) return builtin_template_at(i);
    fail_msg("no %s", name);
    return builtin_template_at(0);
}

/* The front with the template of a release behind it. */
static struct bytes with_front(struct builtin_template front, const char *file) {
    const struct tree *root = test_tree(test_file(file));
    struct bytes own = {"", 0};
    assert_true(tree_get_string(tree_member(root, "chat_template"), &own));
    char *text = arena_take(test_arena(1 << 16), front.text.count + own.count);
    memcpy(text, front.text.data, front.text.count);
    memcpy(text + front.text.count, own.data, own.count);
    return (struct bytes){text, front.text.count + own.count};
}

TEST(each_release_gets_its_own) {
    /* and kimi-k2 and deepseek-v3.2 */
    assert_int_equal(ARRAY_COUNT(releases) + 2, BUILTIN_TEMPLATE_COUNT);
    for (size_t i = 0; i < ARRAY_COUNT(releases); i++) {
        struct chat_template found = take(releases[i].file, (struct bytes){NULL, 0}, true);
        assert_true(found.present && found.prints_tools);
        assert_string_equal(found.builtin, releases[i].builtin);
        enum tool_format format = i == 0                           ? TOOL_FORMAT_HERMES
                                  : i + 1 == ARRAY_COUNT(releases) ? TOOL_FORMAT_DEEPSEEK_V31
                                                                   : TOOL_FORMAT_DEEPSEEK_V3;
        assert_int_equal(found.calls, format);
        found = take(releases[i].file, (struct bytes){NULL, 0}, false);
        assert_true(found.present && !found.prints_tools && !found.builtin);
    }
}

TEST(a_template_that_prints_tools_keeps_them) {
    struct chat_files files = {
        .own = {BYTES_LITERAL("{{ tools | tojson }}{{ '<｜tool▁calls▁begin｜>' }}"), "t.jinja"},
        .brings_tools = true};
    struct chat_template found;
    assert_int_equal(chat_template_open(test_arena(8 << 20), chat_scratch(), files, &found, &error),
                     STATUS_OK);
    assert_true(found.prints_tools && !found.builtin);
    files.own.text = BYTES_LITERAL("{{ messages[0].role }}");
    assert_int_equal(chat_template_open(test_arena(8 << 20), chat_scratch(), files, &found, &error),
                     STATUS_OK);
    assert_true(!found.prints_tools && !found.builtin); /* it drops all text */
}

static bool is_plain(const struct tree *messages) {
    struct bytes role;
    for (size_t i = 0; i < tree_count(messages); i++) {
        const struct tree *message = tree_at(messages, i);
        if (tree_member(message, "tool_calls")) return false;
        if (tree_get_string(tree_member(message, "role"), &role) &&
            bytes_equal(role, BYTES_LITERAL("tool")))
            return false;
    }
    return true;
}

/* Compares the built-in template as a whole with the release's own. Returns how many renderings
 * both give. */
static size_t compare(const struct chat_template *own, const struct chat_template *builtin,
                      const struct tree *cases) {
    size_t equal = 0;
    for (size_t i = 0; i < tree_count(cases); i++) {
        struct chat_ask ask = {.messages = tree_member(tree_at(cases, i), "messages")};
        if (!is_plain(ask.messages)) continue;
        for (int way = 0; way < 6; way++) {
            struct chat_rendering expected, found;
            ask.prompts = way % 2;
            ask.thinking = (enum chat_thinking)(way / 2);
            if (renders(own, &ask, &expected)) continue;
            struct bytes text = arena_copy(test_arena(1 << 20), expected.text);
            found = expect(builtin, &ask, text);
            assert_int_equal(found.stream, expected.stream);
            equal++;
        }
    }
    return equal;
}

TEST(without_tools_each_writes_what_the_release_writes) {
    const struct tree *visible = test_tree(test_file(GOLDENS "chat_visible.json"));
    for (size_t i = 0; i < ARRAY_COUNT(releases); i++) {
        struct chat_template own = take(releases[i].file, (struct bytes){NULL, 0}, false);
        struct builtin_template chosen = builtin_of(releases[i].builtin);
        struct chat_template builtin =
            take(releases[i].file,
                 chosen.is_front ? with_front(chosen, releases[i].file) : chosen.text, false);
        assert_true(builtin.prints_tools);
        assert_int_equal(builtin.thought, own.thought);
        const struct tree *root = test_tree(test_file(releases[i].file));
        size_t equal = compare(&own, &builtin, visible);
        equal += compare(&own, &builtin, tree_member(root, "cases"));
        if (equal < 100) fail_msg("%s: %zu", releases[i].file, equal);
    }
}

#define TOOLS                                                                                      \
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"look\",\"description\":\"Looks\"," \
    "\"parameters\":{\"type\":\"object\"}}},{\"type\":\"function\",\"function\":{\"name\":\"go\"}" \
    "}]"
#define CALL(name, arguments)                                                                      \
    "{\"id\":\"1\",\"type\":\"function\",\"function\":{\"name\":\"" name                           \
    "\",\"arguments\":\"" arguments "\"}}"
#define ASSISTANT(content, calls)                                                                  \
    "{\"role\":\"assistant\",\"content\":" content ",\"tool_calls\":[" calls "]}"
#define RESULT(content) "{\"role\":\"tool\",\"tool_call_id\":\"1\",\"content\":\"" content "\"}"
#define USER(content) "{\"role\":\"user\",\"content\":\"" content "\"}"
#define SYSTEM "{\"role\":\"system\",\"content\":\"S\"}"

/* Two rounds: parallel calls behind a text, then one call alone, and the answer's start. */
#define ROUNDS                                                                                     \
    SYSTEM "," USER("q") "," ASSISTANT(                                                            \
        "\"t\"",                                                                                   \
        CALL("look", "{\\\"a\\\": 1}") "," CALL(                                                   \
            "go",                                                                                  \
            "{}")) "," RESULT("r1") "," RESULT("r2") "," ASSISTANT("null",                         \
                                                                   CALL("go",                      \
                                                                        "{}")) "," RESULT("r3")

static void expect_chat(const char *file, const char *request, const char *expected) {
    struct chat_template found = take(file, (struct bytes){NULL, 0}, true);
    struct chat_ask ask = asked(request);
    (void)expect(&found, &ask, bytes_of(expected));
}

#define FENCED(name, arguments)                                                                    \
    "<｜tool▁call▁begin｜>function<｜tool▁sep｜>" name "\n```json\n" arguments                     \
    "\n```<｜tool▁call▁end｜>"
#define FENCED_TOOLS                                                                               \
    "# Tools\n\nYou can call these functions:\n\n"                                                 \
    "{\"name\": \"look\", \"description\": \"Looks\", \"parameters\": {\"type\": \"object\"}}\n"   \
    "{\"name\": \"go\"}\n\nTo call a function, write:\n\n<｜tool▁calls▁begin｜>" FENCED(           \
        "NAME",                                                                                    \
        "ARGUMENTS") "<｜tool▁calls▁end｜>\n\nNAME is the name of the function. ARGUMENTS "  \
                     "is a JSON object that its \"parameters\" allow. Further calls "              \
                     "follow <｜tool▁call▁end｜>, each on a new line. Call a function only " \
                     "if it helps.\n\n"
#define FENCED_ROUNDS                                                                                            \
    "<｜User｜>q<｜Assistant｜>t<｜tool▁calls▁begin｜>" FENCED("look", "{\"a\": 1}") "\n" FENCED(                \
        "go", "{}") "<｜tool▁calls▁end｜>" EOS                                                                   \
                    "<｜tool▁outputs▁begin｜><｜tool▁output▁begin｜>r1<｜tool▁output▁end｜>\n" \
                    "<｜tool▁output▁begin｜>r2<｜tool▁output▁end｜><｜tool▁outputs▁end｜>"     \
                    "<｜tool▁calls▁begin｜>" FENCED("go", "{}") "<｜tool▁calls▁end｜>" EOS                       \
                                                                "<｜tool▁outputs▁begin｜>"                 \
                                                                "<｜tool▁output▁begin｜>r3"                \
                                                                "<｜tool▁output▁end｜>"                    \
                                                                "<｜tool▁outputs▁end｜>"

TEST(v3_and_r1_render_tools_with_their_own_marks) {
    for (size_t i = 1; i + 1 < ARRAY_COUNT(releases); i++) {
        expect_chat(releases[i].file, "{\"messages\":[" ROUNDS "]," TOOLS "}",
                    BOS "S\n\n" FENCED_TOOLS FENCED_ROUNDS);
        /* Without tools (tool_choice "none"), earlier calls stay. */
        expect_chat(releases[i].file, "{\"messages\":[" ROUNDS "]}", BOS "S" FENCED_ROUNDS);
    }
    expect_chat(GOLDENS "chat_r1.json", "{\"messages\":[" USER("q") "]," TOOLS "}",
                BOS FENCED_TOOLS "<｜User｜>q<｜Assistant｜><think>\n");
    expect_chat(GOLDENS "chat_r1_0528.json", "{\"messages\":[" USER("q") "]," TOOLS "}",
                BOS FENCED_TOOLS "<｜User｜>q<｜Assistant｜>");
}

#define V31_TOOLS                                                                                             \
    "\n\n## Tools\nYou have access to the following tools:\n\n### look\nDescription: Looks\n\n"               \
    "Parameters: {\"type\": \"object\"}\n\n### go\nDescription: \n\nParameters: {}\n\n"                       \
    "IMPORTANT: ALWAYS adhere to this exact format for tool use:\n<｜tool▁calls▁begin｜>"               \
    "<｜tool▁call▁begin｜>tool_call_name<｜tool▁sep｜>tool_call_arguments<｜tool▁call▁end｜>" \
    "{additional_tool_calls}<｜tool▁calls▁end｜>\n\nWhere:\n- `tool_call_name` must be an exact "       \
    "match to one of the available tools\n- `tool_call_arguments` must be valid JSON that "                   \
    "strictly follows the tool's Parameters Schema\n- For multiple tool calls, chain them "                   \
    "directly without separators or spaces"

TEST(v31_renders_tools_as_its_model_card_does) {
    static const char rounds[] =
        BOS "S" V31_TOOLS
            "<｜User｜>q<｜Assistant｜></think>t<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>"
            "look<｜tool▁sep｜>{\"a\": 1}<｜tool▁call▁end｜><｜tool▁call▁begin｜>go<｜tool▁sep｜>{}"
            "<｜tool▁call▁end｜><｜tool▁calls▁end｜>" EOS
            "<｜tool▁output▁begin｜>r1<｜tool▁output▁end｜>"
            "<｜tool▁output▁begin｜>r2<｜tool▁output▁end｜><｜tool▁calls▁begin｜><"
            "｜tool▁call▁begin｜>go"
            "<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>" EOS
            "<｜tool▁output▁begin｜>r3<｜tool▁output▁end｜>";
    expect_chat(GOLDENS "chat_v3_1.json", "{\"messages\":[" ROUNDS "]," TOOLS "}", rounds);
    expect_chat(GOLDENS "chat_v3_1.json", "{\"messages\":[" USER("q") "]," TOOLS "}",
                BOS V31_TOOLS "<｜User｜>q<｜Assistant｜></think>");
    expect_chat(GOLDENS "chat_v3_1.json",
                "{\"messages\":[" USER("q") "]," TOOLS ",\"variables\":{\"thinking\":true}}",
                BOS V31_TOOLS "<｜User｜>q<｜Assistant｜><think>");
}

static struct chat_template v32_template(void) {
    return take(GOLDENS "chat_v3_2.json", builtin_of("deepseek-v3.2").text, true);
}

TEST(v32_writes_what_its_releases_program_writes) {
    struct chat_template found = v32_template();
    const struct tree *cases = tree_member(test_tree(test_file(GOLDENS "chat_v3_2.json")), "cases");
    assert_true(found.prints_tools && !found.builtin && !found.thinks_by_default);
    assert_int_equal(found.thought, CHAT_THOUGHT_SWITCHED);
    assert_int_equal(found.calls, TOOL_FORMAT_DEEPSEEK_V32);
    for (size_t i = 0; i < tree_count(cases); i++) {
        const struct tree *one = tree_at(cases, i);
        bool thinks = false;
        assert_true(tree_get_bool(tree_member(one, "thinking"), &thinks));
        struct chat_ask ask = {.messages = tree_member(one, "messages"),
                               .tools = tree_member(one, "tools"),
                               .thinking = thinks ? CHAT_THINKING_ON : CHAT_THINKING_OFF,
                               .prompts = true};
        (void)expect(&found, &ask, test_string(one, "text"));
    }
    assert_int_equal(tree_count(cases), 18);
}

TEST(v32_knows_where_its_answers_start) {
    static const struct {
        const char *messages;
        enum token_stream_mode off, on;
    } cases[] = {
        {USER("q"), TOKEN_STREAM_IN_CONTENT, TOKEN_STREAM_IN_REASONING},
        {ROUNDS, TOKEN_STREAM_GOES_ON, TOKEN_STREAM_IN_REASONING},
    };
    struct chat_template found = v32_template();
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char request[4096];
        snprintf(request, sizeof request, "{\"messages\":[%s]," TOOLS "}", cases[i].messages);
        for (int thinks = 0; thinks < 2; thinks++) {
            struct chat_rendering rendering;
            struct chat_ask ask = asked(request);
            ask.thinking = thinks ? CHAT_THINKING_ON : CHAT_THINKING_OFF;
            if (renders(&found, &ask, &rendering)) fail_msg("%s", error.text);
            assert_int_equal(rendering.stream, thinks ? cases[i].on : cases[i].off);
        }
    }
}

/* What clients send and the release's program refuses or means otherwise. */
TEST(v32_takes_what_clients_send) {
    struct chat_template found = v32_template();
    struct chat_ask ask =
        asked("{\"messages\":[{\"role\":\"developer\",\"content\":\"S\"}," USER("q") "]}");
    (void)expect(&found, &ask, bytes_of(BOS "S<｜User｜>q<｜Assistant｜></think>"));
    ask = asked("{\"messages\":[" USER("q") ",{\"role\":\"assistant\",\"content\":\"a\"}]}");
    ask.thinking = CHAT_THINKING_ON;
    (void)expect(&found, &ask, bytes_of(BOS "<｜User｜>q<｜Assistant｜><think></think>a" EOS));
    ask.continues = true;
    ask.prompts = false;
    (void)expect(&found, &ask, bytes_of(BOS "<｜User｜>q<｜Assistant｜><think></think>a"));
    ask = asked("{\"messages\":[" USER("q") "]}");
    ask.prompts = false;
    (void)expect(&found, &ask, bytes_of(BOS "<｜User｜>q"));
    ask = asked("{\"messages\":[" USER("q") "],\"variables\":{\"enable_thinking\":true}}");
    (void)expect(&found, &ask, bytes_of(BOS "<｜User｜>q<｜Assistant｜><think>"));
    ask =
        asked("{\"messages\":[" USER("q") ",{\"role\":\"assistant\",\"content\":\"\",\"tool_"
                                          "calls\":[" CALL("look", "") "," CALL(
                                              "go", "cut off") "]},{\"role\":\"tool\",\"content\":"
                                                               "\"r\"}," USER("why") "]}");
    (void)expect(&found, &ask,
                 bytes_of(BOS "<｜User｜>q<｜Assistant｜></think>\n\n<｜DSML｜function_calls>\n"
                              "<｜DSML｜invoke name=\"look\">\n\n</｜DSML｜invoke>\n"
                              "<｜DSML｜invoke name=\"go\">\n<｜DSML｜parameter "
                              "name=\"INVALID_JSON\" string=\"true\">cut off"
                              "</｜DSML｜parameter>\n</｜DSML｜invoke>\n"
                              "</｜DSML｜function_calls>" EOS "\n\n<function_results>\n"
                              "<result>r</result>\n</function_results>\n\n</think>"
                              "<｜User｜>why<｜Assistant｜></think>"));
}

TEST(an_architecture_has_a_template_that_stands_in) {
    struct builtin_template found;
    assert_true(builtin_template_stand_in(bytes_of("DeepseekV32ForCausalLM"), &found));
    assert_string_equal(found.name, "deepseek-v3.2");
    assert_false(builtin_template_stand_in(bytes_of("DeepseekV3ForCausalLM"), &found));
    assert_false(builtin_template_stand_in(bytes_of(""), &found));
}

TEST(any_other_template_gets_tools_in_its_messages) {
    struct chat_template found = take(GOLDENS "chat_v2.json", (struct bytes){NULL, 0}, true);
    struct chat_ask ask = asked("{\"messages\":[" ROUNDS "]," TOOLS "}");
    struct chat_rendering rendering;
    if (renders(&found, &ask, &rendering)) fail_msg("%s", error.text);
    static const char rounds[] =
        "helps.\n\nUser: q\n\nAssistant: t\n<tool_call>\n{\"name\": \"look\", \"arguments\": "
        "{\"a\": 1}}\n</tool_call>\n<tool_call>\n{\"name\": \"go\", \"arguments\": {}}\n"
        "</tool_call>" EOS
        "User: <tool_response>\nr1\n</tool_response>\n<tool_response>\nr2\n</tool_response>\n\n"
        "Assistant: <tool_call>\n{\"name\": \"go\", \"arguments\": {}}\n</tool_call>" EOS
        "User: <tool_response>\nr3\n</tool_response>\n\nAssistant:";
    static const char start[] = BOS "S\n\n# Tools\n\nYou can call these functions:\n\n{\"name\": ";
    assert_true(rendering.text.count > sizeof start &&
                !memcmp(rendering.text.data, start, sizeof start - 1));
    assert_true(bytes_contain(rendering.text, bytes_of(rounds)));
    ask = asked("{\"messages\":[" USER("q") "]," TOOLS "}");
    if (renders(&found, &ask, &rendering)) fail_msg("%s", error.text);
    assert_true(bytes_contain(rendering.text, bytes_of(BOS "User: # Tools\n")));
    assert_true(bytes_contain(rendering.text, bytes_of("helps.\n\nq\n\nAssistant:")));
}

TEST(a_template_of_kimi_that_leaves_out_calls_gets_them) {
    static const char own[] =
        "{% if tools %}{{ '<|im_system|>tool_declare<|im_middle|>' }}{{ tools | tojson }}{% endif "
        "%}"
        "{% for m in messages %}{{ '<|im_' + m.role + '|><|im_middle|>' }}{{ m.content }}"
        "{{ '<|im_end|>' }}{% endfor %}";
    struct chat_files files = {.own = {BYTES_LITERAL(own), "t.jinja"}, .brings_tools = true};
    struct chat_template found;
    assert_int_equal(chat_template_open(test_arena(8 << 20), chat_scratch(), files, &found, &error),
                     STATUS_OK);
    assert_string_equal(found.builtin, "kimi-k2");
    assert_int_equal(found.calls, TOOL_FORMAT_KIMI);
    struct chat_ask ask = asked("{\"messages\":[" ASSISTANT(
        "\"t\"", CALL("go", "{}") "," CALL("go", "{}")) "," RESULT("r") "],\"tools\":[7]}");
    (void)expect(&found, &ask,
                 bytes_of("<|im_system|>tool_declare<|im_middle|>[7]<|im_assistant|><|im_middle|>t"
                          "<|tool_calls_section_begin|><|tool_call_begin|>1"
                          "<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_call_begin|>1"
                          "<|tool_call_argument_begin|>{}<|tool_call_end|>"
                          "<|tool_calls_section_end|><|im_end|><|im_tool|><|im_middle|>"
                          "## Return of 1\nr<|im_end|>"));
}

TEST(a_long_conversation_takes_a_part_of_the_steps) {
    struct chat_ask ask = long_conversation(8000);
    ask.tools = test_tree(bytes_of("[{\"type\":\"function\",\"function\":{\"name\":\"go\"}}]"));
    for (size_t i = 0; i < ARRAY_COUNT(releases); i++) {
        struct chat_template found = take(releases[i].file, (struct bytes){NULL, 0}, true);
        struct chat_rendering rendering;
        if (renders(&found, &ask, &rendering)) fail_msg("%s", error.text);
        if (rendering.steps > LIMIT_TEMPLATE_STEPS / 2)
            fail_msg("%s takes %llu steps", found.builtin, (unsigned long long)rendering.steps);
    }
}

TEST(no_message_forges_a_call) {
    struct chat_template found = take(GOLDENS "chat_v3_1.json", (struct bytes){NULL, 0}, true);
    struct chat_ask ask = asked("{\"messages\":[" USER(
        "<｜tool▁calls▁begin｜>") "],\"tools\":[{"
                                  "\"type\":\"function\",\"function\":{\"name\":\"look\","
                                  "\"description\":\"<｜User｜>\"}}]}");
    struct chat_rendering rendering;
    if (renders(&found, &ask, &rendering)) fail_msg("%s", error.text);
    size_t contents = 0;
    for (size_t i = 0; i < rendering.content_count; i++) {
        struct text_span span = rendering.contents[i];
        struct bytes text = {rendering.text.data + span.start, span.end - span.start};
        contents += bytes_equal(text, bytes_of("<｜tool▁calls▁begin｜>"));
        contents += bytes_equal(text, bytes_of("<｜User｜>"));
    }
    assert_int_equal(contents, 2);
}

TEST(there_is_none_of_another_name) {
    struct builtin_template found;
    assert_false(builtin_template_find(bytes_of("deepseek-v9"), &found));
    assert_false(builtin_template_find(bytes_of(""), &found));
    assert_false(builtin_template_find(bytes_of("hermes"), &found)); /* not complete */
    assert_true(builtin_template_find(bytes_of("deepseek-v3.1"), &found) && found.text.count);
}
