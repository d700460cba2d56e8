/* SPDX-License-Identifier: Apache-2.0
 * Protects what a request says of tools: which shapes are taken, what needs constrained output is
 * refused by name, and tools that are not to be called are as if they were not there.
 */
#include "serving/gateway/api/api_tools.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/format.h"
#include "bodies.h"

#define TOOL "{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{}}}"

static struct bodies bodies;

static void tools_are_passed_on_as_they_stand(void **state) {
    (void)state;
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

static void tools_that_are_not_to_be_called_are_none(void **state) {
    (void)state;
    bodies_open(&bodies);
    assert_true(bodies_chat(&bodies, "\"tools\":[" TOOL "],\"tool_choice\":\"none\""));
    assert_null(bodies.request.tools);
    assert_true(bodies_chat(&bodies, "\"tools\":[],\"tool_choice\":\"auto\""));
    assert_null(bodies.request.tools);
    assert_true(bodies_chat(&bodies, "\"tool_choice\":\"none\""));
}

static void each_mistake_about_tools_is_named(void **state) {
    (void)state;
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
        {"\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"strict\":true}}]", 400,
         "tools[0].function.strict", "unsupported_parameter"},
        {"\"tools\":[" TOOL "],\"tool_choice\":\"required\"", 400, "tool_choice",
         "unsupported_parameter"},
        {"\"tools\":[" TOOL "],\"tool_choice\":{\"type\":\"function\"}", 400, "tool_choice",
         "unsupported_parameter"},
        {"\"tools\":[" TOOL "],\"tool_choice\":\"any\"", 422, "tool_choice", "invalid_value"},
        {"\"parallel_tool_calls\":1", 400, "parallel_tool_calls", "invalid_type"},
    };
    bodies_open(&bodies);
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        if (bodies_chat(&bodies, rows[i].members)) fail_msg("accepted: %s", rows[i].members);
        bodies_refused(&bodies, rows[i].status, rows[i].param, rows[i].code);
    }
}

static void there_may_be_128_tools(void **state) {
    (void)state;
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

static void a_template_without_a_place_for_tools_takes_none(void **state) {
    (void)state;
    bodies_open(&bodies);
    bodies.defaults.prints_tools = false;
    assert_false(bodies_chat(&bodies, "\"tools\":[" TOOL "]"));
    bodies_refused(&bodies, 400, "tools", "unsupported_parameter");
    assert_true(bodies_chat(&bodies, "\"tools\":[" TOOL "],\"tool_choice\":\"none\""));
}

static void a_template_without_a_place_for_documents_takes_none(void **state) {
    (void)state;
    bodies_open(&bodies);
    assert_true(bodies_chat(&bodies, "\"documents\":[{\"text\":\"a\"}]"));
    assert_int_equal(tree_count(bodies.request.documents), 1);
    bodies.defaults.reads_documents = false;
    assert_true(bodies_chat(&bodies, "\"documents\":[]"));
    assert_false(bodies_chat(&bodies, "\"documents\":[{\"text\":\"a\"}]"));
    bodies_refused(&bodies, 400, "documents", "unsupported_parameter");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_template_without_a_place_for_documents_takes_none),
        cmocka_unit_test(tools_are_passed_on_as_they_stand),
        cmocka_unit_test(tools_that_are_not_to_be_called_are_none),
        cmocka_unit_test(each_mistake_about_tools_is_named),
        cmocka_unit_test(there_may_be_128_tools),
        cmocka_unit_test(a_template_without_a_place_for_tools_takes_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
