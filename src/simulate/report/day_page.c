/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/report/day_page.h"

#include <math.h>

#include "base/format.h"
#include "base/number.h"
#include "simulate/report/chart.h"
#include "simulate/report/outcome_page.h"

#define POINTS_MAX (DAY_SEGMENTS_MAX + 1) /* one more for the end of the last segment */
#define HOUR_LABEL "hours from the day's first"

/* Computes the values of all series for a segment. */
typedef void segment_values(const struct day_outcome *outcome,
                            const struct day_window_outcome *window, double *values_out);

static void day_page_write_lines(struct json_writer *writer, const struct day_outcome *outcome,
                                 const char *title, const char *y_label, const char *const *names,
                                 size_t count, segment_values *values_of, double y_min) {
    double x[POINTS_MAX], columns[CHART_SERIES_MAX][POINTS_MAX], values[CHART_SERIES_MAX];
    struct chart chart = {.title = title,
                          .x_label = HOUR_LABEL,
                          .y_label = y_label,
                          .x = x,
                          .series_count = count,
                          .y_min = y_min,
                          .steps = true};
    for (size_t s = 0; s < count; s++)
        chart.series[s] = (struct chart_series){names[s], columns[s]};
    for (uint32_t i = 0; i < outcome->window_count; i++) {
        const struct day_window_outcome *window = &outcome->windows[i];
        bool last = i + 1 == outcome->window_count;
        values_of(outcome, window, values);
        for (uint32_t again = 0; again <= last; again++) {
            x[chart.count] = window->segment.hour + again * window->segment.hours;
            for (size_t s = 0; s < count; s++)
                columns[s][chart.count] = values[s];
            chart.count++;
        }
    }
    outcome_page_chart(writer, &chart, chart_lines);
}

static void day_page_nodes_of(const struct day_outcome *outcome,
                              const struct day_window_outcome *window, double *values_out) {
    const struct simulator_unit_kind *kinds = outcome->scenario->options.kinds;
    values_out[1] = (double)window->segment.decode_units * kinds[1].ranks / kinds[1].ranks_per_node;
    values_out[0] = values_out[1] + (double)window->segment.prefill_units * kinds[0].ranks /
                                        kinds[0].ranks_per_node;
}

static void day_page_money_of(const struct day_outcome *outcome,
                              const struct day_window_outcome *window, double *values_out) {
    const struct prices *prices = &outcome->scenario->prices;
    double input = window->segment.input_rate * 3600, output = window->segment.output_rate * 3600;
    double nodes[2];
    day_page_nodes_of(outcome, window, nodes);
    values_out[0] = nodes[0] * prices->node_hour;
    values_out[1] = prices_income(&prices->calendar.tokens, input * window->hit_share,
                                  input * (1 - window->hit_share), output);
}

static void day_page_speed_of(const struct day_outcome *outcome,
                              const struct day_window_outcome *window, double *values_out) {
    (void)outcome;
    values_out[0] = window->speed;
}

static void day_page_requests_of(const struct day_outcome *outcome,
                                 const struct day_window_outcome *window, double *values_out) {
    (void)outcome;
    values_out[0] = window->requests_gpu;
}

static void first_of(const struct day_outcome *outcome, const struct day_window_outcome *window,
                     double *values_out) {
    (void)outcome;
    values_out[0] = window->ttft_p50_s;
    values_out[1] = window->ttft_p99_s;
}

/* Writes values of the window: some cover all tokens, others only answers that began and ended in
 * it, which are short. NaN: no value. */
static void further_of(const struct day_outcome *outcome, const struct day_window_outcome *window,
                       double *values_out) {
    (void)outcome;
    values_out[0] = window->speed > 0 ? 1e3 / window->speed : (double)NAN;
    values_out[1] = window->tpot_p50_s > 0 ? window->tpot_p50_s * 1e3 : (double)NAN;
    values_out[2] = window->tpot_p99_s > 0 ? window->tpot_p99_s * 1e3 : (double)NAN;
}

static void pages_of(const struct day_outcome *outcome, const struct day_window_outcome *window,
                     double *values_out) {
    (void)outcome;
    values_out[0] = 100 * window->pages_share;
    values_out[1] = 100 * window->prefill_busy;
}

static void balance_of(const struct day_outcome *outcome, const struct day_window_outcome *window,
                       double *values_out) {
    (void)outcome;
    values_out[0] = max_double(window->prefill_balance, 1); /* it is 0 if no step ran */
    values_out[1] = max_double(window->decode_balance, 1);
}

static void day_page_hits_of(const struct day_outcome *outcome,
                             const struct day_window_outcome *window, double *values_out) {
    double hits = 100 * window->hit_share;
    (void)outcome;
    values_out[0] = hits * window->device_share;
    values_out[1] = hits * window->host_share;
    values_out[2] = hits * window->disk_share;
}

/* Writes the shares of GPU time over the whole day. */
static void day_page_write_spent(struct json_writer *writer, const struct day_outcome *outcome) {
    static const char *const names[] = {"prefill", "decode"};
    double shares[STEP_SPENT_COUNT + 1][2] = {{0}};
    struct chart chart = {.title = "Where each GPU-second went",
                          .x_label = "% of time",
                          .count = 2,
                          .names = names,
                          .y_max = 100};
    for (int role = 0; role < 2; role++) {
        double all = 0;
        for (uint32_t i = 0; i < outcome->window_count; i++) {
            const struct day_window_outcome *window = &outcome->windows[i];
            double weight = window->segment.hours *
                            (role ? window->segment.decode_units : window->segment.prefill_units);
            all += weight;
            for (uint32_t s = 0; s <= STEP_SPENT_COUNT; s++)
                shares[s][role] += 100 * weight * window->spent[role][s];
        }
        for (uint32_t s = 0; s <= STEP_SPENT_COUNT && all > 0; s++)
            shares[s][role] /= all;
    }
    for (uint32_t s = 0; s <= STEP_SPENT_COUNT; s++)
        chart.series[chart.series_count++] =
            (struct chart_series){outcome_spent_name(s), shares[s]};
    outcome_page_chart(writer, &chart, chart_bars);
}

/* Writes the balance of each layer, averaged over the day. */
static void write_layers(struct json_writer *writer, const struct day_outcome *outcome) {
    static const char *const names[] = {"prefill", "decode"};
    const struct model_figures *model = outcome->scenario->options.model;
    double x[LIMIT_LAYERS], columns[2][LIMIT_LAYERS];
    struct chart chart = {.title = "Experts by layer: largest rank over mean",
                          .x_label = "layer",
                          .y_label = "ratio",
                          .x = x,
                          .y_min = 1,
                          .steps = true,
                          .series_count = 2};
    for (uint32_t i = model->dense_layers; i < model->layers; i++, chart.count++) {
        x[chart.count] = i;
        for (int role = 0; role < 2; role++)
            columns[role][chart.count] = max_double(day_outcome_balance(outcome, role, i), 1);
    }
    for (int role = 0; role < 2; role++)
        chart.series[role] = (struct chart_series){names[role], columns[role]};
    outcome_page_chart(writer, &chart, chart_lines);
}

static void day_page_write_charts(struct json_writer *writer, const struct day_outcome *outcome) {
    char money[96];
    format_text(money, sizeof money, "%s an hour", outcome->scenario->prices.currency);
    day_page_write_lines(writer, outcome, "Nodes", "nodes", (const char *const[]){"all", "decode"},
                         2, day_page_nodes_of, 0);
    day_page_write_lines(writer, outcome, "Cost and theoretical income", money,
                         (const char *const[]){"cost", "income"}, 2, day_page_money_of, 0);
    day_page_write_lines(writer, outcome, "Speed of a user", "tokens a second",
                         (const char *const[]){"mean over tokens"}, 1, day_page_speed_of, 0);
    day_page_write_lines(writer, outcome, "Requests that run on a decode GPU", "requests",
                         (const char *const[]){"requests"}, 1, day_page_requests_of, 0);
    day_page_write_lines(writer, outcome, "Time to the first token (TTFT)", "seconds",
                         (const char *const[]){"p50", "p99"}, 2, first_of, 0);
    day_page_write_lines(writer, outcome, "Time for each further token (TPOT)", "milliseconds",
                         (const char *const[]){"mean of tokens", "p50 of ended", "p99 of ended"}, 3,
                         further_of, 0);
    day_page_write_lines(writer, outcome, "KV pages held in decode, prefill's time in steps", "%",
                         (const char *const[]){"KV pages held", "prefill busy"}, 2, pages_of, 0);
    day_page_write_lines(writer, outcome, "Experts: largest rank over mean", "ratio",
                         (const char *const[]){"prefill", "decode"}, 2, balance_of, 1);
    write_layers(writer, outcome);
    day_page_write_lines(writer, outcome, "Hits by where they were", "% of prompts' tokens",
                         (const char *const[]){"device", "host", "storage"}, 3, day_page_hits_of,
                         0);
    day_page_write_spent(writer, outcome);
}

void day_page_write(struct json_writer *writer, const struct day_outcome *outcome) {
    char title[TREE_TEXT_BYTES + 32];
    format_text(title, sizeof title, "fathom sim: %s", outcome->scenario->name);
    outcome_page_head(writer, title);
    json_writer_print(
        writer,
        "<p>Seed %llu. Each segment of the day is a window of %.6g s in virtual time: one "
        "decode unit and its share of the prefill units in full detail.</p>\n",
        (unsigned long long)outcome->scenario->options.seed, outcome->scenario->load.day.measure_s);
    json_writer_text(writer, "<h2>Published and simulated</h2>\n");
    outcome_page_figures(writer, outcome->figures, outcome->figure_count);
    json_writer_text(writer, "<h2>By hour</h2>\n<div class=\"charts\">\n");
    day_page_write_charts(writer, outcome);
    json_writer_text(writer, "</div>\n<h2>Parameters</h2>\n<p>Of the scenario with its hardware, "
                             "model and prices, as the run took them.</p>\n");
    outcome_page_parameters(writer, outcome->scenario->tree);
    json_writer_text(writer, "</body></html>\n");
}
