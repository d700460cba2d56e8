/* SPDX-License-Identifier: Apache-2.0
 * The value of cached blocks on disk, and which of them to keep:
 *
 *   value of a block = reuse likelihood x cost of recomputing it / bytes
 *
 * The likelihood is the block's heat (uses, halved with age), because blocks used often and
 * recently are likely to be used again. A block costs more to recompute the later it is in its
 * sequence, because each of its tokens attends to all before it. But without the blocks before it,
 * it is useless. So a block is worth at least as much as any that follows it, and sequences shrink
 * from their ends.
 *
 * Space is freed in whole segments. When a segment is freed, its blocks worth more than the mean
 * are written again, at most half of it. So the segment with the smallest loss is freed. In this
 * loss no block counts for more than the mean.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define RETAIN_NONE UINT32_MAX

struct retain_cost { /* of computing a block: block_ns + position_ns x blocks before it */
    double block_ns, position_ns;
};

struct retain_block {
    uint32_t parent; /* index of the block before it; RETAIN_NONE: absent, or it is the first */
    uint32_t position;
    uint32_t segment; /* RETAIN_NONE: not on disk */
    double heat;
    double value; /* out: per byte */
};

struct retain_segment {
    bool movable;   /* whether it may be freed */
    uint64_t bytes; /* on disk, freed with it */
    double value;   /* out: the loss, per byte of the segment */
    uint32_t live;  /* out: blocks in it */
    uint32_t slot_count;
};

/* Sets the values of blocks of block_bytes each, and of segments. `order` [count] is scratch. */
void retain_blocks_value(struct retain_block *blocks, uint32_t count, uint32_t *order,
                         const struct retain_cost *cost, uint64_t block_bytes,
                         struct retain_segment *segments, uint32_t segment_count);

/* The movable segment with the least value; RETAIN_NONE if there is none. */
uint32_t retain_blocks_least(const struct retain_segment *segments, uint32_t segment_count);

struct retain_other { /* a segment of another block format, with unknown value */
    bool movable;
    int64_t written_ns; /* last */
};

/* All formats share one budget. Returns the movable segment of other formats with the oldest last
 * write, if that is before the last write of this format's segment of least value; RETAIN_NONE:
 * free the latter. */
uint32_t retain_blocks_oldest(const struct retain_other *others, uint32_t count, int64_t before_ns);

/* A movable segment that is cheap to rewrite because more than half of its slots are dead: the one
 * with the most. RETAIN_NONE if there is none. */
uint32_t retain_blocks_sparse(const struct retain_segment *segments, uint32_t segment_count);

/* The blocks of a segment to be written again when it is freed, most valuable first, in keep_out
 * [up to keep_max]; returns their count. These are worth more than the mean of all blocks. */
uint32_t retain_blocks_keep(const struct retain_block *blocks, uint32_t count, uint32_t segment,
                            uint32_t keep_max, uint32_t *keep_out);
