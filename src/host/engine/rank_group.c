/* SPDX-License-Identifier: Apache-2.0
 * Orders are sent down the tree of the ranks, and reports up (compute/exchange/job_tree.h). Large
 * data for tools only (logits, traces) is sent to rank 0 directly. Rank 0 validates every plan
 * before it sends any. The limits of all ranks are equal, so no rank rejects a plan and leaves the
 * others waiting in an exchange.
 *
 * The next order may take long to arrive. A rank polls for a short while and then sleeps between
 * polls. Within a step the job waits (compute/exchange/job.h).
 *
 * If a rank dies while an order is sent, some ranks have received the order and others have not.
 * This matters only for ORDER_ADOPT, because a rank that has adopted a map has the new experts in
 * its slots. So rank 0 repeats that order after a regroup; it has no effect where it was executed
 * before. Then rank 0 sends the whole map: a rejoined rank has the initial map, and the others'
 * maps lack its experts.
 */
#include "host/engine/rank_group.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/cpus.h"
#include "base/heartbeat.h"
#include "base/message_order.h"
#include "compute/exchange/job.h"
#include "compute/exchange/job_tree.h"
#include "compute/gpu/compute_gpu.h"
#include "compute/model/plan_check.h"
#include "compute/weights/checkpoint.h"
#include "host/engine/group_step.h"
#include "host/process/log/log.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LOOK_NS 200000    /* polling time for an order before the rank sleeps */
#define DOZE_NS 200000000 /* interval of clock checks while no order arrives */
#define MEASURED_BYTES (1 << 20)
#define MEASURED_TIMES 3

enum group_order_kind {
    ORDER_OPEN,
    ORDER_STEP,
    ORDER_RUN,
    ORDER_LINK,
    ORDER_MEASURE,
    ORDER_REPORT,
    ORDER_TRACE,
    ORDER_MOVE,
    ORDER_NOTIFY,
    ORDER_ADOPT,
    ORDER_ABANDON,
    ORDER_MAP,
    ORDER_CLOSE,
    ORDER_END
};

/* Data after the order. ORDER_OPEN: struct setup, then the placement, if there is one; ORDER_STEP
 * and ORDER_RUN: the plan's bytes; ORDER_LINK: struct link_speed; ORDER_MEASURE: struct link_ends;
 * ORDER_MOVE: struct rank_moves, then the moves; ORDER_NOTIFY: u32, 1 if tokens are wanted;
 * ORDER_ADOPT: struct adoption; ORDER_MAP: u32 experts of all slots of all layers. */
struct group_order {
    uint32_t kind;
    uint32_t logits_count;
    uint32_t has_probe, wants_routing, wants_mtp;
    uint32_t probe_row, mtp_next_token;
    uint32_t splits_replicas, goes_by_nodes; /* in this step */
    uint32_t reserved;
};

_Static_assert(sizeof(struct group_order) % 8 == 0, "what is behind it has values of 8 bytes");

struct setup {
    struct model_options options; /* its pointers are invalid in other processes */
    bool engine;
    char device[32]; /* its name */
    char directory[PATH_MAX];
};

struct link_speed {
    double gbps, us;
};

struct link_ends { /* as in rank_group_measure_link */
    uint32_t by, ring;
};

struct rank_moves {
    uint64_t bytes_per_second;
    uint32_t count, reserved;
};

#define ADOPTS_ANY                                                                                 \
    UINT64_MAX /* last number of a rank that rejoins: it adopts the first one that it receives */

struct adoption {
    uint64_t number; /* from 1; 0: none so far */
    uint64_t dropped[LIMIT_LAYERS / 64];
};

struct opened {
    uint32_t status;
    struct error error;
};

/* A rank's model, alone or within an engine. */
struct rank_model {
    struct model *model;
    struct engine *engine;
    size_t result_bytes; /* largest size of a step's result */
};

struct rank_group {
    struct rank_model own;
    uint32_t count;
    enum replica_choice replica_choice;
    enum level_choice level_choice;
    bool sums_groups;                    /* --expert-sum groups */
    bool splits_replicas, goes_by_nodes; /* in the current step */
    struct adoption adoption;            /* the last one */
    uint32_t *first_map;                 /* [layers][slots of all ranks] the initial map */
    bool *lived;                         /* [count] alive at the last regroup */
    struct job_tree_parts orders, reports;
};

struct group_worker {
    struct rank_model own;
    const char *weights_directory; /* or NULL */
    uint64_t adoptions;
    struct step_result *result;
    struct trace *trace; /* or NULL */
    struct job_tree_parts orders, reports;
    float *logits;
    size_t logits_floats;
    uint32_t *routing; /* [layers][experts_per_token] */
    uint32_t *argmax;  /* [step_tokens_max] */
    uint32_t *tokens;  /* [model_slot_count] */
};

static void *grow(void *memory, size_t *bytes, size_t wanted) {
    if (wanted <= *bytes) return memory;
    memory = realloc(memory, wanted);
    check(memory); /* the size of a few plans: without it the rank cannot continue */
    *bytes = wanted;
    return memory;
}

/* Receives the next order, and returns its size; 0: a rank has died. Meanwhile moves of the model's
 * experts, if it has any, continue. */
static size_t wait_for_order(struct model *model) {
    size_t bytes;
    uint32_t rank = job_tree_parent(), polls = 0;
    int64_t began_ns = clock_now_ns();
    while (!job_probe(rank, &bytes)) {
        if (job_broken()) return 0;
        if (model) moves_progress(model);
        bool moving = model && moves_reported(model).pending;
        if (moving || clock_now_ns() - began_ns < LOOK_NS) {
            job_backoff(&polls, LOOK_NS);
            continue;
        }
        job_sleep(DOZE_NS);
    }
    return bytes;
}

static uint32_t routing_count(const struct model *model) {
    const struct shape *shape = model_shape(model);
    return shape->layers * shape->experts_per_token;
}

static uint32_t cpus_each(uint32_t ranks) {
    uint32_t each = cpus_usable() / ranks;
    return each ? each : 1;
}

static enum status rank_group_open_own(struct rank_model *rank_model,
                                       const struct model_options *options, bool engine,
                                       struct error *error) {
    enum status status = engine ? engine_open(options, &rank_model->engine, error)
                                : model_open(options, &rank_model->model, error);
    if (status != STATUS_OK) return status;
    rank_model->result_bytes =
        step_result_bytes_max(options->step_rows_max, options->step_tokens_max);
    if (engine) rank_model->model = engine_model(rank_model->engine);
    struct model_rank reported = model_rank(rank_model->model);
    log_say(LOG_DEBUG, "model",
            "a rank has its weights rank=%u read_bytes=%" PRIu64 " weight_bytes=%" PRIu64
            " mapped_bytes=%" PRIu64,
            options->rank, reported.read_bytes, reported.weight_bytes, reported.mapped_bytes);
    const char *notice = model_weights_notice(rank_model->model);
    if (notice[0] && options->rank == 0) /* once for all ranks */
        log_say(LOG_WARNING, "model", "weights are in no file why=%s", notice);
    return STATUS_OK;
}

static void rank_group_close_own(struct rank_model *rank_model) {
    if (rank_model->engine)
        engine_close(rank_model->engine);
    else
        model_close(rank_model->model);
    *rank_model = (struct rank_model){.model = NULL};
}

/* ---- rank 0 ---- */

static void add_order(struct job_tree_parts *orders, uint32_t rank, const struct group_order *order,
                      const void *more, size_t more_bytes) {
    char *at = job_tree_add(orders, rank, sizeof *order + more_bytes);
    memcpy(at, order, sizeof *order);
    if (more_bytes) memcpy(at + sizeof *order, more, more_bytes);
}

static void order_all(struct rank_group *group, enum group_order_kind kind, const void *more,
                      size_t more_bytes) {
    const struct group_order order = {.kind = (uint32_t)kind};
    job_tree_clear(&group->orders);
    add_order(&group->orders, JOB_TREE_ALL, &order, more, more_bytes);
    job_tree_send(&group->orders);
}

/* An iteration over the other ranks' reports. */
struct reports {
    size_t at;
    uint32_t rank; /* owner of the next report; 0: none is left */
    struct bytes next;
};

static void next_report(const struct rank_group *group, struct reports *reports) {
    if (!job_tree_next(&group->reports, &reports->at, &reports->rank, &reports->next))
        reports->rank = 0;
}

/* Returns false if a rank has died, and reports may be missing. */
static bool gather_reports(struct rank_group *group, struct reports *reports_out) {
    job_tree_clear(&group->reports);
    bool whole = job_tree_gather(&group->reports);
    *reports_out = (struct reports){.at = 0};
    next_report(group, reports_out);
    return whole;
}

/* The report of a rank. Call it with ascending ranks. Empty: there is none. */
static struct bytes take_report(const struct rank_group *group, struct reports *reports,
                                uint32_t rank) {
    struct bytes report = reports->next;
    if (reports->rank != rank) return (struct bytes){.count = 0};
    next_report(group, reports);
    return report;
}

static size_t placement_bytes(const struct model_options *options) {
    size_t experts = (size_t)options->placement_layers * options->placement_slots;
    return options->placement ? experts * sizeof *options->placement : 0;
}

static enum status open_all(struct rank_group *group, const struct model_options *options,
                            bool engine, struct error *error) {
    struct setup *setup = calloc(1, sizeof *setup + placement_bytes(options));
    enum status status = STATUS_OK;
    if (!setup)
        status = error_set(error, STATUS_NO_MEMORY, "no memory for the group of ranks");
    else if (strlen(options->directory) >= sizeof setup->directory)
        status =
            error_set(error, STATUS_TOO_LARGE, "the model's path has %zu bytes; expected below %d",
                      strlen(options->directory), PATH_MAX);
    if (status) {
        checkpoint_close(options->checkpoint); /* no model takes it */
        free(setup);
        return status;
    }
    setup->options = *options;
    setup->engine = engine;
    snprintf(setup->device, sizeof setup->device, "%s",
             options->device ? options->device->name : model_on_cpu.name);
    memcpy(setup->directory, options->directory, strlen(options->directory) + 1);
    if (options->placement) memcpy(setup + 1, options->placement, placement_bytes(options));
    order_all(group, ORDER_OPEN, setup, sizeof *setup + placement_bytes(options));
    free(setup);
    status = rank_group_open_own(&group->own, options, engine, error);
    struct reports reports;
    if (!gather_reports(group, &reports)) return error_set(error, STATUS_GONE, "a rank has died");
    for (uint32_t rank = 1; rank < group->count; rank++) {
        struct opened opened;
        struct bytes report = take_report(group, &reports, rank);
        check(report.count == sizeof opened);
        memcpy(&opened, report.data, sizeof opened);
        if (opened.status == STATUS_OK || status != STATUS_OK) continue;
        status =
            error_set(error, (enum status)opened.status, "rank %u: %s", rank, opened.error.text);
    }
    return status;
}

static size_t rank_group_map_bytes(const struct placement *map) {
    return (size_t)map->layers * map->ranks * map->slots_per_rank * sizeof *map->slot_expert;
}

/* Saves the initial map, with which ranks rejoin. */
static enum status remember_start(struct rank_group *group, struct error *error) {
    const struct placement *map = model_placement(group->own.model);
    group->lived = malloc(group->count * sizeof *group->lived);
    group->first_map = malloc(rank_group_map_bytes(map) + 1);
    if (!group->lived || !group->first_map)
        return error_set(error, STATUS_NO_MEMORY, "no memory for the group of ranks");
    for (uint32_t rank = 0; rank < group->count; rank++)
        group->lived[rank] = true;
    if (rank_group_map_bytes(map))
        memcpy(group->first_map, map->slot_expert, rank_group_map_bytes(map));
    return STATUS_OK;
}

static void fill_options(struct model_options *options, uint32_t ranks, uint32_t rank) {
    if (!options->echoes) options->rank_count = ranks;
    options->rank = rank;
    options->device_index = job_local_rank();
    if (!options->node_ranks) options->node_ranks = job_node_ranks();
    if (ranks > 1 && !options->threads) options->threads = cpus_each(ranks);
}

/* Asks the caller whether the model fits, before any rank reads weights. The opened checkpoint is
 * then rank 0's. */
static enum status ask_if_fits(struct model_options *options, struct error *error) {
    const struct load_progress progress = {options->progress, options->progress_context};
    struct memory_need need;
    if (!options->fits || options->checkpoint) return STATUS_OK;
    enum status status = checkpoint_open_reporting(options->directory, CHECKPOINT_UNVERIFIED,
                                                   &progress, &options->checkpoint, error);
    if (!status) status = model_need(options, options->checkpoint, &need, error);
    if (!status) status = options->fits(options->fits_context, &need, error);
    if (status) checkpoint_close(options->checkpoint);
    return status;
}

static enum status open_group(const struct model_options *options, bool engine,
                              struct rank_group **group_out, struct error *error) {
    struct rank_group *group = calloc(1, sizeof *group);
    if (!group) return error_set(error, STATUS_NO_MEMORY, "no memory for the group of ranks");
    struct model_options own = *options;
    group->count = job_count();
    group->sums_groups = options->expert_sum == EXPERT_SUM_GROUPS;
    fill_options(&own, group->count, 0);
    enum status status = ask_if_fits(&own, error);
    if (status) {
        rank_group_close(group);
        return status;
    }
    status = open_all(group, &own, engine, error);
    if (!status) status = remember_start(group, error);
    if (status != STATUS_OK) {
        rank_group_close(group);
        return status;
    }
    *group_out = group;
    return STATUS_OK;
}

enum status rank_group_open(const struct model_options *options, struct rank_group **group_out,
                            struct error *error) {
    return open_group(options, false, group_out, error);
}

enum status rank_group_open_engines(const struct model_options *options,
                                    struct rank_group **group_out, struct error *error) {
    return open_group(options, true, group_out, error);
}

void rank_group_close(struct rank_group *group) {
    if (!group) return;
    order_all(group, ORDER_CLOSE, NULL, 0);
    rank_group_close_own(&group->own);
    free(group->first_map);
    free(group->lived);
    job_tree_free(&group->orders);
    job_tree_free(&group->reports);
    free(group);
}

uint32_t rank_group_count(const struct rank_group *group) {
    return group->count;
}

struct model *rank_group_model(const struct rank_group *group) {
    return group->own.model;
}

const struct engine *rank_group_engine(const struct rank_group *group) {
    return group->own.engine;
}

void rank_group_set_loads(struct rank_group *group, const struct engine_loads *loads) {
    engine_set_loads(group->own.engine, loads);
}

void rank_group_set_masks(struct rank_group *group, const struct engine_masks *masks) {
    engine_set_masks(group->own.engine, masks);
}

static const struct step_plan no_rows = {
    .record = {.version = RECORD_VERSION, .kind = RECORD_RUN_STEP, .bytes = sizeof no_rows}};

static const struct step_plan *plan_or_none(const struct rank_step *step) {
    return step->plan ? step->plan : &no_rows;
}

static uint32_t count_logits(const struct step_plan *plan) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < plan->row_count; i++)
        count += step_plan_rows(plan)[i].logits_count;
    return count;
}

/* Decides for the next step how tokens are split over replicas, and whether rows go by nodes. */
static void choose_ways(struct rank_group *group, const struct choose_replicas_step *step) {
    const struct choose_levels_step levels = {.ranks = group->count,
                                              .ranks_per_node =
                                                  model_placement(group->own.model)->node_ranks,
                                              .tokens = step->tokens,
                                              .sums_groups = group->sums_groups};
    group->splits_replicas = group->count > 1 && choose_replicas(group->replica_choice, step);
    group->goes_by_nodes = choose_levels(group->level_choice, &levels);
    model_split_replicas(group->own.model, group->splits_replicas);
    model_go_by_nodes(group->own.model, group->goes_by_nodes);
}

static struct choose_replicas_step replicas_step(const struct rank_group *group) {
    const struct placement *map = model_placement(group->own.model);
    return (struct choose_replicas_step){
        .ranks = group->count, .experts = map->experts, .slots = map->ranks * map->slots_per_rank};
}

static void see_plan(struct choose_replicas_step *step, const struct step_plan *plan) {
    step->tokens += plan->token_count;
    step->urgent |= overlap_of((enum overlap_kind)plan->overlap)->dynamic_order != NULL;
}

static void add_step(struct rank_group *group, uint32_t rank, const struct rank_step *step,
                     bool mtp) {
    const struct step_plan *plan = plan_or_none(step);
    struct group_order order = {.kind = ORDER_STEP,
                                .splits_replicas = group->splits_replicas,
                                .goes_by_nodes = group->goes_by_nodes,
                                .logits_count = count_logits(plan),
                                .has_probe = mtp || step->probe,
                                .wants_mtp = mtp,
                                .probe_row = MODEL_NO_ROW};
    if (step->probe) {
        order.wants_routing = step->probe->routing != NULL;
        order.probe_row = step->probe->row;
        order.mtp_next_token = step->probe->mtp_next_token;
    }
    add_order(&group->orders, rank, &order, plan, plan->record.bytes);
}

static void take_answers(const struct rank_group *group, uint32_t rank,
                         const struct rank_step *step) {
    const struct step_plan *plan = plan_or_none(step);
    size_t logits = (size_t)count_logits(plan) * model_shape(group->own.model)->vocab;
    if (logits) job_receive(rank, step->logits, logits * sizeof *step->logits);
    if (!step->probe) return;
    if (step->probe->routing)
        job_receive(rank, step->probe->routing, routing_count(group->own.model) * sizeof(uint32_t));
    if (step->probe->mtp_argmax && step->probe->row != MODEL_NO_ROW)
        job_receive(rank, step->probe->mtp_argmax,
                    step_plan_rows(plan)[step->probe->row].token_count * sizeof(uint32_t));
}

enum status rank_group_step(struct rank_group *group, const struct rank_step *steps,
                            struct error *error) {
    bool mtp = false;
    uint32_t nothing;
    struct choose_replicas_step step = replicas_step(group);
    for (uint32_t rank = 0; rank < group->count; rank++) {
        enum status status = plan_check(group->own.model, plan_or_none(&steps[rank]), error);
        if (status != STATUS_OK) return status;
        if (steps[rank].probe && steps[rank].probe->mtp_argmax) mtp = true;
        see_plan(&step, plan_or_none(&steps[rank]));
    }
    choose_ways(group, &step);
    if (mtp && !model_has_mtp(group->own.model))
        return error_set(error, STATUS_INVALID,
                         "the model has no MTP layer, or was opened without it");
    job_tree_clear(&group->orders);
    for (uint32_t rank = 1; rank < group->count; rank++)
        add_step(group, rank, &steps[rank], mtp);
    job_tree_send(&group->orders);
    struct model_probe follow = {.row = MODEL_NO_ROW, .mtp_argmax = mtp ? &nothing : NULL};
    enum status status = forward_run(group->own.model, plan_or_none(&steps[0]), steps[0].logits,
                                     steps[0].probe ? steps[0].probe : &follow, error);
    check(status == STATUS_OK || group->count == 1); /* an invalid probe: a bug of the caller */
    for (uint32_t rank = 1; rank < group->count; rank++)
        take_answers(group, rank, &steps[rank]);
    if (job_broken()) _exit(1); /* the launcher reports the dead rank */
    return status;
}

void rank_group_set_replicas(struct rank_group *group, enum replica_choice choice) {
    group->replica_choice = choice;
}

void rank_group_set_levels(struct rank_group *group, enum level_choice choice) {
    group->level_choice = choice;
}

void rank_group_set_link(struct rank_group *group, double gbps, double us) {
    struct link_speed link = {gbps, us};
    order_all(group, ORDER_LINK, &link, sizeof link);
    model_set_link(group->own.model, gbps, us);
}

bool rank_group_goes_by_nodes(const struct rank_group *group) {
    return group->goes_by_nodes;
}

/* The smallest measured nanoseconds per byte. */
static double measure_link(const struct link_ends *ends) {
    static char out[MEASURED_BYTES], in[MEASURED_BYTES];
    double least = INFINITY;
    for (int i = 0; i < MEASURED_TIMES; i++) {
        job_barrier();
        int64_t began_ns = clock_now_ns();
        job_ring_shift(out, in, MEASURED_BYTES, ends->by, ends->ring);
        least = fmin(least, (double)(clock_now_ns() - began_ns) / MEASURED_BYTES);
    }
    return least;
}

double rank_group_measure_link(struct rank_group *group, uint32_t by, uint32_t ring) {
    struct link_ends ends = {by, ring};
    check(group->count % ring == 0);
    if (ring == 1) return 0;
    order_all(group, ORDER_MEASURE, &ends, sizeof ends);
    return measure_link(&ends);
}

void rank_group_move(struct rank_group *group, const struct expert_move *moves, uint32_t count,
                     uint64_t bytes_per_second) {
    struct rank_moves head = {.bytes_per_second = bytes_per_second, .count = count};
    size_t bytes = sizeof head + count * sizeof *moves;
    char *more = malloc(bytes);
    check(more); /* a few KiB */
    memcpy(more, &head, sizeof head);
    memcpy(more + sizeof head, moves, count * sizeof *moves);
    order_all(group, ORDER_MOVE, more, bytes);
    free(more);
    moves_begin(group->own.model, moves, count, bytes_per_second);
}

bool rank_group_notify(struct rank_group *group, struct model_moving *reported, uint32_t *tokens) {
    uint32_t wants_tokens = tokens != NULL, slots = model_slot_count(group->own.model);
    order_all(group, ORDER_NOTIFY, &wants_tokens, sizeof wants_tokens);
    moves_progress(group->own.model);
    reported[0] = moves_reported(group->own.model);
    if (tokens) model_take_tokens(group->own.model, tokens);
    struct reports reports;
    bool whole = gather_reports(group, &reports);
    for (uint32_t rank = 1; rank < group->count; rank++) {
        uint32_t *of = tokens ? tokens + (size_t)rank * slots : NULL;
        struct bytes report = take_report(group, &reports, rank);
        reported[rank] = (struct model_moving){.pending = 0};
        if (of) memset(of, 0, slots * sizeof *of);
        if (!report.count) continue;
        check(report.count == sizeof reported[rank] + (of ? slots * sizeof *of : 0));
        memcpy(&reported[rank], report.data, sizeof reported[rank]);
        if (of) memcpy(of, report.data + sizeof reported[rank], slots * sizeof *of);
    }
    return whole;
}

void rank_group_adopt(struct rank_group *group, const uint64_t *dropped) {
    group->adoption.number++;
    memcpy(group->adoption.dropped, dropped, sizeof group->adoption.dropped);
    order_all(group, ORDER_ADOPT, &group->adoption, sizeof group->adoption);
    moves_adopt(group->own.model, dropped);
}

bool rank_group_is_broken(const struct rank_group *group) {
    return group->count > 1 && job_poll();
}

bool rank_group_lives(const struct rank_group *group, uint32_t rank) {
    return group->count == 1 || job_is_alive(rank);
}

uint32_t rank_group_epoch(const struct rank_group *group) {
    return job_epoch();
}

/* The slots of rejoined ranks have their initial experts. */
static void rank_group_take_back(struct rank_group *group) {
    const struct placement *map = model_placement(group->own.model);
    size_t slots = map->slots_per_rank;
    if (!map->ranks) return;
    for (uint32_t rank = 0; rank < group->count; rank++)
        for (uint32_t layer = 0; layer < map->layers && job_is_alive(rank) && !group->lived[rank];
             layer++) {
            size_t at = ((size_t)layer * map->ranks + rank) * slots;
            memcpy(map->slot_expert + at, group->first_map + at, slots * sizeof *map->slot_expert);
        }
    moves_set_map(group->own.model, map->slot_expert);
}

void rank_group_regroup(struct rank_group *group) {
    const struct placement *map = model_placement(group->own.model);
    heartbeat_set(HEARTBEAT_WAITS);
    moves_abandon(group->own.model);
    do {
        job_regroup();
        rank_group_take_back(group);
        order_all(group, ORDER_ADOPT, &group->adoption, sizeof group->adoption);
        order_all(group, ORDER_ABANDON, NULL, 0);
        order_all(group, ORDER_MAP, map->slot_expert, rank_group_map_bytes(map));
    } while (job_broken());
    for (uint32_t rank = 0; rank < group->count; rank++)
        group->lived[rank] = job_is_alive(rank);
    heartbeat_set(HEARTBEAT_IDLE);
}

static void add_plan(struct rank_group *group, uint32_t rank, const struct step_plan *plan) {
    struct group_order order = {.kind = ORDER_RUN,
                                .splits_replicas = group->splits_replicas,
                                .goes_by_nodes = group->goes_by_nodes};
    add_order(&group->orders, rank, &order, plan, plan->record.bytes);
}

static void take_results(struct rank_group *group, const struct step_plan *const *plans,
                         struct step_result *const *results) {
    struct reports reports;
    bool whole = gather_reports(group, &reports);
    for (uint32_t rank = 1; rank < group->count; rank++) {
        struct bytes report = take_report(group, &reports, rank);
        check(report.count <= group->own.result_bytes);
        group_step_take(plans[rank], report, results[rank]);
    }
    for (uint32_t rank = 0; rank < group->count && !whole; rank++)
        group_step_break(plans[rank], job_is_alive(rank), results[rank]);
}

static bool rank_group_fits(const struct rank_group *group, const struct step_plan *none,
                            const struct step_plan *plan, struct error *error) {
    return group_step_check(none, plan, error) == STATUS_OK &&
           engine_check(group->own.engine, plan, error) == STATUS_OK;
}

void rank_group_run(struct rank_group *group, const struct step_plan *const *plans,
                    struct step_result *const *results, struct error *error) {
    struct error unused;
    const struct step_plan none = group_step_none(plans, group->count);
    heartbeat_set(HEARTBEAT_WAITS); /* a stuck rank may not receive its order */
    struct choose_replicas_step step = replicas_step(group);
    for (uint32_t rank = 0; rank < group->count; rank++)
        see_plan(&step, group_step_check(&none, plans[rank], &unused) ? &none : plans[rank]);
    choose_ways(group, &step);
    job_tree_clear(&group->orders);
    for (uint32_t rank = 1; rank < group->count; rank++) { /* those with invalid plans take part */
        bool fits = rank_group_fits(group, &none, plans[rank], error);
        if (job_is_alive(rank)) add_plan(group, rank, fits ? plans[rank] : &none);
    }
    job_tree_send(&group->orders);
    bool fits = rank_group_fits(group, &none, plans[0], error);
    engine_run(group->own.engine, fits ? plans[0] : &none, results[0], &unused);
    int64_t rank_0_ns = results[0]->compute_ns + results[0]->awaited_ns;
    if (!fits) group_step_fail(plans[0], results[0]);
    take_results(group, plans, results);
    group_step_set_times(results, group->count, rank_0_ns);
    heartbeat_set(HEARTBEAT_IDLE);
}

void rank_group_report(struct rank_group *group, struct rank_report *reports) {
    order_all(group, ORDER_REPORT, NULL, 0);
    memset(reports, 0, group->count * sizeof *reports);
    reports[0] = (struct rank_report){.pid = getpid(), .model = model_rank(group->own.model)};
    struct reports reported;
    gather_reports(group, &reported);
    for (uint32_t rank = 1; rank < group->count; rank++) {
        struct bytes report = take_report(group, &reported, rank);
        check(report.count <= sizeof reports[rank]);
        if (report.count) memcpy(&reports[rank], report.data, report.count);
    }
}

/* The events of another rank, freed by the caller. Returns the number of lost events. */
static size_t rank_group_take_trace(uint32_t rank, struct trace_part *part_out) {
    size_t counts[2] = {0, 0}; /* recorded events, lost events */
    job_receive(rank, counts, sizeof counts);
    struct trace_event *events = malloc(counts[0] * sizeof *events + 1);
    check(events); /* the rank is waiting to send them */
    if (counts[0]) job_receive(rank, events, counts[0] * sizeof *events);
    *part_out = (struct trace_part){events, counts[0]};
    return counts[1];
}

enum status rank_group_write_trace(struct rank_group *group, const struct trace *own,
                                   const char *path, struct error *error) {
    struct trace_part *parts = calloc(group->count, sizeof *parts);
    if (!parts) return error_set(error, STATUS_NO_MEMORY, "no memory for the trace");
    size_t lost;
    parts[0].events = trace_events(own, &parts[0].count, &lost);
    order_all(group, ORDER_TRACE, NULL, 0);
    for (uint32_t rank = 1; rank < group->count; rank++)
        lost += rank_group_take_trace(rank, &parts[rank]);
    enum status status = trace_write(path, parts, group->count, error);
    if (!status && lost)
        status = error_set(error, STATUS_FULL,
                           "the trace %.300s has reached its limit: it lacks the last %zu events",
                           path, lost);
    for (uint32_t rank = 1; rank < group->count; rank++)
        free((void *)(uintptr_t)parts[rank].events);
    free(parts);
    return status;
}

void rank_group_end(void) {
    static bool ended;
    const struct group_order order = {.kind = ORDER_END};
    struct job_tree_parts orders = {.data = NULL};
    if (ended || job_rank() != 0) return;
    ended = true;
    add_order(&orders, JOB_TREE_ALL, &order, NULL, 0);
    job_tree_send(&orders);
    job_end();
    job_tree_free(&orders);
}

/* ---- the others ---- */

static struct rank_group_side services; /* for the life of the process */

void rank_group_local(const struct rank_group_side *side) {
    services = *side;
}

static void rank_group_worker_close(struct group_worker *worker) {
    if (worker->own.model && services.closing) services.closing(services.context);
    rank_group_close_own(&worker->own);
    free(worker->result); /* NULL below, which the analyzer forgets. NOLINT(clang-analyzer-*) */
    trace_close(worker->trace);
    free(worker->logits);
    free(worker->routing);
    free(worker->argmax);
    free(worker->tokens);
    worker->result = NULL;
    worker->trace = NULL;
    worker->logits = NULL;
    worker->logits_floats = 0;
    worker->routing = worker->argmax = worker->tokens = NULL;
}

/* Sends two buffers, one after the other. Afterwards rank 0 may let other threads of this process
 * overwrite the data that was read for them: a free page receives the block of another request. */
static void rank_group_report_each(struct group_worker *worker, const void *first,
                                   size_t first_bytes, const void *second, size_t second_bytes) {
    job_tree_clear(&worker->reports);
    char *at = job_tree_add(&worker->reports, job_rank(), first_bytes + second_bytes);
    memcpy(at, first, first_bytes);
    if (second_bytes) memcpy(at + first_bytes, second, second_bytes);
    message_order_sending();
    job_tree_gather(&worker->reports);
}

/* Opens a worker, without the report to rank 0. */
static enum status rank_group_open_worker(struct group_worker *worker,
                                          struct model_options *options, bool engine,
                                          struct error *error) {
    options->progress = NULL;
    options->fits = NULL;
    if (options->trace) worker->trace = trace_open(); /* rank 0 has a trace */
    options->trace = worker->trace ? trace_hook(worker->trace) : NULL;
    enum status status = rank_group_open_own(&worker->own, options, engine, error);
    if (!status && services.opened)
        status = services.opened(services.context, worker->own.engine, options->rank, error);
    if (status) return status;
    worker->result = calloc(1, worker->own.result_bytes);
    worker->routing = calloc(routing_count(worker->own.model) + 1, sizeof *worker->routing);
    worker->argmax = calloc(options->step_tokens_max, sizeof *worker->argmax);
    worker->tokens = calloc(model_slot_count(worker->own.model) + 1, sizeof *worker->tokens);
    check(worker->routing && worker->argmax && worker->result && worker->tokens);
    return STATUS_OK;
}

static void rank_group_worker_open(struct group_worker *worker, const struct setup *setup) {
    struct opened opened = {.status = STATUS_OK};
    worker->adoptions = 0;
    struct model_options own = setup->options, *options = &own;
    options->directory = setup->directory;
    options->checkpoint = NULL; /* rank 0's */
    if (options->weights_directory) options->weights_directory = worker->weights_directory;
    if (options->placement) options->placement = (const uint16_t *)(const void *)(setup + 1);
    options->rank = job_rank();
    options->device_index = job_local_rank();
    options->device_kernels = NULL; /* an address in rank 0; each program has its own */
    opened.status = (uint32_t)compute_gpu_find(setup->device, &options->device, &opened.error);
    if (!opened.status)
        opened.status =
            (uint32_t)rank_group_open_worker(worker, options, setup->engine, &opened.error);
    rank_group_report_each(worker, &opened, sizeof opened, NULL, 0);
    heartbeat_set(HEARTBEAT_WAITS);
}

/* Applies rank 0's choices for the step's rows. */
static void worker_go_as(const struct group_worker *worker, const struct group_order *order) {
    model_split_replicas(worker->own.model, order->splits_replicas);
    model_go_by_nodes(worker->own.model, order->goes_by_nodes);
}

static void worker_step(struct group_worker *worker, const struct group_order *order,
                        const struct step_plan *plan) {
    struct error error;
    struct model_probe probe = {.row = order->probe_row,
                                .routing = order->wants_routing ? worker->routing : NULL,
                                .mtp_argmax = order->wants_mtp ? worker->argmax : NULL,
                                .mtp_next_token = order->mtp_next_token};
    size_t logits = (size_t)order->logits_count * model_shape(worker->own.model)->vocab;
    worker_go_as(worker, order);
    size_t bytes = worker->logits_floats * sizeof *worker->logits;
    worker->logits = grow(worker->logits, &bytes, logits * sizeof *worker->logits);
    worker->logits_floats = bytes / sizeof *worker->logits;
    enum status status = forward_run(worker->own.model, plan, worker->logits,
                                     order->has_probe ? &probe : NULL, &error);
    check(status == STATUS_OK); /* rank 0 has validated it */
    if (logits) job_send(0, worker->logits, logits * sizeof *worker->logits);
    if (order->wants_routing)
        job_send(0, worker->routing, routing_count(worker->own.model) * sizeof *worker->routing);
    if (order->wants_mtp && order->probe_row != MODEL_NO_ROW)
        job_send(0, worker->argmax,
                 step_plan_rows(plan)[order->probe_row].token_count * sizeof *worker->argmax);
}

static void worker_run(struct group_worker *worker, const struct group_order *order,
                       const struct step_plan *plan) {
    struct error error;
    check(worker->result);
    worker_go_as(worker, order);
    engine_run(worker->own.engine, plan, worker->result, &error);
    check(!worker->result->failed || job_broken()); /* rank 0 has validated the plan */
    rank_group_report_each(worker, worker->result, worker->result->record.bytes, NULL, 0);
}

static void worker_send_trace(const struct group_worker *worker) {
    size_t counts[2] = {0, 0};
    const struct trace_event *events = NULL;
    if (worker->trace) events = trace_events(worker->trace, &counts[0], &counts[1]);
    job_send(0, counts, sizeof counts);
    if (counts[0]) job_send(0, events, counts[0] * sizeof *events);
}

static void worker_report(struct group_worker *worker) {
    struct rank_report reported = {.pid = getpid(), .model = model_rank(worker->own.model)};
    rank_group_report_each(worker, &reported, sizeof reported, NULL, 0);
}

/* An order that arrives twice is executed once. */
static void worker_adopt(struct group_worker *worker, const struct adoption *adoption) {
    if (worker->adoptions == ADOPTS_ANY) worker->adoptions = adoption->number;
    if (adoption->number == worker->adoptions) return;
    check(adoption->number == worker->adoptions + 1);
    worker->adoptions++;
    moves_adopt(worker->own.model, adoption->dropped);
}

static void worker_notify(struct group_worker *worker, bool wants_tokens) {
    struct model_moving reported = moves_reported(worker->own.model);
    if (wants_tokens) model_take_tokens(worker->own.model, worker->tokens);
    size_t bytes = wants_tokens ? model_slot_count(worker->own.model) * sizeof *worker->tokens : 0;
    rank_group_report_each(worker, &reported, sizeof reported, worker->tokens, bytes);
}

static void worker_move(struct model *model, const struct rank_moves *moves) {
    moves_begin(model, (const struct expert_move *)(const void *)(moves + 1), moves->count,
                moves->bytes_per_second);
}

static void worker_set_map(struct model *model, const uint32_t *slot_expert) {
    if (model_placement(model)->ranks) moves_set_map(model, slot_expert);
}

static void worker_set_link(struct model *model, const struct link_speed *link) {
    model_set_link(model, link->gbps, link->us);
}

/* Executes all orders except ORDER_END; `more` is the data after the order (struct group_order). */
static void worker_perform(struct group_worker *worker, const struct group_order *order,
                           const void *more) {
    /* clang-format off */
    switch ((enum group_order_kind)order->kind) {
    case ORDER_OPEN: rank_group_worker_open(worker, more); return;
    case ORDER_STEP: worker_step(worker, order, more); return;
    case ORDER_RUN: worker_run(worker, order, more); return;
    case ORDER_LINK: worker_set_link(worker->own.model, more); return;
    case ORDER_MEASURE: (void)measure_link(more); return;
    case ORDER_REPORT: worker_report(worker); return;
    case ORDER_TRACE: worker_send_trace(worker); return;
    case ORDER_MOVE: worker_move(worker->own.model, more); return;
    case ORDER_NOTIFY: worker_notify(worker, *(const uint32_t *)more); return;
    case ORDER_ADOPT: worker_adopt(worker, more); return;
    case ORDER_ABANDON: moves_abandon(worker->own.model); return;
    case ORDER_MAP: worker_set_map(worker->own.model, more); return;
    case ORDER_CLOSE: rank_group_worker_close(worker); return;
    case ORDER_END: return;
    }
    /* clang-format on */
}

static struct group_worker own_worker; /* for the life of the process */

enum status rank_group_prepare(uint32_t ranks, struct error *error) {
    struct model_options options = {0};
    if (!services.options)
        return error_set(error, STATUS_UNSUPPORTED, "this command does not restart ranks");
    enum status status = services.options(services.context, &options, error);
    if (status) return status;
    fill_options(&options, ranks, job_rank_assigned());
    own_worker.adoptions = ADOPTS_ANY;
    status = rank_group_open_worker(&own_worker, &options, true, error);
    heartbeat_set(HEARTBEAT_WAITS);
    return status;
}

void rank_group_work(const char *weights_directory) {
    own_worker.weights_directory = weights_directory;
    for (;;) {
        struct bytes part;
        size_t bytes = wait_for_order(own_worker.own.model);
        if (!bytes || !job_tree_receive(&own_worker.orders, bytes, &part)) {
            if (own_worker.own.model) moves_halt(own_worker.own.model);
            job_regroup();
            continue;
        }
        message_order_taking();
        const struct group_order *order = (const struct group_order *)(const void *)part.data;
        check(part.count >= sizeof *order);
        if (order->kind == ORDER_END) break;
        worker_perform(&own_worker, order, order + 1);
    }
    rank_group_worker_close(&own_worker);
    job_tree_free(&own_worker.orders);
    job_tree_free(&own_worker.reports);
    job_end();
}
