/* SPDX-License-Identifier: Apache-2.0
 * A fleet whose units come and go, for days: the product's own manager (serving/fleet) beside simpler rules,
 * in virtual time, with tokens that flow like water. A unit bears so many tokens a second; what comes on
 * top waits, or makes answers slower:
 *
 *   TTFT is missed in a window in which a prompt that comes would wait longer than the limit:
 *   prompts' tokens that wait over what the prefill units that serve can do
 *   TPOT is missed in a window in which answers want more tokens a second than the decode units that
 *   serve can make within the limit
 *
 * Who launches units, and who watches them, fails as told: starts that fail or never come, units that
 * die, a manager that is killed and begins anew, looks that see nothing, actions that are lost. What must
 * hold is checked all the time; a breach is a text.
 */
#ifndef SIMULATE_SCALING_SCALED_WORLD_H
#define SIMULATE_SCALING_SCALED_WORLD_H

#include "serving/fleet/fleet_manager.h"

enum scaled_rule {
    SCALED_MANAGER, /* the product's */
    SCALED_STATIC,  /* as many units as the largest load wants, all day */
    SCALED_CLAIRVOYANT, /* as few as bear the load of each window, known beforehand; moves cost nothing */
    SCALED_REACTIVE, /* utilisation over a target, as Kubernetes' horizontal autoscaler has it */
    SCALED_DYNAMO,   /* NVIDIA Dynamo's planner, throughput-based, with its last-value predictor */
    SCALED_RULE_COUNT
};

const char *scaled_rule_name(enum scaled_rule rule);

struct scaled_faults {    /* zeros: none */
    double start_fails;   /* share of starts that end before they serve */
    double never_comes;   /* share of starts that stay in their queue */
    double dies_per_hour; /* of each unit that serves */
    double manager_dies_per_hour;
    double blind_per_hour; /* times that nothing can be looked at, */
    int64_t blind_ns;      /* for so long */
    double action_lost;    /* share of actions that nobody carries out */
};

struct scaled_options {
    struct fleet_manager_options manager;
    enum scaled_rule rule;
    /* Requests that come a second. */
    double (*arrivals)(const void *load, int64_t at_ns);
    const void *load;
    double prompt_tokens, answer_tokens; /* of a request; prompts' computed ones */
    /* How many times as long prompts are then; NULL: as long as ever. */
    double (*prompts)(const void *load, int64_t at_ns);
    double noise;       /* relative, of the load of a while: its standard deviation */
    int64_t noise_ns;   /* that while */
    int64_t tick_ns;    /* a window */
    int64_t begin_ns;   /* lived from here, */
    int64_t measure_ns; /* counted from here, */
    int64_t end_ns;     /* to here */
    uint64_t seed;
    struct scaled_faults faults;
    int64_t
        calm_ns; /* before the end no fault strikes for so long; > 0: then all must be in order */
    /* A line of the manager's calendar, which must be kept: from_ns < until_ns of each day. */
    struct {
        int64_t from_ns, until_ns;
        uint32_t nodes;
    } promise;
};

struct scaled_outcome {
    uint64_t windows, late_windows, slow_windows, missed_windows; /* missed: one or the other */
    double node_hours;
    double nodes_mean;
    uint32_t nodes_max;
    uint64_t starts, drains, kills;
    uint64_t
        reversals; /* growth behind shrinking, or the opposite, of the side with more of them */
    uint64_t manager_lives;
    uint32_t hour_nodes[24]; /* at the middle of each 24th of the day, of the last day */
    const char *breach;      /* NULL: what must hold held */
    int64_t breach_ns;
};

/* Arena bytes for a run. */
size_t scaled_world_bytes(void);

enum status scaled_world_run(struct arena *arena, const struct scaled_options *options,
                             struct scaled_outcome *outcome_out) MUST_USE;

#endif
