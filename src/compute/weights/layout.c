/* SPDX-License-Identifier: Apache-2.0
 * The order is embedding, layers, final norm, head, MTP layers.
 */
#include "compute/weights/layout.h"

#include "base/format.h"

struct layout_walk {
    const struct shape *shape;
    layout_visit *visit;
    void *context;
    struct error *error;
    enum status status;
    struct layout_tensor tensor; /* layer and expert are set by the walk */
};

static void put(struct layout_walk *walk, enum layout_kind kind, const char *name, uint64_t rows,
                uint64_t columns) {
    struct layout_tensor *tensor = &walk->tensor;
    if (walk->status != STATUS_OK) return;
    tensor->kind = kind;
    tensor->dims = columns ? 2 : 1;
    tensor->rows = rows;
    tensor->columns = columns ? columns : 1;
    tensor->quantized = columns && (kind == LAYOUT_ATTENTION || kind == LAYOUT_DENSE ||
                                    kind == LAYOUT_EXPERT || kind == LAYOUT_SHARED);
    if (tensor->layer == LAYOUT_NONE)
        format_text(tensor->name, LAYOUT_NAME_BYTES, "%s", name);
    else if (kind == LAYOUT_EXPERT)
        format_text(tensor->name, LAYOUT_NAME_BYTES, "model.layers.%u.mlp.experts.%u.%s",
                    tensor->layer, tensor->expert, name);
    else
        format_text(tensor->name, LAYOUT_NAME_BYTES, "model.layers.%u.%s", tensor->layer, name);
    walk->status = walk->visit(walk->context, tensor, walk->error);
}

static void layout_put_attention(struct layout_walk *walk) {
    const struct shape *shape = walk->shape;
    const uint64_t hidden = shape->hidden, heads = shape->heads;
    const uint64_t query = heads * shape_query_dim(shape);
    if (shape->q_rank) {
        put(walk, LAYOUT_ATTENTION, "self_attn.q_a_proj.weight", shape->q_rank, hidden);
        put(walk, LAYOUT_NORM, "self_attn.q_a_layernorm.weight", shape->q_rank, 0);
        put(walk, LAYOUT_ATTENTION, "self_attn.q_b_proj.weight", query, shape->q_rank);
    } else {
        put(walk, LAYOUT_ATTENTION, "self_attn.q_proj.weight", query, hidden);
    }
    put(walk, LAYOUT_ATTENTION, "self_attn.kv_a_proj_with_mqa.weight", shape_kv_width(shape),
        hidden);
    put(walk, LAYOUT_NORM, "self_attn.kv_a_layernorm.weight", shape->kv_rank, 0);
    put(walk, LAYOUT_ATTENTION, "self_attn.kv_b_proj.weight",
        heads * (shape->nope_dim + shape->value_dim), shape->kv_rank);
    put(walk, LAYOUT_ATTENTION, "self_attn.o_proj.weight", hidden, heads * shape->value_dim);
}

static void layout_put_experts(struct layout_walk *walk) {
    const struct shape *shape = walk->shape;
    const uint64_t hidden = shape->hidden, width = shape->expert_width;
    const uint64_t shared_width = width * shape->shared_experts;
    put(walk, LAYOUT_ROUTER, "mlp.gate.weight", shape->experts, hidden);
    if (shape->method == ROUTER_NOAUX_TC) {
        walk->tensor.is_bias = true;
        put(walk, LAYOUT_ROUTER, "mlp.gate.e_score_correction_bias", shape->experts, 0);
        walk->tensor.is_bias = false;
    }
    for (uint32_t expert = 0; expert < shape->experts; expert++) {
        walk->tensor.expert = expert;
        put(walk, LAYOUT_EXPERT, "gate_proj.weight", width, hidden);
        put(walk, LAYOUT_EXPERT, "up_proj.weight", width, hidden);
        put(walk, LAYOUT_EXPERT, "down_proj.weight", hidden, width);
    }
    walk->tensor.expert = LAYOUT_NONE;
    if (!shape->shared_experts) return;
    put(walk, LAYOUT_SHARED, "mlp.shared_experts.gate_proj.weight", shared_width, hidden);
    put(walk, LAYOUT_SHARED, "mlp.shared_experts.up_proj.weight", shared_width, hidden);
    put(walk, LAYOUT_SHARED, "mlp.shared_experts.down_proj.weight", hidden, shared_width);
}

static void layout_put_layer(struct layout_walk *walk) {
    const struct shape *shape = walk->shape;
    const uint64_t hidden = shape->hidden, width = shape->dense_width;
    put(walk, LAYOUT_NORM, "input_layernorm.weight", hidden, 0);
    layout_put_attention(walk);
    put(walk, LAYOUT_NORM, "post_attention_layernorm.weight", hidden, 0);
    if (shape_layer_is_moe(shape, walk->tensor.layer)) {
        layout_put_experts(walk);
        return;
    }
    put(walk, LAYOUT_DENSE, "mlp.gate_proj.weight", width, hidden);
    put(walk, LAYOUT_DENSE, "mlp.up_proj.weight", width, hidden);
    put(walk, LAYOUT_DENSE, "mlp.down_proj.weight", hidden, width);
}

static void put_mtp_layer(struct layout_walk *walk) {
    const uint64_t hidden = walk->shape->hidden, vocab = walk->shape->vocab;
    walk->tensor.optional = true;
    put(walk, LAYOUT_EMBEDDING, "embed_tokens.weight", vocab, hidden);
    walk->tensor.optional = false;
    put(walk, LAYOUT_NORM, "enorm.weight", hidden, 0);
    put(walk, LAYOUT_NORM, "hnorm.weight", hidden, 0);
    put(walk, LAYOUT_JOIN, "eh_proj.weight", hidden, 2 * hidden);
    layout_put_layer(walk);
    put(walk, LAYOUT_NORM, "shared_head.norm.weight", hidden, 0);
    walk->tensor.optional = true;
    put(walk, LAYOUT_HEAD, "shared_head.head.weight", vocab, hidden);
    walk->tensor.optional = false;
}

enum status layout_each(const struct shape *shape, layout_visit *visit, void *context,
                        struct error *error) {
    struct layout_walk walk = {.shape = shape, .visit = visit, .context = context, .error = error};
    walk.tensor.layer = walk.tensor.expert = LAYOUT_NONE;
    put(&walk, LAYOUT_EMBEDDING, "model.embed_tokens.weight", shape->vocab, shape->hidden);
    for (uint32_t layer = 0; layer < shape->layers; layer++) {
        walk.tensor.layer = layer;
        layout_put_layer(&walk);
    }
    walk.tensor.layer = LAYOUT_NONE;
    put(&walk, LAYOUT_NORM, "model.norm.weight", shape->hidden, 0);
    if (!shape->tied_head) put(&walk, LAYOUT_HEAD, "lm_head.weight", shape->vocab, shape->hidden);
    for (uint32_t k = 0; k < shape->mtp_layers; k++) {
        walk.tensor.layer = shape->layers + k;
        put_mtp_layer(&walk);
    }
    return walk.status;
}

const char *layout_kind_name(enum layout_kind kind) {
    static const char *const names[LAYOUT_KIND_COUNT] = {
        [LAYOUT_EMBEDDING] = "embedding", [LAYOUT_ATTENTION] = "attention",
        [LAYOUT_DENSE] = "dense MLP",     [LAYOUT_ROUTER] = "router",
        [LAYOUT_EXPERT] = "experts",      [LAYOUT_SHARED] = "shared experts",
        [LAYOUT_NORM] = "norms",          [LAYOUT_HEAD] = "head",
        [LAYOUT_JOIN] = "MTP projection",
    };
    return names[kind];
}
