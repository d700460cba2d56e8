/* SPDX-License-Identifier: Apache-2.0
 * A product's tiles, where blocks of threads stay and take tile after tile: of groups of rows, or
 * of all rows as one.
 */
#pragma once

#include "compute/kernels/cuda/live_rows.cuh"
#include "compute/kernels/cuda/row_groups.h"

struct group_tiles {
    const struct row_group
        *groups;                   /* nullptr: one, of the first `rows` rows those that are there */
    uint32_t group_count, rows, n; /* columns */
    struct live_rows live;
};

/* Which tile: of which group, and where in it. */
struct group_tile {
    struct row_group group;
    uint32_t index, tiles_before; /* the group's; tiles of all groups before it */
    uint32_t row, column;
};

GPU_DEVICE struct row_group group_at(const struct group_tiles *of, uint32_t index) {
    if (of->groups) return of->groups[index];
    struct row_group all = {0, rows_there(&of->live, of->rows), 0};
    return all;
}

GPU_DEVICE struct group_tile first_tile(const struct group_tiles *of) {
    struct group_tile tile = {group_at(of, 0), 0, 0, 0, 0};
    return tile;
}

/* Moves on to tile `number`, of ROWS by COLUMNS; false: there is none. Column by column, so that
 * blocks side by side read the same weights. */
template <int ROWS, int COLUMNS>
GPU_DEVICE bool find_tile(const struct group_tiles *of, uint32_t number, struct group_tile *tile) {
    uint32_t across = (of->n + COLUMNS - 1) / COLUMNS;
    for (;;) {
        uint32_t down = (tile->group.row_count + ROWS - 1) / ROWS;
        uint32_t within = number - tile->tiles_before;
        if (within < down * across) {
            tile->row = within % down * ROWS;
            tile->column = within / down * COLUMNS;
            return true;
        }
        if (++tile->index >= of->group_count) return false;
        tile->tiles_before += down * across;
        tile->group = group_at(of, tile->index);
    }
}

/* At most so many are there: each group's last tile may be a part of one. */
static inline uint32_t most_tiles(const struct group_tiles *of, uint32_t rows, uint32_t columns) {
    uint32_t across = (of->n + columns - 1) / columns, down = (of->rows + rows - 1) / rows;
    if (of->groups) down += of->rows < of->group_count ? of->rows : of->group_count;
    return across * down;
}
