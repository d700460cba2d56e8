/* SPDX-License-Identifier: Apache-2.0
 * A process started by a user launches the ranks and remains as their launcher. It forwards
 * signals. If a rank dies, it kills the other ranks of the job and reports the failure.
 */
#include "command/rank_job.h"

#include "base/check.h"
#include "base/file.h"
#include "compute/exchange/job.h"
#include "compute/exchange/job_tree.h"
#include "host/process/file_limit.h"
#include "host/process/log/log.h"
#include "host/process/memory_fit.h"
#include "host/process/private_room.h"
#include "host/process/ranks/rank_launch.h"
#include "host/process/ranks/rank_manual.h"
#include "host/process/ranks/rank_watch.h"
#ifdef FATHOM_SERVING
#include "command/eplb_load.h"
#endif

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define LAUNCHER_FILES 48 /* files of any serving process */
#define LAUNCHER_FILES_EACH 3
#define LAST_WORDS_MS 50 /* time for the other ranks to report after a rank has died */
#define FAREWELL_MS 2000 /* time for the other ranks to exit after rank 0 has failed */
#define WEIGHTS_PRIVATE "private"
#define PLACEMENT_BYTES_MAX ((size_t)64 << 20)

static int rank_job_failed(const char *format, const char *detail) {
    struct error error;
    enum status status = STATUS_UNSUPPORTED;
    status_error_write(&error, format, detail);
    return command_failed(status, &error);
}

/* Directory of the job's weights, unless the command line gives another one. */
static struct private_room room;

/* ---- the command line ---- */

struct words {
    const char *list[256];
    size_t count;
};

static void rank_job_add_words(struct words *words, const char *const *more) {
    for (; *more && words->count + 1 < ARRAY_COUNT(words->list); more++)
        words->list[words->count++] = *more;
}

/* Copies the words and their texts to one allocation, with a NULL at the end. */
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

const char **rank_job_command(const char *const *arguments) {
    char self[RANK_LAUNCH_PATH_BYTES];
    struct words words = {.count = 0};
    if (!rank_launch_self(self)) return NULL;
    rank_job_add_words(&words, (const char *const[]){self, NULL});
    rank_job_add_words(&words, arguments);
    return pack_words(&words);
}

/* ---- launching ---- */

struct launcher {
    struct rank_launch *launch;
    bool asked; /* a signal has requested the end */
    bool failed;
    uint32_t rank; /* first rank that failed */
    int status;
};

static bool is_death(const struct launcher *launcher) {
    return WIFSIGNALED(launcher->status) || launcher->rank != 0;
}

static void rank_job_on_end(void *context, uint32_t rank, int status) {
    struct launcher *launcher = context;
    if (launcher->failed || status == 0) return;
    launcher->failed = true;
    launcher->rank = rank;
    launcher->status = status;
}

static void rank_job_hand_on(struct launcher *launcher, int file) {
    struct signalfd_siginfo signal;
    if (read(file, &signal, sizeof signal) != sizeof signal) return;
    launcher->asked = true;
    rank_launch_signal_all(launcher->launch, SIGTERM);
}

/* Waits until all ranks have exited. */
static void look_after(struct launcher *launcher, int signals) {
    struct pollfd files[2] = {{rank_launch_file(launcher->launch), POLLIN, 0},
                              {signals, POLLIN, 0}};
    while (rank_launch_left(launcher->launch)) {
        int wait_ms = -1;
        if (launcher->failed) wait_ms = is_death(launcher) ? LAST_WORDS_MS : FAREWELL_MS;
        int ready = poll(files, ARRAY_COUNT(files), wait_ms);
        if (ready == 0) rank_launch_signal_all(launcher->launch, SIGKILL);
        if (ready <= 0) continue;
        if (files[1].revents) rank_job_hand_on(launcher, signals);
        rank_launch_tend(launcher->launch);
    }
}

static int end_code(const struct launcher *launcher) {
    if (!launcher->failed) return EXIT_CODE_OK;
    bool exited = WIFEXITED(launcher->status);
    int code = exited ? WEXITSTATUS(launcher->status) : 128 + WTERMSIG(launcher->status);
    if (is_death(launcher) && code > EXIT_CODE_USAGE && !launcher->asked)
        fprintf(stderr, "fathom %s: rank %u died, and with it the job (%s %d)\n", command_name(),
                launcher->rank, exited ? "status" : "signal", exited ? code : code - 128);
    return code;
}

static enum status rank_job_launch(struct launcher *launcher, const char **arguments,
                                   uint64_t ranks, struct error *error) {
    sigset_t signals, before;
    const struct rank_launch_options options = {.arguments = arguments,
                                                .count = (uint32_t)ranks,
                                                .total = (uint32_t)ranks,
                                                .speaks = true,
                                                .context = launcher,
                                                .ended = rank_job_on_end};
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigprocmask(SIG_BLOCK, &signals, &before);
    int file = signalfd(-1, &signals, SFD_CLOEXEC);
    enum status status = STATUS_OK;
    if (file < 0) status = error_set(error, STATUS_IO, "no signals: %s", strerror(errno));
    if (!status) status = rank_launch_open(&options, &launcher->launch, error);
    if (!status) look_after(launcher, file);
    rank_launch_close(launcher->launch);
    if (file >= 0) close(file);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return status;
}

static int run_ranks(const struct rank_job_values *values) {
    struct launcher launcher = {.launch = NULL};
    struct words words = {.count = 0};
    struct error error;
    rank_job_add_words(&words, (const char *const *)program_arguments + 1);
    if (room.path[0])
        rank_job_add_words(&words, (const char *const[]){"--weights-dir", room.path, NULL});
    words.list[words.count] = NULL;
    const char **arguments = rank_job_command(words.list);
    if (!arguments) return rank_job_failed("cannot form the command line of a rank%s", "");
    enum status status = rank_job_launch(&launcher, arguments, values->ranks, &error);
    free(arguments);
    return status ? command_failed(status, &error) : end_code(&launcher);
}

/* Creates a directory in memory for the data that ranks share, if possible. */
static void open_room(const struct rank_job_values *values) {
    struct error error;
    if (values->weights_dir || private_room_open(NULL, &room, &error) == STATUS_OK) return;
    room.path[0] = 0;
    fprintf(stderr, "fathom %s: each rank has its own copy of all weights: %s\n", command_name(),
            error.text);
}

/* A launcher has a pidfd and a socket per rank, and possibly a shared health table. */
enum status rank_job_check_files(uint64_t ranks, struct error *error) {
    uint64_t needed = LAUNCHER_FILES + LAUNCHER_FILES_EACH * ranks;
    uint64_t limit = file_limit_raise(needed);
    if (limit >= needed) return STATUS_OK;
    return error_set(error, STATUS_FULL,
                     "%" PRIu64 " ranks need %" PRIu64 " open files, and %" PRIu64
                     " are allowed: `ulimit -n %" PRIu64 "`",
                     ranks, needed, limit, needed);
}

bool rank_job_misused(const struct rank_job_values *values, int *exit_code_out) {
    if (values->ranks <= 1 || job_built()) return false;
    *exit_code_out = rank_job_failed("--ranks: this build has no ranks; build it where UCX is%s",
                                     " (on Debian: apt-get install libucx-dev)");
    return true;
}

/* ---- watch ---- */

static int64_t watch_ns; /* timeout; 0: ranks are not watched */
static int watch_exit_code;
static bool watches_start; /* watch only the start */

void rank_job_watch(double seconds, int exit_code, bool only_start) {
    watch_ns = (int64_t)(seconds * 1e9);
    watch_exit_code = exit_code;
    watches_start = only_start;
}

static void say_end(uint32_t rank, const char *what, const char *why) {
    log_say(LOG_ERROR, "rank", "ends what=%s rank=%u why=%s", what, rank, why);
    log_finish();
}

static enum status begin_counted(const struct rank_job_values *values, struct error *error) {
    job_on_abort(say_end);
    enum status status = job_begin(error);
    if (status || job_count() == values->ranks) return status;
    return error_set(error, STATUS_INVALID, "--ranks is %u, but its launcher started %u",
                     (uint32_t)values->ranks, job_count());
}

/* Sends rank 0's location to all ranks. Returns false if a rank has died. */
static bool share_place(struct rank_watch_place *place) {
    struct job_tree_parts parts = {.data = NULL};
    struct bytes part;
    size_t bytes;
    bool whole = true;
    if (job_rank() == 0) {
        memcpy(job_tree_add(&parts, JOB_TREE_ALL, sizeof *place), place, sizeof *place);
        job_tree_send(&parts);
    } else {
        whole =
            job_wait_message(job_tree_parent(), &bytes) && job_tree_receive(&parts, bytes, &part);
        if (whole) memcpy(place, part.data, sizeof *place);
    }
    job_tree_free(&parts);
    return whole;
}

static enum status begin_watched(const struct rank_job_values *values, struct error *error) {
    struct rank_watch_place place;
    enum status status = STATUS_OK;
    if (!job_exists())
        status = rank_manual_join(values->rendezvous, (uint32_t)values->ranks, error);
    if (!status && job_rejoins()) status = rank_group_prepare((uint32_t)values->ranks, error);
    if (status) return status;
    if (!watch_ns || job_rejoins()) return begin_counted(values, error);
    if (job_rank_assigned() == 0)
        status = rank_watch_await(watch_ns, watch_exit_code, watches_start, error);
    if (!status) status = begin_counted(values, error);
    if (status) return status;
    if (job_rank() != 0) {
        if (!share_place(&place)) return error_set(error, STATUS_GONE, "a rank has died");
        return rank_watch_follow(&place, job_rank(), error);
    }
    status = rank_watch_begin(job_count(), &place, error);
    if (!status) share_place(&place);
    return status;
}

bool rank_job_is_rank(const struct rank_job_values *values) {
    return values->ranks > 1 && (values->rendezvous || job_exists());
}

/* The directory of weights on this rank's host. It may differ between hosts. */
static const char *weights_directory(const struct rank_job_values *values) {
    bool in_files = values->weights_dir && strcmp(values->weights_dir, WEIGHTS_PRIVATE) != 0;
    return in_files ? values->weights_dir : NULL;
}

bool rank_job_begin(enum rank_job_kind kind, const struct rank_job_values *values,
                    int *exit_code_out) {
    struct error error;
    if (values->ranks <= 1) return false;
    if (rank_job_misused(values, exit_code_out)) return true;
    if (!rank_job_is_rank(values)) {
        if (rank_manual_is()) {
            *exit_code_out = command_misused("mpirun started this as one of several: say "
                                             "with --rank-meeting HOST:PORT where they meet");
            return true;
        }
        if (kind == RANK_JOB_JOINED) return false;
        if (rank_job_check_files(values->ranks, &error)) {
            *exit_code_out = command_failed(STATUS_FULL, &error);
            return true;
        }
        if (kind == RANK_JOB_DRIVEN) open_room(values);
        *exit_code_out = run_ranks(values);
        private_room_close(&room);
        return true;
    }
    enum status status = begin_watched(values, &error);
    if (status != STATUS_OK) {
        *exit_code_out = command_failed(status, &error);
        return true;
    }
    if (kind == RANK_JOB_ALIKE) return false;
    if (job_rank() == 0) {
        atexit(rank_group_end); /* releases the other ranks, however rank 0 ends */
        return false;
    }
    signal(SIGUSR2, SIG_IGN); /* rank 0 decides when to end */
    rank_group_work(weights_directory(values));
    *exit_code_out = EXIT_CODE_OK;
    return true;
}

#ifdef FATHOM_SERVING
static struct eplb_placement placement; /* only on rank 0; never freed */

static enum status read_placement(const char *path, struct model_options *options,
                                  struct error *error) {
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

static struct trace *trace; /* only on rank 0; never freed */

enum status rank_job_options(const struct rank_job_values *values, struct model_options *options,
                             struct error *error) {
    options->redundant_experts = (uint32_t)values->redundant;
    options->placement_seed = values->seed;
    options->move_bytes = values->move_memory;
    options->node_ranks = (uint32_t)values->node_ranks;
    options->rows_by_host = values->device_rows && strcmp(values->device_rows, "host") == 0;
    options->link_gbps = values->link_gbps;
    options->link_us = values->link_us;
    options->near_gbps = values->near_gbps;
    options->weights_verify = values->weights_verify;
    options->weights_unit = (uint32_t)values->weights_unit;
    options->weights_directory = weights_directory(values);
    struct memory_fit *fit = options->fits_context;
    if (fit) fit->weights_directory = options->weights_directory;
    if (values->trace) {
        trace = trace_open();
        if (!trace) return error_set(error, STATUS_NO_MEMORY, "no memory for the trace");
        options->trace = trace_hook(trace);
    }
    return values->placement ? read_placement(values->placement, options, error) : STATUS_OK;
}

struct rebalancer_options rank_job_rebalance(const struct rank_job_values *values) {
    enum replica_choice replicas;
    enum level_choice levels;
    bool known = choose_replicas_named(values->replica_choice, &replicas);
    check(known);
    known = choose_levels_named(values->levels, &levels);
    check(known);
    return (struct rebalancer_options){
        .replicas = replicas,
        .levels = levels,
        .from_checkpoint = strcmp(values->rebalance_from, "checkpoint") == 0,
        .seconds = 30,
        .gain = 0.05,
        .bytes_per_second = values->move_mbps * 125000,
        .reshuffle_steps = values->reshuffle_steps,
    };
}

enum status rank_job_solo_options(const struct model_run_values *run,
                                  const struct rank_job_values *values,
                                  struct solo_options *options, struct error *error) {
    *options =
        (struct solo_options){.schedule = run->schedule, .rebalance = rank_job_rebalance(values)};
    enum status status = model_run_options(run, &options->model, error);
    return status ? status : rank_job_options(values, &options->model, error);
}

enum status rank_job_write_trace(const struct rank_job_values *values, struct rank_group *group,
                                 struct error *error) {
    if (!values->trace) return STATUS_OK;
    return rank_group_write_trace(group, trace, values->trace, error);
}

void rank_job_print_json(const struct rank_job_values *values, struct rank_group *group,
                         struct json_print *print) {
    static struct rank_report reports[LIMIT_RANKS];
    if (values->ranks <= 1) return;
    rank_group_report(group, reports);
    json_print_open(print, "ranks", '[');
    for (uint32_t rank = 0; rank < rank_group_count(group); rank++) {
        const struct model_rank *model = &reports[rank].model;
        json_print_open(print, NULL, '{');
        json_print_values(
            print,
            "\"rank\":%u,\"pid\":%ld,\"slots\":%u,\"weight_bytes\":%lu,\"mapped_bytes\":%lu,"
            "\"read_bytes\":%lu,\"tokens\":%lu,\"tokens_dispatched\":%lu,\"pairs\":%lu,"
            "\"slots_used\":%u,\"bytes_sent\":%lu,\"bytes_between_nodes\":%lu,"
            "\"experts_moved\":%lu,\"bytes_moved\":%lu",
            rank, reports[rank].pid, model->slots, model->weight_bytes, model->mapped_bytes,
            model->read_bytes, model->tokens, model->tokens_dispatched, model->pairs,
            model->slots_used, model->bytes_sent, model->bytes_between_nodes, model->experts_moved,
            model->bytes_moved);
        json_print_close(print);
    }
    json_print_close(print);
}
