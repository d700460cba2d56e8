/* SPDX-License-Identifier: Apache-2.0
 * Opens and closes a model: checkpoint, kernels, threads, weights, KV pages, scratch.
 */
#include "compute/model/model.h"

#include "base/check.h"
#include "compute/device/device.h"
#include "compute/model/compute.h"
#include "compute/model/draft.h"
#include "compute/model/engram.h"
#include "compute/model/linear.h"
#include "compute/model/moves.h"
#include "compute/model/scratch.h"
#include "compute/weights/weights_size.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Increase it whenever the same weights and tokens may give other bits. It is part of every KV
 * block key. */
#define NUMERICS_VERSION "v1"

static enum status check_placement(const struct model *model, const struct model_options *options,
                                   struct error *error) {
    uint32_t slots = options->placement_slots, moe_layers = 0;
    for (uint32_t layer = 0; layer < model->placement.layers; layer++)
        moe_layers += shape_layer_is_moe(model->shape, layer);
    uint32_t ranks = model->placement.ranks;
    if (slots % ranks || slots < model->shape->experts)
        return error_set(error, STATUS_INVALID,
                         "the placement has %u slots a layer, expected a multiple of %u ranks that "
                         "holds %u experts",
                         slots, ranks, model->shape->experts);
    if (options->placement_layers > moe_layers)
        return error_set(error, STATUS_INVALID, "the placement has %u layers, the model %u",
                         options->placement_layers, moe_layers);
    return STATUS_OK;
}

static void take_placement(struct model *model, const struct model_options *options) {
    const uint16_t *from = options->placement;
    uint32_t slots = options->placement_slots, taken = 0;
    for (uint32_t layer = 0; layer < model->placement.layers; layer++) {
        if (!shape_layer_is_moe(model->shape, layer) || taken == options->placement_layers)
            continue;
        for (uint32_t slot = 0; slot < slots; slot++)
            model->placement.slot_expert[(size_t)layer * slots + slot] = *from++;
        taken++;
    }
}

/* Computes the placement of all ranks' experts. It is the same on every rank. */
static enum status open_placement(struct model *model, const struct model_options *options,
                                  bool mtp, struct error *error) {
    uint32_t experts = model->shape->experts, ranks = options->rank_count ? options->rank_count : 1;
    if (!experts || (ranks == 1 && !options->placement)) return STATUS_OK;
    uint32_t each = options->placement
                        ? options->placement_slots / ranks
                        : placement_slots_per_rank(experts, ranks, options->redundant_experts);
    enum status status =
        placement_open(&model->placement, model->shape->layers + mtp, experts, ranks, each, error);
    if (status == STATUS_OK && options->node_ranks) {
        model->placement.node_ranks = options->node_ranks;
        if (ranks % options->node_ranks)
            status = error_set(error, STATUS_INVALID,
                               "%u ranks do not divide into nodes of %u ranks: expected the same "
                               "number on each node",
                               ranks, options->node_ranks);
    }
    if (status == STATUS_OK && options->placement) status = check_placement(model, options, error);
    if (status != STATUS_OK) return status;
    placement_spread(&model->placement, options->placement_seed);
    if (options->placement) take_placement(model, options);
    status = placement_index(&model->placement, error);
    if (ranks == 1) placement_close(&model->placement); /* it was only validated */
    return status;
}

static enum status open_micro_batch(const struct exchange_options *options,
                                    const struct model_options *model_options,
                                    struct exchange **exchange_out, struct error *error) {
    if (!options->placement) return exchange_open_local(options, exchange_out, error);
    if (!model_options->echoes) return exchange_open_ranks(options, exchange_out, error);
    return exchange_open_loopback(options, model_options->echo_rows, exchange_out, error);
}

static enum status open_exchange(struct model *model, const struct model_options *model_options,
                                 struct error *error) {
    const struct shape *shape = model->shape;
    if (!shape->experts) return STATUS_OK;
    struct exchange_options options = {.tokens_max = model->step_tokens_max,
                                       .experts = shape->experts,
                                       .experts_per_token = shape->experts_per_token};
    if (model->placement.ranks) options.placement = &model->placement;
    options.rank = model_options->rank;
    options.dispatch_bytes = model->dispatch_bytes;
    options.combine_bytes = model->combine_bytes;
    options.group_experts = model->group_experts;
    options.sum = model->compute->experts_sum;
    options.sum_context = model;
    options.link = &model->link;
    if (model_options->near_gbps > 0) options.node_link = &model->node_link;
    model->node_link.ns_per_byte = model_options->near_gbps > 0 ? 8 / model_options->near_gbps : 0;
    model_set_link(model, model_options->link_gbps, model_options->link_us);
    enum status status = STATUS_OK;
    for (uint32_t micro_batch = 0; !status && micro_batch < OVERLAP_MICRO_BATCHES; micro_batch++) {
        options.channel = micro_batch;
        status = open_micro_batch(&options, model_options,
                                  &model->micro_batches[micro_batch].exchange, error);
    }
    return status;
}

static enum status open_batches(struct model *model, struct error *error) {
    uint32_t tokens = model->scratch_tokens, rows = model->step_rows_max;
    enum status status = batch_open(&model->batch, tokens, rows, error);
    for (uint32_t micro_batch = 0; !status && micro_batch < OVERLAP_MICRO_BATCHES; micro_batch++)
        status = batch_open(&model->micro_batches[micro_batch].batch, tokens, rows, error);
    if (status || !model->weights.mtp) return status;
    status = batch_open(&model->mtp_rows, tokens, rows, error);
    return status ? status : batch_open(&model->mtp_batch, tokens, rows, error);
}

/* True if attention multiplies BF16 values, pair by pair. */
static bool multiplies_bf16(const struct model *model) {
    const struct shape *shape = model->shape;
    if (shape_is_compressed(shape)) return false;
    return model->kernels->gemm_bf16 && model->rounds_bf16 && shape->nope_dim % 2 == 0 &&
           shape->rope_dim % 2 == 0 && shape->value_dim % 2 == 0 && shape->kv_rank % 2 == 0 &&
           shape_kv_width(shape) % 4 == 0;
}

/* Sets what options and checkpoint determine. Returns whether the model will have its MTP layer. */
static bool describe(struct model *model, const struct model_options *options,
                     const struct checkpoint *checkpoint) {
    bool mtp = options->mtp && checkpoint_has_mtp(checkpoint);
    model->shape = checkpoint_shape(checkpoint);
    model->activations = options->activations;
    model->rounds_bf16 = activations_round_bf16(options->activations);
    model->step_tokens_max = model->scratch_tokens = options->step_tokens_max;
    model->step_rows_max = options->step_rows_max;
    model->slots_max = options->slots_max ? options->slots_max : options->step_rows_max;
    if (mtp) model->scratch_tokens += options->step_rows_max * LIMIT_DRAFTS;
    if (options->expert_sum == EXPERT_SUM_GROUPS)
        model->group_experts = model->shape->experts / model->shape->groups;
    return mtp;
}

enum status model_need(const struct model_options *options, const struct checkpoint *checkpoint,
                       struct memory_need *need_out, struct error *error) {
    struct mtp_weights present;
    struct model model = {.shape = NULL};
    uint32_t ranks = options->rank_count ? options->rank_count : 1;
    bool mtp = describe(&model, options, checkpoint);
    if (mtp) model.weights.mtp = &present;
    if (ranks > 1) model.placement.ranks = ranks;
    enum status status = kernels_select(options->level, &model.kernels, error);
    if (status == STATUS_OK) status = team_open(options->threads, &model.team, error);
    if (status != STATUS_OK) return status;
    model.bf16_attention = multiplies_bf16(&model);
    size_t logits = (size_t)options->step_rows_max * (1 + LIMIT_DRAFTS) * model.shape->vocab;
    *need_out = (struct memory_need){
        .model = weights_size_of(checkpoint, mtp),
        .ranks = ranks,
        .redundant = options->redundant_experts,
        .host_ranks = options->node_ranks ? options->node_ranks : ranks,
        .shares = options->weights_directory != NULL,
        .kv = (double)options->kv_bytes * ranks,
        .step = (double)(scratch_bytes(&model) + logits * sizeof(float)),
    };
    team_close(model.team);
    return STATUS_OK;
}

/* Refuses what V4's layers cannot do yet. */
static enum status check_compressed(const struct model *model, const struct model_options *options,
                                    struct error *error) {
    const bool fp8 =
        options->activations == ACTIVATIONS_FP8 || options->activations == ACTIVATIONS_FP8_F32;
    if (!shape_is_compressed(model->shape)) return STATUS_OK;
    if (options->device && options->device != &model_on_cpu)
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s: models of this form run on CPUs alone; give --device cpu",
                         shape_architecture_name(model->shape->architecture));
    if (fp8 && options->rank_count > 1)
        return error_set(
            error, STATUS_UNSUPPORTED,
            "--activations %s: a model of this form weighs its experts' results before "
            "they are rounded, which several ranks cannot do; give bf16 or f32",
            activations_name(options->activations));
    return STATUS_OK;
}

static enum status open_state(struct model *model, const struct model_options *options,
                              uint32_t layers, struct error *error) {
    model->compressed = compressed_rows_place(model->shape, model->kv.element);
    model->kv_rounding = !options->kv_exact;
    enum status status = engram_open(model, error);
    if (status != STATUS_OK) return status;
    return sequence_state_open(&model->state, model->shape, layers, model->slots_max,
                               shape_kv_width(model->shape) * model->compressed.element_bytes,
                               error);
}

static enum status model_open_parts(struct model *model, const struct model_options *options,
                                    struct error *error) {
    enum status status = STATUS_OK;
    const struct load_progress progress = {options->progress, options->progress_context};
    model->checkpoint = options->checkpoint;
    if (!model->checkpoint)
        status = checkpoint_open_reporting(options->directory, CHECKPOINT_UNVERIFIED, &progress,
                                           &model->checkpoint, error);
    if (status == STATUS_OK) status = checkpoint_verify(model->checkpoint, &progress, error);
    if (status != STATUS_OK) return status;
    bool mtp = describe(model, options, model->checkpoint);
    checkpoint_identity(model->checkpoint, model->identity);
    status = check_compressed(model, options, error);
    if (status != STATUS_OK) return status;
    if (options->mtp_required && !mtp)
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s has no MTP layer, which is needed for drafts; run without drafts",
                         options->directory);
    struct kv_format format =
        kv_pages_format(model->shape, options->activations, model->shape->layers + mtp, mtp);
    if (options->fp8_index && model->shape->fp8 && shape_has_index(model->shape) &&
        !shape_is_compressed(model->shape))
        format.groups[KV_GROUP_INDEX].element = KV_ELEMENT_E4M3;
    const struct model_device *device = options->device ? options->device : &model_on_cpu;
    model->compute = device->compute;
    if (device->open) status = device->open(model, options, error);
    if (status == STATUS_OK) status = kernels_select(options->level, &model->kernels, error);
    model->bf16_attention = status == STATUS_OK && multiplies_bf16(model);
    if (status == STATUS_OK) status = team_open(options->threads, &model->team, error);
    if (status == STATUS_OK) status = kv_pages_open(&model->kv, &format, options->kv_bytes, error);
    if (status == STATUS_OK && shape_is_compressed(model->shape))
        status = open_state(model, options, model->shape->layers + mtp, error);
    if (status == STATUS_OK && model->device)
        status = kv_pages_put_on(&model->kv, model->device, error);
    if (status == STATUS_OK) status = open_placement(model, options, mtp, error);
    struct weights_options weights = {.mtp = mtp,
                                      .placement =
                                          model->placement.ranks ? &model->placement : NULL,
                                      .rank = options->rank,
                                      .move_bytes = options->move_bytes,
                                      .level = (uint32_t)options->level,
                                      .directory = options->weights_directory,
                                      .unit = options->weights_unit,
                                      .verify = options->weights_verify,
                                      .device = model->device,
                                      .kv_b_bf16 = model->kv_b_bf16};
    if (status == STATUS_OK)
        status = weights_load(&model->weights, model->checkpoint, &weights, model->team, &progress,
                              error);
    const struct packed_matrix *gate = &model->weights.expert.matrices.gate;
    model->dispatch_form =
        linear_row_mode(linear_stored_kind(linear_kind_of(model->activations, gate)));
    model->combine_form = model->rounds_bf16 ? ROW_BF16 : ROW_F32;
    model->dispatch_bytes =
        (uint32_t)exchange_rows_bytes(model->dispatch_form, model->shape->hidden);
    model->combine_bytes = (uint32_t)exchange_rows_bytes(model->combine_form, model->shape->hidden);
    model->rows_by_host = options->rows_by_host || options->echoes;
    if (status == STATUS_OK) status = model->compute->open(model, error);
    if (status == STATUS_OK) status = open_batches(model, error);
    if (status == STATUS_OK && mtp) status = draft_open(model, error);
    if (status == STATUS_OK) status = open_exchange(model, options, error);
    if (status == STATUS_OK) status = moves_open(model, options->move_bytes, error);
    model->slot_tokens = calloc(model->weights.slot_count + 1, sizeof *model->slot_tokens);
    if (status == STATUS_OK && !model->slot_tokens)
        status = error_set(error, STATUS_NO_MEMORY, "no memory to count tokens");
    return status;
}

enum status model_open(const struct model_options *options, struct model **model_out,
                       struct error *error) {
    check(options->step_tokens_max > 0 && options->step_rows_max > 0);
    struct model *model = calloc(1, sizeof *model);
    if (!model) return error_set(error, STATUS_NO_MEMORY, "no memory for the model");
    model->rank = options->rank;
    model->trace = options->trace;
    enum status status = model_open_parts(model, options, error);
    if (status != STATUS_OK) {
        model_close(model);
        return status;
    }
    snprintf(model->numerics_id, sizeof model->numerics_id, "%s.%s%s.%s",
             model->compute->numerics(model), activations_name(model->activations),
             options->expert_sum == EXPERT_SUM_GROUPS ? ".groups" : "", NUMERICS_VERSION);
    *model_out = model;
    return STATUS_OK;
}

void model_close(struct model *model) {
    if (!model) return;
    for (uint32_t micro_batch = 0; micro_batch < OVERLAP_MICRO_BATCHES; micro_batch++) {
        exchange_close(model->micro_batches[micro_batch].exchange);
        batch_close(&model->micro_batches[micro_batch].batch);
    }
    moves_close(model);
    free(model->slot_tokens);
    draft_close(model);
    placement_close(&model->placement);
    batch_close(&model->batch);
    batch_close(&model->mtp_rows);
    batch_close(&model->mtp_batch);
    if (model->compute) model->compute->close(model);
    weights_close(&model->weights);
    kv_pages_close(&model->kv);
    sequence_state_close(&model->state);
    engram_close(model);
    team_close(model->team);
    checkpoint_close(model->checkpoint);
    device_close(model->device);
    free(model);
}

bool model_want_draws(struct model *model, struct model_draws draws) {
    if (!model->compute->draw) return false;
    model->draws = draws;
    return true;
}

void model_set_follower(struct model *model, const struct model_follower *follower) {
    model->follower = follower ? *follower : (struct model_follower){.written = NULL};
}

void model_set_link(struct model *model, double gbps, double us) {
    model->link.ns_per_byte = gbps > 0 ? 8 / gbps : 0;
    model->link.latency_ns = (int64_t)(us * 1e3);
}

const char *model_weights_notice(const struct model *model) {
    return model->weights.notice.text;
}
void model_split_replicas(struct model *model, bool splits) {
    for (uint32_t micro_batch = 0; micro_batch < OVERLAP_MICRO_BATCHES && model->shape->experts;
         micro_batch++)
        exchange_split_replicas(model->micro_batches[micro_batch].exchange, splits);
}

void model_go_by_nodes(struct model *model, bool by_nodes) {
    for (uint32_t micro_batch = 0; micro_batch < OVERLAP_MICRO_BATCHES && model->shape->experts;
         micro_batch++)
        exchange_set_two_levels(model->micro_batches[micro_batch].exchange, by_nodes);
}

void model_echo_rows(struct model *model, uint32_t slot_rows) {
    for (uint32_t micro_batch = 0; micro_batch < OVERLAP_MICRO_BATCHES; micro_batch++)
        exchange_loopback_rows(model->micro_batches[micro_batch].exchange, slot_rows);
}

bool model_has_mtp(const struct model *model) {
    return model->weights.mtp != NULL;
}
const struct shape *model_shape(const struct model *model) {
    return model->shape;
}
uint32_t model_page_count(const struct model *model) {
    return model->kv.page_count;
}
uint64_t model_page_bytes(const struct model *model) {
    return model->kv.page_bytes;
}
struct kv_pages *model_kv_pages(struct model *model) {
    return &model->kv;
}
uint64_t model_weight_bytes(const struct model *model) {
    return model->weights.bytes;
}
struct model_rank model_rank(const struct model *model) {
    struct model_moving moves = moves_reported(model);
    struct exchange_counts counts = {0};
    for (uint32_t micro_batch = 0; micro_batch < OVERLAP_MICRO_BATCHES && model->shape->experts;
         micro_batch++) {
        struct exchange_counts more = exchange_counts(model->micro_batches[micro_batch].exchange);
        counts.tokens_dispatched += more.tokens_dispatched;
        counts.pairs += more.pairs;
        counts.bytes_sent += more.bytes_sent;
        counts.experts_ns += more.experts_ns;
        counts.bytes_between_nodes += more.bytes_between_nodes;
        counts.transfer_ns += more.transfer_ns;
        counts.dispatch_ns += more.dispatch_ns;
        counts.waited_ns += more.waited_ns;
    }
    uint32_t slots_used = 0;
    for (uint32_t slot = 0; slot < model->weights.slot_count; slot++)
        slots_used += model->slot_tokens[slot] > 0;
    return (struct model_rank){
        .rank = model->rank,
        .rank_count = model->placement.ranks ? model->placement.ranks : 1,
        .slots = model->placement.ranks ? model->placement.slots_per_rank : model->shape->experts,
        .weight_bytes = model->weights.bytes,
        .mapped_bytes = weights_mapped(&model->weights),
        .read_bytes = model->weights.read_bytes,
        .tokens = model->tokens,
        .tokens_dispatched = counts.tokens_dispatched,
        .pairs = counts.pairs,
        .slots_used = slots_used,
        .bytes_sent = counts.bytes_sent,
        .bytes_between_nodes = counts.bytes_between_nodes,
        .experts_moved = moves.moves,
        .bytes_moved = moves.bytes,
        .experts_ns = counts.experts_ns,
        .transfer_ns = counts.transfer_ns,
        .dispatch_ns = counts.dispatch_ns,
        .waited_ns = counts.waited_ns,
    };
}
/* Bytes of the routed experts that the tokens use in that many layers, if they choose evenly. */
static double routed_bytes(const struct model *model, uint32_t layers, uint32_t tokens) {
    uint32_t all_layers =
        model->weights.mtp && shape_layer_is_moe(model->shape, model->shape->layers);
    for (uint32_t layer = 0; layer < model->shape->layers; layer++)
        all_layers += shape_layer_is_moe(model->shape, layer);
    if (!all_layers) return 0;
    double slots = (double)model->weights.slot_count * layers / all_layers;
    double untouched = 1; /* chance that no token chose a given expert */
    for (uint32_t i = 0; i < tokens; i++)
        untouched *= 1 - (double)model->shape->experts_per_token / model->shape->experts;
    return slots * (double)model->weights.expert.slot_bytes * (1 - untouched);
}

double model_step_bytes(const struct model *model, uint32_t tokens) {
    const struct weights *weights = &model->weights;
    double slots = (double)weights->slot_count * (double)weights->expert.slot_bytes;
    uint32_t moe_layers = 0;
    for (uint32_t layer = 0; layer < model->shape->layers; layer++)
        moe_layers += shape_layer_is_moe(model->shape, layer);
    return (double)weights->bytes - (double)weights->mtp_bytes - slots +
           routed_bytes(model, moe_layers, tokens);
}

const char *model_numerics_id(const struct model *model) {
    return model->numerics_id;
}
const uint8_t *model_identity(const struct model *model) {
    return model->identity;
}

double model_byte_ns(const struct model *model, bool near) {
    return near && model->node_link.ns_per_byte > 0 ? model->node_link.ns_per_byte
                                                    : model->link.ns_per_byte;
}
uint64_t model_expert_bytes(const struct model *model) {
    return model->weights.expert.slot_bytes;
}
uint32_t model_copy_bytes(const struct model *model) {
    uint32_t hidden = model->shape->hidden;
    size_t bytes = exchange_rows_bytes(model->dispatch_form, hidden);
    if (model->group_experts) bytes += exchange_rows_bytes(model->combine_form, hidden);
    return (uint32_t)bytes;
}
const struct placement *model_placement(const struct model *model) {
    return &model->placement;
}

bool model_layer_moves(const struct model *model, uint32_t layer) {
    return shape_layer_is_moe(model->shape, layer);
}

uint32_t model_slot_count(const struct model *model) {
    return model->weights.slot_count;
}

void model_take_tokens(struct model *model, uint32_t *tokens_out) {
    size_t bytes = model->weights.slot_count * sizeof *tokens_out;
    memcpy(tokens_out, model->slot_tokens, bytes);
    memset(model->slot_tokens, 0, bytes);
}
