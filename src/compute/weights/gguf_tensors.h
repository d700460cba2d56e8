/* SPDX-License-Identifier: Apache-2.0
 * The names of tensors in GGUF files of llama.cpp's architecture deepseek2 (MODEL_TENSOR of
 * gguf-py/gguf/constants.py). Pure.
 */
#pragma once

#include <stdbool.h>

#include "compute/weights/layout.h"

/* The ways in which a tensor of a GGUF file is part of a checkpoint. */
enum gguf_form {
    GGUF_WHOLE,       /* a tensor of the checkpoint */
    GGUF_EXPERTS,     /* [experts][rows][columns]: a tensor for each expert */
    GGUF_GATES_UPS,   /* the same with the rows of gate and then of up */
    GGUF_KEY_HALVES,  /* [heads][kv_rank][nope]: kv_b's rows of keys, transposed */
    GGUF_VALUE_HALVES /* [heads][value][kv_rank] */
};

struct gguf_place {
    enum gguf_form form;
    enum tensor_name id; /* of GATES_UPS the gate, of halves kv_b */
    uint32_t layer;      /* LAYOUT_NONE outside the layers */
};

/* Returns false for the name of a tensor that no checkpoint has. */
bool gguf_tensors_find(const char *name, struct gguf_place *out);
