/* SPDX-License-Identifier: Apache-2.0
 * Limits of the kernels for Hopper. Some shapes cannot be read by TMA or do not fit the tiles of a
 * product. A model with such a shape is rejected when it is opened, so no launch is ever rejected.
 */
#include "compute/gpu/gpu_kernels.h"
#include "compute/model/model_state.h"
#include "compute/weights/checkpoint.h"

#include <stdio.h>

#define NORM_MAX 49152 /* row_kernels.h */

static enum status refuse(const char *what, uint32_t found, const char *expected, const char *cure,
                          struct error *error) {
    return error_set(error, STATUS_UNSUPPORTED,
                     "the GPU kernels do not support %s %u; expected %s; use %s--device cpu", what,
                     found, expected, cure);
}

static enum status check_multiple(const char *what, uint32_t found, uint32_t most,
                                  struct error *error) {
    char expected[64];
    snprintf(expected, sizeof expected, "a multiple of 8 up to %u in this mode", most);
    return found % 8 == 0 && found <= most
               ? STATUS_OK
               : refuse(what, found, expected, "--activations f32, or ", error);
}

/* Limits of mla_decode.h and mla_prompt.h, for attention in BF16. */
static enum status check_attention(const struct shape *shape, struct error *error) {
    enum status status = check_multiple("qk_nope_head_dim", shape->nope_dim, 128, error);
    if (!status) status = check_multiple("v_head_dim", shape->value_dim, 128, error);
    if (!status) status = check_multiple("qk_rope_head_dim", shape->rope_dim, 64, error);
    if (!status) status = check_multiple("kv_lora_rank", shape->kv_rank, 512, error);
    return status;
}

/* Absorbed attention, and the keys of prompts, use kv_b in BF16; weights.c converts FP8 to it. The
 * MTP layer follows the others. */
static enum status check_kv_b(const struct model *model, bool mtp, struct error *error) {
    for (uint32_t layer = 0; layer < model->shape->layers + mtp; layer++) {
        const struct tensor *kv_b =
            checkpoint_find(model->checkpoint, NAME_KV_B, layer, LAYOUT_NONE);
        if (kv_b && kv_b->type != TENSOR_BF16 && kv_b->type != TENSOR_E4M3)
            return error_set(error, STATUS_UNSUPPORTED,
                             "the GPU kernels do not support %s, which is neither BF16 nor FP8, in "
                             "this mode; use --activations f32, or --device cpu",
                             kv_b->name);
    }
    return STATUS_OK;
}

enum status gpu_hopper_limits_takes(const struct model *model, bool mtp, struct error *error) {
    const struct shape *shape = model->shape;
    const struct tensor *embedding =
        model->checkpoint
            ? checkpoint_find(model->checkpoint, NAME_EMBEDDING, LAYOUT_NONE, LAYOUT_NONE)
            : NULL;
    if (embedding && embedding->type == TENSOR_E4M3)
        return error_set(error, STATUS_UNSUPPORTED,
                         "the GPU kernels do not support an embedding in FP8; use --device cpu");
    if (shape->hidden % 4 || shape->hidden > NORM_MAX)
        return refuse("hidden_size", shape->hidden, "a multiple of 4 up to 49152", "", error);
    if (shape->heads * shape->value_dim % 4)
        return refuse("num_attention_heads x v_head_dim", shape->heads * shape->value_dim,
                      "a multiple of 4", "", error);
    if (!model->rounds_bf16) return STATUS_OK;
    enum status status = model->checkpoint ? check_kv_b(model, mtp, error) : STATUS_OK;
    return status ? status : check_attention(shape, error);
}
