/* SPDX-License-Identifier: Apache-2.0
 * The work of the engine's thread: it takes the plans of a step until every rank's is there, makes
 * whole ones of them, runs the step on all ranks and answers with each rank's result. Between two
 * steps it moves experts and masks ranks, as host/engine/rebalancer has decided or a DRAIN says.
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
    struct step_plan **plans; /* [ranks] whole copies of those that have come: plan_count */
    uint32_t plan_count;
    int64_t step_ns_min;
    struct step_result **results; /* [ranks] */
    bool *dead;                   /* [ranks] and reported to the unit */
    struct rank_report *reports;  /* [ranks] */
};

struct step_thread_limits { /* of each rank */
    uint32_t step_rows_max, step_tokens_max;
    uint32_t slots_max, context_tokens_max;
    int64_t step_ns_min; /* a step that is done sooner is reported only then */
};

/* `schedule` as micro_batches_named knows it. Borrows group and rebalancer. STATUS_NO_MEMORY. */
enum status step_thread_open(struct step_thread *thread, struct rank_group *group,
                             struct rebalancer *rebalancer, const char *schedule,
                             const struct step_thread_limits *limits, struct error *error);
/* Also of one that was zeroed and not opened. */
void step_thread_close(struct step_thread *thread);

/* A worker_function (host/wire/worker.h) on a struct step_thread: takes RUN_STEP and DRAIN, or
 * NULL when it has asked to be called again without one. */
void step_thread_take(void *context, struct worker *worker, const struct record *record);
