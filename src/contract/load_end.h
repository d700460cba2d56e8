/* SPDX-License-Identifier: Apache-2.0
 * The result of a KV_LOAD. KV_LOADED reports it, or the row of the step that waited for the load.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct load_end {
    uint32_t blocks;      /* leading blocks that arrived with valid checksums */
    uint32_t host_blocks; /* those of `blocks` that were in host memory */
    int64_t ns;           /* duration of the load */
};

static inline bool load_end_valid(const struct load_end *end) {
    return end->host_blocks <= end->blocks && end->ns >= 0;
}
