/* SPDX-License-Identifier: Apache-2.0
 * Protects how a fleet's load is read from counters: what arrives counts and not what comes out, a
 * gateway that begins anew is no load, what waits is on the side that is short, limits that are
 * missed are seen, and what noise may bring counts once, for the time in which a unit that is
 * ordered now serves.
 */

#include "serving/fleet/fleet_demand.h"
#include "test_case.h"

#define S ((int64_t)1000000000)

static struct fleet_demand demand;
static struct record_fleet_load load;
static int64_t now_ns;
static const double rates[SCALE_SIDES] = {1000, 1000};

static int open_demand(void **state) {
    (void)state;
    fleet_demand_open(&demand, &(struct fleet_demand_rule){.period_ns = 86400 * S,
                                                           .fast_ns = 30 * S,
                                                           .ttft_limit_ns = 2 * S,
                                                           .missed_share = 0.01});
    load = (struct record_fleet_load){0};
    record_set_head(&load, RECORD_FLEET_LOAD);
    now_ns = 86400 * S;
    fleet_demand_add(&demand, &load, now_ns);
    return 0;
}

/* So many requests a second, of 100 prompt tokens, half of them cached; of them some end, with 50
 * tokens. */
static void live(int seconds, uint64_t arrive, uint64_t end) {
    for (int i = 0; i < seconds; i++) {
        load.arrived_requests += arrive;
        load.arrived_tokens += 100 * arrive;
        load.hit_tokens += 50 * end;
        load.miss_tokens += 50 * end;
        load.completed += end;
        load.output_tokens += 50 * end;
        load.first_tokens += end;
        load.tpot_requests += end;
        now_ns += S;
        fleet_demand_add(&demand, &load, now_ns);
    }
}

static struct scale_view look(void) {
    struct scale_view view;
    fleet_demand_view(&demand, rates, now_ns + 60 * S, now_ns + 600 * S, &view);
    return view;
}

static void assert_near(double found, double expected) {
    if (found < expected * 0.95 || found > expected * 1.05)
        fail_msg("found %g, expected %g", found, expected);
}

TEST_AROUND(what_arrives_counts_and_not_what_comes_out, open_demand, NULL) {
    live(600, 10, 10);
    assert_near(look().demand[SCALE_PREFILL].now, 10 * 50);
    assert_near(look().demand[SCALE_DECODE].now, 10 * 50);
    live(600, 40, 10); /* no more come out than before */
    assert_near(look().demand[SCALE_PREFILL].now, 40 * 50);
    assert_near(look().demand[SCALE_DECODE].now, 40 * 50);
    assert_near(fleet_demand_answer_tokens(&demand), 50);
    assert_near(fleet_demand_prompt_tokens(&demand), 50);
}

TEST_AROUND(a_gateway_that_begins_anew_is_no_load, open_demand, NULL) {
    live(600, 10, 10);
    load.arrived_requests = load.arrived_tokens = 0;
    now_ns += S;
    fleet_demand_add(&demand, &load, now_ns);
    assert_near(look().demand[SCALE_DECODE].now, 500);
    live(60, 10, 10);
    assert_near(look().demand[SCALE_DECODE].now, 500);
}

TEST_AROUND(what_waits_is_on_the_side_that_is_short, open_demand, NULL) {
    live(600, 10, 10);
    load.requests_queued = 300; /* 300 * 50 tokens of either side, to be gone within 30 s */
    fleet_demand_add(&demand, &load, now_ns);
    struct scale_view view;
    fleet_demand_view(&demand, (double[]){1000, 400}, now_ns, now_ns, &view);
    assert_near(view.demand[SCALE_DECODE].now, 500 + 500);
    assert_near(view.demand[SCALE_PREFILL].now, 500);
    assert_true(view.demand[SCALE_PREFILL].later >= 1000); /* it gives nothing back meanwhile */
    fleet_demand_view(&demand, (double[]){400, 1000}, now_ns, now_ns, &view);
    assert_near(view.demand[SCALE_PREFILL].now, 500 + 500);
    load.requests_queued = 1; /* as many as a fleet has that keeps its limits */
    fleet_demand_add(&demand, &load, now_ns);
    fleet_demand_view(&demand, (double[]){400, 1000}, now_ns, now_ns, &view);
    assert_near(view.demand[SCALE_PREFILL].now, 500);
    assert_near(view.demand[SCALE_DECODE].later, 500);
}

TEST_AROUND(limits_that_are_missed_are_seen, open_demand, NULL) {
    live(600, 10, 10);
    assert_false(look().missed[SCALE_PREFILL] || look().missed[SCALE_DECODE]);
    load.tpot_misses += 10;
    live(1, 10, 10);
    assert_true(look().missed[SCALE_DECODE] && !look().missed[SCALE_PREFILL]);
    live(300, 10, 10); /* it is long ago */
    assert_false(look().missed[SCALE_DECODE]);
    load.ttft_misses += 10;
    live(1, 10, 10);
    assert_true(look().missed[SCALE_PREFILL] || look().missed[SCALE_DECODE]);
}

TEST_AROUND(noise_is_borne_when_it_comes_and_not_before, open_demand, NULL) {
    fleet_demand_open(&demand, &(struct fleet_demand_rule){.period_ns = 86400 * S,
                                                           .fast_ns = 30 * S,
                                                           .quick_ns = 10 * S,
                                                           .start_ns = 60 * S,
                                                           .ttft_limit_ns = 2 * S,
                                                           .missed_share = 0.01});
    for (int i = 0; i < 200; i++) { /* minutes of more and of less: 20 % from the mean */
        live(60, 12000, 12000);
        live(60, 8000, 8000);
    }
    struct scale_view view = look();
    assert_true(view.demand[SCALE_DECODE].now < 11000 * 50);
    assert_true(view.demand[SCALE_DECODE].soon > 12000 * 50);
}
