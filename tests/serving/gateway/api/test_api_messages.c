/* SPDX-License-Identifier: Apache-2.0
 * Protects what templates rely on in a conversation, and who may be continued.
 */
#include "serving/gateway/api/api_messages.h"

#include "base/check.h"
#include "base/format.h"
#include "bodies.h"
#include "test_case.h"

static struct bodies bodies;

static bool read_with(const char *messages, const char *more) {
    static char body[4096];
    format_text(body, sizeof body, "{\"messages\":[%s]%s%s}", messages, more[0] ? "," : "", more);
    return bodies_read(&bodies, &chat_dialect, body);
}

#define USER "{\"role\":\"user\",\"content\":\"q\"}"
#define SAID "{\"role\":\"assistant\",\"content\":\"a\""

TEST(each_mistake_of_a_message_is_named) {
    static const struct {
        const char *message;
        uint32_t status;
        const char *param, *code;
    } rows[] = {
        {"{\"role\":\"function\",\"content\":\"x\"}", 422, "messages[0].role", "invalid_value"},
        {SAID ",\"name\":1}", 400, "messages[0].name", "invalid_type"},
        {SAID ",\"reasoning_content\":[]}", 400, "messages[0].reasoning_content", "invalid_type"},
        {"{\"role\":\"tool\",\"content\":\"x\",\"tool_call_id\":7}", 400,
         "messages[0].tool_call_id", "invalid_type"},
        {SAID ",\"refusal\":\"no\"}", 400, "messages[0].refusal", "unsupported_parameter"},
        {SAID ",\"audio\":{\"id\":\"x\"}}", 400, "messages[0].audio", "unsupported_parameter"},
        {SAID ",\"function_call\":{\"name\":\"f\"}}", 400, "messages[0].function_call",
         "unsupported_parameter"},
        {SAID ",\"tool_calls\":[{\"id\":1,\"function\":{\"name\":\"f\",\"arguments\":\"\"}}]}", 400,
         "messages[0].tool_calls", "invalid_type"},
        {SAID ",\"prefix\":1}", 400, "messages[0].prefix", "invalid_type"},
        {"{\"role\":\"user\",\"content\":\"q\",\"prefix\":true}", 400, "messages[0].prefix",
         "invalid_value"},
        {SAID ",\"prefix\":true}," USER, 400, "messages[0].prefix", "invalid_value"},
        {"{\"role\":\"assistant\",\"prefix\":true}", 400, "messages[0].prefix", "invalid_value"},
    };
    bodies_open(&bodies);
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        if (read_with(rows[i].message, "")) fail_msg("accepted: %s", rows[i].message);
        bodies_refused(&bodies, rows[i].status, rows[i].param, rows[i].code);
    }
}

TEST(null_members_are_as_if_absent) {
    bodies_open(&bodies);
    assert_true(read_with(SAID ",\"refusal\":null,\"audio\":null,\"function_call\":null,"
                               "\"tool_calls\":null,\"prefix\":null,\"name\":null,"
                               "\"reasoning_content\":null}," USER,
                          ""));
    assert_false(bodies.request.continues);
    assert_true(bodies.request.opens_turn);
}

TEST(a_prefix_is_continued) {
    bodies_open(&bodies);
    assert_true(read_with(USER "," SAID ",\"prefix\":true}", ""));
    assert_true(bodies.request.continues && !bodies.request.opens_turn);
    assert_true(read_with(USER "," SAID ",\"prefix\":false}", ""));
    assert_false(bodies.request.continues);
    assert_true(read_with(USER "," SAID "}", "\"continue_final_message\":true,"
                                             "\"add_generation_prompt\":false"));
    assert_true(bodies.request.continues);
    assert_false(read_with(USER, "\"continue_final_message\":true"));
    bodies_refused(&bodies, 400, "continue_final_message", "invalid_value");
    assert_false(read_with(USER "," SAID "}", "\"continue_final_message\":true,"
                                              "\"add_generation_prompt\":true"));
    bodies_refused(&bodies, 400, "add_generation_prompt", "invalid_value");
    assert_true(read_with(USER, "\"add_generation_prompt\":false"));
    assert_false(bodies.request.opens_turn);
}
