/* SPDX-License-Identifier: Apache-2.0
 * What this machine can do at most, measured: the yardstick of `fathom bench`.
 */
#ifndef BENCH_MACHINE_LIMITS_H
#define BENCH_MACHINE_LIMITS_H

#include <stdbool.h>

#include "compute/kernels/team.h"

struct machine_limits {
    uint32_t threads;
    double fma_flops;  /* per second, float multiply-adds from registers */
    double bf16_flops; /* per second, VDPBF16PS; 0 where the CPU has none */
    double read_bytes; /* per second, from memory, the better of one and of four streams a thread */
};

/* Uses the team's threads, all of them or one (`single`), for a second or two; reads twice the last cache, at
 * least 256 MiB. STATUS_NO_MEMORY when there is no room. */
enum status machine_limits_measure(struct team *team, bool single,
                                   struct machine_limits *limits_out, struct error *error);

/* On a machine that others use, too: those of a team of one thread, the calling one, in the time
 * that it had of its processor. */
enum status machine_limits_measure_busy(struct team *team, struct machine_limits *limits_out,
                                        struct error *error);

/* The text behind the first line of a file of the system that begins with `key`, without what
 * separates them; false if there is none. */
bool machine_limits_line(const char *path, const char *key, char *out, size_t out_bytes);

/* Bytes of memory that may still be taken, a container's limit included; UINT64_MAX: not known. */
uint64_t machine_limits_memory(void);

/* Seconds since some moment, from the monotonic clock. */
double machine_limits_now(void);
/* Seconds that this thread has had of its processor, since some moment. */
double machine_limits_processor_now(void);

/* Median of `count` figures; sorts them. */
double machine_limits_median(double *figures, uint32_t count);

#endif
