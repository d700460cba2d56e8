/* SPDX-License-Identifier: Apache-2.0
 * The multiply probe with AMX: four squares of sums, two of A and two of B.
 */
#include "compute/kernels/tables.h"

#include "compute/kernels/amx.h"

double probe_amx_multiply(uint64_t rounds) {
    amx_configure(AMX_ROWS, AMX_DEPTH_BF16);
    for (uint64_t i = 0; i < rounds; i++) {
        amx_multiply(0, 4, 6);
        amx_multiply(1, 4, 7);
        amx_multiply(2, 5, 6);
        amx_multiply(3, 5, 7);
    }
    amx_release();
    return (double)rounds * 4 * 2 * AMX_ROWS * AMX_COLUMNS * AMX_CHANNELS;
}
