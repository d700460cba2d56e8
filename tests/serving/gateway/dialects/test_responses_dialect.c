/* SPDX-License-Identifier: Apache-2.0
 * Protects what clients of OpenAI's Responses API see through the whole gateway: answers, streams
 * that repeat what they said, and what does not fit any more.
 */
#include "serving/gateway/dialects/responses_dialect.h"

#include "speech.h"
#include "test_case.h"

#define RESPONSES "/v1/responses"
#define HI "\"input\":\"hi\""

TEST(an_answer_is_a_response_of_items) {
    struct world *world = speech_open((struct gateway_options){0});
    uint32_t client = speech_ask(world, RESPONSES, "{" HI ",\"instructions\":\"be brief\"}");
    speech_say(world, "Hm</think>\n\nHi!", false);
    speech_end(world, FINISH_STOP_TOKEN);
    expect(world, client, 200,
           "\"object\":\"response\",\"created_at\":1700000001,\"status\":"
           "\"completed\",\"error\":null,\"incomplete_details\":null,"
           "\"model\":\"tiny-r1\",\"instructions\":\"be brief\",");
    expect(world, client, 200, "[{\"type\":\"reasoning_text\",\"text\":\"Hm\"}]");
    expect(world, client, 200, "\"text\":\"Hi!\",\"annotations\":[],\"logprobs\":[]}]}],");
    close_empty(world);
}

/* One token a step, or all in one: the last event has the whole answer. */
TEST(a_stream_repeats_what_it_said) {
    struct world *world = speech_open((struct gateway_options){0});
    for (int at_once = 0; at_once < 2; at_once++) {
        uint32_t client =
            speech_ask(world, RESPONSES,
                       "{" HI ",\"stream\":true,\"include\":[\"reasoning.encrypted_content\"]}");
        speech_say(world, "Hm so</think>\n\nHi \xF0\x9F\x98\x80!", at_once);
        speech_end(world, FINISH_LENGTH);
        const char *stream = world->clients[client].data;
        static const char *const order[] = {
            "event: response.created\n",
            "event: response.in_progress\n",
            "event: response.output_item.added\n",
            "event: response.reasoning_text.delta\n",
            "event: response.reasoning_text.done\n",
            "\"text\":\"Hm so\"}\n\n",
            "event: response.output_item.done\n",
            "event: response.output_text.delta\n",
            "event: response.output_text.done\n",
            "\"text\":\"Hi \xF0\x9F\x98\x80!\",\"logprobs\":[]}\n\n",
            "event: response.output_item.done\n",
            "event: response.incomplete\n",
            "[{\"type\":\"reasoning_text\",\"text\":\"Hm so\"}]",
            "\"text\":\"Hi \xF0\x9F\x98\x80!\",\"annotations\":[]",
        };
        for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
            stream = strstr(stream, order[i]);
            if (!stream) fail_msg("no %s in %s", order[i], world->clients[client].data);
        }
        assert_null(strstr(stream, "[DONE]"));
        assert_true(world->clients[client].ended);
    }
    close_empty(world);
}

/* An answer that cannot be repeated any more is cut before it cannot be told. */
TEST(an_answer_that_outgrows_its_memory_fails) {
    static char body[1 << 18], words[4001];
    struct world *world =
        speech_open((struct gateway_options){.outbox_bytes = 1 << 20, .body_bytes_max = 1 << 18});
    strcpy(body, "{" HI ",\"stream\":true,\"instructions\":\"");
    size_t count = strlen(body);
    memset(body + count, 'i', 150000);
    strcpy(body + count + 150000, "\"}");
    for (size_t i = 0; i < sizeof words - 1; i++)
        words[i] = "a \n\"b"[i % 5];
    uint32_t client = speech_ask(world, RESPONSES, body), cancels = world->cancels;
    if (world->clients[client].ended) fail_msg("%s", world->clients[client].data);
    speech_say(world, "Hm</think>", true);
    for (int i = 0; i < 100 && world->cancels == cancels; i++)
        speech_say(world, words, true);
    assert_int_equal(world->cancels, cancels + 1);
    speech_end(world, FINISH_CANCELLED);
    const char *stream = world->clients[client].data, *last = NULL;
    for (const char *at = stream; (at = strstr(at, "event: ")); at++)
        last = at;
    assert_true(strncmp(last, "event: response.failed\n", 23) == 0);
    assert_non_null(strstr(last, "\"output\":[{\"id\":\"rs_"));
    assert_true(world->clients[client].ended);
    close_empty(world);
}

/* Sealed reasoning is told twice in its item and twice in the response, so it is cut earlier. */
TEST(sealed_reasoning_that_outgrows_its_memory_fails) {
    static char words[4001];
    memset(words, '"', sizeof words - 1);
    for (int streams = 0; streams < 2; streams++) {
        struct world *world = speech_open(
            (struct gateway_options){.outbox_bytes = 1 << 20, .body_bytes_max = 1 << 18});
        uint32_t client = speech_ask(world, RESPONSES,
                                     streams ? "{" HI ",\"stream\":true,\"include\":["
                                               "\"reasoning.encrypted_content\"]}"
                                             : "{" HI ",\"include\":["
                                               "\"reasoning.encrypted_content\"]}");
        uint32_t cancels = world->cancels;
        if (world->clients[client].ended) fail_msg("%s", world->clients[client].data);
        for (int i = 0; i < 200 && world->cancels == cancels; i++)
            speech_say(world, words, true);
        assert_int_equal(world->cancels, cancels + 1);
        speech_end(world, FINISH_CANCELLED);
        const char *reported = world->clients[client].data;
        assert_true(world->clients[client].ended);
        assert_non_null(strstr(reported, "\"status\":\"failed\""));
        assert_non_null(strstr(reported, "\"encrypted_content\":\"fathom.reasoning.1:\\\"\\\""));
        close_empty(world);
    }
}

TEST(errors_come_in_openais_words) {
    struct world *world = speech_open((struct gateway_options){0});
    uint32_t client = speech_ask(world, RESPONSES, "{" HI ",\"store\":true}");
    expect(world, client, 400, "\"param\":\"store\",\"code\":\"unsupported_parameter\"}}");
    close_empty(world);
}
