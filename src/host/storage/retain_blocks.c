/* SPDX-License-Identifier: Apache-2.0 */
#include "host/storage/retain_blocks.h"

#include "base/check.h"
#include "base/heap.h"

static bool stands_behind(const void *blocks, const void *a, const void *b) {
    const struct retain_block *all = blocks;
    return all[*(const uint32_t *)a].position > all[*(const uint32_t *)b].position;
}

static const struct heap_order farthest_first = {sizeof(uint32_t), stands_behind, NULL};

/* The mean value of the blocks on disk. */
static double mean_value(const struct retain_block *blocks, uint32_t count) {
    double sum = 0;
    uint32_t there = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (blocks[i].segment == RETAIN_NONE) continue;
        sum += blocks[i].value;
        there++;
    }
    return there ? sum / there : 0;
}

void retain_blocks_value(struct retain_block *blocks, uint32_t count, uint32_t *order,
                         const struct retain_cost *cost, uint64_t block_bytes,
                         struct retain_segment *segments, uint32_t segment_count) {
    for (uint32_t i = 0; i < count; i++)
        blocks[i].value = blocks[i].heat *
                          (cost->block_ns + cost->position_ns * blocks[i].position) /
                          (double)block_bytes;
    for (uint32_t i = 0; i < count; i++)
        order[i] = i;
    heap_choose(&farthest_first, blocks, order, count, count); /* by ascending position */
    for (uint32_t i = count; i-- > 0;) {                       /* children before their parents */
        const struct retain_block *block = &blocks[order[i]];
        if (block->parent == RETAIN_NONE) continue;
        check(block->parent < count);
        struct retain_block *parent = &blocks[block->parent];
        if (parent->position < block->position && parent->value < block->value)
            parent->value = block->value;
    }
    for (uint32_t i = 0; i < segment_count; i++) {
        segments[i].value = 0;
        segments[i].live = 0;
    }
    double mean = mean_value(blocks, count);
    for (uint32_t i = 0; i < count; i++) {
        if (blocks[i].segment >= segment_count) continue;
        struct retain_segment *segment = &segments[blocks[i].segment];
        double lost = blocks[i].value < mean ? blocks[i].value : mean;
        segment->live++;
        segment->value += lost * (double)block_bytes / (double)segment->bytes;
    }
}

uint32_t retain_blocks_least(const struct retain_segment *segments, uint32_t segment_count) {
    uint32_t least = RETAIN_NONE;
    for (uint32_t i = 0; i < segment_count; i++)
        if (segments[i].movable &&
            (least == RETAIN_NONE || segments[i].value < segments[least].value))
            least = i;
    return least;
}

uint32_t retain_blocks_oldest(const struct retain_other *others, uint32_t count,
                              int64_t before_ns) {
    uint32_t oldest = RETAIN_NONE;
    for (uint32_t i = 0; i < count; i++) {
        if (!others[i].movable || others[i].written_ns >= before_ns) continue;
        if (oldest == RETAIN_NONE || others[i].written_ns < others[oldest].written_ns) oldest = i;
    }
    return oldest;
}

uint32_t retain_blocks_sparse(const struct retain_segment *segments, uint32_t segment_count) {
    uint32_t sparse = RETAIN_NONE, dead_most = 0;
    for (uint32_t i = 0; i < segment_count; i++) {
        uint32_t dead = segments[i].slot_count - segments[i].live;
        if (!segments[i].movable || 2 * dead <= segments[i].slot_count || dead <= dead_most)
            continue;
        sparse = i;
        dead_most = dead;
    }
    return sparse;
}

uint32_t retain_blocks_keep(const struct retain_block *blocks, uint32_t count, uint32_t segment,
                            uint32_t keep_max, uint32_t *keep_out) {
    double mean = mean_value(blocks, count);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (blocks[i].segment != segment || blocks[i].value <= mean) continue;
        uint32_t at = kept < keep_max ? kept : keep_max;
        if (kept < keep_max) kept++;
        for (; at > 0 && blocks[keep_out[at - 1]].value < blocks[i].value; at--)
            if (at < keep_max) keep_out[at] = keep_out[at - 1];
        if (at < keep_max) keep_out[at] = i;
    }
    return kept;
}
