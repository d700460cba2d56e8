/* SPDX-License-Identifier: Apache-2.0
 * Protects that no member of an object inside a body is ignored in silence: what nobody here knows
 * is told with its path, once for each place, in a line that may stand in a header.
 */
#include "serving/gateway/api/api_inner.h"

#include "base/check.h"
#include "base/format.h"
#include "bodies.h"
#include "serving/gateway/api/api_field.h"
#include "serving/gateway/dialects/anthropic_dialect.h"
#include "serving/gateway/dialects/chat_dialect.h"
#include "serving/gateway/dialects/responses_dialect.h"
#include "test_case.h"

static struct bodies bodies;

static void assert_warns(const struct dialect *dialect, const char *body, const char *warning) {
    if (!bodies_read(&bodies, dialect, body)) fail_msg("%s: %s", body, bodies.error.message);
    if (!bytes_equal(bodies.request.warning, bytes_of(warning)))
        fail_msg("%s: '%.*s', expected '%s'", body, (int)bodies.request.warning.count,
                 bodies.request.warning.data, warning);
}

TEST(unknown_members_are_reported_with_their_path) {
    bodies_open(&bodies);
    assert_warns(&chat_dialect,
                 "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\","
                 "\"content\":[{\"type\":\"text\",\"text\":\"b\",\"zip\":1}],\"zag\":true},"
                 "{\"role\":\"user\",\"content\":\"c\",\"zag\":false}],\"zig\":1}",
                 "unknown fields: zig, messages[1].zag, messages[1].content[0].zip");
    assert_warns(&chat_dialect,
                 "{\"messages\":[{\"role\":\"assistant\",\"content\":\"a\",\"tool_calls\":[{\"id\":"
                 "\"1\",\"index\":0,\"type\":\"function\",\"zig\":1,\"function\":{\"name\":\"f\","
                 "\"arguments\":\"{}\",\"zag\":2}}]},{\"role\":\"user\",\"content\":\"b\"}],"
                 "\"stream_options\":{\"include_usage\":true,\"zog\":1},\"thinking\":{\"type\":"
                 "\"auto\",\"zug\":1}}",
                 "unknown fields: messages[0].tool_calls[0].zig, "
                 "messages[0].tool_calls[0].function.zag, thinking.zug, stream_options.zog");
    assert_warns(&anthropic_dialect,
                 "{\"max_tokens\":9,\"system\":[{\"type\":\"text\",\"text\":\"s\",\"zig\":1}],"
                 "\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\","
                 "\"zag\":1}]}],\"tools\":[{\"name\":\"f\",\"input_schema\":{\"type\":\"object\"},"
                 "\"zog\":1}],\"metadata\":{\"user_id\":\"u\",\"zug\":1}}",
                 "unknown fields: messages[0].content[0].zag, system[0].zig, tools[0].zog, "
                 "metadata.zug");
    assert_warns(&responses_dialect,
                 "{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":"
                 "\"a\",\"zig\":1}],\"zag\":1}],\"reasoning\":{\"effort\":\"low\",\"zog\":1},"
                 "\"tools\":[{\"type\":\"function\",\"name\":\"f\",\"parameters\":{},\"zug\":1}]}",
                 "unknown fields: input[0].zag, input[0].content[0].zig, tools[0].zug, "
                 "reasoning.zog");
}

/* What a template uses reaches it, so that it is no news. */
TEST(what_the_template_uses_is_known) {
    static char memory[8 << 20], scratch_memory[8 << 20];
    static const char body[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"a\",\"mood\":1,"
                               "\"moo\":1}],\"chat_template_kwargs\":{\"tone\":1,\"ton\":1}}";
    struct arena arena, scratch;
    struct chat_template chat_template;
    struct error error;
    arena_over(&arena, memory, sizeof memory);
    arena_over(&scratch, scratch_memory, sizeof scratch_memory);
    struct chat_files files = {
        .config = {BYTES_LITERAL("{}"), "config"},
        .own = {BYTES_LITERAL("{{ tone }}{% for m in messages %}{{ m.mood }}{{ m.content }}"
                              "{% endfor %}"),
                "template"}};
    assert_int_equal(chat_template_open(&arena, &scratch, files, &chat_template, &error),
                     STATUS_OK);
    bodies_open(&bodies);
    assert_warns(&chat_dialect, body,
                 "unknown fields: messages[0].mood, messages[0].moo, chat_template_kwargs.tone, "
                 "chat_template_kwargs.ton");
    bodies.defaults.chat_template = &chat_template;
    assert_warns(&chat_dialect, body, "unknown fields: messages[0].moo, chat_template_kwargs.ton");
}

/* What comes back of answers and what marks other servers' caches is no news; null asks for
 * nothing. */
TEST(what_changes_nothing_is_not_reported) {
    bodies_open(&bodies);
    assert_warns(&chat_dialect,
                 "{\"messages\":[{\"role\":\"assistant\",\"content\":\"a\",\"refusal\":null,"
                 "\"annotations\":[],\"audio\":null,\"function_call\":null,\"name\":\"n\","
                 "\"zig\":null},{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"b\","
                 "\"cache_control\":{\"type\":\"ephemeral\"}}]}]}",
                 "");
    assert_warns(&anthropic_dialect,
                 "{\"max_tokens\":9,\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":"
                 "\"text\",\"text\":\"a\",\"cache_control\":{\"type\":\"ephemeral\"},"
                 "\"citations\":null}]}],\"metadata\":{\"user_id\":\"u@h\"}}",
                 "");
}

TEST(a_path_may_stand_in_a_header) {
    static char body[1 << 17];
    bodies_open(&bodies);
    assert_warns(&chat_dialect,
                 "{\"messages\":[{\"role\":\"user\",\"content\":\"a\",\"x\\r\\nY: \\u00fc\":1}]}",
                 "unknown fields: messages[0].x??Y:???");
    size_t at =
        format_text(body, sizeof body, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"");
    for (uint32_t i = 0; i < 4000; i++)
        at += format_text(body + at, sizeof body - at, ",\"unknown_%u\":1", i);
    format_text(body + at, sizeof body - at, "}]}");
    assert_true(bodies_read(&bodies, &chat_dialect, body));
    struct bytes warning = bodies.request.warning;
    assert_true(warning.count <= API_WARNING_BYTES_MAX);
    assert_memory_equal(warning.data + warning.count - 5, ", ...", 5);
}
