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
 * Nothing fails here. The faults of managers, launchers and units, and the invariants of a
 * manager's decisions, are in simulate/world/fleet_managers.h.
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
};

struct scaled_outcome {
    uint64_t windows, missed_windows; /* missed: prompts were late or answers slow */
    double node_hours;
    double nodes_mean;
    uint32_t nodes_max;
    uint64_t starts;
    uint64_t reversals; /* growth after shrinking, or the reverse, on the side with more of them */
    uint32_t hour_nodes[24]; /* in the middle of each hour of the last day */
};

/* Arena bytes for one run. */
size_t scaled_world_bytes(void);

enum status scaled_world_run(struct arena *arena, const struct scaled_options *options,
                             struct scaled_outcome *outcome_out) MUST_USE;
