/* SPDX-License-Identifier: Apache-2.0
 * Matrix products with AMX of rows without scales: weights get their scales and are rounded to BF16
 * before they are multiplied, so a sum may stay in its square from the first channel to the last.
 *
 * A stretch, two blocks of a panel, becomes pairs of channels in a room that the nearest cache
 * holds. Groups of 32 rows are multiplied by it in turn; while the last one is, the next stretch
 * replaces it step by step. One group keeps its sums in squares through a whole panel. Several lay
 * them down after each stretch and take them up again, and go through all panels for each portion
 * of channels, so that its x stays in the second-level cache. Within a portion the sums are
 * adjacent; between portions they are in y, where rows may be so far apart that they displace each
 * other from a cache.
 *
 * Rows are multiplied 16 at a time where a job has so many: the last 16 may have been multiplied
 * before, and then only those that are new are written to y.
 *
 * Order of the sums: TDPBF16PS (struct gemm_bf16), ascending steps of 32 channels from 0.
 */
#include "compute/kernels/amx_chunk.h"

#include <string.h>

#define STRETCH_BLOCKS 2
#define PORTION_BLOCKS 8

/* Blocks of a panel that are multiplied one after another. */
struct panel_stretch {
    struct block_place at;
    uint32_t blocks;
};

typedef float square_sums[AMX_ROWS][MATMUL_PANEL];

struct whole_rows {
    uint32_t first; /* in the chunk; a multiple of GROUP_ROWS */
    uint32_t squares;
    struct amx_square square[2];
};

struct whole_run {
    const struct amx_chunk *chunk;
    uint32_t panel_first, panel_end;
    uint32_t portion_blocks;
    uint32_t group_count;
    struct whole_rows groups[AMX_CHUNK_ROWS / GROUP_ROWS];
    bool keeps; /* one group's sums stay in squares while a panel lasts */
    _Alignas(64) block_pairs w[STRETCH_BLOCKS];
    _Alignas(64) square_sums sums[AMX_CHUNK_ROWS / AMX_ROWS];
};

/* ---- Products ---- */

/* A block to be multiplied into the squares. Meanwhile the weights `next` become pairs at w, if
 * there are any: a step's pairs are used before they are replaced. What lies at `further` is
 * brought near. */
struct whole_block {
    uint32_t channels, rows; /* rows of a square */
    char *w;
    const uint16_t *x[2];
    const char *next, *further;
    float next_scale;
};

ALWAYS_INLINE void add_products(int squares, bool converts, enum weight_type type,
                                const struct whole_block *block) {
    struct weight_values values;
    if (converts) values = load_values(type, block->next_scale);
    const uint16_t *x[2] = {block->x[0], block->x[1]};
    const char *w = block->w;
    const uint32_t whole = block->channels / AMX_CHANNELS, rest = block->channels % AMX_CHANNELS;
    for (uint32_t step = 0; step < whole; step++, w += STEP_BYTES) {
        amx_multiply_step(squares, 2, w, 2 * 64, x, X_STRIDE);
        x[0] += AMX_CHANNELS;
        x[1] += AMX_CHANNELS;
        if (converts) convert_step(type, &values, block->next, block->further, block->w, step);
    }
    if (rest) amx_multiply_rest(squares, 2, w, 2 * 64, x, X_STRIDE, block->rows, rest);
}

ALWAYS_INLINE void add_to_squares(int squares, enum weight_type type,
                                  const struct whole_block *block) {
    if (!block->next)
        add_products(squares, false, type, block);
    else if (type == WEIGHT_FP8)
        add_products(squares, true, WEIGHT_FP8, block);
    else
        add_products(squares, true, WEIGHT_BF16, block);
}

/* The group's rows times a block with its pairs at w; `next`, or NULL, replaces them. */
static void add_block(const struct whole_run *run, const struct whole_rows *group, uint32_t at,
                      const struct block_place *next, char *w) {
    const struct amx_chunk *chunk = run->chunk;
    enum weight_type type = chunk->job->weights->type;
    const uint16_t *x = chunk->x + at * chunk->x_block_stride + (size_t)group->first * QUANT_GROUP;
    const struct amx_square *second = &group->square[group->squares - 1];
    struct whole_block block = {
        .channels = amx_block_channels(chunk, at),
        .rows = group->square[0].rows,
        .w = w,
        .x = {x + group->square[0].first * QUANT_GROUP, x + second->first * QUANT_GROUP}};
    if (next) block.next_scale = amx_block_scale(chunk, *next);
    bool meanwhile = next && block.channels == QUANT_GROUP &&
                     amx_block_channels(chunk, next->block) == QUANT_GROUP &&
                     scale_is_usual(block.next_scale);
    if (meanwhile) {
        block.next = amx_block_weights(chunk, *next);
        block.further = block.next + AHEAD_BLOCKS * QUANT_GROUP * packed_channel_bytes(type);
    }
    if (group->squares == 2)
        add_to_squares(2, type, &block);
    else
        add_to_squares(1, type, &block);
    if (next && !meanwhile) convert(chunk, *next, block.next_scale, w);
}

/* ---- Sums ---- */

/* Where a square's sums lie. */
struct square_place {
    float *sums;
    size_t stride; /* in floats */
};

static struct square_place place_in_y(const struct whole_run *run, const struct whole_rows *group,
                                      uint32_t square, uint32_t panel) {
    uint32_t row = group->first + (uint32_t)group->square[square].first;
    return (struct square_place){amx_y(run->chunk, row, panel), run->chunk->job->y_stride};
}

static struct square_place place_near(struct whole_run *run, const struct whole_rows *group,
                                      uint32_t square) {
    return (struct square_place){run->sums[group->first / AMX_ROWS + square][0], MATMUL_PANEL};
}

static void take_sums(struct whole_run *run, const struct whole_rows *group,
                      struct block_place at) {
    bool begins = at.block % run->portion_blocks == 0;
    if (at.block == 0) {
        amx_zero(0);
        amx_zero(1);
        amx_zero(2);
        amx_zero(3);
        return;
    }
    struct square_place place =
        begins ? place_in_y(run, group, 0, at.panel) : place_near(run, group, 0);
    amx_load(0, place.sums, place.stride * sizeof(float));
    amx_load(1, place.sums + AMX_COLUMNS, place.stride * sizeof(float));
    if (group->squares == 1) return;
    place = begins ? place_in_y(run, group, 1, at.panel) : place_near(run, group, 1);
    amx_load(2, place.sums, place.stride * sizeof(float));
    amx_load(3, place.sums + AMX_COLUMNS, place.stride * sizeof(float));
}

/* At the end of a portion a square's new rows go to y; if all are new, they are already laid there.
 * */
static void end_square(struct whole_run *run, const struct whole_rows *group, uint32_t square,
                       uint32_t panel) {
    const struct amx_square *at = &group->square[square];
    struct square_place y = place_in_y(run, group, square, panel);
    struct square_place near = place_near(run, group, square);
    for (uint32_t r = at->skip; at->skip && r < at->rows; r++)
        memcpy(y.sums + r * y.stride, near.sums + r * near.stride, MATMUL_PANEL * sizeof(float));
}

static void lay_sums(struct whole_run *run, const struct whole_rows *group, uint32_t panel,
                     bool ends) {
    const struct amx_square *square = group->square;
    struct square_place place =
        ends && !square[0].skip ? place_in_y(run, group, 0, panel) : place_near(run, group, 0);
    amx_store(0, place.sums, place.stride * sizeof(float));
    amx_store(1, place.sums + AMX_COLUMNS, place.stride * sizeof(float));
    if (ends) end_square(run, group, 0, panel);
    if (group->squares == 1) return;
    place = ends && !square[1].skip ? place_in_y(run, group, 1, panel) : place_near(run, group, 1);
    amx_store(2, place.sums, place.stride * sizeof(float));
    amx_store(3, place.sums + AMX_COLUMNS, place.stride * sizeof(float));
    if (ends) end_square(run, group, 1, panel);
}

/* ---- Order ---- */

/* The stretch from `at` on, within its portion. */
static struct panel_stretch stretch_at(const struct whole_run *run, struct block_place at) {
    uint32_t end = (at.block / run->portion_blocks + 1) * run->portion_blocks;
    if (end > run->chunk->blocks) end = run->chunk->blocks;
    uint32_t blocks = end - at.block < STRETCH_BLOCKS ? end - at.block : STRETCH_BLOCKS;
    return (struct panel_stretch){at, blocks};
}

/* The next one: of the same portion of the panel, of the next panel, or of the first panel's next
 * portion. Without blocks: there is none. */
static struct panel_stretch next_stretch(const struct whole_run *run,
                                         const struct panel_stretch *now) {
    struct block_place at = {now->at.panel, now->at.block + now->blocks};
    uint32_t portion = now->at.block / run->portion_blocks * run->portion_blocks;
    if (at.block < portion + run->portion_blocks && at.block < run->chunk->blocks)
        return stretch_at(run, at);
    if (++at.panel < run->panel_end)
        return stretch_at(run, (struct block_place){at.panel, portion});
    at = (struct block_place){run->panel_first, portion + run->portion_blocks};
    return at.block < run->chunk->blocks ? stretch_at(run, at) : (struct panel_stretch){at, 0};
}

static void add_stretch(struct whole_run *run, const struct whole_rows *group,
                        const struct panel_stretch *now, const struct panel_stretch *next) {
    uint32_t replaced = next ? next->blocks : 0, b = 0;
    for (; b < now->blocks || b < replaced; b++) {
        struct block_place then;
        if (b < replaced) then = (struct block_place){next->at.panel, next->at.block + b};
        if (b < now->blocks)
            add_block(run, group, now->at.block + b, b < replaced ? &then : NULL, run->w[b]);
        else
            convert(run->chunk, then, amx_block_scale(run->chunk, then), run->w[b]);
    }
}

static void cut_groups(struct whole_run *run) {
    const uint32_t all = run->chunk->rows;
    run->group_count = (uint32_t)divide_up(all, GROUP_ROWS);
    for (uint32_t i = 0; i < run->group_count; i++) {
        struct whole_rows *group = &run->groups[i];
        group->first = i * GROUP_ROWS;
        uint32_t rows = all - group->first < GROUP_ROWS ? all - group->first : GROUP_ROWS;
        group->squares = amx_cut(rows, all, group->square);
    }
}

void matmul_amx_whole(const struct amx_chunk *chunk, uint32_t panel_first, uint32_t panel_count) {
    struct whole_run run;
    run.chunk = chunk;
    run.panel_first = panel_first;
    run.panel_end = panel_first + panel_count;
    cut_groups(&run);
    run.keeps = run.group_count == 1;
    run.portion_blocks = run.keeps ? chunk->blocks : PORTION_BLOCKS;
    amx_configure(chunk->rows < AMX_ROWS ? chunk->rows : AMX_ROWS, AMX_DEPTH_BF16);
    struct panel_stretch now = {0}, next = stretch_at(&run, (struct block_place){panel_first, 0});
    add_stretch(&run, &run.groups[0], &now, &next); /* the first only becomes pairs */
    while (next.blocks) {
        now = next;
        next = next_stretch(&run, &now);
        uint32_t end = now.at.block + now.blocks;
        bool ends = end == chunk->blocks || end % run.portion_blocks == 0; /* of a portion */
        for (uint32_t i = 0; i < run.group_count; i++) {
            const struct whole_rows *group = &run.groups[i];
            if (!run.keeps || now.at.block == 0) take_sums(&run, group, now.at);
            add_stretch(&run, group, &now, i + 1 == run.group_count ? &next : NULL);
            if (!run.keeps || ends) lay_sums(&run, group, now.at.panel, ends);
        }
    }
    amx_release();
}
