/* SPDX-License-Identifier: Apache-2.0
 * Nobody is let into a queue that is longer than its class may wait, and who is sent away is told
 * when to come again, by a clock that is right: what the fleet was seen to do. Without a limit
 * nobody is sent away.
 */
#include "serving/gateway/admission.h"

#include "askers.h"
#include "hands.h"
#include "test_case.h"

#define LIMIT (20 * SECOND)

/* A unit that has one request at a time, for a second. */
static struct request_id at_unit[WORLD_CLIENTS_MAX];
static uint32_t first_at_unit, at_unit_count, submits_seen;

static void look(struct world *world) {
    if (world->submits != submits_seen) at_unit[at_unit_count++] = world->last_submit->request;
    submits_seen = world->submits;
}

static uint32_t ask_one(struct world *world) {
    uint32_t client = ask(world, "");
    look(world);
    return client;
}

/* A second goes by; the client that was answered, or UINT32_MAX. */
static uint32_t serve_one(struct world *world) {
    world->now_ns += SECOND;
    world_settle(world);
    look(world);
    if (first_at_unit == at_unit_count) return UINT32_MAX;
    struct request_id id = at_unit[first_at_unit++];
    report_tokens(world, 1, id, 0, ids, 6);
    look(world);
    report_finished(world, 1, id, FINISH_LENGTH, 6);
    look(world);
    report_load(world, 1, 0, 0);
    look(world);
    return (uint32_t)(id.high - 0x1000);
}

/* It has been seen at work. */
static struct world *open_known(struct gateway_options options) {
    first_at_unit = at_unit_count = submits_seen = 0;
    options.requests_max = 500;
    options.ttft_limit_ns = LIMIT;
    struct world *world = open_with(1, options);
    for (uint32_t i = 0; i < 30; i++) {
        ask_one(world);
        serve_one(world);
    }
    return world;
}

static void serve_all(struct world *world) {
    while (serve_one(world) != UINT32_MAX)
        ;
    close_empty(world);
}

TEST(a_queue_grows_to_its_limit) {
    struct world *world = open_known((struct gateway_options){0});
    uint32_t taken = 0;
    for (uint32_t i = 0; i < 100; i++) {
        uint32_t client = ask_one(world);
        taken += !world->clients[client].ended;
        if (world->clients[client].ended) assert_refused(world, client, 503, "overloaded");
    }
    assert_true(taken >= 16 && taken <= 25); /* of a second each, in 20 s */
    serve_all(world);
}

TEST(what_is_predicted_comes_about) {
    struct world *world = open_known((struct gateway_options){.queue_ns = 1000 * SECOND});
    uint32_t clients[100], count = 0;
    for (; count < 100; count++) {
        clients[count] = ask_one(world);
        if (world->clients[clients[count]].ended) break;
    }
    /* The last that was taken waits for as long as may be, or a little less. */
    int64_t asked_ns = world->now_ns;
    while (serve_one(world) != clients[count - 1])
        ;
    assert_true(world->now_ns - asked_ns > LIMIT * 3 / 4);
    assert_true(world->now_ns - asked_ns < LIMIT * 5 / 4);
    serve_all(world);
}

static struct record_accounts *make_classes(void) {
    static const struct asker askers[] = {{.name = "high", .key = "h", .salt = 1},
                                          {.name = "low", .key = "l", .salt = 2},
                                          {.name = "usual", .key = "u", .salt = 3}};
    struct record_accounts *record = make_accounts(askers, 3);
    accounts_named(record)[0].priority = ACCOUNT_HIGH;
    accounts_named(record)[1].priority = ACCOUNT_LOW;
    return record;
}

static uint32_t ask_as(struct world *world, const char *authorization) {
    world->authorization = authorization;
    uint32_t client = ask_one(world);
    world->authorization = NULL;
    return client;
}

static struct world *open_classes(void) {
    struct gateway_options options = {.accounts = make_classes(), .queue_ns = 1000 * SECOND};
    first_at_unit = at_unit_count = submits_seen = 0;
    options.requests_max = 500;
    options.ttft_limit_ns = LIMIT;
    struct world *world = open_with(1, options);
    for (uint32_t i = 0; i < 30; i++) {
        ask_as(world, "Bearer u");
        serve_one(world);
    }
    return world;
}

static uint32_t flood(struct world *world, const char *authorization) {
    uint32_t taken = 0;
    for (uint32_t i = 0; i < 100; i++)
        taken += !world->clients[ask_as(world, authorization)].ended;
    return taken;
}

TEST(who_comes_again_when_reported_is_taken) {
    struct world *world = open_classes();
    assert_true(flood(world, "Bearer h") > 32);  /* twice the limit */
    uint32_t client = ask_as(world, "Bearer l"); /* who may wait for half of it */
    assert_refused(world, client, 503, "overloaded");
    int64_t retry_s = world->clients[client].retry_after_seconds, waited_s = 0;
    assert_true(retry_s > 20);
    for (; world->clients[client].ended; client = ask_as(world, "Bearer l"), waited_s++)
        serve_one(world);
    print_message("# told to come again in %lld s, taken after %lld s\n", (long long)retry_s,
                  (long long)waited_s);
    assert_true(waited_s * 4 >= retry_s * 3 && waited_s * 4 <= retry_s * 5);
    serve_all(world);
}

/* The others' requests still find a short wait. */
TEST(who_floods_is_reported_that_it_is_its_own_doing) {
    struct world *world = open_classes();
    uint32_t usual = ask_as(world, "Bearer u"), other = ask_as(world, "Bearer h");
    for (uint32_t i = 0; i < 10; i++)
        ask_as(world, "Bearer h");
    flood(world, "Bearer u");
    assert_false(world->clients[usual].ended || world->clients[other].ended);
    assert_refused(world, ask_as(world, "Bearer u"), 429, "rate_limit_exceeded");
    assert_false(world->clients[ask_as(world, "Bearer h")].ended);
    serve_all(world);
}
