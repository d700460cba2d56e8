/* SPDX-License-Identifier: Apache-2.0
 * The sums of a day of windows, and its figures next to the published ones. A figure is an input
 * (given to the run), an identity (follows from inputs by arithmetic, but is summed from the
 * counters of the run), or a prediction. It is marked as fitted if its published value was used to
 * fit a parameter of the hardware file.
 */
#pragma once

#include "simulate/simulator/day.h"

struct day_prices { /* per million tokens; per node and hour */
    double hit, miss, output, node_hour;
};

struct day_hour_sums {    /* one hour of the day */
    double input, output; /* tokens, scaled */
    double prefill_node_hours, decode_node_hours;
    double speed, speed_tokens;           /* sum weighted by tokens; tokens */
    double decode_rows, decode_gpu_hours; /* running requests of a decode GPU, times hours; hours */
};

struct day_sums {
    struct day_hour_sums hours[DAY_HOURS];
    double node_hours[UNIT_ROLE_COUNT], nodes_peak;
    double gpus_per_node;
    double prompt, computed, hits, output; /* tokens, scaled */
    double speed, speed_tokens;
    double rows_gpu_hours, gpu_hours; /* running requests of decode GPUs, times hours; hours */
    double context, context_rows;     /* KV positions that answer rows read; number of rows */
    double kv_bytes_gpu_hours;
    double transfer_bytes, storage_bytes; /* scaled */
    double offered_input, offered_output, window_input, window_output;
};

/* Adds a segment, with the report of the window that represents it. The window had the load of the
 * segment `shared`, which is the same or a similar one. */
void day_figures_sums_add(struct day_sums *sums, const struct day_segment *segment,
                          const struct day_segment *shared, const struct simulator_options *options,
                          const struct simulator_report *report);

enum figure_kind { FIGURE_INPUT, FIGURE_IDENTITY, FIGURE_PREDICTION };

struct day_figure {
    const char *name, *unit;
    enum figure_kind kind;
    bool fitted;
    uint8_t published_count; /* 0: not published; 1: a value; 2: a range */
    double published[2];
    double simulated;
};

#define DAY_FIGURES_MAX 64

struct day_profile { /* step times by the clock, in ms */
    double decode_ms, prefill_ms;
};

/* "input", "identity", "prediction" */
const char *day_figures_kind_name(enum figure_kind kind);

/* Writes figures_out[DAY_FIGURES_MAX] and returns their number. */
uint32_t day_figures(const struct day_sums *sums, const struct day_prices *prices,
                     const struct model_figures *model, const struct day_profile *profile,
                     struct day_figure *figures_out);

/* The relative distance to the nearer end of the published range; 0 within it. */
double day_figures_error(const struct day_figure *figure);

/* Computes the two steps of DeepSeek's profile-data. Decode: EP128, 128 requests of 2 tokens per
 * GPU, context 4,096. Prefill: EP32, 16,384 tokens per GPU in prompts of 4,096. Both have balanced
 * experts, as in the recordings. The clocks use `memory`, which is cleared. */
enum status day_figures_profile_steps(const struct hardware *hardware,
                                      const struct model_figures *model, struct arena *memory,
                                      struct day_profile *profile_out,
                                      struct error *error) MUST_USE;
