/* SPDX-License-Identifier: Apache-2.0
 * What a host has that a unit's ranks will need there, and what it lacks: program, model, network
 * interface, memory. Taken by the agent on the host, before any rank is launched, and judged by the
 * unit's supervisor, so that a host that is not as it must be is named in one line.
 */
#pragma once

#include "base/status.h"
#include "host/process/agent/agent_frame.h"

/* Describes this machine, for a CHECK; `facts_out`'s room is left empty. Missing things are listed in its
 * `lacks`. */
void agent_facts_take(const struct agent_check *check, struct agent_facts *facts_out);

/* Version and build of this program, as agent_facts_take says them. */
void agent_facts_name_program(struct agent_facts *facts_out);

/* False: the host lacks something; the text says what, and what to do. `own` has the supervisor's
 * program, `first` the facts of the unit's first host. Pure. */
bool agent_facts_verify(const struct agent_facts *facts, const struct agent_facts *own,
                        const struct agent_facts *first, char text[static 512]);

/* The numeric address of an interface; "": of the first that is not the loopback, which there is
 * always as a last resort. False: the interface is not there, is down or has no address. */
bool agent_facts_find_address(const char *interface, char address_out[static 64]);

/* A numeric address as it is, or that of the interface of this name. False: it is neither. */
bool agent_facts_read_address(const char *text, char address_out[static 64]);

/* Returns a port that is free now; 0: none. */
uint32_t agent_facts_find_port(void);

/* UCX's names of an interface's devices below a /sys: the interface itself, and the RDMA device
 * behind it if it has one: "ib0,mlx5_0:1". */
void agent_facts_name_devices(const char *sys, const char *interface, char text[static 256]);
