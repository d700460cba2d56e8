/* SPDX-License-Identifier: Apache-2.0
 * Protects the rule that no field which would change an answer is ignored in silence: refused ones
 * are refused by name unless they ask for nothing, neutral ones are ignored, and all others are
 * named in a warning that may stand in a header, whatever bytes they are made of.
 */
#include "serving/gateway/api/api_body.h"

#include "base/check.h"
#include "base/format.h"
#include "bodies.h"
#include "serving/gateway/api/api_field.h"
#include "test_case.h"

static struct bodies bodies;

static bool read_one(const struct dialect *dialect, const char *name, const char *value) {
    char member[256];
    format_text(member, sizeof member, "\"%s\":%s", name, value);
    return dialect->chats ? bodies_chat(&bodies, member) : bodies_completion(&bodies, member);
}

TEST(every_refused_field_is_refused_by_name) {
    static const struct dialect *const dialects[] = {&chat_dialect, &completion_dialect};
    const struct api_field *field;
    bodies_open(&bodies);
    for (size_t d = 0; d < ARRAY_COUNT(dialects); d++)
        for (size_t i = 0; (field = api_field_at(i)); i++) {
            if (!(field->dialects >> dialects[d]->number & 1) || field->use != API_FIELD_REFUSED)
                continue;
            if (!read_one(dialects[d], field->name, "null")) fail_msg("%s null", field->name);
            if (read_one(dialects[d], field->name, "\"some other\"")) fail_msg("%s", field->name);
            bodies_refused(&bodies, 400, field->name, "unsupported_parameter");
            if (!field->only && !read_one(dialects[d], field->name, "[]"))
                fail_msg("%s []", field->name);
        }
}

TEST(values_that_ask_for_nothing_are_no_reason) {
    static const char *const fine[] = {
        "\"functions\":[]",
        "\"function_call\":\"none\"",
        "\"store\":false",
        "\"verbosity\":\"medium\"",
        "\"guided_json\":null",
        "\"length_penalty\":1.0",
        "\"skip_special_tokens\":true",
        "\"n_predict\":-1",
        "\"priority\":0",
        "\"modalities\":[\"text\"]",
        "\"top_n_sigma\":-1.0",
    };
    static const char *const not_fine[] = {
        "\"skip_special_tokens\":false", "\"length_penalty\":0",
        "\"prompt_logprobs\":0",         "\"store\":true",
        "\"modalities\":[\"audio\"]",    "\"include_reasoning\":false",
    };
    bodies_open(&bodies);
    for (size_t i = 0; i < ARRAY_COUNT(fine); i++)
        if (!bodies_chat(&bodies, fine[i])) fail_msg("%s", fine[i]);
    assert_int_equal(bodies.request.warning.count, 0);
    for (size_t i = 0; i < ARRAY_COUNT(not_fine); i++)
        if (bodies_chat(&bodies, not_fine[i])) fail_msg("%s", not_fine[i]);
}

TEST(neutral_fields_are_ignored_without_a_word) {
    bodies_open(&bodies);
    assert_true(bodies_chat(&bodies, "\"user\":\"u\",\"metadata\":{\"a\":1},\"service_tier\":5,"
                                     "\"prompt_cache_key\":\"k\",\"cache_prompt\":true"));
    assert_int_equal(bodies.request.warning.count, 0);
}

static void assert_warning(const char *members, const char *warning) {
    assert_true(bodies_chat(&bodies, members));
    if (!bytes_equal(bodies.request.warning, bytes_of(warning)))
        fail_msg("%.*s", (int)bodies.request.warning.count, bodies.request.warning.data);
}

TEST(unknown_names_are_reported_in_plain_ascii) {
    bodies_open(&bodies);
    assert_warning("\"zig\":1,\"zag\":null", "unknown fields: zig, zag");
    assert_warning("\"a b\\r\\nX: 1\":1", "unknown fields: a?b??X:?1");
    assert_warning("\"\":1", "unknown fields: ''");
    assert_warning("\"\u00fc,\":1", "unknown fields: ???");
    assert_warning("\"0123456789012345678901234567890123456789012345\":1",
                   "unknown fields: 0123456789012345678901234567890123456789...");
}

TEST(a_warning_has_an_end) {
    static char members[1 << 17];
    size_t at = 0;
    bodies_open(&bodies);
    for (uint32_t i = 0; i < 5000; i++)
        at += format_text(members + at, sizeof members - at, "%s\"unknown_%u\":1", i ? "," : "", i);
    assert_true(bodies_chat(&bodies, members));
    struct bytes warning = bodies.request.warning;
    assert_true(warning.count <= API_WARNING_BYTES_MAX);
    assert_memory_equal(warning.data + warning.count - 5, ", ...", 5);
}
