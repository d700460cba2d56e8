/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/weights/weights_size.h"

#include "base/check.h"
#include "compute/weights/weights.h"

struct size_walk {
    const struct checkpoint *checkpoint;
    const struct shape *shape;
    bool mtp;
    struct expert_layout experts[LIMIT_LAYERS]; /* of each layer */
    size_t common;
};

/* The type in memory, as far as files or config.json say it. */
static enum weight_type weights_size_type(const struct size_walk *sizing,
                                          const struct layout_tensor *wanted) {
    const struct tensor *tensor = checkpoint_tensor(sizing->checkpoint, wanted->name);
    if (tensor) return pack_type(tensor);
    return pack_type(&(struct tensor){.type = layout_stored(sizing->shape, wanted).type});
}

static void add_matrix(struct size_walk *sizing, enum weight_type type, uint64_t rows,
                       uint64_t cols) {
    sizing->common +=
        round_up(packed_data_bytes(type, (uint32_t)rows, (uint32_t)cols), WEIGHTS_ALIGN) +
        round_up(packed_scale_bytes(type, (uint32_t)rows, (uint32_t)cols), WEIGHTS_ALIGN);
}

/* The copies of kv_b's halves of each head; see weights.h. */
static void add_absorbed(struct size_walk *sizing, const struct layout_tensor *wanted,
                         enum weight_type type) {
    const struct shape *shape = sizing->shape;
    const struct tensor *tensor = checkpoint_tensor(sizing->checkpoint, wanted->name);
    const struct tensor_halves *halves = tensor ? tensor->halves : NULL;
    const uint64_t kv_rank = wanted->columns;
    for (uint32_t head = 0; head < shape->heads; head++) {
        uint32_t first = head * (shape->nope_dim + shape->value_dim);
        uint32_t value_first = first + shape->nope_dim;
        if (halves) {
            add_matrix(sizing, pack_type(&halves->keys), kv_rank, shape->nope_dim);
            add_matrix(sizing, pack_type(&halves->values), shape->value_dim, kv_rank);
            continue;
        }
        add_matrix(sizing, weights_rows_type(type, first, shape->nope_dim, true), kv_rank,
                   shape->nope_dim);
        if (value_first % QUANT_GROUP != 0)
            add_matrix(sizing, weights_rows_type(type, value_first, shape->value_dim, false),
                       shape->value_dim, kv_rank);
    }
}

static void add_expert(struct size_walk *sizing, const struct layout_tensor *wanted,
                       enum weight_type type) {
    const struct packed_matrix matrix = {
        .type = type, .rows = (uint32_t)wanted->rows, .cols = (uint32_t)wanted->columns};
    weights_add_expert(&sizing->experts[wanted->layer], wanted->id - NAME_EXPERT_GATE, &matrix);
}

static enum status size_tensor(void *context, const struct layout_tensor *wanted,
                               struct error *error) {
    struct size_walk *sizing = context;
    enum weight_type type = weights_size_type(sizing, wanted);
    if (wanted->is_mtp &&
        (!sizing->mtp || wanted->optional || wanted->layer > sizing->shape->layers))
        return STATUS_OK;
    if (wanted->id == NAME_O_A && type == WEIGHT_FP8) type = WEIGHT_BF16; /* weights_compressed.c */
    if (wanted->kind == LAYOUT_ENGRAM) return STATUS_OK;                  /* stays in its file */
    if (wanted->id == NAME_EMBEDDING) {
        if (sizing->shape->tied_head) add_matrix(sizing, type, wanted->rows, wanted->columns);
    } else if (wanted->kind == LAYOUT_EXPERT) {
        add_expert(sizing, wanted, type);
    } else if (wanted->dims == 1) {
        sizing->common += round_up(wanted->rows * sizeof(float), WEIGHTS_ALIGN);
    } else {
        add_matrix(sizing, type, wanted->rows, wanted->columns);
        if (wanted->id == NAME_KV_B) add_absorbed(sizing, wanted, type);
    }
    return STATUS_OK;
}

struct memory_weights weights_size_of(const struct checkpoint *checkpoint, bool mtp) {
    const struct shape *shape = checkpoint_shape(checkpoint);
    struct size_walk sizing = {
        .checkpoint = checkpoint, .shape = shape, .mtp = mtp && checkpoint_has_mtp(checkpoint)};
    enum status status = layout_for_each(shape, size_tensor, &sizing, NULL);
    check(status == STATUS_OK);
    struct memory_weights sizes = {.common = (double)sizing.common, .experts = shape->experts};
    for (uint32_t layer = 0; layer < shape->layers + (sizing.mtp ? 1 : 0); layer++)
        sizes.moe_layers += shape_layer_is_moe(shape, layer);
    if (!shape->experts) return sizes;
    sizes.expert = (double)weights_lay_out_slots(sizing.experts, LIMIT_LAYERS, false).slot_bytes;
    return sizes;
}
