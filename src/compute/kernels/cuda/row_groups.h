/* SPDX-License-Identifier: Apache-2.0
 * Groups of rows, each of which goes by a matrix of its own: tokens by their experts.
 */
#pragma once

#include <stdint.h>

/* Rows [first_row, first_row + row_count) are of the matrix in a slot. */
struct row_group {
    uint32_t first_row, row_count, slot;
};
