/* SPDX-License-Identifier: Apache-2.0
 * How many of a launch's rows are there, where the host does not say: a graph's launches are made
 * for as many rows as there may be, and their kernels read how many there are. Rows beyond are left
 * alone.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Rows [before, before + the launch's) of *count * each. */
struct live_rows {
    const uint32_t *count; /* in the device's memory; NULL: all of the launch's rows are there */
    uint32_t each, before;
};

/* NULL: all are there. */
static inline struct live_rows live_rows_of(const struct live_rows *live) {
    struct live_rows all = {NULL, 0, 0};
    return live ? *live : all;
}
