/* SPDX-License-Identifier: Apache-2.0
 * fathom inspect model: a checkpoint's parameters, bytes by kind, memory per rank for several sizes
 * of expert parallelism, and KV cache per token. It does not load weights. config.json and an index
 * are enough: sizes then come from the shape.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "command/json_print.h"
#include "command/model_run.h"
#include "compute/model/kv_pages.h"
#include "compute/weights/checkpoint.h"
#include "compute/weights/layout.h"
#include "compute/weights/named_shapes.h"
#include "compute/weights/weights_size.h"
#include "programs/programs.h"

#ifdef FATHOM_SERVING
#include "host/process/model_text.h"
#endif

struct model_values {
    const char *ep;
    uint64_t redundant;
    bool json, verify;
};

#define AT(field) .offset = offsetof(struct model_values, field)

static const struct option model_rows[] = {
    {"ep", OPTION_TEXT, "1,8,32,144", "sizes of expert parallelism to show, as a list", AT(ep)},
    {"redundant", OPTION_COUNT, "0",
     "redundant experts per layer, spread over the ranks with the others", AT(redundant),
     .maximum = 1024},
    {"json", OPTION_FLAG, NULL, "print one JSON object", AT(json)},
    {"verify", OPTION_FLAG, NULL,
     "check what serving would, too: that every shard is there, that scales are finite",
     AT(verify)},
};

const struct option_table inspect_model_options = {
    .command = "inspect model",
    .arguments = "DIRECTORY",
    .description =
        "Prints a checkpoint's shape, parameters, memory per rank and KV bytes per token.",
    .options = model_rows,
    .option_count = ARRAY_COUNT(model_rows),
    .positional_min = 1,
    .positional_max = 1,
};

struct inspect_figures {
    const struct checkpoint *checkpoint;
    const struct shape *shape;
    const char *chat_template, *tools_template; /* "own", a built-in one, or NULL: none */
    uint64_t parameters, expert_parameters;     /* of the main model */
    uint64_t bytes;                             /* of the main model, in files */
    uint64_t kind_bytes[LAYOUT_KIND_COUNT];     /* of the main model */
    uint64_t mtp_parameters, mtp_bytes;         /* without copies of embedding and head */
    struct memory_weights memory, memory_mtp;   /* without and with MTP */
    uint32_t redundant;
    struct model_run_sizes ep;
};

/* ---- counting ---- */

/* Bytes of a tensor and its scale: as stored, or computed from the shape if no file has them. */
static uint64_t stored_bytes(const struct inspect_figures *figures,
                             const struct layout_tensor *wanted) {
    const struct tensor *tensor = checkpoint_tensor(figures->checkpoint, wanted->name);
    const uint64_t values = wanted->rows * wanted->columns;
    if (tensor) {
        const struct tensor *scale = checkpoint_scale(figures->checkpoint, tensor);
        return tensor->bytes + (scale ? scale->bytes : 0);
    }
    const struct layout_stored stored = layout_stored(figures->shape, wanted);
    return tensor_type_bytes(stored.type, values) +
           tensor_type_bytes(stored.scale_type, stored.scale_rows * stored.scale_columns);
}

static enum status count_tensor(void *context, const struct layout_tensor *wanted,
                                struct error *error) {
    struct inspect_figures *figures = context;
    const uint64_t values = wanted->rows * wanted->columns;
    const uint64_t bytes = stored_bytes(figures, wanted);
    const bool expert = wanted->kind == LAYOUT_EXPERT;
    if (wanted->is_mtp) {
        if (wanted->optional) return STATUS_OK;
        figures->mtp_parameters += values;
        figures->mtp_bytes += bytes;
        return STATUS_OK;
    }
    figures->parameters += values;
    figures->bytes += bytes;
    figures->kind_bytes[wanted->kind] += bytes;
    if (!expert) return STATUS_OK;
    figures->expert_parameters += values;
    return STATUS_OK;
}

static void inspect_model_count_all(struct inspect_figures *figures) {
    const struct shape *shape = figures->shape;
    enum status status = layout_for_each(shape, count_tensor, figures, NULL);
    check(status == STATUS_OK);
    figures->memory = weights_size_of(figures->checkpoint, false);
    figures->memory_mtp = weights_size_of(figures->checkpoint, true);
    if (!checkpoint_has_mtp(figures->checkpoint)) figures->mtp_parameters = figures->mtp_bytes = 0;
}

static uint64_t active_parameters(const struct inspect_figures *figures) {
    const struct shape *shape = figures->shape;
    if (!shape->experts) return figures->parameters;
    return figures->parameters - figures->expert_parameters / shape->experts *
                                     (shape->experts - shape->experts_per_token);
}

/* The memory of the rank that has most experts. */
struct inspect_rank {
    uint32_t slots;                           /* of experts in each MoE layer */
    uint64_t expert_bytes, bytes, bytes_more; /* the last with MTP, in addition */
};

static struct inspect_rank rank_of(const struct inspect_figures *figures, uint32_t ep) {
    const struct memory_weights *memory = &figures->memory;
    uint32_t slots = memory_need_slots(memory, ep, figures->redundant);
    double bytes = memory_need_rank(memory, slots);
    return (struct inspect_rank){
        .slots = slots,
        .expert_bytes = (uint64_t)(bytes - memory->common),
        .bytes = (uint64_t)bytes,
        .bytes_more = (uint64_t)(memory_need_rank(&figures->memory_mtp, slots) - bytes),
    };
}

static uint32_t mtp_layers(const struct inspect_figures *figures) {
    return checkpoint_has_mtp(figures->checkpoint) ? figures->shape->mtp_layers : 0;
}

static uint64_t inspect_model_kv_bytes(const struct inspect_figures *figures, uint32_t layers,
                                       enum activations activations) {
    struct kv_format format = kv_pages_format(figures->shape, activations, layers, 0);
    return kv_format_token_bytes(&format);
}

/* ---- text ---- */

static void row(const char *label, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void row(const char *label, const char *format, ...) {
    va_list arguments;
    printf("%-22s ", label);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
}

#define AMOUNT_BYTES 24

/* "1.234 GB", "12.3 MB"; unit "B" for bytes, "" for counts. */
static const char *amount(uint64_t value, const char *unit, char out[AMOUNT_BYTES]) {
    static const char *const prefixes[] = {"", "k", "M", "G", "T"};
    double scaled = (double)value;
    size_t prefix = 0;
    for (; scaled >= 1000 && prefix + 1 < ARRAY_COUNT(prefixes); prefix++)
        scaled /= 1000;
    snprintf(out, AMOUNT_BYTES, "%.4g %s%s", scaled, prefixes[prefix], unit);
    return out;
}

static const char *method_name(enum router_method method) {
    return method == ROUTER_NOAUX_TC        ? "noaux_tc"
           : method == ROUTER_GROUP_LIMITED ? "group_limited_greedy"
                                            : "greedy";
}

static void print_template(const struct inspect_figures *figures) {
    const char *tools = figures->tools_template;
    if (!figures->chat_template)
        row("chat template", "none");
    else if (strcmp(figures->chat_template, "own") != 0)
        row("chat template", "none; for all chats the built-in %s", figures->chat_template);
    else if (!tools)
        row("chat template", "its own, without a place for tools");
    else if (strcmp(tools, "own") != 0)
        row("chat template", "its own; for tools the built-in %s", tools);
    else
        row("chat template", "its own, also for tools");
}

/* "bf16" stands for all that is not quantized. */
static const char *experts_form(const struct shape *shape) {
    return named_shapes_weights_name(named_shapes_weights_of(shape));
}

static const char *scoring_name(const struct shape *shape) {
    static const char *const names[] = {[ROUTER_SIGMOID] = "sigmoid",
                                        [ROUTER_SOFTMAX] = "softmax",
                                        [ROUTER_SQRT_SOFTPLUS] = "sqrtsoftplus"};
    return names[shape->scoring];
}

/* The rows of one vector for all heads. */
static void print_compressed(const struct shape *shape) {
    uint32_t sources = 0;
    for (uint32_t layer = 0; layer < shape->layers; layer++)
        sources +=
            shape->layer_kinds[layer].ratio && shape->layer_kinds[layer].entry_source == layer;
    row("attention", "%u heads of %u + %u, query rank %u, window %u, %u output groups of %u",
        shape->heads, shape->nope_dim, shape->rope_dim, shape->q_rank, shape->window,
        shape->output_groups, shape->output_rank);
    row("entries", "made by %u layers, %u of a token, chosen by %u heads of %u", sources,
        shape->index_top_k, shape->index_heads, shape->index_dim);
    row("residual streams", "%u", shape->streams);
}

static void print_shape(const struct inspect_figures *figures) {
    const struct shape *shape = figures->shape;
    row("architecture", "%s", shape_architecture_name(shape->architecture));
    static const char *const packed[] = {[EXPERTS_INT4_32] = "INT4 in groups of 32",
                                         [EXPERTS_INT4_128] = "INT4 in groups of 128",
                                         [EXPERTS_MXFP4] = "MXFP4"};
    if (shape->expert_form != EXPERTS_PLAIN)
        row("weights", "experts %s, the rest %sBF16", packed[shape->expert_form],
            shape->fp8 ? "FP8 E4M3 and " : "");
    else
        row("weights", "%s",
            shape->fp8 ? "FP8 E4M3 in blocks of 128x128, the rest BF16" : "not quantized");
    row("layers", "%u (%u MoE), MTP layers %u%s", shape->layers, figures->memory.moe_layers,
        shape->mtp_layers, shape->mtp_layers > mtp_layers(figures) ? ", weights absent" : "");
    row("hidden, vocabulary", "%u, %u%s", shape->hidden, shape->vocab,
        shape->tied_head ? ", head tied to the embedding" : "");
    if (shape_is_compressed(shape))
        print_compressed(shape);
    else
        row("attention", "%u heads of %u + %u, values %u, query rank %u, latent %u + %u",
            shape->heads, shape->nope_dim, shape->rope_dim, shape->value_dim, shape->q_rank,
            shape->kv_rank, shape->rope_dim);
    if (shape_has_index(shape) && !shape_is_compressed(shape))
        row("sparse attention", "%u rows of a token, chosen by %u heads of %u", shape->index_top_k,
            shape->index_heads, shape->index_dim);
    row("MLP width", "%u dense, %u expert", shape->dense_width, shape->expert_width);
    if (shape->experts)
        row("experts", "%u + %u shared, %u per token, %s, %s, groups %u of %u, scaling %g",
            shape->experts, shape->shared_experts, shape->experts_per_token, scoring_name(shape),
            method_name(shape->method), shape->groups_kept, shape->groups,
            (double)shape->routed_scaling);
    if (shape->yarn)
        row("RoPE", "YaRN x%g over %u, theta %g", (double)shape->yarn_factor,
            shape->yarn_original_context, (double)shape->rope_theta);
    else
        row("RoPE", "plain, theta %g", (double)shape->rope_theta);
    row("context", "%u tokens", shape->context_max);
    print_template(figures);
}

static void print_sizes(const struct inspect_figures *figures) {
    char first[AMOUNT_BYTES], second[AMOUNT_BYTES];
    row("parameters", "%s, %s active for a token", amount(figures->parameters, "", first),
        amount(active_parameters(figures), "", second));
    row("bytes", "%s", amount(figures->bytes, "B", first));
    for (int kind = 0; kind < LAYOUT_KIND_COUNT; kind++)
        if (figures->kind_bytes[kind])
            printf("  %-20s %s\n", layout_kind_name((enum layout_kind)kind),
                   amount(figures->kind_bytes[kind], "B", first));
    if (mtp_layers(figures))
        row("MTP layers", "%s parameters, %s (embedding and head are the model's)",
            amount(figures->mtp_parameters, "", first), amount(figures->mtp_bytes, "B", second));
}

static void print_kv(const struct inspect_figures *figures) {
    const uint32_t layers = figures->shape->layers, mtp = mtp_layers(figures);
    static const enum activations modes[] = {ACTIVATIONS_BF16, ACTIVATIONS_F32};
    for (uint32_t i = 0; i < ARRAY_COUNT(modes); i++) {
        const char *label =
            modes[i] == ACTIVATIONS_BF16 ? "KV per token, BF16" : "KV per token, F32";
        unsigned long long bytes = inspect_model_kv_bytes(figures, layers, modes[i]);
        unsigned long long more = inspect_model_kv_bytes(figures, layers + mtp, modes[i]);
        if (mtp)
            row(label, "%llu bytes, %llu with MTP", bytes, more);
        else
            row(label, "%llu bytes", bytes);
    }
}

static void print_ranks(const struct inspect_figures *figures) {
    char cells[4][AMOUNT_BYTES];
    printf("\nMemory of a rank for weights, without KV cache and steps:\n"
           "EP ranks  experts a layer     experts       other       total%s\n",
           mtp_layers(figures) ? "    with MTP" : "");
    for (uint32_t i = 0; i < figures->ep.count; i++) {
        const struct inspect_rank rank = rank_of(figures, figures->ep.values[i]);
        printf("%8u  %15u  %10s  %10s  %10s", figures->ep.values[i], rank.slots,
               amount(rank.expert_bytes, "B", cells[0]),
               amount(rank.bytes - rank.expert_bytes, "B", cells[1]),
               amount(rank.bytes, "B", cells[2]));
        if (mtp_layers(figures))
            printf("  %10s", amount(rank.bytes + rank.bytes_more, "B", cells[3]));
        printf("\n");
    }
}

/* ---- JSON ---- */

static void print_json_template(struct json_print *print, const char *name, const char *text) {
    if (text)
        json_print_text(print, name, text);
    else
        json_print_values(print, "\"%s\":null", name);
}

static void print_json_shape(struct json_print *print, const struct inspect_figures *figures) {
    const struct shape *shape = figures->shape;
    json_print_text(print, "architecture", shape_architecture_name(shape->architecture));
    json_print_bool(print, "fp8", shape->fp8);
    if (shape->experts) json_print_text(print, "experts_form", experts_form(shape));
    json_print_values(
        print,
        "\"layers\":%u,\"moe_layers\":%u,\"mtp_layers\":%u,\"hidden\":%u,\"vocab\":%u,"
        "\"heads\":%u,\"q_rank\":%u,\"kv_rank\":%u,\"nope_dim\":%u,\"rope_dim\":%u,"
        "\"value_dim\":%u,\"dense_width\":%u,\"expert_width\":%u,\"experts\":%u,"
        "\"shared_experts\":%u,\"experts_per_token\":%u,\"groups\":%u,\"groups_kept\":%u,"
        "\"context_max\":%u,\"index_heads\":%u,\"index_dim\":%u,\"index_top_k\":%u",
        shape->layers, figures->memory.moe_layers, mtp_layers(figures), shape->hidden, shape->vocab,
        shape->heads, shape->q_rank, shape->kv_rank, shape->nope_dim, shape->rope_dim,
        shape->value_dim, shape->dense_width, shape->expert_width, shape->experts,
        shape->shared_experts, shape->experts_per_token, shape->groups, shape->groups_kept,
        shape->context_max, shape->index_heads, shape->index_dim, shape->index_top_k);
    json_print_text(print, "scoring", scoring_name(shape));
    json_print_text(print, "method", method_name(shape->method));
    json_print_bool(print, "yarn", shape->yarn);
    print_json_template(print, "chat_template", figures->chat_template);
    print_json_template(print, "tools_template", figures->tools_template);
}

static void print_json_rank(struct json_print *print, const struct inspect_figures *figures,
                            uint32_t ep) {
    const struct inspect_rank rank = rank_of(figures, ep);
    json_print_open(print, NULL, '{');
    json_print_values(print,
                      "\"ep\":%u,\"experts_per_layer\":%u,\"expert_bytes\":%lu,"
                      "\"other_bytes\":%lu,\"bytes\":%lu,\"mtp_bytes\":%lu",
                      ep, rank.slots, rank.expert_bytes, rank.bytes - rank.expert_bytes, rank.bytes,
                      rank.bytes_more);
    json_print_close(print);
}

static void inspect_model_print_json(const struct inspect_figures *figures) {
    const uint32_t layers = figures->shape->layers, all = layers + mtp_layers(figures);
    struct json_print json = {.off = false}, *print = &json;
    json_print_open(print, NULL, '{');
    print_json_shape(print, figures);
    json_print_count(print, "parameters", figures->parameters);
    json_print_count(print, "active_parameters", active_parameters(figures));
    json_print_count(print, "bytes", figures->bytes);
    json_print_open(print, "bytes_by_kind", '{');
    for (int kind = 0; kind < LAYOUT_KIND_COUNT; kind++)
        if (figures->kind_bytes[kind])
            json_print_count(print, layout_kind_name((enum layout_kind)kind),
                             figures->kind_bytes[kind]);
    json_print_close(print);
    json_print_count(print, "mtp_parameters", figures->mtp_parameters);
    json_print_count(print, "mtp_bytes", figures->mtp_bytes);
    json_print_open(print, "kv_bytes_per_token", '{');
    json_print_values(print, "\"bf16\":%lu,\"f32\":%lu,\"bf16_mtp\":%lu,\"f32_mtp\":%lu",
                      inspect_model_kv_bytes(figures, layers, ACTIVATIONS_BF16),
                      inspect_model_kv_bytes(figures, layers, ACTIVATIONS_F32),
                      inspect_model_kv_bytes(figures, all, ACTIVATIONS_BF16),
                      inspect_model_kv_bytes(figures, all, ACTIVATIONS_F32));
    json_print_close(print);
    json_print_open(print, "ranks", '[');
    for (uint32_t i = 0; i < figures->ep.count; i++)
        print_json_rank(print, figures, figures->ep.values[i]);
    json_print_close(print);
    json_print_close(print);
}

/* ---- templates ---- */

#ifdef FATHOM_SERVING
static enum status find_templates(const char *directory, struct inspect_figures *figures,
                                  struct error *error) {
    struct template_choice choice = {.brings_tools = true};
    struct model_text text;
    enum status status = model_text_open_template(directory, &choice, &text, error);
    if (status) return status;
    const struct chat_template *found = &text.chat_template;
    figures->chat_template = found->stand_in ? found->stand_in : found->present ? "own" : NULL;
    figures->tools_template = found->builtin        ? found->builtin
                              : found->prints_tools ? figures->chat_template
                                                    : NULL;
    model_text_close(&text);
    return STATUS_OK;
}
#else /* the engine alone renders no chats */
static enum status find_templates(const char *directory, struct inspect_figures *figures,
                                  struct error *error) {
    return STATUS_OK;
}
#endif

/* ---- the program ---- */

int inspect_model(void *given, const struct option_result *result) {
    struct model_values *values = given;
    struct error error;
    struct checkpoint *checkpoint;
    struct inspect_figures figures = {.redundant = (uint32_t)values->redundant};
    if (model_run_sizes_within("--ep", values->ep, 1, LIMIT_VOCAB - 1, &figures.ep, &error))
        return command_misused("%s", error.text);
    const char *directory;
    enum status status = model_run_directory(result->positional[0], &directory, &error);
    if (status == STATUS_OK)
        status =
            checkpoint_open(directory, values->verify ? CHECKPOINT_WHOLE : CHECKPOINT_SHAPE_ONLY,
                            &checkpoint, &error);
    if (status != STATUS_OK) return command_failed(status, &error);
    status = find_templates(directory, &figures, &error);
    if (status != STATUS_OK) {
        checkpoint_close(checkpoint);
        return command_failed(status, &error);
    }
    figures.checkpoint = checkpoint;
    figures.shape = checkpoint_shape(checkpoint);
    inspect_model_count_all(&figures);
    if (values->json) {
        inspect_model_print_json(&figures);
    } else {
        print_shape(&figures);
        print_sizes(&figures);
        print_kv(&figures);
        print_ranks(&figures);
    }
    checkpoint_close(checkpoint);
    return command_end(STATUS_OK, NULL);
}
