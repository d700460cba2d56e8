/* SPDX-License-Identifier: Apache-2.0
 * A group of ranks that hold one model together and step together: rank 0 drives, the others
 * execute its orders. Each rank has its own sequences and KV pages; routed experts are spread over all.
 * A process alone is a group of one, without messages.
 *
 *   rank 0       rank_group_open, rank_group_step ..., rank_group_close; rank_group_end at the end;
 *                or rank_group_open_engines and rank_group_run, where ranks choose tokens too
 *   the others   rank_group_work, until rank 0 ends
 *
 * A rank other than 0 may die, and come back. In a step of engines that this broke, the rows of a
 * rank that died fail and those of all others are lost, so that they come again; and nothing goes on
 * until rank_group_regroup; elsewhere, this process ends with it. A rank that comes back opens its
 * model by itself (rank_group_prepare), while the others step, and joins them when it is done.
 *
 * All ranks are one program on one kind of machine, so structs travel as they lie in memory.
 */
#pragma once

#include "compute/model/forward.h"
#include "compute/model/moves.h"
#include "host/engine/choose_levels.h"
#include "host/engine/choose_replicas.h"
#include "host/engine/engine.h"
#include "host/engine/trace.h"

struct rank_group;

/* One rank's part of a step; no plan: it only computes for the others. */
struct rank_step {
    const struct step_plan *plan;    /* without drafts */
    float *logits;                   /* as in forward_run */
    const struct model_probe *probe; /* or NULL */
};

struct rank_report {
    int64_t pid;
    struct model_rank model;
};

/* Opens the model on all ranks of this job; `options` are rank 0's, their fields of ranks are
 * filled in here, 0 threads become an even share of the CPUs, and if rank 0 has a trace, each rank
 * keeps one. The first rank that cannot says why. */
enum status rank_group_open(const struct model_options *options, struct rank_group **group_out,
                            struct error *error) MUST_USE;
/* rank_group_open with an engine on each rank's model, for rank_group_run. */
enum status rank_group_open_engines(const struct model_options *options,
                                    struct rank_group **group_out, struct error *error) MUST_USE;
void rank_group_close(struct rank_group *group);

uint32_t rank_group_count(const struct rank_group *group);
/* Rank 0's. */
struct model *rank_group_model(const struct rank_group *group);
const struct engine *rank_group_engine(const struct rank_group *group);

/* One step of all ranks: steps[rank_group_count]. */
enum status rank_group_step(struct rank_group *group, const struct rank_step *steps,
                            struct error *error) MUST_USE;

/* Slows every rank's link to the others down; zeros: not. See struct model_options. */
void rank_group_set_link(struct rank_group *group, double gbps, double us);

/* Nanoseconds that a byte takes from each rank to the one that stands `by` behind it in its ring of
 * `ring` consecutive ranks, when all send at once. Between two steps; it takes milliseconds. */
double rank_group_measure_link(struct rank_group *group, uint32_t by, uint32_t ring);

/* How a step's tokens are split over replicas, from the next step on; REPLICAS_AUTO at first. */
void rank_group_set_replicas(struct rank_group *group, enum replica_choice choice);
/* Whether rows go by nodes, from the next step on; LEVELS_AUTO at first. */
void rank_group_set_levels(struct rank_group *group, enum level_choice choice);
/* Whether the last step's rows went by nodes. */
bool rank_group_goes_by_nodes(const struct rank_group *group);

/* For rank 0's engine; the other ranks set theirs with rank_group_local. */
void rank_group_set_loads(struct rank_group *group, const struct engine_loads *loads);
void rank_group_set_masks(struct rank_group *group, const struct engine_masks *masks);

/* One step of all ranks' engines, as engine_run: plans and results [rank_group_count]. A plan
 * that breaks a rule fails alone; its reason, or the last such, is in *error. */
void rank_group_run(struct rank_group *group, const struct step_plan *const *plans,
                    struct step_result *const *results, struct error *error);

/* Experts change slots, on all ranks alike; see moves_begin. */
void rank_group_move(struct rank_group *group, const struct expert_move *moves, uint32_t count,
                     uint64_t bytes_per_second);
/* A rank has died or come back since the last regroup. */
bool rank_group_is_broken(const struct rank_group *group);
/* Ranks that live leave what they did; moves of experts under way are given up. Slots of ranks that
 * have come back hold what they held at first. A step may follow once no expert's slot on a dead rank
 * is in the map: see rebalancer_regroup. */
void rank_group_regroup(struct rank_group *group);
bool rank_group_lives(const struct rank_group *group, uint32_t rank);
/* How often a rank has died or come back. */
uint32_t rank_group_epoch(const struct rank_group *group);

/* Writes the progress of each rank's moves of experts, [rank_group_count]. If `tokens` is not NULL,
 * also writes the tokens that each rank's slots have computed since the last call:
 * [rank_group_count][model_slot_count]. Returns false, with undefined results, if a rank died. */
bool rank_group_notify(struct rank_group *group, struct model_moving *reported, uint32_t *tokens);
/* All ranks take the moved experts, of which none is pending on any rank; see moves_adopt. */
void rank_group_adopt(struct rank_group *group, const uint64_t *dropped);

/* reports[rank_group_count]. */
void rank_group_report(struct rank_group *group, struct rank_report *reports);

/* Gathers all ranks' traces, `own` being rank 0's, and writes them. */
enum status rank_group_write_trace(struct rank_group *group, const struct trace *own,
                                   const char *path, struct error *error) MUST_USE;

/* Further work of a rank other than 0 while its model is open: its own pages move, and masks are made,
 * by themselves. Set before rank_group_work. */
struct rank_group_side {
    void *context;
    /* The options that rank 0 sends to the others at the start, for a rank that comes back. NULL: none. */
    enum status (*options)(void *context, struct model_options *options_out, struct error *error);
    enum status (*opened)(void *context, struct engine *engine, uint32_t rank, struct error *error);
    void (*closing)(void *context);
};
void rank_group_local(const struct rank_group_side *side);

/* A rank that comes back (job_rejoins), before job_begin: opens engine and model. */
enum status rank_group_prepare(uint32_t ranks, struct error *error) MUST_USE;

/* The work of a rank other than 0 until rank 0 ends. If rank 0's packed weights are in a directory,
 * this rank's are in `weights_directory` of its own host; NULL: in none. */
void rank_group_work(const char *weights_directory);

/* Rank 0: lets the other ranks go and leaves the job; nothing outside a job, or the second time. */
void rank_group_end(void);
