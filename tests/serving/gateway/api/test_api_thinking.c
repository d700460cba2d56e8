/* SPDX-License-Identifier: Apache-2.0
 * Protects who says whether the model thinks: each field of each API, the model's name where none
 * does, never two that disagree, and nothing that the model cannot do.
 */
#include "serving/gateway/api/api_thinking.h"

#include "base/check.h"
#include "bodies.h"
#include "test_case.h"

static struct bodies bodies;

TEST(each_field_switches_thinking) {
    static const struct {
        const char *members;
        enum chat_thinking thinking;
    } rows[] = {
        {"", CHAT_THINKING_DEFAULT},
        {"\"thinking\":{\"type\":\"enabled\"}", CHAT_THINKING_ON},
        {"\"thinking\":{\"type\":\"disabled\"}", CHAT_THINKING_OFF},
        {"\"thinking\":{\"type\":\"auto\"}", CHAT_THINKING_DEFAULT},
        {"\"thinking\":null", CHAT_THINKING_DEFAULT},
        {"\"enable_thinking\":true", CHAT_THINKING_ON},
        {"\"enable_thinking\":false", CHAT_THINKING_OFF},
        {"\"chat_template_kwargs\":{\"enable_thinking\":false}", CHAT_THINKING_OFF},
        {"\"chat_template_kwargs\":{\"thinking\":true,\"x\":1}", CHAT_THINKING_ON},
        {"\"chat_template_kwargs\":{\"thinking\":\"true\"}", CHAT_THINKING_DEFAULT},
        {"\"reasoning_effort\":\"none\"", CHAT_THINKING_OFF},
        {"\"reasoning_effort\":\"minimal\"", CHAT_THINKING_OFF},
        {"\"reasoning_effort\":\"low\"", CHAT_THINKING_ON},
        {"\"reasoning_effort\":\"max\"", CHAT_THINKING_ON},
        {"\"model\":\"quick\"", CHAT_THINKING_OFF},
        {"\"model\":\"quick\",\"thinking\":{\"type\":\"enabled\"}", CHAT_THINKING_ON},
        {"\"model\":\"quick\",\"reasoning_effort\":\"high\"", CHAT_THINKING_ON},
        {"\"thinking\":{\"type\":\"disabled\"},\"reasoning_effort\":\"high\"", CHAT_THINKING_OFF},
        {"\"thinking\":{\"type\":\"disabled\"},\"enable_thinking\":false", CHAT_THINKING_OFF},
    };
    bodies_open(&bodies);
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        if (!bodies_chat(&bodies, rows[i].members))
            fail_msg("%s: %s", rows[i].members, bodies.error.message);
        if (bodies.request.thinking != rows[i].thinking) fail_msg("%s", rows[i].members);
    }
}

TEST(contradictions_are_refused) {
    bodies_open(&bodies);
    assert_false(bodies_chat(&bodies, "\"thinking\":{\"type\":\"disabled\"},"
                                      "\"enable_thinking\":true"));
    bodies_refused(&bodies, 400, "enable_thinking", "invalid_value");
    assert_false(bodies_chat(&bodies, "\"thinking\":{\"type\":\"enabled\"},"
                                      "\"reasoning_effort\":\"none\""));
    bodies_refused(&bodies, 400, "reasoning_effort", "invalid_value");
    assert_false(bodies_chat(&bodies, "\"chat_template_kwargs\":{\"thinking\":true,"
                                      "\"enable_thinking\":false}"));
    bodies_refused(&bodies, 400, "chat_template_kwargs", "invalid_value");
}

TEST(what_the_model_cannot_do_is_refused) {
    bodies_open(&bodies);
    bodies.defaults.thought = CHAT_THOUGHT_ALWAYS;
    assert_false(bodies_chat(&bodies, "\"thinking\":{\"type\":\"disabled\"}"));
    bodies_refused(&bodies, 400, "thinking", "unsupported_parameter");
    assert_false(bodies_chat(&bodies, "\"reasoning_effort\":\"none\""));
    bodies_refused(&bodies, 400, "reasoning_effort", "unsupported_parameter");
    assert_true(bodies_chat(&bodies, "\"thinking\":{\"type\":\"enabled\"}"));
    assert_true(bodies_chat(&bodies, "\"reasoning_effort\":\"high\""));
    assert_int_equal(bodies.request.thinking, CHAT_THINKING_DEFAULT);
    bodies.defaults.thought = CHAT_THOUGHT_NEVER;
    assert_false(bodies_chat(&bodies, "\"enable_thinking\":true"));
    bodies_refused(&bodies, 400, "enable_thinking", "unsupported_parameter");
    assert_true(bodies_chat(&bodies, "\"reasoning_effort\":\"high\"")); /* a wish */
    assert_true(bodies_chat(&bodies, "\"thinking\":{\"type\":\"disabled\"}"));
}

TEST(what_says_nothing_of_thinking_is_refused) {
    bodies_open(&bodies);
    assert_false(bodies_chat(&bodies, "\"thinking\":true"));
    bodies_refused(&bodies, 400, "thinking", "invalid_type");
    assert_false(bodies_chat(&bodies, "\"thinking\":{\"type\":\"deep\"}"));
    bodies_refused(&bodies, 400, "thinking", "invalid_value");
    assert_false(bodies_chat(&bodies, "\"reasoning_effort\":\"huge\""));
    bodies_refused(&bodies, 422, "reasoning_effort", "invalid_value");
    assert_false(bodies_chat(&bodies, "\"reasoning_effort\":3"));
    bodies_refused(&bodies, 400, "reasoning_effort", "invalid_type");
    assert_false(bodies_chat(&bodies, "\"chat_template_kwargs\":[]"));
    bodies_refused(&bodies, 400, "chat_template_kwargs", "invalid_type");
}
