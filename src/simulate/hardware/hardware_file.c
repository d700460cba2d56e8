/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/hardware/hardware_file.h"

#include "base/check.h"
#include "base/limits.h"
#include "simulate/hardware/stage_rates.h"
#include "simulate/hardware/step_rows.h"

/* ---- hardware ---- */

#define OF(name) offsetof(struct hardware, name)
#define RATE(name, least, most)                                                                    \
    { #name, KEY_NUMBER, OF(name), least, most, .needed = true }

static const struct tree_key hardware_keys[] = {
    {"name", KEY_TEXT, OF(name), .needed = true},
    {"gpus_per_node", KEY_COUNT, OF(gpus_per_node), 1, 1024, .needed = true},
    RATE(hbm_bytes, 1e6, 1e15),
    RATE(hbm_gbps, 1e-3, 1e6),
    RATE(nic_gbps, 1e-3, 1e6),
    RATE(nvlink_gbps, 1e-3, 1e6),
    RATE(network_latency_us, 0, 1e6),
    RATE(host_memory_bytes, 0, 1e15),
    RATE(storage_gbps, 0, 1e6),
    RATE(storage_latency_us, 0, 1e9),
    RATE(step_gap_us, 0, 1e9),
    RATE(request_us, 0, 1e9),
    RATE(token_us, 0, 1e9),
    RATE(node_price, 0, 1e9),
    {"stages", .kind = KEY_OTHER},
    {"steps", .kind = KEY_OTHER},
};

static enum status read_stages(struct arena *arena, const struct tree_place *place,
                               const struct tree *tree, struct hardware *hardware) {
    struct hardware_stages *stages = arena_take_zeroed(arena, sizeof *stages);
    struct step_rows *rows = arena_take_zeroed(arena, sizeof *rows);
    const struct tree *by_stage = tree_member(tree, "stages"),
                      *by_step = tree_member(tree, "steps");
    if (!stages || !rows)
        return error_set(place->error, STATUS_NO_MEMORY, "%.200s: no memory for its stages",
                         place->file);
    hardware->stages = stages;
    if (!by_stage == !by_step)
        return tree_keys_refuse(place, "expected either stages or steps, found %s",
                                by_stage ? "both" : "none");
    struct tree_place below = tree_keys_below(place, by_stage ? "stages" : "steps");
    if (by_stage) return stage_rates_read(arena, &below, by_stage, hardware, stages);
    stages->rows = rows;
    return step_rows_read(arena, &below, by_step, rows);
}

enum status hardware_file_read(struct arena *arena, const struct tree *tree, const char *name,
                               struct hardware *hardware_out, struct error *error) {
    const struct tree_place place = {.file = name, .error = error};
    struct hardware hardware = {0};
    enum status status =
        tree_keys_read(&place, tree, hardware_keys, ARRAY_COUNT(hardware_keys), &hardware);
    if (!status) status = read_stages(arena, &place, tree, &hardware);
    if (!status) *hardware_out = hardware;
    return status;
}

/* ---- a model ---- */

#define MODEL(name) offsetof(struct model_figures, name)
#define SIZE(name, least, most)                                                                    \
    { #name, KEY_COUNT, MODEL(name), least, most, .needed = true }

static const struct tree_key model_keys[] = {
    {"name", KEY_TEXT, MODEL(name), .needed = true},
    SIZE(layers, 1, LIMIT_LAYERS),
    SIZE(dense_layers, 0, LIMIT_LAYERS),
    SIZE(hidden, 1, 1e6),
    SIZE(heads, 1, 1e4),
    SIZE(q_rank, 0, 1e6),
    SIZE(kv_rank, 1, 1e6),
    SIZE(rope_dim, 0, 1e4),
    SIZE(nope_dim, 1, 1e4),
    SIZE(value_dim, 1, 1e4),
    SIZE(experts, 1, LIMIT_EXPERTS),
    SIZE(experts_per_token, 1, LIMIT_TOP_K_EXPERTS),
    SIZE(expert_groups, 1, LIMIT_EXPERTS),
    SIZE(groups_per_token, 1, LIMIT_EXPERTS),
    SIZE(expert_hidden, 1, 1e6),
    SIZE(shared_experts, 0, 64),
    SIZE(dense_hidden, 1, 1e6),
    SIZE(vocab, 1, LIMIT_VOCAB),
    {"index_heads", KEY_COUNT, MODEL(index_heads), 0, 1024, .needed = false},
    {"index_dim", KEY_COUNT, MODEL(index_dim), 0, LIMIT_INDEX_DIM, .needed = false},
    {"index_top_k", KEY_COUNT, MODEL(index_top_k), 0, LIMIT_CONTEXT, .needed = false},
    {"kv_bytes_per_token", KEY_NUMBER, MODEL(kv_bytes_per_token), 1, 1e9, .needed = true},
    {"mtp_acceptance", KEY_NUMBER, MODEL(mtp_acceptance), 0, 1, .needed = true},
};

enum status hardware_file_model_figures_read(const struct tree *tree, const char *name,
                                             struct model_figures *model_out, struct error *error) {
    const struct tree_place place = {.file = name, .error = error};
    struct model_figures model = {.layers = 0};
    enum status status = tree_keys_read(&place, tree, model_keys, ARRAY_COUNT(model_keys), &model);
    if (status) return status;
    if (model.dense_layers > model.layers || model.groups_per_token > model.expert_groups ||
        model.experts_per_token > model.experts || model.experts % model.expert_groups)
        return tree_keys_refuse(&place, "its layers, groups or experts do not fit together");
    if (!model.index_heads != !model.index_top_k || !model.index_dim != !model.index_top_k)
        return tree_keys_refuse(&place, "expected index_heads, index_dim and index_top_k together");
    *model_out = model;
    return STATUS_OK;
}
