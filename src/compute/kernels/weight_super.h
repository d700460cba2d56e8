/* SPDX-License-Identifier: Apache-2.0
 * A piece of a row of weights with its scales, whatever the layout in a file was: 32 or 256
 * adjacent channels. A channel of code q, in group g of the piece, is worth
 *
 *   (d * scales[g]) * q - d_min * mins[g]
 *
 * in F32, each operation rounded once, in this order. It is the arithmetic of ggml's blocks.
 */
#pragma once

#include <stdint.h>

#define WEIGHT_SUPER_MAX 256
#define WEIGHT_SUPER_GROUPS 16

struct weight_super {
    int8_t codes[WEIGHT_SUPER_MAX];
    int8_t scales[WEIGHT_SUPER_GROUPS]; /* per group; 1 for types without */
    int8_t mins[WEIGHT_SUPER_GROUPS];
    uint16_t d, d_min; /* F16; d_min is 0 for types without minima */
};
