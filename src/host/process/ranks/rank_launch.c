/* SPDX-License-Identifier: Apache-2.0
 * A rank's environment is built before the fork: a child of a threaded process may do little more
 * than exec.
 */
#include "host/process/ranks/rank_launch.h"

#include "base/check.h"
#include "base/limits.h"
#include "compute/exchange/job_rendezvous.h"
#include "host/process/child_process.h"
#include "host/process/ranks/rank_rendezvous.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define EVENTS_AT_ONCE 64
#define RENDEZVOUS_FILE 3 /* of a rank: the first descriptor after its three streams */
#define VARIABLES 7
#define VARIABLE_BYTES (JOB_HOST_BYTES + 32)

extern char **environ;

struct launched_rank {
    pid_t pid;   /* 0: it has ended */
    int process; /* its pidfd; -1: it has ended */
};

struct rank_launch {
    struct rank_launch_options options;
    struct rank_rendezvous *rendezvous;
    struct launched_rank *ranks; /* [count] */
    uint32_t left;
    int file; /* epoll of the processes and the rendezvous */
};

/* ---- starting ---- */

bool rank_launch_self(char path[static RANK_LAUNCH_PATH_BYTES]) {
    static const char gone[] = " (deleted)";
    ssize_t length = readlink("/proc/self/exe", path, RANK_LAUNCH_PATH_BYTES - 1);
    if (length <= 0) return false;
    path[length] = 0;
    size_t end = (size_t)length, mark = sizeof gone - 1;
    if (end > mark && strcmp(path + end - mark, gone) == 0)
        snprintf(path, RANK_LAUNCH_PATH_BYTES, "/proc/%d/exe", (int)getpid());
    return true;
}

/* The variables of a rank, after those of this process's own environment. */
struct rank_environment {
    char **list;
    char texts[VARIABLES][VARIABLE_BYTES];
};

static bool is_reported(const char *variable) {
    static const char *const names[VARIABLES] = {
        JOB_RENDEZVOUS_RANK, JOB_RENDEZVOUS_RANKS,   JOB_RENDEZVOUS_RANKS_HERE, JOB_RENDEZVOUS_HOST,
        JOB_RENDEZVOUS_FILE, JOB_RENDEZVOUS_RETURNS, JOB_RENDEZVOUS_PLACE};
    for (size_t i = 0; i < VARIABLES; i++) {
        size_t length = strlen(names[i]);
        if (strncmp(variable, names[i], length) == 0 && variable[length] == '=') return true;
    }
    return false;
}

static bool open_environment(struct rank_environment *environment) {
    size_t count = 0;
    for (char **at = environ; *at; at++)
        count++;
    environment->list = calloc(count + VARIABLES + 1, sizeof *environment->list);
    if (!environment->list) return false;
    count = 0;
    for (char **at = environ; *at; at++)
        if (!is_reported(*at)) environment->list[count++] = *at;
    for (size_t i = 0; i < VARIABLES; i++)
        environment->list[count++] = environment->texts[i];
    return true;
}

static void notify_rank(struct rank_environment *environment, const struct rank_launch *launch,
                        uint32_t rank, bool returns) {
    char(*texts)[VARIABLE_BYTES] = environment->texts;
    uint32_t sharing = launch->options.sharing;
    snprintf(texts[0], VARIABLE_BYTES, JOB_RENDEZVOUS_RANK "=%u", rank);
    snprintf(texts[1], VARIABLE_BYTES, JOB_RENDEZVOUS_RANKS "=%u", launch->options.total);
    snprintf(texts[2], VARIABLE_BYTES, JOB_RENDEZVOUS_RANKS_HERE "=%u",
             sharing ? sharing : launch->options.count);
    snprintf(texts[3], VARIABLE_BYTES, JOB_RENDEZVOUS_FILE "=%d", RENDEZVOUS_FILE);
    snprintf(texts[4], VARIABLE_BYTES, JOB_RENDEZVOUS_HOST "=%s",
             launch->options.host ? launch->options.host : "");
    snprintf(texts[5], VARIABLE_BYTES, JOB_RENDEZVOUS_RETURNS "=%d", returns);
    snprintf(texts[6], VARIABLE_BYTES, JOB_RENDEZVOUS_PLACE "=%u",
             launch->options.before + rank - launch->options.first);
}

static bool rank_launch_listen_to(const struct rank_launch *launch, int file, uint32_t mark) {
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = mark};
    return epoll_ctl(launch->file, EPOLL_CTL_ADD, file, &event) == 0;
}

/* The rank's process has ended and was waited for. */
static void forget(struct rank_launch *launch, struct launched_rank *rank) {
    if (rank->process >= 0) close(rank->process);
    *rank = (struct launched_rank){.process = -1};
    launch->left--;
    rank_rendezvous_leave(launch->rendezvous,
                          launch->options.first + (uint32_t)(rank - launch->ranks));
}

static enum status start(struct rank_launch *launch, struct rank_environment *environment,
                         uint32_t index, bool returns, struct error *error) {
    const struct rank_launch_options *options = &launch->options;
    struct launched_rank *rank = &launch->ranks[index];
    uint32_t number = options->first + index;
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets))
        return error_set(error, STATUS_IO, "cannot make a socket for rank %u: %s", number,
                         strerror(errno));
    notify_rank(environment, launch, number, returns);
    const struct child_process_options child = {
        .words = options->arguments,
        .environment = environment->list,
        .input = options->speaks && number == 0 ? STDIN_FILENO : CHILD_PROCESS_NO_INPUT,
        .output = options->speaks ? STDOUT_FILENO : STDERR_FILENO,
        .extra = sockets[1],
        .end_signal = SIGKILL};
    enum status status = child_process_start(&child, &rank->pid, error);
    close(sockets[1]);
    if (status) {
        close(sockets[0]);
        return status;
    }
    launch->left++;
    rank->process = pidfd_open(rank->pid, 0);
    if (rank_rendezvous_add(launch->rendezvous, sockets[0], number) && rank->process >= 0 &&
        rank_launch_listen_to(launch, rank->process, index))
        return STATUS_OK;
    status = error_set(error, STATUS_IO, "cannot start rank %u: %s", number, strerror(errno));
    if (rank->pid > 0) { /* its end could not be reported */
        kill(rank->pid, SIGKILL);
        waitpid(rank->pid, NULL, 0);
        forget(launch, rank);
    }
    return status;
}

static enum status start_some(struct rank_launch *launch, uint32_t first, uint32_t count,
                              bool returns, struct error *error) {
    struct rank_environment environment;
    enum status status = STATUS_OK;
    if (!open_environment(&environment))
        return error_set(error, STATUS_NO_MEMORY, "no memory to start ranks");
    for (uint32_t i = 0; !status && i < count; i++)
        status = start(launch, &environment, first + i, returns, error);
    free(environment.list);
    return status;
}

static enum status open_rendezvous(struct rank_launch *launch, struct error *error) {
    const struct rank_launch_options *options = &launch->options;
    const struct rank_rendezvous_options rendezvous = {.ranks = options->total,
                                                       .places = options->count,
                                                       .context = options->context,
                                                       .here = options->here};
    launch->file = epoll_create1(EPOLL_CLOEXEC);
    enum status status = rank_rendezvous_open(&rendezvous, &launch->rendezvous, error);
    if (status) return status;
    if (launch->file >= 0 &&
        rank_launch_listen_to(launch, rank_rendezvous_file(launch->rendezvous), options->count))
        return STATUS_OK;
    return error_set(error, STATUS_IO, "cannot wait for ranks: %s", strerror(errno));
}

enum status rank_launch_open(const struct rank_launch_options *options,
                             struct rank_launch **launch_out, struct error *error) {
    check(options->count > 0 && options->total <= LIMIT_RANKS &&
          options->first <= options->total - options->count);
    bool whole = options->count == options->total;
    check(whole ? !options->host : options->here && options->host);
    struct rank_launch *launch = calloc(1, sizeof *launch);
    if (launch) launch->ranks = calloc(options->count, sizeof *launch->ranks);
    if (!launch || !launch->ranks) {
        free(launch);
        return error_set(error, STATUS_NO_MEMORY, "no memory to start ranks");
    }
    launch->options = *options;
    for (uint32_t i = 0; i < options->count; i++)
        launch->ranks[i].process = -1;
    enum status status = open_rendezvous(launch, error);
    if (!status) status = start_some(launch, 0, options->count, false, error);
    if (status)
        rank_launch_close(launch);
    else
        *launch_out = launch;
    return status;
}

/* ---- while they run ---- */

static void rank_launch_bury(struct rank_launch *launch, struct launched_rank *rank) {
    int status;
    uint32_t number = launch->options.first + (uint32_t)(rank - launch->ranks);
    if (!rank->pid || waitpid(rank->pid, &status, WNOHANG) != rank->pid) return;
    forget(launch, rank);
    launch->options.ended(launch->options.context, number, status);
}

void rank_launch_tend(struct rank_launch *launch) {
    struct epoll_event events[EVENTS_AT_ONCE];
    int count = epoll_wait(launch->file, events, EVENTS_AT_ONCE, 0);
    for (int i = 0; i < count; i++)
        if (events[i].data.u32 == launch->options.count)
            rank_rendezvous_tend(launch->rendezvous);
        else
            rank_launch_bury(launch, &launch->ranks[events[i].data.u32]);
}

int rank_launch_file(const struct rank_launch *launch) {
    return launch->file;
}

void rank_launch_report(struct rank_launch *launch, struct bytes frame) {
    rank_rendezvous_report(launch->rendezvous, frame);
}

/* ---- signals and the end ---- */

static struct launched_rank *rank_launch_of(const struct rank_launch *launch, uint32_t rank) {
    check(rank >= launch->options.first && rank - launch->options.first < launch->options.count);
    return &launch->ranks[rank - launch->options.first];
}

void rank_launch_signal(struct rank_launch *launch, uint32_t rank, int number) {
    const struct launched_rank *it = rank_launch_of(launch, rank);
    if (it->pid) kill(it->pid, number); /* not waited for yet, so the pid is not reused */
}

enum status rank_launch_again(struct rank_launch *launch, uint32_t rank, struct error *error) {
    const struct launched_rank *it = rank_launch_of(launch, rank);
    if (it->pid > 0) return STATUS_OK;
    return start_some(launch, rank - launch->options.first, 1, true, error);
}

void rank_launch_signal_all(struct rank_launch *launch, int number) {
    for (uint32_t i = 0; i < launch->options.count; i++)
        rank_launch_signal(launch, launch->options.first + i, number);
}

uint32_t rank_launch_left(const struct rank_launch *launch) {
    return launch->left;
}

pid_t rank_launch_pid(const struct rank_launch *launch, uint32_t rank) {
    return rank_launch_of(launch, rank)->pid;
}

void rank_launch_close(struct rank_launch *launch) {
    if (!launch) return;
    rank_launch_signal_all(launch, SIGKILL);
    for (uint32_t i = 0; i < launch->options.count; i++) {
        struct launched_rank *rank = &launch->ranks[i];
        if (rank->pid > 0) waitpid(rank->pid, NULL, WNOHANG);
        if (rank->process >= 0) close(rank->process);
    }
    if (launch->file >= 0) close(launch->file);
    rank_rendezvous_close(launch->rendezvous);
    free(launch->ranks);
    free(launch);
}
