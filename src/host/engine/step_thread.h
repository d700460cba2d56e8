/* SPDX-License-Identifier: Apache-2.0
 * The work of the engine's thread. It collects the plans of a step until every rank has one,
 * completes them, runs the step on all ranks, and returns each rank's result. Between two steps it
 * moves experts and masks ranks, as the rebalancer (host/engine/rebalancer) or a DRAIN requires.
 */
#pragma once

#include "contract/slot_pages.h"
#include "host/engine/micro_batches.h"
#include "host/engine/rebalancer.h"
#include "host/wire/worker.h"

struct step_thread {
    struct rank_group *group;      /* borrowed */
    struct rebalancer *rebalancer; /* borrowed */
    struct micro_batches micro_batches;
    struct slot_pages *slots; /* [ranks] */
    void *slot_memory;
    struct step_plan **plans; /* [ranks] completed copies of the plans received: plan_count */
    uint32_t plan_count;
    int64_t step_ns_min;
    struct step_result **results; /* [ranks] */
    bool *dead;                   /* [ranks] dead, and reported to the unit */
    struct rank_report *reports;  /* [ranks] */
};

struct step_thread_limits { /* of each rank */
    uint32_t step_rows_max, step_tokens_max;
    uint32_t slots_max, context_tokens_max;
    int64_t step_ns_min; /* the result of a faster step is delayed until then */
};

/* `schedule`: a name for micro_batches_named. Borrows group and rebalancer. STATUS_NO_MEMORY. */
enum status step_thread_open(struct step_thread *thread, struct rank_group *group,
                             struct rebalancer *rebalancer, const char *schedule,
                             const struct step_thread_limits *limits, struct error *error);
/* Also closes a zeroed thread that was never opened. */
void step_thread_close(struct step_thread *thread);

/* A worker_function (host/wire/worker.h) on a struct step_thread. Takes RUN_STEP, DRAIN, or NULL if
 * it asked for a further call. */
void step_thread_take(void *context, struct worker *worker, const struct record *record);
