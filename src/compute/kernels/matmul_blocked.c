/* SPDX-License-Identifier: Apache-2.0
 * Loops of matrix products; see matmul_blocked.h. Nothing here touches a value except the scales.
 */
#include "compute/kernels/matmul_blocked.h"

#include "base/check.h"

/* Rows that share one pass over the weights: their packed channels of a block (84 KiB) and their y
 * of a few panels stay in the second-level cache. Fewer rows take several blocks at once, a strip
 * of every panel. */
#define CHUNK_ROWS 168
#define PACK_AHEAD 8 /* rows */

struct blocked_run {
    const struct matmul_leaf *leaf;
    const struct matmul *job;
    uint32_t row_first, rows;
    uint32_t blocks;                 /* of 128 channels */
    uint32_t strip_first, strip_end; /* the blocks of the strip */
    size_t panel_bytes;
    _Alignas(64) char x[CHUNK_ROWS * QUANT_GROUP * sizeof(float)]; /* [blocks of the strip][rows] */
    _Alignas(64) float w[QUANT_GROUP][MATMUL_PANEL];
};

static char *packed_row(struct blocked_run *run, uint32_t row) {
    return run->x + (size_t)row * QUANT_GROUP * run->leaf->x_bytes;
}

/* Whether tiles read the rows of the job's x_blocks, and nothing is packed. */
static bool reads_blocks(const struct blocked_run *run) {
    return run->job->x_blocks && !run->leaf->pack_bf16;
}

static const uint16_t *block_row(const struct blocked_run *run, uint32_t block, uint32_t row) {
    return run->job->x_blocks + block * run->job->x_block_stride +
           (size_t)(run->row_first + row) * QUANT_GROUP;
}

static uint32_t block_channels(const struct blocked_run *run, uint32_t block) {
    uint32_t left = run->job->weights->cols - block * QUANT_GROUP;
    return left < QUANT_GROUP ? left : QUANT_GROUP;
}

static void pack_int8_rows(struct blocked_run *run, uint32_t block, uint32_t to) {
    const struct matmul *job = run->job;
    for (uint32_t r = 0; r < run->rows; r++) {
        const uint32_t row = run->row_first + r;
        run->leaf->pack_int8(packed_row(run, to + r), matmul_int8_row(job, block, row),
                             job->x_scales + row * job->x_scale_stride +
                                 (size_t)block * (QUANT_GROUP / INT8_GROUP),
                             block_channels(run, block), job->weights->type);
    }
}

/* Into x from row `to` on. Rows lie too far apart for the processor to see what comes next. */
static void pack_rows(struct blocked_run *run, uint32_t block, uint32_t to) {
    const struct matmul *job = run->job;
    uint32_t count = block_channels(run, block);
    bool lift = job->weights->type == WEIGHT_FP8;
    if (reads_blocks(run)) return;
    if (job->x_int8) {
        pack_int8_rows(run, block, to);
        return;
    }
    for (uint32_t r = 0; r < run->rows; r++) {
        if (job->x_blocks) {
            run->leaf->pack_bf16(packed_row(run, to + r), block_row(run, block, r), count, lift);
            continue;
        }
        const float *x =
            job->x + (run->row_first + r) * job->x_stride + (size_t)block * QUANT_GROUP;
        if (r + PACK_AHEAD < run->rows)
            for (uint32_t c = 0; c < count; c += 16)
                __builtin_prefetch(x + PACK_AHEAD * job->x_stride + c);
        run->leaf->pack_x(packed_row(run, to + r), x, count, lift);
    }
}

/* s of matmul.h for the tile's rows of a panel. */
static void tile_scales(const struct blocked_run *run, uint32_t first, uint32_t rows,
                        uint32_t panel, uint32_t block, float *out) {
    const struct matmul *job = run->job;
    float w_scale = weight_type_unit(job->weights->type);
    if (job->x_int8) return; /* the rows have theirs */
    if (job->weights->type == WEIGHT_FP8)
        w_scale = job->weights
                      ->scales[(size_t)(panel * MATMUL_PANEL / QUANT_GROUP) * run->blocks + block];
    if (!job->x_scales)
        for (uint32_t r = 0; r < rows; r++)
            out[r] = w_scale;
    else
        for (uint32_t r = 0; r < rows; r++)
            out[r] =
                job->x_scales[(run->row_first + first + r) * job->x_scale_stride + block] * w_scale;
}

static const char *block_weights(const struct blocked_run *run, uint32_t panel, uint32_t block) {
    const struct packed_matrix *weights = run->job->weights;
    return (const char *)weights->data + panel * run->panel_bytes +
           (size_t)block * QUANT_GROUP * packed_channel_bytes(weights->type);
}

static void tile_groups(const struct blocked_run *run, uint32_t panel, uint32_t block,
                        struct matmul_tile *tile) {
    const struct packed_matrix *weights = run->job->weights;
    const uint32_t group = weight_type_group(weights->type);
    tile->group = group;
    tile->group_scale_stride = group ? (size_t)(weights->cols / group) * MATMUL_PANEL : 0;
    tile->group_scales = NULL;
    if (group)
        tile->group_scales = weights->group_scales + panel * tile->group_scale_stride +
                             (size_t)block * (QUANT_GROUP / group) * MATMUL_PANEL;
}

static void tile_supers(const struct blocked_run *run, uint32_t panel, uint32_t block,
                        struct matmul_tile *tile) {
    const struct packed_matrix *weights = run->job->weights;
    const struct weight_blocks *blocks = weight_type_blocks(weights->type);
    const uint32_t channel = block * QUANT_GROUP;
    if (!blocks) return;
    const size_t index =
        (size_t)panel * (weights->cols / blocks->channels) + channel / blocks->channels;
    tile->supers = (const char *)weights->group_scales + index * packed_super_bytes(blocks);
    tile->super_channel = channel % blocks->channels;
}

/* A tile's part of a chunk: rows [first, first + rows), with their x from row `x_row` on. */
struct tile_place {
    uint32_t block, panel, panels;
    uint32_t first, rows, x_row;
    bool decoded;
    const char *ahead; /* the weights that will be read next */
};

static void run_tile(struct blocked_run *run, const struct tile_place *at) {
    const struct matmul *job = run->job;
    uint32_t block = at->block, end = at->first + at->rows;
    bool more_tiles = at->rows < run->rows && end < run->rows;
    struct matmul_tile tile; /* all set below: clearing it first costs 3 % of a tile */
    tile.type = job->weights->type;
    tile.decoded = at->decoded;
    tile.prefetch = !at->decoded && at->first == 0;
    tile.rows = at->rows;
    tile.panels = at->panels;
    tile.count = block_channels(run, block);
    tile.x = reads_blocks(run) ? (const void *)block_row(run, block, at->first)
                               : packed_row(run, at->x_row);
    tile.w = at->decoded ? (const void *)run->w : block_weights(run, at->panel, block);
    tile.panel_bytes = run->panel_bytes;
    tile.ahead_stride = run->panel_bytes;
    /* While a tile multiplies, what comes next is fetched: with the last tile of a panel the
     * weights that will be read next, else the next tile's x. */
    tile.ahead =
        more_tiles ? (const char *)tile.x + at->rows * QUANT_GROUP * run->leaf->x_bytes : at->ahead;
    tile.ahead_step =
        more_tiles ? 12 * run->leaf->x_bytes : packed_channel_bytes(job->weights->type);
    tile.scratch = run->w;
    tile.staged = block > run->strip_first && block_channels(run, block) == QUANT_GROUP;
    tile.stage_next = block + 1 < run->strip_end && block_channels(run, block + 1) == QUANT_GROUP;
    tile.y =
        job->y + (run->row_first + at->first) * job->y_stride + (size_t)at->panel * MATMUL_PANEL;
    tile.y_stride = job->y_stride;
    tile.first = block == 0;
    tile_groups(run, at->panel, block, &tile);
    tile_supers(run, at->panel, block, &tile);
    for (uint32_t p = 0; p < at->panels; p++)
        tile_scales(run, at->first, at->rows, at->panel + p, block, tile.s[p]);
    run->leaf->tile(&tile);
}

/* The weights that are read after a block of a panel: the panel's next block, the next panel's
 * first one of the strip, or the next strip. */
static const char *weights_after(const struct blocked_run *run, const struct tile_place *at,
                                 uint32_t panel_first, uint32_t panel_end) {
    uint32_t next = at->panel + at->panels;
    if (at->block + 1 < run->strip_end) return block_weights(run, at->panel, at->block + 1);
    if (next < panel_end || run->strip_end == run->blocks)
        return block_weights(run, next, run->strip_first);
    return block_weights(run, panel_first, run->strip_end);
}

static void run_block(struct blocked_run *run, struct tile_place *at) {
    uint32_t tiles = (uint32_t)divide_up(run->rows, run->leaf->tile_rows);
    uint32_t x_row = (at->block - run->strip_first) * run->rows;
    if (at->decoded && weight_type_blocks(run->job->weights->type))
        run->leaf->decode_blocks((float *)run->w, run->job->weights, at->panel,
                                 at->block * QUANT_GROUP, block_channels(run, at->block));
    else if (at->decoded)
        run->leaf->decode(run->w, run->job->weights->type, block_weights(run, at->panel, at->block),
                          block_channels(run, at->block));
    for (uint32_t t = 0; t < tiles; t++) { /* of even size: a tile of one row is slow */
        at->first = run->rows * t / tiles;
        at->rows = run->rows * (t + 1) / tiles - at->first;
        at->x_row = x_row + at->first;
        run_tile(run, at);
    }
}

static void run_strip(struct blocked_run *run, uint32_t panel_first, uint32_t panel_count) {
    const struct matmul_leaf *leaf = run->leaf;
    const enum weight_type type = run->job->weights->type;
    const bool blocks = weight_type_blocks(type) != NULL;
    const uint32_t step = run->rows <= leaf->pair_rows && !blocks ? 2 : 1;
    const uint32_t end = panel_first + panel_count;
    struct tile_place at = {.panel = panel_first};
    at.decoded = run->rows > (blocks ? leaf->block_rows : leaf->direct_rows) &&
                 (type != WEIGHT_F32 || leaf->decodes_f32);
    for (uint32_t block = run->strip_first; block < run->strip_end; block++)
        pack_rows(run, block, (block - run->strip_first) * run->rows);
    for (; at.panel < end; at.panel += at.panels) {
        at.panels = end - at.panel < step ? end - at.panel : step;
        for (at.block = run->strip_first; at.block < run->strip_end; at.block++) {
            at.ahead = weights_after(run, &at, panel_first, end);
            run_block(run, &at);
        }
    }
}

void matmul_blocked_run(const struct matmul_leaf *leaf, const struct matmul *job,
                        uint32_t panel_first, uint32_t panel_count) {
    check(leaf->tile_rows <= TILE_ROWS_MAX && (!job->x_int8 || leaf->pack_int8));
    struct blocked_run run;
    run.leaf = leaf;
    run.job = job;
    run.blocks = (uint32_t)divide_up(job->weights->cols, QUANT_GROUP);
    run.panel_bytes = job->weights->cols * packed_channel_bytes(job->weights->type);
    uint32_t chunks = (uint32_t)divide_up(job->m, CHUNK_ROWS);
    for (uint32_t chunk = 0; chunk < chunks; chunk++) {
        run.row_first = (uint32_t)((uint64_t)job->m * chunk / chunks);
        run.rows = (uint32_t)((uint64_t)job->m * (chunk + 1) / chunks) - run.row_first;
        const uint32_t strip = CHUNK_ROWS / run.rows; /* blocks */
        for (run.strip_first = 0; run.strip_first < run.blocks; run.strip_first = run.strip_end) {
            uint32_t left = run.blocks - run.strip_first;
            run.strip_end = run.strip_first + (left < strip ? left : strip);
            run_strip(&run, panel_first, panel_count);
        }
    }
}
