/* SPDX-License-Identifier: Apache-2.0
 * Protects what the model is told of a tool that takes one text: a function of the argument
 * "input", and its grammar, in either shape that clients write.
 */
#include "serving/gateway/dialects/text_tool.h"

#include "reading.h"
#include "serving/gateway/dialects/chat_dialect.h"
#include "test_case.h"

static const struct tree *tree_of_text(const char *text) {
    const struct tree *tree = NULL;
    struct error ignored;
    assert_int_equal(tree_parse(&arena, bytes_of(text), "test", &tree, &ignored), STATUS_OK);
    return tree;
}

static struct api_reader open_reader(void) {
    assert_true(read_as(&chat_dialect, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}"));
    return (struct api_reader){.arena = &arena, .error = &error, .dialect = &chat_dialect};
}

#define PARAMETERS                                                                                 \
    "\"parameters\":{\"type\":\"object\",\"properties\":{\"input\":{\"type\":\"string\"}},"        \
    "\"required\":[\"input\"],\"additionalProperties\":false}}}]"

TEST(a_grammar_stands_behind_the_description) {
    static const char *const tools[] = {
        "{\"description\":\"Edits.\",\"format\":{\"type\":\"grammar\",\"syntax\":\"regex\","
        "\"definition\":\"a+\"}}",
        "{\"description\":\"Edits.\",\"format\":{\"type\":\"grammar\",\"grammar\":{\"syntax\":"
        "\"regex\",\"definition\":\"a+\"}}}",
    };
    for (size_t i = 0; i < 2; i++) {
        struct api_reader reader = open_reader();
        struct chat_builder builder = chat_builder_open(&arena);
        assert_true(text_tool_add(&reader, &builder, &parsed, tree_of_text(tools[i]),
                                  tree_make_string(&arena, BYTES_LITERAL("edit")), "tools[0]"));
        expect(
            tree_text(&arena, builder.tools),
            "[{\"type\":\"function\",\"function\":{\"name\":\"edit\",\"description\":\"Edits.\\n\\n"
            "The input follows this grammar (regex):\\na+\"," PARAMETERS);
        assert_true(parsed.warning.count > 0);
    }
}

TEST(a_format_that_is_none_is_refused_at_its_place) {
    struct api_reader reader = open_reader();
    struct chat_builder builder = chat_builder_open(&arena);
    const struct tree *name = tree_make_string(&arena, BYTES_LITERAL("edit"));
    assert_false(text_tool_add(&reader, &builder, &parsed,
                               tree_of_text("{\"format\":{\"type\":\"grammar\"}}"), name,
                               "tools[0].custom"));
    assert_string_equal(error.param, "tools[0].custom.format");
    assert_true(text_tool_add(&reader, &builder, &parsed,
                              tree_of_text("{\"format\":{\"type\":\"text\"}}"), name, "tools[0]"));
}

TEST(an_earlier_input_is_an_argument) {
    struct api_reader reader = open_reader();
    const struct tree *text =
        text_tool_arguments(&reader, tree_make_string(&arena, BYTES_LITERAL("a \"b\"\n")));
    struct bytes said;
    assert_true(tree_get_string(text, &said));
    expect(said, "{\"input\":\"a \\\"b\\\"\\n\"}");
}
