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
    SHARED_WIDTH,
    HEADS,
    HEAD_WIDTH,   /* of COMPRESSED layers: one key and value for all heads */
    OUTPUT_WIDTH, /* of the output projection's first half: channels of a group's heads */
    OUTPUT_RANKS, /* of all groups */
    STREAMS,      /* the streams' weights of the head */
    STREAM_MIXES, /* of a site: streams * (2 + streams) */
    STREAM_PARTS, /* three scales */
    STREAM_CHANNELS,
    ONE,
    RATIO,
    POOL_WIDTH, /* of one compressor's output: twice the width where entries overlap */
    INDEX_POOL_WIDTH,
    EXPERTS_PER_TOKEN,
    ENGRAM_ROWS,
    ENGRAM_DIM,
    ENGRAM_INPUT, /* all rows of a position */
    ENGRAM_OUTPUT /* a key for each stream, then a value */
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
    IF_UNTIED,
    IF_ENTRIES,    /* the layer makes its own entries */
    IF_POSITIONS,  /* the compressor adds weights by position (V4) */
    IF_GATED,      /* it weighs more than one token */
    IF_INDEX,      /* the layer has an index */
    IF_INDEX_POOL, /* its keys have a compressor of their own (V4) */
    IF_INDEX_KEYS, /* or are made of entries (V4.1), by layers that make entries */
    IF_HASHED,
    IF_ENGRAM,
    IF_HEAD_STREAMS /* the head reads the streams by weights of its own (V4) */
};

/* `pattern` is a format string that takes the layer index, then the expert index. In tables with
 * prefixes of layers, the names of SECTION_LAYER and of the MTP sections follow the prefix. */
struct layout_row {
    const char *pattern;
    enum section section;
    enum layout_kind kind;
    enum dimension rows, columns;
    enum presence presence;
};

#define OF_LAYER "model.layers.%u."
#define EXPERT_INFIX ".mlp.experts."
#define COMPRESSED_EXPERT_INFIX ".ffn.experts."
#define EXPERT "model.layers.%u" EXPERT_INFIX "%u."

#define ROW(name, pattern, section, kind, rows, columns, presence)                                 \
    [NAME_##name] = {pattern, SECTION_##section, LAYOUT_##kind, rows, columns, presence}

/* All architectures so far name their tensors alike. */
static const struct layout_row deepseek_rows[NAME_COUNT] = {
    ROW(EMBEDDING, "model.embed_tokens.weight", FRONT, EMBEDDING, VOCAB, HIDDEN, ALWAYS),
    ROW(MTP_EMBEDDING, OF_LAYER "embed_tokens.weight", MTP_FRONT, EMBEDDING, VOCAB, HIDDEN, ALWAYS),
    ROW(MTP_EMBEDDING_NORM, OF_LAYER "enorm.weight", MTP_FRONT, NORM, HIDDEN, NO_COLUMNS, ALWAYS),
    ROW(MTP_HIDDEN_NORM, OF_LAYER "hnorm.weight", MTP_FRONT, NORM, HIDDEN, NO_COLUMNS, ALWAYS),
    ROW(MTP_PROJECTION, OF_LAYER "eh_proj.weight", MTP_FRONT, MTP_PROJECTION, HIDDEN, TWICE_HIDDEN,
        ALWAYS),
    ROW(ATTENTION_NORM, OF_LAYER "input_layernorm.weight", LAYER, NORM, HIDDEN, NO_COLUMNS, ALWAYS),
    ROW(Q_A, OF_LAYER "self_attn.q_a_proj.weight", LAYER, ATTENTION, Q_LORA_RANK, HIDDEN,
        IF_MLA_Q_LORA),
    ROW(Q_A_NORM, OF_LAYER "self_attn.q_a_layernorm.weight", LAYER, NORM, Q_LORA_RANK, NO_COLUMNS,
        IF_MLA_Q_LORA),
    ROW(Q_B, OF_LAYER "self_attn.q_b_proj.weight", LAYER, ATTENTION, QUERIES, Q_LORA_RANK,
        IF_MLA_Q_LORA),
    ROW(Q, OF_LAYER "self_attn.q_proj.weight", LAYER, ATTENTION, QUERIES, HIDDEN, IF_MLA_NO_Q_LORA),
    ROW(KV_A, OF_LAYER "self_attn.kv_a_proj_with_mqa.weight", LAYER, ATTENTION, KV_WIDTH, HIDDEN,
        IF_MLA),
    ROW(KV_A_NORM, OF_LAYER "self_attn.kv_a_layernorm.weight", LAYER, NORM, KV_LORA_RANK,
        NO_COLUMNS, IF_MLA),
    ROW(KV_B, OF_LAYER "self_attn.kv_b_proj.weight", LAYER, ATTENTION, KEYS_AND_VALUES,
        KV_LORA_RANK, IF_MLA),
    ROW(O, OF_LAYER "self_attn.o_proj.weight", LAYER, ATTENTION, HIDDEN, VALUES, IF_MLA),
    ROW(INDEX_Q, OF_LAYER "self_attn.indexer.wq_b.weight", LAYER, ATTENTION, INDEX_QUERIES,
        Q_LORA_RANK, IF_DSA),
    ROW(INDEX_K, OF_LAYER "self_attn.indexer.wk.weight", LAYER, ATTENTION, INDEX_DIM, HIDDEN,
        IF_DSA),
    ROW(INDEX_K_NORM, OF_LAYER "self_attn.indexer.k_norm.weight", LAYER, NORM, INDEX_DIM,
        NO_COLUMNS, IF_DSA),
    ROW(INDEX_K_BIAS, OF_LAYER "self_attn.indexer.k_norm.bias", LAYER, NORM, INDEX_DIM, NO_COLUMNS,
        IF_DSA),
    ROW(INDEX_WEIGHTS, OF_LAYER "self_attn.indexer.weights_proj.weight", LAYER, INDEX, INDEX_HEADS,
        HIDDEN, IF_DSA),
    ROW(MLP_NORM, OF_LAYER "post_attention_layernorm.weight", LAYER, NORM, HIDDEN, NO_COLUMNS,
        ALWAYS),
    ROW(ROUTER, OF_LAYER "mlp.gate.weight", LAYER, ROUTER, EXPERTS, HIDDEN, IF_MOE),
    ROW(ROUTER_BIAS, OF_LAYER "mlp.gate.e_score_correction_bias", LAYER, ROUTER, EXPERTS,
        NO_COLUMNS, IF_ROUTER_BIAS),
    ROW(EXPERT_GATE, EXPERT "gate_proj.weight", LAYER, EXPERT, EXPERT_WIDTH, HIDDEN, IF_MOE),
    ROW(EXPERT_UP, EXPERT "up_proj.weight", LAYER, EXPERT, EXPERT_WIDTH, HIDDEN, IF_MOE),
    ROW(EXPERT_DOWN, EXPERT "down_proj.weight", LAYER, EXPERT, HIDDEN, EXPERT_WIDTH, IF_MOE),
    ROW(SHARED_GATE, OF_LAYER "mlp.shared_experts.gate_proj.weight", LAYER, SHARED, SHARED_WIDTH,
        HIDDEN, IF_SHARED),
    ROW(SHARED_UP, OF_LAYER "mlp.shared_experts.up_proj.weight", LAYER, SHARED, SHARED_WIDTH,
        HIDDEN, IF_SHARED),
    ROW(SHARED_DOWN, OF_LAYER "mlp.shared_experts.down_proj.weight", LAYER, SHARED, HIDDEN,
        SHARED_WIDTH, IF_SHARED),
    ROW(DENSE_GATE, OF_LAYER "mlp.gate_proj.weight", LAYER, DENSE, DENSE_WIDTH, HIDDEN, IF_DENSE),
    ROW(DENSE_UP, OF_LAYER "mlp.up_proj.weight", LAYER, DENSE, DENSE_WIDTH, HIDDEN, IF_DENSE),
    ROW(DENSE_DOWN, OF_LAYER "mlp.down_proj.weight", LAYER, DENSE, HIDDEN, DENSE_WIDTH, IF_DENSE),
    ROW(MTP_HEAD_NORM, OF_LAYER "shared_head.norm.weight", MTP_BACK, NORM, HIDDEN, NO_COLUMNS,
        ALWAYS),
    ROW(MTP_HEAD, OF_LAYER "shared_head.head.weight", MTP_BACK, HEAD, VOCAB, HIDDEN, ALWAYS),
    ROW(FINAL_NORM, "model.norm.weight", BACK, NORM, HIDDEN, NO_COLUMNS, ALWAYS),
    ROW(HEAD, "lm_head.weight", BACK, HEAD, VOCAB, HIDDEN, IF_UNTIED),
};

#define STREAM_ROWS(name, pattern, section, mixes, parts, presence)                                \
    ROW(name##_FN, pattern "fn", section, STREAMS, mixes, STREAM_CHANNELS, presence),              \
        ROW(name##_BASE, pattern "base", section, STREAMS, mixes, NO_COLUMNS, presence),           \
        ROW(name##_SCALE, pattern "scale", section, STREAMS, parts, NO_COLUMNS, presence)

/* V4 and V4.1. MTP layers are `mtp.0` on. */
static const struct layout_row compressed_rows[NAME_COUNT] = {
    ROW(EMBEDDING, "embed.weight", FRONT, EMBEDDING, VOCAB, HIDDEN, ALWAYS),
    ROW(MTP_EMBEDDING_NORM, "enorm.weight", MTP_FRONT, NORM, HIDDEN, NO_COLUMNS, ALWAYS),
    ROW(MTP_HIDDEN_NORM, "hnorm.weight", MTP_FRONT, NORM, HIDDEN, NO_COLUMNS, ALWAYS),
    ROW(MTP_EMBEDDING_PROJECTION, "e_proj.weight", MTP_FRONT, ATTENTION, HIDDEN, HIDDEN, ALWAYS),
    ROW(MTP_HIDDEN_PROJECTION, "h_proj.weight", MTP_FRONT, ATTENTION, HIDDEN, HIDDEN, ALWAYS),
    ROW(ENGRAM_TABLE, "engram.embed.weight", LAYER, ENGRAM, ENGRAM_ROWS, ENGRAM_DIM, IF_ENGRAM),
    ROW(ENGRAM_KV, "engram.wkv.weight", LAYER, ATTENTION, ENGRAM_OUTPUT, ENGRAM_INPUT, IF_ENGRAM),
    ROW(ENGRAM_Q_NORM, "engram.q_weight", LAYER, NORM, STREAMS, HIDDEN, IF_ENGRAM),
    ROW(ENGRAM_K_NORM, "engram.k_weight", LAYER, NORM, STREAMS, HIDDEN, IF_ENGRAM),
    STREAM_ROWS(ATTENTION, "hc_attn_", LAYER, STREAM_MIXES, STREAM_PARTS, ALWAYS),
    STREAM_ROWS(MLP, "hc_ffn_", LAYER, STREAM_MIXES, STREAM_PARTS, ALWAYS),
    ROW(ATTENTION_NORM, "attn_norm.weight", LAYER, NORM, HIDDEN, NO_COLUMNS, ALWAYS),
    ROW(Q_A, "attn.wq_a.weight", LAYER, ATTENTION, Q_LORA_RANK, HIDDEN, ALWAYS),
    ROW(Q_A_NORM, "attn.q_norm.weight", LAYER, NORM, Q_LORA_RANK, NO_COLUMNS, ALWAYS),
    ROW(Q_B, "attn.wq_b.weight", LAYER, ATTENTION, QUERIES, Q_LORA_RANK, ALWAYS),
    ROW(SINK, "attn.attn_sink", LAYER, STREAMS, HEADS, NO_COLUMNS, ALWAYS),
    ROW(KV, "attn.wkv.weight", LAYER, ATTENTION, HEAD_WIDTH, HIDDEN, ALWAYS),
    ROW(KV_NORM, "attn.kv_norm.weight", LAYER, NORM, HEAD_WIDTH, NO_COLUMNS, ALWAYS),
    ROW(O_A, "attn.wo_a.weight", LAYER, ATTENTION, OUTPUT_RANKS, OUTPUT_WIDTH, ALWAYS),
    ROW(O_B, "attn.wo_b.weight", LAYER, ATTENTION, HIDDEN, OUTPUT_RANKS, ALWAYS),
    ROW(POOL, "attn.compressor.wkv.weight", LAYER, POOL, POOL_WIDTH, HIDDEN, IF_ENTRIES),
    ROW(POOL_GATE, "attn.compressor.wgate.weight", LAYER, POOL, POOL_WIDTH, HIDDEN, IF_GATED),
    ROW(POOL_POSITIONS, "attn.compressor.ape", LAYER, STREAMS, RATIO, POOL_WIDTH, IF_POSITIONS),
    ROW(POOL_NORM, "attn.compressor.norm.weight", LAYER, NORM, HEAD_WIDTH, NO_COLUMNS, IF_ENTRIES),
    ROW(INDEX_POOL, "attn.indexer.compressor.wkv.weight", LAYER, POOL, INDEX_POOL_WIDTH, HIDDEN,
        IF_INDEX_POOL),
    ROW(INDEX_POOL_GATE, "attn.indexer.compressor.wgate.weight", LAYER, POOL, INDEX_POOL_WIDTH,
        HIDDEN, IF_INDEX_POOL),
    ROW(INDEX_POOL_POSITIONS, "attn.indexer.compressor.ape", LAYER, STREAMS, RATIO,
        INDEX_POOL_WIDTH, IF_INDEX_POOL),
    ROW(INDEX_POOL_NORM, "attn.indexer.compressor.norm.weight", LAYER, NORM, INDEX_DIM, NO_COLUMNS,
        IF_INDEX_POOL),
    ROW(INDEX_Q, "attn.indexer.wq_b.weight", LAYER, ATTENTION, INDEX_QUERIES, Q_LORA_RANK,
        IF_INDEX),
    ROW(INDEX_K, "attn.indexer.wk.weight", LAYER, POOL, INDEX_DIM, HEAD_WIDTH, IF_INDEX_KEYS),
    ROW(INDEX_K_NORM, "attn.indexer.k_norm.weight", LAYER, NORM, INDEX_DIM, NO_COLUMNS,
        IF_INDEX_KEYS),
    ROW(INDEX_WEIGHTS, "attn.indexer.weights_proj.weight", LAYER, INDEX, INDEX_HEADS, HIDDEN,
        IF_INDEX),
    ROW(MLP_NORM, "ffn_norm.weight", LAYER, NORM, HIDDEN, NO_COLUMNS, ALWAYS),
    ROW(ROUTER, "ffn.gate.weight", LAYER, ROUTER, EXPERTS, HIDDEN, ALWAYS),
    ROW(ROUTER_BIAS, "ffn.gate.bias", LAYER, ROUTER, EXPERTS, NO_COLUMNS, IF_ROUTER_BIAS),
    ROW(ROUTER_HASH, "ffn.gate.tid2eid", LAYER, ROUTER, VOCAB, EXPERTS_PER_TOKEN, IF_HASHED),
    ROW(EXPERT_GATE, "ffn.experts.%u.w1.weight", LAYER, EXPERT, EXPERT_WIDTH, HIDDEN, ALWAYS),
    ROW(EXPERT_UP, "ffn.experts.%u.w3.weight", LAYER, EXPERT, EXPERT_WIDTH, HIDDEN, ALWAYS),
    ROW(EXPERT_DOWN, "ffn.experts.%u.w2.weight", LAYER, EXPERT, HIDDEN, EXPERT_WIDTH, ALWAYS),
    ROW(SHARED_GATE, "ffn.shared_experts.w1.weight", LAYER, SHARED, SHARED_WIDTH, HIDDEN,
        IF_SHARED),
    ROW(SHARED_UP, "ffn.shared_experts.w3.weight", LAYER, SHARED, SHARED_WIDTH, HIDDEN, IF_SHARED),
    ROW(SHARED_DOWN, "ffn.shared_experts.w2.weight", LAYER, SHARED, HIDDEN, SHARED_WIDTH,
        IF_SHARED),
    ROW(MTP_HEAD_NORM, "norm.weight", MTP_BACK, NORM, HIDDEN, NO_COLUMNS, ALWAYS),
    STREAM_ROWS(MTP_HEAD, "hc_head_", MTP_BACK, STREAMS, ONE, ALWAYS),
    ROW(FINAL_NORM, "norm.weight", BACK, NORM, HIDDEN, NO_COLUMNS, ALWAYS),
    ROW(HEAD, "head.weight", BACK, HEAD, VOCAB, HIDDEN, IF_UNTIED),
    STREAM_ROWS(HEAD, "hc_head_", BACK, STREAMS, ONE, IF_HEAD_STREAMS),
};

/* Prefixes take the index of a layer, or of an MTP layer among those. */
struct layout_table {
    const struct layout_row *rows;
    const char *layer_prefix, *mtp_prefix; /* NULL: patterns have the layer's index */
};

#define DEEPSEEK_TABLE                                                                             \
    { deepseek_rows, NULL, NULL }
#define COMPRESSED_TABLE                                                                           \
    { compressed_rows, "layers.%u.", "mtp.%u." }

static const struct layout_table tables[ARCHITECTURE_COUNT] = {
    [ARCHITECTURE_DEEPSEEK_V3] = DEEPSEEK_TABLE,    [ARCHITECTURE_DEEPSEEK_V2] = DEEPSEEK_TABLE,
    [ARCHITECTURE_DEEPSEEK_V32] = DEEPSEEK_TABLE,   [ARCHITECTURE_GLM_MOE_DSA] = DEEPSEEK_TABLE,
    [ARCHITECTURE_GLM4_MOE_LITE] = DEEPSEEK_TABLE,  [ARCHITECTURE_DEEPSEEK_V4] = COMPRESSED_TABLE,
    [ARCHITECTURE_DEEPSEEK_V41] = COMPRESSED_TABLE,
};

static const struct layout_row *row_of(const struct shape *shape, enum tensor_name name) {
    return &tables[shape->architecture].rows[name];
}

static uint64_t compressed_dimension(const struct shape *shape, uint32_t layer,
                                     enum dimension dimension) {
    const uint64_t streams = shape->streams;
    const uint32_t ratio = layer == LAYOUT_NONE ? 0 : shape->layer_kinds[layer].ratio;
    const uint64_t halves = shape->overlaps && ratio == 4 ? 2 : 1;
    switch (dimension) {
    case HEADS:
        return shape->heads;
    case HEAD_WIDTH:
        return shape_kv_width(shape);
    case OUTPUT_WIDTH:
        return (uint64_t)shape->heads / shape->output_groups * shape->value_dim;
    case OUTPUT_RANKS:
        return (uint64_t)shape->output_groups * shape->output_rank;
    case STREAMS:
        return streams;
    case STREAM_MIXES:
        return streams * (2 + streams);
    case STREAM_PARTS:
        return 3;
    case STREAM_CHANNELS:
        return streams * shape->hidden;
    case RATIO:
        return ratio;
    case POOL_WIDTH:
        return halves * shape_kv_width(shape);
    case INDEX_POOL_WIDTH:
        return halves * shape->index_dim;
    case EXPERTS_PER_TOKEN:
        return shape->experts_per_token;
    case ENGRAM_ROWS:
        return shape->engram_table_rows[shape_engram_table(shape, layer)];
    case ENGRAM_DIM:
        return shape->engram_dim;
    case ENGRAM_INPUT:
        return (uint64_t)shape_engram_rows(shape) * shape->engram_dim;
    case ENGRAM_OUTPUT:
        return (streams + 1) * shape->hidden;
    default:
        return 1;
    }
}

static uint64_t dimension_of(const struct shape *shape, uint32_t layer, enum dimension dimension) {
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
    default:
        return compressed_dimension(shape, layer, dimension);
    }
}

static bool compressed_has(const struct shape *shape, uint32_t layer, enum presence presence) {
    const struct layer_kind *kind = &shape->layer_kinds[layer];
    const bool entries = kind->ratio && kind->entry_source == layer;
    const bool index = kind->ratio && kind->index_source == layer, is_v4 = shape->overlaps;
    switch (presence) {
    case IF_ENTRIES:
        return entries;
    case IF_POSITIONS:
        return entries && is_v4;
    case IF_GATED:
        return entries && kind->ratio > 1;
    case IF_INDEX:
        return index;
    case IF_INDEX_POOL:
        return index && is_v4;
    case IF_INDEX_KEYS:
        return index && entries && !is_v4;
    case IF_ENGRAM:
        return kind->has_engram;
    default:
        return false;
    }
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
        return is_moe && shape->method == ROUTER_NOAUX_TC && !kind.hashes;
    case IF_SHARED:
        return is_moe && shape->shared_experts;
    case IF_HASHED:
        return kind.hashes;
    case IF_HEAD_STREAMS:
        return !shape->streams_delayed;
    default:
        return compressed_has(shape, layer, presence);
    }
}

void layout_write_name(const struct shape *shape, enum tensor_name name, uint32_t layer,
                       uint32_t expert, char out[LAYOUT_NAME_BYTES]) {
    const struct layout_table *table = &tables[shape->architecture];
    const struct layout_row *row = row_of(shape, name);
    size_t at = 0;
    if (!row->pattern) { /* no tensor of this architecture */
        out[0] = 0;
    } else if (!table->layer_prefix) {
        format_text(out, LAYOUT_NAME_BYTES, row->pattern, layer, expert);
    } else {
        if (row->section != SECTION_FRONT && row->section != SECTION_BACK)
            at =
                layer < shape->layers
                    ? format_text(out, LAYOUT_NAME_BYTES, table->layer_prefix, layer)
                    : format_text(out, LAYOUT_NAME_BYTES, table->mtp_prefix, layer - shape->layers);
        format_text(out + at, LAYOUT_NAME_BYTES - at, row->pattern, expert);
    }
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
    const struct layout_row *row = row_of(walk->shape, name);
    struct layout_tensor tensor = {
        .id = name,
        .kind = row->kind,
        .layer = layer,
        .expert = expert,
        .dims = row->columns == NO_COLUMNS ? 1 : 2,
        .rows = dimension_of(walk->shape, layer, row->rows),
        .columns = dimension_of(walk->shape, layer, row->columns),
        .quantized = row->columns != NO_COLUMNS &&
                     (row->kind == LAYOUT_ATTENTION || row->kind == LAYOUT_DENSE ||
                      row->kind == LAYOUT_EXPERT || row->kind == LAYOUT_SHARED ||
                      row->kind == LAYOUT_ENGRAM),
        .packed = row->kind == LAYOUT_EXPERT && walk->shape->expert_form != EXPERTS_PLAIN,
        .is_bias = name == NAME_ROUTER_BIAS || row->kind == LAYOUT_STREAMS,
        .is_ids = name == NAME_ROUTER_HASH,
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
        const struct layout_row *row = row_of(walk->shape, name);
        if (!row->pattern || row->section != section ||
            !is_present(walk->shape, layer, row->presence))
            continue;
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
    case TENSOR_E4M3_ROWS:
        stored.scale_type = TENSOR_E8M0;
        stored.scale_suffix = LAYOUT_SCALE_SUFFIX;
        stored.scale_rows = rows;
        stored.scale_columns = divide_up(columns, 32);
        break;
    case TENSOR_E4M3_32:
        stored.scale_type = TENSOR_E8M0;
        stored.scale_suffix = LAYOUT_SCALE_SUFFIX;
        stored.scale_rows = divide_up(rows, 32);
        stored.scale_columns = divide_up(columns, 32);
        break;
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

bool layout_write_scale(const struct shape *shape, const char *weight, enum tensor_type type,
                        char out[LAYOUT_NAME_BYTES + 16]) {
    const char *suffix = layout_stored_as(type, 0, 0).scale_suffix;
    size_t bytes = strlen(weight);
    if (!suffix || bytes + strlen(suffix) >= LAYOUT_NAME_BYTES + 16) return false;
    if (shape_is_compressed(shape)) {
        suffix = ".scale";
        if (bytes > 7 && !strcmp(weight + bytes - 7, ".weight")) bytes -= 7;
    }
    format_text(out, LAYOUT_NAME_BYTES + 16, "%.*s%s", (int)bytes, weight, suffix);
    return true;
}

enum tensor_type layout_packed_type(const struct shape *shape) {
    return (enum tensor_type)(TENSOR_INT4_32 + (shape->expert_form - EXPERTS_INT4_32));
}

struct layout_stored layout_stored(const struct shape *shape, const struct layout_tensor *tensor) {
    enum tensor_type type = tensor->is_bias ? TENSOR_F32 : TENSOR_BF16;
    if (tensor->is_ids) type = TENSOR_I64;
    if (tensor->kind == LAYOUT_ENGRAM)
        return layout_stored_as(TENSOR_E4M3_ROWS, tensor->rows, tensor->columns);
    if (tensor->quantized && shape->fp8)
        type = shape->fp8_block == QUANT_GROUP ? TENSOR_E4M3 : TENSOR_E4M3_32;
    if (tensor->packed) type = layout_packed_type(shape);
    return layout_stored_as(type, tensor->rows, tensor->columns);
}

bool layout_is_ue8m0(const struct shape *shape, enum tensor_name name) {
    if (shape_is_compressed(shape)) return true;
    return shape->activation_scale_ue8m0 &&
           (name == NAME_Q_A || name == NAME_KV_A || name == NAME_INDEX_Q || name == NAME_INDEX_K ||
            row_of(shape, name)->kind == LAYOUT_EXPERT);
}

uint32_t layout_input_group(const struct shape *shape, enum tensor_name name) {
    const enum layout_kind kind = row_of(shape, name)->kind;
    if (!shape_is_compressed(shape) || !shape->fp8 || name == NAME_O_A) return 0;
    return kind == LAYOUT_ATTENTION || kind == LAYOUT_EXPERT || kind == LAYOUT_SHARED
               ? shape->fp8_block
               : 0;
}

bool layout_is_expert(const char *name) {
    return strstr(name, EXPERT_INFIX) || strstr(name, COMPRESSED_EXPERT_INFIX);
}

bool layout_is_table(const char *name) {
    return strstr(name, "engram.embed.weight") != NULL;
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
        [LAYOUT_STREAMS] = "residual streams",
        [LAYOUT_POOL] = "compressors",
        [LAYOUT_ENGRAM] = "n-gram tables",
    };
    return names[kind];
}
