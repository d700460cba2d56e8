/* SPDX-License-Identifier: Apache-2.0
 * How long a step of a unit takes on a given hardware with a given model, where it computes
 * nothing: a clock for worlds in virtual time. A unit has one clock, because its experts lie
 * somewhere, are loaded unevenly, and move.
 *
 * Stage times of each rank follow from what it computes (struct step_share) and from the hardware
 * file; the unit's ranks wait for each other where the overlap table makes them (dispatch and
 * combine), so the step's time is that of the table, walked in virtual time by all ranks, each with
 * one link and one processor (unit_walk.h). Where stage times are a table of this engine's, results leave
 * in waves as its exchange sends them; by DeepSeek's published rates they leave at once, as DeepEP has
 * it. Hardware whose whole steps were measured (`fathom bench calibrate`) has no stages: its steps are
 * interpolated.
 */
#ifndef SIMULATE_HARDWARE_STEP_CLOCK_H
#define SIMULATE_HARDWARE_STEP_CLOCK_H

#include "base/arena.h"
#include "contract/overlap.h"
#include "simulate/hardware/hardware_file.h"

struct step_clock;

struct step_clock_options {
    const struct hardware *hardware; /* live as long as the clock */
    const struct model_figures *model;
    uint32_t ranks;             /* DP ranks of the unit, each with its share of the experts (EP) */
    uint32_t ranks_per_node;    /* consecutive ones */
    uint32_t redundant_experts; /* slots beyond one for each expert, in all */
    bool balance_experts;       /* placed and moved by serving/policy; else consecutive experts lie
                                 * together and stay there */
    bool makes_answers;         /* and computes no prompts: experts lie with all nodes alike */
    bool whole_groups;          /* of experts, on nodes where they divide, whatever it costs */
    double expert_skew;         /* sigma of the lognormal loads of a layer's experts; 0: all are
                                 * chosen equally often in every step, as in DeepSeek's profiles */
    const double *expert_logs;  /* [layers with experts][experts] NULL: loads are drawn; else their
                                 * logarithms by expert_skew, at first */
    double expert_drift;        /* share of the logarithm's variance that is new each hour, 0..1 */
    uint64_t seed;
};

/* What a rank computes in a step. Zeros: it only computes for the others. */
struct step_share {
    uint32_t prompt_tokens; /* in the form PROMPT */
    uint32_t answer_rows;   /* requests with tokens in the form GENERATED */
    uint32_t answer_tokens; /* of them: one each, drafts, forced ones */
    uint64_t attended;      /* positions that the prompt tokens attend to, summed over them */
    uint64_t cached;        /* positions before the prompt rows that are read back and expanded */
    uint64_t context;       /* positions that the answer rows read, summed over them */
    double slowness;        /* its processor takes so many times as long; 1: as the file says */
};

/* Where the ranks' time went: seconds, summed over ranks. */
enum step_spent {
    SPENT_ATTENTION,
    SPENT_EXPERTS,   /* routed ones and dense layers */
    SPENT_SHARED,    /* the shared expert */
    SPENT_COMM,      /* a transfer that nothing hides */
    SPENT_IMBALANCE, /* for other ranks: longer contexts, busier experts, a slow processor */
    SPENT_OTHER,     /* head, sampling, launches */
    SPENT_MOVES,     /* experts that change their rank */
    STEP_SPENT_COUNT
};

struct step_time {
    int64_t ns;
    int64_t layers_ns; /* of it: what the layers take; the rest are head, sampling, launches, moves.
                        * 0 where whole steps were measured */
    double spent[STEP_SPENT_COUNT];
};

size_t step_clock_bytes(const struct step_clock_options *options);

/* STATUS_INVALID names what the hardware or the model lacks for such a unit. */
enum status step_clock_open(struct arena *arena, const struct step_clock_options *options,
                            struct step_clock **clock_out, struct error *error) MUST_USE;

/* A step that begins at now_ns, of all ranks: shares[ranks]. Times never go back. Experts' loads
 * drift, and experts move, with the time. */
struct step_time step_clock_step(struct step_clock *clock, const struct step_share *shares,
                                 enum overlap_kind kind, int64_t now_ns);

/* Largest rank load over mean, of experts: of a layer, or over all layers (mean). 1: even. */
double step_clock_balance(const struct step_clock *clock, uint32_t layer);
double step_clock_balance_mean(const struct step_clock *clock);
uint64_t step_clock_moves(const struct step_clock *clock); /* experts that came to a rank so far */
uint64_t step_clock_moves_far(const struct step_clock *clock); /* of those: from another node */
/* Nodes that a prompt's token goes to, its own too, mean over layers; 0: groups of experts do not
 * divide over nodes. */
double step_clock_copies(const struct step_clock *clock);

/* From the next step on, a few experts of each layer (one in 32, drawn anew) are chosen so many
 * times as often as they would be; 1: no more. The balancer learns of it as of any other load. */
void step_clock_heat(struct step_clock *clock, double factor, int64_t now_ns);

/* Bytes of weights on a rank, and of KV pages that the rest of its memory holds. */
double step_clock_weight_bytes(const struct step_clock *clock);
uint32_t step_clock_page_count(const struct step_clock *clock);

#endif
