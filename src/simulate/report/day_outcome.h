/* SPDX-License-Identifier: Apache-2.0
 * The results of a simulated day: its figures next to the published ones, and its windows. It is
 * written as text or as JSON.
 */
#pragma once

#include "simulate/report/outcome.h"

struct day_window_outcome {
    struct day_segment segment;
    bool whole;          /* all units of the fleet were simulated, not a sample */
    double speed;        /* tokens per second of a user, mean over tokens */
    double requests_gpu; /* running requests per decode GPU */
    double kv_tokens;    /* read by an answer token, mean */
    double hit_share;
    double input_of_offered, output_of_offered; /* token rate over the offered rate, unscaled */
    double ttft_p50_s, ttft_p99_s, tpot_p50_s, tpot_p99_s;
    double prefill_busy, decode_busy;       /* share of the time spent in steps */
    double prefill_balance, decode_balance; /* of expert loads: largest rank over mean */
    double decode_step_s, prefill_step_s;
    double pages_share;                          /* share of the decode units' KV pages in use */
    double device_share, host_share, disk_share; /* of the cached prompt tokens */
    double spent[2][STEP_SPENT_COUNT +
                    1]; /* shares of the GPU time of prefill, decode; the last one: idle */
};

struct day_layers {           /* of a role: largest expert load of a rank over mean, by layer */
    double sum[LIMIT_LAYERS]; /* over windows, weighted */
    double weight;            /* unit hours */
};

struct day_outcome {
    const struct scenario *scenario;
    struct day_sums sums;
    struct day_profile profile;
    struct day_figure figures[DAY_FIGURES_MAX];
    uint32_t figure_count;
    struct day_window_outcome windows[DAY_SEGMENTS_MAX];
    uint32_t window_count;
    struct day_layers layers[2]; /* of prefill, decode */
    struct day_lengths lengths;
};

/* Adds a segment and the window that represents it. The window had the load of the segment
 * `shared`. */
void day_outcome_add(struct day_outcome *outcome, const struct day_segment *segment,
                     const struct day_segment *shared, bool whole, const struct outcome *window,
                     const struct simulator_options *options);

/* The balance of a layer with experts, mean over the day. Role 0: prefill, 1: decode. */
double day_outcome_balance(const struct day_outcome *outcome, int role, uint32_t layer);

/* Sorts the segments and computes the figures, when all segments are added. */
void day_outcome_end(struct day_outcome *outcome);

void day_outcome_write_text(struct json_writer *writer, const struct day_outcome *outcome);
void day_outcome_write_json(struct json_writer *writer, const struct day_outcome *outcome);
