/* SPDX-License-Identifier: Apache-2.0
 * Simulates a fleet with a changing number of units over days. The product's own manager
 * (serving/fleet), or a simpler rule for comparison, starts and ends units in virtual time. Tokens
 * are a continuous flow: a unit serves a number of tokens per second, and excess load waits or
 * makes answers slower.
 *
 *   TTFT is missed in a window in which an arriving prompt would wait longer than the limit:
 *   waiting prompt tokens over the capacity of the serving prefill units
 *   TPOT is missed in a window in which answers need more tokens a second than the serving decode
 *   units can make within the limit
 *
 * Launches and observations fail as configured: starts fail or never end, units die, the manager is
 * killed and restarted, observations fail, actions are lost. Invariants are checked at all times; a
 * breach is a text.
 */
#pragma once

#include "serving/fleet/fleet_manager.h"

enum scaled_rule {
    SCALED_MANAGER,     /* the product's manager */
    SCALED_STATIC,      /* all day as many units as the largest load requires */
    SCALED_CLAIRVOYANT, /* the fewest units that serve the load of each window, known in advance;
                         * changes are free */
    SCALED_REACTIVE,    /* utilisation over a target, as in Kubernetes' HorizontalPodAutoscaler */
    SCALED_DYNAMO,      /* NVIDIA Dynamo's throughput-based planner with its last-value predictor */
    SCALED_RULE_COUNT
};

const char *scaled_world_rule_name(enum scaled_rule rule);

struct scaled_faults {    /* zeros: none */
    double start_fails;   /* share of starts that fail before they serve */
    double never_comes;   /* share of starts that stay queued forever */
    double dies_per_hour; /* for each serving unit */
    double manager_dies_per_hour;
    double blind_per_hour; /* how often nothing can be observed, */
    int64_t blind_ns;      /* and for how long */
    double action_lost;    /* share of actions that are never executed */
};

struct scaled_options {
    struct fleet_manager_options manager;
    enum scaled_rule rule;
    /* Requests per second. */
    double (*arrivals)(const void *load, int64_t at_ns);
    const void *load;
    double prompt_tokens, answer_tokens; /* per request; prompt tokens that are not cached */
    /* The factor on prompt lengths at that time; NULL: 1. */
    double (*prompts)(const void *load, int64_t at_ns);
    double noise;       /* relative standard deviation of the load */
    int64_t noise_ns;   /* its correlation time */
    int64_t tick_ns;    /* length of a window */
    int64_t begin_ns;   /* start of the run, */
    int64_t measure_ns; /* start of counting, */
    int64_t end_ns;     /* end of the run */
    uint64_t seed;
    struct scaled_faults faults;
    /* No faults occur during this time before the end. If > 0, all invariants of a healthy fleet
     * are checked then. */
    int64_t calm_ns;
    /* A promise of the manager's calendar that must be kept, from from_ns until until_ns of each
     * day. */
    struct {
        int64_t from_ns, until_ns;
        uint32_t nodes;
    } promise;
};

struct scaled_outcome {
    uint64_t windows, missed_windows; /* missed: prompts were late or answers slow */
    double node_hours;
    double nodes_mean;
    uint32_t nodes_max;
    uint64_t starts, drains, kills;
    uint64_t reversals; /* growth after shrinking, or the reverse, on the side with more of them */
    uint64_t manager_lives;
    uint32_t hour_nodes[24]; /* in the middle of each hour of the last day */
    const char *breach;      /* NULL: all invariants held */
    int64_t breach_ns;
};

/* Arena bytes for one run. */
size_t scaled_world_bytes(void);

enum status scaled_world_run(struct arena *arena, const struct scaled_options *options,
                             struct scaled_outcome *outcome_out) MUST_USE;
