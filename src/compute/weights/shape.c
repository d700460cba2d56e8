/* SPDX-License-Identifier: Apache-2.0
 * Parses config.json into struct shape. This file has every key with its default and bounds, and
 * computes the RoPE and YaRN constants once, so that no kernel repeats the formulas.
 *
 * Defaults are those of the published config classes (transformers' DeepseekV3Config,
 * DeepseekV2Config). Dimensions have no defaults, because a wrong one would only fail later and
 * less clearly. A JSON null counts as an absent key. Unknown keys are ignored, as releases have
 * many that only training uses.
 */
#include "compute/weights/shape.h"

#include <math.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/format.h"
#include "base/tree.h"

#define CONFIG_BYTES_MAX ((size_t)4 << 20)
#define REQUIRED (-1)
#define NONE UINT32_MAX /* no such token */

/* Defaults of keys that config.json may leave out. */
struct architecture_row {
    const char *name;
    uint32_t context, first_moe_layer;
    enum router_scoring scoring;
    enum router_method method;
    enum attention_kind attention;
    bool index_interleaved; /* RoPE of the indexer */
    uint32_t groups;
    int64_t groups_kept; /* at most all; REQUIRED if there are groups */
    bool normalizes;
    bool scales_normalized; /* else weights are scaled only if they are not normalized */
    double scaling;
};

#define SIGMOID_ROUTER .scoring = ROUTER_SIGMOID, .method = ROUTER_NOAUX_TC
#define SQRT_SOFTPLUS_ROUTER .scoring = ROUTER_SQRT_SOFTPLUS, .method = ROUTER_NOAUX_TC
#define NORMALIZED(factor) .normalizes = true, .scales_normalized = true, .scaling = (factor)

/* Sources: transformers' configuration classes; for the GLM models also the order of RoPE's pairs
 * in modular_glm_moe_dsa.py and modular_glm4_moe_lite.py. */
static const struct architecture_row architectures[ARCHITECTURE_COUNT] = {
    [ARCHITECTURE_DEEPSEEK_V3] = {"DeepseekV3ForCausalLM", 4096, 3, SIGMOID_ROUTER, .groups = 8,
                                  .groups_kept = 4, NORMALIZED(2.5)},
    [ARCHITECTURE_DEEPSEEK_V2] = {"DeepseekV2ForCausalLM", 2048, 0, ROUTER_SOFTMAX, ROUTER_GREEDY,
                                  .groups = 1, .groups_kept = REQUIRED, .scaling = 1.0},
    [ARCHITECTURE_DEEPSEEK_V32] = {"DeepseekV32ForCausalLM", 163840, 3, SIGMOID_ROUTER,
                                   .attention = ATTENTION_DSA, .groups = 8, .groups_kept = 4,
                                   NORMALIZED(2.5)},
    [ARCHITECTURE_GLM_MOE_DSA] = {"GlmMoeDsaForCausalLM", 202752, 3, SIGMOID_ROUTER,
                                  .attention = ATTENTION_DSA, .index_interleaved = true,
                                  .groups = 1, .groups_kept = 1, NORMALIZED(2.5)},
    [ARCHITECTURE_GLM4_MOE_LITE] = {"Glm4MoeLiteForCausalLM", 202752, 1, SIGMOID_ROUTER,
                                    .groups = 1, .groups_kept = 1, NORMALIZED(1.8)},
    [ARCHITECTURE_DEEPSEEK_V4] = {"DeepseekV4ForCausalLM", 1048576, 0, SQRT_SOFTPLUS_ROUTER,
                                  .attention = ATTENTION_COMPRESSED, .index_interleaved = true,
                                  .groups = 1, .groups_kept = 1, NORMALIZED(1.5)},
    [ARCHITECTURE_DEEPSEEK_V41] = {"DeepseekV41ForCausalLM", 1048576, 0, SQRT_SOFTPLUS_ROUTER,
                                   .attention = ATTENTION_COMPRESSED, .index_interleaved = true,
                                   .groups = 1, .groups_kept = 1, NORMALIZED(1.5)},
};

const char *shape_architecture_name(enum architecture architecture) {
    return architectures[architecture].name;
}

static const struct architecture_row *defaults_of(const struct shape *shape) {
    return &architectures[shape->architecture];
}

/* Reads keys of one object. After the first failure, which is kept, later reads do nothing. */
struct shape_reader {
    const struct tree *object;
    const char *file;
    const char *prefix; /* "rope_scaling." in messages, or "" */
    struct error *error;
    enum status status;
};

static const char *shape_describe(const struct tree *value, char out[96]) {
    struct bytes text;
    if (!value) return "nothing";
    if (!tree_get_string(value, &text)) return tree_brief(value, out);
    format_text(out, 96, "'%.*s'", (int)(text.count < 60 ? text.count : 60), text.data);
    return out;
}

static void refuse(struct shape_reader *reader, enum status status, const char *key,
                   const struct tree *value, const char *expected) {
    char found[96];
    if (reader->status != STATUS_OK) return;
    reader->status =
        error_set(reader->error, status, "%s: %s%s: expected %s, found %s", reader->file,
                  reader->prefix, key, expected, shape_describe(value, found));
}

static const struct tree *member(const struct shape_reader *reader, const char *key) {
    const struct tree *value = tree_member(reader->object, key);
    return value && tree_is_null(value) ? NULL : value;
}

static uint32_t shape_read_count(struct shape_reader *reader, const char *key, int64_t minimum,
                                 int64_t maximum, int64_t fallback) {
    const struct tree *value = member(reader, key);
    int64_t count = fallback;
    if (!value && fallback != REQUIRED) return (uint32_t)fallback;
    if (!value || !tree_get_integer(value, &count) || count < minimum || count > maximum) {
        char expected[96];
        format_text(expected, sizeof expected, "an integer from %lld to %lld", (long long)minimum,
                    (long long)maximum);
        refuse(reader, STATUS_INVALID, key, value, expected);
        return (uint32_t)minimum;
    }
    return (uint32_t)count;
}

/* A fallback of NAN makes the key required. */
static double shape_read_number(struct shape_reader *reader, const char *key, double minimum,
                                double maximum, double fallback) {
    const struct tree *value = member(reader, key);
    double number = fallback;
    if (!value && !isnan(fallback)) return fallback;
    if (!value || !tree_get_number(value, &number) || !(number >= minimum && number <= maximum)) {
        char expected[96];
        format_text(expected, sizeof expected, "a number from %g to %g", minimum, maximum);
        refuse(reader, STATUS_INVALID, key, value, expected);
        return minimum;
    }
    return number;
}

static bool read_bool(struct shape_reader *reader, const char *key, bool fallback) {
    const struct tree *value = member(reader, key);
    bool answer = fallback;
    if (value && !tree_get_bool(value, &answer))
        refuse(reader, STATUS_INVALID, key, value, "true or false");
    return answer;
}

/* Index of the value in a NULL-terminated list of names. */
static int shape_read_choice(struct shape_reader *reader, const char *key, const char *const *names,
                             int fallback) {
    const struct tree *value = member(reader, key);
    struct bytes text;
    char expected[160];
    size_t at = 0;
    if (!value && fallback != REQUIRED) return fallback;
    if (value && tree_get_string(value, &text))
        for (int i = 0; names[i]; i++)
            if (bytes_equal(text, bytes_of(names[i]))) return i;
    for (int i = 0; names[i]; i++)
        at += format_text(expected + at, sizeof expected - at, "%s%s", i ? " or " : "", names[i]);
    refuse(reader, STATUS_UNSUPPORTED, key, value, expected);
    return 0;
}

static void read_architecture(struct shape_reader *reader, struct shape *shape) {
    const struct tree *list = member(reader, "architectures"), *first = tree_at(list, 0);
    bool is_text = tree_count(list) == 1 && tree_kind(first) == TREE_STRING;
    struct bytes name = {0};
    if (is_text) tree_get_string(first, &name);
    for (uint32_t i = 0; i < ARCHITECTURE_COUNT; i++)
        if (bytes_equal(name, bytes_of(architectures[i].name))) {
            shape->architecture = (enum architecture)i;
            return;
        }
    char expected[240];
    size_t at = 0;
    for (uint32_t i = 0; i < ARCHITECTURE_COUNT; i++)
        at += format_text(expected + at, sizeof expected - at, "%s[\"%s\"]", i ? " or " : "",
                          architectures[i].name);
    refuse(reader, STATUS_UNSUPPORTED, "architectures", is_text ? first : list, expected);
    if (reader->error && is_text) {
        size_t bytes = strlen(reader->error->text);
        format_text(
            reader->error->text + bytes, sizeof reader->error->text - bytes,
            ": Fathom runs DeepSeek-V4, V3, R1, V3.2, V2, GLM-5, GLM-4.7-Flash and models of their "
            "form, such as Kimi K2; the distilled ones "
            "have the form of Llama or Qwen");
    }
}

/* The indexer's keys share RoPE with MLA's: the first rope_dim channels of each. */
static void read_index(struct shape_reader *reader, struct shape *shape) {
    if (defaults_of(shape)->attention == ATTENTION_MLA) return;
    shape->index_heads = shape_read_count(reader, "index_n_heads", 1, 1024, REQUIRED);
    shape->index_dim =
        shape_read_count(reader, "index_head_dim", shape->rope_dim, LIMIT_INDEX_DIM, REQUIRED);
    shape->index_top_k = shape_read_count(reader, "index_topk", 1, LIMIT_CONTEXT, REQUIRED);
    shape->index_rope_interleaved =
        read_bool(reader, "indexer_rope_interleave", defaults_of(shape)->index_interleaved);
    if (shape->index_dim & (shape->index_dim - 1))
        refuse(reader, STATUS_INVALID, "index_head_dim", member(reader, "index_head_dim"),
               "a power of two (its channels go through a Hadamard transform)");
    if (!shape->q_rank)
        refuse(reader, STATUS_INVALID, "q_lora_rank", member(reader, "q_lora_rank"),
               "a positive number (the indexer's queries come from the queries' latent)");
}

static void read_latents(struct shape_reader *reader, struct shape *shape) {
    shape->kv_rank = shape_read_count(reader, "kv_lora_rank", 1, 1 << 14, REQUIRED);
    shape->nope_dim = shape_read_count(reader, "qk_nope_head_dim", 1, 4096, REQUIRED);
    shape->value_dim = shape_read_count(reader, "v_head_dim", 1, 4096, REQUIRED);
    shape->streams = 1;
    shape->swiglu_limit = INFINITY;
    shape->candidate_layer = LAYER_NONE;
}

/* The second level of V4.1's indexers. */
static void read_candidates(struct shape_reader *reader, struct shape *shape) {
    int64_t layer = -1;
    shape->candidate_layer = LAYER_NONE;
    if (!tree_get_integer(member(reader, "candidate_source_layer_id"), &layer) || layer < 0) return;
    shape->candidate_layer =
        shape_read_count(reader, "candidate_source_layer_id", 0, shape->layers - 1, REQUIRED);
    shape->candidate_blocks =
        shape_read_count(reader, "candidate_topk_blocks", 1, LIMIT_CONTEXT, REQUIRED);
    shape->candidate_block =
        shape_read_count(reader, "candidate_block_size", 1, LIMIT_CONTEXT, REQUIRED);
}

static void read_engram(struct shape_reader *reader, struct shape *shape) {
    const struct tree *layers = member(reader, "engram_layer_ids");
    const struct tree *rows = member(reader, "engram_num_embeddings");
    const size_t count = tree_count(layers);
    if (!count) return;
    shape->engram_ngram =
        shape_read_count(reader, "engram_max_ngram_size", 2, ENGRAM_NGRAM_MAX, REQUIRED);
    shape->engram_heads = shape_read_count(reader, "engram_n_heads", 1, 64, REQUIRED);
    shape->engram_dim = shape_read_count(reader, "engram_head_dim", 32, 4096, REQUIRED);
    shape->engram_vocab = shape_read_count(reader, "engram_vocab_size", 2, 1 << 28, REQUIRED);
    shape->engram_folded =
        shape_read_count(reader, "engram_compressed_vocab_size", 1, LIMIT_VOCAB, REQUIRED);
    const char *pad = member(reader, "engram_pad_id") ? "engram_pad_id" : "engram_pad_token_id";
    shape->engram_pad = shape_read_count(reader, pad, 0, (int64_t)shape->vocab - 1, 2);
    if (count > ENGRAM_LAYERS_MAX || tree_count(rows) != count || shape->engram_dim % 32 ||
        shape_engram_rows(shape) > ENGRAM_ROWS_MAX) {
        refuse(
            reader, STATUS_UNSUPPORTED, "engram_layer_ids", layers,
            "at most 8 layers, each with a number in engram_num_embeddings, and at most 128 rows "
            "of a multiple of 32 channels for a token");
        return;
    }
    for (size_t i = 0; i < count; i++) {
        int64_t layer = -1, table = -1;
        if (!tree_get_integer(tree_at(layers, i), &layer) || layer < 0 || layer >= shape->layers ||
            !tree_get_integer(tree_at(rows, i), &table) || table < 1 || table > UINT32_MAX)
            refuse(reader, STATUS_INVALID, "engram_layer_ids", layers, "layers of the model");
        shape->engram_layer[i] = (uint32_t)layer;
        shape->engram_table_rows[i] = (uint32_t)table;
    }
    shape->engram_layers = (uint32_t)count;
}

/* One vector of head_dim channels is key and value of all heads. */
static void read_compressed(struct shape_reader *reader, struct shape *shape) {
    const bool is_v4 = shape->architecture == ARCHITECTURE_DEEPSEEK_V4;
    uint32_t width =
        shape_read_count(reader, "head_dim", (int64_t)shape->rope_dim + 1, 4096, REQUIRED);
    shape->nope_dim = shape->kv_rank = width - shape->rope_dim;
    shape->value_dim = width;
    if (shape_read_count(reader, "num_key_value_heads", 1, 1, 1) != 1) return;
    shape->window = shape_read_count(reader, "sliding_window", 1, 1 << 16, REQUIRED);
    shape->output_groups = shape_read_count(reader, "o_groups", 1, shape->heads, REQUIRED);
    shape->output_rank = shape_read_count(reader, "o_lora_rank", 1, 1 << 16, REQUIRED);
    if (shape->heads % shape->output_groups)
        refuse(reader, STATUS_INVALID, "o_groups", member(reader, "o_groups"),
               "a divisor of num_attention_heads");
    shape->overlaps = shape->normalizes_heads = is_v4;
    double limit = shape_read_number(reader, "swiglu_limit", 0, 1e9, 0);
    shape->swiglu_limit = limit > 0 ? (float)limit : INFINITY;
    shape->streams = shape_read_count(reader, "hc_mult", 2, LIMIT_STREAMS, 4);
    shape->stream_rounds = shape_read_count(reader, "hc_sinkhorn_iters", 1, 1000, 20);
    shape->stream_epsilon = (float)shape_read_number(reader, "hc_eps", 0, 1, 1e-6);
    shape->streams_delayed = !is_v4;
    read_candidates(reader, shape);
    if (!is_v4) read_engram(reader, shape);
}

static void read_dimensions(struct shape_reader *reader, struct shape *shape) {
    shape->vocab = shape_read_count(reader, "vocab_size", 1, LIMIT_VOCAB, REQUIRED);
    shape->hidden = shape_read_count(reader, "hidden_size", 1, 1 << 16, REQUIRED);
    shape->layers = shape_read_count(reader, "num_hidden_layers", 1, LIMIT_LAYERS, REQUIRED);
    if (shape->architecture != ARCHITECTURE_DEEPSEEK_V41) /* its drafts have another form */
        shape->mtp_layers = shape_read_count(reader, "num_nextn_predict_layers", 0,
                                             LIMIT_LAYERS - (int64_t)shape->layers, 0);
    shape->context_max = shape_read_count(reader, "max_position_embeddings", 1, LIMIT_CONTEXT,
                                          defaults_of(shape)->context);
    shape->heads = shape_read_count(reader, "num_attention_heads", 1, 1024, REQUIRED);
    shape->q_rank = shape_read_count(reader, "q_lora_rank", 0, 1 << 16, 0);
    shape->rope_dim = shape_read_count(reader, "qk_rope_head_dim", 2, ROPE_DIM_MAX, REQUIRED);
    if (defaults_of(shape)->attention == ATTENTION_COMPRESSED)
        read_compressed(reader, shape);
    else
        read_latents(reader, shape);
    read_index(reader, shape);
    if (shape->rope_dim % 2)
        refuse(reader, STATUS_INVALID, "qk_rope_head_dim", member(reader, "qk_rope_head_dim"),
               "an even number (RoPE turns pairs)");
    /* not 0: a row of zeros would be divided by zero */
    shape->rms_epsilon = (float)shape_read_number(reader, "rms_norm_eps", 1e-30, 1, 1e-6);
    shape->tied_head = read_bool(reader, "tie_word_embeddings", false);
    if (read_bool(reader, "attention_bias", false))
        refuse(reader, STATUS_UNSUPPORTED, "attention_bias", member(reader, "attention_bias"),
               "false (no release has biases in its attention projections)");
    static const char *const activations[] = {"silu", NULL};
    shape_read_choice(reader, "hidden_act", activations, 0);
}

static void read_groups(struct shape_reader *reader, struct shape *shape) {
    const struct architecture_row *defaults = defaults_of(shape);
    shape->groups = shape->groups_kept = 1;
    if (shape->method == ROUTER_GREEDY) return;
    /* An explicit null means no groups. Only an absent key gets the default. */
    bool absent = !tree_member(reader->object, "n_group");
    shape->groups =
        shape_read_count(reader, "n_group", 1, shape->experts, absent ? defaults->groups : 1);
    int64_t kept = defaults->groups_kept;
    if (kept > (int64_t)shape->groups) kept = (int64_t)shape->groups;
    if (shape->groups > 1)
        shape->groups_kept = shape_read_count(reader, "topk_group", 1, shape->groups, kept);
    if (shape->experts % shape->groups)
        refuse(reader, STATUS_INVALID, "n_group", member(reader, "n_group"),
               "a divisor of n_routed_experts");
    else if (shape->groups > 1 && shape->method == ROUTER_NOAUX_TC &&
             shape->experts / shape->groups < 2)
        refuse(reader, STATUS_INVALID, "n_group", member(reader, "n_group"),
               "groups of two experts or more (noaux_tc adds up the two best)");
    else if (shape->experts_per_token > shape->groups_kept * (shape->experts / shape->groups))
        refuse(reader, STATUS_INVALID, "num_experts_per_tok", member(reader, "num_experts_per_tok"),
               "no more experts than topk_group groups hold");
}

/* The scaling of the chosen experts' weights differs by release. V3's published code divides by
 * their sum if norm_topk_prob (default true), then multiplies by routed_scaling_factor. V2's does
 * one or the other: it scales only if it does not normalize. */
static void read_router(struct shape_reader *reader, struct shape *shape) {
    static const char *const scorings[] = {"sigmoid", "softmax", "sqrtsoftplus", NULL};
    static const char *const methods[] = {"noaux_tc", "group_limited_greedy", "greedy", "gready",
                                          NULL};
    static const enum router_method method_of[] = {ROUTER_NOAUX_TC, ROUTER_GROUP_LIMITED,
                                                   ROUTER_GREEDY, ROUTER_GREEDY};
    const struct architecture_row *defaults = defaults_of(shape);
    int method = 0;
    while (method_of[method] != defaults->method)
        method++;
    shape->experts_per_token = shape_read_count(
        reader, "num_experts_per_tok", 1,
        shape->experts < LIMIT_TOP_K_EXPERTS ? shape->experts : LIMIT_TOP_K_EXPERTS, REQUIRED);
    shape->scoring = (enum router_scoring)shape_read_choice(reader, "scoring_func", scorings,
                                                            (int)defaults->scoring);
    shape->method = method_of[shape_read_choice(reader, "topk_method", methods, method)];
    shape->normalize_weights = read_bool(reader, "norm_topk_prob", defaults->normalizes);
    if (!defaults->scales_normalized) shape->normalize_weights &= shape->experts_per_token > 1;
    shape->routed_scaling = 1.0f;
    if (defaults->scales_normalized || !shape->normalize_weights)
        shape->routed_scaling =
            (float)shape_read_number(reader, "routed_scaling_factor", 1e-6, 1e6, defaults->scaling);
    read_groups(reader, shape);
}

/* mlp_layer_types has one "dense" or "sparse" per layer. Without it layer i is MoE if
 * i >= first_k_dense_replace and i is a multiple of moe_layer_freq. */
static bool layer_is_moe(struct shape_reader *reader, const struct shape *shape, uint32_t layer) {
    const struct tree *types = member(reader, "mlp_layer_types"), *type = tree_at(types, layer);
    struct bytes name = {0};
    if (!shape->experts) return false;
    if (types && layer < shape->layers) {
        bool known = type && tree_get_string(type, &name);
        bool sparse = known && bytes_equal(name, bytes_of("sparse"));
        if (!sparse && !(known && bytes_equal(name, bytes_of("dense"))))
            refuse(reader, STATUS_INVALID, "mlp_layer_types", type ? type : types,
                   "dense or sparse for each layer");
        return sparse;
    }
    uint32_t first = shape_read_count(reader, "first_k_dense_replace", 0, 1 << 16,
                                      defaults_of(shape)->first_moe_layer);
    uint32_t frequency = shape_read_count(reader, "moe_layer_freq", 1, 1 << 16, 1);
    return layer >= first && layer % frequency == 0;
}

/* Layers without an indexer of their own: those that indexer_types calls "shared", or that
 * index_topk_pattern marks with an S, or by index_topk_freq and index_skip_topk_offset. Source:
 * transformers, modular_glm_moe_dsa.py. MTP layers have an indexer. */
static bool layer_shares_index(struct shape_reader *reader, const struct shape *shape,
                               uint32_t layer) {
    const struct tree *types = member(reader, "indexer_types");
    struct bytes text = {0};
    if (!shape_has_index(shape) || layer >= shape->layers) return false;
    if (!types) types = member(reader, "index_topk_pattern");
    if (!types) {
        uint32_t frequency = shape_read_count(reader, "index_topk_freq", 1, 1 << 16, 1);
        uint32_t offset = shape_read_count(reader, "index_skip_topk_offset", 0, 1 << 16, 2);
        return (layer + 1 > offset ? layer + 1 - offset : 0) % frequency != 0;
    }
    bool shared = false, full = false;
    if (tree_get_string(types, &text)) {
        shared = layer < text.count && text.data[layer] == 'S';
        full = layer < text.count && text.data[layer] == 'F';
    } else if (tree_get_string(tree_at(types, layer), &text)) {
        shared = bytes_equal(text, bytes_of("shared"));
        full = bytes_equal(text, bytes_of("full"));
    }
    if (!full && (!shared || layer == 0))
        refuse(reader, STATUS_INVALID, "indexer_types", types,
               "full or shared for each layer, and full for the first");
    return shared;
}

static bool shape_lists(const struct shape_reader *reader, const char *key, uint32_t layer) {
    const struct tree *list = member(reader, key);
    int64_t id;
    for (size_t i = 0; i < tree_count(list); i++)
        if (tree_get_integer(tree_at(list, i), &id) && id == (int64_t)layer) return true;
    return false;
}

/* The kind of a COMPRESSED layer. In V4 each layer with a ratio makes its own entries, and those of
 * ratio 4 have an index. In V4.1 some layers are sources, and the others read the last source's. */
static void read_ratio(struct shape_reader *reader, struct shape *shape, uint32_t layer) {
    struct layer_kind *kind = &shape->layer_kinds[layer];
    const struct tree *ratios = member(reader, "compress_ratios");
    int64_t ratio = -1;
    const bool is_v4 = shape->architecture == ARCHITECTURE_DEEPSEEK_V4;
    if (!tree_get_integer(tree_at(ratios, layer), &ratio) || ratio < 0 || ratio > 128 ||
        (ratio & (ratio - 1)) || (kind->is_mtp && ratio)) {
        refuse(reader, STATUS_INVALID, "compress_ratios", ratios,
               "0 or a power of two up to 128 for each layer, and 0 for MTP layers");
        return;
    }
    kind->ratio = (uint16_t)ratio;
    kind->entry_source = kind->index_source = LAYER_NONE;
    if (is_v4)
        kind->hashes = layer < shape_read_count(reader, "num_hash_layers", 0, LIMIT_LAYERS, 0);
    if (!is_v4 && !kind->is_mtp) kind->has_engram = shape_lists(reader, "engram_layer_ids", layer);
    if (!ratio) return;
    if (is_v4 || shape_lists(reader, "kv_source_layer_ids", layer))
        kind->entry_source = (uint16_t)layer;
    else if (layer)
        kind->entry_source = kind[-1].entry_source;
    if (is_v4 ? ratio == 4 : shape_lists(reader, "index_source_layer_ids", layer))
        kind->index_source = (uint16_t)layer;
    else if (!is_v4 && layer)
        kind->index_source = kind[-1].index_source;
    if (kind->entry_source == LAYER_NONE || (!is_v4 && kind->index_source == LAYER_NONE) ||
        shape->layer_kinds[kind->entry_source].ratio != ratio)
        refuse(reader, STATUS_INVALID, is_v4 ? "compress_ratios" : "kv_source_layer_ids", ratios,
               "a source of the same ratio at or before each layer with a ratio");
}

/* An index's choices are numbers of entries, so they hold for layers of its ratio, and candidates
 * for indexes of theirs. The keys that an index scores are made with the entries. */
static void check_sources(struct shape_reader *reader, const struct shape *shape, uint32_t layer) {
    const struct layer_kind *kinds = shape->layer_kinds, *kind = &kinds[layer];
    const uint32_t candidates = shape->candidate_layer;
    if (kind->mlp != MLP_MOE)
        refuse(reader, STATUS_UNSUPPORTED, "n_routed_experts", member(reader, "n_routed_experts"),
               "experts in each layer (no first_k_dense_replace, moe_layer_freq or dense layer)");
    if (reader->status != STATUS_OK) return; /* sources may be missing */
    const bool has_index = kind->ratio && kind->index_source != LAYER_NONE;
    const struct layer_kind *index = has_index ? &kinds[kind->index_source] : NULL;
    if (index && (index->ratio != kind->ratio ||
                  kinds[index->entry_source].index_source != index->entry_source))
        refuse(reader, STATUS_INVALID, "index_source_layer_ids",
               member(reader, "index_source_layer_ids"),
               "for each layer with a ratio a source of the same ratio, whose entries are those of "
               "a layer in both lists of sources");
    if (layer == candidates ? kind->index_source != layer || !kind->ratio
                            : layer > candidates && index && kind->ratio != kinds[candidates].ratio)
        refuse(reader, STATUS_INVALID, "candidate_source_layer_id",
               member(reader, "candidate_source_layer_id"),
               "one of index_source_layer_ids, of the same ratio as those behind it");
}

/* Returns true if any layer is dense. */
static bool read_layer_kinds(struct shape_reader *reader, struct shape *shape) {
    bool dense = false;
    for (uint32_t layer = 0; layer < shape->layers + shape->mtp_layers; layer++) {
        bool is_moe = layer_is_moe(reader, shape, layer);
        shape->layer_kinds[layer] =
            (struct layer_kind){.attention = (uint8_t)defaults_of(shape)->attention,
                                .mlp = is_moe ? MLP_MOE : MLP_DENSE,
                                .is_mtp = layer >= shape->layers,
                                .shares_index = layer_shares_index(reader, shape, layer)};
        if (defaults_of(shape)->attention == ATTENTION_COMPRESSED) {
            read_ratio(reader, shape, layer);
            check_sources(reader, shape, layer);
        }
        dense |= !is_moe;
    }
    return dense;
}

static void read_experts(struct shape_reader *reader, struct shape *shape) {
    shape->experts = shape_read_count(reader, "n_routed_experts", 0, LIMIT_EXPERTS, 0);
    shape->groups = shape->groups_kept = 1;
    if (read_layer_kinds(reader, shape))
        shape->dense_width = shape_read_count(reader, "intermediate_size", 1, 1 << 20, REQUIRED);
    if (!shape->experts) return;
    shape->expert_width = shape_read_count(reader, "moe_intermediate_size", 1, 1 << 18, REQUIRED);
    shape->shared_experts = shape_read_count(reader, "n_shared_experts", 0, 64, 0);
    read_router(reader, shape);
}

/* mscale of the YaRN paper's section 3.4 as DeepSeek's code has it:
 *   1 for s <= 1, else 0.1 m ln s + 1 */
static double yarn_mscale(double scale, double m) {
    return scale <= 1 ? 1.0 : 0.1 * m * log(scale) + 1.0;
}

/* Frequencies of the pairs i of a vector of dr channels:
 *
 *   f_i     = theta^(-2i/dr)
 *   cdim(n) = dr ln(orig / (2 pi n)) / (2 ln theta): the pair that turns n times in orig positions
 *
 * With YaRN, pairs below floor(cdim(beta_fast)) keep f_i, pairs above ceil(cdim(beta_slow)) get
 * f_i / factor, and those between get a blend.
 *
 * In float32 and in the order of operations of DeepSeek's inference code (precompute_freqs_cis), so
 * that angles agree at long range. */
static void set_frequencies(struct shape *shape) {
    const double dim = shape->rope_dim, turn = 2 * 3.14159265358979323846;
    const double theta = (double)shape->rope_theta;
    float low = 0, span = 1;
    if (shape->yarn) {
        const double context = shape->yarn_original_context;
        double first =
            floor(dim * log(context / ((double)shape->yarn_beta_fast * turn)) / (2 * log(theta)));
        double last =
            ceil(dim * log(context / ((double)shape->yarn_beta_slow * turn)) / (2 * log(theta)));
        if (first < 0) first = 0;
        if (last > dim - 1) last = dim - 1;
        if (first == last) last += 0.001;
        low = (float)first;
        span = (float)(last - first);
    }
    for (uint32_t i = 0; i < shape->rope_dim / 2; i++) {
        float f = 1.0f / powf(shape->rope_theta, (float)(2 * i) / (float)shape->rope_dim);
        if (shape->yarn) {
            float ramp = ((float)i - low) / span;
            float smooth = 1.0f - (ramp < 0 ? 0.0f : ramp > 1 ? 1.0f : ramp);
            f = f / shape->yarn_factor * (1.0f - smooth) + f * smooth;
        }
        shape->rope_frequency[i] = f;
    }
}

/* Layers with entries have a theta of their own and YaRN, those without have neither. YaRN changes
 * no amplitude and no scale there. */
static void set_two_frequencies(struct shape *shape, float compressed_theta) {
    const float theta = shape->rope_theta;
    const bool yarn = shape->yarn;
    shape->rope_amplitude = 1.0f;
    shape->attention_scale = (float)pow(shape_query_dim(shape), -0.5);
    shape->rope_theta = compressed_theta;
    set_frequencies(shape);
    memcpy(shape->compressed_frequency, shape->rope_frequency, sizeof shape->rope_frequency);
    shape->rope_theta = theta;
    shape->yarn = false;
    set_frequencies(shape);
    shape->yarn = yarn;
}

static void read_yarn(struct shape_reader *scaling, struct shape *shape) {
    double factor = shape_read_number(scaling, "factor", 1, 1e6, NAN);
    double mscale = shape_read_number(scaling, "mscale", 0, 100, 1);
    double all_dim = shape_read_number(scaling, "mscale_all_dim", 0, 100, 0);
    shape->yarn = true;
    shape->yarn_factor = (float)factor;
    shape->yarn_mscale = (float)mscale;
    shape->yarn_mscale_all_dim = (float)all_dim;
    shape->yarn_original_context =
        shape_read_count(scaling, "original_max_position_embeddings", 1, LIMIT_CONTEXT, REQUIRED);
    shape->yarn_beta_fast = (float)shape_read_number(scaling, "beta_fast", 1e-3, 1e6, 32);
    shape->yarn_beta_slow = (float)shape_read_number(scaling, "beta_slow", 1e-3, 1e6, 1);
    if (shape->yarn_beta_slow > shape->yarn_beta_fast)
        refuse(scaling, STATUS_INVALID, "beta_slow", member(scaling, "beta_slow"),
               "no more than beta_fast");
    double amplitude = yarn_mscale(factor, mscale) / yarn_mscale(factor, all_dim);
    shape->rope_amplitude =
        (float)shape_read_number(scaling, "attention_factor", 1e-6, 1e6, amplitude);
    double m = all_dim > 0 ? yarn_mscale(factor, all_dim) : 1.0;
    shape->attention_scale = (float)(pow(shape_query_dim(shape), -0.5) * m * m);
}

/* Releases write rope_theta and rope_scaling (with "type"); newer transformers write one
 * rope_parameters (with "rope_type" and rope_theta inside). An object without a type, or of type
 * default, is plain RoPE. */
static void read_rope(struct shape_reader *config, struct shape *shape) {
    static const char *const types[] = {"default", "yarn", NULL};
    struct shape_reader scaling = *config;
    scaling.object = member(config, "rope_scaling");
    scaling.prefix = "rope_scaling.";
    const char *form = "rope_scaling";
    if (!scaling.object && member(config, "rope_parameters")) {
        scaling.object = member(config, "rope_parameters");
        scaling.prefix = "rope_parameters.";
        form = "rope_parameters";
    }
    shape->rope_interleaved = read_bool(config, "rope_interleave", true);
    shape->rope_amplitude = 1.0f;
    shape->attention_scale = (float)pow(shape_query_dim(shape), -0.5);
    double theta = shape_read_number(config, "rope_theta", 1.001, 1e12, 10000);
    if (scaling.object && tree_kind(scaling.object) != TREE_OBJECT) {
        refuse(config, STATUS_INVALID, form, scaling.object, "an object or null");
    } else if (scaling.object) {
        scaling.status = config->status;
        theta = shape_read_number(&scaling, "rope_theta", 1.001, 1e12, theta);
        const char *key = member(&scaling, "rope_type") ? "rope_type" : "type";
        if (shape_read_choice(&scaling, key, types, 0) == 1) read_yarn(&scaling, shape);
        config->status = scaling.status;
    }
    shape->rope_theta = (float)theta;
    if (config->status != STATUS_OK) return;
    if (defaults_of(shape)->attention == ATTENTION_COMPRESSED) {
        double compressed = shape_read_number(config, "compress_rope_theta", 1.001, 1e12, theta);
        set_two_frequencies(shape, (float)compressed);
        return;
    }
    set_frequencies(shape);
}

static void shape_require(struct shape_reader *reader, bool holds, const char *key,
                          const char *expected) {
    if (!holds) refuse(reader, STATUS_UNSUPPORTED, key, member(reader, key), expected);
}

static bool shape_is_word(const struct shape_reader *reader, const char *key, const char *wanted) {
    struct bytes text;
    return tree_get_string(member(reader, key), &text) && bytes_equal(text, bytes_of(wanted));
}

static bool shape_is_count(const struct shape_reader *reader, const char *key, int64_t wanted) {
    int64_t found;
    return tree_get_integer(member(reader, key), &found) && found == wanted;
}

/* The weights of compressed-tensors' only group of linears; `mxfp4`: its format is that. */
static void read_packed_weights(struct shape_reader *weights, bool mxfp4, struct shape *shape) {
    const bool wide = shape_is_count(weights, "group_size", 128);
    bool symmetric = false;
    tree_get_bool(member(weights, "symmetric"), &symmetric);
    shape_require(weights, shape_is_count(weights, "num_bits", 4), "num_bits", "4");
    shape_require(weights, shape_is_word(weights, "type", mxfp4 ? "float" : "int"), "type",
                  mxfp4 ? "float, as the format is mxfp4-pack-quantized"
                        : "int, as the format is pack-quantized");
    shape_require(weights, symmetric, "symmetric", "true (no zero points)");
    shape_require(weights, shape_is_word(weights, "strategy", "group"), "strategy", "group");
    shape_require(weights, shape_is_count(weights, "group_size", 32) || (wide && !mxfp4),
                  "group_size", mxfp4 ? "32" : "32 or 128");
    shape_require(weights,
                  !member(weights, "actorder") || shape_is_word(weights, "actorder", "static") ||
                      shape_is_word(weights, "actorder", "weight"),
                  "actorder", "null, static or weight (channels in order)");
    shape->expert_form = mxfp4 ? EXPERTS_MXFP4 : wide ? EXPERTS_INT4_128 : EXPERTS_INT4_32;
    const uint32_t group = wide ? 128 : 32;
    if (weights->status == STATUS_OK && (shape->hidden % group || shape->expert_width % group))
        weights->status = error_set(
            weights->error, STATUS_UNSUPPORTED,
            "%s: hidden_size, moe_intermediate_size: expected multiples of %u, the group of the "
            "experts' weights, found %u and %u",
            weights->file, group, shape->hidden, shape->expert_width);
}

/* compressed-tensors with experts in four bits. Its targets and exceptions are not read: the
 * tensors themselves show what is packed (checkpoint.c). */
static void shape_read_packed(struct shape_reader *config, struct shape *shape) {
    static const char *const formats[] = {"pack-quantized", "mxfp4-pack-quantized", NULL};
    const struct tree *groups = member(config, "config_groups"), *value = NULL;
    struct tree_cursor cursor = {0};
    struct bytes name;
    struct shape_reader group = *config, weights;
    if (!tree_next_member(groups, &cursor, &name, &value) ||
        tree_next_member(groups, &cursor, &name, &group.object))
        refuse(config, STATUS_UNSUPPORTED, "config_groups", groups, "an object with one group");
    group.object = value;
    group.prefix = "quantization_config.config_groups.*.";
    group.status = config->status;
    shape_require(&group, !member(&group, "input_activations"), "input_activations",
                  "null (weights alone are quantized)");
    const bool inner = member(&group, "format") != NULL;
    const bool mxfp4 = shape_read_choice(inner ? &group : config, "format", formats, REQUIRED) == 1;
    if (group.status == STATUS_OK) group.status = config->status;
    shape_require(config, !member(config, "kv_cache_scheme"), "kv_cache_scheme", "null");
    weights = group;
    weights.object = member(&group, "weights");
    weights.prefix = "quantization_config.config_groups.*.weights.";
    read_packed_weights(&weights, mxfp4, shape);
    if (config->status == STATUS_OK) config->status = weights.status;
}

/* V4 says in expert_dtype that its experts are in four bits, at the top or with the quantization.
 * */
static void read_expert_type(struct shape_reader *config, struct shape_reader *quantization,
                             struct shape *shape) {
    static const char *const types[] = {"fp8", "fp4", NULL};
    if (defaults_of(shape)->attention != ATTENTION_COMPRESSED) return;
    struct shape_reader *reader = member(quantization, "expert_dtype") ? quantization : config;
    if (shape_read_choice(reader, "expert_dtype", types, 0) == 1)
        shape->expert_form = EXPERTS_MXFP4;
    if (config->status != STATUS_OK && quantization->status == STATUS_OK)
        quantization->status = config->status;
    if (shape->expert_form == EXPERTS_MXFP4 && (shape->hidden % 32 || shape->expert_width % 32))
        refuse(config, STATUS_UNSUPPORTED, "moe_intermediate_size",
               member(config, "moe_intermediate_size"),
               "a multiple of 32, like hidden_size, for experts in four bits");
}

static void read_quantization(struct shape_reader *config, struct shape *shape) {
    static const char *const methods[] = {"fp8", "compressed-tensors", NULL},
                             *const formats[] = {"e4m3", NULL},
                             *const schemes[] = {"dynamic", NULL},
                             *const scales[] = {"float", "ue8m0", NULL};
    struct shape_reader reader = *config;
    reader.object = member(config, "quantization_config");
    reader.prefix = "quantization_config.";
    if (!reader.object) return;
    const struct tree *method = member(&reader, "quant_method");
    struct bytes name;
    if (tree_get_string(method, &name) && !bytes_equal(name, bytes_of(methods[0])) &&
        !bytes_equal(name, bytes_of(methods[1])))
        refuse(&reader, STATUS_UNSUPPORTED, "quant_method", method,
               "fp8, compressed-tensors (experts in INT4 or MXFP4), or no quantization "
               "(docs/models.md)");
    if (shape_read_choice(&reader, "quant_method", methods, REQUIRED) == 1) {
        shape_read_packed(&reader, shape);
        config->status = reader.status;
        return;
    }
    shape_read_choice(&reader, "fmt", formats, 0);
    shape_read_choice(&reader, "activation_scheme", schemes, 0);
    shape->activation_scale_ue8m0 = shape_read_choice(&reader, "scale_fmt", scales, 0) == 1;
    const struct tree *block = member(&reader, "weight_block_size");
    int64_t rows = 0, columns = 0;
    const bool narrow = shape->architecture == ARCHITECTURE_DEEPSEEK_V41;
    const int64_t wanted = narrow ? 32 : QUANT_GROUP;
    if (tree_count(block) != 2 || !tree_get_integer(tree_at(block, 0), &rows) ||
        !tree_get_integer(tree_at(block, 1), &columns) || rows != wanted || columns != wanted) {
        char found[64];
        format_text(found, sizeof found, "[%lld, %lld]", (long long)rows, (long long)columns);
        if (reader.status == STATUS_OK)
            reader.status =
                error_set(config->error, STATUS_UNSUPPORTED,
                          "%s: quantization_config.weight_block_size: expected [%d, %d], found %s",
                          config->file, (int)wanted, (int)wanted,
                          tree_count(block) == 2 ? found : "no list of two");
    }
    shape->fp8 = true;
    shape->fp8_block = (uint32_t)wanted;
    read_expert_type(config, &reader, shape);
    config->status = reader.status;
}

static bool is_token(const struct tree *value, const struct shape *shape, int64_t *id_out) {
    return tree_get_integer(value, id_out) && *id_out >= 0 && *id_out < shape->vocab;
}

static void refuse_token(struct shape_reader *reader, const char *key, const struct tree *value,
                         const struct shape *shape) {
    char expected[96];
    format_text(expected, sizeof expected, "a token id from 0 to %u", shape->vocab - 1);
    refuse(reader, STATUS_INVALID, key, value, expected);
}

/* Reads a token; NONE if the value is not in the vocabulary. Callers that need the token check
 * it. */
static uint32_t shape_find_token(const struct shape_reader *reader, const char *key,
                                 const struct shape *shape) {
    int64_t id = NONE;
    return is_token(member(reader, key), shape, &id) ? (uint32_t)id : NONE;
}

/* In many configurations -1 and null mean no token. */
static bool is_no_token(const struct tree *value) {
    int64_t id = 0;
    return tree_is_null(value) || (tree_get_integer(value, &id) && id == -1);
}

bool shape_add_eos(struct shape *shape, uint32_t id) {
    for (uint32_t i = 0; i < shape->eos_token_count; i++)
        if (shape->eos_tokens[i] == id) return true;
    if (shape->eos_token_count == LIMIT_STOP_TOKENS) return false;
    shape->eos_tokens[shape->eos_token_count++] = id;
    return true;
}

/* Adds the ids of an eos_token_id (one integer or a list), each once. */
static void read_eos(struct shape_reader *reader, struct shape *shape) {
    const struct tree *value = member(reader, "eos_token_id");
    const bool one = value && tree_kind(value) == TREE_INTEGER;
    size_t count = one ? 1 : tree_count(value);
    if (value && !one && tree_kind(value) != TREE_ARRAY)
        refuse(reader, STATUS_INVALID, "eos_token_id", value, "an integer or a list of integers");
    for (size_t i = 0; i < count; i++) {
        const struct tree *item = one ? value : tree_at(value, i);
        int64_t id = -1;
        if (is_no_token(item)) continue;
        if (!is_token(item, shape, &id)) {
            refuse_token(reader, "eos_token_id", item, shape);
            return;
        }
        if (!shape_add_eos(shape, (uint32_t)id)) {
            refuse(reader, STATUS_TOO_LARGE, "eos_token_id", value, "at most 16 different ids");
            return;
        }
    }
}

/* Parses the text in temporary memory and passes the root object to `read`. */
static enum status with_object(struct bytes json, const char *file, struct error *error,
                               void (*read)(struct shape_reader *, struct shape *),
                               struct shape *shape) {
    if (json.count > CONFIG_BYTES_MAX)
        return error_set(error, STATUS_TOO_LARGE, "%s: %zu bytes, expected at most %zu", file,
                         json.count, CONFIG_BYTES_MAX);
    size_t memory_bytes = 64 * json.count + 65536;
    void *memory = malloc(memory_bytes);
    if (!memory) return error_set(error, STATUS_NO_MEMORY, "%s: not enough memory to parse", file);
    struct arena arena;
    struct shape_reader reader = {.file = file, .prefix = "", .error = error};
    arena_over(&arena, memory, memory_bytes);
    reader.status = tree_parse(&arena, json, file, &reader.object, error);
    if (reader.status == STATUS_OK && tree_kind(reader.object) != TREE_OBJECT)
        reader.status = error_set(error, STATUS_INVALID, "%s: expected a JSON object, found %s",
                                  file, tree_name(reader.object));
    if (reader.status == STATUS_OK) read(&reader, shape);
    free(memory);
    return reader.status;
}

static void shape_read_config(struct shape_reader *reader, struct shape *shape) {
    const struct tree *root = reader->object;
    read_architecture(reader, shape);
    if (shape->architecture == ARCHITECTURE_DEEPSEEK_V41 && member(reader, "text_config")) {
        reader->object = member(reader, "text_config");
        reader->prefix = "text_config.";
    }
    read_dimensions(reader, shape);
    if (reader->status != STATUS_OK) return; /* the rest depends on the dimensions */
    read_experts(reader, shape);
    if (reader->status != STATUS_OK) return;
    read_rope(reader, shape);
    if (reader->status != STATUS_OK) return;
    reader->object = root;
    reader->prefix = "";
    read_quantization(reader, shape);
    shape->bos_token = shape_find_token(reader, "bos_token_id", shape);
    const uint32_t image = shape_find_token(reader, "image_token_id", shape);
    if (shape->architecture == ARCHITECTURE_DEEPSEEK_V41 && image != NONE)
        shape->image_token = image;
    read_eos(reader, shape);
}

enum status shape_parse(struct bytes json, const char *file, struct shape *shape_out,
                        struct error *error) {
    struct shape shape = {0};
    enum status status = with_object(json, file, error, shape_read_config, &shape);
    if (status == STATUS_OK) *shape_out = shape;
    return status;
}

enum status shape_add_generation(struct bytes json, const char *file, struct shape *shape,
                                 struct error *error) {
    struct shape changed = *shape;
    enum status status = with_object(json, file, error, read_eos, &changed);
    if (status == STATUS_OK) *shape = changed;
    return status;
}
