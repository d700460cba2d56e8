/* SPDX-License-Identifier: Apache-2.0
 * The option `--ranks N`: related options, the start of the job, and the results that concern
 * ranks. A program that supports ranks calls rank_job_begin first:
 *
 *   started by a user   starts N ranks with the same command line, and waits for their end
 *   as rank 0 of a job  continues: a solo, or a group of ranks, then spans the job
 *   as another rank     works for rank 0 until rank 0 ends; the program then exits
 */
#pragma once

#include "command/json_print.h"
#include "command/model_run.h"
#include "host/engine/rebalancer.h"

struct rank_job_values {
    uint64_t ranks, redundant, seed, reshuffle_steps, move_memory, move_mbps;
    const char *rendezvous;
    const char *placement, *replica_choice, *rebalance_from;
    uint64_t node_ranks;
    double link_gbps, link_us, near_gbps;
    const char *levels, *device_rows;
    const char *trace;
    const char *weights_dir;
    bool weights_verify;
    uint64_t weights_unit;
};

/* Values of `needs`, for options that have no effect with one rank, or in a unit without a separate
 * process. */
#define RANK_JOB_NEEDED "ranks|prefill-ranks|decode-ranks"
#define RANK_JOB_UNIT_SUPERVISOR_NEEDED "ranks|units|prefill-units|hosts|hostfile"

/* Option rows for a table with values of type `owner`, which has a member `job` of type struct
 * rank_job_values. */
#define RANK_JOB_OPTIONS(owner)                                                                    \
    OPTION_ROW("ranks", OPTION_COUNT, "1",                                                         \
               "processes that share the experts and the sequences; never changes a result",       \
               .offset = offsetof(owner, job.ranks), .minimum = 1, .maximum = LIMIT_RANKS,         \
               .group = OPTION_GROUP_RANKS),                                                       \
        OPTION_ROW("rank-meeting", OPTION_TEXT, NULL,                                              \
                   "HOST:PORT of rank 0, for ranks that your own mpirun or srun starts, on one "   \
                   "host or several; their network must be private",                               \
                   .offset = offsetof(owner, job.rendezvous), .needs = RANK_JOB_NEEDED,            \
                   .group = OPTION_GROUP_RANKS),                                                   \
        OPTION_ROW("redundant-experts", OPTION_COUNT, NULL,                                        \
                   "minimum slots for replicas of experts, in each layer",                         \
                   .offset = offsetof(owner, job.redundant), .needs = RANK_JOB_NEEDED,             \
                   .maximum = LIMIT_EXPERTS, .group = OPTION_GROUP_RANKS),                         \
        OPTION_ROW("placement", OPTION_TEXT, NULL,                                                 \
                   "a file with the experts' placement in slots, as fathom eplb --json prints it", \
                   .offset = offsetof(owner, job.placement), .needs = RANK_JOB_NEEDED,             \
                   .group = OPTION_GROUP_RANKS),                                                   \
        OPTION_ROW("replica-choice", OPTION_CHOICE, "auto",                                        \
                   "how a token's replica of an expert is chosen: in turns, or to minimize the "   \
                   "load of the busiest rank, for which ranks exchange their counts (flow); "      \
                   "auto: flow in large steps. Never changes a result",                            \
                   .offset = offsetof(owner, job.replica_choice), .choices = "auto|turns|flow",    \
                   .needs = RANK_JOB_NEEDED, .group = OPTION_GROUP_RANKS),                         \
        OPTION_ROW("rebalance-from", OPTION_CHOICE, "ranks",                                       \
                   "source of a moving expert's weights: ranks that hold it, or the checkpoint",   \
                   .offset = offsetof(owner, job.rebalance_from), .choices = "ranks|checkpoint",   \
                   .needs = RANK_JOB_NEEDED, .group = OPTION_GROUP_RANKS),                         \
        OPTION_ROW("rebalance-memory", OPTION_BYTES, "64MiB",                                      \
                   "memory of each rank for moving experts; at least one layer's slots",           \
                   .offset = offsetof(owner, job.move_memory), .needs = RANK_JOB_NEEDED,           \
                   .group = OPTION_GROUP_RANKS),                                                   \
        OPTION_ROW("rebalance-mbps", OPTION_COUNT, "400",                                          \
                   "maximum Mbit/s of each rank for moving experts; 0: no limit",                  \
                   .offset = offsetof(owner, job.move_mbps), .needs = RANK_JOB_NEEDED,             \
                   .group = OPTION_GROUP_RANKS),                                                   \
        OPTION_ROW("weights-dir", OPTION_TEXT, NULL,                                               \
                   "keep packed weights in files of this directory, which other processes and "    \
                   "later starts map; 'private': in each process's own memory. Default: ranks "    \
                   "share files in memory while the command runs",                                 \
                   .offset = offsetof(owner, job.weights_dir), .group = OPTION_GROUP_STORAGE),     \
        OPTION_ROW("weights-unit", OPTION_COUNT, NULL,                                             \
                   "number of this unit among those with the same --weights-dir; each has its "    \
                   "own experts",                                                                  \
                   .offset = offsetof(owner, job.weights_unit), .needs = "weights-dir",            \
                   .maximum = UINT32_MAX, .group = OPTION_GROUP_STORAGE),                          \
        OPTION_ROW("weights-verify", OPTION_FLAG, NULL,                                            \
                   "verify the files of --weights-dir, and repack damaged ones",                   \
                   .offset = offsetof(owner, job.weights_verify),                                  \
                   .needs = "weights-dir|" RANK_JOB_UNIT_SUPERVISOR_NEEDED,                        \
                   .group = OPTION_GROUP_STORAGE),                                                 \
        OPTION_ROW("trace", OPTION_TEXT, NULL,                                                     \
                   "write a trace of all ranks' stages to this file, for ui.perfetto.dev and "     \
                   "`fathom trace report`",                                                        \
                   .offset = offsetof(owner, job.trace), .group = OPTION_GROUP_TUNING),            \
        OPTION_ROW(                                                                                \
            "experiment", OPTION_EXPERIMENT, NULL,                                                 \
            "set one of the experiments below; repeat the option or separate several by commas",   \
            .group = OPTION_GROUP_EXPERIMENTS),                                                    \
        OPTION_ROW("reshuffle-steps", OPTION_COUNT, NULL,                                          \
                   "with ranks: move experts to random slots after every N steps; 0: never. "      \
                   "Never changes a result",                                                       \
                   .offset = offsetof(owner, job.reshuffle_steps), .needs = RANK_JOB_NEEDED,       \
                   .group = OPTION_GROUP_EXPERIMENTS),                                             \
        OPTION_ROW("placement-seed", OPTION_COUNT, NULL,                                           \
                   "with ranks: seed that shuffles the experts' slots; 0: no shuffle. Never "      \
                   "changes a result",                                                             \
                   .offset = offsetof(owner, job.seed), .needs = RANK_JOB_NEEDED,                  \
                   .group = OPTION_GROUP_EXPERIMENTS),                                             \
        OPTION_ROW("ranks-per-node", OPTION_COUNT, NULL,                                           \
                   "with ranks: treat this many consecutive ranks as one node; 0: as hosts have "  \
                   "them. Never changes a result",                                                 \
                   .offset = offsetof(owner, job.node_ranks), .needs = RANK_JOB_NEEDED,            \
                   .maximum = LIMIT_RANKS, .group = OPTION_GROUP_EXPERIMENTS),                     \
        OPTION_ROW("link-gbps", OPTION_NUMBER, NULL,                                               \
                   "with ranks: limit each rank's link to this many Gbit/s, to measure what a "    \
                   "schedule hides; 0: no limit",                                                  \
                   .offset = offsetof(owner, job.link_gbps), .needs = RANK_JOB_NEEDED,             \
                   .maximum = 1e6, .group = OPTION_GROUP_EXPERIMENTS),                             \
        OPTION_ROW("node-link-gbps", OPTION_NUMBER, NULL,                                          \
                   "with link-gbps: Gbit/s between ranks of the same node; 0: link-gbps",          \
                   .offset = offsetof(owner, job.near_gbps), .needs = "link-gbps", .maximum = 1e6, \
                   .group = OPTION_GROUP_EXPERIMENTS),                                             \
        OPTION_ROW("device-rows", OPTION_CHOICE, "auto",                                           \
                   "with ranks on devices: send rows between devices directly, across hosts if "   \
                   "the program has NCCL (auto), or through host memory. Never changes a result",  \
                   .offset = offsetof(owner, job.device_rows), .choices = "auto|host",             \
                   .needs = RANK_JOB_NEEDED, .group = OPTION_GROUP_EXPERIMENTS),                   \
        OPTION_ROW(                                                                                \
            "levels", OPTION_CHOICE, "auto",                                                       \
            "with several nodes: send rows to each rank (one), or once to each node, which "       \
            "forwards them (two); auto: by the size of the step. Never changes a result",          \
            .offset = offsetof(owner, job.levels), .choices = "auto|one|two",                      \
            .needs = RANK_JOB_NEEDED, .group = OPTION_GROUP_EXPERIMENTS),                          \
        OPTION_ROW("link-us", OPTION_NUMBER, NULL,                                                 \
                   "with ranks: add this many microseconds of latency to each rank's link",        \
                   .offset = offsetof(owner, job.link_us), .needs = RANK_JOB_NEEDED,               \
                   .maximum = 1e6, .group = OPTION_GROUP_EXPERIMENTS)

/* Returns the command line of a rank of this program, with `arguments` (NULL at the end) after its
 * name. It is one allocation, which the caller frees. NULL if memory is out. */
const char **rank_job_command(const char *const *arguments);

enum rank_job_kind {
    RANK_JOB_DRIVEN, /* rank 0 continues; the others work for it until it ends */
    RANK_JOB_JOINED, /* RANK_JOB_DRIVEN with ranks that a supervisor starts
                      * (programs/unit_supervisor.h); outside a job the program continues */
    RANK_JOB_ALIKE,  /* all ranks continue, and end with job_end */
};

/* Returns true if the program must exit with that exit code. */
bool rank_job_begin(enum rank_job_kind kind, const struct rank_job_values *values,
                    int *exit_code_out);

/* True if this process is a rank, or will become one; false for a launcher. */
bool rank_job_is_rank(const struct rank_job_values *values);

/* Enables the watch among ranks (host/process/ranks/rank_watch.h) with the timeout of
 * `--rank-timeout` (0: no watch) and this exit code. Called before rank_job_begin. With
 * `only_start`, the watch ends when the unit is ready, because a supervisor watches it from then
 * on. */
void rank_job_watch(double seconds, int exit_code, bool only_start);

/* Checks that the user's limit of open files suffices for a process that starts `ranks` ranks, in
 * one job or several. The error names the number needed. */
enum status rank_job_check_files(uint64_t ranks, struct error *error) MUST_USE;

/* Returns true, with the exit code, if --ranks asks for a feature that this build lacks. Prints the
 * error. */
bool rank_job_misused(const struct rank_job_values *values, int *exit_code_out);

/* Sets the model's options. The placement is never freed. */
enum status rank_job_options(const struct rank_job_values *values, struct model_options *options,
                             struct error *error) MUST_USE;

/* Sets a solo's options from both groups of option rows, except its sizes. */
enum status rank_job_solo_options(const struct model_run_values *run,
                                  const struct rank_job_values *values,
                                  struct solo_options *options, struct error *error) MUST_USE;

/* The options for moving experts while steps run. */
struct rebalancer_options rank_job_rebalance(const struct rank_job_values *values);

/* Writes the trace if one was requested. */
enum status rank_job_write_trace(const struct rank_job_values *values, struct rank_group *group,
                                 struct error *error) MUST_USE;

/* Prints the member "ranks" into an open object if there are several ranks. */
void rank_job_print_json(const struct rank_job_values *values, struct rank_group *group,
                         struct json_print *print);
