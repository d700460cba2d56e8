/* SPDX-License-Identifier: Apache-2.0
 * The activation modes: the precision in which a model computes. compute/model/linear.h documents
 * the rounding of each mode.
 */
#pragma once

#include "base/status.h"

enum activations {
    ACTIVATIONS_F32,
    ACTIVATIONS_BF16,
    ACTIVATIONS_FP8,
    ACTIVATIONS_FP8_F32,
    ACTIVATIONS_COUNT
};

/* The mode named "f32", "bf16", "fp8" or "fp8-f32". */
enum status activations_named(const char *name, enum activations *out, struct error *error);
const char *activations_name(enum activations activations);
