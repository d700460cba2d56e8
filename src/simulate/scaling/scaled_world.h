/* SPDX-License-Identifier: Apache-2.0
 * A fleet with a changing number of units, for days: the product's own manager (serving/fleet) and
 * simpler rules to compare with, in virtual time, with tokens as a continuous flow. A unit serves a
 * number of tokens per second. The excess waits, or makes answers slower:
 *
 *   TTFT is missed in a window in which an arriving prompt would wait longer than the limit:
 *   waiting prompt tokens over the capacity of the serving prefill units
 *   TPOT is missed in a window in which answers need more tokens a second than the serving decode
 *   units can make within the limit
 *
 * Launches and observation fail as configured: starts fail or never end, units die, the manager is
 * killed and restarted, observations fail, actions are lost. Invariants are checked all the time; a
 * breach is a text.
 */
#pragma once

#include "serving/fleet/fleet_manager.h"

enum scaled_rule {
    SCALED_MANAGER,     /* the product's manager */
    SCALED_STATIC,      /* as many units as the largest load requires, all day */
    SCALED_CLAIRVOYANT, /* the fewest that serve the load of each window, known beforehand; changes
                         * cost nothing */
    SCALED_REACTIVE,    /* utilisation over a target, as in Kubernetes' horizontal autoscaler */
    SCALED_DYNAMO, /* NVIDIA Dynamo's planner, throughput-based, with its last-value predictor */
    SCALED_RULE_COUNT
};

const char *scaled_world_rule_name(enum scaled_rule rule);

struct scaled_faults {    /* zeros: none */
    double start_fails;   /* share of starts that fail before they serve */
    double never_comes;   /* share of starts that stay queued for ever */
    double dies_per_hour; /* rate for each serving unit */
    double manager_dies_per_hour;
    double blind_per_hour; /* times per hour at which nothing can be observed, */
    int64_t blind_ns;      /* and their duration */
    double action_lost;    /* share of actions that are never executed */
};

struct scaled_options {
    struct fleet_manager_options manager;
    enum scaled_rule rule;
    /* Requests per second. */
    double (*arrivals)(const void *load, int64_t at_ns);
    const void *load;
    double prompt_tokens, answer_tokens; /* of a request; only computed prompt tokens */
    /* The factor on prompts' lengths at that time; NULL: 1. */
    double (*prompts)(const void *load, int64_t at_ns);
    double noise;       /* relative standard deviation of the load */
    int64_t noise_ns;   /* the time over which it changes */
    int64_t tick_ns;    /* a window */
    int64_t begin_ns;   /* start of the run, */
    int64_t measure_ns; /* start of counting, */
    int64_t end_ns;     /* end of the run */
    uint64_t seed;
    struct scaled_faults faults;
    /* no faults occur in this time before the end; > 0: all invariants of a healthy fleet are then
     * checked */
    int64_t calm_ns;
    /* A promise of the manager's calendar, which must be kept: from_ns < until_ns of each day. */
    struct {
        int64_t from_ns, until_ns;
        uint32_t nodes;
    } promise;
};

struct scaled_outcome {
    uint64_t windows, missed_windows; /* missed: prompts were late, or answers slow */
    double node_hours;
    double nodes_mean;
    uint32_t nodes_max;
    uint64_t starts, drains, kills;
    uint64_t reversals; /* growth after shrinking, or the reverse, of the side with more of them */
    uint64_t manager_lives;
    uint32_t hour_nodes[24]; /* at the middle of each 24th of the last day */
    const char *breach;      /* NULL: all invariants held */
    int64_t breach_ns;
};

/* Arena bytes for a run. */
size_t scaled_world_bytes(void);

enum status scaled_world_run(struct arena *arena, const struct scaled_options *options,
                             struct scaled_outcome *outcome_out) MUST_USE;
