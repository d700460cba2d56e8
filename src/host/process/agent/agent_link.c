/* SPDX-License-Identifier: Apache-2.0 */
#include "host/process/agent/agent_link.h"

#include "base/check.h"
#include "host/process/agent/agent_stream.h"
#include "host/process/child_process.h"

#include <errno.h>
#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS_NS ((int64_t)200000000) /* wait for a process's exit after the end of its output */

struct agent_link {
    struct agent_link_options options;
    struct agent_stream stream;
    pid_t pid; /* 0: waited for */
    int status;
    bool is_lost;
};

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
    const struct child_process_options child = {
        .words = options->command, .input = files[1], .output = files[1], .end_signal = SIGKILL};
    enum status status = child_process_start(&child, &link->pid, error);
    close(files[1]);
    if (status) {
        close(files[0]);
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
    if (link->pid && child_process_wait(link->pid, wait_ns, &link->status)) link->pid = 0;
    return !link->pid;
}

/* Describes the process's end; exit statuses are those of a shell. */
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

static void agent_link_report_lost(struct agent_link *link, const char *why) {
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
    agent_link_report_lost(link, why);
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
        kill(-link->pid, SIGKILL); /* including local children of a remote shell */
        has_ended(link, INT64_MAX / 2);
    }
    if (link->stream.got) agent_stream_close(&link->stream);
    free(link);
}
