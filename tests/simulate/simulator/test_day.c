/* SPDX-License-Identifier: Apache-2.0
 * A day's windows: the segments are the day, the sample is the fleet on the whole, and a window
 * begins with as many requests as its load needs.
 */
#include <math.h>

#include "published_day.h"
#include "test_case.h"

static void assert_near(double value, double wanted, double off) {
    if (fabs(value - wanted) > off) fail_msg("%.9g instead of %.9g", value, wanted);
}

TEST(segments_are_the_whole_day_and_its_tokens) {
    struct day_segment segments[DAY_SEGMENTS_MAX];
    uint32_t count = day_segments(&published_day, segments);
    double hours = 0, nodes = 0, output = 0, input = 0, at = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct day_segment *segment = &segments[i];
        assert_near(segment->hour, at, 1e-9);
        at += segment->hours;
        hours += segment->hours;
        nodes += segment->hours * (segment->decode_units * 18 + segment->prefill_units * 4);
        output += segment->hours * 3600 * segment->output_rate;
        input += segment->hours * 3600 * segment->input_rate;
    }
    assert_near(hours, 24, 1e-9);
    assert_near(nodes / 24, 226.75, 1e-9);
    assert_near(output, 168e9, 1);
    assert_near(input, 608e9, 1);
}

TEST(within_an_hour_the_load_follows_the_units) {
    struct day_segment segments[DAY_SEGMENTS_MAX];
    uint32_t count = day_segments(&published_day, segments);
    for (uint32_t i = 1; i < count; i++) {
        const struct day_segment *a = &segments[i - 1], *b = &segments[i];
        if ((uint32_t)a->hour != (uint32_t)b->hour) continue;
        assert_near(a->output_rate / a->decode_units, b->output_rate / b->decode_units, 1e-6);
    }
}

TEST(the_sample_has_the_fleets_prefill_units_on_the_whole) {
    struct day_segment segments[DAY_SEGMENTS_MAX];
    uint32_t count = day_segments(&published_day, segments);
    double sampled = 0, wanted = 0;
    for (uint32_t i = 0; i < count; i++) {
        double each = (double)segments[i].prefill_units / segments[i].decode_units;
        assert_true(fabs(segments[i].sample_prefill_units - each) < 1);
        sampled += segments[i].sample_prefill_units * segments[i].hours;
        wanted += each * segments[i].hours;
    }
    assert_near(sampled / 24, wanted / 24, 0.05);
}

TEST(a_window_is_one_decode_units_share_or_the_whole_fleet) {
    struct day_segment segments[DAY_SEGMENTS_MAX];
    struct day_lengths lengths;
    struct day_load load;
    struct simulator_options fleet = {.kind_count = 2, .kinds = {{.ranks = 32}, {.ranks = 144}}},
                             window;
    day_segments(&published_day, segments);
    assert_true(day_load_solve(&published_day.moments, &lengths));
    day_window_options(&published_day, &segments[0], &fleet, false, 88, &lengths, &load, &window);
    assert_int_equal(window.kinds[0].count, segments[0].sample_prefill_units);
    assert_int_equal(window.kinds[1].count, 1);
    assert_int_equal(load.standing_count, 88 * 144);
    double sampled = load.rate;
    day_window_options(&published_day, &segments[0], &fleet, true, 88, &lengths, &load, &window);
    assert_int_equal(window.kinds[0].count, 29);
    assert_int_equal(window.kinds[1].count, 9);
    assert_int_equal(load.standing_count, 9 * 88 * 144);
    assert_near(load.rate / sampled, 9, 1e-9);
    assert_true(window.settle_ns < window.warm_ns);
}

/* The clock is asked, not a formula: with what it says, the rows make the tokens. */
TEST(standing_requests_make_the_segments_tokens) {
    static const struct model_figures model = {.layers = 61};
    static const struct hardware hardware = {.gpus_per_node = 8};
    struct step_clock_options options = {
        .hardware = &hardware, .model = &model, .ranks = 16, .ranks_per_node = 8};
    size_t bytes = step_clock_bytes(&options);
    void *memory = malloc(bytes + 64);
    struct arena arena;
    struct step_clock *clock;
    struct error error;
    arena_over(&arena, memory, bytes + 64);
    assert_int_equal(step_clock_open(&arena, &options, &clock, &error), STATUS_OK);
    double rows = day_standing(clock, 16, 128, OVERLAP_DECODE_FIVE_STAGE, 4989, 5000, 1, 0);
    assert_true(rows > 0 && rows < 128);
    struct step_share shares[16];
    for (uint32_t i = 0; i < 16; i++) {
        uint32_t own = (uint32_t)(rows + (i + 0.5) / 16);
        shares[i] = (struct step_share){.slowness = 1};
        step_load_add_answers(&shares[i].load, own, own, 4989);
    }
    double seconds = (double)step_clock_step(clock, shares, OVERLAP_DECODE_FIVE_STAGE, 0).ns / 1e9;
    assert_near(rows * 16 / seconds, 5000, 300);
    assert_true(day_standing(clock, 16, 128, OVERLAP_DECODE_FIVE_STAGE, 4989, 5000, 1.2, 0) > rows);
    double drafted = day_standing(clock, 16, 128, OVERLAP_DECODE_FIVE_STAGE, 4989, 5000, 1, 0.85);
    assert_true(drafted < rows && drafted > rows / 2);
    free(memory);
}

/* 100 requests of a rank of which two end each second; 95 ran: 2.5 s went without a new answer. */
TEST(a_window_begins_with_those_that_end_before_the_first_arrivals_answer) {
    struct day_options day = {.warm_s = 6};
    assert_near(day_short_seconds(&day, 100, 95, 2), 2.5, 1e-9);
    assert_near(day_short_seconds(&day, 100, 101, 2), 0,
                0); /* others came too early: none is left out */
    assert_near(day_short_seconds(&day, 100, 50, 2), 6, 0); /* a fleet that cannot do its load */
}
