/* SPDX-License-Identifier: Apache-2.0
 * Tests whether hosts can connect to each other over TCP, as their ranks must. An agent listens at
 * its host's address, and connects to other hosts when its supervisor requests it. No data is sent
 * over these connections. If a test fails, there usually is a firewall.
 */
#pragma once

#include <stdint.h>

#include "host/process/agent/agent_frame.h"

struct event_base;
struct agent_reach;

struct agent_reach_options {
    struct event_base *base;
    void *context;
    void (*tried)(void *context, const struct agent_reached *reached); /* called by the loop */
};

/* Returns NULL if there is no memory. */
struct agent_reach *agent_reach_open(const struct agent_reach_options *options);
void agent_reach_close(struct agent_reach *reach); /* NULL is allowed */

/* Listens at a numeric address until agent_reach_close. Returns the port; 0: it failed. */
uint32_t agent_reach_listen(struct agent_reach *reach, const char *address);

/* Starts a test. `tried` is called within seconds. */
void agent_reach_try(struct agent_reach *reach, const struct agent_place *place);
