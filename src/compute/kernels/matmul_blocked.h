/* SPDX-License-Identifier: Apache-2.0
 * The loops around the vector kernels of matrix products, the same for every instruction set: which
 * rows, blocks and panels come when. The instruction set gives a leaf. Private to
 * src/compute/kernels.
 *
 * A tile is one block of 128 channels, one or two panels and a few rows; it adds its block to y, or
 * the groups of its block one by one.
 * Panels are read one after another, as much of each as the rows' channels that fit a cache need.
 * Few rows read the packed weights directly. More rows decode a block of a panel once into the
 * nearest cache and run all tiles over it.
 */
#pragma once

#include "compute/kernels/matmul.h"

#define TILE_ROWS_MAX 16
#define TILE_PANELS_MAX 2

struct matmul_tile {
    enum weight_type type;
    bool decoded;        /* w is what the leaf's decode wrote */
    bool prefetch;       /* w comes from memory; else it is near */
    uint32_t rows;       /* 1..leaf's tile_rows */
    uint32_t panels;     /* 1, or 2 for at most leaf's pair_rows rows */
    uint32_t count;      /* channels: 1..128 */
    const void *x;       /* [rows][128] of x_bytes, as the leaf packed them; TILE_ROWS_MAX rows may
                          * be read where x_bytes is 2 */
    const void *w;       /* [count][32] */
    size_t panel_bytes;  /* from one panel to the next */
    const char *ahead;   /* what the next tile will read, to be fetched into the cache */
    size_t ahead_stride; /* of `ahead`, from one panel to the next */
    size_t ahead_step;   /* bytes of `ahead` to fetch with each channel */
    void *scratch;       /* few rows: the leaf's room that lasts from tile to tile of a panel,
                          * [2][128][32] of up to 2 bytes, aligned to 64 */
    bool staged;         /* scratch holds what the leaf made of this tile's w */
    bool stage_next;     /* scratch may take the next tile's w, which has as many channels */
    float *y;            /* [rows][y_stride], 32 columns a panel */
    size_t y_stride;
    bool first; /* y starts from 0 */
    /* A group's channels, of which the tile has whole ones, and the scales [groups][32] of a panel
     * from the tile's first group on; 0 and NULL if the type has no groups. */
    uint32_t group;
    const uint16_t *group_scales;
    size_t group_scale_stride; /* in values, from one panel to the next */
    /* types of blocks: the super-block of the tile's first channel, and its place in there */
    const char *supers;
    uint32_t super_channel;
    float s[TILE_PANELS_MAX][TILE_ROWS_MAX]; /* without the scales of groups */
};

/* Where a tile of floats (matmul_body.h) has its weights from. */
enum tile_source {
    TILE_FP8,
    TILE_FP8_NEXT, /* AVX-512: see there */
    TILE_BF16,
    TILE_F32,
    TILE_FLOATS, /* in a near cache: what decode wrote, or F32 */
    TILE_CODES,  /* of four bits */
    TILE_GROUPS  /* in a near cache: what decode made of such codes */
};

struct matmul_leaf {
    uint32_t tile_rows;   /* most rows of a tile */
    uint32_t pair_rows;   /* most rows of a tile of two panels */
    uint32_t direct_rows; /* up to here packed weights are read directly, not decoded first */
    uint32_t block_rows;  /* the same of types of blocks */
    uint32_t x_bytes;     /* of a channel as pack_x writes it: 2 or 4 */
    bool decodes_f32;     /* F32 weights need decoding, too */
    /* One row's channels of a block; lift: times 2^8. */
    void (*pack_x)(void *out, const float *x, uint32_t count, bool lift);
    /* The same of a row of x_blocks; NULL: tiles read it as it lies. */
    void (*pack_bf16)(void *out, const uint16_t *x, uint32_t count, bool lift);
    /* INT8 values with their scales; count is a multiple of INT8_GROUP. NULL: not for such x. */
    void (*pack_int8)(void *out, const int8_t *x, const float *scales, uint32_t count,
                      enum weight_type type);
    void (*decode)(void *out, enum weight_type type, const void *w, uint32_t count);
    /* Channels [first, first + count) of a panel of a type of blocks. NULL: not for such types. */
    void (*decode_blocks)(float *out, const struct packed_matrix *weights, uint32_t panel,
                          uint32_t first, uint32_t count);
    void (*tile)(const struct matmul_tile *tile);
};

void matmul_blocked_run(const struct matmul_leaf *leaf, const struct matmul *job,
                        uint32_t panel_first, uint32_t panel_count);
