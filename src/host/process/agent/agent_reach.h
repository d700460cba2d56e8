/* SPDX-License-Identifier: Apache-2.0
 * Whether hosts reach one another over TCP, which their ranks will have to: an agent listens at its
 * host's address, and tries those of the other hosts when its supervisor asks for it. Nothing is said
 * over these connections. Between hosts that do not reach each other there is a firewall, mostly.
 */
#pragma once

#include <stdint.h>

#include "host/process/agent/agent_frame.h"

struct event_base;
struct agent_reach;

struct agent_reach_options {
    struct event_base *base;
    void *context;
    void (*tried)(void *context, const struct agent_reached *reached); /* from the loop */
};

/* NULL: there is no memory. */
struct agent_reach *agent_reach_open(const struct agent_reach_options *options);
void agent_reach_close(struct agent_reach *reach); /* may be NULL */

/* The port at which it listens at that numeric address, for as long as it is open; 0: it cannot. */
uint32_t agent_reach_listen(struct agent_reach *reach, const char *address);

/* `tried` is called within seconds. */
void agent_reach_try(struct agent_reach *reach, const struct agent_place *place);
