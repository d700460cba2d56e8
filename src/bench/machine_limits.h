/* SPDX-License-Identifier: Apache-2.0
 * Measures the compute and memory limits of this machine. `fathom bench` compares with them.
 */
#pragma once

#include <stdbool.h>

#include "compute/kernels/team.h"

struct machine_limits {
    uint32_t threads;
    double fma_flops;  /* per second, float multiply-adds from registers */
    double bf16_flops; /* per second, VDPBF16PS; 0 if the CPU has none */
    double read_bytes; /* per second, from memory; the faster of one and four streams a thread */
};

/* Uses the team's threads, all of them or one (`single`), for a second or two. Reads twice the
 * last-level cache, at least 256 MiB. May return STATUS_NO_MEMORY. */
enum status machine_limits_measure(struct team *team, bool single,
                                   struct machine_limits *limits_out, struct error *error);

/* Finds the first line of a system file that begins with `key`, and copies the text after the key
 * and its separator. Returns false if there is none. */
bool machine_limits_line(const char *path, const char *key, char *out, size_t out_bytes);

/* Bytes of memory that can still be allocated, within a container's limit; UINT64_MAX: unknown. */
uint64_t machine_limits_memory(void);

/* Seconds of the monotonic clock. */
double machine_limits_now(void);
