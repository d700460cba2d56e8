/* SPDX-License-Identifier: Apache-2.0
 * Competing processes for benchmarks on busy machines: each only computes, at a nice value. They
 * are children of this process and stay in its session, so with autogroups they are in the group of
 * the programs that it measures.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"

#define COMPETITORS_MAX 64

struct competitors {
    uint32_t count;
    int nices[COMPETITORS_MAX];
    pid_t pids[COMPETITORS_MAX]; /* 0: not started */
};

/* Nice values from 0 to 19, such as "10,10". */
enum status competitors_read(const char *text, struct competitors *out, struct error *error);

/* The share of `cpus` CPUs, 0 to 1, that is left for one thread a CPU at nice 0, if the competitors
 * are spread evenly. A nice value more is a weight of 1 / 1.25 (Linux: sched_prio_to_weight). */
double competitors_fair_share(const struct competitors *competitors, uint32_t cpus);

enum status competitors_start(struct competitors *competitors, struct error *error);
void competitors_stop(struct competitors *competitors);

/* The share of all CPUs, 0 to 1, that processes use during the next `seconds`, in which the caller
 * sleeps; 0: unknown. */
double competitors_of_machine(double seconds);
