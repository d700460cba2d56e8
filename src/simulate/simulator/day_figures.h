/* SPDX-License-Identifier: Apache-2.0
 * The sums of a day of windows, next to the published figures of that day. Each figure has a kind:
 * an input (given to the run), an identity (follows from inputs by arithmetic, but is still summed
 * from the run's own counters), or a prediction. A figure is marked as fitted if its own data was
 * used to fit a parameter of the hardware file.
 */
#pragma once

#include "simulate/simulator/day.h"

struct day_prices { /* per million tokens; per node and hour */
    double hit, miss, output, node_hour;
};

struct day_hour_sums {    /* one hour of the day */
    double input, output; /* tokens, scaled */
    double prefill_node_hours, decode_node_hours;
    double speed, speed_tokens;           /* token-weighted sum; tokens */
    double decode_rows, decode_gpu_hours; /* requests of a decode GPU: hours times requests */
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
    double offered_input, offered_output, window_input, window_output;
};

/* Adds a segment, with the report of the window that represents it. That window's load was the load
 * of `shared`, a similar segment or the same one. */
void day_figures_sums_add(struct day_sums *sums, const struct day_segment *segment,
                          const struct day_segment *shared, const struct simulator_options *options,
                          const struct simulator_report *report);

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

struct day_profile { /* steps by the clock, in ms */
    double decode_ms, prefill_ms;
};

/* "input", "identity", "prediction" */
const char *day_figures_kind_name(enum figure_kind kind);

/* Writes figures_out[DAY_FIGURES_MAX] and returns how many. */
uint32_t day_figures(const struct day_sums *sums, const struct day_prices *prices,
                     const struct model_figures *model, const struct day_profile *profile,
                     struct day_figure *figures_out);

/* 0 within the published range, otherwise the distance as a share of the nearer end. */
double day_figures_error(const struct day_figure *figure);

/* The two steps of DeepSeek's profile-data. Decode: EP128, 128 requests of 2 tokens a GPU, context
 * 4,096. Prefill: EP32, 16,384 tokens a GPU in prompts of 4,096. Both are balanced, as they were
 * recorded. The clocks use `memory`, which is cleared. */
enum status day_figures_profile_steps(const struct hardware *hardware,
                                      const struct model_figures *model, struct arena *memory,
                                      struct day_profile *profile_out,
                                      struct error *error) MUST_USE;
