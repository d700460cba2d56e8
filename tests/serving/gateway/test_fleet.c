/* SPDX-License-Identifier: Apache-2.0
 * The gateway among several units, which the tests play by hand: requests wait for a unit, units
 * are drained and come back, and those of another model, or that lie, are kept out. What becomes of
 * requests whose unit is lost is in test_resume.c. The random lives of whole fleets are in
 * tests/simulate.
 */

#include "base/tree.h"
#include "hands.h"
#include "serving/policy/balance/balance_units.h"
#include "test_case.h"

static double metric_of(struct world *world, const char *name) {
    uint32_t client = world_get(world, "/metrics");
    world_settle(world);
    const char *at = strstr(world->clients[client].data, name);
    if (!at) fail_msg("no %s", name);
    return strtod(at + strlen(name), NULL);
}

static void join_ranks(struct world *world, uint32_t unit, uint32_t ranks) {
    struct record_unit_hello *hello =
        make(RECORD_UNIT_HELLO, &(struct record_unit_hello){.rank_count = ranks});
    hello->vocab_count = 500;
    hello->context_tokens_max = 2048;
    hello->page_count = 100 * ranks;
    hello->page_tokens = KV_BLOCK_TOKENS;
    hello->requests_max = 40 * ranks;
    hello->rank_count = ranks;
    for (uint32_t rank = 0; rank < ranks; rank++)
        hello_ranks(hello)[rank] = (struct unit_rank){.page_count = 100, .requests_max = 40};
    strcpy(hello->numerics_id, "test.v1");
    world_join(world, unit);
    report(world, unit, hello);
}

/* ---- who serves ---- */

TEST(a_draining_unit_finishes_what_it_has) {
    struct world *world = open_with(2, (struct gateway_options){0});
    uint32_t client = ask(world, "");
    struct request_id running = world->last_submit->request;
    assert_int_equal(world->last_unit.value, 1);
    uint32_t drain = world_post(world, "/debug/fleet/drain", "{\"unit\":1}");
    world_settle(world);
    assert_int_equal(world->clients[drain].http_status, 200);
    assert_int_equal(world->drains, 1);
    for (uint32_t i = 0; i < 5; i++) {
        ask(world, "");
        assert_int_equal(world->last_unit.value, 2);
    }
    report_finished(world, 2, world->last_submit->request, FINISH_REFUSED_DRAINING, 0);
    assert_int_equal(world->submits, 6); /* nobody takes it: it waits */
    join(world, 3);
    assert_int_equal(world->last_unit.value, 3);
    for (uint32_t unit = 3; unit < 8; unit++) { /* however many drain before one takes it */
        report_finished(world, unit, world->last_submit->request, FINISH_REFUSED_DRAINING, 0);
        join(world, unit + 1);
        assert_int_equal(world->last_unit.value, unit + 1);
    }
    report_tokens(world, 1, running, 0, ids, 6);
    report_finished(world, 1, running, FINISH_LENGTH, 6);
    assert_ids(world, client, ids, 6);
    static const char *const bad[] = {"{\"unit\":19}", "{\"unit\":\"1\"}", "{", "{\"unit\":-1}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        drain = world_post(world, "/debug/fleet/drain", bad[i]);
        world_settle(world);
        assert_true(world->clients[drain].http_status == 400 ||
                    world->clients[drain].http_status == 404);
    }
    for (uint32_t i = 0; i < world->client_count; i++)
        if (!world->clients[i].ended) world_hang_up(world, i);
    world_settle(world);
    for (uint32_t unit = 1; unit <= 8; unit++)
        lose(world, unit);
    close_empty(world);
}

TEST(the_manager_gets_counters_and_units) {
    static const char limits[] = "{\"ttft_limit_ns\":2000000000,\"tpot_limit_ns\":50000000}";
    struct world *world = open_with(2, (struct gateway_options){0});
    uint32_t client = ask(world, "");
    struct request_id running = world->last_submit->request;
    uint32_t asked = world_post(world, "/debug/fleet/load", limits);
    world_settle(world);
    const char *text = world->clients[asked].data;
    assert_int_equal(world->clients[asked].http_status, 200);
    assert_non_null(strstr(text, "\"arrived_requests\":1,"));
    assert_non_null(strstr(text, "\"held\":1}"));
    assert_non_null(strstr(text, "\"connection\":1,\"role\":\"both\",\"sight\":\"serving\","
                                 "\"requests\":1,\"refused\":false,\"numerics\":\"test.v1\"}"));
    assert_non_null(strstr(text, "\"connection\":2,"));
    report_tokens(world, 1, running, 0, ids, 6);
    report_finished(world, 1, running, FINISH_LENGTH, 6);
    assert_ids(world, client, ids, 6);
    asked = world_post(world, "/debug/fleet/load", limits);
    world_settle(world);
    text = world->clients[asked].data;
    assert_non_null(strstr(text, "\"answers\":1,\"answer_tokens\":6,\"first_tokens\":1,"));
    for (uint32_t unit = 1; unit <= 2; unit++)
        lose(world, unit);
    close_empty(world);
}

/* A limit below 0 would count each answer as late, and a misspelt member would go unnoticed. */
TEST(a_report_with_odd_limits_is_refused) {
    static const char *const bodies[] = {
        "{}",
        "{\"ttft_limit_ns\":1}",
        "{\"ttft_limit_ns\":-1,\"tpot_limit_ns\":1}",
        "{\"ttft_limit_ns\":1,\"tpot_limit_ns\":-1}",
        "{\"ttft_limit_ns\":1,\"tpot_limit_ns\":9223372036854775808}",
        "{\"ttft_limit_ns\":1,\"tpot_limit_ns\":1,\"tpot_limit\":1}",
    };
    struct world *world = open_with(1, (struct gateway_options){0});
    char large[LIMIT_ORDER_BYTES + 2];
    memset(large, ' ', sizeof large - 1);
    large[sizeof large - 1] = 0;
    for (size_t i = 0; i <= sizeof bodies / sizeof bodies[0]; i++) {
        bool fits = i < sizeof bodies / sizeof bodies[0];
        uint32_t asked = world_post(world, "/debug/fleet/load", fits ? bodies[i] : large);
        world_settle(world);
        assert_int_equal(world->clients[asked].http_status, fits ? 400 : 413);
    }
    lose(world, 1);
    close_empty(world);
}

static uint32_t drain(struct world *world, const char *wish, uint32_t status) {
    uint32_t client = world_post(world, "/debug/fleet/drain", wish);
    world_settle(world);
    assert_int_equal(world->clients[client].http_status, status);
    return client;
}

TEST(a_drained_unit_comes_back) {
    struct world *world = open_with(1, (struct gateway_options){0});
    static const char back[] = "{\"unit\":1,\"back\":true}";
    for (int i = 0; i < 2; i++) /* twice is as good as once, both ways */
        drain(world, "{\"unit\":1,\"back\":false}", 200);
    assert_int_equal(world->last_drain.back, 0);
    uint32_t client = ask(world, ""), before = world->submits;
    assert_int_equal(before, 0);
    for (int i = 0; i < 2; i++) {
        uint32_t answer = drain(world, back, 200);
        assert_string_equal(world->clients[answer].data, "{\"unit\":1,\"state\":\"serving\"}");
    }
    assert_int_equal(world->drains, 4);
    assert_true(world->last_drain.back == 1 && world->last_drain.one_rank == 0);
    assert_int_equal(world->submits, 1); /* who waited goes there */
    struct request_id running = world->last_submit->request;
    report_finished(world, 1, running, FINISH_REFUSED_DRAINING, 0); /* it drained by itself */
    drain(world, back, 200);
    world->now_ns += 2 * SECOND; /* a unit that refused is not asked at once */
    world_settle(world);
    assert_int_equal(world->submits, 2);
    report_tokens(world, 1, world->last_submit->request, 0, ids, 6);
    report_finished(world, 1, world->last_submit->request, FINISH_LENGTH, 6);
    assert_ids(world, client, ids, 6);
    lose(world, 1);
    close_empty(world);
}

static void say_draining(struct world *world, uint32_t draining) {
    struct record_unit_load *load =
        make(RECORD_UNIT_LOAD, &(struct record_unit_load){.rank_count = 1});
    load->rank_count = 1;
    load->pages_free = load_ranks(load)->pages_free = 100;
    load->draining = draining;
    report(world, 1, load);
}

/* Of several gateways, each hears from the unit what an operator has told one of them. */
TEST(a_unit_that_another_gateway_drains_and_calls_back_serves_again) {
    for (uint32_t how = 0; how < 3; how++) { /* it was refused; it was told; it gave the order */
        struct world *world = open_with(1, (struct gateway_options){0});
        if (how == 1) say_draining(world, 1);
        if (how == 2) drain(world, "{\"unit\":1}", 200);
        uint32_t client = ask(world, "");
        assert_int_equal(world->submits, how == 0);
        if (how == 0)
            report_finished(world, 1, world->last_submit->request, FINISH_REFUSED_DRAINING, 0);
        say_draining(world, 1);
        world->now_ns += 2 * SECOND;
        world_settle(world);
        assert_int_equal(world->submits, how == 0);
        say_draining(world, 0);
        world_settle(world);
        assert_int_equal(world->submits, how == 0 ? 2 : 1);
        report_tokens(world, 1, world->last_submit->request, 0, ids, 6);
        report_finished(world, 1, world->last_submit->request, FINISH_LENGTH, 6);
        assert_ids(world, client, ids, 6);
        lose(world, 1);
        close_empty(world);
    }
}

/* Nothing is carried out of an order that is not understood as a whole. */
TEST(orders_with_strange_members_change_nothing) {
    struct world *world = open_with(0, (struct gateway_options){0});
    join_ranks(world, 1, 4);
    static const char *const wishes[][3] = {
        {"drain", "{\"unit\":1,\"bakc\":true}", "bakc"},
        {"drain", "{\"unit\":1,\"back\":1}", "back"},
        {"drain", "{\"unit\":1,\"back\":\"true\"}", "back"},
        {"drain", "{\"unit\":1,\"back\":null}", "back"},
        {"drain", "{\"unit\":1,\"rank\":1.5}", "rank"},
        {"drain", "{\"unit\":1,\"rank\":-1,\"back\":true}", "rank"},
        {"drain", "{\"unit\":1,\"rank\":null}", "rank"},
        {"drain", "{\"unit\":1,\"role\":\"both\"}", "role"},
        {"drain", "{\"unit\":1,\"unit\":1}", "unit"},
        {"drain", "{\"unit\":1,\"back\":true,\"back\":false}", "unit"},
        {"drain", "{\"unit\":1,\"\":0}", "\\\"\\\""},
        {"drain", "[1]", "unit"},
        {"role", "{\"unit\":1,\"role\":\"both\",\"rank\":0}", "rank"},
        {"role", "{\"unit\":1,\"role\":\"both\",\"back\":true}", "back"},
        {"role", "{\"unit\":1,\"role\":[\"both\"]}", "role"},
        {"role", "{\"unit\":1}", "role"},
    };
    for (size_t i = 0; i < sizeof wishes / sizeof *wishes; i++) {
        char path[64];
        snprintf(path, sizeof path, "/debug/fleet/%s", wishes[i][0]);
        uint32_t client = world_post(world, path, wishes[i][1]);
        world_settle(world);
        assert_int_equal(world->clients[client].http_status, 400);
        assert_non_null(strstr(world->clients[client].data, wishes[i][2]));
    }
    assert_true(world->drains == 0 && world->roles == 0);
    assert_true(metric_of(world, "fathom_units{state=\"serving\"} ") == 1);
    close_empty(world);
}

TEST(nobody_waits_for_units_of_a_gateway_that_ends) {
    struct world *world = open_with(1, (struct gateway_options){0});
    uint32_t runs = ask(world, "");
    struct request_id running = world->last_submit->request;
    drain(world, "{\"unit\":1}", 200);
    uint32_t whole = ask(world, ",\"n\":2"), stream = ask(world, ",\"stream\":true");
    world_drain(world);
    world_settle(world);
    assert_refused(world, whole, 503, "draining");
    assert_refused(world, stream, 503, "draining");
    assert_false(world->clients[runs].ended); /* its unit finishes it */
    report_tokens(world, 1, running, 0, ids, 6);
    report_finished(world, 1, running, FINISH_LENGTH, 6);
    assert_ids(world, runs, ids, 6);
    lose(world, 1);
    close_empty(world);
    world = open_empty((struct gateway_options){0}); /* there never was a unit */
    whole = ask(world, "");
    world_drain(world);
    world_settle(world);
    assert_refused(world, whole, 503, "draining");
    close_empty(world);
}

TEST(another_model_is_refused) {
    struct world *world = open_with(1, (struct gateway_options){0});
    world_join(world, 2);
    say_model(world, 2, 1);
    for (uint32_t i = 0; i < 4; i++) {
        ask(world, "");
        assert_int_equal(world->last_unit.value, 1);
    }
    uint32_t report = world_get(world, "/debug/fleet"), metrics = world_get(world, "/metrics");
    world_settle(world);
    assert_non_null(strstr(world->clients[report].data, "\"state\":\"refused\""));
    assert_non_null(strstr(world->clients[metrics].data, "fathom_units{state=\"refused\"} 1"));
    assert_non_null(strstr(world->clients[metrics].data, "fathom_units_refused_total 1"));
    for (uint32_t client = 0; client < 4; client++)
        world_hang_up(world, client);
    lose(world, 1);
    join(world, 3); /* the first one's model is the fleet's as long as requests are held */
    assert_int_equal(gateway_request_count(world->gateway), 0);
    lose(world, 3);
    world_join(world, 4);
    say_model(world, 4, 1); /* nothing is held: another model may come */
    ask(world, "");
    assert_int_equal(world->last_unit.value, 4);
    report_finished(world, 4, world->last_submit->request, FINISH_LENGTH, 0);
    close_empty(world);
}

/* Whoever connects first: a gateway that has the weights knows its model's identity, one that has
 * none knows the size of its vocabulary. */
TEST(a_unit_of_another_model_than_the_gateways_own_is_refused) {
    struct world *world = open_empty((struct gateway_options){.model_id = {1}});
    world_join(world, 1);
    say_model(world, 1, 2);
    assert_true(gateway_refuses(world->gateway, (struct unit_id){1}));
    ask(world, "");
    assert_int_equal(world->submits, 0);
    world_join(world, 2);
    say_model(world, 2, 1);
    assert_false(gateway_refuses(world->gateway, (struct unit_id){2}));
    assert_int_equal(world->last_unit.value, 2);
    report_finished(world, 2, world->last_submit->request, FINISH_LENGTH, 0);
    lose(world, 2);
    world_join(world, 3); /* also where nothing is held */
    say_model(world, 3, 2);
    assert_true(gateway_refuses(world->gateway, (struct unit_id){3}));
    close_empty(world);
    world = open_empty((struct gateway_options){.vocab_count = VOCAB});
    world_join(world, 1);
    say_sizes(world, 1, VOCAB + 64, 2048);
    assert_true(gateway_refuses(world->gateway, (struct unit_id){1}));
    join(world, 2);
    assert_false(gateway_refuses(world->gateway, (struct unit_id){2}));
    close_empty(world);
}

/* Sizes that no unit has say nothing of the model: the next unit brings it, and who asked meanwhile
 * waits for that one. */
TEST(an_impossible_unit_brings_no_model) {
    struct world *world = open_empty((struct gateway_options){0});
    world_join(world, 1);
    say_sizes(world, 1, UINT32_MAX, 2048);
    world_join(world, 2);
    say_sizes(world, 2, VOCAB, UINT32_MAX);
    uint32_t client = ask(world, "");
    assert_false(world->clients[client].ended);
    join(world, 3);
    assert_int_equal(world->last_unit.value, 3);
    report_tokens(world, 3, world->last_submit->request, 0, ids, 6);
    report_finished(world, 3, world->last_submit->request, FINISH_LENGTH, 6);
    assert_ids(world, client, ids, 6);
    close_empty(world);
}

/* What cannot be true ends the trust, and the request goes on elsewhere. */
TEST(units_that_lie_are_put_out) {
    static const uint32_t foreign[] = {VOCAB};
    for (uint32_t lie = 0; lie < 9; lie++) {
        struct world *world = open_with(2, (struct gateway_options){0});
        uint32_t client = ask(world, ""), unit = world->last_unit.value;
        struct request_id id = world->last_submit->request;
        if (lie == 0) report_tokens(world, unit, id, 1, ids, 1);     /* leaves one out */
        if (lie == 1) report_tokens(world, unit, id, 0, foreign, 1); /* no token of the model */
        if (lie == 2) report_tokens(world, unit, id, 0, foreign - 0, 1);
        if (lie == 3) { /* more than was asked for */
            static const uint32_t many[7] = {1};
            report_tokens(world, unit, id, 0, many, 7);
        }
        if (lie == 4) {
            struct record_finished *record = make(RECORD_FINISHED, NULL);
            record->request = id;
            record->work.prompt_hit_tokens = 4; /* of three */
            report(world, unit, record);
        }
        if (lie == 5) { /* never what it did for the prompt */
            struct record_tokens *record =
                make(RECORD_TOKENS, &(struct record_tokens){.token_count = 1});
            record->request = id;
            tokens_chosen(record)[0] = ids[0];
            report(world, unit, record);
        }
        if (lie == 6) report_finished(world, unit, id, FINISH_CANCELLED, UINT32_MAX); /* of six */
        if (lie == 7) report_finished(world, unit, id, FINISH_LENGTH, 5); /* and told of none */
        if (lie == 8) report_finished(world, unit, id, FINISH_STOP_TOKEN, 0);
        assert_int_equal(world->last_unit.value, 3 - unit);
        report_tokens(world, unit, id, 0, ids, 1); /* unheard */
        report_tokens(world, 3 - unit, world->last_submit->request, 0, ids, 6);
        report_finished(world, 3 - unit, world->last_submit->request, FINISH_LENGTH, 6);
        assert_ids(world, client, ids, 6);
        close_empty(world);
    }
}

TEST(the_table_is_bounded) {
    struct world *world = open_with(LIMIT_FLEET_UNITS + 3, (struct gateway_options){0});
    uint32_t report = world_get(world, "/debug/fleet");
    world_settle(world);
    const struct tree *root = read_body(world, report);
    assert_int_equal(tree_count(tree_member(root, "units")), LIMIT_FLEET_UNITS);
    lose(world, LIMIT_FLEET_UNITS + 2); /* never was there */
    lose(world, 5);
    join(world, 500);
    close_empty(world);
}

TEST(the_fleet_is_reported) {
    struct world *world = open_with(2, (struct gateway_options){0});
    report_load(world, 1, 1, 2);
    report_load(world, 2, 0, 5);
    uint32_t client = world_get(world, "/debug/fleet");
    world_settle(world);
    const struct tree *units = tree_member(read_body(world, client), "units");
    const struct tree *rank = tree_at(tree_member(tree_at(units, 1), "ranks"), 0);
    int64_t value = 0;
    assert_true(tree_get_integer(tree_member(rank, "pid"), &value) && value == 102);
    assert_true(tree_get_integer(tree_member(rank, "requests_running"), &value) && value == 5);
    assert_true(tree_get_integer(tree_member(rank, "requests_parked"), &value) && value == 10);
    assert_true(tree_get_integer(tree_member(tree_member(rank, "kv_pages"), "held"), &value) &&
                value == 15);
    assert_true(metric_of(world, "\nfathom_requests_running ") == 7);
    assert_true(metric_of(world, "\nfathom_kv_pages{state=\"held\"} ") == 21);
    assert_true(metric_of(world, "\nfathom_kv_pages_capacity ") == 200);
    assert_true(metric_of(world, "\nfathom_kv_loads_in_step_total{end=\"whole\"} ") == 300);
    assert_true(metric_of(world, "\nfathom_kv_loads_in_step_total{end=\"lost\"} ") == 21);
    assert_true(metric_of(world, "\nfathom_units{state=\"serving\"} ") == 2);
    ask(world, "");
    lose(world, 1);
    lose(world, 2);
    assert_true(metric_of(world, "\nfathom_unit_losses_total ") == 2);
    assert_true(metric_of(world, "\nfathom_kv_transfers_total{end=\"arrived\"} ") == 30);
    assert_true(metric_of(world, "\nfathom_kv_transfers_total{end=\"failed\"} ") == 3);
    assert_true(metric_of(world, "\nfathom_requests_queued ") == 1);
    join(world, 3);
    assert_true(metric_of(world, "\nfathom_requests_resumed_total ") == 2);
    report_finished(world, 3, world->last_submit->request, FINISH_LENGTH, 0);
    close_empty(world);
}

/* ---- the numbers of units ---- */

static uint64_t instance_of(uint64_t fleet, uint64_t number) {
    const uint64_t name = fleet << 24 | number;
    return record_unit_instance(&name, 0);
}

/* The units' numbers in the order of the gateway's table: "7 1 ". */
static const char *numbers_of(struct world *world) {
    static char text[LIMIT_FLEET_UNITS * 12];
    uint32_t client = world_get(world, "/debug/fleet");
    world_settle(world);
    const struct tree *units = tree_member(read_body(world, client), "units");
    size_t used = 0;
    for (uint32_t i = 0; i < tree_count(units); i++) {
        int64_t id = 0;
        assert_true(tree_get_integer(tree_member(tree_at(units, i), "id"), &id));
        used += (size_t)snprintf(text + used, sizeof text - used, "%lld ", (long long)id);
    }
    return text;
}

TEST(a_unit_has_its_fleets_number) {
    static const char limits[] = "{\"ttft_limit_ns\":0,\"tpot_limit_ns\":0}";
    struct world *world = open_with(0, (struct gateway_options){0});
    join_again(world, 1, instance_of(5, 7));
    join(world, 2);
    assert_string_equal(numbers_of(world), "7 2 ");
    uint32_t drained = drain(world, "{\"unit\":7}", 200);
    assert_string_equal(world->clients[drained].data, "{\"unit\":7,\"state\":\"draining\"}");
    assert_int_equal(world->last_unit.value, 1);
    drain(world, "{\"unit\":1}", 404);
    uint32_t asked = world_post(world, "/debug/fleet/load", limits);
    uint32_t client = ask(world, ",\"return_receipt\":true");
    assert_non_null(strstr(world->clients[asked].data, "\"connection\":7,"));
    assert_int_equal(world->last_unit.value, 2);
    drain(world, "{\"unit\":7,\"back\":true}", 200);
    lose(world, 2);
    assert_int_equal(world->last_unit.value, 1);
    report_tokens(world, 1, world->last_submit->request, 0, ids, 6);
    report_finished(world, 1, world->last_submit->request, FINISH_LENGTH, 6);
    assert_non_null(strstr(world->clients[client].receipt, "\"ran\":[{\"unit\":7,"));
    struct record_experts experts = {.record = record_head(RECORD_EXPERTS, sizeof experts),
                                     .experts = 64,
                                     .ranks = 1,
                                     .slots_per_rank = 64,
                                     .moves_total = 3};
    report(world, 1, &experts);
    assert_true(metric_of(world, "\nfathom_experts_moved_total{unit=\"7\"} ") == 3);
    close_empty(world);
}

/* Each case once more: a unit that gets no number of its own leaves the next one its number. */
TEST(no_two_units_share_a_number) {
    struct world *world = open_with(1, (struct gateway_options){0});
    join_again(world, 2, instance_of(5, 1)); /* a unit started by hand has it */
    join_again(world, 3, instance_of(5, 2));
    join_again(world, 4, instance_of(6, 2)); /* another fleet's unit has it */
    join_again(world, 5, instance_of(5, 6));
    join(world, 6);       /* a fleet's unit has its connection's number */
    world_join(world, 7); /* no hello yet */
    join_again(world, 8, instance_of(5, 7));
    assert_string_equal(numbers_of(world), "1 100000002 2 100000004 6 100000006 100000007 7 ");
    drain(world, "{\"unit\":100000004}", 200);
    assert_int_equal(world->last_unit.value, 4);
    lose(world, 1);
    say_hello(world, 2, "test.v1");
    assert_string_equal(numbers_of(world), "100000002 2 100000004 6 100000006 100000007 7 ");
    close_empty(world);
}

/* The unit connects again before the loss of its old connection is detected. */
TEST(a_unit_that_connects_again_keeps_its_number) {
    struct world *world = open_with(1, (struct gateway_options){0});
    join_again(world, 2, instance_of(5, 9));
    join_again(world, 3, instance_of(5, 9));
    assert_string_equal(numbers_of(world), "1 9 ");
    lose(world, 2);
    assert_string_equal(numbers_of(world), "1 9 ");
    drain(world, "{\"unit\":9}", 200);
    assert_int_equal(world->last_unit.value, 3);
    close_empty(world);
}

/* One rank of a unit: refused where the others cannot cover, with what would do; else passed on. */
TEST(a_rank_is_drained_if_the_others_can_cover) {
    struct world *world = open_with(0, (struct gateway_options){0});
    join_ranks(world, 1, 4);
    struct record_experts experts = {.record = record_head(RECORD_EXPERTS, sizeof experts),
                                     .experts = 64,
                                     .ranks = 4,
                                     .slots_per_rank = 20,
                                     .layer_count = 2,
                                     .moves_total = 7,
                                     .stall_ns_total = 2500000,
                                     .balance = 875000,
                                     .layer_balance = {0, 875000}};
    static const char wish[] = "{\"unit\":1,\"rank\":2}";
    report(world, 1, &experts);
    uint32_t refused = world_post(world, "/debug/fleet/drain", wish);
    world_settle(world);
    assert_int_equal(world->clients[refused].http_status, 409);
    assert_non_null(strstr(world->clients[refused].data, "--redundant-experts 21"));
    assert_int_equal(world->drains, 0);
    experts.slots_per_rank = 22;
    report(world, 1, &experts);
    uint32_t taken = world_post(world, "/debug/fleet/drain", wish);
    world_settle(world);
    assert_int_equal(world->clients[taken].http_status, 200);
    assert_int_equal(world->drains, 1);
    experts.masked[0] = experts.empty[0] = 1 << 2;
    report(world, 1, &experts);
    uint32_t report = world_get(world, "/debug/fleet");
    world_settle(world);
    assert_non_null(strstr(world->clients[report].data, "\"state\":\"drained\""));
    uint32_t another = world_post(world, "/debug/fleet/drain", "{\"unit\":1,\"rank\":0}");
    uint32_t nobody = world_post(world, "/debug/fleet/drain", "{\"unit\":1,\"rank\":4}");
    uint32_t back =
        world_post(world, "/debug/fleet/drain", "{\"unit\":1,\"rank\":2,\"back\":true}");
    world_settle(world);
    assert_int_equal(world->clients[another].http_status, 409);
    assert_int_equal(world->clients[nobody].http_status, 404);
    assert_int_equal(world->clients[back].http_status, 200);
    assert_int_equal(world->drains, 2);
    assert_true(metric_of(world, "\nfathom_experts_moved_total{unit=\"1\"} ") == 7);
    assert_true(metric_of(world, "\nfathom_expert_balance{unit=\"1\",layer=\"1\"} ") == 0.875);
    assert_true(metric_of(world, "\nfathom_expert_stall_seconds_total{unit=\"1\"} ") == 0.0025);
    close_empty(world);
}
