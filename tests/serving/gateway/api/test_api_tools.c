/* SPDX-License-Identifier: Apache-2.0
 * Protects what a request says of tools: which shapes are taken, that tools which are not to be
 * called are as if they were not there, and what the answer is bound to where a call is forced,
 * tools are strict, or not all may be called.
 */
#include "serving/gateway/api/api_tools.h"

#include "../../text/support.h"
#include "base/check.h"
#include "base/format.h"
#include "bodies.h"
#include "test_case.h"

#define TOOL "{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{}}}"

#define NAMED(name) "{\"type\":\"function\",\"function\":{\"name\":\"" name "\"}}"

static struct bodies bodies;

/* As the gateway has them that serves tiny-r1, in whose tokenizer the calls' marks are tokens. */
static void open_with_marks(void) {
    static struct tokenizer *tokenizer;
    bodies_open(&bodies);
    if (!tokenizer)
        tokenizer = test_tokenizer(test_file("models/tiny-r1/tokenizer.json"), "tokenizer.json");
    bodies.defaults.tokenizer = tokenizer;
    bodies.defaults.calls = TOOL_FORMAT_DEEPSEEK_V31;
}

TEST(tools_are_passed_on_as_they_stand) {
    bodies_open(&bodies);
    assert_true(bodies_chat(&bodies, "\"tools\":[" TOOL "]"));
    assert_int_equal(tree_count(bodies.request.tools), 1);
    assert_false(bodies.request.one_call);
    assert_true(bodies_chat(&bodies, "\"tools\":[" TOOL "],\"tool_choice\":\"auto\","
                                     "\"parallel_tool_calls\":false"));
    assert_non_null(bodies.request.tools);
    assert_true(bodies.request.one_call);
    assert_true(bodies_chat(&bodies, "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":"
                                     "\"a-B_9\",\"description\":null,\"strict\":false}}]"));
}

TEST(tools_that_are_not_to_be_called_are_none) {
    bodies_open(&bodies);
    assert_true(bodies_chat(&bodies, "\"tools\":[" TOOL "],\"tool_choice\":\"none\""));
    assert_null(bodies.request.tools);
    assert_true(bodies_chat(&bodies, "\"tools\":[],\"tool_choice\":\"auto\""));
    assert_null(bodies.request.tools);
    assert_true(bodies_chat(&bodies, "\"tool_choice\":\"none\""));
}

TEST(each_mistake_about_tools_is_named) {
    static const struct {
        const char *members;
        uint32_t status;
        const char *param, *code;
    } rows[] = {
        {"\"tools\":{}", 400, "tools", "invalid_type"},
        {"\"tools\":[1]", 400, "tools[0]", "invalid_type"},
        {"\"tools\":[{}]", 400, "tools[0].type", "unsupported_parameter"},
        {"\"tools\":[{\"type\":\"custom\"}]", 400, "tools[0].type", "unsupported_parameter"},
        {"\"tools\":[{\"type\":\"function\"}]", 400, "tools[0].function",
         "missing_required_parameter"},
        {"\"tools\":[{\"type\":\"function\",\"function\":[]}]", 400, "tools[0].function",
         "invalid_type"},
        {"\"tools\":[{\"type\":\"function\",\"function\":{}}]", 400, "tools[0].function.name",
         "invalid_value"},
        {"\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"a b\"}}]", 400,
         "tools[0].function.name", "invalid_value"},
        {"\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"\"}}]", 400,
         "tools[0].function.name", "invalid_value"},
        {"\"tools\":[" TOOL "," TOOL "]", 400, "tools[1].function.name", "invalid_value"},
        {"\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":1}}]", 400,
         "tools[0].function.description", "invalid_type"},
        {"\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":[]}}]", 400,
         "tools[0].function.parameters", "invalid_type"},
        {"\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"strict\":1}}]", 400,
         "tools[0].function.strict", "invalid_type"},
        {"\"tool_choice\":\"required\"", 400, "tool_choice", "invalid_value"},
        {"\"tools\":[],\"tool_choice\":\"required\"", 400, "tool_choice", "invalid_value"},
        {"\"tools\":[" TOOL "],\"tool_choice\":{\"type\":\"function\"}", 400, "tool_choice",
         "invalid_type"},
        {"\"tools\":[" TOOL "],\"tool_choice\":" NAMED("g"), 400, "tool_choice", "invalid_value"},
        {"\"tools\":[" TOOL "],\"tool_choice\":{\"type\":\"mcp\"}", 400, "tool_choice",
         "unsupported_parameter"},
        {"\"tools\":[" TOOL "],\"tool_choice\":{\"type\":\"custom\"}", 400, "tool_choice",
         "invalid_type"},
        {"\"tools\":[" TOOL "],\"tool_choice\":{\"type\":\"allowed_tools\",\"mode\":\"none\"}", 400,
         "tool_choice", "invalid_type"},
        {"\"tools\":[" TOOL "],\"tool_choice\":{\"type\":\"allowed_tools\",\"mode\":\"auto\","
         "\"tools\":[]}",
         400, "tool_choice", "invalid_type"},
        {"\"tools\":[" TOOL "],\"tool_choice\":{\"type\":\"allowed_tools\",\"mode\":\"auto\","
         "\"tools\":[{\"type\":\"mcp\"}]}",
         400, "tool_choice", "unsupported_parameter"},
        {"\"tools\":[" TOOL "],\"tool_choice\":\"any\"", 422, "tool_choice", "invalid_value"},
        {"\"parallel_tool_calls\":1", 400, "parallel_tool_calls", "invalid_type"},
    };
    bodies_open(&bodies);
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        if (bodies_chat(&bodies, rows[i].members)) fail_msg("accepted: %s", rows[i].members);
        bodies_refused(&bodies, rows[i].status, rows[i].param, rows[i].code);
    }
}

TEST(there_may_be_512_tools) {
    static char members[64 << 10];
    bodies_open(&bodies);
    for (uint32_t count = LIMIT_TOOLS; count <= LIMIT_TOOLS + 1; count++) {
        size_t at = format_text(members, sizeof members, "\"tools\":[");
        for (uint32_t i = 0; i < count; i++)
            at += format_text(members + at, sizeof members - at,
                              "%s{\"type\":\"function\",\"function\":{\"name\":\"f%u\"}}",
                              i ? "," : "", i);
        format_text(members + at, sizeof members - at, "]");
        assert_int_equal(bodies_chat(&bodies, members), count == LIMIT_TOOLS);
    }
    bodies_refused(&bodies, 422, "tools", "out_of_range");
}

TEST(a_template_without_a_place_for_tools_takes_none) {
    bodies_open(&bodies);
    bodies.defaults.prints_tools = false;
    assert_false(bodies_chat(&bodies, "\"tools\":[" TOOL "]"));
    bodies_refused(&bodies, 400, "tools", "unsupported_parameter");
    assert_true(bodies_chat(&bodies, "\"tools\":[" TOOL "],\"tool_choice\":\"none\""));
}

TEST(a_template_without_a_place_for_documents_takes_none) {
    bodies_open(&bodies);
    assert_true(bodies_chat(&bodies, "\"documents\":[{\"text\":\"a\"}]"));
    assert_int_equal(tree_count(bodies.request.documents), 1);
    bodies.defaults.reads_documents = false;
    assert_true(bodies_chat(&bodies, "\"documents\":[]"));
    assert_false(bodies_chat(&bodies, "\"documents\":[{\"text\":\"a\"}]"));
    bodies_refused(&bodies, 400, "documents", "unsupported_parameter");
}

/* ---- what binds calls ---- */

#define F "{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":" F_SCHEMA "}}"
#define F_SCHEMA "{\"type\":\"object\",\"required\":[\"a\"]}"
#define STRICT                                                                                     \
    "{\"type\":\"function\",\"function\":{\"name\":\"g\",\"strict\":true,\"parameters\":{"         \
    "\"type\":"                                                                                    \
    "\"object\",\"maxProperties\":1}}}"
#define CALL(name, schema)                                                                         \
    "{\"sequence\":[{\"text\":\"" name "\"},{\"token\":\"<｜tool▁sep｜>\"},{\"schema\":" schema    \
    "}]}"
#define CALL_BEGIN "{\"token\":\"<｜tool▁call▁begin｜>\"},"
#define CALL_END ",{\"token\":\"<｜tool▁call▁end｜>\"}"
#define CALLS_BEGIN "{\"token\":\"<｜tool▁calls▁begin｜>\"},"
#define CALLS_END ",{\"token\":\"<｜tool▁calls▁end｜>\"}"
#define MORE(call)                                                                                 \
    "{\"repeat\":{\"sequence\":[" CALL_BEGIN call CALL_END                                         \
    ",{\"repeat\":{\"text\":\"\\n\"},\"least\":0,\"most\":1}]},\"least\":1}"
#define ANY "{\"type\":\"object\"}"
#define G_SCHEMA "{\"type\":\"object\",\"maxProperties\":1}"
#define BOTH_CALLS(f) "{\"any\":[" CALL("f", f) "," CALL("g", G_SCHEMA) "]}"
#define FORMAT "\"response_format\":{\"type\":\"json_object\"}"
#define FORMAT_FORM "{\"schema\":{\"type\":\"object\"}}"
#define MARK "<｜tool▁call▁begin｜>"

static const struct {
    const char *members, *form, *at, *field;
} bound[] = {
    {"\"tools\":[" F "]", "", "", NULL},
    {"\"tools\":[" F "]," FORMAT ",\"tool_choice\":\"none\"", FORMAT_FORM, "", "response_format"},
    /* a call is forced */
    {"\"tools\":[" F "," STRICT "],\"tool_choice\":\"required\"",
     "{\"sequence\":[" CALLS_BEGIN MORE(BOTH_CALLS(F_SCHEMA)) CALLS_END "]}", "", "tool_choice"},
    {"\"tools\":[" F "],\"tool_choice\":\"required\",\"parallel_tool_calls\":false",
     "{\"sequence\":[" CALLS_BEGIN CALL_BEGIN CALL("f", F_SCHEMA) CALL_END CALLS_END "]}", "",
     "tool_choice"},
    {"\"tools\":[" F "," STRICT "],\"tool_choice\":" NAMED("f"),
     "{\"sequence\":[" CALLS_BEGIN CALL_BEGIN CALL("f", F_SCHEMA) CALL_END CALLS_END "]}", "",
     "tool_choice"},
    {"\"tools\":[" F "," STRICT "],\"tool_choice\":{\"type\":\"function\",\"name\":\"f\"}," FORMAT,
     "{\"sequence\":[" CALLS_BEGIN CALL_BEGIN CALL("f", F_SCHEMA) CALL_END CALLS_END "]}", "",
     "tool_choice"},
    {"\"tools\":[" F "," STRICT "],\"tool_choice\":{\"type\":\"allowed_tools\",\"allowed_tools\":{"
     "\"mode\":\"required\",\"tools\":[" NAMED("g") "]}}",
     "{\"sequence\":[" CALLS_BEGIN MORE(CALL("g", G_SCHEMA)) CALLS_END "]}", "", "tool_choice"},
    /* a call is the model's own choice */
    {"\"tools\":[" F "," STRICT "]", "{\"sequence\":[" MORE(BOTH_CALLS(ANY)) CALLS_END "]}", MARK,
     "tools"},
    {"\"tools\":[" F "," STRICT "],\"parallel_tool_calls\":false",
     "{\"sequence\":[" CALL_BEGIN BOTH_CALLS(ANY) CALL_END CALLS_END "]}", MARK, "tools"},
    {"\"tools\":[" F "," STRICT "],\"tool_choice\":{\"type\":\"allowed_tools\",\"mode\":\"auto\","
     "\"tools\":[{\"type\":\"function\",\"name\":\"f\"}]}",
     "{\"sequence\":[" MORE(CALL("f", ANY)) CALLS_END "]}", MARK, "tool_choice"},
    /* content is bound, too */
    {"\"tools\":[" F "]," FORMAT,
     "{\"any\":[" FORMAT_FORM ",{\"sequence\":[" CALLS_BEGIN MORE(CALL("f", ANY)) CALLS_END "]}]}",
     "", "response_format"},
};

TEST(calls_are_bound_as_far_as_they_are_to_be) {
    open_with_marks();
    for (size_t i = 0; i < ARRAY_COUNT(bound); i++) {
        const struct api_constraint *constraint = &bodies.request.constraint;
        if (!bodies_chat(&bodies, bound[i].members)) fail_msg("%s", bodies.error.message);
        if (!bytes_equal(constraint->form, bytes_of(bound[i].form)))
            fail_msg("%s: %.*s", bound[i].members, (int)constraint->form.count,
                     constraint->form.count ? constraint->form.data : "");
        assert_true(bytes_equal(constraint->at, bytes_of(bound[i].at)));
        assert_true(!constraint->field == !bound[i].field);
        if (bound[i].field) assert_string_equal(constraint->field, bound[i].field);
    }
}

TEST(keys_of_arguments_come_in_order_where_that_is_asked_for) {
    open_with_marks();
    assert_true(bodies_chat(&bodies, "\"strict_order\":true,\"tools\":[" F
                                     "],\"tool_choice\":\"required\""));
    assert_true(bytes_contain(bodies.request.constraint.form,
                              BYTES_LITERAL("{\"schema\":" F_SCHEMA ",\"in_order\":true}")));
}

TEST(strict_calls_that_begin_like_text_are_refused) {
    open_with_marks();
    bodies.defaults.calls = TOOL_FORMAT_LLAMA;
    assert_false(bodies_chat(&bodies, "\"tools\":[" F "," STRICT "]"));
    bodies_refused(&bodies, 400, "tools[1].function.strict", "unsupported_parameter");
    assert_false(bodies_chat(&bodies,
                             "\"tools\":[" F "],\"tool_choice\":{\"type\":\"allowed_tools\","
                             "\"mode\":\"auto\",\"tools\":[" NAMED("f") "]}"));
    bodies_refused(&bodies, 400, "tool_choice", "unsupported_parameter");
    assert_true(bodies_chat(&bodies, "\"tools\":[" STRICT "],\"tool_choice\":\"required\""));
    assert_true(bodies_chat(&bodies, "\"tools\":[" STRICT "],\"tool_choice\":\"none\""));
    assert_int_equal(bodies.request.constraint.form.count, 0);
}

TEST(schemas_that_pairs_cannot_hold_are_refused) {
    open_with_marks();
    bodies.defaults.calls = TOOL_FORMAT_GLM;
    assert_false(bodies_chat(&bodies, "\"tools\":[" F "," STRICT "],\"tool_choice\":\"required\""));
    bodies_refused(&bodies, 400, "tool_choice", "unsupported_parameter");
    assert_false(bodies_chat(&bodies, "\"tools\":[" F "," STRICT "],\"tool_choice\":" NAMED("g")));
    bodies_refused(&bodies, 400, "tools[1].function.strict", "unsupported_parameter");
    assert_true(bodies_chat(&bodies, "\"tools\":[" TOOL "],\"tool_choice\":\"required\""));
}
