/* SPDX-License-Identifier: Apache-2.0
 * Clients that wait: a whole answer that is long in coming begins with blank lines, so that nobody
 * on the way takes the connection for dead, but not where a refusal may still want its status. And
 * nobody waits forever to begin.
 */

#include "base/tree.h"
#include "hands.h"
#include "test_case.h"

/* Time goes on, and everybody looks around. */
static void wait_until(struct world *world, int64_t now_ns) {
    for (; world->now_ns < now_ns; world->now_ns += SECOND / 2)
        world_settle(world);
    world->now_ns = now_ns;
    world_settle(world);
}

TEST(a_whole_answer_begins_with_blank_lines) {
    struct world *world = open_with(1, (struct gateway_options){0});
    uint32_t client = ask(world, "");
    struct request_id id = world->last_submit->request;
    wait_until(world, 5 * SECOND - 1);
    assert_false(world->clients[client].begun);
    wait_until(world, 16 * SECOND);
    assert_int_equal(world->clients[client].content_type, CONTENT_JSON);
    assert_string_equal(world->clients[client].data, "\n\n\n");
    report_tokens(world, 1, id, 0, ids, 2);
    wait_until(world, 21 * SECOND); /* tokens are not told yet */
    assert_string_equal(world->clients[client].data, "\n\n\n\n");
    report_tokens(world, 1, id, 2, ids + 2, 4);
    report_finished(world, 1, id, FINISH_LENGTH, 6);
    assert_ids(world, client, ids, 6);
    close_empty(world);
}

TEST(one_choice_s_end_stops_no_blank_lines) {
    struct world *world = open_with(1, (struct gateway_options){0});
    uint32_t client = ask(world, ",\"n\":2");
    struct request_id id = world->last_submit->request, first = id;
    first.low--;
    report_tokens(world, 1, first, 0, ids, 6);
    report_finished(world, 1, first, FINISH_LENGTH, 6);
    wait_until(world, 11 * SECOND);
    assert_string_equal(world->clients[client].data, "\n\n");
    report_tokens(world, 1, id, 0, ids, 6);
    report_finished(world, 1, id, FINISH_LENGTH, 6);
    assert_ids(world, client, ids, 6);
    close_empty(world);
}

/* Its status is 200 by then, so the body alone says what went wrong. */
TEST(a_failure_behind_blank_lines_is_the_body) {
    struct world *world = open_with(1, (struct gateway_options){0});
    uint32_t client = ask(world, "");
    wait_until(world, 6 * SECOND);
    assert_string_equal(world->clients[client].data, "\n");
    report_finished(world, 1, world->last_submit->request, FINISH_REFUSED_QUEUE, 0);
    assert_refused(world, client, 200, "queue_full");
    close_empty(world);
}

TEST(who_may_be_refused_hears_nothing_before) {
    struct world *world = open_empty((struct gateway_options){.unit_wait_ns = 12 * SECOND});
    uint32_t client = ask(world, "");
    wait_until(world, 11 * SECOND);
    assert_false(world->clients[client].begun); /* there is no unit */
    wait_until(world, 13 * SECOND);
    assert_refused(world, client, 503, "starting");
    join(world, 1);
    client = ask(world, ",\"return_receipt\":true"); /* which is a header of the answer */
    struct request_id id = world->last_submit->request;
    wait_until(world, 30 * SECOND);
    assert_false(world->clients[client].begun);
    report_tokens(world, 1, id, 0, ids, 6);
    report_finished(world, 1, id, FINISH_LENGTH, 6);
    assert_non_null(world->clients[client].receipt);
    close_empty(world);
}

static void assert_cut(struct world *world, uint32_t client, uint32_t choice) {
    const struct tree *choices = tree_member(read_body(world, client), "choices");
    const struct tree *ids_reported = tree_member(tree_at(choices, choice), "token_ids");
    struct bytes reason = {0};
    assert_int_equal(tree_count(ids_reported), 0);
    assert_true(tree_get_string(tree_member(tree_at(choices, choice), "finish_reason"), &reason));
    assert_true(bytes_equal(reason, BYTES_LITERAL("insufficient_system_resource")));
}

TEST(who_waits_too_long_to_begin_is_let_go) {
    struct world *world = open_with(1, (struct gateway_options){0});
    const struct machine *machine = &world->gateway_machine;
    uint32_t running = ask(world, "");
    struct request_id id = world->last_submit->request;
    report_load(world, 1, 100, 1); /* no more, please */
    uint32_t whole = ask(world, ""), stream = ask(world, ",\"stream\":true");
    assert_int_equal(world->submits, 1);
    wait_until(world, 600 * SECOND - 1);
    assert_false(world->clients[whole].ended || world->clients[stream].ended);
    assert_true(machine->next_wake_ns(machine->self) == 600 * SECOND);
    wait_until(world, 600 * SECOND);
    assert_cut(world, whole, 0);
    assert_int_equal(world->clients[whole].data[0], '\n');
    assert_true(world->clients[stream].ended);
    assert_non_null(strstr(world->clients[stream].data, "insufficient_system_resource"));
    wait_until(world, 700 * SECOND); /* who has begun may take its time */
    report_tokens(world, 1, id, 0, ids, 6);
    report_finished(world, 1, id, FINISH_LENGTH, 6);
    assert_ids(world, running, ids, 6);
    close_empty(world);
}

/* Of several answers some may have begun. */
TEST(each_answer_has_its_own_patience) {
    struct world *world = open_with(1, (struct gateway_options){.queue_ns = 50 * SECOND});
    uint32_t others = ask(world, ",\"n\":7"); /* the unit's queue has room for one more */
    uint32_t client = ask(world, ",\"n\":2");
    struct request_id first = world->last_submit->request;
    assert_int_equal(world->submits, 8);
    wait_until(world, 51 * SECOND);
    assert_false(world->clients[client].ended);
    report_tokens(world, 1, first, 0, ids, 6);
    report_finished(world, 1, first, FINISH_LENGTH, 6);
    assert_ids(world, client, ids, 6);
    assert_cut(world, client, 1);
    world_hang_up(world, others);
    lose(world, 1);
    close_empty(world);
}

/* ---- what a stream says of its wait ---- */

static void report_progress(struct world *world, uint32_t unit, struct request_id id,
                            uint32_t ready_tokens) {
    struct record_progress *record = make(RECORD_PROGRESS, NULL);
    record->request = id;
    record->ready_tokens = ready_tokens;
    report(world, unit, record);
}

static void assert_said(const struct world *world, uint32_t client, const char *text) {
    assert_string_equal(world->clients[client].data, text);
}

/* From the second second on, since a failure before wants its status. */
TEST(a_stream_reports_the_progress_of_its_prompt) {
    struct world *world = open_with(1, (struct gateway_options){0});
    uint32_t client = ask(world, ",\"stream\":true");
    struct request_id id = world->last_submit->request;
    report_progress(world, 1, id, 1);
    wait_until(world, 5 * SECOND - 1);
    assert_false(world->clients[client].begun);
    wait_until(world, 5 * SECOND);
    assert_said(world, client, ": prompt 1 of 3\n\n");
    report_progress(world, 1, id, 2); /* at once */
    assert_said(world, client, ": prompt 1 of 3\n\n: prompt 2 of 3\n\n");
    wait_until(world, 10 * SECOND);
    report_tokens(world, 1, id, 0, ids, 1);
    wait_until(world, 20 * SECOND);
    report_progress(world, 1, id, 1); /* the stream is under way */
    report_tokens(world, 1, id, 1, ids + 1, 5);
    report_finished(world, 1, id, FINISH_LENGTH, 6);
    assert_true(read_events(world, client) > 0);
    assert_int_equal(keep_alives, 3);
    close_empty(world);
}

/* llama.cpp's return_progress: a chunk at once, and no comment. */
TEST(who_asks_gets_progress_in_chunks) {
    struct world *world = open_with(1, (struct gateway_options){0});
    uint32_t client = ask(world, ",\"stream\":true,\"return_progress\":true");
    struct request_id id = world->last_submit->request;
    struct record_progress *record = make(RECORD_PROGRESS, NULL);
    record->request = id;
    record->ready_tokens = 2;
    record->cached_tokens = 1;
    record->prefill_ns = 1234567890;
    report(world, 1, record);
    report_tokens(world, 1, id, 0, ids, 6);
    report_finished(world, 1, id, FINISH_LENGTH, 6);
    assert_true(read_events(world, client) > 1);
    assert_text_at(events[0], "choices.0.text", "");
    assert_null_at(events[0], "choices.0.finish_reason");
    assert_number_at(events[0], "prompt_progress.total", 3);
    assert_number_at(events[0], "prompt_progress.cache", 1);
    assert_number_at(events[0], "prompt_progress.processed", 2);
    assert_number_at(events[0], "prompt_progress.time_ms", 1234);
    assert_null(tree_path(events[1], "prompt_progress"));
    close_empty(world);
}

TEST(a_whole_answer_reports_no_progress) {
    struct world *world = open_with(1, (struct gateway_options){0});
    uint32_t client = ask(world, "");
    struct request_id id = world->last_submit->request;
    wait_until(world, 5 * SECOND);
    report_progress(world, 1, id, 2);
    wait_until(world, 6 * SECOND);
    assert_said(world, client, "\n");
    report_tokens(world, 1, id, 0, ids, 6);
    report_finished(world, 1, id, FINISH_LENGTH, 6);
    assert_ids(world, client, ids, 6);
    close_empty(world);
}

TEST(a_stream_reports_its_place_in_the_queue) {
    struct world *world = open_with(1, (struct gateway_options){0});
    uint32_t running = ask(world, "");
    struct request_id id = world->last_submit->request;
    report_load(world, 1, 100, 1); /* no more, please */
    uint32_t first = ask(world, ",\"stream\":true"), whole = ask(world, ",\"n\":2");
    uint32_t last = ask(world, ",\"stream\":true");
    wait_until(world, 5 * SECOND);
    assert_said(world, first, ": waiting, 0 ahead\n\n");
    assert_said(world, last, ": waiting, 3 ahead\n\n");
    world_hang_up(world, whole);
    wait_until(world, 10 * SECOND);
    assert_said(world, last, ": waiting, 3 ahead\n\n: waiting, 1 ahead\n\n");
    world_hang_up(world, first);
    world_hang_up(world, last);
    report_tokens(world, 1, id, 0, ids, 6);
    report_finished(world, 1, id, FINISH_LENGTH, 6);
    assert_ids(world, running, ids, 6);
    close_empty(world);
}

/* A unit that claims more than there is, or speaks of what it does not have. */
TEST(only_possible_progress_is_believed) {
    struct world *world = open_with(2, (struct gateway_options){0});
    uint32_t client = ask(world, ",\"stream\":true");
    struct request_id id = world->last_submit->request;
    uint32_t unit = world->submits_to[1] ? 1 : 2;
    report_progress(world, 3 - unit, id, 2);
    wait_until(world, 5 * SECOND);
    assert_said(world, client, ": keep-alive\n\n");
    report_progress(world, unit, id, 3); /* it is expelled, and the other one begins anew */
    id = world->last_submit->request;
    assert_int_equal(world->submits, 2);
    wait_until(world, 10 * SECOND);
    assert_said(world, client, ": keep-alive\n\n: keep-alive\n\n");
    report_tokens(world, 3 - unit, id, 0, ids, 6);
    report_finished(world, 3 - unit, id, FINISH_LENGTH, 6);
    assert_int_equal(read_events(world, client) > 0, 1);
    close_empty(world);
}

/* A unit fails again and again in mid-answer: each pause is short, all together are long. */
TEST(failures_in_a_row_are_no_silence) {
    struct world *world = open_with(1, (struct gateway_options){0});
    uint32_t client = ask(world, ",\"stream\":true");
    report_tokens(world, 1, world->last_submit->request, 0, ids, 1);
    for (uint32_t i = 0; i < 3; i++) {
        report_finished(world, 1, world->last_submit->request, FINISH_FAILED, 1);
        uint32_t submits = world->submits;
        while (world->submits == submits)
            wait_until(world, world->now_ns + SECOND / 2);
        wait_until(world, world->now_ns + 2 * SECOND);
    }
    assert_non_null(strstr(world->clients[client].data, ": keep-alive\n\n"));
    report_tokens(world, 1, world->last_submit->request, 1, ids + 1, 5);
    report_finished(world, 1, world->last_submit->request, FINISH_LENGTH, 6);
    assert_true(read_events(world, client) > 0 && keep_alives > 0);
    close_empty(world);
}

/* ---- what is told in front ---- */

TEST(names_that_nobody_knows_are_reported_in_front) {
    struct world *world = open_with(1, (struct gateway_options){0});
    uint32_t client = ask(world, ",\"top_kk\":1");
    wait_until(world, 6 * SECOND);
    assert_true(world->clients[client].begun);
    assert_string_equal(world->clients[client].headers,
                        "X-Fathom-Warning: unknown fields: top_kk\r\n");
    report_tokens(world, 1, world->last_submit->request, 0, ids, 6);
    report_finished(world, 1, world->last_submit->request, FINISH_LENGTH, 6);
    assert_ids(world, client, ids, 6);
    close_empty(world);
}
