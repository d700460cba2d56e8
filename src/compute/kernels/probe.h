/* SPDX-License-Identifier: Apache-2.0
 * Loops that do nothing but reach a limit of the machine: multiply-adds from registers, reads from
 * memory. For benchmarks, which state their results as fractions of these limits.
 */
#pragma once

#include "compute/kernels/kernels.h"

enum probe_kind {
    PROBE_FMA,  /* float multiply-adds of the widest registers */
    PROBE_BF16, /* AMX, else VDPBF16PS or BFDOT, where the CPU has it */
    PROBE_KIND_COUNT
};

/* Multiplies `rounds` times, at the best level this CPU has; returns the floating-point operations
 * done (a multiply-add is two), 0 where the CPU lacks the kind. */
double probe_multiply(enum probe_kind kind, uint64_t rounds);

/* Reads every byte once, as `streams` (1 or 4) parallel runs. `bytes` is a multiple of 4096, `data`
 * aligned to 64. Returns a value that depends on all of it. */
uint64_t probe_read(const void *data, size_t bytes, uint32_t streams);
