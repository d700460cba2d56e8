/* SPDX-License-Identifier: Apache-2.0
 * The NUMA nodes of this machine and their CPUs, as far as this process may use them.
 */
#pragma once

#include <sched.h>
#include <stdint.h>

#define NUMA_NODES_MAX 64

/* Reads a /sys: the nodes that have CPUs of `allowed`, and these CPUs. Returns their number, 0 on a
 * machine that lists none. */
uint32_t numa_nodes_read(const char *sys, const cpu_set_t *allowed,
                         cpu_set_t sets_out[static NUMA_NODES_MAX]);
