/* SPDX-License-Identifier: Apache-2.0
 * The facts of a host that matter to a unit's ranks: program, model, network interface, memory, and
 * deficiencies. The agent collects them on the host before any rank is launched, and the unit's
 * supervisor verifies them, so that one log line names an unsuitable host and its problem.
 */
#pragma once

#include "base/status.h"
#include "host/process/agent/agent_frame.h"

/* Collects the facts of this machine for a CHECK. Leaves `room` empty. Deficiencies are listed in
 * `lacks`. */
void agent_facts_take(const struct agent_check *check, struct agent_facts *facts_out);

/* Fills in version and build of this program. */
void agent_facts_name_program(struct agent_facts *facts_out);

/* Returns false if the host is unsuitable; the text then has the problem and the remedy. `own` has
 * the supervisor's program, `first` the facts of the unit's first host. Pure. */
bool agent_facts_verify(const struct agent_facts *facts, const struct agent_facts *own,
                        const struct agent_facts *first, char text[static 512]);

/* Finds the numeric address of an interface. "": the first interface other than the loopback, or
 * else the loopback. Returns false if the interface is missing, down or has no address. */
bool agent_facts_find_address(const char *interface, char address_out[static 64]);

/* Copies a numeric address, or finds that of the named interface. Returns false if it is
 * neither. */
bool agent_facts_read_address(const char *text, char address_out[static 64]);

/* Returns a port that is free now, or 0. */
uint32_t agent_facts_find_port(void);

/* The names that UCX has for an interface's devices, found in the sysfs at `sys`: the interface
 * and its RDMA device, if it has one: "ib0,mlx5_0:1". */
void agent_facts_name_devices(const char *sys, const char *interface, char text[static 256]);
