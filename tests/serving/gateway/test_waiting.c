/* SPDX-License-Identifier: Apache-2.0
 * Clients that wait: a whole answer that is long in coming begins with blank lines, so that nobody
 * on the way takes the connection for dead, but not where a refusal may still want its status.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/tree.h"
#include "hands.h"

/* Time goes on, and everybody looks around. */
static void wait_until(struct world *world, int64_t now_ns) {
    for (; world->now_ns < now_ns; world->now_ns += SECOND / 2)
        world_settle(world);
    world->now_ns = now_ns;
    world_settle(world);
}

static void a_whole_answer_begins_with_blank_lines(void **state) {
    (void)state;
    struct world *world = open_with(1, (struct gateway_options){0});
    uint32_t client = ask(world, "");
    struct request_id id = world->last_submit->request;
    wait_until(world, 5 * SECOND - 1);
    assert_false(world->clients[client].begun);
    wait_until(world, 16 * SECOND);
    assert_int_equal(world->clients[client].content_type, CONTENT_JSON);
    assert_string_equal(world->clients[client].data, "\n\n\n");
    tell_tokens(world, 1, id, 0, ids, 2);
    wait_until(world, 21 * SECOND); /* tokens are not told yet */
    assert_string_equal(world->clients[client].data, "\n\n\n\n");
    tell_tokens(world, 1, id, 2, ids + 2, 4);
    tell_finished(world, 1, id, FINISH_LENGTH, 6);
    assert_ids(world, client, ids, 6);
    close_empty(world);
}

static void one_choice_s_end_stops_no_blank_lines(void **state) {
    (void)state;
    struct world *world = open_with(1, (struct gateway_options){0});
    uint32_t client = ask(world, ",\"n\":2");
    struct request_id id = world->last_submit->request, first = id;
    first.low--;
    tell_tokens(world, 1, first, 0, ids, 6);
    tell_finished(world, 1, first, FINISH_LENGTH, 6);
    wait_until(world, 11 * SECOND);
    assert_string_equal(world->clients[client].data, "\n\n");
    tell_tokens(world, 1, id, 0, ids, 6);
    tell_finished(world, 1, id, FINISH_LENGTH, 6);
    assert_ids(world, client, ids, 6);
    close_empty(world);
}

/* Its status is 200 by then, so the body alone says what went wrong. */
static void a_failure_behind_blank_lines_is_the_body(void **state) {
    (void)state;
    struct world *world = open_with(1, (struct gateway_options){0});
    uint32_t client = ask(world, "");
    wait_until(world, 6 * SECOND);
    assert_string_equal(world->clients[client].data, "\n");
    tell_finished(world, 1, world->last_submit->request, FINISH_REFUSED_QUEUE, 0);
    assert_refused(world, client, 200, "queue_full");
    close_empty(world);
}

static void who_may_be_refused_hears_nothing_before(void **state) {
    (void)state;
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
    tell_tokens(world, 1, id, 0, ids, 6);
    tell_finished(world, 1, id, FINISH_LENGTH, 6);
    assert_non_null(world->clients[client].receipt);
    close_empty(world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_answer_begins_with_blank_lines),
        cmocka_unit_test(one_choice_s_end_stops_no_blank_lines),
        cmocka_unit_test(a_failure_behind_blank_lines_is_the_body),
        cmocka_unit_test(who_may_be_refused_hears_nothing_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
