/* SPDX-License-Identifier: Apache-2.0
 * The results of a day of windows: its figures next to the published ones, and each window. Text
 * and JSON are written from it.
 */
#pragma once

#include "simulate/report/outcome.h"

struct day_window_outcome {
    struct day_segment segment;
    bool whole;          /* all units of the fleet, not a sample */
    double speed;        /* tokens a second of a user, mean over tokens */
    double requests_gpu; /* requests that run on a decode GPU */
    double kv_tokens;    /* that a token of an answer reads */
    double hit_share;
    double input_of_offered, output_of_offered; /* arrived tokens, before scaling */
    double ttft_p50_s, ttft_p99_s, tpot_p50_s, tpot_p99_s;
    double prefill_busy, decode_busy;       /* share of the time in steps */
    double prefill_balance, decode_balance; /* of experts: largest rank over mean */
    double decode_step_s, prefill_step_s;
    double pages_share;                          /* held share of decode units' KV pages */
    double device_share, host_share, disk_share; /* of prompts' hits */
    double spent[2][STEP_SPENT_COUNT + 1]; /* of prefill, decode GPU time: shares; the last: idle */
};

struct day_layers {           /* of a role's experts: largest rank over mean, by layer */
    double sum[LIMIT_LAYERS]; /* over windows, multiplied by their weights */
    double weight;            /* hours of units */
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

/* Adds a segment with the window that represents it. The window had the load of `shared`. */
void day_outcome_add(struct day_outcome *outcome, const struct day_segment *segment,
                     const struct day_segment *shared, bool whole, const struct outcome *window,
                     const struct simulator_options *options);

/* For a layer with experts, mean over the day. Role 0: prefill, 1: decode. */
double day_outcome_balance(const struct day_outcome *outcome, int role, uint32_t layer);

/* Sorts the segments when all are added, and computes the figures. */
void day_outcome_end(struct day_outcome *outcome);

void day_outcome_write_text(struct json_writer *writer, const struct day_outcome *outcome);
void day_outcome_write_json(struct json_writer *writer, const struct day_outcome *outcome);
