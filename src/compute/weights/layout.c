/* SPDX-License-Identifier: Apache-2.0
 * Tensors are listed in the order embedding, layers, final norm, head, MTP layers.
 */
#include "compute/weights/layout.h"

#include "base/format.h"

#include <string.h>

/* Where a tensor appears in the list. */
enum section { SECTION_FRONT, SECTION_MTP_FRONT, SECTION_LAYER, SECTION_MTP_BACK, SECTION_BACK };

/* Symbolic tensor dimensions; dimension_of() gives their values. */
enum dimension {
    NO_COLUMNS,
    VOCAB,
    HIDDEN,
    TWICE_HIDDEN,
    Q_LORA_RANK,
    QUERIES, /* of all heads */
    KV_LORA_RANK,
    KV_WIDTH,        /* kv_lora_rank + qk_rope_head_dim */
    KEYS_AND_VALUES, /* of all heads, without the RoPE part of the keys */
    VALUES,          /* of all heads */
    INDEX_HEADS,
    INDEX_DIM,
    INDEX_QUERIES, /* of all heads of the indexer */
    DENSE_WIDTH,
    EXPERTS,
    EXPERT_WIDTH,
    SHARED_WIDTH
};

/* The condition under which a tensor exists. */
enum presence {
    ALWAYS,
    IF_MLA,
    IF_MLA_Q_LORA,
    IF_MLA_NO_Q_LORA,
    IF_DSA,
    IF_DENSE,
    IF_MOE,
    IF_ROUTER_BIAS,
    IF_SHARED,
    IF_UNTIED
};

/* `pattern` is a format string that takes the layer index, then the expert index. */
struct layout_row {
    const char *pattern;
    enum section section;
    enum layout_kind kind;
    enum dimension rows, columns;
    enum presence presence;
};

#define LAYER "model.layers.%u."
#define EXPERT_INFIX ".mlp.experts."
#define EXPERT "model.layers.%u" EXPERT_INFIX "%u."

#define ROW(name, pattern, section, kind, rows, columns, presence)                                 \
    [NAME_##name] = {pattern, SECTION_##section, LAYOUT_##kind, rows, columns, presence}

/* All architectures so far name their tensors alike. */
static const struct layout_row deepseek_rows[NAME_COUNT] = {
    ROW(EMBEDDING, "model.embed_tokens.weight", FRONT, EMBEDDING, VOCAB, HIDDEN, ALWAYS),
    ROW(MTP_EMBEDDING, LAYER "embed_tokens.weight", MTP_FRONT, EMBEDDING, VOCAB, HIDDEN, ALWAYS),
    ROW(MTP_EMBEDDING_NORM, LAYER "enorm.weight", MTP_FRONT, NORM, HIDDEN, NO_COLUMNS, ALWAYS),
    ROW(MTP_HIDDEN_NORM, LAYER "hnorm.weight", MTP_FRONT, NORM, HIDDEN, NO_COLUMNS, ALWAYS),
    ROW(MTP_PROJECTION, LAYER "eh_proj.weight", MTP_FRONT, MTP_PROJECTION, HIDDEN, TWICE_HIDDEN,
        ALWAYS),
    ROW(ATTENTION_NORM, LAYER "input_layernorm.weight", LAYER, NORM, HIDDEN, NO_COLUMNS, ALWAYS),
    ROW(Q_A, LAYER "self_attn.q_a_proj.weight", LAYER, ATTENTION, Q_LORA_RANK, HIDDEN,
        IF_MLA_Q_LORA),
    ROW(Q_A_NORM, LAYER "self_attn.q_a_layernorm.weight", LAYER, NORM, Q_LORA_RANK, NO_COLUMNS,
        IF_MLA_Q_LORA),
    ROW(Q_B, LAYER "self_attn.q_b_proj.weight", LAYER, ATTENTION, QUERIES, Q_LORA_RANK,
        IF_MLA_Q_LORA),
    ROW(Q, LAYER "self_attn.q_proj.weight", LAYER, ATTENTION, QUERIES, HIDDEN, IF_MLA_NO_Q_LORA),
    ROW(KV_A, LAYER "self_attn.kv_a_proj_with_mqa.weight", LAYER, ATTENTION, KV_WIDTH, HIDDEN,
        IF_MLA),
    ROW(KV_A_NORM, LAYER "self_attn.kv_a_layernorm.weight", LAYER, NORM, KV_LORA_RANK, NO_COLUMNS,
        IF_MLA),
    ROW(KV_B, LAYER "self_attn.kv_b_proj.weight", LAYER, ATTENTION, KEYS_AND_VALUES, KV_LORA_RANK,
        IF_MLA),
    ROW(O, LAYER "self_attn.o_proj.weight", LAYER, ATTENTION, HIDDEN, VALUES, IF_MLA),
    ROW(INDEX_Q, LAYER "self_attn.indexer.wq_b.weight", LAYER, ATTENTION, INDEX_QUERIES,
        Q_LORA_RANK, IF_DSA),
    ROW(INDEX_K, LAYER "self_attn.indexer.wk.weight", LAYER, ATTENTION, INDEX_DIM, HIDDEN, IF_DSA),
    ROW(INDEX_K_NORM, LAYER "self_attn.indexer.k_norm.weight", LAYER, NORM, INDEX_DIM, NO_COLUMNS,
        IF_DSA),
    ROW(INDEX_K_BIAS, LAYER "self_attn.indexer.k_norm.bias", LAYER, NORM, INDEX_DIM, NO_COLUMNS,
        IF_DSA),
    ROW(INDEX_WEIGHTS, LAYER "self_attn.indexer.weights_proj.weight", LAYER, INDEX, INDEX_HEADS,
        HIDDEN, IF_DSA),
    ROW(MLP_NORM, LAYER "post_attention_layernorm.weight", LAYER, NORM, HIDDEN, NO_COLUMNS, ALWAYS),
    ROW(ROUTER, LAYER "mlp.gate.weight", LAYER, ROUTER, EXPERTS, HIDDEN, IF_MOE),
    ROW(ROUTER_BIAS, LAYER "mlp.gate.e_score_correction_bias", LAYER, ROUTER, EXPERTS, NO_COLUMNS,
        IF_ROUTER_BIAS),
    ROW(EXPERT_GATE, EXPERT "gate_proj.weight", LAYER, EXPERT, EXPERT_WIDTH, HIDDEN, IF_MOE),
    ROW(EXPERT_UP, EXPERT "up_proj.weight", LAYER, EXPERT, EXPERT_WIDTH, HIDDEN, IF_MOE),
    ROW(EXPERT_DOWN, EXPERT "down_proj.weight", LAYER, EXPERT, HIDDEN, EXPERT_WIDTH, IF_MOE),
    ROW(SHARED_GATE, LAYER "mlp.shared_experts.gate_proj.weight", LAYER, SHARED, SHARED_WIDTH,
        HIDDEN, IF_SHARED),
    ROW(SHARED_UP, LAYER "mlp.shared_experts.up_proj.weight", LAYER, SHARED, SHARED_WIDTH, HIDDEN,
        IF_SHARED),
    ROW(SHARED_DOWN, LAYER "mlp.shared_experts.down_proj.weight", LAYER, SHARED, HIDDEN,
        SHARED_WIDTH, IF_SHARED),
    ROW(DENSE_GATE, LAYER "mlp.gate_proj.weight", LAYER, DENSE, DENSE_WIDTH, HIDDEN, IF_DENSE),
    ROW(DENSE_UP, LAYER "mlp.up_proj.weight", LAYER, DENSE, DENSE_WIDTH, HIDDEN, IF_DENSE),
    ROW(DENSE_DOWN, LAYER "mlp.down_proj.weight", LAYER, DENSE, HIDDEN, DENSE_WIDTH, IF_DENSE),
    ROW(MTP_HEAD_NORM, LAYER "shared_head.norm.weight", MTP_BACK, NORM, HIDDEN, NO_COLUMNS, ALWAYS),
    ROW(MTP_HEAD, LAYER "shared_head.head.weight", MTP_BACK, HEAD, VOCAB, HIDDEN, ALWAYS),
    ROW(FINAL_NORM, "model.norm.weight", BACK, NORM, HIDDEN, NO_COLUMNS, ALWAYS),
    ROW(HEAD, "lm_head.weight", BACK, HEAD, VOCAB, HIDDEN, IF_UNTIED),
};

static const struct layout_row *const tables[ARCHITECTURE_COUNT] = {
    [ARCHITECTURE_DEEPSEEK_V3] = deepseek_rows,   [ARCHITECTURE_DEEPSEEK_V2] = deepseek_rows,
    [ARCHITECTURE_DEEPSEEK_V32] = deepseek_rows,  [ARCHITECTURE_GLM_MOE_DSA] = deepseek_rows,
    [ARCHITECTURE_GLM4_MOE_LITE] = deepseek_rows,
};

static uint64_t dimension_of(const struct shape *shape, enum dimension dimension) {
    const uint64_t heads = shape->heads;
    switch (dimension) {
    case VOCAB:
        return shape->vocab;
    case HIDDEN:
        return shape->hidden;
    case TWICE_HIDDEN:
        return 2 * (uint64_t)shape->hidden;
    case Q_LORA_RANK:
        return shape->q_rank;
    case QUERIES:
        return heads * shape_query_dim(shape);
    case KV_LORA_RANK:
        return shape->kv_rank;
    case KV_WIDTH:
        return shape_kv_width(shape);
    case KEYS_AND_VALUES:
        return heads * (shape->nope_dim + shape->value_dim);
    case VALUES:
        return heads * shape->value_dim;
    case INDEX_HEADS:
        return shape->index_heads;
    case INDEX_DIM:
        return shape->index_dim;
    case INDEX_QUERIES:
        return (uint64_t)shape->index_heads * shape->index_dim;
    case DENSE_WIDTH:
        return shape->dense_width;
    case EXPERTS:
        return shape->experts;
    case EXPERT_WIDTH:
        return shape->expert_width;
    case SHARED_WIDTH:
        return (uint64_t)shape->shared_experts * shape->expert_width;
    case NO_COLUMNS:
        break;
    }
    return 1;
}

static bool is_present(const struct shape *shape, uint32_t layer, enum presence presence) {
    struct layer_kind kind = {0};
    if (layer != LAYOUT_NONE) kind = shape->layer_kinds[layer];
    const bool is_dsa = kind.attention == ATTENTION_DSA, is_moe = kind.mlp == MLP_MOE;
    const bool is_mla = kind.attention == ATTENTION_MLA || is_dsa;
    switch (presence) {
    case ALWAYS:
        return true;
    case IF_UNTIED:
        return !shape->tied_head;
    case IF_MLA:
        return is_mla;
    case IF_MLA_Q_LORA:
        return is_mla && shape->q_rank;
    case IF_MLA_NO_Q_LORA:
        return is_mla && !shape->q_rank;
    case IF_DSA:
        return is_dsa && !kind.shares_index;
    case IF_DENSE:
        return !is_moe;
    case IF_MOE:
        return is_moe;
    case IF_ROUTER_BIAS:
        return is_moe && shape->method == ROUTER_NOAUX_TC;
    case IF_SHARED:
        return is_moe && shape->shared_experts;
    }
    return false;
}

void layout_write_name(const struct shape *shape, enum tensor_name name, uint32_t layer,
                       uint32_t expert, char out[LAYOUT_NAME_BYTES]) {
    const char *pattern = tables[shape->architecture][name].pattern;
    format_text(out, LAYOUT_NAME_BYTES, pattern, layer, expert);
}

struct layout_walk {
    const struct shape *shape;
    layout_visit *visit;
    void *context;
    struct error *error;
    enum status status;
};

static void visit_tensor(struct layout_walk *walk, enum tensor_name name, uint32_t layer,
                         uint32_t expert) {
    const struct layout_row *row = &tables[walk->shape->architecture][name];
    struct layout_tensor tensor = {
        .id = name,
        .kind = row->kind,
        .layer = layer,
        .expert = expert,
        .dims = row->columns == NO_COLUMNS ? 1 : 2,
        .rows = dimension_of(walk->shape, row->rows),
        .columns = dimension_of(walk->shape, row->columns),
        .quantized = row->columns != NO_COLUMNS &&
                     (row->kind == LAYOUT_ATTENTION || row->kind == LAYOUT_DENSE ||
                      row->kind == LAYOUT_EXPERT || row->kind == LAYOUT_SHARED),
        .packed = row->kind == LAYOUT_EXPERT && walk->shape->expert_form != EXPERTS_PLAIN,
        .is_bias = name == NAME_ROUTER_BIAS,
        .is_mtp = layer != LAYOUT_NONE && walk->shape->layer_kinds[layer].is_mtp,
        .optional = name == NAME_MTP_EMBEDDING || name == NAME_MTP_HEAD,
    };
    if (walk->status != STATUS_OK) return;
    layout_write_name(walk->shape, name, layer, expert, tensor.name);
    walk->status = walk->visit(walk->context, &tensor, walk->error);
}

/* Expert tensors are listed expert by expert, all at the position of the first one. */
static void layout_visit_experts(struct layout_walk *walk, uint32_t layer) {
    for (uint32_t expert = 0; expert < walk->shape->experts; expert++)
        for (uint32_t name = NAME_EXPERT_GATE; name <= NAME_EXPERT_DOWN; name++)
            visit_tensor(walk, name, layer, expert);
}

static void visit_section(struct layout_walk *walk, enum section section, uint32_t layer) {
    for (uint32_t name = 0; name < NAME_COUNT; name++) {
        const struct layout_row *row = &tables[walk->shape->architecture][name];
        if (row->section != section || !is_present(walk->shape, layer, row->presence)) continue;
        if (name == NAME_EXPERT_GATE) layout_visit_experts(walk, layer);
        if (row->kind != LAYOUT_EXPERT) visit_tensor(walk, name, layer, LAYOUT_NONE);
    }
}

enum status layout_for_each(const struct shape *shape, layout_visit *visit, void *context,
                            struct error *error) {
    struct layout_walk walk = {.shape = shape, .visit = visit, .context = context, .error = error};
    visit_section(&walk, SECTION_FRONT, LAYOUT_NONE);
    for (uint32_t layer = 0; layer < shape->layers; layer++)
        visit_section(&walk, SECTION_LAYER, layer);
    visit_section(&walk, SECTION_BACK, LAYOUT_NONE);
    for (uint32_t layer = shape->layers; layer < shape->layers + shape->mtp_layers; layer++) {
        visit_section(&walk, SECTION_MTP_FRONT, layer);
        visit_section(&walk, SECTION_LAYER, layer);
        visit_section(&walk, SECTION_MTP_BACK, layer);
    }
    return walk.status;
}

struct layout_stored layout_stored_as(enum tensor_type type, uint64_t rows, uint64_t columns) {
    struct layout_stored stored = {.type = type};
    const uint32_t group = type == TENSOR_INT4_128 ? 128 : 32;
    switch (type) {
    case TENSOR_E4M3:
        stored.scale_type = TENSOR_F32;
        stored.scale_suffix = LAYOUT_SCALE_SUFFIX;
        stored.scale_rows = divide_up(rows, QUANT_GROUP);
        stored.scale_columns = divide_up(columns, QUANT_GROUP);
        break;
    case TENSOR_INT4_32:
    case TENSOR_INT4_128:
    case TENSOR_MXFP4:
        stored.scale_type = type == TENSOR_MXFP4 ? TENSOR_E8M0 : TENSOR_BF16;
        stored.scale_suffix = LAYOUT_GROUP_SCALE_SUFFIX;
        stored.scale_rows = rows;
        stored.scale_columns = columns / group;
        break;
    default:
        break;
    }
    return stored;
}

enum tensor_type layout_packed_type(const struct shape *shape) {
    return (enum tensor_type)(TENSOR_INT4_32 + (shape->expert_form - EXPERTS_INT4_32));
}

struct layout_stored layout_stored(const struct shape *shape, const struct layout_tensor *tensor) {
    enum tensor_type type = tensor->is_bias ? TENSOR_F32 : TENSOR_BF16;
    if (tensor->quantized && shape->fp8) type = TENSOR_E4M3;
    if (tensor->packed) type = layout_packed_type(shape);
    return layout_stored_as(type, tensor->rows, tensor->columns);
}

bool layout_is_ue8m0(const struct shape *shape, enum tensor_name name) {
    return shape->activation_scale_ue8m0 &&
           (name == NAME_Q_A || name == NAME_KV_A || name == NAME_INDEX_Q || name == NAME_INDEX_K ||
            tables[shape->architecture][name].kind == LAYOUT_EXPERT);
}

bool layout_is_expert(const char *name) {
    return strstr(name, EXPERT_INFIX) != NULL;
}

const char *layout_kind_name(enum layout_kind kind) {
    static const char *const names[LAYOUT_KIND_COUNT] = {
        [LAYOUT_EMBEDDING] = "embedding",
        [LAYOUT_ATTENTION] = "attention",
        [LAYOUT_INDEX] = "indexer",
        [LAYOUT_DENSE] = "dense MLP",
        [LAYOUT_ROUTER] = "router",
        [LAYOUT_EXPERT] = "experts",
        [LAYOUT_SHARED] = "shared experts",
        [LAYOUT_NORM] = "norms",
        [LAYOUT_HEAD] = "head",
        [LAYOUT_MTP_PROJECTION] = "MTP projection",
    };
    return names[kind];
}
