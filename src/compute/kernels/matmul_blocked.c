/* SPDX-License-Identifier: Apache-2.0
 * Loops of matrix products; see matmul_blocked.h. Nothing here touches a value except the scales.
 */
#include "compute/kernels/matmul_blocked.h"

#include "base/check.h"

/* Rows that share one pass over the weights: their packed channels of a block (84 KiB) and their y
 * of a few panels stay in the second-level cache. */
#define CHUNK_ROWS 168
#define PACK_AHEAD 8 /* rows */

struct blocked_run {
    const struct matmul_leaf *leaf;
    const struct matmul *job;
    uint32_t row_first, rows;
    uint32_t blocks; /* of 128 channels */
    size_t panel_bytes;
    _Alignas(64) float x[CHUNK_ROWS][QUANT_GROUP]; /* a block's rows; with few rows, more blocks' */
    _Alignas(64) float w[QUANT_GROUP][MATMUL_PANEL];
};

static uint32_t block_channels(const struct blocked_run *run, uint32_t block) {
    uint32_t left = run->job->weights->cols - block * QUANT_GROUP;
    return left < QUANT_GROUP ? left : QUANT_GROUP;
}

/* Into x from row `to` on. Rows lie too far apart for the processor to see what comes next. */
static void pack_rows(struct blocked_run *run, uint32_t block, uint32_t to) {
    const struct matmul *job = run->job;
    uint32_t count = block_channels(run, block);
    bool lift = job->weights->type == WEIGHT_FP8;
    const float *x = job->x + run->row_first * job->x_stride + (size_t)block * QUANT_GROUP;
    for (uint32_t r = 0; r < run->rows; r++, x += job->x_stride) {
        if (r + PACK_AHEAD < run->rows)
            for (uint32_t c = 0; c < count; c += 16)
                __builtin_prefetch(x + PACK_AHEAD * job->x_stride + c);
        run->leaf->pack_x(run->x[to + r], x, count, lift);
    }
}

/* s of matmul.h for the tile's rows of a panel. */
static void tile_scales(const struct blocked_run *run, uint32_t first, uint32_t rows,
                        uint32_t panel, uint32_t block, float *out) {
    const struct matmul *job = run->job;
    float w_scale = 1;
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

/* While a tile multiplies decoded weights, what comes next is fetched: the next tile's x or, with
 * the last tile of a panel, the weights that will be decoded next. */
static void look_ahead(const struct blocked_run *run, struct matmul_tile *tile,
                       uint32_t next_first) {
    if (next_first < run->rows) {
        tile->ahead = (const char *)run->x[next_first];
        tile->ahead_step = 48;
    } else {
        tile->ahead_step = packed_channel_bytes(tile->type);
    }
}

/* Rows [first, first + rows) of the chunk; their x from row `x_row` on. */
static void run_tile(struct blocked_run *run, uint32_t block, uint32_t panel, uint32_t panels,
                     uint32_t first, uint32_t rows, uint32_t x_row, bool decoded) {
    const struct matmul *job = run->job;
    uint32_t blocks = run->blocks;
    bool next_panel = decoded || block + 1 == blocks;
    const char *next = block_weights(run, next_panel ? panel + panels : panel,
                                     decoded      ? block
                                     : next_panel ? 0
                                                  : block + 1);
    struct matmul_tile tile; /* all set below: clearing it first costs 3 % of a tile */
    tile.type = job->weights->type;
    tile.decoded = decoded;
    tile.prefetch = !decoded && first == 0;
    tile.rows = rows;
    tile.panels = panels;
    tile.count = block_channels(run, block);
    tile.x = run->x[x_row];
    tile.w = decoded ? (const void *)run->w : block_weights(run, panel, block);
    tile.panel_bytes = run->panel_bytes;
    tile.ahead = next;
    tile.ahead_stride = run->panel_bytes;
    tile.scratch = run->w;
    tile.staged = block > 0 && block_channels(run, block) == QUANT_GROUP;
    tile.stage_next = block + 1 < blocks && block_channels(run, block + 1) == QUANT_GROUP;
    tile.y = job->y + (run->row_first + first) * job->y_stride + (size_t)panel * MATMUL_PANEL;
    tile.y_stride = job->y_stride;
    tile.first = block == 0;
    tile.ahead_step = 0;
    if (decoded) look_ahead(run, &tile, first + rows);
    for (uint32_t p = 0; p < panels; p++)
        tile_scales(run, first, rows, panel + p, block, tile.s[p]);
    run->leaf->tile(&tile);
}

static void run_few_rows(struct blocked_run *run, uint32_t panel_first, uint32_t panel_count) {
    uint32_t blocks = run->blocks;
    uint32_t step = run->rows <= run->leaf->pair_rows ? 2 : 1;
    bool all_fit = blocks * run->rows <= CHUNK_ROWS;
    for (uint32_t block = 0; all_fit && block < blocks; block++)
        pack_rows(run, block, block * run->rows);
    for (uint32_t p = 0; p < panel_count; p += step) {
        uint32_t panels = panel_count - p < step ? panel_count - p : step;
        for (uint32_t block = 0; block < blocks; block++) {
            if (!all_fit) pack_rows(run, block, 0);
            run_tile(run, block, panel_first + p, panels, 0, run->rows,
                     all_fit ? block * run->rows : 0, false);
        }
    }
}

static void run_many_rows(struct blocked_run *run, uint32_t panel_first, uint32_t panel_count) {
    const struct packed_matrix *weights = run->job->weights;
    uint32_t tiles = (uint32_t)divide_up(run->rows, run->leaf->tile_rows);
    bool decoded = weights->type != WEIGHT_F32 || run->leaf->decodes_f32;
    for (uint32_t block = 0; block < run->blocks; block++) {
        pack_rows(run, block, 0);
        for (uint32_t panel = panel_first; panel < panel_first + panel_count; panel++) {
            if (decoded)
                run->leaf->decode(run->w, weights->type, block_weights(run, panel, block),
                                  block_channels(run, block));
            for (uint32_t t = 0; t < tiles; t++) { /* of even size: a tile of one row is slow */
                uint32_t first = run->rows * t / tiles, end = run->rows * (t + 1) / tiles;
                run_tile(run, block, panel, 1, first, end - first, first, decoded);
            }
        }
    }
}

void matmul_blocked_run(const struct matmul_leaf *leaf, const struct matmul *job,
                        uint32_t panel_first, uint32_t panel_count) {
    check(leaf->tile_rows <= TILE_ROWS_MAX);
    struct blocked_run run;
    run.leaf = leaf;
    run.job = job;
    run.blocks = (uint32_t)divide_up(job->weights->cols, QUANT_GROUP);
    run.panel_bytes = job->weights->cols * packed_channel_bytes(job->weights->type);
    uint32_t chunks = (uint32_t)divide_up(job->m, CHUNK_ROWS);
    for (uint32_t chunk = 0; chunk < chunks; chunk++) {
        run.row_first = (uint32_t)((uint64_t)job->m * chunk / chunks);
        run.rows = (uint32_t)((uint64_t)job->m * (chunk + 1) / chunks) - run.row_first;
        if (run.rows <= leaf->direct_rows)
            run_few_rows(&run, panel_first, panel_count);
        else
            run_many_rows(&run, panel_first, panel_count);
    }
}
