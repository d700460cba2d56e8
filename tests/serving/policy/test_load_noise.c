/* SPDX-License-Identifier: Apache-2.0
 * Protects what is learnt of a load's noise: a jump that noise does not explain is seen within
 * moments, noise is no jump and makes a margin, a load that is as expected has none, and the way in
 * which a load goes on is found out.
 */
#include <math.h>

#include "base/random.h"
#include "serving/policy/load_noise.h"
#include "test_case.h"

#define S ((int64_t)1000000000)
#define HOUR (3600 * S)
#define FAST_S 150.0

static struct load_noise noise;
static struct forecast_load forecast;
static double fast[FORECAST_STREAMS];
static double requests; /* of each window */
static bool follows;    /* the curve; else it stays as it is */
static int64_t now_ns;

static int open_noise(void **state) {
    (void)state;
    noise = (struct load_noise){
        .rule = {.period_ns = 24 * HOUR, .quick_ns = 10 * S, .ahead_ns = 300 * S}};
    forecast_load_open(&forecast, 24 * HOUR);
    fast[0] = fast[1] = 1000;
    requests = 1e6;
    follows = false;
    now_ns = 24 * HOUR;
    return 0;
}

/* What a day was like: 1000 tokens a second, half as much again and half of it, in hours. */
static double curve(int64_t at_ns) {
    return 1000 * (1 + 0.5 * sin((double)at_ns / (double)(6 * HOUR) * 6.283185307));
}

static void teach(void) {
    for (int64_t part = 0; part < FORECAST_PARTS; part++) {
        int64_t at_ns = (2 * part + 1) * (24 * HOUR / FORECAST_PARTS) / 2;
        forecast_load_teach(&forecast, at_ns, (double[]){curve(at_ns), curve(at_ns)});
    }
}

/* So long, 1000 tokens a second times `times`; of the first stream a share of `share` strays within
 * ten minutes. */
static void live(int64_t while_ns, double times, double share) {
    for (int64_t end_ns = now_ns + while_ns; now_ns < end_ns;) {
        now_ns += 5 * S;
        double wave = sin((double)now_ns / (double)(600 * S) * 6.283185307) +
                      random_uniform(1, 0, (uint32_t)(now_ns / S)) - 0.5;
        double level = times * (follows ? curve(now_ns) : 1000);
        double rates[FORECAST_STREAMS] = {level * (1 + share * wave), level};
        for (uint32_t i = 0; i < FORECAST_STREAMS; i++)
            fast[i] += (1 - exp(-5 / FAST_S)) * (rates[i] - fast[i]);
        forecast_load_add(&forecast, rates, now_ns);
        const struct load_noise_window window = {.requests = requests,
                                                 .rates = {rates[0], rates[1]},
                                                 .fast = {fast[0], fast[1]},
                                                 .passed_ns = 5 * S};
        load_noise_add(&noise, &window, &forecast, now_ns);
    }
}

TEST_AROUND(a_load_that_is_as_expected_has_no_margin, open_noise, NULL) {
    live(4 * HOUR, 1, 0);
    assert_true(load_noise_margin(&noise, 0) < 1e-6 && load_noise_margin(&noise, 1) < 1e-6);
    assert_true(fabs(load_noise_jump(&noise, 0) - 1000) < 1);
}

TEST_AROUND(a_jump_is_seen_within_moments, open_noise, NULL) {
    live(4 * HOUR, 1, 0);
    live(30 * S, 3, 0);
    assert_true(load_noise_jump(&noise, 0) > 2700);
    assert_true(fast[0] < 1500); /* a mean over minutes knows little of it yet */
}

TEST_AROUND(noise_is_no_jump_and_makes_a_margin, open_noise, NULL) {
    live(12 * HOUR, 1, 0.1);
    assert_true(load_noise_margin(&noise, 0) > 0.1 && load_noise_margin(&noise, 0) < 0.4);
    assert_true(load_noise_margin(&noise, 1) < 1e-6); /* each stream by itself */
    for (int i = 0; i < 240; i++) {
        live(5 * S, 1, 0.1);
        assert_true(load_noise_jump(&noise, 0) < fast[0]);
    }
}

TEST_AROUND(a_jump_makes_no_margin_for_the_whole_day, open_noise, NULL) {
    live(4 * HOUR, 1, 0);
    live(HOUR, 3, 0);
    assert_true(load_noise_margin(&noise, 0) < 0.15);
}

TEST_AROUND(a_few_requests_are_no_noise_of_the_load, open_noise, NULL) {
    requests = 20;
    live(12 * HOUR, 1, 0.1);
    assert_true(load_noise_margin(&noise, 0) < 1e-6);
}

TEST_AROUND(the_way_in_which_a_load_goes_on_is_found_out, open_noise, NULL) {
    teach();
    follows = true;
    live(6 * HOUR, 0.9, 0); /* fewer than ever, in the same curve */
    assert_int_equal(load_noise_way(&noise, 0), FORECAST_DEVIATES);
    live(14 * HOUR, 1, 0.1); /* it strays, and comes back within minutes */
    assert_int_equal(load_noise_way(&noise, 0), FORECAST_AS_EVER);
    follows = false;
    live(12 * HOUR, 1, 0); /* a day of its own */
    assert_int_equal(load_noise_way(&noise, 0), FORECAST_AS_NOW);
    assert_true(load_noise_margin(&noise, 0) < 0.05);
}
