/* SPDX-License-Identifier: Apache-2.0
 * A rank's environment is made before it is forked: where threads run, a child may do little more
 * than become another program.
 */
#include "host/process/rank_launch.h"

#include "base/check.h"
#include "base/limits.h"
#include "compute/exchange/job_meeting.h"
#include "host/process/log.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define EVENTS_AT_ONCE 64
#define MEETING_FILE 3 /* of a rank that does not speak, behind its three streams */
#define VARIABLES 5
#define VARIABLE_BYTES (JOB_HOST_BYTES + 32)

extern char **environ;

struct launched_rank {
    pid_t pid;    /* 0: it has ended */
    int process;  /* its pidfd */
    int meeting;  /* -1: it has ended, or says no more */
    bool is_here; /* it has said its HERE */
    char *in;     /* [JOB_HERE_BYTES_MAX] until then */
    size_t in_bytes;
    char *out; /* [out_bytes] that its socket did not take yet */
    size_t out_bytes;
};

struct rank_launch {
    struct rank_launch_options options;
    struct job_roster *roster;   /* NULL: its owner keeps it */
    struct launched_rank *ranks; /* [count] */
    uint32_t left;
    int file; /* epoll */
    char host[JOB_HOST_BYTES];
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

/* What a rank is told, behind what this process has in its own environment. */
struct rank_environment {
    char **list;
    char texts[VARIABLES][VARIABLE_BYTES];
};

static bool is_told(const char *variable) {
    static const char *const names[VARIABLES] = {JOB_MEETING_RANK, JOB_MEETING_RANKS,
                                                 JOB_MEETING_RANKS_HERE, JOB_MEETING_HOST,
                                                 JOB_MEETING_FILE};
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
        if (!is_told(*at)) environment->list[count++] = *at;
    for (size_t i = 0; i < VARIABLES; i++)
        environment->list[count++] = environment->texts[i];
    return true;
}

static void tell_rank(struct rank_environment *environment, const struct rank_launch *launch,
                      uint32_t rank) {
    char(*texts)[VARIABLE_BYTES] = environment->texts;
    uint32_t sharing = launch->options.sharing;
    snprintf(texts[0], VARIABLE_BYTES, JOB_MEETING_RANK "=%u", rank);
    snprintf(texts[1], VARIABLE_BYTES, JOB_MEETING_RANKS "=%u", launch->options.total);
    snprintf(texts[2], VARIABLE_BYTES, JOB_MEETING_RANKS_HERE "=%u",
             sharing ? sharing : launch->options.count);
    snprintf(texts[3], VARIABLE_BYTES, JOB_MEETING_FILE "=%d", MEETING_FILE);
    snprintf(texts[4], VARIABLE_BYTES, JOB_MEETING_HOST "=%s", launch->host);
}

/* In the child: the streams of a rank that has no input, or of one that is not to speak. */
static bool set_streams(bool speaks, bool reads) {
    int nothing = reads ? STDIN_FILENO : open("/dev/null", O_RDONLY);
    if (nothing < 0 || (!reads && dup2(nothing, STDIN_FILENO) < 0)) return false;
    return speaks || dup2(STDERR_FILENO, STDOUT_FILENO) >= 0;
}

/* In the child: never returns. */
static void become(const struct rank_launch_options *options, char *const *environment,
                   pid_t parent, int meeting, bool reads) {
    sigset_t none;
    setpgid(0, 0); /* a terminal's Ctrl-C comes to who launches alone */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(126);
    signal(SIGPIPE, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (!set_streams(options->speaks, reads)) _exit(126);
    if (meeting == MEETING_FILE)
        fcntl(meeting, F_SETFD, 0);
    else if (dup2(meeting, MEETING_FILE) < 0)
        _exit(126);
    close_range(MEETING_FILE + 1, ~0U, 0);
    execve(options->arguments[0], (char *const *)(uintptr_t)options->arguments, environment);
    log_say_in_child(LOG_ERROR, "launch", "a process cannot be started path=%s why=%s",
                     options->arguments[0], strerror(errno));
    _exit(2);
}

static bool listen_to(const struct rank_launch *launch, int file, uint32_t events, uint64_t mark) {
    struct epoll_event event = {.events = events, .data.u64 = mark};
    return epoll_ctl(launch->file, EPOLL_CTL_ADD, file, &event) == 0;
}

static enum status start(struct rank_launch *launch, struct rank_environment *environment,
                         uint32_t index, struct error *error) {
    const struct rank_launch_options *options = &launch->options;
    struct launched_rank *rank = &launch->ranks[index];
    uint32_t number = options->first + index;
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets))
        return error_set(error, STATUS_IO, "cannot make a socket for rank %u: %s", number,
                         strerror(errno));
    rank->meeting = sockets[0];
    tell_rank(environment, launch, number);
    pid_t parent = getpid();
    rank->pid = fork();
    if (rank->pid == 0)
        become(options, environment->list, parent, sockets[1], options->speaks && number == 0);
    close(sockets[1]);
    if (rank->pid > 0) launch->left++;
    if (rank->pid > 0) rank->process = pidfd_open(rank->pid, 0);
    rank->in = malloc(JOB_HERE_BYTES_MAX);
    bool started = rank->pid > 0 && rank->process >= 0 && rank->in &&
                   fcntl(rank->meeting, F_SETFL, O_NONBLOCK) == 0 &&
                   listen_to(launch, rank->process, EPOLLIN, (uint64_t)index << 1) &&
                   listen_to(launch, rank->meeting, EPOLLIN, (uint64_t)index << 1 | 1);
    if (started) return STATUS_OK;
    return error_set(error, STATUS_IO, "cannot start rank %u: %s", number, strerror(errno));
}

static enum status start_all(struct rank_launch *launch, struct error *error) {
    struct rank_environment environment;
    enum status status = STATUS_OK;
    if (!open_environment(&environment))
        return error_set(error, STATUS_NO_MEMORY, "no memory to start ranks");
    fflush(NULL);
    for (uint32_t i = 0; !status && i < launch->options.count; i++)
        status = start(launch, &environment, i, error);
    free(environment.list);
    return status;
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
        launch->ranks[i].process = launch->ranks[i].meeting = -1;
    if (options->host) snprintf(launch->host, sizeof launch->host, "%s", options->host);
    enum status status = STATUS_OK;
    launch->file = epoll_create1(EPOLL_CLOEXEC);
    if (launch->file < 0)
        status = error_set(error, STATUS_IO, "cannot wait for ranks: %s", strerror(errno));
    if (!status && !options->here) status = job_roster_open(options->total, &launch->roster, error);
    if (!status) status = start_all(launch, error);
    if (status)
        rank_launch_close(launch);
    else
        *launch_out = launch;
    return status;
}

/* ---- what comes ---- */

static void close_meeting(struct launched_rank *rank) {
    if (rank->meeting >= 0) close(rank->meeting); /* and out of what is listened to */
    rank->meeting = -1;
    free(rank->in);
    free(rank->out);
    rank->in = rank->out = NULL;
    rank->out_bytes = 0;
}

static void listen_for(const struct rank_launch *launch, const struct launched_rank *rank,
                       uint32_t events) {
    uint64_t index = (uint64_t)(rank - launch->ranks);
    struct epoll_event event = {.events = events, .data.u64 = index << 1 | 1};
    check(epoll_ctl(launch->file, EPOLL_CTL_MOD, rank->meeting, &event) == 0);
}

/* How much of it the rank's socket takes. */
static size_t push(const struct launched_rank *rank, const char *data, size_t bytes) {
    ssize_t sent = send(rank->meeting, data, bytes, MSG_NOSIGNAL);
    return sent > 0 ? (size_t)sent : 0;
}

static void push_rest(struct rank_launch *launch, struct launched_rank *rank) {
    size_t sent = push(rank, rank->out, rank->out_bytes);
    rank->out_bytes -= sent;
    memmove(rank->out, rank->out + sent, rank->out_bytes);
    if (rank->out_bytes == 0) listen_for(launch, rank, EPOLLIN);
}

static void tell(struct rank_launch *launch, struct launched_rank *rank, struct bytes frame) {
    if (rank->meeting < 0) return;
    size_t sent = rank->out_bytes ? 0 : push(rank, frame.data, frame.count);
    if (sent == frame.count) return;
    size_t bytes = frame.count - sent;
    rank->out = realloc(rank->out, rank->out_bytes + bytes);
    check(rank->out); /* a roster, at most, and who is gone: a few MiB */
    memcpy(rank->out + rank->out_bytes, frame.data + sent, bytes);
    rank->out_bytes += bytes;
    listen_for(launch, rank, EPOLLIN | EPOLLOUT);
}

void rank_launch_tell(struct rank_launch *launch, struct bytes frame) {
    for (uint32_t i = 0; i < launch->options.count; i++)
        tell(launch, &launch->ranks[i], frame);
}

static bool take_here(struct rank_launch *launch, struct launched_rank *rank) {
    const struct bytes frame = {rank->in, rank->in_bytes};
    struct job_frame head;
    memcpy(&head, frame.data, sizeof head);
    if (head.kind != JOB_FRAME_HERE) return false;
    if (head.rank != launch->options.first + (uint32_t)(rank - launch->ranks)) return false;
    rank->is_here = true;
    if (launch->options.here) {
        launch->options.here(launch->options.context, frame);
        return true;
    }
    if (!job_roster_add(launch->roster, frame)) return false;
    struct bytes all = job_roster_frame(launch->roster);
    if (all.count) rank_launch_tell(launch, all);
    return true;
}

/* False: the rank has said all, or what makes no sense. */
static bool read_rank(struct rank_launch *launch, struct launched_rank *rank) {
    char *in = rank->in + rank->in_bytes;
    size_t whole, room = JOB_HERE_BYTES_MAX - rank->in_bytes;
    ssize_t got = rank->is_here ? -1 : recv(rank->meeting, in, room, MSG_DONTWAIT);
    if (rank->is_here || got == 0) return false;
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    rank->in_bytes += (size_t)got;
    const struct bytes said = {rank->in, rank->in_bytes};
    if (!job_frame_measure(said, launch->options.total, &whole)) return false;
    if (whole == 0 || said.count < whole) return true;
    return said.count == whole && take_here(launch, rank);
}

static void bury(struct rank_launch *launch, struct launched_rank *rank) {
    int status;
    uint32_t number = launch->options.first + (uint32_t)(rank - launch->ranks);
    if (waitpid(rank->pid, &status, WNOHANG) != rank->pid) return;
    rank->pid = 0;
    launch->left--;
    close(rank->process);
    rank->process = -1;
    close_meeting(rank);
    const struct job_frame gone = job_frame_head(JOB_FRAME_GONE, number, 0);
    if (launch->roster) rank_launch_tell(launch, (struct bytes){(const char *)&gone, sizeof gone});
    launch->options.ended(launch->options.context, number, status);
}

static void tend(struct rank_launch *launch, const struct epoll_event *event) {
    struct launched_rank *rank = &launch->ranks[event->data.u64 >> 1];
    if (!(event->data.u64 & 1)) {
        if (rank->pid) bury(launch, rank);
        return;
    }
    if (rank->meeting < 0) return;
    if (event->events & EPOLLOUT) push_rest(launch, rank);
    if (event->events & (EPOLLIN | EPOLLHUP | EPOLLERR) && !read_rank(launch, rank))
        close_meeting(rank);
}

void rank_launch_tend(struct rank_launch *launch) {
    struct epoll_event events[EVENTS_AT_ONCE];
    int count = epoll_wait(launch->file, events, EVENTS_AT_ONCE, 0);
    for (int i = 0; i < count; i++)
        tend(launch, &events[i]);
}

int rank_launch_file(const struct rank_launch *launch) {
    return launch->file;
}

/* ---- signals and the end ---- */

static struct launched_rank *rank_of(const struct rank_launch *launch, uint32_t rank) {
    check(rank >= launch->options.first && rank - launch->options.first < launch->options.count);
    return &launch->ranks[rank - launch->options.first];
}

void rank_launch_signal(struct rank_launch *launch, uint32_t rank, int number) {
    const struct launched_rank *it = rank_of(launch, rank);
    if (it->pid) kill(it->pid, number); /* it was not waited for: the number is still its own */
}

void rank_launch_signal_all(struct rank_launch *launch, int number) {
    for (uint32_t i = 0; i < launch->options.count; i++)
        rank_launch_signal(launch, launch->options.first + i, number);
}

uint32_t rank_launch_left(const struct rank_launch *launch) {
    return launch->left;
}

pid_t rank_launch_pid(const struct rank_launch *launch, uint32_t rank) {
    return rank_of(launch, rank)->pid;
}

void rank_launch_close(struct rank_launch *launch) {
    if (!launch) return;
    rank_launch_signal_all(launch, SIGKILL);
    for (uint32_t i = 0; i < launch->options.count; i++) {
        struct launched_rank *rank = &launch->ranks[i];
        if (rank->pid > 0) waitpid(rank->pid, NULL, WNOHANG);
        if (rank->process >= 0) close(rank->process);
        close_meeting(rank);
    }
    if (launch->file >= 0) close(launch->file);
    job_roster_close(launch->roster);
    free(launch->ranks);
    free(launch);
}
