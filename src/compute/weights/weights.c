/* SPDX-License-Identifier: Apache-2.0
 * The layout code runs twice: the first walk has no memory and only counts bytes, the second fills
 * in addresses and lists the packing jobs. The mapping thus has exactly the required size. All
 * processes compute the same layout, so the parts of a shared file are the same jobs for all.
 */

#include "base/check.h"
#include "base/sha256.h"
#include "compute/weights/fill.h"
#include "compute/weights/ggml_block.h"
#include "compute/weights/weights_build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SLOT_ALIGN 4096
#define EXPERT_PARTS 3 /* gate, up, down */
/* A part of the common file has 1 / PART_SHARE of the bytes read to pack it, within limits. */
#define PART_SHARE 64
#define PART_BYTES_MIN ((uint64_t)64 << 10)
#define PART_BYTES_MAX ((uint64_t)16 << 20)

void *weights_build_place(struct builder *builder, size_t bytes, size_t align) {
    size_t at = round_up(builder->used, align);
    builder->used = at + bytes;
    return builder->base ? builder->base + at : NULL;
}

void weights_build_job(struct builder *builder, const struct pack_job *job) {
    if (builder->base && builder->status == STATUS_OK)
        builder->status = pack_list_add(&builder->list, job, builder->error);
}

/* Finds a routed expert's tensor. If it is absent, sets the error and returns NULL. */
const struct tensor *weights_build_expert_tensor(struct builder *builder, enum tensor_name name,
                                                 uint32_t layer, uint32_t expert) {
    const struct tensor *tensor = checkpoint_find(builder->checkpoint, name, layer, expert);
    if (tensor || builder->status != STATUS_OK) return tensor;
    char text[LAYOUT_NAME_BYTES];
    layout_write_name(builder->shape, name, layer, expert, text);
    builder->status = error_set(builder->error, STATUS_NOT_FOUND,
                                "the checkpoint has no tensor %s; is a shard missing?", text);
    return NULL;
}

const struct tensor *weights_build_tensor(struct builder *builder, enum tensor_name name,
                                          uint32_t layer) {
    return weights_build_expert_tensor(builder, name, layer, LAYOUT_NONE);
}

float *weights_build_floats(struct builder *builder, const struct tensor *tensor) {
    if (!tensor) return NULL;
    uint64_t rows = tensor->dims == 2 ? tensor->shape[0] : 1;
    float *data =
        weights_build_place(builder, rows * pack_columns(tensor) * sizeof *data, WEIGHTS_ALIGN);
    weights_build_job(builder, &(struct pack_job){.form = PACK_FLOATS,
                                                  .type = WEIGHT_F32,
                                                  .tensor = tensor,
                                                  .row_count = (uint32_t)rows,
                                                  .data = data});
    return data;
}

/* The type in memory: a device has no kernels for types of blocks. */
static enum weight_type memory_type(const struct builder *builder, const struct tensor *tensor) {
    const bool device = builder->options && builder->options->device;
    return device && ggml_block_is(tensor->type) ? WEIGHT_F32 : pack_type(tensor);
}

/* Where the scales of codes go that have them in their blocks; NULL: they are no such codes. */
static void *block_scales(const struct packed_matrix *matrix, const struct tensor *tensor) {
    const bool codes = ggml_block_is(tensor->type) && matrix->type != WEIGHT_F32;
    return codes ? (void *)(uintptr_t)matrix->group_scales : NULL;
}

/* Adds the packing job of a matrix that has its descriptor and memory. */
void weights_build_fill(struct builder *builder, const struct packed_matrix *matrix,
                        const struct tensor *tensor) {
    const struct tensor *scale = checkpoint_scale(builder->checkpoint, tensor);
    bool dequantize =
        scale && (matrix->type != pack_type(tensor) || tensor->type == TENSOR_E4M3_32);
    void *in_blocks = block_scales(matrix, tensor);
    weights_build_job(builder, &(struct pack_job){.form = matrix->pitch ? PACK_ROWS : PACK_PANELS,
                                                  .type = matrix->type,
                                                  .tensor = tensor,
                                                  .scale = dequantize ? scale : NULL,
                                                  .row_count = matrix->rows,
                                                  .pitch = matrix->pitch,
                                                  .scales = in_blocks,
                                                  .data = (void *)(uintptr_t)matrix->data});
    if (matrix->type == WEIGHT_FP8)
        weights_build_job(builder, &(struct pack_job){.form = PACK_FLOATS,
                                                      .type = WEIGHT_F32,
                                                      .tensor = scale,
                                                      .row_count = (uint32_t)scale->shape[0],
                                                      .data = (void *)(uintptr_t)matrix->scales});
    if (weight_type_group(matrix->type) &&
        !in_blocks) /* scales lie as a matrix of their own would */
        weights_build_job(builder,
                          &(struct pack_job){.form = PACK_PANELS,
                                             .type = WEIGHT_BF16,
                                             .tensor = scale,
                                             .row_count = matrix->rows,
                                             .data = (void *)(uintptr_t)matrix->group_scales});
}

/* Bytes of a matrix's data in its layout. */
size_t weights_build_data_bytes(const struct packed_matrix *matrix) {
    if (matrix->pitch) return matrix->rows * matrix->pitch;
    return packed_data_bytes(matrix->type, matrix->rows, matrix->cols);
}

struct packed_matrix weights_build_at(struct builder *builder, enum weight_type type, uint32_t rows,
                                      uint32_t cols) {
    struct packed_matrix matrix = {.type = type, .rows = rows, .cols = cols};
    if (builder->options->device) matrix.pitch = packed_pitch(type, cols);
    matrix.data = weights_build_place(builder, weights_build_data_bytes(&matrix), WEIGHTS_ALIGN);
    size_t scale_bytes = packed_scale_bytes(type, rows, cols);
    void *scales = scale_bytes ? weights_build_place(builder, scale_bytes, WEIGHTS_ALIGN) : NULL;
    if (type == WEIGHT_FP8)
        matrix.scales = scales;
    else
        matrix.group_scales = scales;
    return matrix;
}

struct packed_matrix weights_build_matrix(struct builder *builder, enum tensor_name name,
                                          uint32_t layer) {
    const struct tensor *tensor = weights_build_tensor(builder, name, layer);
    if (!tensor) return (struct packed_matrix){0};
    struct packed_matrix matrix =
        weights_build_at(builder, memory_type(builder, tensor), (uint32_t)tensor->shape[0],
                         (uint32_t)tensor->shape[1]);
    matrix.ue8m0 = layout_is_ue8m0(builder->shape, name);
    matrix.input_group = (uint8_t)layout_input_group(builder->shape, name);
    weights_build_fill(builder, &matrix, tensor);
    return matrix;
}

/* Adds a BF16 copy of an E4M3 tensor. */
struct packed_matrix weights_build_bf16(struct builder *builder, const struct tensor *tensor) {
    struct packed_matrix matrix = weights_build_at(builder, WEIGHT_BF16, (uint32_t)tensor->shape[0],
                                                   (uint32_t)tensor->shape[1]);
    weights_build_fill(builder, &matrix, tensor);
    return matrix;
}

/* Adds rows [first, first + count) of a tensor as a separate matrix, perhaps transposed. */
struct packed_matrix weights_build_rows(struct builder *builder, const struct tensor *tensor,
                                        uint32_t first, uint32_t count, bool transposed) {
    const struct tensor *scale = checkpoint_scale(builder->checkpoint, tensor);
    enum weight_type type =
        weights_rows_type(memory_type(builder, tensor), first, count, transposed);
    uint32_t cols = (uint32_t)tensor->shape[1];
    struct packed_matrix matrix = transposed ? weights_build_at(builder, type, cols, count)
                                             : weights_build_at(builder, type, count, cols);
    weights_build_job(builder,
                      &(struct pack_job){
                          .form = transposed ? PACK_PANELS_TRANSPOSED : PACK_PANELS,
                          .type = type,
                          .tensor = tensor,
                          .scale = type == WEIGHT_F32 && tensor->type == TENSOR_E4M3 ? scale : NULL,
                          .source_row = first,
                          .row_count = count,
                          .scales = transposed ? NULL : block_scales(&matrix, tensor),
                          .data = (void *)(uintptr_t)matrix.data});
    if (type == WEIGHT_FP8) /* one row of scales either way: [1][blocks] or [blocks][1] */
        weights_build_job(builder, &(struct pack_job){.form = PACK_FLOATS,
                                                      .type = WEIGHT_F32,
                                                      .tensor = scale,
                                                      .source_row = first / QUANT_GROUP,
                                                      .row_count = 1,
                                                      .data = (void *)(uintptr_t)matrix.scales});
    return matrix;
}

/* `gate` is the first of an MLP's three names. */
struct mlp_weights weights_build_mlp(struct builder *builder, enum tensor_name gate,
                                     uint32_t layer) {
    return (struct mlp_weights){
        .gate = weights_build_matrix(builder, gate, layer),
        .up = weights_build_matrix(builder, gate + 1, layer),
        .down = weights_build_matrix(builder, gate + 2, layer),
    };
}

enum weight_type weights_rows_type(enum weight_type type, uint32_t first, uint32_t count,
                                   bool transposed) {
    bool one_block = first / QUANT_GROUP == (first + count - 1) / QUANT_GROUP;
    if (transposed && (weight_type_blocks(type) || weight_type_group(type))) return WEIGHT_F32;
    return type == WEIGHT_FP8 && !one_block ? WEIGHT_F32 : type;
}

struct packed_matrix weights_row_view(const struct packed_matrix *whole, uint32_t first,
                                      uint32_t count) {
    struct packed_matrix view = *whole;
    check(first % QUANT_GROUP == 0);
    view.rows = count;
    view.data =
        (const char *)whole->data + weight_type_bytes(whole->type, (size_t)first * whole->cols);
    if (whole->group_scales)
        view.group_scales =
            (const uint16_t *)(const void *)((const char *)whole->group_scales +
                                             packed_scale_bytes(whole->type, first, whole->cols));
    if (whole->scales)
        view.scales = whole->scales + first / QUANT_GROUP * divide_up(whole->cols, QUANT_GROUP);
    return view;
}

static void put_absorbed(struct builder *builder, struct attention_weights *attention,
                         const struct tensor *kv_b) {
    const struct shape *shape = builder->shape;
    uint32_t head_rows = shape->nope_dim + shape->value_dim;
    if (!kv_b || builder->options->device) return; /* a device's kernels read kv_b itself */
    const struct tensor_halves *halves = kv_b->halves;
    for (uint32_t head = 0; head < shape->heads; head++) {
        uint32_t first = head * head_rows, value_first = first + shape->nope_dim;
        struct packed_matrix k =
            halves ? weights_build_rows(builder, &halves->keys, head * shape->kv_rank,
                                        shape->kv_rank, false)
                   : weights_build_rows(builder, kv_b, first, shape->nope_dim, true);
        struct packed_matrix v = {0};
        if (halves)
            v = weights_build_rows(builder, &halves->values, head * shape->value_dim,
                                   shape->value_dim, false);
        else if (value_first % QUANT_GROUP != 0)
            v = weights_build_rows(builder, kv_b, value_first, shape->value_dim, false);
        else if (builder->base)
            v = weights_row_view(&attention->kv_b, value_first, shape->value_dim);
        if (!builder->base) continue;
        attention->absorb_k[head] = k;
        attention->absorb_v[head] = v;
    }
}

static void weights_put_index(struct builder *builder, uint32_t layer,
                              struct attention_weights *attention) {
    attention->index_q = weights_build_matrix(builder, NAME_INDEX_Q, layer);
    attention->index_k = weights_build_matrix(builder, NAME_INDEX_K, layer);
    attention->index_k_norm =
        weights_build_floats(builder, weights_build_tensor(builder, NAME_INDEX_K_NORM, layer));
    attention->index_k_bias =
        weights_build_floats(builder, weights_build_tensor(builder, NAME_INDEX_K_BIAS, layer));
    attention->index_weights = weights_build_matrix(builder, NAME_INDEX_WEIGHTS, layer);
}

static void weights_put_attention(struct builder *builder, uint32_t layer,
                                  struct attention_weights *attention) {
    const struct shape *shape = builder->shape;
    attention->norm =
        weights_build_floats(builder, weights_build_tensor(builder, NAME_ATTENTION_NORM, layer));
    if (shape->q_rank) {
        attention->q_a = weights_build_matrix(builder, NAME_Q_A, layer);
        attention->q_a_norm =
            weights_build_floats(builder, weights_build_tensor(builder, NAME_Q_A_NORM, layer));
        attention->q_b = weights_build_matrix(builder, NAME_Q_B, layer);
    } else {
        attention->q = weights_build_matrix(builder, NAME_Q, layer);
    }
    attention->kv_a = weights_build_matrix(builder, NAME_KV_A, layer);
    attention->kv_a_norm =
        weights_build_floats(builder, weights_build_tensor(builder, NAME_KV_A_NORM, layer));
    const struct tensor *kv_b = weights_build_tensor(builder, NAME_KV_B, layer);
    attention->kv_b = weights_build_matrix(builder, NAME_KV_B, layer);
    if (builder->options->kv_b_bf16 && kv_b && kv_b->type == TENSOR_E4M3)
        attention->kv_b_bf16 = weights_build_bf16(builder, kv_b);
    attention->o = weights_build_matrix(builder, NAME_O, layer);
    if (shape_has_own_index(shape, layer)) weights_put_index(builder, layer, attention);
    attention->absorb_k = builder->absorbed;
    attention->absorb_v = builder->absorbed + shape->heads;
    builder->absorbed += 2 * shape->heads;
    put_absorbed(builder, attention, kv_b);
}

static struct packed_matrix *expert_part(struct expert_layout *layout, uint32_t part) {
    struct mlp_weights *matrices = &layout->matrices;
    return part == 0 ? &matrices->gate : part == 1 ? &matrices->up : &matrices->down;
}

void weights_add_expert(struct expert_layout *layout, uint32_t part,
                        const struct packed_matrix *matrix) {
    struct packed_matrix *known = expert_part(layout, part);
    if (!known->rows)
        *known = *matrix;
    else if (known->type != matrix->type)
        known->type = WEIGHT_F32;
    layout->filled = true;
}

/* Determines types in which all experts of a layer can be stored. */
static void learn_types(struct builder *builder, uint32_t layer) {
    for (uint32_t expert = 0; expert < builder->shape->experts; expert++)
        for (uint32_t part = 0; part < EXPERT_PARTS; part++) {
            const struct tensor *tensor =
                weights_build_expert_tensor(builder, NAME_EXPERT_GATE + part, layer, expert);
            if (!tensor) return;
            struct packed_matrix matrix = {
                .type = memory_type(builder, tensor),
                .rows = (uint32_t)tensor->shape[0],
                .cols = (uint32_t)tensor->shape[1],
                .ue8m0 = layout_is_ue8m0(builder->shape, NAME_EXPERT_GATE + part),
                .input_group =
                    (uint8_t)layout_input_group(builder->shape, NAME_EXPERT_GATE + part)};
            weights_add_expert(&builder->weights->expert_layers[layer], part, &matrix);
        }
}

/* The name that a slot's part of a file stores for an expert. */
static uint64_t name_expert(uint32_t layer, uint32_t expert) {
    return (uint64_t)layer << 32 | expert;
}

static void fill_expert(struct builder *builder, uint32_t layer, uint32_t expert,
                        const struct mlp_weights *matrices) {
    const struct packed_matrix *matrix[] = {&matrices->gate, &matrices->up, &matrices->down};
    for (uint32_t part = 0; part < ARRAY_COUNT(matrix); part++) {
        const struct tensor *tensor =
            weights_build_expert_tensor(builder, NAME_EXPERT_GATE + part, layer, expert);
        if (tensor) weights_build_fill(builder, matrix[part], tensor);
    }
}

static void fill_slot(struct builder *builder, uint32_t slot) {
    struct mlp_weights matrices = weights_expert(builder->weights, slot);
    fill_expert(builder, (uint32_t)(builder->wanted[slot] >> 32), (uint32_t)builder->wanted[slot],
                &matrices);
}

static uint32_t slots_in_layer(const struct builder *builder) {
    const struct placement *placement = builder->options->placement;
    return placement ? placement->slots_per_rank : builder->shape->experts;
}

/* Adds a layer's experts. The slots of MoE layers are contiguous, in the order of layers. */
static void weights_put_experts(struct builder *builder, uint32_t layer, uint32_t first_slot,
                                struct layer_weights *weights) {
    const struct weights_options *options = builder->options;
    const uint32_t *experts =
        options->placement ? placement_of_rank(options->placement, layer, options->rank) : NULL;
    weights->first_slot = first_slot;
    if (!builder->base) {
        learn_types(builder, layer);
        return;
    }
    for (uint32_t i = 0; i < slots_in_layer(builder); i++) {
        builder->wanted[first_slot + i] = name_expert(layer, experts ? experts[i] : i);
        builder->weights->slot_layers[first_slot + i] = layer;
    }
}

static uint32_t weights_put_layer(struct builder *builder, uint32_t layer, uint32_t first_slot,
                                  struct layer_weights *weights) {
    const struct shape *shape = builder->shape;
    if (shape->layer_kinds[layer].attention == ATTENTION_COMPRESSED)
        weights_compressed_put(builder, layer, weights);
    else
        weights_put_attention(builder, layer, &weights->attention);
    weights->mlp_norm =
        weights_build_floats(builder, weights_build_tensor(builder, NAME_MLP_NORM, layer));
    weights->is_moe = shape_layer_is_moe(shape, layer);
    if (!weights->is_moe) {
        weights->dense = weights_build_mlp(builder, NAME_DENSE_GATE, layer);
        return first_slot;
    }
    weights->router = weights_build_matrix(builder, NAME_ROUTER, layer);
    if (shape->layer_kinds[layer].hashes)
        weights->router_hash =
            weights_build_floats(builder, weights_build_tensor(builder, NAME_ROUTER_HASH, layer));
    else if (shape->method == ROUTER_NOAUX_TC)
        weights->router_bias =
            weights_build_floats(builder, weights_build_tensor(builder, NAME_ROUTER_BIAS, layer));
    if (shape->shared_experts)
        weights->shared = weights_build_mlp(builder, NAME_SHARED_GATE, layer);
    weights_put_experts(builder, layer, first_slot, weights);
    return first_slot + slots_in_layer(builder);
}

static size_t lay_out_slot(struct expert_layout *layout, bool on_device) {
    struct builder offsets = {.base = (char *)0};
    for (uint32_t part = 0; part < EXPERT_PARTS; part++) {
        struct packed_matrix *matrix = expert_part(layout, part);
        if (on_device) matrix->pitch = packed_pitch(matrix->type, matrix->cols);
        matrix->data = (const void *)(uintptr_t)round_up(offsets.used, WEIGHTS_ALIGN);
        weights_build_place(&offsets, weights_build_data_bytes(matrix), WEIGHTS_ALIGN);
        const uintptr_t scales = round_up(offsets.used, WEIGHTS_ALIGN);
        matrix->scales = (const float *)scales;
        matrix->group_scales = (const uint16_t *)scales;
        weights_build_place(&offsets, packed_scale_bytes(matrix->type, matrix->rows, matrix->cols),
                            WEIGHTS_ALIGN);
    }
    return round_up(offsets.used, SLOT_ALIGN);
}

/* Makes a part of all layers F32 if its types differ and one of them may take inputs of a form of
 * its own (linear_input_kind of compute/model/linear.h), or they are for a device, which has one
 * type for all. */
static void unify_types(struct expert_layout *layers, uint32_t count, uint32_t part,
                        bool on_device) {
    const struct packed_matrix *first = NULL;
    bool differ = false, particular = false;
    for (uint32_t i = 0; i < count; i++) {
        const struct packed_matrix *matrix = expert_part(&layers[i], part);
        if (!layers[i].filled) continue;
        if (!first) first = matrix;
        differ |= matrix->type != first->type;
        particular |= matrix->type == WEIGHT_FP8 || weight_type_group(matrix->type);
    }
    for (uint32_t i = 0; i < count && differ && (particular || on_device); i++)
        expert_part(&layers[i], part)->type = WEIGHT_F32;
}

struct expert_layout weights_lay_out_slots(struct expert_layout *layers, uint32_t count,
                                           bool on_device) {
    const struct expert_layout *first = NULL;
    size_t most = 0;
    for (uint32_t part = 0; part < EXPERT_PARTS; part++)
        unify_types(layers, count, part, on_device);
    for (uint32_t i = 0; i < count; i++) {
        if (!layers[i].filled) continue;
        const size_t bytes = lay_out_slot(&layers[i], on_device);
        if (bytes > most) most = bytes;
        if (!first) first = &layers[i];
    }
    for (uint32_t i = 0; i < count; i++)
        layers[i].slot_bytes = most;
    return first ? *first : (struct expert_layout){.slot_bytes = 0};
}

static struct packed_matrix in_slot(const struct packed_matrix *offsets, const char *slot) {
    struct packed_matrix matrix = *offsets;
    matrix.data = slot + (uintptr_t)offsets->data;
    matrix.scales = offsets->type == WEIGHT_FP8
                        ? (const float *)(const void *)(slot + (uintptr_t)offsets->scales)
                        : NULL;
    matrix.group_scales =
        weight_type_group(offsets->type) || weight_type_blocks(offsets->type)
            ? (const uint16_t *)(const void *)(slot + (uintptr_t)offsets->group_scales)
            : NULL;
    return matrix;
}

static struct mlp_weights expert_in(const struct weights *weights, uint32_t layer,
                                    const char *memory) {
    const struct mlp_weights *offsets = &weights->expert_layers[layer].matrices;
    return (struct mlp_weights){
        .gate = in_slot(&offsets->gate, memory),
        .up = in_slot(&offsets->up, memory),
        .down = in_slot(&offsets->down, memory),
    };
}

struct mlp_weights weights_expert(const struct weights *weights, uint32_t slot) {
    check(slot < weights->slot_count);
    return expert_in(weights, weights->slot_layers[slot], weights->slots[slot]);
}

enum status weights_list_expert(const struct weights *weights, const struct checkpoint *checkpoint,
                                struct expert_place place, struct pack_list *list,
                                struct error *error) {
    struct builder builder = {.checkpoint = checkpoint,
                              .shape = checkpoint_shape(checkpoint),
                              .base = place.memory,
                              .list = *list,
                              .error = error};
    struct mlp_weights matrices = expert_in(weights, place.layer, place.memory);
    fill_expert(&builder, place.layer, place.expert, &matrices);
    *list = builder.list;
    return builder.status;
}

char *weights_put_slot(struct weights *weights, uint32_t slot, char *memory) {
    check(slot < weights->slot_count);
    char *old = weights->slots[slot];
    weights->slots[slot] = memory;
    return old;
}

static char *place_memory(const struct weights *weights, uint32_t place) {
    return weights->own.memory + (size_t)place * weights->expert.slot_bytes;
}

/* Index of the memory in own.memory, which has all slots and spares. */
static uint32_t weights_place_of(const struct weights *weights, const char *memory) {
    size_t at = (size_t)(memory - weights->own.memory);
    check(memory >= weights->own.memory && at < weights->own.bytes);
    return (uint32_t)(at / weights->expert.slot_bytes);
}

uint32_t weights_place(const struct weights *weights, uint32_t slot) {
    check(slot < weights->slot_count);
    return weights_place_of(weights, weights->slots[slot]);
}

char *weights_spare(const struct weights *weights, uint32_t spare) {
    check(spare < weights->spare_count);
    return weights->spares[spare];
}

void weights_forget(struct weights *weights, char *memory) {
    if (!weights->own.in_file) return;
    uint32_t place = weights_place_of(weights, memory);
    weights_file_empty(&weights->own.file, place);
    if (weights->places[place] == PLACE_UNKNOWN)
        weights->places[place] =
            weights_file_allocate(&weights->own.file, memory, weights->expert.slot_bytes)
                ? PLACE_IN_FILE
                : PLACE_PRIVATE;
}

void weights_remember(struct weights *weights, const char *memory, uint32_t layer, uint32_t expert,
                      uint64_t digest) {
    if (!weights->own.in_file) return;
    uint32_t place = weights_place_of(weights, memory);
    if (weights->places[place] == PLACE_PRIVATE) return;
    weights_file_fill(&weights->own.file, place, memory, weights->expert.slot_bytes,
                      name_expert(layer, expert), digest);
}

static void put_mtp(struct builder *builder, uint32_t first_slot, struct mtp_weights *mtp) {
    uint32_t layer = builder->shape->layers;
    weights_put_layer(builder, layer, first_slot, &mtp->block);
    mtp->embedding_norm = weights_build_floats(
        builder, weights_build_tensor(builder, NAME_MTP_EMBEDDING_NORM, layer));
    mtp->hidden_norm =
        weights_build_floats(builder, weights_build_tensor(builder, NAME_MTP_HIDDEN_NORM, layer));
    mtp->head_norm =
        weights_build_floats(builder, weights_build_tensor(builder, NAME_MTP_HEAD_NORM, layer));
    if (shape_is_compressed(builder->shape))
        weights_compressed_put_mtp(builder, layer, mtp);
    else
        mtp->projection = weights_build_matrix(builder, NAME_MTP_PROJECTION, layer);
}

/* The type as which the embedding is scanned for values that are not finite. */
static enum weight_type scan_type(const struct tensor *embedding) {
    return ggml_block_is(embedding->type) ? WEIGHT_F32 : pack_type(embedding);
}

static void weights_walk(struct builder *builder) {
    struct weights *weights = builder->weights;
    const struct shape *shape = builder->shape;
    uint32_t slot = 0;
    builder->used = 0;
    builder->absorbed = weights->absorbed;
    for (uint32_t layer = 0; layer < shape->layers && builder->status == STATUS_OK; layer++)
        slot = weights_put_layer(builder, layer, slot, &weights->layers[layer]);
    size_t before = builder->used;
    if (weights->mtp) put_mtp(builder, slot, weights->mtp);
    weights->mtp_bytes = builder->used - before;
    weights->final_norm =
        weights_build_floats(builder, weights_build_tensor(builder, NAME_FINAL_NORM, LAYOUT_NONE));
    if (shape_is_compressed(shape) && !shape->streams_delayed)
        weights->head_streams = weights_compressed_streams(builder, NAME_HEAD_FN, LAYOUT_NONE);
    weights->head = weights_build_matrix(builder, NAME_HEAD, LAYOUT_NONE);
    weights->embedding = weights_build_tensor(builder, NAME_EMBEDDING, LAYOUT_NONE);
    if (weights->embedding && builder->options->device)
        weights->embedding_rows = weights_build_matrix(builder, NAME_EMBEDDING, LAYOUT_NONE);
    else if (weights->embedding)
        weights_build_job(builder, &(struct pack_job){.form = PACK_SCAN,
                                                      .type = scan_type(weights->embedding),
                                                      .tensor = weights->embedding,
                                                      .row_count = shape->vocab});
}

static uint32_t weights_count_slots(const struct builder *builder) {
    const struct shape *shape = builder->shape;
    uint32_t moe_layers = builder->options->mtp && shape_layer_is_moe(shape, shape->layers);
    for (uint32_t layer = 0; layer < shape->layers; layer++)
        moe_layers += shape_layer_is_moe(shape, layer);
    return moe_layers * slots_in_layer(builder);
}

/* ---- memory ---- */

static enum status map_private(struct weights_region *region, struct device *device,
                               struct error *error) {
    void *on_device;
    if (!region->bytes) return STATUS_OK;
    if (device) {
        enum status status =
            device_allocate(device, region->bytes, "the weights", &on_device, error);
        if (status != STATUS_OK) return status;
        region->memory = on_device;
        region->device = device;
        return STATUS_OK;
    }
    void *memory = mmap(NULL, region->bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return error_set(error, STATUS_NO_MEMORY, "cannot map %zu bytes for the packed weights",
                         region->bytes);
    madvise(memory, region->bytes, MADV_HUGEPAGE);
    region->memory = memory;
    return STATUS_OK;
}

static void weights_add_number(struct sha256 *hash, uint64_t number) {
    sha256_update(hash, &number, sizeof number); /* keys never leave this machine */
}

/* Hashes everything on which a region's bytes depend, except the experts in slots. */
static void make_key(const struct builder *builder, bool common, uint8_t key[SHA256_BYTES]) {
    const struct weights *weights = builder->weights;
    const struct weights_options *options = builder->options;
    uint8_t files[SHA256_BYTES];
    struct sha256 hash;
    checkpoint_files(builder->checkpoint, files);
    sha256_init(&hash);
    weights_add_number(&hash, PACK_VERSION);
    weights_add_number(&hash, options->level);
    sha256_update(&hash, files, sizeof files);
    if (common) {
        weights_add_number(&hash, options->mtp);
        weights_add_number(&hash, weights->common.bytes);
    } else {
        weights_add_number(&hash, options->unit);
        weights_add_number(&hash, options->rank);
        weights_add_number(&hash, options->placement ? options->placement->ranks : 1);
        weights_add_number(&hash, weights->slot_count);
        weights_add_number(&hash, weights->spare_count);
        weights_add_number(&hash, weights->expert.slot_bytes);
    }
    sha256_final(&hash, key);
}

/* Maps the region: a file if one is requested and possible, else private memory. */
static enum status map_region(struct builder *builder, bool common, uint32_t part_count,
                              struct team *team) {
    struct weights *weights = builder->weights;
    const struct weights_options *options = builder->options;
    struct weights_region *region = common ? &weights->common : &weights->own;
    if (!options->directory || !region->bytes || options->device)
        return map_private(region, options->device, builder->error);
    char name[64];
    struct error why;
    struct weights_file_plan plan = {.directory = options->directory,
                                     .name = name,
                                     .bytes = region->bytes,
                                     .bytes_now = region->bytes,
                                     .part_count = part_count,
                                     .alone = !common};
    if (common) {
        snprintf(name, sizeof name, "common");
    } else {
        snprintf(name, sizeof name, "experts-of-unit-%u-rank-%u", options->unit, options->rank);
        plan.bytes_now = weights->slot_count * weights->expert.slot_bytes;
    }
    make_key(builder, common, plan.key);
    if (weights_file_open(&plan, team, &region->file, &why) == STATUS_OK) {
        region->memory = region->file.memory;
        region->in_file = true;
        if (options->verify) weights->damaged_parts += fill_verify(&region->file, team);
        return STATUS_OK;
    }
    if (!weights->notice.text[0])
        status_error_write(
            &weights->notice,
            "packed weights lie in this process's own memory and are loaded at each start: "
            "%.400s",
            why.text);
    return map_private(region, NULL, builder->error);
}

/* ---- parts ---- */

/* A job's destination or, if it has none, `before`, the last destination of earlier jobs. */
static char *job_target(const struct pack_job *job, char *before) {
    return job->data ? job->data : before;
}

/* Upper bound of the bytes read by the common jobs: packed data is never smaller. */
static uint64_t common_source(const struct weights *weights) {
    return weights->common.bytes + (weights->embedding ? weights->embedding->bytes : 0);
}

static uint64_t weights_part_bytes(const struct weights *weights) {
    uint64_t bytes = common_source(weights) / PART_SHARE;
    if (bytes < PART_BYTES_MIN) return PART_BYTES_MIN;
    return bytes < PART_BYTES_MAX ? bytes : PART_BYTES_MAX;
}

static uint32_t common_parts_max(const struct weights *weights) {
    return (uint32_t)(common_source(weights) / weights_part_bytes(weights)) + 1;
}

/* Divides the common jobs into parts, the same on all ranks; without a file into one part. */
static enum status cut_common(struct builder *builder, struct fill *fill) {
    uint32_t part_max = common_parts_max(builder->weights);
    struct weights_region *region = &builder->weights->common;
    const struct pack_list *list = &builder->list;
    char *at = region->memory;
    uint64_t read = 0;
    fill->file = region->in_file ? &region->file : NULL;
    fill->parts = calloc(part_max, sizeof *fill->parts);
    if (!fill->parts) return error_set(builder->error, STATUS_NO_MEMORY, "no memory to load");
    for (uint32_t i = 0; i < list->count; i++) {
        if (i == 0 || (fill->file && read >= weights_part_bytes(builder->weights))) {
            check(fill->part_count < part_max);
            struct fill_part *part = &fill->parts[fill->part_count];
            char *first = job_target(&list->jobs[i], at);
            *part = (struct fill_part){.first_job = i,
                                       .place = fill->part_count++,
                                       .first = first,
                                       .bytes = (size_t)(region->memory + region->bytes - first)};
            if (i > 0) part[-1].bytes = (size_t)(first - part[-1].first);
            read = 0;
        }
        at = job_target(&list->jobs[i], at);
        fill->parts[fill->part_count - 1].job_count++;
        read += pack_job_bytes(&list->jobs[i]);
    }
    return STATUS_OK;
}

/* Assigns each slot a place of the file that already holds its expert. Other slots, then spares,
 * get the remaining places. */
static enum status assign_slots(struct builder *builder) {
    struct weights *weights = builder->weights;
    uint32_t count = weights->slot_count, places = count + weights->spare_count, next = 0;
    bool *taken = calloc(places + 1, sizeof *taken);
    if (!taken) return error_set(builder->error, STATUS_NO_MEMORY, "no memory for %u slots", count);
    for (uint32_t slot = 0; weights->own.in_file && slot < count; slot++)
        for (uint32_t i = 0; i < places && !weights->slots[slot]; i++) {
            uint32_t place = (slot + i) % places; /* first its own place */
            if (taken[place] ||
                weights_file_holds(&weights->own.file, place) != builder->wanted[slot])
                continue;
            weights->slots[slot] = place_memory(weights, place);
            taken[place] = true;
        }
    for (uint32_t i = 0; i < places; i++) {
        char **memory = i < count ? &weights->slots[i] : &weights->spares[i - count];
        if (*memory) continue;
        while (taken[next])
            next++;
        *memory = place_memory(weights, next++);
    }
    free(taken);
    return STATUS_OK;
}

/* The number of spare slots: at least a layer's (move_bytes of struct model_options). */
static uint32_t count_spares(const struct builder *builder) {
    const struct weights *weights = builder->weights;
    uint64_t bytes = builder->options->move_bytes, least = slots_in_layer(builder);
    bool alone = builder->options->device && !builder->options->placement;
    if (!bytes || !weights->slot_count || alone) return 0;
    uint64_t spares = bytes / weights->expert.slot_bytes;
    if (spares > weights->slot_count) spares = weights->slot_count;
    return (uint32_t)(spares < least ? least : spares);
}

/* Divides the jobs after the common ones: a part for each slot, or without a file one for all. */
static enum status cut_own(struct builder *builder, struct fill *fill) {
    struct weights *weights = builder->weights;
    fill->file = weights->own.in_file ? &weights->own.file : NULL;
    fill->parts = calloc(weights->slot_count + 1, sizeof *fill->parts);
    if (!fill->parts) return error_set(builder->error, STATUS_NO_MEMORY, "no memory to load");
    for (uint32_t slot = 0; slot < weights->slot_count && !builder->status; slot++) {
        if ((uint32_t)builder->wanted[slot] == PLACEMENT_EMPTY) continue;
        uint32_t first_job = builder->list.count;
        if (fill->file || !fill->part_count)
            fill->parts[fill->part_count++] =
                (struct fill_part){.first_job = first_job,
                                   .place = weights_place_of(weights, weights->slots[slot]),
                                   .what = builder->wanted[slot],
                                   .first = weights->slots[slot],
                                   .bytes = weights->expert.slot_bytes};
        fill_slot(builder, slot);
        fill->parts[fill->part_count - 1].job_count += builder->list.count - first_job;
    }
    return builder->status;
}

/* ---- loading ---- */

static enum status weights_take_tables(struct builder *builder) {
    struct weights *weights = builder->weights;
    const struct shape *shape = builder->shape;
    size_t layers = shape->layers + builder->options->mtp;
    weights->slot_count = weights_count_slots(builder);
    weights->layers = calloc(shape->layers, sizeof *weights->layers);
    weights->absorbed = calloc(layers * 2 * shape->heads, sizeof *weights->absorbed);
    weights->slots = calloc(weights->slot_count + 1, sizeof *weights->slots);
    weights->slot_layers = calloc(weights->slot_count + 1, sizeof *weights->slot_layers);
    weights->expert_layers = calloc(shape->layers + 1, sizeof *weights->expert_layers);
    builder->wanted = calloc(weights->slot_count + 1, sizeof *builder->wanted);
    if (builder->options->mtp) weights->mtp = calloc(1, sizeof *weights->mtp);
    if (weights->layers && weights->absorbed && weights->slots && builder->wanted &&
        weights->slot_layers && weights->expert_layers && (weights->mtp || !builder->options->mtp))
        return STATUS_OK;
    return error_set(builder->error, STATUS_NO_MEMORY, "no memory for the layers' tables");
}

/* Packs first the common weights that no other process is packing, then this rank's slots, then the
 * common weights that other processes have not finished. */
static enum status weights_run_jobs(struct builder *builder, struct fill *common, struct fill *own,
                                    struct team *team, const struct load_progress *progress) {
    struct pack_run run;
    uint32_t left_out;
    builder->list.device = builder->options->device;
    enum status status = pack_run_open(&run, &builder->list, team, progress, builder->error);
    if (status == STATUS_OK) status = fill_some(common, &run, &left_out, builder->error);
    if (status == STATUS_OK) status = fill_all(own, &run, builder->error);
    if (status == STATUS_OK) status = fill_all(common, &run, builder->error);
    if (status == STATUS_OK) status = pack_run_finish(&run, builder->error);
    builder->weights->read_bytes = run.read_bytes;
    pack_run_close(&run);
    if (builder->weights->common.in_file) weights_file_protect(&builder->weights->common.file);
    return status;
}

static enum status weights_load_each(struct builder *builder, struct team *team,
                                     const struct load_progress *progress) {
    struct weights *weights = builder->weights;
    struct fill common = {.file = NULL}, own = {.file = NULL};
    enum status status = weights_take_tables(builder);
    if (status != STATUS_OK) return status;
    weights_walk(builder);
    if (builder->status != STATUS_OK) return builder->status;
    weights->expert = weights_lay_out_slots(weights->expert_layers, builder->shape->layers + 1,
                                            builder->options->device);
    weights->spare_count = count_spares(builder);
    uint32_t places = weights->slot_count + weights->spare_count;
    weights->spares = calloc(weights->spare_count + 1, sizeof *weights->spares);
    weights->places = calloc(places + 1, sizeof *weights->places);
    if (!weights->spares || !weights->places)
        return error_set(builder->error, STATUS_NO_MEMORY, "no memory to load");
    weights->common.bytes = builder->used;
    weights->own.bytes = places * weights->expert.slot_bytes;
    weights->bytes = weights->common.bytes + weights->slot_count * weights->expert.slot_bytes;
    status = map_region(builder, true, common_parts_max(weights), team);
    if (status == STATUS_OK) status = map_region(builder, false, places, team);
    if (status == STATUS_OK) {
        builder->base = weights->common.memory;
        weights_walk(builder);
        status = builder->status;
    }
    if (status == STATUS_OK) status = cut_common(builder, &common);
    if (status == STATUS_OK) status = assign_slots(builder);
    if (status == STATUS_OK) status = cut_own(builder, &own);
    if (status == STATUS_OK) status = weights_run_jobs(builder, &common, &own, team, progress);
    free(common.parts);
    free(own.parts);
    return status;
}

enum status weights_load(struct weights *weights, const struct checkpoint *checkpoint,
                         const struct weights_options *options, struct team *team,
                         const struct load_progress *progress, struct error *error) {
    *weights = (struct weights){.mtp = NULL};
    struct builder builder = {.checkpoint = checkpoint,
                              .shape = checkpoint_shape(checkpoint),
                              .options = options,
                              .weights = weights,
                              .error = error};
    enum status status = weights_load_each(&builder, team, progress);
    pack_list_free(&builder.list);
    free(builder.wanted);
    if (status != STATUS_OK) weights_close(weights);
    return status;
}

static void close_region(struct weights_region *region) {
    if (region->device)
        device_release(region->device, region->memory);
    else if (region->in_file)
        weights_file_close(&region->file);
    else if (region->memory)
        munmap(region->memory, region->bytes);
}

void weights_close(struct weights *weights) {
    close_region(&weights->common);
    close_region(&weights->own);
    free(weights->slots);
    free(weights->slot_layers);
    free(weights->expert_layers);
    free(weights->spares);
    free(weights->places);
    free(weights->absorbed);
    free(weights->layers);
    free(weights->mtp);
    *weights = (struct weights){.mtp = NULL};
}

uint64_t weights_mapped(const struct weights *weights) {
    return (weights->common.in_file ? weights->common.bytes : 0) +
           (weights->own.in_file ? weights->bytes - weights->common.bytes : 0);
}
