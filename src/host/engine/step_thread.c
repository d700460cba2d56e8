/* SPDX-License-Identifier: Apache-2.0 */
#include "host/engine/step_thread.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "contract/record_unit.h"
#include "host/process/log/log.h"
#include "host/process/ranks/rank_health.h"
#include "host/process/ranks/rank_watch.h"

#define REBALANCE_IDLE_NS 1000000
#define LOOK_NS 100000000 /* interval of checks for dead ranks when no step runs */

/* Allocates memory for the limits of all slots; pages that are never written use no memory. */
static bool open_slots(struct step_thread *thread, const struct step_thread_limits *limits) {
    uint32_t ranks = rank_group_count(thread->group);
    uint32_t pages = (uint32_t)divide_up(limits->context_tokens_max, KV_BLOCK_TOKENS);
    size_t bytes = ranks * slot_pages_bytes(limits->slots_max, pages);
    struct arena arena;
    thread->slots = calloc(ranks, sizeof *thread->slots);
    thread->slot_memory = malloc(bytes);
    if (!thread->slots || !thread->slot_memory) return false;
    arena_over(&arena, thread->slot_memory, bytes);
    bool whole = true;
    for (uint32_t rank = 0; whole && rank < ranks; rank++)
        whole = slot_pages_open(&thread->slots[rank], &arena, limits->slots_max, pages);
    return whole;
}

enum status step_thread_open(struct step_thread *thread, struct rank_group *group,
                             struct rebalancer *rebalancer, const char *schedule,
                             const struct step_thread_limits *limits, struct error *error) {
    uint32_t ranks = rank_group_count(group);
    *thread = (struct step_thread){
        .group = group, .rebalancer = rebalancer, .step_ns_min = limits->step_ns_min};
    bool known = micro_batches_named(schedule, &thread->micro_batches);
    check(known);
    thread->plans = calloc(ranks, sizeof *thread->plans);
    thread->results = calloc(ranks, sizeof *thread->results);
    thread->dead = calloc(ranks, sizeof *thread->dead);
    thread->reports = calloc(ranks, sizeof *thread->reports);
    bool whole = thread->plans && thread->results && thread->dead && thread->reports &&
                 open_slots(thread, limits);
    size_t result_bytes = step_result_bytes_max(limits->step_rows_max, limits->step_tokens_max);
    for (uint32_t i = 0; whole && i < ranks; i++)
        whole = (thread->results[i] = calloc(1, result_bytes));
    return whole ? STATUS_OK : error_set(error, STATUS_NO_MEMORY, "no memory for step results");
}

void step_thread_close(struct step_thread *thread) {
    for (uint32_t i = 0; thread->results && i < rank_group_count(thread->group); i++)
        free(thread->results[i]);
    free(thread->results);
    free(thread->plans);
    free(thread->dead);
    free(thread->reports);
    free(thread->slots);
    free(thread->slot_memory);
    *thread = (struct step_thread){0};
}

/* Called between two steps, and if no step arrives while the rebalancer is busy. */
static void rebalance(struct step_thread *thread, struct worker *worker) {
    struct record_experts experts;
    rebalancer_turn(thread->rebalancer);
    if (rebalancer_report(thread->rebalancer, &experts)) worker_answer(worker, &experts.record);
    if (rebalancer_is_busy(thread->rebalancer))
        worker_call_again(worker, REBALANCE_IDLE_NS);
    else if (rank_group_count(thread->group) > 1)
        worker_call_again(worker, LOOK_NS);
}

/* ---- ranks that die, and come back ---- */

/* Ends the unit, because it cannot compute without an expert. Its supervisor restarts it. */
static void end_unit(const struct error *error) {
    log_say(LOG_ERROR, "engine", "the unit cannot go on without a rank why=%s", error->text);
    log_finish();
    _exit(RANK_HEALTH_STARTS_AGAIN);
}

static void notify_dead(struct step_thread *thread, struct worker *worker, uint32_t rank) {
    struct record_drain drain = {
        .record = record_head(RECORD_DRAIN, sizeof drain), .one_rank = 1, .rank = rank, .dead = 1};
    thread->dead[rank] = true;
    rank_watch_remove(rank);
    worker_answer(worker, &drain.record);
}

static void notify_back(struct step_thread *thread, struct worker *worker, uint32_t rank) {
    struct record_drain drain = {.record = record_head(RECORD_DRAIN, sizeof drain),
                                 .one_rank = 1,
                                 .rank = rank,
                                 .back = 1,
                                 .dead = 1,
                                 .pid = thread->reports[rank].pid};
    thread->dead[rank] = false;
    worker_answer(worker, &drain.record);
}

/* Does nothing if a rank has died meanwhile: the regroup is then repeated. */
static void notify_ranks(struct step_thread *thread, struct worker *worker, uint32_t read,
                         int64_t began_ns) {
    uint32_t left = 0, ranks = rank_group_count(thread->group);
    rank_group_report(thread->group, thread->reports);
    if (rank_group_is_broken(thread->group)) return;
    rank_health_report_epoch(rank_group_epoch(thread->group));
    for (uint32_t rank = 0; rank < ranks; rank++)
        left += rank_group_lives(thread->group, rank);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        bool lives = rank_group_lives(thread->group, rank);
        double after_ms = (double)(clock_now_ns() - began_ns) * 1e-6;
        if (thread->dead[rank] != lives) continue;
        if (lives) {
            notify_back(thread, worker, rank);
            log_say(LOG_INFO, "engine", "a rank has come back rank=%u ranks=%u after_ms=%.0f", rank,
                    left, after_ms);
        } else {
            notify_dead(thread, worker, rank);
            log_say(LOG_WARNING, "engine",
                    "a rank died, the others go on without it rank=%u left=%u experts_read=%u "
                    "after_ms=%.0f",
                    rank, left, read, after_ms);
        }
    }
}

/* Called between two steps after a death or a return: the living ranks continue, with all
 * experts. */
static void step_thread_go_on(struct step_thread *thread, struct worker *worker) {
    int64_t began_ns = clock_now_ns();
    struct error error;
    uint32_t read = 0;
    while (rank_group_is_broken(thread->group)) {
        rank_group_regroup(thread->group);
        enum status status = rebalancer_regroup(thread->rebalancer, &read, &error);
        if (status == STATUS_GONE) continue;
        if (status) end_unit(&error);
        notify_ranks(thread, worker, read, began_ns);
    }
}

/* The gateway rejects impossible masks, but it may not know about recent deaths. */
static void mask_rank(struct step_thread *thread, const struct record_drain *record) {
    struct error error;
    if (rebalancer_mask(thread->rebalancer, record->rank, !record->back, &error))
        log_say(LOG_WARNING, "experts", "a rank cannot be drained rank=%u why=%s", record->rank,
                error.text);
    else if (record->back)
        log_say(LOG_INFO, "experts", "a rank is to hold experts again rank=%u", record->rank);
    else
        log_say(LOG_INFO, "experts", "a rank is to be drained rank=%u", record->rank);
}

/* Stores a completed copy of the plan. A plan that cannot be completed is stored as it is: the
 * model rejects it. */
static void step_thread_take_plan(struct step_thread *thread, const struct step_plan *plan) {
    check(thread->plan_count < rank_group_count(thread->group));
    check(plan->rank < rank_group_count(thread->group) && !thread->plans[plan->rank]);
    struct slot_pages *slots = &thread->slots[plan->rank];
    size_t whole_bytes = slot_pages_whole_bytes(slots, plan);
    struct step_plan *own = malloc(whole_bytes ? whole_bytes : plan->record.bytes);
    check(own);
    if (whole_bytes)
        slot_pages_expand(slots, plan, own);
    else
        memcpy(own, plan, plan->record.bytes);
    thread->plans[plan->rank] = own;
    thread->plan_count++;
}

/* For experiments with small models: a step takes a fixed time, so a unit's speed is known and does
 * not depend on the machine's load. */
static void step_thread_wait_for(int64_t until_ns) {
    for (int64_t left_ns; (left_ns = until_ns - clock_now_ns()) > 0;)
        nanosleep(&(struct timespec){left_ns / 1000000000, left_ns % 1000000000}, NULL);
}

static void step_thread_run_step(struct step_thread *thread, struct worker *worker) {
    struct error error = {""};
    uint32_t ranks = rank_group_count(thread->group);
    int64_t began_ns = clock_now_ns();
    bool awaits = thread->plans[0]->awaits;
    if (!awaits)
        micro_batches_begin(&thread->micro_batches, thread->plans, ranks,
                            model_shape(rank_group_model(thread->group)));
    rank_group_run(thread->group, (const struct step_plan *const *)thread->plans, thread->results,
                   &error);
    if (!awaits) micro_batches_end(&thread->micro_batches, thread->results[0]->compute_ns);
    if (!awaits) step_thread_wait_for(began_ns + thread->step_ns_min);
    bool broken = rank_group_is_broken(thread->group);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        if (thread->results[rank]->compute_ns < thread->step_ns_min)
            thread->results[rank]->compute_ns = thread->step_ns_min;
        if (thread->results[rank]->failed && rank_group_lives(thread->group, rank) && !broken)
            log_say(LOG_ERROR, "engine", "a step failed rank=%u why=%s", rank, error.text);
        worker_answer(worker, &thread->results[rank]->record);
        free(thread->plans[rank]);
        thread->plans[rank] = NULL;
    }
    thread->plan_count = 0;
}

void step_thread_take(void *context, struct worker *worker, const struct record *record) {
    struct step_thread *thread = context;
    step_thread_go_on(thread, worker);
    if (record && record->kind == RECORD_DRAIN) {
        if (!((const struct record_drain *)record)->dead) /* deaths are reported from here */
            mask_rank(thread, (const struct record_drain *)record);
    } else if (record && record->kind == RECORD_ROLE) {
        rebalancer_set_role(thread->rebalancer,
                            (enum unit_role)((const struct record_role *)record)->role);
    } else if (record) {
        check(record->kind == RECORD_RUN_STEP);
        step_thread_take_plan(thread, (const struct step_plan *)record);
        if (thread->plan_count < rank_group_count(thread->group)) return;
        step_thread_run_step(thread, worker);
        step_thread_go_on(thread, worker);
    }
    rebalance(thread, worker);
}
