/* SPDX-License-Identifier: Apache-2.0
 * The tensors of a checkpoint: every Hugging Face name and size that a DeepSeek-V3 or V2 shape asks
 * for, in the order of the published checkpoints (their README_WEIGHTS.md). Checks, inspection and
 * random weights walk this list; weights.c asks for the tensors of a layer by their names. Pure.
 */
#ifndef COMPUTE_WEIGHTS_LAYOUT_H
#define COMPUTE_WEIGHTS_LAYOUT_H

#include "compute/weights/shape.h"

enum layout_kind {
    LAYOUT_EMBEDDING,
    LAYOUT_ATTENTION,
    LAYOUT_DENSE,  /* MLP of a dense layer */
    LAYOUT_ROUTER, /* gate and its bias */
    LAYOUT_EXPERT,
    LAYOUT_SHARED,
    LAYOUT_NORM,
    LAYOUT_HEAD,
    LAYOUT_JOIN, /* an MTP layer's eh_proj */
    LAYOUT_KIND_COUNT
};

#define LAYOUT_NONE UINT32_MAX
#define LAYOUT_NAME_BYTES 96

struct layout_tensor {
    char name[LAYOUT_NAME_BYTES];
    enum layout_kind kind;
    uint32_t layer;         /* LAYOUT_NONE outside the layers; >= shape->layers: an MTP layer */
    uint32_t expert;        /* LAYOUT_NONE unless LAYOUT_EXPERT */
    uint32_t dims;          /* 1: [rows]; 2: [rows][columns], y = W x */
    uint64_t rows, columns; /* columns is 1 where dims is 1 */
    bool quantized;         /* a linear that FP8 checkpoints store as F8_E4M3 with a scale */
    bool is_bias;           /* the router's correction bias: usually F32 */
    bool optional;          /* an MTP layer's copy of the embedding or the head */
};

/* Calls `visit` for each tensor; stops at the first status that is not OK and returns it. */
typedef enum status layout_visit(void *context, const struct layout_tensor *tensor,
                                 struct error *error);
enum status layout_each(const struct shape *shape, layout_visit *visit, void *context,
                        struct error *error);

/* A short name, such as "embedding" or "dense MLP". */
const char *layout_kind_name(enum layout_kind kind);

#endif
