/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/hardware/hardware_file.h"

#include "base/limits.h"
#include "simulate/hardware/stage_rates.h"
#include "simulate/hardware/step_rows.h"

/* ---- hardware ---- */

#define KEY(name, least, most)                                                                     \
    { #name, offsetof(struct hardware, name), least, most, false, 0 }

struct node_gpus {
    double gpus_per_node;
};

static enum status read_stages(struct arena *arena, const struct figure_place *place,
                               struct hardware *hardware) {
    struct hardware_stages *stages = arena_take_zeroed(arena, sizeof *stages);
    const struct figure_place by_stage = figure_tree_place_below(place, "stages"),
                              by_step = figure_tree_place_below(place, "steps");
    if (!stages)
        return error_set(place->error, STATUS_NO_MEMORY, "%.200s: no memory for its stages",
                         place->file);
    hardware->stages = stages;
    if (!by_stage.object == !by_step.object)
        return error_set(place->error, STATUS_INVALID,
                         "%.200s: expected either stages or steps, found %s", place->file,
                         by_stage.object ? "both" : "none");
    if (by_stage.object) return stage_rates_read(arena, &by_stage, hardware, stages);
    struct step_rows *rows = arena_take_zeroed(arena, sizeof *rows);
    if (!rows)
        return error_set(place->error, STATUS_NO_MEMORY, "%.200s: no memory for its steps",
                         place->file);
    stages->rows = rows;
    return step_rows_read(arena, &by_step, rows);
}

enum status hardware_file_read(struct arena *arena, const struct tree *tree, const char *name,
                               struct hardware *hardware_out, struct error *error) {
    static const struct figure_row rows[] = {
        KEY(hbm_bytes, 1e6, 1e15),       KEY(hbm_gbps, 1e-3, 1e6),
        KEY(nic_gbps, 1e-3, 1e6),        KEY(nvlink_gbps, 1e-3, 1e6),
        KEY(network_latency_us, 0, 1e6), KEY(host_memory_bytes, 0, 1e15),
        KEY(storage_gbps, 0, 1e6),       KEY(storage_latency_us, 0, 1e9),
        KEY(step_gap_us, 0, 1e9),        KEY(request_us, 0, 1e9),
        KEY(token_us, 0, 1e9),           KEY(node_price, 0, 1e9),
    };
    static const struct figure_row gpu_rows[] = {
        {"gpus_per_node", offsetof(struct node_gpus, gpus_per_node), 1, 1024, false, 0}};
    static const char *const others[] = {"name", "gpus_per_node", "stages", "steps", NULL};
    static const char *const all[] = {"name",
                                      "hbm_bytes",
                                      "hbm_gbps",
                                      "nic_gbps",
                                      "nvlink_gbps",
                                      "network_latency_us",
                                      "host_memory_bytes",
                                      "storage_gbps",
                                      "storage_latency_us",
                                      "step_gap_us",
                                      "request_us",
                                      "token_us",
                                      "node_price",
                                      "stages",
                                      "steps",
                                      NULL};
    const struct figure_place place = {.object = tree, .file = name, .error = error};
    struct node_gpus gpus;
    struct hardware hardware = {0};
    enum status status =
        figure_tree_place_read(&place, rows, sizeof rows / sizeof *rows, others, &hardware);
    if (!status) status = figure_tree_place_read(&place, gpu_rows, 1, all, &gpus);
    if (!status)
        status = figure_tree_place_text(&place, "name", hardware.name, sizeof hardware.name);
    if (status) return status;
    hardware.gpus_per_node = (uint32_t)gpus.gpus_per_node;
    status = read_stages(arena, &place, &hardware);
    if (!status) *hardware_out = hardware;
    return status;
}

/* ---- a model ---- */

struct model_numbers {
    double layers, dense_layers, hidden, heads, q_rank, kv_rank, rope_dim, nope_dim, value_dim;
    double experts, experts_per_token, expert_groups, groups_per_token, expert_hidden;
    double shared_experts, dense_hidden, vocab, kv_bytes_per_token, mtp_acceptance;
};

#define FIGURE(name, least, most)                                                                  \
    { #name, offsetof(struct model_numbers, name), least, most, false, 0 }

static void take_numbers(const struct model_numbers *numbers, struct model_figures *model) {
#define TAKE(name) model->name = (uint32_t)numbers->name
    TAKE(layers), TAKE(dense_layers), TAKE(hidden), TAKE(heads), TAKE(q_rank), TAKE(kv_rank);
    TAKE(rope_dim), TAKE(nope_dim), TAKE(value_dim), TAKE(experts), TAKE(experts_per_token);
    TAKE(expert_groups), TAKE(groups_per_token), TAKE(expert_hidden), TAKE(shared_experts);
    TAKE(dense_hidden), TAKE(vocab);
#undef TAKE
    model->kv_bytes_per_token = numbers->kv_bytes_per_token;
    model->mtp_acceptance = numbers->mtp_acceptance;
}

enum status hardware_file_model_figures_read(const struct tree *tree, const char *name,
                                             struct model_figures *model_out, struct error *error) {
    static const struct figure_row rows[] = {
        FIGURE(layers, 1, LIMIT_LAYERS),
        FIGURE(dense_layers, 0, LIMIT_LAYERS),
        FIGURE(hidden, 1, 1e6),
        FIGURE(heads, 1, 1e4),
        FIGURE(q_rank, 0, 1e6),
        FIGURE(kv_rank, 1, 1e6),
        FIGURE(rope_dim, 0, 1e4),
        FIGURE(nope_dim, 1, 1e4),
        FIGURE(value_dim, 1, 1e4),
        FIGURE(experts, 1, LIMIT_EXPERTS),
        FIGURE(experts_per_token, 1, LIMIT_TOP_K_EXPERTS),
        FIGURE(expert_groups, 1, LIMIT_EXPERTS),
        FIGURE(groups_per_token, 1, LIMIT_EXPERTS),
        FIGURE(expert_hidden, 1, 1e6),
        FIGURE(shared_experts, 0, 64),
        FIGURE(dense_hidden, 1, 1e6),
        FIGURE(vocab, 1, LIMIT_VOCAB),
        FIGURE(kv_bytes_per_token, 1, 1e9),
        FIGURE(mtp_acceptance, 0, 1),
    };
    static const char *const others[] = {"name", NULL};
    const struct figure_place place = {.object = tree, .file = name, .error = error};
    struct model_numbers numbers;
    struct model_figures model = {.layers = 0};
    enum status status =
        figure_tree_place_read(&place, rows, sizeof rows / sizeof *rows, others, &numbers);
    if (!status) status = figure_tree_place_text(&place, "name", model.name, sizeof model.name);
    if (status) return status;
    take_numbers(&numbers, &model);
    if (model.dense_layers > model.layers || model.groups_per_token > model.expert_groups ||
        model.experts_per_token > model.experts || model.experts % model.expert_groups)
        return error_set(error, STATUS_INVALID,
                         "%.200s: its layers, groups or experts do not fit together", name);
    *model_out = model;
    return STATUS_OK;
}
