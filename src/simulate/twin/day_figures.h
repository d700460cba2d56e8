/* SPDX-License-Identifier: Apache-2.0
 * What a day of windows adds up to, beside what was published of the day. Each figure says what it
 * is: an input (it was given to the run), an identity (it follows from inputs by arithmetic, and is
 * summed from the run's own counters all the same), or a prediction. One whose own data fitted a
 * parameter of the hardware file says so.
 */
#ifndef SIMULATE_TWIN_DAY_FIGURES_H
#define SIMULATE_TWIN_DAY_FIGURES_H

#include "simulate/twin/day.h"

struct day_prices { /* of a million tokens; of a node and hour */
    double hit, miss, output, node_hour;
};

struct day_hour_sums {    /* of one hour of the day */
    double input, output; /* tokens, scaled */
    double prefill_node_hours, decode_node_hours;
    double speed, speed_tokens;           /* token-weighted sum; tokens */
    double decode_rows, decode_gpu_hours; /* requests a decode GPU: hours times requests */
};

struct day_sums {
    struct day_hour_sums hours[DAY_HOURS];
    double node_hours[UNIT_ROLE_COUNT], nodes_peak;
    double gpus_per_node;
    double prompt, computed, hits, output; /* tokens, scaled */
    double speed, speed_tokens;
    double rows_gpu_hours, gpu_hours; /* requests that run on decode GPUs, times hours */
    double context, context_rows;     /* KV positions that answers' rows read; the rows */
    double kv_bytes_gpu_hours;
    double transfer_bytes, storage_bytes; /* scaled */
    double ttft_late, offered_input, offered_output, window_input, window_output;
};

/* A segment joins, with the report of the window that stands for it; the window's load was that of
 * `shared`, a segment that is like it, or the same one. */
void day_sums_add(struct day_sums *sums, const struct day_segment *segment,
                  const struct day_segment *shared, const struct twin_options *options,
                  const struct twin_report *report);

enum figure_kind { FIGURE_INPUT, FIGURE_IDENTITY, FIGURE_PREDICTION };

struct day_figure {
    const char *name, *unit;
    enum figure_kind kind;
    bool fitted;
    uint8_t published_count; /* 0: DeepSeek did not publish it; 1; 2: a range */
    double published[2];
    double simulated;
};

#define DAY_FIGURES_MAX 64

struct day_profile { /* of steps that the clock was asked for, in ms */
    double decode_ms, prefill_ms;
};

/* "input", "identity", "prediction" */
const char *figure_kind_name(enum figure_kind kind);

/* figures_out[DAY_FIGURES_MAX]; returns how many. */
uint32_t day_figures(const struct day_sums *sums, const struct day_prices *prices,
                     const struct model_figures *model, const struct day_profile *profile,
                     struct day_figure *figures_out);

/* 0 within the published range, or how far outside, as a share of the nearer end. */
double day_figure_error(const struct day_figure *figure);

/* The two steps of DeepSeek's profile-data: decode, EP128, 128 requests of 2 tokens a GPU, context
 * 4,096; prefill, EP32, 16,384 tokens a GPU in prompts of 4,096. Balanced, as they were recorded.
 * Clocks of `memory`, which is cleared. */
enum status day_profile_steps(const struct hardware *hardware, const struct model_figures *model,
                              struct arena *memory, struct day_profile *profile_out,
                              struct error *error) MUST_USE;

#endif
