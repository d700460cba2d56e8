/* SPDX-License-Identifier: Apache-2.0
 * Which cached blocks on disk are worth their place:
 *
 *   value of a block = reuse likelihood x what recomputing it costs / bytes
 *
 * Likelihood is the block's heat (uses, halved with age), since what was used often and lately is
 * used again. Recomputing a block costs more the farther it stands in its sequence: each of its
 * tokens attends to all before it. But without the blocks before it a block is of no use at all: so
 * a block is worth at least as much as any that follows it, and sequences shrink from their ends.
 *
 * Space is won by whole segments of the log. Blocks that are worth more than the mean are written
 * again when their segment goes, at most half of it; so the segment goes that loses least, where no
 * block counts for more than the mean.
 */
#ifndef SERVING_POLICY_RETAIN_BLOCKS_H
#define SERVING_POLICY_RETAIN_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#define RETAIN_NONE UINT32_MAX

struct retain_cost { /* of computing a block: block_ns + position_ns x blocks before it */
    double block_ns, position_ns;
};

struct retain_block {
    uint32_t parent; /* index of the block before it; RETAIN_NONE: not there, or the first */
    uint32_t position;
    uint32_t segment; /* RETAIN_NONE: not on disk */
    double heat;
    double value; /* out: per byte */
};

struct retain_segment {
    bool movable;   /* may it go? */
    uint64_t bytes; /* on disk: what is won */
    double value;   /* out: what would be lost with it, per byte of the segment */
    uint32_t live;  /* out: blocks in it */
    uint32_t slot_count;
};

/* Fills in values, of blocks of block_bytes each and of segments. `order` [count] is scratch. */
void retain_blocks_value(struct retain_block *blocks, uint32_t count, uint32_t *order,
                         const struct retain_cost *cost, uint64_t block_bytes,
                         struct retain_segment *segments, uint32_t segment_count);

/* The movable segment of least value; RETAIN_NONE if none is. */
uint32_t retain_blocks_least(const struct retain_segment *segments, uint32_t segment_count);

struct retain_other { /* a segment of another block format: nobody here can tell what it is worth */
    bool movable;
    int64_t written_ns; /* last */
};

/* All formats share one budget. The movable one of others that was written to longest ago, if that
 * was before our segment of least value was; RETAIN_NONE: ours goes. */
uint32_t retain_blocks_oldest(const struct retain_other *others, uint32_t count, int64_t before_ns);

/* A movable segment of which so little is left that rewriting it is cheap: more than half of its
 * slots are dead. The one with the most; RETAIN_NONE if there is none. */
uint32_t retain_blocks_sparse(const struct retain_segment *segments, uint32_t segment_count);

/* The blocks of a segment that are to be written again when it goes, most valuable first, into
 * keep_out [up to keep_max]; returns how many. Kept are those worth more than the mean of all
 * blocks. */
uint32_t retain_blocks_keep(const struct retain_block *blocks, uint32_t count, uint32_t segment,
                            uint32_t keep_max, uint32_t *keep_out);

#endif
