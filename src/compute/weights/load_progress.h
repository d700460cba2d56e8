/* SPDX-License-Identifier: Apache-2.0
 * Reports of how far the loading of a checkpoint is, from its first second on: headers of shards,
 * then scales and norms, which are checked, then weights, which are packed.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum load_stage {
    LOAD_HEADERS, /* counted in shards */
    LOAD_SCALES,  /* counted in tensors */
    LOAD_WEIGHTS, /* counted in bytes */
};

/* `report` may be NULL. */
struct load_progress {
    void (*report)(void *context, enum load_stage stage, uint64_t done, uint64_t total);
    void *context;
};

static inline void load_progress_report(const struct load_progress *progress, enum load_stage stage,
                                        uint64_t done, uint64_t total) {
    if (progress && progress->report) progress->report(progress->context, stage, done, total);
}
