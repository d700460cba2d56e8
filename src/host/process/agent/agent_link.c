/* SPDX-License-Identifier: Apache-2.0 */
#include "host/process/agent/agent_link.h"

#include "base/check.h"
#include "base/clock.h"
#include "host/process/agent/agent_stream.h"
#include "host/process/log/log.h"
#include "host/process/ranks/child_start.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WORDS_NS ((int64_t)200000000) /* from the end of a process's output to its own */

struct agent_link {
    struct agent_link_options options;
    struct agent_stream stream;
    pid_t pid; /* 0: it was waited for */
    int status;
    bool is_lost;
};

/* In the child: never returns. */
static void agent_link_become(const char *const *command, int file, pid_t parent) {
    child_start_settle(parent);
    if (dup2(file, STDIN_FILENO) < 0 || dup2(file, STDOUT_FILENO) < 0) _exit(126);
    close_range(STDERR_FILENO + 1, ~0U, 0);
    execvp(command[0], (char *const *)(uintptr_t)command);
    log_say_in_child(LOG_ERROR, "supervisor", "a process cannot be started path=%s why=%s",
                     command[0], strerror(errno));
    _exit(errno == ENOENT ? 127 : 126);
}

static void agent_link_on_readable(int file, short what, void *context);

enum status agent_link_open(const struct agent_link_options *options, struct agent_link **link_out,
                            struct error *error) {
    int files[2];
    struct agent_link *link = calloc(1, sizeof *link);
    if (!link) return error_set(error, STATUS_NO_MEMORY, "no memory for an agent");
    link->options = *options;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, files)) {
        free(link);
        return error_set(error, STATUS_IO, "cannot make a socket: %s", strerror(errno));
    }
    pid_t parent = getpid();
    fflush(NULL);
    link->pid = fork();
    if (link->pid == 0) agent_link_become(options->command, files[1], parent);
    close(files[1]);
    enum status status = STATUS_OK;
    if (link->pid < 0) {
        close(files[0]);
        status = error_set(error, STATUS_IO, "cannot start a process: %s", strerror(errno));
        free(link);
        return status;
    }
    status = agent_stream_open(&link->stream, options->base, files[0], files[0], true,
                               agent_link_on_readable, link, error);
    if (status)
        agent_link_close(link, 0);
    else
        *link_out = link;
    return status;
}

void agent_link_send(struct agent_link *link, enum agent_kind kind, const void *body,
                     struct bytes tail) {
    agent_stream_send(&link->stream, kind, body, tail);
}

/* ---- ends ---- */

static bool has_ended(struct agent_link *link, int64_t wait_ns) {
    int64_t until_ns = clock_now_ns() + wait_ns;
    while (link->pid > 0) {
        pid_t got = waitpid(link->pid, &link->status, WNOHANG);
        if (got == link->pid || (got < 0 && errno == ECHILD)) link->pid = 0;
        if (!link->pid || clock_now_ns() >= until_ns) break;
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    return !link->pid;
}

/* By what a shell's status means. */
static void agent_link_explain(struct agent_link *link, char why[static AGENT_LINK_WHY]) {
    if (!has_ended(link, WORDS_NS))
        snprintf(why, AGENT_LINK_WHY, "it says nothing more");
    else if (!WIFEXITED(link->status))
        snprintf(why, AGENT_LINK_WHY, "its agent ended with signal %d", WTERMSIG(link->status));
    else if (WEXITSTATUS(link->status) == 127 || WEXITSTATUS(link->status) == 126)
        snprintf(why, AGENT_LINK_WHY,
                 "fathom cannot be run there; it has to be where it is here, at the same path");
    else if (WEXITSTATUS(link->status) == 255)
        snprintf(why, AGENT_LINK_WHY, "the remote shell does not reach it, or may not in");
    else
        snprintf(why, AGENT_LINK_WHY, "its agent ended with status %d", WEXITSTATUS(link->status));
}

static void agent_link_lose(struct agent_link *link, const char *why) {
    if (link->is_lost) return;
    link->is_lost = true;
    link->options.lost(link->options.context, why);
}

void agent_link_tend(struct agent_link *link) {
    struct agent_frame frame;
    char why[AGENT_LINK_WHY], quote[64];
    if (link->is_lost) return;
    agent_stream_tend(&link->stream);
    while (!link->is_lost && agent_stream_next(&link->stream, &frame))
        link->options.take(link->options.context, &frame);
    if (!link->stream.is_over || link->is_lost) return;
    if (link->stream.is_nonsense) {
        agent_stream_quote(&link->stream, quote);
        snprintf(why, sizeof why, "what comes from there is no agent's: \"%s\"", quote);
    } else {
        agent_link_explain(link, why);
    }
    agent_link_lose(link, why);
}

static void agent_link_on_readable(int file, short what, void *context) {
    agent_link_tend(context);
}

void agent_link_hang_up(struct agent_link *link) {
    if (!link->stream.is_over) shutdown(link->stream.in, SHUT_WR);
}

void agent_link_close(struct agent_link *link, int64_t wait_ns) {
    if (!link) return;
    if (link->stream.got) agent_link_hang_up(link);
    if (!has_ended(link, link->is_lost ? 0 : wait_ns)) {
        kill(link->pid, SIGKILL);
        kill(-link->pid, SIGKILL); /* what a remote shell has started here */
        has_ended(link, INT64_MAX / 2);
    }
    if (link->stream.got) agent_stream_close(&link->stream);
    free(link);
}
