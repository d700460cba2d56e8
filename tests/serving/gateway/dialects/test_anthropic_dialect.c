/* SPDX-License-Identifier: Apache-2.0
 * Protects what clients of Anthropic's API see through the whole gateway: answers, streams, stop
 * sequences and errors in its own words.
 */
#include "serving/gateway/dialects/anthropic_dialect.h"

#include "base/check.h"
#include "speech.h"
#include "test_case.h"

#define MESSAGES "/v1/messages"
#define HI "\"max_tokens\":40,\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"

TEST(an_answer_is_a_message_of_blocks) {
    struct world *world = speech_open((struct gateway_options){0});
    uint32_t client = speech_ask(world, MESSAGES, "{" HI "}");
    speech_say(world, "Hm</think>\n\nHi!", false);
    speech_end(world, FINISH_STOP_TOKEN);
    expect(world, client, 200,
           "\"model\":\"tiny-r1\",\"content\":[{\"type\":\"thinking\",\"thinking\":\"Hm\","
           "\"signature\":\"\"},{\"type\":\"text\",\"text\":\"Hi!\"}],\"stop_reason\":"
           "\"end_turn\",\"stop_sequence\":null,\"usage\":{\"input_tokens\":");
    close_empty(world);
}

TEST(an_answer_is_streamed) {
    struct world *world = speech_open((struct gateway_options){0});
    uint32_t client = speech_ask(world, "/anthropic" MESSAGES, "{" HI ",\"stream\":true}");
    speech_say(world, "Hm</think>\n\nHi!", true);
    speech_end(world, FINISH_LENGTH);
    const char *stream = world->clients[client].data;
    static const char *const order[] = {
        "event: message_start\n",
        "{\"type\":\"thinking_delta\",\"thinking\":\"Hm\"}",
        "event: content_block_stop\n",
        "{\"type\":\"text_delta\",\"text\":\"Hi!\"}",
        "\"delta\":{\"stop_reason\":\"max_tokens\",\"stop_sequence\":null},\"usage\":",
        "event: message_stop\n"};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        stream = strstr(stream, order[i]);
        if (!stream) fail_msg("no %s in %s", order[i], world->clients[client].data);
    }
    assert_true(world->clients[client].ended);
    close_empty(world);
}

/* Clients look for these words, and then shorten the conversation. */
TEST(a_prompt_that_is_too_long_is_reported_in_the_apis_words) {
    static char body[(2 << 20) + 256], words[(2 << 20) + 1];
    struct world *world = speech_open((struct gateway_options){.body_bytes_max = 4 << 20});
    for (size_t i = 0; i < sizeof words - 1; i++)
        words[i] = "a7,b"[i % 4];
    (void)snprintf(body, sizeof body,
                   "{\"max_tokens\":4,\"messages\":[{\"role\":\"user\",\"content\":\"%s\"}]}",
                   words);
    uint32_t client = speech_ask(world, MESSAGES, body);
    world_settle(world);
    expect(world, client, 400,
           "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"prompt "
           "is too long: ");
    expect(world, client, 400, " tokens > 262143 maximum");
    close_empty(world);
}

TEST(a_stop_sequence_is_named) {
    struct world *world = speech_open((struct gateway_options){0});
    for (int stream = 0; stream < 2; stream++) {
        char body[256];
        (void)snprintf(body, sizeof body, "{" HI ",\"stop_sequences\":[\"zz\",\"END\"]%s}",
                       stream ? ",\"stream\":true" : "");
        uint32_t client = speech_ask(world, MESSAGES, body);
        speech_say(world, "Hm</think>\n\nHi END so", false);
        speech_end(world, FINISH_CANCELLED);
        expect(world, client, 200, "\"stop_reason\":\"stop_sequence\",\"stop_sequence\":\"END\"");
    }
    close_empty(world);
}

TEST(a_prompt_is_counted_and_not_answered) {
    struct world *world = speech_open((struct gateway_options){0});
    uint32_t submits = world->submits;
    uint32_t client = speech_ask(world, MESSAGES "/count_tokens",
                                 "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}");
    assert_int_equal(world->submits, submits);
    uint32_t same = speech_ask(world, MESSAGES, "{" HI "}");
    char expected[64];
    (void)snprintf(expected, sizeof expected, "{\"input_tokens\":%u}",
                   world->last_submit->prompt_count);
    speech_end(world, FINISH_LENGTH);
    assert_string_equal(world->clients[client].data, expected);
    assert_true(world->clients[same].ended);
    close_empty(world);
}

/* Too long to be tokenized here and now: the host does it, and the client is told then. */
TEST(a_long_prompt_is_counted_too) {
    struct world *world = speech_open((struct gateway_options){.inline_text_bytes = 16});
    uint32_t client =
        speech_ask(world, "/anthropic" MESSAGES "/count_tokens",
                   "{\"messages\":[{\"role\":\"user\",\"content\":\"one two three\"}]}");
    assert_int_equal(world->clients[client].http_status, 200);
    assert_true(world->last_tokenized.low != 0);
    assert_non_null(strstr(world->clients[client].data, "{\"input_tokens\":"));
    close_empty(world);
}

TEST(who_waits_is_sent_pings) {
    struct world *world = speech_open((struct gateway_options){0});
    uint32_t client = speech_ask(world, MESSAGES, "{" HI ",\"stream\":true}");
    world->now_ns += 10 * SECOND;
    world_settle(world);
    assert_string_equal(world->clients[client].data,
                        ": keep-alive\nevent: ping\ndata: {\"type\":\"ping\"}\n\n");
    speech_say(world, "x", true);
    speech_end(world, FINISH_STOP_TOKEN);
    assert_true(world->clients[client].ended);
    close_empty(world);
}

TEST(errors_come_in_anthropics_words) {
    struct world *world = speech_open((struct gateway_options){0});
    uint32_t client = speech_ask(world, MESSAGES, "{}");
    expect(world, client, 400,
           "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":"
           "\"'max_tokens' is missing.\"}}");
    client = speech_ask(world, MESSAGES, "{" HI ",\"model\":\"claude-opus-4-1\"}");
    expect(world, client, 404, "{\"type\":\"error\",\"error\":{\"type\":\"not_found_error\"");
    client = speech_ask(world, MESSAGES, "{" HI ",\"stream\":true}");
    speech_end(world, FINISH_FAILED); /* and is tried again, in vain */
    for (int i = 0; i < 8 && !world->clients[client].ended; i++) {
        world->now_ns += 40 * SECOND;
        world_settle(world);
        if (!world->clients[client].ended) speech_end(world, FINISH_FAILED);
    }
    assert_true(world->clients[client].ended);
    assert_non_null(strstr(world->clients[client].data,
                           "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\""));
    close_empty(world);
}

/* Claude Code's line changes with each request, and the prompt is the same all the same. */
TEST(a_billing_line_is_left_out_and_reported) {
    static const char *const systems[] = {
        "x-anthropic-billing-header: cc_version=2.1.120.cf9; cc_entrypoint=cli; cch=543cf;\\nBe.",
        "x-anthropic-billing-header: cc_version=2.1.120.cf9; cc_entrypoint=cli; cch=0aaa9;\\nBe.",
        "Be. Today is Monday."};
    struct world *world = speech_open((struct gateway_options){.agent_habits = true});
    uint32_t prompt_count[ARRAY_COUNT(systems)], client = 0;
    world->wants_receipts = true;
    for (size_t i = 0; i < ARRAY_COUNT(systems); i++) {
        char body[512];
        (void)snprintf(body, sizeof body, "{" HI ",\"system\":\"%s\"}", systems[i]);
        client = speech_ask(world, MESSAGES, body);
        prompt_count[i] = world->last_submit->prompt_count;
        speech_say(world, "Hm</think>\n\nHi!", false);
        speech_end(world, FINISH_STOP_TOKEN);
        const char *receipt = world->clients[client].receipt;
        bool has_line = i < 2, warned = strstr(world->clients[client].headers, "billing line");
        assert_true(!strstr(receipt, "\"left_out\":[\"billing_line\"]") == !has_line);
        assert_true(warned == has_line);
        assert_true(!strstr(receipt, "\"differs\":") == has_line);
    }
    assert_int_equal(prompt_count[0], prompt_count[1]);
    assert_non_null(strstr(world->clients[client].receipt, "\"differs\":\"message 1 (system)\""));
    close_empty(world);
}
