/* SPDX-License-Identifier: Apache-2.0
 * The memory that this process may use: the machine's, or less where a control group limits it
 * (containers, systemd's MemoryMax, Slurm), in version 1 or 2 and at any level of the hierarchy.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct machine_memory {
    uint64_t total_bytes; /* 0: unknown */
    uint64_t free_bytes;  /* without what the kernel gives back on demand, such as cached files */
    bool limited;         /* by a control group, to less than the machine has */
};

/* `root` is in front of /proc and /sys: "" except in tests. */
struct machine_memory machine_memory_look(const char *root);
