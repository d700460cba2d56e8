/* SPDX-License-Identifier: Apache-2.0
 * Flags of mpirun, and why:
 *   -q                       no advice beside our own one line of error
 *   --bind-to none           the kernels' teams spread by themselves
 *   --oversubscribe          many ranks on few CPUs are a way to test
 *   btl self,vader; pml ob1  shared memory, nothing that looks for a fabric at start
 *   mpi_yield_when_idle      where ranks outnumber CPUs a waiting rank must let others run
 */
#include "command/rank_job.h"

#include "base/check.h"
#include "base/file.h"
#include "compute/exchange/mpi_job.h"
#include "host/process/file_limit.h"
#include "host/process/private_room.h"
#include "host/process/rank_watch.h"
#ifdef FATHOM_SERVING
#include "command/eplb_load.h"
#endif

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define LAUNCHER "mpirun.openmpi"
#define LAUNCHER_FILES 48 /* measured: 22 when all runs, some more while ranks start */
#define LAUNCHER_FILES_EACH 4
#define WEIGHTS_PRIVATE "private"
#define PLACEMENT_BYTES_MAX ((size_t)64 << 20)

static int failed(const struct option_table *table, const char *format, const char *detail) {
    struct error error;
    enum status status = STATUS_UNSUPPORTED;
    error_write(&error, format, detail);
    return command_failed(table, status, &error);
}

static uint64_t cpus(void) {
    cpu_set_t set;
    CPU_ZERO(&set);
    return sched_getaffinity(0, sizeof set, &set) == 0 ? (uint64_t)CPU_COUNT(&set) : 1;
}

/* Where the job's ranks keep their weights, unless the command line says another place. */
static struct private_room room;

/* ---- the command line ---- */

struct words {
    const char *list[256];
    size_t count;
};

static void add_words(struct words *words, const char *const *more) {
    for (; *more && words->count + 1 < ARRAY_COUNT(words->list); more++)
        words->list[words->count++] = *more;
}

/* The words and their texts in one piece, with a NULL behind. */
static const char **pack_words(const struct words *words) {
    size_t bytes = (words->count + 1) * sizeof(char *);
    for (size_t i = 0; i < words->count; i++)
        bytes += strlen(words->list[i]) + 1;
    const char **all = malloc(bytes);
    if (!all) return NULL;
    char *text = (char *)(all + words->count + 1);
    for (size_t i = 0; i < words->count; i++) {
        size_t length = strlen(words->list[i]) + 1;
        all[i] = memcpy(text, words->list[i], length);
        text += length;
    }
    all[words->count] = NULL;
    return all;
}

/* This program's file; when it was replaced since the start, what this process still holds of it:
 * all ranks run the same. */
static bool find_self(char path[static PATH_MAX]) {
    static const char gone[] = " (deleted)";
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);
    if (length <= 0) return false;
    path[length] = 0;
    size_t end = (size_t)length, mark = sizeof gone - 1;
    if (end > mark && strcmp(path + end - mark, gone) == 0)
        snprintf(path, PATH_MAX, "/proc/%d/exe", (int)getpid());
    return true;
}

const char **rank_job_command(uint64_t ranks, const char *files, const char *const *arguments) {
    static const char *const launcher[] = {
        LAUNCHER, "-q", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca",
        "plm", "isolated", "--mca", "pml", "ob1", "--mca", "btl", "self,vader",
        /* a rank that ends tells mpirun and waits two seconds for
           its answer: on a busy machine it would count as dead */
        "--mca", "orte_allowed_exit_without_sync", "1", NULL};
    static const char *const yielding[] = {"--mca", "mpi_yield_when_idle", "1", NULL};
    char self[PATH_MAX], count[24];
    struct words words = {.count = 0};
    if (!find_self(self)) return NULL;
    snprintf(count, sizeof count, "%" PRIu64, ranks);
    if (ranks > 1) {
        add_words(&words, launcher);
        if (ranks > cpus()) add_words(&words, yielding);
        if (files) {
            const char *const places[] = {
                "--mca", "orte_tmpdir_base", files, "--mca", "btl_vader_backing_directory", files,
                NULL};
            add_words(&words, places);
        }
        add_words(&words, (const char *const[]){"-np", count, NULL});
        /* where /sys is not mounted every rank would complain */
        setenv("HWLOC_HIDE_ERRORS", "2", 0);
        /* nobody asks for devices, and looking for them is a fifth of a rank's start */
        setenv("HWLOC_COMPONENTS", "-linuxio", 0);
        setenv("HWLOC_PLUGINS_PATH", "/nonexistent", 0); /* of other devices, and libxml2 */
    }
    add_words(&words, (const char *const[]){self, NULL});
    add_words(&words, arguments);
    return pack_words(&words);
}

/* Becomes mpirun; returns, with an exit code, only if that cannot be. */
static int become_mpirun(const struct option_table *table, const struct rank_job_values *values) {
    struct words words = {.count = 0};
    add_words(&words, (const char *const *)program_arguments + 1);
    if (room.path[0]) add_words(&words, (const char *const[]){"--weights-dir", room.path, NULL});
    words.list[words.count] = NULL;
    const char **all = rank_job_command(values->ranks, room.path[0] ? room.path : NULL, words.list);
    if (!all) return failed(table, "cannot form the command line of " LAUNCHER "%s", "");
    execvp(LAUNCHER, (char *const *)(uintptr_t)all);
    free(all);
    return failed(table,
                  "cannot start " LAUNCHER
                  ", which --ranks needs: %s; on Debian: apt-get install openmpi-bin",
                  strerror(errno));
}

static int wait_for(pid_t child) {
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* mpirun stands in a group of its own, so that a terminal's Ctrl-C comes to us alone. */
static int watch_over_mpirun(const struct option_table *table,
                             const struct rank_job_values *values) {
    sigset_t signals, before;
    uint32_t asked = 0;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGCHLD);
    sigprocmask(SIG_BLOCK, &signals, &before);
    pid_t parent = getpid(), child = fork();
    if (child < 0) return failed(table, "cannot start a process: %s", strerror(errno));
    if (child == 0) {
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != parent) _exit(EXIT_CODE_FAILED);
        sigprocmask(SIG_SETMASK, &before, NULL);
        _exit(become_mpirun(table, values));
    }
    for (int number; sigwait(&signals, &number) == 0;) {
        if (number == SIGCHLD) break;
        asked++;
        kill(child, SIGTERM);
    }
    int code = wait_for(child);
    if (code > EXIT_CODE_USAGE && !asked) /* nobody else says it: mpirun is quiet */
        fprintf(stderr, "fathom %s: a rank died, and with it the job (mpirun ended with %d)\n",
                table->command, code);
    return code;
}

/* Ranks share what they can, where there is a place for it. */
static void open_room(const struct option_table *table, const struct rank_job_values *values) {
    struct error error;
    if (values->weights_dir || private_room_open(NULL, &room, &error) == STATUS_OK) return;
    room.path[0] = 0;
    fprintf(stderr, "fathom %s: each rank has its own copy of all weights: %s\n", table->command,
            error.text);
}

/* mpirun has some files of its own and a few for each rank, which it misses in the dark; who
 * supervises has one for each rank. */
enum status rank_job_check_files(uint64_t ranks, uint64_t all_ranks, struct error *error) {
    uint64_t launcher = ranks > 1 ? LAUNCHER_FILES + LAUNCHER_FILES_EACH * ranks : 0;
    uint64_t own = LAUNCHER_FILES + 2 * all_ranks;
    uint64_t needed = launcher > own ? launcher : own, limit = file_limit_raise(needed);
    if (limit >= needed) return STATUS_OK;
    return error_set(error, STATUS_FULL,
                     "%" PRIu64 " ranks need %" PRIu64 " open files, and %" PRIu64
                     " are allowed: `ulimit -n %" PRIu64 "`",
                     all_ranks, needed, limit, needed);
}

bool rank_job_misused(const struct option_table *table, const struct rank_job_values *values,
                      int *exit_code_out) {
    if (values->ranks <= 1 || mpi_job_built()) return false;
    *exit_code_out = failed(table, "--ranks: this build has no ranks; build it where Open MPI is%s",
                            " (on Debian: apt-get install libopenmpi-dev openmpi-bin)");
    return true;
}

/* ---- signs of life ---- */

static int64_t watch_ns; /* the timeout; 0: nobody is watched */
static int watch_exit_code;

void rank_job_watch(double seconds, int exit_code) {
    watch_ns = (int64_t)(seconds * 1e9);
    watch_exit_code = exit_code;
}

static enum status begin_watched(struct error *error) {
    if (!watch_ns) return mpi_job_begin(error);
    struct rank_watch_place place;
    enum status status = STATUS_OK;
    if (mpi_job_rank_ahead() == 0) status = rank_watch_await(watch_ns, watch_exit_code, error);
    if (!status) status = mpi_job_begin(error);
    if (status) return status;
    if (mpi_job_rank() != 0) {
        mpi_job_receive(0, &place, sizeof place);
        return rank_watch_follow(&place, mpi_job_rank(), error);
    }
    status = rank_watch_begin(mpi_job_count(), &place, error);
    for (uint32_t rank = 1; !status && rank < mpi_job_count(); rank++)
        mpi_job_send(rank, &place, sizeof place);
    return status;
}

enum job_kind { JOB_DRIVEN, JOB_JOINED, JOB_ALIKE };

static bool begin(const struct option_table *table, const struct rank_job_values *values,
                  enum job_kind kind, int *exit_code_out) {
    struct error error;
    if (values->ranks <= 1) return false;
    if (rank_job_misused(table, values, exit_code_out)) return true;
    if (!mpi_job_exists()) {
        if (kind == JOB_JOINED) return false;
        if (rank_job_check_files(values->ranks, values->ranks, &error)) {
            *exit_code_out = command_failed(table, STATUS_FULL, &error);
            return true;
        }
        if (kind == JOB_ALIKE) {
            *exit_code_out = become_mpirun(table, values);
            return true;
        }
        open_room(table, values);
        *exit_code_out = watch_over_mpirun(table, values);
        private_room_close(&room);
        return true;
    }
    enum status status = begin_watched(&error);
    if (status != STATUS_OK) {
        *exit_code_out = command_failed(table, status, &error);
        return true;
    }
    if (mpi_job_count() != values->ranks) { /* somebody's own mpirun */
        bool speaks = mpi_job_rank() == 0;
        uint32_t count = mpi_job_count();
        mpi_job_end();
        *exit_code_out = EXIT_CODE_USAGE;
        if (speaks)
            command_misused(table, "--ranks is %u, but this job has %u", (uint32_t)values->ranks,
                            count);
        return true;
    }
    if (kind == JOB_ALIKE) return false;
    if (mpi_job_rank() == 0) {
        atexit(rank_group_end); /* however rank 0 ends, the others may go */
        return false;
    }
    signal(SIGUSR2, SIG_IGN); /* rank 0 says when it is over */
    rank_group_work();
    *exit_code_out = EXIT_CODE_OK;
    return true;
}

bool rank_job_begin(const struct option_table *table, const struct rank_job_values *values,
                    int *exit_code_out) {
    return begin(table, values, JOB_DRIVEN, exit_code_out);
}

bool rank_job_begin_bench(const struct option_table *table, int argc, char **argv, void *values,
                          const struct rank_job_values *job, const char *alone,
                          int *exit_code_out) {
    struct option_result result;
    if (!command_begin(table, argc, argv, values, &result, exit_code_out)) return true;
    if (job->ranks > 1) return rank_job_begin(table, job, exit_code_out);
    *exit_code_out = command_misused(table, "one rank %s: give --ranks 2", alone);
    return true;
}

bool rank_job_join(const struct option_table *table, const struct rank_job_values *values,
                   int *exit_code_out) {
    return begin(table, values, JOB_JOINED, exit_code_out);
}

bool rank_job_begin_alike(const struct option_table *table, const struct rank_job_values *values,
                          int *exit_code_out) {
    return begin(table, values, JOB_ALIKE, exit_code_out);
}

#ifdef FATHOM_SERVING
static enum status read_placement(const char *path, struct model_options *options,
                                  struct error *error) {
    struct eplb_placement placement;
    struct bytes text;
    enum status status = file_take(path, PLACEMENT_BYTES_MAX, &text, error);
    if (status != STATUS_OK) return status;
    status = eplb_load_parse_placement(text, path, &placement, error);
    free((void *)(uintptr_t)text.data);
    if (status != STATUS_OK) return status;
    options->placement = placement.slot_to_expert;
    options->placement_layers = placement.layers;
    options->placement_slots = placement.slots;
    return STATUS_OK;
}
#else
static enum status read_placement(const char *path, struct model_options *options,
                                  struct error *error) {
    return error_set(error, STATUS_UNSUPPORTED, "--placement: this build has no fathom eplb");
}
#endif

static struct trace *trace; /* rank 0's, for the life of the process */

enum status rank_job_options(const struct rank_job_values *values, struct model_options *options,
                             struct error *error) {
    options->redundant_experts = (uint32_t)values->redundant;
    options->placement_seed = values->seed;
    options->move_bytes = values->move_memory;
    options->link_gbps = values->link_gbps;
    options->link_us = values->link_us;
    options->weights_verify = values->weights_verify;
    options->weights_unit = (uint32_t)values->weights_unit;
    if (values->weights_dir && strcmp(values->weights_dir, WEIGHTS_PRIVATE) != 0)
        options->weights_directory = values->weights_dir;
    if (values->trace) {
        trace = trace_open();
        if (!trace) return error_set(error, STATUS_NO_MEMORY, "no memory for the trace");
        options->trace = trace_hook(trace);
    }
    if (!values->placement || values->ranks <= 1) return STATUS_OK;
    return read_placement(values->placement, options, error);
}

struct rebalancer_options rank_job_rebalance(const struct rank_job_values *values) {
    enum replica_choice replicas;
    bool known = choose_replicas_named(values->replica_choice, &replicas);
    check(known);
    return (struct rebalancer_options){
        .replicas = replicas,
        .from_checkpoint = strcmp(values->rebalance_from, "checkpoint") == 0,
        .seconds = 30,
        .gain = 0.05,
        .bytes_per_second = values->move_mbps * 125000,
        .reshuffle_steps = values->reshuffle_steps,
    };
}

enum status rank_job_write_trace(const struct rank_job_values *values, struct rank_group *group,
                                 struct error *error) {
    if (!values->trace) return STATUS_OK;
    return rank_group_write_trace(group, trace, values->trace, error);
}

void rank_job_print_json(const struct rank_job_values *values, struct rank_group *group) {
    static struct rank_report reports[LIMIT_RANKS];
    if (values->ranks <= 1) return;
    rank_group_report(group, reports);
    for (uint32_t rank = 0; rank < rank_group_count(group); rank++) {
        const struct model_rank *model = &reports[rank].model;
        printf("%s{\"rank\":%u,\"pid\":%" PRId64 ",\"slots\":%u,\"weight_bytes\":%" PRIu64
               ",\"mapped_bytes\":%" PRIu64 ",\"read_bytes\":%" PRIu64 ",\"tokens\":%" PRIu64
               ",\"tokens_dispatched\":%" PRIu64 ",\"pairs\":%" PRIu64
               ",\"slots_used\":%u,\"bytes_sent\":%" PRIu64 ",\"experts_moved\":%" PRIu64
               ",\"bytes_moved\":%" PRIu64 "}",
               rank ? ",\n" : ",\n\"ranks\":[", rank, reports[rank].pid, model->slots,
               model->weight_bytes, model->mapped_bytes, model->read_bytes, model->tokens,
               model->tokens_dispatched, model->pairs, model->slots_used, model->bytes_sent,
               model->experts_moved, model->bytes_moved);
    }
    printf("]");
}
