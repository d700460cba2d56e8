/* SPDX-License-Identifier: Apache-2.0
 * The day's figures: windows whose counters have the published ratios add up to what was published,
 * whatever share of the load they brought; and an error is how far a figure lies outside.
 */
#include <math.h>

#include "published_day.h"
#include "simulate/simulator/day_figures.h"
#include "test_case.h"

static const struct model_figures model = {.kv_bytes_per_token = 70272};

/* `brought`: of what was offered. */
static struct simulator_report window_report(const struct day_segment *segment, double brought) {
    double seconds = published_day.measure_s, share = brought / segment->decode_units;
    double input = segment->input_rate * share * seconds;
    double output = segment->output_rate * share * seconds;
    struct simulator_report report = {
        .measured_s = seconds, .user_speed_tokens = 21 * output, .user_tokens = output};
    report.roles[UNIT_PREFILL] =
        (struct simulator_role_counts){.prompt_tokens = (uint64_t)input,
                                       .computed_tokens = (uint64_t)(input * 266 / 608),
                                       .hit_tokens = (uint64_t)(input * 342 / 608),
                                       .disk_hits = (uint64_t)(input * 342 / 608)};
    report.roles[UNIT_DECODE] =
        (struct simulator_role_counts){.units = 1,
                                       .ranks = 144,
                                       .steps = 200,
                                       .output_tokens = (uint64_t)output,
                                       .rows = 200 * 144 * 88,
                                       .context = (uint64_t)200 * 144 * 88 * 4989};
    return report;
}

static uint32_t live(double brought, struct day_figure *figures) {
    static const struct day_prices prices = {
        .hit = 0.14, .miss = 0.55, .output = 2.19, .node_hour = 16};
    struct day_segment segments[DAY_SEGMENTS_MAX];
    struct day_sums sums;
    struct day_profile profile = {87.5, 2100};
    struct simulator_options options = {.model = &model,
                                        .kinds = {{.count = 3, .ranks = 32, .ranks_per_node = 8},
                                                  {.count = 1, .ranks = 144, .ranks_per_node = 8}},
                                        .kind_count = 2};
    memset(&sums, 0, sizeof sums);
    uint32_t count = day_segments(&published_day, segments);
    for (uint32_t i = 0; i < count; i++) {
        struct simulator_report report = window_report(&segments[i], brought);
        day_figures_sums_add(&sums, &segments[i], &segments[i], &options, &report);
    }
    return day_figures(&sums, &prices, &model, &profile, figures);
}

static double figure_of(const struct day_figure *figures, uint32_t count, const char *name) {
    for (uint32_t i = 0; i < count; i++)
        if (!strcmp(figures[i].name, name)) return figures[i].simulated;
    fail_msg("no figure %s", name);
    return 0;
}

static void assert_near(double value, double wanted, double share) {
    if (fabs(value / wanted - 1) > share) fail_msg("%g instead of %g", value, wanted);
}

TEST(identities_are_the_published_digits_whatever_a_window_brought) {
    static const double shares[] = {1, 0.97};
    for (int i = 0; i < 2; i++) {
        struct day_figure figures[DAY_FIGURES_MAX];
        uint32_t count = live(shares[i], figures);
        assert_near(figure_of(figures, count, "nodes_average"), 226.75, 1e-9);
        assert_near(figure_of(figures, count, "nodes_peak"), 278, 1e-9);
        assert_near(figure_of(figures, count, "cost_usd_per_day"), 87072, 1e-9);
        assert_near(figure_of(figures, count, "income_usd_per_day"), 562027, 0.002);
        assert_near(figure_of(figures, count, "margin_percent"), 545, 0.002);
        assert_near(figure_of(figures, count, "cache_hit_percent"), 56.25, 0.001);
        assert_near(figure_of(figures, count, "prefill_tokens_per_s_per_node"), 73690, 0.001);
        assert_near(figure_of(figures, count, "decode_tokens_per_s_per_node"), 14810, 0.001);
        assert_near(figure_of(figures, count, "tokens_per_s_per_user"), 21, 1e-6);
        assert_near(figure_of(figures, count, "requests_per_decode_gpu"), 88, 1e-6);
        assert_near(figure_of(figures, count, "kv_tokens_per_output_token"), 4989, 1e-6);
        assert_near(figure_of(figures, count, "window_output_of_offered"), 100 * shares[i], 0.001);
    }
}

TEST(an_error_is_how_far_a_figure_lies_outside_of_what_was_published) {
    struct day_figure figure = {.published_count = 2, .published = {20, 22}, .simulated = 21};
    assert_true(day_figures_error(&figure) == 0);
    figure.simulated = 19;
    assert_near(day_figures_error(&figure), -0.05, 1e-9);
    figure.simulated = 23.1;
    assert_near(day_figures_error(&figure), 0.05, 1e-9);
    figure = (struct day_figure){.published_count = 1, .published = {100}, .simulated = 103};
    assert_near(day_figures_error(&figure), 0.03, 1e-9);
    figure.published_count = 0;
    assert_true(day_figures_error(&figure) == 0);
}
