/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/policy/place_ranks.h"

#include "base/check.h"

uint32_t place_ranks(uint32_t *slots_left, uint32_t host_count, uint32_t ranks,
                     struct place_part *parts_out) {
    uint64_t free = 0;
    uint32_t placed = 0, parts = 0;
    for (uint32_t host = 0; host < host_count; host++)
        free += slots_left[host];
    if (free < ranks) return 0;
    for (uint32_t host = 0; host < host_count && placed < ranks; host++) {
        uint32_t count = slots_left[host] < ranks - placed ? slots_left[host] : ranks - placed;
        if (!count) continue;
        parts_out[parts++] = (struct place_part){host, placed, count};
        slots_left[host] -= count;
        placed += count;
    }
    return parts;
}

uint32_t place_ranks_node(uint32_t index, uint32_t count, uint32_t nodes) {
    check(index < count);
    if (nodes < 2 || count < nodes) return PLACE_NO_NODE;
    return (uint32_t)((uint64_t)index * nodes / count);
}
