/* SPDX-License-Identifier: Apache-2.0
 * The engines of the ranks of one unit, which compute nothing. They keep the data that the result
 * of each plan needs, pass the work of each rank to the step clock, and return results when the
 * time has passed.
 *
 * The sampling seed of a row is the number of its request in the simulator. A token depends only on
 * that number and on its position in the answer. No token is a stop token.
 */
#pragma once

#include "contract/step_plan.h"
#include "serving/policy/choose_overlap.h"
#include "simulate/hardware/step_clock.h"
#include "simulate/simulator/simulator.h"

struct simulator_row { /* of a plan: the data that its result needs */
    uint64_t request;
    uint32_t slot, output_position;
    uint32_t samples, drafts;
};

struct simulator_engine_plan {
    uint64_t step;
    uint32_t row_count;
    bool reported; /* received in the current step */
};

struct simulator_engine {
    const struct model_figures *model;
    struct step_clock *clock;
    uint32_t rank_count, rows_max;
    int overlap; /* enum overlap_kind; -1: chosen by measured times */
    struct choose_overlap choose;
    struct choose_overlap_step size; /* of the current step */
    enum overlap_kind kind;
    struct step_share *shares;           /* [rank_count] */
    double *slowness;                    /* [rank_count], set by the caller */
    struct simulator_engine_plan *plans; /* [rank_count] */
    struct simulator_row *rows;          /* [rank_count][rows_max] */
    uint32_t reported;                   /* plans of the current step received so far */
    struct step_time time;               /* of the current step */
    int64_t reported_ns;                 /* the duration of the step, including prompts */
};

size_t simulator_engine_bytes(uint32_t ranks, uint32_t rows_max);

/* `clock` and `model` must live as long as the engine. Returns false if the arena is out of
 * memory. */
bool simulator_engine_open(struct simulator_engine *engine, struct arena *arena,
                           struct step_clock *clock, const struct model_figures *model,
                           uint32_t ranks, uint32_t rows_max, int overlap);

/* Discards the plans of the current step. */
void simulator_engine_forget(struct simulator_engine *engine);

/* Adds the plan of a rank to the step. Returns true if it is the last one that was missing. */
bool simulator_engine_take(struct simulator_engine *engine, const struct step_plan *plan);

/* Begins the step when all plans are there, and stores its duration in `time`. With `prompts_free`,
 * prompt tokens take no time. Returns the load of all ranks. */
struct step_load simulator_engine_begin(struct simulator_engine *engine, int64_t now_ns,
                                        bool prompts_free);

/* Reports the duration that passed. It differs from the clock's while prompts take no time. */
void simulator_engine_observe(struct simulator_engine *engine, int64_t ns);

/* The largest size of a rank's result in bytes. */
size_t simulator_engine_result_bytes(uint32_t rows_max);

/* Writes a rank's result into result_out of simulator_engine_result_bytes. Returns its number of
 * tokens. */
uint32_t simulator_engine_end(struct simulator_engine *engine, uint32_t rank, int64_t compute_ns,
                              struct step_result *result_out);
