/* SPDX-License-Identifier: Apache-2.0
 * The NUMA nodes of this machine and their CPUs, as far as this process may use them.
 */
#ifndef HOST_PROCESS_NUMA_NODES_H
#define HOST_PROCESS_NUMA_NODES_H

#include <sched.h>
#include <stdint.h>

#define NUMA_NODES_MAX 64

/* Of a /sys: the nodes that have CPUs of `allowed`, and which; their number. A machine that tells of
 * none has none. */
uint32_t numa_nodes_read(const char *sys, const cpu_set_t *allowed,
                         cpu_set_t sets_out[static NUMA_NODES_MAX]);

#endif
