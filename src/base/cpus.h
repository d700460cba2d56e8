/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/* The CPUs that this process may use, at least 1: those of its affinity, and no more than its
 * container's quota of time, rounded up. */
uint32_t cpus_usable(void);

/* The smaller of `cpus` and of a quota, rounded up, in the form of Linux's cpu.max: "QUOTA PERIOD"
 * or "max PERIOD" (cgroup v2). */
uint32_t cpus_of_quota(const char *text, uint32_t cpus);
