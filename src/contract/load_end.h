/* SPDX-License-Identifier: Apache-2.0
 * The outcome of a KV_LOAD: reported by KV_LOADED, or by the row of a step that waited for it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct load_end {
    uint32_t blocks;      /* leading blocks that arrived with valid checksums */
    uint32_t host_blocks; /* those of `blocks` that were in memory */
    int64_t ns;           /* duration of the load */
};

static inline bool load_end_valid(const struct load_end *end) {
    return end->host_blocks <= end->blocks && end->ns >= 0;
}
