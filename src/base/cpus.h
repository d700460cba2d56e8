/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The CPUs that this process may use, at least 1: those of its affinity, and no more than its
 * container's quota of time, rounded up. */
uint32_t cpus_usable(void);

/* The smaller of `cpus` and of a quota, rounded up, in the form of Linux's cpu.max: "QUOTA PERIOD"
 * or "max PERIOD" (cgroup v2). */
uint32_t cpus_of_quota(const char *text, uint32_t cpus);

/* A hash of the CPUs that this process was allowed to use at its start. Trades are for threads with
 * equal ones: afterwards each may run on all of them. */
uint64_t cpus_allowed_hash(void);

/* Moves a thread, which runs at `there` or waits for that CPU, to the caller's CPU, and the caller
 * to `there`. False: they share a CPU, or the system refuses. */
bool cpus_trade(pid_t thread, int there);

/* Whether a thread of any process of this user has a CPU now. True also if the system does not say.
 * A thread that waits for the caller's CPU is moved to another one. */
bool cpus_is_running(pid_t thread);
