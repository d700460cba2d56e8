/* SPDX-License-Identifier: Apache-2.0
 * A group of ranks that share one model and run each step together. Rank 0 drives, and the others
 * execute its orders. Each rank has its own sequences and KV pages; routed experts are spread over
 * all ranks. A single process is a group of one, without messages.
 *
 *   rank 0       rank_group_open, rank_group_step ..., rank_group_close; rank_group_end at the end;
 *                or rank_group_open_engines and rank_group_run, where ranks choose tokens too
 *   the others   rank_group_work, until rank 0 ends
 *
 * A rank other than 0 may die and rejoin. In rank_group_run the rows of a dead rank then fail, and
 * the rows of all other ranks are lost and must be scheduled again; no step is possible before
 * rank_group_regroup. In all other calls a death ends this process. A rank that rejoins opens its
 * model alone (rank_group_prepare) while the others step, and then joins them.
 *
 * All ranks run one program on one kind of machine, so structs are sent as they are in memory.
 */
#pragma once

#include "compute/model/forward.h"
#include "compute/model/moves.h"
#include "host/engine/choose_levels.h"
#include "host/engine/choose_replicas.h"
#include "host/engine/engine.h"
#include "host/engine/trace.h"

struct rank_group;

/* One rank's part of a step. Without a plan it only computes experts for the others. */
struct rank_step {
    const struct step_plan *plan;    /* without drafts */
    float *logits;                   /* as in forward_run */
    const struct model_probe *probe; /* or NULL */
};

struct rank_report {
    int64_t pid;
    struct model_rank model;
};

/* Opens the model on all ranks of this job. `options` are rank 0's. Their fields about ranks are
 * filled in here; 0 threads become an even share of the CPUs; if rank 0 has a trace, each rank
 * records one. The error is that of the first rank that failed. */
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

/* Runs one step on all ranks: steps[rank_group_count]. */
enum status rank_group_step(struct rank_group *group, const struct rank_step *steps,
                            struct error *error) MUST_USE;

/* Slows down every rank's link to the others; zeros: full speed. See struct model_options. */
void rank_group_set_link(struct rank_group *group, double gbps, double us);

/* Measures the nanoseconds per byte from each rank to the rank `by` places after it in its ring of
 * `ring` consecutive ranks, while all send at once. Call it between two steps; it takes
 * milliseconds. */
double rank_group_measure_link(struct rank_group *group, uint32_t by, uint32_t ring);

/* Sets how tokens are split over replicas, from the next step on; REPLICAS_AUTO at first. */
void rank_group_set_replicas(struct rank_group *group, enum replica_choice choice);
/* Sets whether rows are sent once per node, from the next step on; LEVELS_AUTO at first. */
void rank_group_set_levels(struct rank_group *group, enum level_choice choice);
/* True if the last step's rows were sent once per node. */
bool rank_group_goes_by_nodes(const struct rank_group *group);

/* For rank 0's engine. The other ranks set theirs by rank_group_local. */
void rank_group_set_loads(struct rank_group *group, const struct engine_loads *loads);
void rank_group_set_masks(struct rank_group *group, const struct engine_masks *masks);

/* Runs one step on all ranks' engines, as engine_run: plans and results [rank_group_count]. An
 * invalid plan fails alone; *error has its reason, or the last one of several. */
void rank_group_run(struct rank_group *group, const struct step_plan *const *plans,
                    struct step_result *const *results, struct error *error);

/* Starts to move experts between slots, on all ranks alike; see moves_begin. */
void rank_group_move(struct rank_group *group, const struct expert_move *moves, uint32_t count,
                     uint64_t bytes_per_second);
/* True if a rank has died or rejoined since the last regroup. */
bool rank_group_is_broken(const struct rank_group *group);
/* The living ranks abandon the current step and all moves of experts. The slots of rejoined ranks
 * have their initial experts. A step is possible once the map has no slot of a dead rank: see
 * rebalancer_regroup. */
void rank_group_regroup(struct rank_group *group);
bool rank_group_lives(const struct rank_group *group, uint32_t rank);
/* The number of deaths and returns of ranks so far. */
uint32_t rank_group_epoch(const struct rank_group *group);

/* Writes the progress of each rank's moves of experts, [rank_group_count]. If `tokens` is not NULL,
 * also writes the tokens that each rank's slots have computed since the last call:
 * [rank_group_count][model_slot_count]. Returns false, with undefined results, if a rank died. */
bool rank_group_notify(struct rank_group *group, struct model_moving *reported, uint32_t *tokens);
/* All ranks adopt the moved experts. None may be pending on any rank; see moves_adopt. */
void rank_group_adopt(struct rank_group *group, const uint64_t *dropped);

/* reports[rank_group_count]. */
void rank_group_report(struct rank_group *group, struct rank_report *reports);

/* Gathers the traces of all ranks and writes them; `own` is rank 0's. */
enum status rank_group_write_trace(struct rank_group *group, const struct trace *own,
                                   const char *path, struct error *error) MUST_USE;

/* Further work of a rank other than 0 while its model is open: transfers of its own pages, and
 * grammar masks. Set it before rank_group_work. */
struct rank_group_side {
    void *context;
    /* Returns the options that rank 0 sent at the start, for a rank that rejoins. NULL: none. */
    enum status (*options)(void *context, struct model_options *options_out, struct error *error);
    enum status (*opened)(void *context, struct engine *engine, uint32_t rank, struct error *error);
    void (*closing)(void *context);
};
void rank_group_local(const struct rank_group_side *side);

/* For a rank that rejoins (job_rejoins), before job_begin: opens engine and model. */
enum status rank_group_prepare(uint32_t ranks, struct error *error) MUST_USE;

/* Runs a rank other than 0 until rank 0 ends. If rank 0's packed weights are in a directory, this
 * rank's are in `weights_directory` of its own host; NULL: it has none. */
void rank_group_work(const char *weights_directory);

/* For rank 0: releases the other ranks and leaves the job. Does nothing outside a job or if called
 * again. */
void rank_group_end(void);
