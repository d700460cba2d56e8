/* SPDX-License-Identifier: Apache-2.0
 * Protects the gateway as a whole: metrics add up, it says when it has no unit or ends, and
 * failures of units and clients that leave end requests in order.
 */
#include "serving/gateway/gateway.h"

#include "base/check.h"
#include "base/format.h"
#include "dialects/speech.h"
#include "test_case.h"

#define HI "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"
#define CHAT "/v1/chat/completions"

/* The unit fails the request as often as it is tried. */
static void fail_always(struct world *world) {
    for (uint32_t submits = 0; submits != world->submits;) {
        submits = world->submits;
        speech_end(world, FINISH_FAILED);
        world->now_ns += 5000000000;
        world_settle(world);
    }
}

TEST(metrics_add_up) {
    struct world *world = world_open(&(struct world_options){0});
    speech_ask(world, CHAT, "{" HI ",\"max_tokens\":5,\"ignore_eos\":true}");
    speech_ask(world, CHAT, "{");
    world->now_ns += 1500000000;
    uint32_t client = world_get(world, "/metrics");
    world_settle(world);
    assert_int_equal(world->clients[client].content_type, CONTENT_METRICS);
    static const char *const lines[] = {
        "fathom_http_requests_total{endpoint=\"chat_completions\",status=\"200\"} 1\n",
        "fathom_http_requests_total{endpoint=\"chat_completions\",status=\"400\"} 1\n",
        "fathom_requests_ended_total{reason=\"length\"} 1\n",
        "fathom_output_tokens_total 5\n",
        "fathom_step_output_tokens_total 5\n",
        "fathom_drafts_total 0\n",
        "fathom_drafts_accepted_total 0\n",
        "fathom_requests_held 0\n",
        "fathom_kv_pages{state=\"free\"} 64\n",
        "fathom_kv_pages{state=\"held\"} 0\n",
        "fathom_kv_pages{state=\"cached\"} 0\n",
        "fathom_kv_pages_capacity 64\n",
        "fathom_uptime_seconds 1.500000\n",
        "fathom_info{model=\"tiny-r1\",version=\"0.1.0\",numerics=\"test.v1\"} 1\n",
    };
    for (size_t i = 0; i < ARRAY_COUNT(lines); i++)
        if (!strstr(world->clients[client].data, lines[i]))
            fail_msg("no %s in %s", lines[i], world->clients[client].data);
    world_close(world);
}

TEST(a_gateway_without_a_unit_says_so) {
    struct world *world = world_open(&(struct world_options){.no_unit = true});
    uint32_t client = world_get(world, "/health");
    world_settle(world);
    assert_int_equal(world->clients[client].http_status, 503);
    assert_string_equal(world->clients[client].data, "{\"status\":\"starting\"}");
    client = world_get(world, "/live");
    world_settle(world);
    assert_int_equal(world->clients[client].http_status, 200);
    world_close(world);
}

TEST(a_draining_gateway_finishes_what_runs) {
    struct world *world = speech_open_small((struct gateway_options){0});
    uint32_t runs = speech_ask(world, CHAT, "{" HI "}");
    world_drain(world);
    assert_refused(world, speech_ask(world, CHAT, "{" HI "}"), 503, "draining");
    uint32_t health = world_get(world, "/health");
    world_settle(world);
    assert_string_equal(world->clients[health].data, "{\"status\":\"draining\"}");
    uint32_t live = world_get(world, "/live");
    world_settle(world);
    assert_int_equal(world->clients[live].http_status, 200);
    speech_say(world, "a</think>b", false);
    speech_end(world, FINISH_STOP_TOKEN);
    assert_int_equal(world->clients[runs].http_status, 200);
    assert_int_equal(gateway_request_count(world->gateway), 0);
    world_close(world);
}

TEST(a_failed_engine_is_reported_apart) {
    struct world *world = speech_open_small((struct gateway_options){0});
    uint32_t early = speech_ask(world, COMPLETIONS, "{\"prompt\":\"a\"}");
    fail_always(world);
    assert_int_equal(world->submits, 4);
    assert_refused(world, early, 503, "engine_failed");
    uint32_t late = speech_ask(world, COMPLETIONS, "{\"prompt\":\"a\"}");
    speech_say(world, "some", true);
    fail_always(world);
    assert_text_at(read_body(world, late), "choices.0.text", "some");
    assert_text_at(read_body(world, late), "choices.0.finish_reason",
                   "insufficient_system_resource");
    world_close(world);
}

TEST(clients_that_leave_are_cancelled) {
    struct world *world = speech_open_small((struct gateway_options){0});
    uint32_t client = speech_ask(world, CHAT, "{" HI ",\"stream\":true}");
    speech_say(world, "Hm", true);
    size_t count = world->clients[client].count;
    world_hang_up(world, client);
    world_settle(world);
    assert_int_equal(world->cancels, 1);
    speech_say(world, "late", true);
    speech_end(world, FINISH_CANCELLED);
    assert_int_equal(world->clients[client].count, count);
    assert_int_equal(gateway_request_count(world->gateway), 0);
    world_hang_up(world, client); /* nobody there any more */
    world_settle(world);
    world_close(world);
}

TEST(waiting_streams_are_kept_alive) {
    struct world *world = speech_open_small((struct gateway_options){.keep_alive_ns = 1000});
    const struct machine *machine = &world->gateway_machine;
    uint32_t client = speech_ask(world, CHAT, "{" HI ",\"stream\":true}");
    assert_int_equal(machine->next_wake_ns(machine->self), 1000);
    for (world->now_ns = 999; world->now_ns < 2500; world->now_ns += 500)
        world_settle(world);
    speech_say(world, "Hm", true);
    assert_true(machine->next_wake_ns(machine->self) == MACHINE_NEVER);
    speech_end(world, FINISH_STOP_TOKEN);
    assert_int_equal(read_events(world, client), 3);
    assert_int_equal(keep_alives, 2);

    client = speech_ask(world, CHAT,
                        "{" HI ",\"stream\":true}"); /* goes before its unit says anything */
    world_hang_up(world, client);
    world_settle(world);
    assert_true(machine->next_wake_ns(machine->self) == MACHINE_NEVER);
    world->now_ns += 2000;
    world_settle(world);
    speech_end(world, FINISH_CANCELLED);

    client = speech_ask(world, CHAT, "{" HI ",\"stream\":true}"); /* refused after it has begun */
    world->now_ns += 2000;
    world_settle(world);
    speech_end(world, FINISH_REFUSED_QUEUE);
    assert_int_equal(read_events(world, client), 1);
    assert_text_at(events[0], "error.code", "queue_full");
    world_close(world);
}
