/* SPDX-License-Identifier: Apache-2.0
 * Laying out runs twice over the same code: the first walk has no memory and only counts, the
 * second fills in addresses and lists the packing jobs. So the mapping is exactly as large as it
 * must be.
 */
#include "model/weights.h"

#include "base/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PLACE_ALIGN 64
#define SLOT_ALIGN 4096

struct builder {
    const struct checkpoint *checkpoint;
    const struct shape *shape;
    const struct weights_options *options;
    struct weights *weights;
    char *base; /* NULL on the counting walk */
    size_t used;
    struct pack_list list;
    enum status status; /* sticks at the first failure */
    struct error *error;
};

static void *place(struct builder *builder, size_t bytes, size_t align) {
    size_t at = round_up(builder->used, align);
    builder->used = at + bytes;
    return builder->base ? builder->base + at : NULL;
}

static void add_job(struct builder *builder, const struct pack_job *job) {
    if (builder->base && builder->status == STATUS_OK)
        builder->status = pack_list_add(&builder->list, job, builder->error);
}

/* "model.layers.<layer>.<suffix>" */
static const struct tensor *layer_tensor(struct builder *builder, uint32_t layer,
                                         const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static const struct tensor *find(struct builder *builder, const char *name) {
    const struct tensor *tensor = checkpoint_tensor(builder->checkpoint, name);
    if (!tensor && builder->status == STATUS_OK)
        builder->status = error_set(builder->error, STATUS_NOT_FOUND,
                                    "the checkpoint has no tensor %s; is a shard missing?", name);
    return tensor;
}

static const struct tensor *layer_tensor(struct builder *builder, uint32_t layer,
                                         const char *format, ...) {
    char name[256];
    int length = snprintf(name, sizeof name, "model.layers.%u.", layer);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(name + length, sizeof name - (size_t)length, format, arguments);
    va_end(arguments);
    return find(builder, name);
}

static enum weight_type type_kept(const struct tensor *tensor) {
    if (tensor->type == TENSOR_E4M3) return WEIGHT_FP8;
    return tensor->type == TENSOR_BF16 ? WEIGHT_BF16 : WEIGHT_F32;
}

static float *put_floats(struct builder *builder, const struct tensor *tensor) {
    if (!tensor) return NULL;
    uint64_t rows = tensor->dims == 2 ? tensor->shape[0] : 1;
    float *data = place(builder, rows * pack_columns(tensor) * sizeof *data, PLACE_ALIGN);
    add_job(builder, &(struct pack_job){.form = PACK_FLOATS,
                                        .type = WEIGHT_F32,
                                        .tensor = tensor,
                                        .row_count = (uint32_t)rows,
                                        .data = data});
    return data;
}

/* Fills a matrix whose descriptor and memory are there already. */
static void fill_matrix(struct builder *builder, const struct packed_matrix *matrix,
                        const struct tensor *tensor) {
    const struct tensor *scale = checkpoint_scale(builder->checkpoint, tensor);
    bool dequantize = matrix->type == WEIGHT_F32 && tensor->type == TENSOR_E4M3;
    add_job(builder, &(struct pack_job){.form = PACK_PANELS,
                                        .type = matrix->type,
                                        .tensor = tensor,
                                        .scale = dequantize ? scale : NULL,
                                        .row_count = matrix->rows,
                                        .data = (void *)(uintptr_t)matrix->data});
    if (matrix->type == WEIGHT_FP8)
        add_job(builder, &(struct pack_job){.form = PACK_FLOATS,
                                            .type = WEIGHT_F32,
                                            .tensor = scale,
                                            .row_count = (uint32_t)scale->shape[0],
                                            .data = (void *)(uintptr_t)matrix->scales});
}

static struct packed_matrix place_matrix(struct builder *builder, enum weight_type type,
                                         uint32_t rows, uint32_t cols) {
    struct packed_matrix matrix = {.type = type, .rows = rows, .cols = cols};
    matrix.data = place(builder, packed_data_bytes(type, rows, cols), PLACE_ALIGN);
    size_t scale_bytes = packed_scale_bytes(type, rows, cols);
    if (scale_bytes) matrix.scales = place(builder, scale_bytes, PLACE_ALIGN);
    return matrix;
}

static struct packed_matrix put_matrix(struct builder *builder, const struct tensor *tensor) {
    if (!tensor) return (struct packed_matrix){0};
    struct packed_matrix matrix = place_matrix(
        builder, type_kept(tensor), (uint32_t)tensor->shape[0], (uint32_t)tensor->shape[1]);
    fill_matrix(builder, &matrix, tensor);
    return matrix;
}

/* Rows [first, first + count) of a tensor as a matrix of their own, or transposed. FP8 survives if
 * all rows share a scale block (or, untransposed, start on one). */
static struct packed_matrix put_rows(struct builder *builder, const struct tensor *tensor,
                                     uint32_t first, uint32_t count, bool transposed) {
    const struct tensor *scale = checkpoint_scale(builder->checkpoint, tensor);
    enum weight_type type = type_kept(tensor);
    uint32_t cols = (uint32_t)tensor->shape[1];
    bool one_block = first / QUANT_GROUP == (first + count - 1) / QUANT_GROUP;
    if (type == WEIGHT_FP8 && !one_block) type = WEIGHT_F32;
    struct packed_matrix matrix = transposed ? place_matrix(builder, type, cols, count)
                                             : place_matrix(builder, type, count, cols);
    add_job(builder, &(struct pack_job){
                         .form = transposed ? PACK_PANELS_TRANSPOSED : PACK_PANELS,
                         .type = type,
                         .tensor = tensor,
                         .scale = type == WEIGHT_F32 && tensor->type == TENSOR_E4M3 ? scale : NULL,
                         .source_row = first,
                         .row_count = count,
                         .data = (void *)(uintptr_t)matrix.data});
    if (type == WEIGHT_FP8) /* one row of scales either way: [1][blocks] or [blocks][1] */
        add_job(builder, &(struct pack_job){.form = PACK_FLOATS,
                                            .type = WEIGHT_F32,
                                            .tensor = scale,
                                            .source_row = first / QUANT_GROUP,
                                            .row_count = 1,
                                            .data = (void *)(uintptr_t)matrix.scales});
    return matrix;
}

static struct mlp_weights put_mlp(struct builder *builder, uint32_t layer, const char *prefix) {
    return (struct mlp_weights){
        .gate = put_matrix(builder, layer_tensor(builder, layer, "%sgate_proj.weight", prefix)),
        .up = put_matrix(builder, layer_tensor(builder, layer, "%sup_proj.weight", prefix)),
        .down = put_matrix(builder, layer_tensor(builder, layer, "%sdown_proj.weight", prefix)),
    };
}

struct packed_matrix weights_row_view(const struct packed_matrix *whole, uint32_t first,
                                      uint32_t count) {
    struct packed_matrix view = *whole;
    check(first % QUANT_GROUP == 0);
    view.rows = count;
    view.data =
        (const char *)whole->data + (size_t)first * whole->cols * weight_type_bytes(whole->type);
    if (whole->scales)
        view.scales = whole->scales + first / QUANT_GROUP * divide_up(whole->cols, QUANT_GROUP);
    return view;
}

static void put_absorbed(struct builder *builder, struct attention_weights *attention,
                         const struct tensor *kv_b) {
    const struct shape *shape = builder->shape;
    uint32_t head_rows = shape->nope_dim + shape->value_dim;
    if (!kv_b) return;
    for (uint32_t head = 0; head < shape->heads; head++) {
        uint32_t first = head * head_rows, value_first = first + shape->nope_dim;
        struct packed_matrix k = put_rows(builder, kv_b, first, shape->nope_dim, true);
        struct packed_matrix v = {0};
        if (value_first % QUANT_GROUP != 0)
            v = put_rows(builder, kv_b, value_first, shape->value_dim, false);
        else if (builder->base)
            v = weights_row_view(&attention->kv_b, value_first, shape->value_dim);
        if (!builder->base) continue;
        attention->absorb_k[head] = k;
        attention->absorb_v[head] = v;
    }
}

static void put_attention(struct builder *builder, uint32_t layer,
                          struct attention_weights *attention) {
    const struct shape *shape = builder->shape;
    size_t heads_bytes = shape->heads * sizeof(struct packed_matrix);
    attention->norm = put_floats(builder, layer_tensor(builder, layer, "input_layernorm.weight"));
    if (shape->q_rank) {
        attention->q_a =
            put_matrix(builder, layer_tensor(builder, layer, "self_attn.q_a_proj.weight"));
        attention->q_a_norm =
            put_floats(builder, layer_tensor(builder, layer, "self_attn.q_a_layernorm.weight"));
        attention->q_b =
            put_matrix(builder, layer_tensor(builder, layer, "self_attn.q_b_proj.weight"));
    } else {
        attention->q = put_matrix(builder, layer_tensor(builder, layer, "self_attn.q_proj.weight"));
    }
    attention->kv_a =
        put_matrix(builder, layer_tensor(builder, layer, "self_attn.kv_a_proj_with_mqa.weight"));
    attention->kv_a_norm =
        put_floats(builder, layer_tensor(builder, layer, "self_attn.kv_a_layernorm.weight"));
    const struct tensor *kv_b = layer_tensor(builder, layer, "self_attn.kv_b_proj.weight");
    attention->kv_b = put_matrix(builder, kv_b);
    attention->o = put_matrix(builder, layer_tensor(builder, layer, "self_attn.o_proj.weight"));
    attention->absorb_k = place(builder, heads_bytes, PLACE_ALIGN);
    attention->absorb_v = place(builder, heads_bytes, PLACE_ALIGN);
    put_absorbed(builder, attention, kv_b);
}

static const char *const expert_parts[] = {"gate", "up", "down"};

/* The types that all experts of a layer can be kept in. */
static void learn_types(struct builder *builder, uint32_t layer) {
    struct expert_layout *layout = &builder->weights->expert;
    struct packed_matrix *matrices[] = {&layout->matrices.gate, &layout->matrices.up,
                                        &layout->matrices.down};
    for (uint32_t expert = 0; expert < builder->shape->experts; expert++) {
        for (uint32_t part = 0; part < ARRAY_COUNT(expert_parts); part++) {
            const struct tensor *tensor = layer_tensor(
                builder, layer, "mlp.experts.%u.%s_proj.weight", expert, expert_parts[part]);
            if (!tensor) return;
            struct packed_matrix *matrix = matrices[part];
            if (!layout->filled)
                *matrix = (struct packed_matrix){.type = type_kept(tensor),
                                                 .rows = (uint32_t)tensor->shape[0],
                                                 .cols = (uint32_t)tensor->shape[1]};
            else if (matrix->type != type_kept(tensor))
                matrix->type = WEIGHT_F32;
        }
        layout->filled = true;
    }
}

static void fill_slot(struct builder *builder, uint32_t layer, uint32_t expert, uint32_t slot) {
    struct mlp_weights matrices = weights_expert(builder->weights, slot);
    const struct packed_matrix *matrix[] = {&matrices.gate, &matrices.up, &matrices.down};
    for (uint32_t part = 0; part < ARRAY_COUNT(expert_parts); part++) {
        const struct tensor *tensor = layer_tensor(builder, layer, "mlp.experts.%u.%s_proj.weight",
                                                   expert, expert_parts[part]);
        if (tensor) fill_matrix(builder, matrix[part], tensor);
    }
}

static uint32_t slots_in_layer(const struct builder *builder) {
    const struct placement *placement = builder->options->placement;
    return placement ? placement->slots_per_rank : builder->shape->experts;
}

/* The slots of MoE layers lie behind each other in the order of layers. */
static void put_experts(struct builder *builder, uint32_t layer, uint32_t first_slot,
                        struct layer_weights *weights) {
    const struct weights_options *options = builder->options;
    const uint32_t *experts =
        options->placement ? placement_of_rank(options->placement, layer, options->rank) : NULL;
    weights->first_slot = first_slot;
    if (!builder->base) {
        learn_types(builder, layer);
        return;
    }
    for (uint32_t i = 0; i < slots_in_layer(builder) && builder->status == STATUS_OK; i++)
        fill_slot(builder, layer, experts ? experts[i] : i, first_slot + i);
}

static uint32_t put_layer(struct builder *builder, uint32_t layer, uint32_t first_slot,
                          struct layer_weights *weights) {
    const struct shape *shape = builder->shape;
    put_attention(builder, layer, &weights->attention);
    weights->mlp_norm =
        put_floats(builder, layer_tensor(builder, layer, "post_attention_layernorm.weight"));
    weights->is_moe = shape_layer_is_moe(shape, layer);
    if (!weights->is_moe) {
        weights->dense = put_mlp(builder, layer, "mlp.");
        return first_slot;
    }
    weights->router = put_matrix(builder, layer_tensor(builder, layer, "mlp.gate.weight"));
    if (shape->method == ROUTER_NOAUX_TC)
        weights->router_bias =
            put_floats(builder, layer_tensor(builder, layer, "mlp.gate.e_score_correction_bias"));
    if (shape->shared_experts) weights->shared = put_mlp(builder, layer, "mlp.shared_experts.");
    put_experts(builder, layer, first_slot, weights);
    return first_slot + slots_in_layer(builder);
}

/* Offsets inside a slot, once the counting walk knows the types. */
static void lay_out_slot(struct expert_layout *layout) {
    struct builder offsets = {.base = (char *)0};
    struct packed_matrix *matrices[] = {&layout->matrices.gate, &layout->matrices.up,
                                        &layout->matrices.down};
    for (uint32_t i = 0; i < ARRAY_COUNT(matrices); i++) {
        struct packed_matrix *matrix = matrices[i];
        matrix->data = (const void *)(uintptr_t)round_up(offsets.used, PLACE_ALIGN);
        place(&offsets, packed_data_bytes(matrix->type, matrix->rows, matrix->cols), PLACE_ALIGN);
        matrix->scales = (const float *)(uintptr_t)round_up(offsets.used, PLACE_ALIGN);
        place(&offsets, packed_scale_bytes(matrix->type, matrix->rows, matrix->cols), PLACE_ALIGN);
    }
    layout->slot_bytes = round_up(offsets.used, SLOT_ALIGN);
}

static struct packed_matrix in_slot(const struct packed_matrix *offsets, const char *slot) {
    struct packed_matrix matrix = *offsets;
    matrix.data = slot + (uintptr_t)offsets->data;
    matrix.scales = offsets->type == WEIGHT_FP8
                        ? (const float *)(const void *)(slot + (uintptr_t)offsets->scales)
                        : NULL;
    return matrix;
}

struct mlp_weights weights_expert(const struct weights *weights, uint32_t slot) {
    check(slot < weights->slot_count);
    const char *memory = weights->slots[slot];
    const struct mlp_weights *offsets = &weights->expert.matrices;
    return (struct mlp_weights){
        .gate = in_slot(&offsets->gate, memory),
        .up = in_slot(&offsets->up, memory),
        .down = in_slot(&offsets->down, memory),
    };
}

char *weights_put_slot(struct weights *weights, uint32_t slot, char *memory) {
    check(slot < weights->slot_count);
    char *old = weights->slots[slot];
    weights->slots[slot] = memory;
    return old;
}

static void put_mtp(struct builder *builder, uint32_t first_slot, struct mtp_weights *mtp) {
    uint32_t layer = builder->shape->layers;
    put_layer(builder, layer, first_slot, &mtp->block);
    mtp->embedding_norm = put_floats(builder, layer_tensor(builder, layer, "enorm.weight"));
    mtp->hidden_norm = put_floats(builder, layer_tensor(builder, layer, "hnorm.weight"));
    mtp->head_norm = put_floats(builder, layer_tensor(builder, layer, "shared_head.norm.weight"));
    mtp->projection = put_matrix(builder, layer_tensor(builder, layer, "eh_proj.weight"));
}

static void walk(struct builder *builder) {
    struct weights *weights = builder->weights;
    const struct shape *shape = builder->shape;
    uint32_t slot = 0;
    builder->used = 0;
    for (uint32_t i = 0; i < weights->slot_count; i++) /* known on the second walk */
        weights->slots[i] = place(builder, weights->expert.slot_bytes, SLOT_ALIGN);
    for (uint32_t layer = 0; layer < shape->layers && builder->status == STATUS_OK; layer++)
        slot = put_layer(builder, layer, slot, &weights->layers[layer]);
    size_t before = builder->used;
    if (weights->mtp) put_mtp(builder, slot, weights->mtp);
    weights->mtp_bytes = builder->used - before;
    weights->final_norm = put_floats(builder, find(builder, "model.norm.weight"));
    weights->head = put_matrix(builder, find(builder, "lm_head.weight"));
    weights->embedding = find(builder, "model.embed_tokens.weight");
    if (weights->embedding)
        add_job(builder, &(struct pack_job){.form = PACK_SCAN,
                                            .type = type_kept(weights->embedding),
                                            .tensor = weights->embedding,
                                            .row_count = shape->vocab});
}

static uint32_t count_slots(const struct builder *builder) {
    const struct shape *shape = builder->shape;
    uint32_t moe_layers = builder->options->mtp && shape_layer_is_moe(shape, shape->layers);
    for (uint32_t layer = 0; layer < shape->layers; layer++)
        moe_layers += shape_layer_is_moe(shape, layer);
    return moe_layers * slots_in_layer(builder);
}

static enum status map_memory(struct builder *builder) {
    struct weights *weights = builder->weights;
    weights->slot_count = count_slots(builder);
    weights->slots = calloc(weights->slot_count + 1, sizeof *weights->slots);
    if (!weights->slots)
        return error_set(builder->error, STATUS_NO_MEMORY, "no memory for %u slots",
                         weights->slot_count);
    if (weights->slot_count) lay_out_slot(&weights->expert);
    weights->bytes =
        builder->used + SLOT_ALIGN + (size_t)weights->slot_count * weights->expert.slot_bytes;
    void *memory = mmap(NULL, weights->bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return error_set(builder->error, STATUS_NO_MEMORY,
                         "cannot map %zu bytes for the packed weights", weights->bytes);
    madvise(memory, weights->bytes, MADV_HUGEPAGE);
    weights->memory = builder->base = memory;
    return STATUS_OK;
}

enum status weights_load(struct weights *weights, const struct checkpoint *checkpoint,
                         const struct weights_options *options, struct team *team,
                         const struct pack_progress *progress, struct error *error) {
    const struct shape *shape = checkpoint_shape(checkpoint);
    *weights = (struct weights){0};
    struct builder builder = {.checkpoint = checkpoint,
                              .shape = shape,
                              .options = options,
                              .weights = weights,
                              .error = error};
    weights->layers = calloc(shape->layers, sizeof *weights->layers);
    if (options->mtp) weights->mtp = calloc(1, sizeof *weights->mtp);
    if (!weights->layers || (options->mtp && !weights->mtp))
        builder.status = error_set(error, STATUS_NO_MEMORY, "no memory for the layers' tables");
    if (builder.status == STATUS_OK) walk(&builder);
    if (builder.status == STATUS_OK) builder.status = map_memory(&builder);
    if (builder.status == STATUS_OK) walk(&builder);
    if (builder.status == STATUS_OK)
        builder.status = pack_list_run(&builder.list, team, progress, error);
    pack_list_free(&builder.list);
    if (builder.status != STATUS_OK) weights_close(weights);
    return builder.status;
}

void weights_close(struct weights *weights) {
    if (weights->memory) munmap(weights->memory, weights->bytes);
    free(weights->slots);
    free(weights->layers);
    free(weights->mtp);
    *weights = (struct weights){0};
}
