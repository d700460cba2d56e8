/* SPDX-License-Identifier: Apache-2.0
 * Tensor maps: how TMA finds boxes of a tensor in a device's memory. What a map says about memory
 * beyond the tensor: zeros come from there. PTX ISA, "Tensor-map".
 */
#pragma once

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TENSOR_MAP_DIMENSIONS 5

enum map_element { MAP_ELEMENT_BYTE, MAP_ELEMENT_BF16, MAP_ELEMENT_F32 };

struct tensor_map {
    alignas(64) unsigned char bytes[128];
};

/* Dimensions from the innermost on. base and pitches are multiples of 16 bytes; a box's innermost
 * side is a multiple of 16 bytes, of 128 at most when swizzled; no side has more than 256. */
struct tensor_map_form {
    const void *base;
    enum map_element type;
    uint32_t dimensions;
    uint32_t size[TENSOR_MAP_DIMENSIONS];
    uint32_t box[TENSOR_MAP_DIMENSIONS];
    uint64_t pitch[TENSOR_MAP_DIMENSIONS - 1]; /* bytes, of dimension 1, 2, ... */
    bool swizzle; /* 16-byte pieces of a 128-byte row change places, as wgmma wants them */
};

/* False: the machine takes no such map. What was made lately is not made again. Any thread. */
bool tensor_map_make(struct tensor_map *map_out, const struct tensor_map_form *form);
/* How many were, since the process began. */
uint64_t tensor_map_encoded(void);

/* A matrix of rows of `columns`, `pitch` bytes apart, in boxes; swizzled. */
bool tensor_map_make_matrix(struct tensor_map *map_out, const void *base, enum map_element type,
                            uint32_t columns, uint32_t rows, uint64_t pitch, uint32_t box_columns,
                            uint32_t box_rows);

#ifdef __cplusplus
}
#endif
