/* SPDX-License-Identifier: Apache-2.0
 * The config.json of models that options name, at their published sizes, for random weights. Pure.
 */
#pragma once

#include "base/bytes.h"
#include "compute/weights/shape.h"

/* How checkpoints store weights. Of those in four bits (INT4 in groups of 32 or 128, MXFP4) only
 * the routed experts are; the rest is BF16. */
enum named_weights {
    NAMED_WEIGHTS_AUTO, /* as the model was published; FP8 for shapes of our own */
    NAMED_WEIGHTS_FP8,
    NAMED_WEIGHTS_BF16,
    NAMED_WEIGHTS_INT4_32,
    NAMED_WEIGHTS_INT4_128,
    NAMED_WEIGHTS_MXFP4,
    NAMED_WEIGHTS_COUNT
};

/* The choices of options that name a shape or its weights. */
#define NAMED_SHAPES_CHOICES "v3|v3.2|v2-lite|k2|glm-5|moonlight|glm-4.7-flash|dsv3b|tiny"
#define NAMED_WEIGHTS_CHOICES "auto|fp8|bf16|int4-g32|int4-g128|mxfp4"

struct named_shape {
    const char *name; /* of NAMED_SHAPES_CHOICES */
    enum named_weights weights;
    uint32_t layers; /* 0: all; else the first ones */
    bool mtp;        /* with an MTP layer */
};

/* The weights that an option names; NAMED_WEIGHTS_COUNT: none of them. */
enum named_weights named_shapes_find_weights(const char *name);
const char *named_shapes_weights_name(enum named_weights weights);

/* Writes the config.json of a shape. Returns its bytes; 0 for an unknown name. */
#define NAMED_SHAPES_CONFIG_BYTES 4096
size_t named_shapes_write_config(const struct named_shape *shape,
                                 char out[NAMED_SHAPES_CONFIG_BYTES]);

/* The member "quantization_config" of a config.json, with a comma behind it; "" for BF16. */
const char *named_shapes_quantization(enum named_weights weights);

/* How the shape's weights are stored: NAMED_WEIGHTS_FP8 to NAMED_WEIGHTS_MXFP4. */
enum named_weights named_shapes_weights_of(const struct shape *shape);
