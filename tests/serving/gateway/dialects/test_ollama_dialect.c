/* SPDX-License-Identifier: Apache-2.0
 * Protects what clients of Ollama's API see through the whole gateway: answers, streams, calls and
 * errors in its own words.
 */
#include "serving/gateway/dialects/ollama_dialect.h"

#include "speech.h"
#include "test_case.h"

#define HI "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"

TEST(an_answer_is_a_message) {
    struct world *world = speech_open((struct gateway_options){0});
    uint32_t client = speech_ask(world, "/api/chat", "{" HI ",\"stream\":false}");
    speech_say(world, "Hm</think>\n\nHi!", false);
    speech_end(world, FINISH_STOP_TOKEN);
    expect(world, client, 200,
           "\"message\":{\"role\":\"assistant\",\"content\":\"Hi!\",\"thinking\":\"Hm\"},"
           "\"done\":true,\"done_reason\":\"stop\",");
    assert_int_equal(world->clients[client].content_type, CONTENT_JSON);
    close_empty(world);
}

TEST(an_answer_is_streamed_as_lines) {
    struct world *world = speech_open((struct gateway_options){0});
    uint32_t client = speech_ask(world, "/api/generate/", "{\"prompt\":\"hi\"}");
    speech_say(world, "Hm</think>\n\nHi!", true);
    speech_end(world, FINISH_LENGTH);
    const char *stream = world->clients[client].data;
    static const char *const order[] = {
        "\"response\":\"\",\"thinking\":\"Hm\",\"done\":false}\n{\"model\":\"",
        "\"response\":\"Hi!\",\"done\":false}\n{\"model\":\"",
        "\"response\":\"\",\"done\":true,\"done_reason\":\"length\",\"total_duration\":"};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        stream = strstr(stream, order[i]);
        if (!stream) fail_msg("no %s in %s", order[i], world->clients[client].data);
    }
    assert_int_equal(world->clients[client].content_type, CONTENT_LINES);
    assert_string_equal(strchr(stream, '\n'), "\n");
    close_empty(world);
}

TEST(a_request_that_loads_the_model_is_answered_at_once) {
    struct world *world = speech_open((struct gateway_options){0});
    uint32_t submits = world->submits;
    uint32_t client = speech_ask(world, "/api/chat", "{\"messages\":[]}");
    world_settle(world);
    expect(world, client, 200,
           "{\"message\":{\"role\":\"assistant\",\"content\":\"\"},\"done\":true,"
           "\"done_reason\":\"load\"}");
    client = speech_ask(world, "/api/generate", "{\"prompt\":\"\"}");
    world_settle(world);
    expect(world, client, 200, "{\"response\":\"\",\"done\":true,\"done_reason\":\"load\"}");
    assert_int_equal(world->submits, submits);
    close_empty(world);
}

TEST(refusals_are_texts_with_statuses_that_clients_know) {
    struct world *world = speech_open((struct gateway_options){0});
    uint32_t client = speech_ask(world, "/api/chat", "{" HI ",\"options\":{\"temperature\":9}}");
    world_settle(world);
    expect(world, client, 400, "{\"error\":\"'temperature' is 9, must be between 0 and 2.\"}");
    close_empty(world);
}
