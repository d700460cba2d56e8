/* SPDX-License-Identifier: Apache-2.0
 * Protects who starts a unit over hosts that do not reach each other: a place where somebody
 * listens is reached, any other is not, and each is told of once.
 */
#include <errno.h>
#include <event2/event.h>

#include "host/process/agent/agent_facts.h"
#include "host/process/agent/agent_reach.h"
#include "test_case.h"

static struct event_base *base;
static struct agent_reached reported[4];
static uint32_t reported_count;

static void on_tried(void *context, const struct agent_reached *reached) {
    (void)context;
    reported[reported_count++] = *reached;
}

static struct agent_reach *open_one(void) {
    const struct agent_reach_options options = {.base = base, .tried = on_tried};
    struct agent_reach *reach = agent_reach_open(&options);
    assert_non_null(reach);
    return reach;
}

static struct agent_place place_of(uint32_t host, const char *address, uint32_t port) {
    struct agent_place place = {.host = host, .port = port, .round = 7};
    strcpy(place.address, address);
    return place;
}

static int begin(void **state) {
    (void)state;
    reported_count = 0;
    base = event_base_new();
    return base == NULL;
}

static int end(void **state) {
    (void)state;
    event_base_free(base);
    return 0;
}

TEST_AROUND(a_place_where_somebody_listens_is_reached, begin, end) {
    struct agent_reach *one = open_one(), *other = open_one();
    uint32_t port = agent_reach_listen(one, "127.0.0.1");
    assert_true(port > 0);
    assert_int_equal(agent_reach_listen(one, "127.0.0.1"), port);
    struct agent_place place = place_of(3, "127.0.0.1", port);
    for (int i = 0; i < 2; i++)
        agent_reach_try(other, &place);
    while (reported_count < 2)
        event_base_loop(base, EVLOOP_ONCE);
    assert_int_equal(reported[0].error, 0);
    assert_int_equal(reported[1].error, 0);
    assert_true(reported[0].host == 3 && reported[0].round == 7);
    agent_reach_close(one);
    agent_reach_close(other);
}

TEST_AROUND(a_place_where_nobody_listens_is_not, begin, end) {
    struct agent_reach *one = open_one();
    struct agent_place closed = place_of(1, "127.0.0.1", agent_facts_find_port());
    struct agent_place none = place_of(2, "nowhere", 1);
    agent_reach_try(one, &closed);
    agent_reach_try(one, &none);
    assert_int_equal(reported_count, 0); /* from the loop alone */
    while (reported_count < 2)
        event_base_loop(base, EVLOOP_ONCE);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(reported[i].error, reported[i].host == 1 ? ECONNREFUSED : EADDRNOTAVAIL);
    agent_reach_close(one);
}

TEST_AROUND(attempts_end_with_their_owner, begin, end) {
    struct agent_reach *one = open_one();
    struct agent_place place = place_of(1, "127.0.0.1", agent_reach_listen(one, "127.0.0.1"));
    agent_reach_try(one, &place);
    agent_reach_close(one);
    event_base_loop(base, EVLOOP_NONBLOCK);
    assert_int_equal(reported_count, 0);
}
