/* SPDX-License-Identifier: Apache-2.0
 * The activation modes: the precision in which a model computes. compute/model/linear.h documents
 * the rounding of each mode.
 */
#pragma once

#include <stdbool.h>

#include "base/status.h"

enum activations {
    ACTIVATIONS_F32,
    ACTIVATIONS_BF16,
    ACTIVATIONS_FP8,
    ACTIVATIONS_FP8_F32,
    ACTIVATIONS_INT8,
    ACTIVATIONS_COUNT
};

/* The mode named "f32", "bf16", "fp8", "fp8-f32" or "int8". */
enum status activations_named(const char *name, enum activations *out, struct error *error);
const char *activations_name(enum activations activations);

/* True if KV rows, attention's values and results of experts are BF16, and so are the inputs of
 * weights for which the mode has no other rounding. */
bool activations_round_bf16(enum activations activations);
