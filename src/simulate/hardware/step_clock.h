/* SPDX-License-Identifier: Apache-2.0
 * The duration of a unit's step on given hardware with a given model, without computing anything: a
 * clock for simulations in virtual time. A unit has a clock of its own, because its experts have a
 * placement, are loaded unevenly, and move.
 *
 * Stage times of each rank follow from its work (struct step_share) and from the hardware file. The
 * unit's ranks wait for each other where the overlap table requires it (dispatch and combine). The
 * step's time is therefore that of the table, executed in virtual time by all ranks, each with one
 * link and one processor (unit_schedule.h). If stage times come from a table of this engine,
 * results are sent in expert batches, as in its exchange. With DeepSeek's published rates they are
 * sent at once, as in DeepEP. Hardware with measured whole steps (`fathom bench calibrate`) has no
 * stages: its steps are interpolated.
 */
#pragma once

#include "base/arena.h"
#include "contract/overlap.h"
#include "simulate/hardware/hardware_file.h"

struct step_clock;

struct step_clock_options {
    const struct hardware *hardware; /* both must live as long as the clock */
    const struct model_figures *model;
    uint32_t ranks;             /* DP ranks of the unit, each with its share of the experts (EP) */
    uint32_t ranks_per_node;    /* consecutive ones */
    uint32_t redundant_experts; /* slots beyond one for each expert, in total */
    bool balance_experts;       /* placed and moved by serving/policy; otherwise consecutive experts
                                 * stay together */
    bool makes_answers;         /* the unit computes no prompts: experts are placed with all nodes
                                 * treated alike */
    double expert_skew;         /* sigma of the lognormal loads of a layer's experts; 0: all are
                                 * chosen equally often in every step, as in DeepSeek's profiles */
    double expert_drift;        /* share of the logarithm's variance that is new each hour, 0..1 */
    uint64_t seed;
};

/* The work of a rank in a step. Zeros: it computes only experts of other ranks' tokens. */
struct step_share {
    uint32_t prompt_tokens; /* in the form PROMPT */
    uint32_t answer_rows;   /* requests with tokens in the form GENERATED */
    uint32_t answer_tokens; /* of these requests: one each, drafts, forced ones */
    uint64_t attended;      /* positions that the prompt tokens attend to, summed over them */
    uint64_t cached;        /* positions before the prompt rows that are read back and expanded */
    uint64_t context;       /* positions that the answer rows read, summed over them */
    double slowness;        /* factor on its compute times; 1: as in the file */
};

/* The ranks' time by cause: seconds, summed over ranks. */
enum step_spent {
    SPENT_ATTENTION,
    SPENT_EXPERTS,   /* routed ones and dense layers */
    SPENT_SHARED,    /* the shared expert */
    SPENT_COMM,      /* a transfer that nothing hides */
    SPENT_IMBALANCE, /* waiting for other ranks: longer contexts, busier experts, a slow
                      * processor */
    SPENT_OTHER,     /* head, sampling, launches */
    SPENT_MOVES,     /* experts that change their rank */
    STEP_SPENT_COUNT
};

struct step_time {
    int64_t ns;
    int64_t layers_ns; /* the part of the layers; the rest is head, sampling, launches and moves. 0
                        * if whole steps were measured */
    double spent[STEP_SPENT_COUNT];
};

size_t step_clock_bytes(const struct step_clock_options *options);

/* Returns STATUS_INVALID with an error that names the missing property of the hardware or the
 * model. */
enum status step_clock_open(struct arena *arena, const struct step_clock_options *options,
                            struct step_clock **clock_out, struct error *error) MUST_USE;

/* The time of a step that begins at now_ns, of all ranks: shares[ranks]. now_ns never decreases.
 * Experts' loads drift, and experts move, with the time. */
struct step_time step_clock_step(struct step_clock *clock, const struct step_share *shares,
                                 enum overlap_kind kind, int64_t now_ns);

/* The largest rank's load of experts over the mean: of a layer, or over all layers (mean). 1:
 * even. */
double step_clock_balance(const struct step_clock *clock, uint32_t layer);
double step_clock_balance_mean(const struct step_clock *clock);
uint64_t step_clock_moves(const struct step_clock *clock); /* experts that moved to a rank so far */

/* From the next step on, a few experts of each layer (one in 32, drawn anew) are chosen `factor`
 * times as often; 1: none. The balancer treats it as any other load. */
void step_clock_heat(struct step_clock *clock, double factor, int64_t now_ns);

/* The bytes of weights on a rank, and the number of KV pages that fit in the rest of its memory. */
double step_clock_weight_bytes(const struct step_clock *clock);
uint32_t step_clock_page_count(const struct step_clock *clock);
