/* SPDX-License-Identifier: Apache-2.0
 * `--ranks N`: the options, starting the job, and what a result says about its ranks. A program
 * that takes ranks calls rank_job_begin first:
 *
 *   given by a person   starts mpirun with the same command line N times, and waits for its end
 *   as rank 0 of a job  goes on: a solo, or a group of ranks, then spans the job
 *   as another rank     works for rank 0 until it ends; the program is over
 */
#ifndef COMMAND_RANK_JOB_H
#define COMMAND_RANK_JOB_H

#include "command/command.h"
#include "host/engine/rebalancer.h"

struct rank_job_values {
    uint64_t ranks, redundant, seed, reshuffle_steps, move_memory, move_mbps;
    const char *placement, *replica_choice, *rebalance_from;
    double link_gbps, link_us;
    const char *trace;
    const char *weights_dir;
    bool weights_verify;
    uint64_t weights_unit;
};

/* Rows for an option table of `owner`, which has a struct rank_job_values `job`. */
#define RANK_JOB_OPTIONS(owner)                                                                    \
    {.name = "ranks",                                                                              \
     .type = OPTION_COUNT,                                                                         \
     .fallback = "1",                                                                              \
     .help = "processes that share the experts and the sequences; never changes a result",         \
     .offset = offsetof(owner, job.ranks),                                                         \
     .minimum = 1,                                                                                 \
     .maximum = LIMIT_RANKS},                                                                      \
        {.name = "redundant-experts",                                                              \
         .type = OPTION_COUNT,                                                                     \
         .help = "among ranks: slots for replicas of experts, at least so many in each layer",     \
         .offset = offsetof(owner, job.redundant),                                                 \
         .maximum = LIMIT_EXPERTS},                                                                \
        {.name = "weights-dir",                                                                    \
         .type = OPTION_TEXT,                                                                      \
         .help = "keep packed weights in files there, for other processes and the next start to "  \
                 "map; 'private': in each process's own memory; among ranks, if not given: in "    \
                 "files in memory, for as long as the command runs",                               \
         .offset = offsetof(owner, job.weights_dir)},                                              \
        {.name = "weights-unit",                                                                   \
         .type = OPTION_COUNT,                                                                     \
         .help = "tells units apart that have one --weights-dir: each has its own experts",        \
         .offset = offsetof(owner, job.weights_unit),                                              \
         .maximum = UINT32_MAX},                                                                   \
        {.name = "weights-verify",                                                                 \
         .type = OPTION_FLAG,                                                                      \
         .help = "look through the files of --weights-dir, and pack anew what is damaged",         \
         .offset = offsetof(owner, job.weights_verify)},                                           \
        {.name = "link-gbps",                                                                      \
         .type = OPTION_NUMBER,                                                                    \
         .help = "among ranks: the rate of each rank's link in Gbit/s, to see what a schedule "    \
                 "hides; 0: as fast as it goes",                                                   \
         .offset = offsetof(owner, job.link_gbps),                                                 \
         .maximum = 1e6},                                                                          \
        {.name = "trace",                                                                          \
         .type = OPTION_TEXT,                                                                      \
         .help = "write a trace of all ranks' stages to this file, for ui.perfetto.dev and "       \
                 "`fathom trace report`",                                                          \
         .offset = offsetof(owner, job.trace)},                                                    \
        {.name = "link-us",                                                                        \
         .type = OPTION_NUMBER,                                                                    \
         .help = "among ranks: the link's latency in microseconds",                                \
         .offset = offsetof(owner, job.link_us),                                                   \
         .maximum = 1e6},                                                                          \
        {.name = "reshuffle-steps",                                                                \
         .type = OPTION_COUNT,                                                                     \
         .help = "among ranks: not 0 moves experts to other slots, by chance, again and again "    \
                 "after so many steps; never changes a result",                                    \
         .offset = offsetof(owner, job.reshuffle_steps)},                                          \
        {.name = "replica-choice",                                                                 \
         .type = OPTION_CHOICE,                                                                    \
         .fallback = "auto",                                                                       \
         .choices = "auto|turns|flow",                                                             \
         .help = "among ranks: a batch's tokens take the replicas of an expert in turns, or all "  \
                 "ranks tell each other their counts and split them so that the busiest rank has " \
                 "least to do; auto: the latter in large steps; never changes a result",           \
         .offset = offsetof(owner, job.replica_choice)},                                           \
        {.name = "rebalance-from",                                                                 \
         .type = OPTION_CHOICE,                                                                    \
         .fallback = "ranks",                                                                      \
         .choices = "ranks|checkpoint",                                                            \
         .help = "where the weights of experts on their way come from: ranks that hold them, or "  \
                 "the checkpoint",                                                                 \
         .offset = offsetof(owner, job.rebalance_from)},                                           \
        {.name = "rebalance-memory",                                                               \
         .type = OPTION_BYTES,                                                                     \
         .fallback = "64MiB",                                                                      \
         .help = "on each rank, for experts on their way to new slots; at least those of one "     \
                 "layer's slots",                                                                  \
         .offset = offsetof(owner, job.move_memory)},                                              \
        {.name = "rebalance-mbps",                                                                 \
         .type = OPTION_COUNT,                                                                     \
         .fallback = "400",                                                                        \
         .help = "Mbit/s that a rank gives to experts on their way at most; 0: as fast as it "     \
                 "goes",                                                                           \
         .offset = offsetof(owner, job.move_mbps)},                                                \
        {.name = "placement-seed",                                                                 \
         .type = OPTION_COUNT,                                                                     \
         .help = "among ranks: not 0 shuffles the experts' slots; never changes a result",         \
         .offset = offsetof(owner, job.seed)},                                                     \
    {                                                                                              \
        .name = "placement", .type = OPTION_TEXT,                                                  \
        .help = "among ranks: a file that says which expert lies in which slot, as fathom eplb "   \
                "--json prints it",                                                                \
        .offset = offsetof(owner, job.placement)                                                   \
    }

/* The command line that starts so many ranks of this program: `arguments` (NULL at the end) are
 * what follows its name. Open MPI keeps its files in the folder `files`; NULL: in its usual places.
 * One rank needs no launcher. One piece of memory, for free(); NULL: none is left. */
const char **rank_job_command(uint64_t ranks, const char *files, const char *const *arguments);

/* True: the program is over, with that exit code. */
bool rank_job_begin(const struct option_table *table, const struct rank_job_values *values,
                    int *exit_code_out);

/* As command_begin and then rank_job_begin, for a benchmark that needs several ranks: `job` is a
 * part of `values`, and one rank alone "sends nothing", say. */
bool rank_job_begin_bench(const struct option_table *table, int argc, char **argv, void *values,
                          const struct rank_job_values *job, const char *alone, int *exit_code_out);

/* As rank_job_begin, for a program that somebody else starts as a job (bench/crew.h): outside of
 * one, it goes on. */
bool rank_job_join(const struct option_table *table, const struct rank_job_values *values,
                   int *exit_code_out);

/* Said before rank_job_join: the ranks watch one another (host/rank_watch.h) with the timeout of
 * `--rank-timeout`, and end with this code; 0 seconds: they do not. */
void rank_job_watch(double seconds, int exit_code);

/* For a job of so many ranks, by one who starts `all_ranks` in jobs: the files that this user may
 * open are enough; else the error says how many are needed. */
enum status rank_job_check_files(uint64_t ranks, uint64_t all_ranks, struct error *error) MUST_USE;

/* True, with the exit code: --ranks asks for what this build does not have; that was said. */
bool rank_job_misused(const struct option_table *table, const struct rank_job_values *values,
                      int *exit_code_out);

/* As rank_job_begin, for a program that all ranks run alike, and end with mpi_job_end. */
bool rank_job_begin_alike(const struct option_table *table, const struct rank_job_values *values,
                          int *exit_code_out);

/* What the options say, for the model. A placement lives as long as the process. */
enum status rank_job_options(const struct rank_job_values *values, struct model_options *options,
                             struct error *error) MUST_USE;

/* How experts move while steps run. */
struct rebalancer_options rank_job_rebalance(const struct rank_job_values *values);

/* Writes the trace that was asked for; nothing if none was. */
enum status rank_job_write_trace(const struct rank_job_values *values, struct rank_group *group,
                                 struct error *error) MUST_USE;

/* Among ranks: ,"ranks":[{"rank":0,...},...] for the end of a JSON object; else nothing. */
void rank_job_print_json(const struct rank_job_values *values, struct rank_group *group);

#endif
