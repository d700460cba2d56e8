/* SPDX-License-Identifier: Apache-2.0
 * The engines of a unit's ranks, which compute nothing: of each plan they keep what its answer
 * needs, tell the clock what each rank has to do, and answer when the time has passed.
 *
 * Which request a row belongs to, its sampling's seed says: the request's number in the twin. A
 * token depends on that and on its place in the answer alone, and none ends an answer.
 */
#ifndef SIMULATE_TWIN_TWIN_ENGINE_H
#define SIMULATE_TWIN_TWIN_ENGINE_H

#include "contract/step_plan.h"
#include "serving/policy/choose_overlap.h"
#include "simulate/hardware/step_clock.h"
#include "simulate/twin/twin.h"

struct twin_row { /* of a plan: what its answer needs */
    uint64_t request;
    uint32_t slot, output_position;
    uint32_t samples, drafts;
};

struct twin_engine_plan {
    uint64_t step;
    uint32_t row_count;
    bool told; /* in the step at hand */
};

struct twin_engine {
    const struct model_figures *model;
    struct step_clock *clock;
    uint32_t rank_count, rows_max;
    int overlap; /* enum overlap_kind; -1: chosen by measurement */
    struct choose_overlap choose;
    struct choose_overlap_step size; /* of the step at hand */
    enum overlap_kind kind;
    struct step_share *shares;      /* [rank_count] */
    double *slowness;               /* [rank_count] the caller's to set */
    struct twin_engine_plan *plans; /* [rank_count] */
    struct twin_row *rows;          /* [rank_count][rows_max] */
    uint32_t told;                  /* plans of the step at hand */
    struct step_time time;          /* of it */
    int64_t told_ns;                /* what it would take with its prompts */
    uint64_t drafts, drafts_right;
};

struct twin_engine_sum {      /* of a step, over its ranks */
    uint64_t answered_tokens; /* in the form GENERATED, drafts with them */
    uint64_t load[TWIN_LOAD_COUNT], load_most[TWIN_LOAD_COUNT]; /* of all, of the fullest */
};

size_t twin_engine_bytes(uint32_t ranks, uint32_t rows_max);

/* The clock and the model live as long. False when the arena is out of memory. */
bool twin_engine_open(struct twin_engine *engine, struct arena *arena, struct step_clock *clock,
                      const struct model_figures *model, uint32_t ranks, uint32_t rows_max,
                      int overlap);

/* No step is at hand: what was told of one is forgotten. */
void twin_engine_forget(struct twin_engine *engine);

/* A rank's part of the step; true: it is the last one. */
bool twin_engine_take(struct twin_engine *engine, const struct step_plan *plan);

/* All parts are there: how long the step takes that begins now, which is kept in `time`.
 * `prompts_free`: as if it had no prompts' tokens. */
struct twin_engine_sum twin_engine_begin(struct twin_engine *engine, int64_t now_ns,
                                         bool prompts_free);

/* The step took so long (not what the clock says where time does not count). */
void twin_engine_observe(struct twin_engine *engine, int64_t ns);

/* Bytes of a rank's answer at most. */
size_t twin_engine_result_bytes(uint32_t rows_max);

/* A rank's answer; result_out has twin_engine_result_bytes. Returns the tokens in it. */
uint32_t twin_engine_end(struct twin_engine *engine, uint32_t rank, int64_t compute_ns,
                         struct step_result *result_out);

#endif
