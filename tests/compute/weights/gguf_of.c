/* SPDX-License-Identifier: Apache-2.0 */
#include "gguf_of.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/file.h"
#include "base/format.h"
#include "base/tree.h"
#include "compute/weights/checkpoint.h"
#include "compute/weights/ggml_block.h"
#include "gguf_bytes.h"

#define TEXT_BYTES_MAX ((size_t)64 << 20)

struct converter {
    const struct gguf_of *plan;
    const struct checkpoint *checkpoint;
    const struct shape *shape;
    struct gguf_bytes files[16]; /* [parts] */
    uint32_t parts, next, tensors;
    float *stack[3]; /* gate, up and down of a layer's experts so far */
};

static void *taken(size_t bytes) {
    void *memory = malloc(bytes + 1);
    check(memory);
    return memory;
}

/* ---- tensors ---- */

/* The values of a tensor times its scales. */
static float *values_of(const struct checkpoint *checkpoint, const struct tensor *tensor) {
    const uint64_t rows = tensor->shape[0], cols = tensor->dims == 2 ? tensor->shape[1] : 1;
    const struct tensor *scale = checkpoint_scale(checkpoint, tensor);
    float *values = taken(rows * cols * sizeof *values);
    tensor_to_float(tensor, 0, rows * cols, values);
    if (!scale) return values;
    const bool fp8 = tensor->type == TENSOR_E4M3;
    const uint64_t group = fp8 ? QUANT_GROUP : cols / scale->shape[1];
    for (uint64_t row = 0; row < rows; row++)
        for (uint64_t c = 0; c < cols; c++) {
            float factor;
            const uint64_t at = row / (fp8 ? QUANT_GROUP : 1) * scale->shape[1] + c / group;
            tensor_to_float(scale, at, 1, &factor);
            values[row * cols + c] *= factor;
        }
    return values;
}

/* The type of a matrix of such rows. */
static const char *type_for(const struct converter *converter, const char *wanted, uint64_t cols,
                            bool is_bf16) {
    if (!wanted) return is_bf16 ? "BF16" : "F32";
    const bool large = strstr(wanted, "_K") != NULL;
    if (cols % (large ? 256 : 32) == 0 || !strcmp(wanted, "F32") || strstr(wanted, "F16"))
        return wanted;
    return cols % 32 == 0 ? "Q8_0" : "F32";
}

static void emit(struct converter *converter, const char *name, const char *type, uint32_t dims,
                 const uint64_t *shape, const float *values) {
    size_t count = 1;
    for (uint32_t i = 0; i < dims; i++)
        count *= shape[i];
    size_t bytes = gguf_bytes_size(type, count);
    uint8_t *data = taken(bytes);
    gguf_bytes_quantize(type, values, count, data);
    uint32_t number = gguf_bytes_number(type);
    if (converter->plan->rounded && strcmp(type, "F32") != 0 && dims > 1) {
        /* the values that the blocks stand for: test_ggml_block compares them with ggml's */
        const char *unused;
        struct tensor blocks = {.type = ggml_block_find(number, &unused),
                                .dims = 2,
                                .data = data,
                                .bytes = bytes,
                                .shape = {1, count}};
        float *exact = taken(count * sizeof *exact);
        tensor_to_float(&blocks, 0, count, exact);
        free(data);
        data = (uint8_t *)exact;
        number = gguf_bytes_number("F32");
        bytes = count * sizeof *exact;
    }
    const uint32_t part = converter->tensors++ % converter->parts;
    gguf_bytes_tensor(&converter->files[part], name, number, dims, shape, data, bytes);
    free(data);
}

static const struct gguf_row {
    enum tensor_name id;
    const char *name; /* takes the layer */
    bool plain;       /* always F32 */
} rows[] = {
    {NAME_EMBEDDING, "token_embd.weight", false},
    {NAME_FINAL_NORM, "output_norm.weight", true},
    {NAME_HEAD, "output.weight", false},
    {NAME_ATTENTION_NORM, "blk.%u.attn_norm.weight", true},
    {NAME_Q_A, "blk.%u.attn_q_a.weight", false},
    {NAME_Q_A_NORM, "blk.%u.attn_q_a_norm.weight", true},
    {NAME_Q_B, "blk.%u.attn_q_b.weight", false},
    {NAME_Q, "blk.%u.attn_q.weight", false},
    {NAME_KV_A, "blk.%u.attn_kv_a_mqa.weight", false},
    {NAME_KV_A_NORM, "blk.%u.attn_kv_a_norm.weight", true},
    {NAME_KV_B, "blk.%u.attn_kv_b.weight", false},
    {NAME_O, "blk.%u.attn_output.weight", false},
    {NAME_MLP_NORM, "blk.%u.ffn_norm.weight", true},
    {NAME_ROUTER, "blk.%u.ffn_gate_inp.weight", true},
    {NAME_ROUTER_BIAS, "blk.%u.exp_probs_b.bias", true},
    {NAME_EXPERT_GATE, "blk.%u.ffn_gate_exps.weight", false},
    {NAME_EXPERT_UP, "blk.%u.ffn_up_exps.weight", false},
    {NAME_EXPERT_DOWN, "blk.%u.ffn_down_exps.weight", false},
    {NAME_SHARED_GATE, "blk.%u.ffn_gate_shexp.weight", false},
    {NAME_SHARED_UP, "blk.%u.ffn_up_shexp.weight", false},
    {NAME_SHARED_DOWN, "blk.%u.ffn_down_shexp.weight", false},
    {NAME_DENSE_GATE, "blk.%u.ffn_gate.weight", false},
    {NAME_DENSE_UP, "blk.%u.ffn_up.weight", false},
    {NAME_DENSE_DOWN, "blk.%u.ffn_down.weight", false},
    {NAME_MTP_EMBEDDING_NORM, "blk.%u.nextn.enorm.weight", true},
    {NAME_MTP_HIDDEN_NORM, "blk.%u.nextn.hnorm.weight", true},
    {NAME_MTP_PROJECTION, "blk.%u.nextn.eh_proj.weight", false},
    {NAME_MTP_HEAD_NORM, "blk.%u.nextn.shared_head_norm.weight", true},
    {NAME_MTP_EMBEDDING, "blk.%u.nextn.embed_tokens.weight", false},
    {NAME_MTP_HEAD, "blk.%u.nextn.shared_head_head.weight", false},
};

static const struct gguf_row *row_of(enum tensor_name id) {
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++)
        if (rows[i].id == id) return &rows[i];
    return NULL;
}

/* kv_b in two parts: [heads][kv_rank][nope] and [heads][value][kv_rank]. */
static void emit_halves(struct converter *converter, const struct layout_tensor *wanted,
                        const float *kv_b, bool is_bf16) {
    const struct shape *shape = converter->shape;
    const uint64_t nope = shape->nope_dim, value = shape->value_dim, rank = shape->kv_rank;
    float *keys = taken(shape->heads * rank * nope * sizeof *keys);
    float *values = taken(shape->heads * rank * value * sizeof *values);
    for (uint64_t head = 0; head < shape->heads; head++) {
        const float *from = kv_b + head * (nope + value) * rank;
        for (uint64_t r = 0; r < rank; r++)
            for (uint64_t i = 0; i < nope; i++)
                keys[(head * rank + r) * nope + i] = from[i * rank + r];
        memcpy(values + head * value * rank, from + nope * rank, value * rank * sizeof *values);
    }
    char name[96];
    const char *type = converter->plan->type;
    const uint64_t key_shape[] = {nope, rank, shape->heads},
                   shape_v[] = {rank, value, shape->heads};
    format_text(name, sizeof name, "blk.%u.attn_k_b.weight", wanted->layer);
    emit(converter, name, type_for(converter, type, nope, is_bf16), 3, key_shape, keys);
    format_text(name, sizeof name, "blk.%u.attn_v_b.weight", wanted->layer);
    emit(converter, name, type_for(converter, type, rank, is_bf16), 3, shape_v, values);
    free(keys);
    free(values);
}

/* Collects a layer's experts, and emits them with the last. */
static void add_expert(struct converter *converter, const struct layout_tensor *wanted,
                       const float *values, bool is_bf16) {
    const uint64_t experts = converter->shape->experts, count = wanted->rows * wanted->columns;
    const uint32_t part = wanted->id - NAME_EXPERT_GATE;
    const char *type = part == 2 && converter->plan->down_type ? converter->plan->down_type
                                                               : converter->plan->type;
    if (!converter->stack[part]) converter->stack[part] = taken(experts * count * sizeof *values);
    memcpy(converter->stack[part] + wanted->expert * count, values, count * sizeof *values);
    if (wanted->expert + 1 < experts) return;
    char name[96];
    const uint64_t shape[] = {wanted->columns, wanted->rows, experts};
    format_text(name, sizeof name, row_of(wanted->id)->name, wanted->layer);
    emit(converter, name, type_for(converter, type, wanted->columns, is_bf16), 3, shape,
         converter->stack[part]);
    free(converter->stack[part]);
    converter->stack[part] = NULL;
}

static enum status convert_tensor(void *context, const struct layout_tensor *wanted,
                                  struct error *error) {
    struct converter *converter = context;
    const struct tensor *tensor = checkpoint_tensor(converter->checkpoint, wanted->name);
    const struct gguf_row *row = row_of(wanted->id);
    if (!tensor || (wanted->is_mtp && !converter->plan->mtp)) return STATUS_OK;
    check(row);
    const bool is_bf16 = tensor->type == TENSOR_BF16;
    float *values = values_of(converter->checkpoint, tensor);
    if (wanted->kind == LAYOUT_EXPERT) {
        add_expert(converter, wanted, values, is_bf16);
    } else if (wanted->id == NAME_KV_B && !converter->plan->whole_kv_b) {
        emit_halves(converter, wanted, values, is_bf16);
    } else {
        char name[96];
        const uint64_t matrix[] = {wanted->columns, wanted->rows};
        format_text(name, sizeof name, row->name, wanted->layer);
        emit(converter, name,
             row->plain ? "F32"
                        : type_for(converter, converter->plan->type, wanted->columns, is_bf16),
             wanted->dims, wanted->dims == 1 ? &wanted->rows : matrix, values);
    }
    free(values);
    return STATUS_OK;
}

/* ---- metadata ---- */

#define KEY(name) "deepseek2." name

static void put_dimensions(struct gguf_bytes *file, const struct gguf_of *plan,
                           const struct shape *shape) {
    const uint32_t next = plan->mtp ? shape->mtp_layers : 0;
    const uint32_t keys = shape->nope_dim + shape->rope_dim;
    gguf_bytes_text(file, "general.architecture", "deepseek2");
    gguf_bytes_count(file, KEY("block_count"), shape->layers + next);
    if (next) gguf_bytes_count(file, KEY("nextn_predict_layers"), next);
    gguf_bytes_count(file, KEY("context_length"), shape->context_max);
    gguf_bytes_count(file, KEY("embedding_length"), shape->hidden);
    gguf_bytes_count(file, KEY("feed_forward_length"), shape->dense_width);
    gguf_bytes_count(file, KEY("attention.head_count"), shape->heads);
    if (shape->q_rank) gguf_bytes_count(file, KEY("attention.q_lora_rank"), shape->q_rank);
    gguf_bytes_count(file, KEY("attention.kv_lora_rank"), shape->kv_rank);
    gguf_bytes_float(file, KEY("attention.layer_norm_rms_epsilon"), shape->rms_epsilon);
    gguf_bytes_count(file, KEY("rope.dimension_count"), shape->rope_dim);
    gguf_bytes_float(file, KEY("rope.freq_base"), shape->rope_theta);
    if (plan->whole_kv_b) {
        gguf_bytes_count(file, KEY("attention.key_length"), keys);
        gguf_bytes_count(file, KEY("attention.value_length"), shape->value_dim);
    } else {
        gguf_bytes_count(file, KEY("attention.key_length"), shape->kv_rank + shape->rope_dim);
        gguf_bytes_count(file, KEY("attention.value_length"), shape->kv_rank);
        gguf_bytes_count(file, KEY("attention.key_length_mla"), keys);
        gguf_bytes_count(file, KEY("attention.value_length_mla"), shape->value_dim);
    }
    if (!shape->yarn) return;
    gguf_bytes_text(file, KEY("rope.scaling.type"), "yarn");
    gguf_bytes_float(file, KEY("rope.scaling.factor"), shape->yarn_factor);
    gguf_bytes_count(file, KEY("rope.scaling.original_context_length"),
                     shape->yarn_original_context);
    gguf_bytes_float(file, KEY("rope.scaling.yarn_log_multiplier"),
                     0.1f * shape->yarn_mscale_all_dim);
    gguf_bytes_float(file, KEY("rope.scaling.yarn_beta_fast"), shape->yarn_beta_fast);
    gguf_bytes_float(file, KEY("rope.scaling.yarn_beta_slow"), shape->yarn_beta_slow);
}

static void put_experts(struct gguf_bytes *file, const struct shape *shape) {
    uint32_t dense = 0;
    while (dense < shape->layers && !shape_layer_is_moe(shape, dense))
        dense++;
    gguf_bytes_count(file, KEY("leading_dense_block_count"), dense);
    gguf_bytes_count(file, KEY("expert_shared_count"), shape->shared_experts);
    gguf_bytes_count(file, KEY("expert_feed_forward_length"), shape->expert_width);
    if (!shape->experts) return;
    gguf_bytes_count(file, KEY("expert_count"), shape->experts);
    gguf_bytes_count(file, KEY("expert_used_count"), shape->experts_per_token);
    gguf_bytes_float(file, KEY("expert_weights_scale"), shape->routed_scaling);
    gguf_bytes_bool(file, KEY("expert_weights_norm"), shape->normalize_weights);
    gguf_bytes_count(file, KEY("expert_gating_func"), shape->scoring == ROUTER_SIGMOID ? 2 : 1);
    gguf_bytes_count(file, KEY("expert_group_count"), shape->groups);
    gguf_bytes_count(file, KEY("expert_group_used_count"), shape->groups_kept);
}

/* Parses a file of the directory into `arena`; NULL if it is missing. */
static const struct tree *parsed(const char *directory, const char *name, struct arena *arena) {
    char path[1024];
    struct bytes text;
    struct error error;
    const struct tree *root = NULL;
    format_text(path, sizeof path, "%s/%s", directory, name);
    if (file_take(path, TEXT_BYTES_MAX, &text, &error)) return NULL;
    check(tree_parse(arena, text, path, &root, &error) == STATUS_OK);
    return root; /* the text is kept */
}

static void put_tokens(struct gguf_bytes *file, const struct tree *tokenizer, uint32_t vocab) {
    const struct tree *model = tree_member(tokenizer, "model"), *value;
    const struct tree *added = tree_member(tokenizer, "added_tokens");
    struct bytes *texts = calloc(vocab, sizeof *texts), text;
    int32_t *kinds = calloc(vocab, sizeof *kinds);
    struct tree_cursor cursor = {NULL};
    int64_t id = 0;
    check(texts && kinds);
    for (uint32_t i = 0; i < vocab; i++) {
        texts[i] = BYTES_LITERAL("[PAD]");
        kinds[i] = 5;
    }
    while (tree_next_member(tree_member(model, "vocab"), &cursor, &text, &value))
        if (tree_get_integer(value, &id) && id < vocab) texts[id] = text, kinds[id] = 1;
    for (size_t i = 0; i < tree_count(added); i++) {
        const struct tree *token = tree_at(added, i);
        bool special = false;
        check(tree_get_integer(tree_member(token, "id"), &id) && id < vocab);
        check(tree_get_string(tree_member(token, "content"), &texts[id]));
        (void)tree_get_bool(tree_member(token, "special"), &special);
        kinds[id] = special ? 3 : 4;
    }
    struct gguf_buffer *out = gguf_bytes_array(file, "tokenizer.ggml.tokens", GGUF_STRING, vocab);
    for (uint32_t i = 0; i < vocab; i++) {
        char padding[32];
        format_text(padding, sizeof padding, "[PAD%u]", i);
        gguf_bytes_put_string(out, kinds[i] == 5 ? bytes_of(padding) : texts[i]);
    }
    out = gguf_bytes_array(file, "tokenizer.ggml.token_type", GGUF_INT32, vocab);
    gguf_bytes_put(out, kinds, vocab * sizeof *kinds);
    const struct tree *merges = tree_member(model, "merges");
    out = gguf_bytes_array(file, "tokenizer.ggml.merges", GGUF_STRING, tree_count(merges));
    for (size_t i = 0; i < tree_count(merges); i++) {
        check(tree_get_string(tree_at(merges, i), &text));
        gguf_bytes_put_string(out, text);
    }
    free(texts);
    free(kinds);
}

static void put_texts(struct gguf_bytes *file, const struct gguf_of *plan,
                      const struct shape *shape) {
    const size_t room = (size_t)1 << 30; /* little of it is touched */
    struct arena arena;
    void *memory = malloc(room);
    struct bytes template;
    bool adds_bos = false;
    check(memory);
    arena_over(&arena, memory, room);
    if (shape->bos_token != UINT32_MAX)
        gguf_bytes_count(file, "tokenizer.ggml.bos_token_id", shape->bos_token);
    if (shape->eos_token_count)
        gguf_bytes_count(file, "tokenizer.ggml.eos_token_id", shape->eos_tokens[0]);
    const struct tree *tokenizer = parsed(plan->directory, "tokenizer.json", &arena);
    const struct tree *config = parsed(plan->directory, "tokenizer_config.json", &arena);
    if (tokenizer) {
        gguf_bytes_text(file, "tokenizer.ggml.model", "gpt2");
        gguf_bytes_text(file, "tokenizer.ggml.pre", "deepseek-v3");
        put_tokens(file, tokenizer, shape->vocab);
    }
    if (tree_get_bool(tree_member(config, "add_bos_token"), &adds_bos))
        gguf_bytes_bool(file, "tokenizer.ggml.add_bos_token", adds_bos);
    if (tree_get_string(tree_member(config, "chat_template"), &template))
        gguf_bytes_put_string(gguf_bytes_pair(file, "tokenizer.chat_template", GGUF_STRING),
                              template);
    free(memory);
}

static void write_part(struct converter *converter, uint32_t part) {
    const struct gguf_of *plan = converter->plan;
    char path[1024];
    const size_t stem = strlen(plan->path) - strlen("-00001-of-00001.gguf");
    if (converter->parts == 1)
        format_text(path, sizeof path, "%s", plan->path);
    else
        format_text(path, sizeof path, "%.*s-%05u-of-%05u.gguf", (int)stem, plan->path, part + 1,
                    converter->parts);
    struct bytes content = gguf_bytes_end(&converter->files[part]);
    FILE *file = fopen(path, "wb");
    check(file && fwrite(content.data, 1, content.count, file) == content.count && !fclose(file));
    free((void *)(uintptr_t)content.data);
}

void gguf_of_write(const struct gguf_of *plan) {
    struct checkpoint *checkpoint;
    struct error error = {""};
    if (checkpoint_open(plan->directory, CHECKPOINT_WHOLE, &checkpoint, &error)) {
        fprintf(stderr, "%s\n", error.text);
        check(!"the checkpoint opens");
    }
    struct converter converter = {.plan = plan,
                                  .checkpoint = checkpoint,
                                  .shape = checkpoint_shape(checkpoint),
                                  .parts = plan->parts ? plan->parts : 1};
    check(converter.parts <= ARRAY_COUNT(converter.files));
    put_dimensions(&converter.files[0], plan, converter.shape);
    put_experts(&converter.files[0], converter.shape);
    put_texts(&converter.files[0], plan, converter.shape);
    check(layout_for_each(converter.shape, convert_tensor, &converter, &error) == STATUS_OK);
    for (uint32_t part = 0; part < converter.parts; part++) {
        struct gguf_bytes *file = &converter.files[part];
        if (converter.parts > 1) {
            gguf_bytes_count(file, "split.no", part);
            gguf_bytes_count(file, "split.count", converter.parts);
            gguf_bytes_count(file, "split.tensors.count", converter.tensors);
        }
        write_part(&converter, part);
    }
    checkpoint_close(checkpoint);
}
