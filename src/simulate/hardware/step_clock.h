/* SPDX-License-Identifier: Apache-2.0
 * Predicts the duration of a unit's step for given hardware and a given model, without computing
 * the step. It is the clock of simulations in virtual time. Each unit has its own clock, since the
 * placement, loads and moves of its experts are part of the state.
 *
 * The stage times of each rank follow from its work (struct step_share) and the hardware file.
 * Ranks wait for each other where the overlap table requires it, at dispatch and combine. So the
 * duration is that of the table, executed in virtual time by all ranks, each with one processor and
 * one link (unit_schedule.h). If stage times come from a table measured with this engine, expert
 * results are sent in batches, as in its exchange. With DeepSeek's published rates they are sent at
 * once, as in DeepEP. Hardware with measured whole steps (`fathom bench calibrate`) has no stages;
 * its step times are interpolated.
 */
#pragma once

#include "base/arena.h"
#include "contract/overlap.h"
#include "simulate/hardware/hardware_file.h"
#include "simulate/hardware/step_load.h"

struct step_clock;

struct step_clock_options {
    const struct hardware *hardware; /* it and `model` must live as long as the clock */
    const struct model_figures *model;
    uint32_t ranks;             /* DP ranks of the unit; the experts are divided among them (EP) */
    uint32_t ranks_per_node;    /* nodes have consecutive ranks */
    uint32_t redundant_experts; /* total slots beyond one for each expert */
    bool balance_experts;       /* serving/policy places and moves them; otherwise each rank has
                                 * consecutive experts */
    bool makes_answers;         /* a decode unit: experts are placed without regard to nodes */
    double expert_skew;         /* sigma of the lognormal loads of a layer's experts; 0: all are
                                 * chosen equally often in each step, as in DeepSeek's profiles */
    double expert_drift;        /* share of the log-variance that is renewed each hour, 0..1 */
    uint64_t seed;
};

/* A rank in a step. Without a load, it only computes its experts for the tokens of other ranks. */
struct step_share {
    struct step_load load;
    double slowness; /* factor on the compute times of the rank; normally 1 */
};

/* The time of the ranks by cause, in seconds, summed over ranks. */
enum step_spent {
    SPENT_ATTENTION,
    SPENT_EXPERTS,   /* routed experts, and dense layers */
    SPENT_SHARED,    /* the shared expert */
    SPENT_COMM,      /* transfers that no computation hides */
    SPENT_IMBALANCE, /* waiting for ranks with longer contexts, busier experts or slower
                      * processors */
    SPENT_OTHER,     /* LM head, sampling, launches */
    SPENT_MOVES,     /* waiting for experts that move */
    STEP_SPENT_COUNT
};

struct step_time {
    int64_t ns;
    int64_t layers_ns; /* of it, the layers; the rest is LM head, sampling, launches and moves. 0 if
                        * whole steps were measured */
    double spent[STEP_SPENT_COUNT];
};

size_t step_clock_bytes(const struct step_clock_options *options);

/* STATUS_INVALID names the property that the hardware or the model lacks. */
enum status step_clock_open(struct arena *arena, const struct step_clock_options *options,
                            struct step_clock **clock_out, struct error *error) MUST_USE;

/* The duration of a step of all ranks that begins at now_ns: shares[ranks]. now_ns must never
 * decrease. Expert loads drift, and experts move, as time passes. */
struct step_time step_clock_step(struct step_clock *clock, const struct step_share *shares,
                                 enum overlap_kind kind, int64_t now_ns);

/* The expert load of the most loaded rank over the mean, of one layer or averaged over all layers;
 * 1 is perfect balance. */
double step_clock_balance(const struct step_clock *clock, uint32_t layer);
double step_clock_balance_mean(const struct step_clock *clock);
uint64_t step_clock_moves(const struct step_clock *clock); /* experts moved so far */

/* From the next step on, a few experts of each layer (one in 32, drawn anew) are chosen `factor`
 * times as often; 1 ends this. For the balancer it is a load like any other. */
void step_clock_heat(struct step_clock *clock, double factor, int64_t now_ns);

/* The size of the weights on a rank in bytes, and the number of KV pages that fit in the rest of
 * its memory. */
double step_clock_weight_bytes(const struct step_clock *clock);
uint32_t step_clock_page_count(const struct step_clock *clock);
