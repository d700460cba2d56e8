/* SPDX-License-Identifier: Apache-2.0
 * A supervisor's connection to its agent on one host: a child process that is the agent or leads to
 * it (such as a remote shell), and frames in both directions. If the process ends or sends invalid
 * frames, the agent is reported lost once, with the reason. Used in the event loop's thread only.
 */
#pragma once

#include "base/status.h"
#include "host/process/agent/agent_frame.h"

struct event_base;
struct agent_link;

#define AGENT_LINK_WHY 256

struct agent_link_options {
    struct event_base *base;
    const char *const *command; /* argv; [0]: a path or a name in PATH; NULL at the end */
    void *context;
    void (*take)(void *context, const struct agent_frame *frame);
    /* The agent is lost. The owner closes the link later, not in this call. */
    void (*lost)(void *context, const char *why);
};

enum status agent_link_open(const struct agent_link_options *options, struct agent_link **link_out,
                            struct error *error) MUST_USE;

void agent_link_send(struct agent_link *link, enum agent_kind kind, const void *body,
                     struct bytes tail);

/* Processes received frames after the event loop of the owner has ended. */
void agent_link_tend(struct agent_link *link);

/* Closes the sending side; the agent then ends its ranks and itself. */
void agent_link_hang_up(struct agent_link *link);

/* Hangs up, waits up to wait_ns for the process to end, and then kills it. */
void agent_link_close(struct agent_link *link, int64_t wait_ns);
