/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/model/activations.h"

#include <string.h>

static const char *const names[ACTIVATIONS_COUNT] = {
    [ACTIVATIONS_F32] = "f32",         [ACTIVATIONS_BF16] = "bf16", [ACTIVATIONS_FP8] = "fp8",
    [ACTIVATIONS_FP8_F32] = "fp8-f32", [ACTIVATIONS_INT8] = "int8",
};

enum status activations_named(const char *name, enum activations *out, struct error *error) {
    for (int i = 0; i < ACTIVATIONS_COUNT; i++)
        if (!strcmp(name, names[i])) {
            *out = (enum activations)i;
            return STATUS_OK;
        }
    return error_set(error, STATUS_INVALID,
                     "unknown activations '%s': expected f32, bf16, fp8, fp8-f32 or int8", name);
}

const char *activations_name(enum activations activations) {
    return names[activations];
}

bool activations_round_bf16(enum activations activations) {
    return activations == ACTIVATIONS_BF16 || activations == ACTIVATIONS_FP8 ||
           activations == ACTIVATIONS_INT8;
}
