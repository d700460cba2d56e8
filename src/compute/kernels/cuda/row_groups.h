/* SPDX-License-Identifier: Apache-2.0
 * Groups of rows, each of which goes by a matrix of its own: tokens by their experts.
 */
#ifndef COMPUTE_KERNELS_CUDA_ROW_GROUPS_H
#define COMPUTE_KERNELS_CUDA_ROW_GROUPS_H

#include <stdint.h>

/* Rows [first_row, first_row + row_count) are of the matrix in a slot. */
struct row_group {
    uint32_t first_row, row_count, slot;
};

#endif
