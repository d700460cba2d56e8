/* SPDX-License-Identifier: Apache-2.0
 * A supervisor's connection to its agent on one host: the process that is, or leads to, the agent
 * (a remote shell, say), and frames to and from it. If the process ends or sends invalid frames, the
 * agent is reported lost, with the reason, once. It lives in the event loop's thread.
 */
#pragma once

#include "base/status.h"
#include "host/process/agent/agent_frame.h"

struct event_base;
struct agent_link;

#define AGENT_LINK_WHY 256

struct agent_link_options {
    struct event_base *base;
    const char *const *command; /* argv, [0] being a path or a name to be found; NULL at the end */
    void *context;
    void (*take)(void *context, const struct agent_frame *frame);
    /* The link is closed by its owner, later. */
    void (*lost)(void *context, const char *why);
};

enum status agent_link_open(const struct agent_link_options *options, struct agent_link **link_out,
                            struct error *error) MUST_USE;

void agent_link_send(struct agent_link *link, enum agent_kind kind, const void *body,
                     struct bytes tail);

/* Reads what has arrived; for an owner after its loop has ended. */
void agent_link_tend(struct agent_link *link);

/* Says that nothing more comes; the agent ends its ranks, and itself. */
void agent_link_hang_up(struct agent_link *link);

/* Hangs up, waits at most so long for the process to end, and kills it. */
void agent_link_close(struct agent_link *link, int64_t wait_ns);
