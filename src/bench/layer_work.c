/* SPDX-License-Identifier: Apache-2.0
 * Activations are rows of floats in every mode (their scales are ignored: 1 in 128). FP8 weights
 * have a float for each block of 128 x 128.
 */
#include "bench/layer_work.h"

#include "compute/model/exchange_rows.h"
#include "compute/model/kv_pages.h"
#include "compute/model/linear.h"

/* The work of one part: products of `rows` inputs with matrices, and bytes read and written. */
struct totals {
    const struct layer_case *layer;
    struct layer_work work;
};

static bool is_float(const struct layer_case *layer) {
    return layer->activations == ACTIVATIONS_F32;
}

static void add_floats(struct totals *totals, double count) {
    totals->work.bytes += 4 * count;
}

/* `count` matrices, each multiplied by `rows` inputs; without the inputs' and results' bytes. */
static void layer_work_multiply(struct totals *totals, enum weight_type type, double count,
                                double rows, uint32_t outputs, uint32_t channels) {
    double weights = (double)weight_type_bytes(type, (size_t)outputs * channels);
    double flop = 2 * count * rows * outputs * channels;
    if (type == WEIGHT_FP8)
        weights +=
            4.0 * (double)(divide_up(outputs, QUANT_GROUP) * divide_up(channels, QUANT_GROUP));
    if (weight_type_group(type)) weights += 2.0 * outputs * channels / weight_type_group(type);
    totals->work.flop += flop;
    if (is_float(totals->layer)) totals->work.flop_float += flop;
    totals->work.bytes += count * weights;
}

/* Adds products together with their inputs and results. */
static void layer_work_add_products(struct totals *totals, enum weight_type type, double count,
                                    double rows, uint32_t outputs, uint32_t channels) {
    layer_work_multiply(totals, type, count, rows, outputs, channels);
    add_floats(totals, count * rows * ((double)outputs + channels));
}

static enum weight_type linear_type(const struct shape *shape) {
    return shape->fp8 ? WEIGHT_FP8 : WEIGHT_BF16;
}

static enum weight_type expert_type(const struct shape *shape) {
    if (shape->expert_form == EXPERTS_PLAIN) return linear_type(shape);
    return (enum weight_type)(WEIGHT_INT4_32 + (shape->expert_form - EXPERTS_INT4_32));
}

static double kv_row_bytes(const struct layer_case *layer, uint32_t group) {
    struct kv_format format = kv_pages_format(layer->shape, layer->activations, 1, 0);
    return (double)kv_group_row_bytes(&format.groups[group]);
}

static double layer_work_queries(const struct shape *shape) {
    return (double)shape->heads * shape_query_dim(shape);
}

/* One past the last position of a sequence. */
static double layer_work_end(const struct layer_case *layer) {
    return (double)layer->context + (layer->prompt ? layer->tokens : 1);
}

/* Tokens that attend to all rows before them, and those that attend to chosen ones. */
static double dense_tokens(const struct layer_case *layer) {
    const double left = (double)layer->shape->index_top_k - layer->context;
    if (!shape_has_index(layer->shape)) return layer->tokens;
    if (!layer->prompt) return left > 0 ? layer->tokens : 0;
    return left < 0 ? 0 : left < layer->tokens ? left : layer->tokens;
}

static double sparse_tokens(const struct layer_case *layer) {
    return layer->tokens - dense_tokens(layer);
}

static bool chooses(const struct layer_case *layer) {
    return shape_has_index(layer->shape) && layer_work_end(layer) > layer->shape->index_top_k;
}

/* Pairs of a token and a row at or before it, of `tokens` tokens with `before` rows before them. */
static double layer_work_pairs(const struct layer_case *layer, double tokens, double before) {
    if (!layer->prompt) return tokens * (before + 1);
    return tokens * before + tokens * (tokens + 1) / 2;
}

/* Tokens of the absorbed form. */
static double absorbed_tokens(const struct layer_case *layer) {
    return layer->prompt ? sparse_tokens(layer) : layer->tokens;
}

/* The core forms multiply floats, as scores and probabilities are not rounded. Expanded keys and
 * values exist for a block of positions at a time and are not counted. */
static void add_core_prompt(struct totals *totals) {
    const struct layer_case *layer = totals->layer;
    const struct shape *shape = layer->shape;
    const double tokens = dense_tokens(layer), heads = shape->heads, rows = layer->context + tokens;
    double flop = 2 * layer_work_pairs(layer, tokens, layer->context) * heads;
    flop *= shape_query_dim(shape) + shape->value_dim;
    layer_work_multiply(totals, linear_type(shape), 1, rows,
                        shape->heads * (shape->nope_dim + shape->value_dim), shape->kv_rank);
    add_floats(totals, tokens * (layer_work_queries(shape) + heads * shape->value_dim));
    totals->work.flop += flop;
    totals->work.flop_float += flop;
    totals->work.bytes += rows * kv_row_bytes(layer, KV_GROUP_MLA);
}

/* The absorbed form. Chosen rows of a prompt's tokens may be the same. */
static void add_core(struct totals *totals) {
    const struct layer_case *layer = totals->layer;
    const struct shape *shape = layer->shape;
    const double tokens = absorbed_tokens(layer), heads = shape->heads;
    double attended = layer_work_pairs(layer, tokens, layer->context), rows = attended;
    if (chooses(layer)) attended = rows = tokens * shape->index_top_k;
    if (layer->prompt && rows > layer_work_end(layer)) rows = layer_work_end(layer);
    double flop = 2 * attended * heads * (shape_kv_width(shape) + shape->kv_rank);
    add_floats(totals, tokens * heads * (shape_kv_width(shape) + shape->kv_rank));
    totals->work.flop += flop;
    totals->work.flop_float += flop;
    totals->work.bytes += rows * kv_row_bytes(layer, KV_GROUP_MLA);
}

/* The indexer multiplies floats in every mode. Sums over heads are not counted. */
static void totals_index(struct totals *totals, enum stage_part part) {
    const struct layer_case *layer = totals->layer;
    const struct shape *shape = layer->shape;
    const double tokens = layer->tokens, sparse = sparse_tokens(layer);
    const double pairs =
        layer_work_pairs(layer, sparse, layer_work_end(layer) - (layer->prompt ? sparse : 1));
    const double sequences = layer->prompt ? 1 : tokens;
    const uint32_t queries = shape->index_heads * shape->index_dim;
    switch (part) {
    case PART_INDEX_KEYS:
        layer_work_add_products(totals, linear_type(shape), 1, tokens, shape->index_dim,
                                shape->hidden);
        totals->work.bytes += tokens * kv_row_bytes(layer, KV_GROUP_INDEX);
        break;
    case PART_INDEX_QUERY:
        layer_work_add_products(totals, linear_type(shape), 1, sparse, queries, shape->q_rank);
        layer_work_add_products(totals, WEIGHT_BF16, 1, sparse, shape->index_heads, shape->hidden);
        break;
    case PART_INDEX_SCORE:
        totals->work.flop = totals->work.flop_float = 2 * pairs * queries;
        totals->work.bytes =
            sequences * layer_work_end(layer) * kv_row_bytes(layer, KV_GROUP_INDEX);
        add_floats(totals, sparse * queries + pairs);
        break;
    default:
        add_floats(totals, pairs + sparse * shape->index_top_k);
    }
}

static enum row_mla_mode send_form(const struct layer_case *layer) {
    return linear_row_mode(linear_input_kind(layer->activations, expert_type(layer->shape), false));
}

static double sent_bytes(const struct layer_case *layer) {
    return (double)exchange_rows_bytes(send_form(layer), layer->shape->hidden);
}

static double result_bytes(const struct layer_case *layer) {
    return (double)exchange_rows_bytes(is_float(layer) ? ROW_F32 : ROW_BF16, layer->shape->hidden);
}

static void totals_attention(struct totals *totals, enum stage_part part) {
    const struct shape *shape = totals->layer->shape;
    const enum weight_type type = linear_type(shape);
    const double tokens = totals->layer->tokens, hidden = shape->hidden;
    const double width = (double)shape->heads * shape->value_dim;
    switch (part) {
    case PART_ATTENTION_NORM:
        add_floats(totals, 2 * tokens * hidden);
        break;
    case PART_DOWN:
        layer_work_add_products(totals, type, 1, tokens,
                                shape->q_rank ? shape->q_rank : (uint32_t)layer_work_queries(shape),
                                shape->hidden);
        layer_work_add_products(totals, type, 1, tokens, shape_kv_width(shape), shape->hidden);
        add_floats(totals, -tokens * hidden); /* one input for both */
        break;
    case PART_LATENT:
        add_floats(totals, tokens * (2.0 * shape->q_rank + shape_kv_width(shape)));
        totals->work.bytes += tokens * kv_row_bytes(totals->layer, KV_GROUP_MLA);
        break;
    case PART_QUERY:
        layer_work_add_products(totals, type, 1, tokens, (uint32_t)layer_work_queries(shape),
                                shape->q_rank);
        break;
    case PART_ROPE:
        add_floats(totals, 2 * tokens * layer_work_queries(shape));
        break;
    case PART_ABSORB_QUERY:
        layer_work_add_products(totals, type, shape->heads, absorbed_tokens(totals->layer),
                                shape->kv_rank, shape->nope_dim);
        break;
    case PART_ABSORB_VALUE:
        layer_work_add_products(totals, type, shape->heads, absorbed_tokens(totals->layer),
                                shape->value_dim, shape->kv_rank);
        break;
    case PART_OUTPUT_INPUT:
        add_floats(totals, 2 * tokens * width);
        break;
    case PART_OUTPUT:
        layer_work_add_products(totals, type, 1, tokens, shape->hidden, (uint32_t)width);
        break;
    case PART_ATTENTION_ADD:
        add_floats(totals, 3 * tokens * hidden);
        break;
    case PART_CORE_PROMPT:
        add_core_prompt(totals);
        break;
    case PART_CORE:
        add_core(totals);
        break;
    default:
        totals_index(totals, part);
    }
}

static void totals_tokens(struct totals *totals, enum stage_part part) {
    const struct layer_case *layer = totals->layer;
    const struct shape *shape = layer->shape;
    const double tokens = layer->tokens, hidden = shape->hidden;
    const uint32_t width = shape->shared_experts * shape->expert_width;
    double gate;
    switch (part) {
    case PART_GATE_NORM: /* input, gate's rows, prepared rows of routed and shared experts */
        add_floats(totals, (shape->shared_experts ? 4 : 3) * tokens * hidden);
        break;
    case PART_GATE:
        layer_work_add_products(totals, WEIGHT_BF16, 1, tokens, shape->experts, shape->hidden);
        gate = 2 * tokens * shape->experts * hidden;
        totals->work.flop_float = gate;
        break;
    case PART_TOP_K:
        add_floats(totals, tokens * (shape->experts + 2.0 * shape->experts_per_token));
        break;
    case PART_SEND:
        add_floats(totals, tokens * hidden);
        totals->work.bytes += tokens * sent_bytes(layer);
        break;
    case PART_SHARED_UP:
        layer_work_add_products(totals, linear_type(shape), 2, tokens, width, shape->hidden);
        add_floats(totals, -tokens * hidden);
        break;
    case PART_SHARED_SILU:
        add_floats(totals, 3 * tokens * width);
        break;
    case PART_SHARED_DOWN:
        layer_work_add_products(totals, linear_type(shape), 1, tokens, shape->hidden, width);
        break;
    case PART_COMBINE:
        totals->work.bytes += tokens * shape->experts_per_token * result_bytes(layer);
        add_floats(totals, tokens * hidden);
        break;
    default: /* the sums */
        add_floats(totals, 3 * tokens * hidden);
    }
}

static void totals_experts(struct totals *totals, enum stage_part part) {
    const struct layer_case *layer = totals->layer;
    const struct shape *shape = layer->shape;
    const double rows = (double)layer->experts * layer->expert_rows, hidden = shape->hidden;
    switch (part) {
    case PART_EXPERT_INPUT:
        add_floats(totals, rows * hidden);
        totals->work.bytes += rows * sent_bytes(layer);
        break;
    case PART_EXPERT_UP:
        layer_work_add_products(totals, expert_type(shape), 2.0 * layer->experts,
                                layer->expert_rows, shape->expert_width, shape->hidden);
        add_floats(totals, -rows * hidden);
        break;
    case PART_EXPERT_SILU:
        add_floats(totals, 3 * rows * shape->expert_width);
        break;
    case PART_EXPERT_DOWN:
        layer_work_add_products(totals, expert_type(shape), layer->experts, layer->expert_rows,
                                shape->hidden, shape->expert_width);
        break;
    default:
        add_floats(totals, rows * hidden);
        totals->work.bytes += rows * result_bytes(layer);
    }
}

bool layer_work_runs(const struct layer_case *layer, enum stage_part part) {
    switch (part) {
    case PART_QUERY:
        return layer->shape->q_rank != 0;
    case PART_SHARED_UP:
    case PART_SHARED_SILU:
    case PART_SHARED_DOWN:
    case PART_SHARED_ADD:
        return layer->shape->shared_experts != 0;
    case PART_CORE_PROMPT:
        return layer->prompt && (dense_tokens(layer) > 0 || !layer->tokens);
    case PART_ABSORB_QUERY:
    case PART_CORE:
    case PART_ABSORB_VALUE:
        return !layer->prompt || chooses(layer);
    case PART_INDEX_KEYS:
        return shape_has_index(layer->shape);
    case PART_INDEX_QUERY:
    case PART_INDEX_SCORE:
    case PART_INDEX_CHOICE:
        return chooses(layer);
    default:
        return !stage_part_is_optional(part) &&
               (stage_part_is_in(part, STAGE_PHASE_EXPERTS) ||
                stage_part_is_in(part, layer->prompt ? STAGE_PHASE_PROMPT : STAGE_PHASE_DECODE));
    }
}

struct layer_work layer_work_of(const struct layer_case *layer, enum stage_part part) {
    struct totals totals = {.layer = layer};
    if (!layer_work_runs(layer, part)) return totals.work;
    if (part <= PART_ATTENTION_ADD)
        totals_attention(&totals, part);
    else if (stage_part_is_in(part, STAGE_PHASE_EXPERTS))
        totals_experts(&totals, part);
    else
        totals_tokens(&totals, part);
    return totals.work;
}

/* ---- published ---- */

static const struct {
    double decode_us, prompt_us;
} published[STAGE_PART_COUNT] = {
    [PART_ATTENTION_NORM] = {4, 0},
    [PART_DOWN] = {13, 104 + 54}, /* q_a and kv_a are two products in the prompt's trace */
    [PART_LATENT] = {2 + 2, 0},
    [PART_QUERY] = {19, 362},
    [PART_ROPE] = {7, 0},
    [PART_CORE_PROMPT] = {0, 241 + 1237}, /* kv_b, attention */
    [PART_ABSORB_QUERY] = {16, 0},
    [PART_CORE] = {255, 0},
    [PART_ABSORB_VALUE] = {15, 0},
    [PART_OUTPUT_INPUT] = {5, 0},
    [PART_OUTPUT] = {50, 885},
    [PART_GATE_NORM] = {3 + 3, 0}, /* the norm, and the shared expert's input */
    [PART_GATE] = {6 + 2, 0},      /* the product in parts, and their sum */
    [PART_TOP_K] = {8, 0},
    [PART_SHARED_UP] = {17, 0},
    [PART_SHARED_SILU] = {4, 0},
    [PART_SHARED_DOWN] = {10, 0},
    [PART_EXPERT_UP] = {81, 1766},
    [PART_EXPERT_SILU] = {8, 0},
    [PART_EXPERT_DOWN] = {39, 997},
};

double layer_work_published(bool prompt, enum stage_part part) {
    return prompt ? published[part].prompt_us : published[part].decode_us;
}

const struct layer_sum layer_sums[] = {
    {"attention", PART_ATTENTION_NORM, PART_OUTPUT, 388, 4363},
    {"gate", PART_GATE_NORM, PART_TOP_K, 19 + 3, 0},
    {"shared expert", PART_SHARED_UP, PART_SHARED_DOWN, 17 + 4 + 10, 397},
    {"routed experts", PART_EXPERT_UP, PART_EXPERT_DOWN, 128, 0},
    {"", STAGE_PART_COUNT, STAGE_PART_COUNT, 0, 0},
};
