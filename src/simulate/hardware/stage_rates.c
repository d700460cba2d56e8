/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/hardware/stage_rates.h"

#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/number.h"
#include "simulate/hardware/attended_rows.h"
#include "simulate/hardware/stage_table.h"

/* The micro-batch size at which DeepEP's low-latency kernels are measured. */
#define LOW_LATENCY_TOKENS 128

static double product_flop(const struct model_figures *model, enum stage_product product) {
    const double hidden = model->hidden, heads = model->heads;
    switch (product) {
    case PRODUCT_DOWN:
        return 2 * hidden * (model->q_rank + model->kv_rank + model->rope_dim);
    case PRODUCT_QUERY:
        return 2 * model->q_rank * heads * (model->nope_dim + model->rope_dim);
    case PRODUCT_EXPAND:
        return 2 * model->kv_rank * heads * (model->nope_dim + model->value_dim);
    case PRODUCT_OUTPUT:
        return 2 * hidden * heads * model->value_dim;
    case PRODUCT_SHARED_UP:
        return 4 * hidden * model->expert_hidden * model->shared_experts;
    case PRODUCT_SHARED_DOWN:
        return 2 * hidden * model->expert_hidden * model->shared_experts;
    case PRODUCT_DENSE:
        return 6 * hidden * model->dense_hidden;
    case STAGE_PRODUCT_COUNT:
        break;
    }
    return 0;
}

double stage_rates_weights(const struct model_figures *model) {
    const double sparse = model->layers - model->dense_layers;
    double weights = 0;
    for (int i = 0; i < STAGE_PRODUCT_COUNT; i++) {
        bool shared = i == PRODUCT_SHARED_UP || i == PRODUCT_SHARED_DOWN;
        double layers = i == PRODUCT_DENSE ? model->dense_layers : shared ? sparse : model->layers;
        weights += layers * product_flop(model, (enum stage_product)i) / 2;
    }
    return weights;
}

/* The time of a matrix product. 1 TFLOPS is 1e6 operations per microsecond. */
static double product_us(const struct hardware_stages *stages, const struct model_figures *model,
                         enum stage_product product, double rows, double share) {
    const struct product_rates *rates = &stages->products[product];
    double flop = product_flop(model, product);
    double of_64 = 64 * flop / (rates->tflops_64 * 1e6);
    double of_128 = 128 * flop / (rates->tflops_128 * 1e6);
    if (rows <= 0) return 0;
    double memory = of_64 + (of_128 - of_64) * max_double(0, rows - 64) / 64;
    return max_double(memory * stages->hbm_scale, rows * flop / (rates->tflops * 1e6 * share));
}

/* ---- from rates ---- */

/* The core attention of FlashMLA has 2 (512 + 64 + 512) operations per head, query token and
 * position. */
static double answer_core(const struct hardware_stages *stages, const struct model_figures *model,
                          const struct step_load *load, double rows) {
    const struct answer_rates *rates = &stages->answer;
    double each = load->answer_tokens / load->answer_rows; /* query tokens per request */
    double tflops = rates->core_tflops;
    if (each > 1) tflops += (rates->core_tflops_2 - tflops) * (each < 2 ? each - 1 : 1);
    double width = 2.0 * model->kv_rank + model->rope_dim;
    double flop = 2 * model->heads * width * rows * each;
    double bytes = rows * 2 * (model->kv_rank + model->rope_dim);
    return max_double(flop / (tflops * 1e6), bytes / (rates->core_gbps * 1e3) * stages->hbm_scale);
}

/* The operations of the indexer's scores. */
static double index_flop(const struct model_figures *model, double pairs) {
    return 2.0 * model->index_heads * model->index_dim * pairs;
}

/* The indexer of answers, at the core's rates: its queries cost as q_b does, in proportion, and
 * its keys have a byte for each channel, and a scale. */
static double answer_index(const struct hardware_stages *stages, const struct model_figures *model,
                           const struct step_load *load, const struct attended_rows *rows,
                           double query_us) {
    const struct answer_rates *rates = &stages->answer;
    if (rows->answer_scored <= 0) return 0;
    double each = load->answer_tokens / load->answer_rows;
    double flop = index_flop(model, rows->answer_scored * each);
    double bytes = rows->answer_scored * (model->index_dim + 4.0);
    double width = (double)model->heads * (model->nope_dim + model->rope_dim);
    return query_us * model->index_heads * model->index_dim / width +
           max_double(flop / (rates->core_tflops * 1e6),
                      bytes / (rates->core_gbps * 1e3) * stages->hbm_scale);
}

/* The operations of core attention of prompts. Tokens that attend to chosen rows take the absorbed
 * form, with both absorptions. */
static double prompt_core_flop(const struct model_figures *model,
                               const struct attended_rows *rows) {
    const double heads = model->heads, rank = model->kv_rank;
    const double heads_width = model->nope_dim + model->rope_dim + model->value_dim;
    double absorbed = model->index_top_k * (2 * rank + model->rope_dim) +
                      rank * (model->nope_dim + model->value_dim);
    return 2 * heads * (rows->dense_pairs * heads_width + rows->sparse_tokens * absorbed) +
           index_flop(model, rows->prompt_scored);
}

static double answer_absorb(const struct hardware_stages *stages, const struct model_figures *model,
                            double tokens) {
    double flop = 2 * tokens * model->heads * model->nope_dim * model->kv_rank;
    return stages->answer.absorb_us * stages->hbm_scale +
           flop / (stages->answer.absorb_tflops * 1e6);
}

static struct stage_times times_of_rates(const struct hardware_stages *stages,
                                         const struct model_figures *model,
                                         const struct step_load *load, bool prompts) {
    const struct answer_rates *answer = &stages->answer;
    const struct prompt_rates *prompt = &stages->prompt;
    double share = prompts ? prompt->compute_share : 1;
    double tokens = step_load_tokens(load);
    const struct attended_rows rows = attended_rows_of(model, load);
    struct stage_times us = {0};
    if (tokens <= 0) return us;
    us.attention_0 = product_us(stages, model, PRODUCT_DOWN, tokens, share) +
                     product_us(stages, model, PRODUCT_QUERY, tokens, share);
    us.attention_1 = product_us(stages, model, PRODUCT_OUTPUT, tokens, share);
    us.shared = product_us(stages, model, PRODUCT_SHARED_UP, tokens, share) +
                product_us(stages, model, PRODUCT_SHARED_DOWN, tokens, share);
    us.dense = product_us(stages, model, PRODUCT_DENSE, tokens, share);
    if (load->answer_tokens > 0) {
        double absorb = answer_absorb(stages, model, load->answer_tokens);
        double query = product_us(stages, model, PRODUCT_QUERY, load->answer_tokens, share);
        us.attention_0 +=
            answer->attention_0_us + absorb + answer_index(stages, model, load, &rows, query);
        us.core = answer_core(stages, model, load, rows.answer_rows);
        us.core_begin = answer->core_us;
        us.attention_1 += answer->attention_1_us + absorb + us.core_begin + us.core;
        us.shared += answer->shared_us;
    }
    if (load->prompt_tokens > 0) {
        us.attention_0 += load->prompt_tokens * prompt->attention_us / 2;
        us.attention_1 += load->prompt_tokens * prompt->attention_us / 2 +
                          product_us(stages, model, PRODUCT_EXPAND, rows.dense_rows, share) +
                          prompt_core_flop(model, &rows) / (prompt->core_tflops * 1e6 * share);
    }
    return us;
}

/* Only the weights of experts with a token are read. If experts have n tokens on average, that is
 * the share 1 - e^-n of them. */
static double experts_of_rates(const struct hardware_stages *stages,
                               const struct model_figures *model, double pairs, double slots,
                               bool prompts) {
    const struct answer_rates *answer = &stages->answer;
    const struct prompt_rates *prompt = &stages->prompt;
    double up = 4.0 * model->hidden * model->expert_hidden;
    double touched = slots * (1 - exp(-pairs / slots));
    double read = touched * up / 2 / (answer->weights_gbps * 1e3) * stages->hbm_scale;
    double up_rate =
        (prompts ? prompt->up_tflops * prompt->compute_share : answer->up_tflops) * 1e6;
    double down_rate =
        (prompts ? prompt->down_tflops * prompt->compute_share : answer->down_tflops) * 1e6;
    if (pairs <= 0) return 0;
    double rest = prompts ? pairs / model->experts_per_token * prompt->experts_us : 0;
    return max_double(pairs * up / up_rate, read + answer->up_us) +
           max_double(pairs * up / 2 / down_rate, read / 2 + answer->down_us) +
           max_double(rest, answer->experts_us);
}

/* ---- from a table ---- */

/* The time of all parts of a stage, except the dense MLP and the core attention, which depends on
 * the context. */
static double table_stage(const struct stage_table *table, enum stage_phase phase, enum stage stage,
                          double tokens) {
    double us = 0;
    for (int i = 0; i < STAGE_PART_COUNT; i++) {
        enum stage_part part = (enum stage_part)i;
        if (stage_part_of(part) == stage && !stage_part_is_of_context(part) && part != PART_DENSE)
            us += stage_table_us(table, phase, part, tokens, 0);
    }
    return us;
}

/* The time of the core attention of prompts, chunk by chunk. Chunks shorter than the first one of
 * the table count as fractions of it. Tokens that attend to chosen rows do the work of as many
 * answers. */
static double table_core(const struct stage_table *table, const struct step_load *load,
                         const struct attended_rows *rows) {
    const struct attended_chunks chunks = attended_rows_chunks(load);
    const enum stage_phase prompt = STAGE_PHASE_PROMPT, decode = STAGE_PHASE_DECODE;
    double us = 0;
    if (load->prompt_tokens <= 0 || load->attended <= 0) return 0;
    if (rows->dense_tokens > 0) {
        double first = table->grids[prompt][PART_CORE_PROMPT].tokens.at[0];
        double each = max_double(first, rows->dense_tokens / chunks.count);
        us += rows->dense_tokens / each *
              stage_table_us(table, prompt, PART_CORE_PROMPT, each, chunks.before);
    }
    if (rows->sparse_tokens > 0) {
        double each = rows->sparse_tokens / chunks.count;
        us += chunks.count *
              (stage_table_us(table, decode, PART_CORE, each, chunks.before + chunks.tokens) +
               stage_table_us(table, decode, PART_ABSORB_QUERY, each, 0) +
               stage_table_us(table, decode, PART_ABSORB_VALUE, each, 0));
    }
    return us;
}

/* The indexer's queries, scores and choices, where there are more rows than it chooses. */
static double table_index(const struct stage_table *table, const struct step_load *load,
                          const struct attended_rows *rows) {
    const struct attended_chunks chunks = attended_rows_chunks(load);
    double us = 0;
    for (int i = PART_INDEX_QUERY; i <= PART_INDEX_CHOICE; i++) {
        enum stage_part part = (enum stage_part)i;
        if (rows->answer_scored > 0)
            us += stage_table_us(table, STAGE_PHASE_DECODE, part, load->answer_tokens,
                                 load->context / load->answer_tokens);
        if (rows->prompt_scored > 0)
            us += chunks.count *
                  stage_table_us(table, STAGE_PHASE_PROMPT, part, chunks.tokens, chunks.before);
    }
    return us;
}

static struct stage_times times_of_table(const struct stage_table *table,
                                         const struct model_figures *model,
                                         const struct step_load *load) {
    const struct attended_rows rows = attended_rows_of(model, load);
    const double answers = load->answer_tokens, prompts = load->prompt_tokens;
    const enum stage_phase decode = STAGE_PHASE_DECODE, prompt = STAGE_PHASE_PROMPT;
    struct stage_times us = {
        .attention_0 = table_stage(table, decode, STAGE_ATTENTION_0, answers) +
                       table_stage(table, prompt, STAGE_ATTENTION_0, prompts) +
                       table_index(table, load, &rows),
        .attention_1 = table_stage(table, decode, STAGE_ATTENTION_1, answers) +
                       table_stage(table, prompt, STAGE_ATTENTION_1, prompts) +
                       table_stage(table, decode, STAGE_DISPATCH, answers) +
                       table_stage(table, prompt, STAGE_DISPATCH, prompts) +
                       table_stage(table, decode, STAGE_COMBINE, answers) +
                       table_stage(table, prompt, STAGE_COMBINE, prompts) +
                       table_core(table, load, &rows),
        .shared = table_stage(table, decode, STAGE_SHARED, answers) +
                  table_stage(table, prompt, STAGE_SHARED, prompts),
        .dense = stage_table_us(table, decode, PART_DENSE, answers, 0) +
                 stage_table_us(table, prompt, PART_DENSE, prompts, 0),
    };
    if (answers > 0)
        us.core = stage_table_us(table, decode, PART_CORE, answers, load->context / answers);
    us.attention_1 += us.core;
    return us;
}

struct stage_times stage_rates_times(const struct hardware_stages *stages,
                                     const struct model_figures *model,
                                     const struct step_load *load, bool prompts) {
    if (stages->table) return times_of_table(stages->table, model, load);
    return times_of_rates(stages, model, load, prompts);
}

double stage_rates_experts(const struct hardware_stages *stages, const struct model_figures *model,
                           double pairs, double slots, bool prompts) {
    if (!stages->table) return experts_of_rates(stages, model, pairs, slots, prompts);
    return table_stage(stages->table, STAGE_PHASE_EXPERTS, STAGE_MLP, pairs / slots) * slots /
           (stages->table->experts ? stages->table->experts : 1);
}

/* ---- transfers ---- */

/* The number of nodes that a token is sent to. The token chooses k of g groups, each with e / k of
 * its e experts. If each node has g / n groups, it is n (1 - C(g - g / n, k) / C(g, k)). If each
 * group spans w = n / g nodes, it is, for each chosen group, the number of nodes that its experts
 * hit. */
double stage_rates_copies(const struct model_figures *model, double nodes) {
    double groups = model->expert_groups, chosen = model->groups_per_token;
    if (nodes <= 1) return 1;
    if (nodes <= groups) {
        double missed = 1, left = groups - groups / nodes;
        for (uint32_t i = 0; i < model->groups_per_token; i++)
            missed *= max_double(0, left - i) / (groups - i);
        return nodes * (1 - missed);
    }
    double wide = nodes / groups, picks = model->experts_per_token / chosen;
    return chosen * wide * (1 - pow(1 - 1 / wide, picks));
}

static struct stage_transfers low_latency(const struct hardware_stages *stages, uint32_t ranks,
                                          uint32_t ranks_per_node) {
    const struct figure_table *table = &stages->links.low_latency;
    double scale = ranks > ranks_per_node ? stages->nic_scale : stages->nvlink_scale;
    double dispatch = figure_table_between(table, 1, ranks);
    double combine = figure_table_between(table, 3, ranks);
    return (struct stage_transfers){
        .dispatch_us = dispatch,
        .combine_us = combine,
        .dispatch_token_us =
            (figure_table_between(table, 2, ranks) - dispatch) / LOW_LATENCY_TOKENS * scale,
        .combine_token_us =
            (figure_table_between(table, 4, ranks) - combine) / LOW_LATENCY_TOKENS * scale,
    };
}

static struct stage_transfers normal(const struct hardware_stages *stages,
                                     const struct model_figures *model, uint32_t ranks,
                                     uint32_t ranks_per_node) {
    const struct link_rates *links = &stages->links;
    double nodes = max_double(1, (double)ranks / ranks_per_node);
    double scale = links->contention * (nodes > 1 ? stages->nic_scale : stages->nvlink_scale);
    double bytes = stage_rates_copies(model, nodes) * model->hidden;
    return (struct stage_transfers){
        .dispatch_us = figure_table_between(&links->normal, 3, nodes),
        .combine_us = figure_table_between(&links->normal, 4, nodes),
        .dispatch_token_us = bytes * links->dispatch_scales * scale /
                             (figure_table_between(&links->normal, 1, nodes) * 1e3),
        .combine_token_us =
            bytes * 2 * scale / (figure_table_between(&links->normal, 2, nodes) * 1e3),
    };
}

struct stage_transfers stage_rates_transfers(const struct hardware_stages *stages,
                                             const struct model_figures *model, uint32_t ranks,
                                             uint32_t ranks_per_node, bool prompts) {
    if (ranks <= 1 || !stages->has_links) return (struct stage_transfers){0};
    if (prompts) return normal(stages, model, ranks, ranks_per_node);
    return low_latency(stages, ranks, ranks_per_node);
}

/* ---- reading ---- */

#define RATE(owner, name, least, most)                                                             \
    { #name, KEY_NUMBER, offsetof(struct owner, name), least, most, .needed = true }

static const struct tree_key product_keys[] = {
    RATE(product_rates, tflops_64, 1e-6, 1e6),
    RATE(product_rates, tflops_128, 1e-6, 1e6),
    RATE(product_rates, tflops, 1e-6, 1e6),
};

static enum status read_products(const struct tree_place *stages, const struct tree *tree,
                                 struct product_rates *products) {
    static const struct tree_key keys[STAGE_PRODUCT_COUNT] = {
        {"down", .kind = KEY_OTHER},      {"query", .kind = KEY_OTHER},
        {"expand", .kind = KEY_OTHER},    {"output", .kind = KEY_OTHER},
        {"shared_up", .kind = KEY_OTHER}, {"shared_down", .kind = KEY_OTHER},
        {"dense", .kind = KEY_OTHER},
    };
    struct tree_place place = tree_keys_below(stages, "products");
    enum status status = tree_keys_read(&place, tree, keys, STAGE_PRODUCT_COUNT, NULL);
    for (uint32_t i = 0; !status && i < STAGE_PRODUCT_COUNT; i++)
        status = tree_keys_read_member(&place, tree, keys[i].name, product_keys,
                                       ARRAY_COUNT(product_keys), &products[i]);
    return status;
}

static const struct tree_key answer_keys[] = {
    RATE(answer_rates, attention_0_us, 0, 1e6),
    RATE(answer_rates, attention_1_us, 0, 1e6),
    RATE(answer_rates, shared_us, 0, 1e6),
    RATE(answer_rates, absorb_us, 0, 1e6),
    RATE(answer_rates, absorb_tflops, 1e-6, 1e6),
    RATE(answer_rates, core_us, 0, 1e6),
    RATE(answer_rates, core_tflops, 1e-6, 1e6),
    RATE(answer_rates, core_tflops_2, 1e-6, 1e6),
    RATE(answer_rates, core_gbps, 1e-6, 1e6),
    RATE(answer_rates, experts_us, 0, 1e6),
    RATE(answer_rates, up_us, 0, 1e6),
    RATE(answer_rates, down_us, 0, 1e6),
    RATE(answer_rates, up_tflops, 1e-6, 1e6),
    RATE(answer_rates, down_tflops, 1e-6, 1e6),
    RATE(answer_rates, weights_gbps, 1e-6, 1e6),
    RATE(answer_rates, issue_us, 0, 1e6),
    RATE(answer_rates, step_us, 0, 1e9),
};

static const struct tree_key prompt_keys[] = {
    RATE(prompt_rates, compute_share, 0.01, 1), RATE(prompt_rates, core_tflops, 1e-6, 1e6),
    RATE(prompt_rates, up_tflops, 1e-6, 1e6),   RATE(prompt_rates, down_tflops, 1e-6, 1e6),
    RATE(prompt_rates, attention_us, 0, 1e6),   RATE(prompt_rates, experts_us, 0, 1e6),
    RATE(prompt_rates, step_us, 0, 1e9),
};

static const struct tree_key move_keys[] = {
    RATE(move_rates, gbps, 1e-6, 1e6),
    RATE(move_rates, adopt_us, 0, 1e9),
    RATE(move_rates, memory_bytes, 1, 1e13),
};

static enum status read_links(struct arena *arena, const struct tree_place *stages,
                              const struct tree *tree, struct link_rates *links) {
    static const char *const low_columns[] = {"ep",         "dispatch_us",    "dispatch_us_128",
                                              "combine_us", "combine_us_128", NULL};
    static const char *const normal_columns[] = {"nodes",       "dispatch_gbps", "combine_gbps",
                                                 "dispatch_us", "combine_us",    NULL};
    static const struct tree_key keys[] = {
        RATE(link_rates, dispatch_scales, 1, 4),
        RATE(link_rates, contention, 1, 100),
        {"low_latency", KEY_OTHER, .needed = true},
        {"normal", KEY_OTHER, .needed = true},
    };
    struct tree_place place = tree_keys_below(stages, "links");
    struct tree_place low = tree_keys_below(&place, "low_latency");
    struct tree_place wide = tree_keys_below(&place, "normal");
    enum status status = tree_keys_read(&place, tree, keys, ARRAY_COUNT(keys), links);
    if (!status)
        status = figure_table_read(&low, tree_member(tree, "low_latency"), low_columns, arena,
                                   &links->low_latency);
    if (!status)
        status = figure_table_read(&wide, tree_member(tree, "normal"), normal_columns, arena,
                                   &links->normal);
    return status;
}

struct measured_with {
    double hbm_gbps, nic_gbps, nvlink_gbps;
};

static enum status read_scales(const struct tree_place *place, const struct tree *tree,
                               const struct hardware *hardware, struct hardware_stages *stages) {
    static const struct tree_key keys[] = {
        RATE(measured_with, hbm_gbps, 1e-6, 1e6),
        RATE(measured_with, nic_gbps, 1e-6, 1e6),
        RATE(measured_with, nvlink_gbps, 1e-6, 1e6),
    };
    struct measured_with measured = {0};
    enum status status =
        tree_keys_read_member(place, tree, "measured", keys, ARRAY_COUNT(keys), &measured);
    if (status) return status;
    stages->hbm_scale = measured.hbm_gbps / hardware->hbm_gbps;
    stages->nic_scale = measured.nic_gbps / hardware->nic_gbps;
    stages->nvlink_scale = measured.nvlink_gbps / hardware->nvlink_gbps;
    return STATUS_OK;
}

static enum status read_table(struct arena *arena, const struct tree_place *place,
                              const struct tree *tree, struct hardware_stages *stages) {
    struct tree_place below = tree_keys_below(place, "table");
    struct bytes text;
    if (!tree_get_string(tree, &text))
        return tree_keys_refuse(&below, "expected the text of `fathom bench layer --table`");
    struct stage_table *table = arena_take(arena, sizeof *table);
    if (!table)
        return error_set(place->error, STATUS_NO_MEMORY, "%.200s: no memory for stages.table",
                         place->file);
    stages->table = table;
    return stage_table_read(text, "stages.table", table, place->error);
}

/* Reads the rates of the stages of a layer, for hardware without a table. */
static enum status read_rates(const struct tree_place *place, const struct tree *tree,
                              struct hardware_stages *stages) {
    enum status status = read_products(place, tree_member(tree, "products"), stages->products);
    if (!status)
        status = tree_keys_read_member(place, tree, "answer", answer_keys, ARRAY_COUNT(answer_keys),
                                       &stages->answer);
    if (!status)
        status = tree_keys_read_member(place, tree, "prompt", prompt_keys, ARRAY_COUNT(prompt_keys),
                                       &stages->prompt);
    return status;
}

enum status stage_rates_read(struct arena *arena, const struct tree_place *place,
                             const struct tree *tree, const struct hardware *hardware,
                             struct hardware_stages *stages_out) {
    static const struct tree_key of_rates[] = {
        {"measured", .kind = KEY_OTHER}, {"products", .kind = KEY_OTHER},
        {"answer", .kind = KEY_OTHER},   {"prompt", .kind = KEY_OTHER},
        {"links", .kind = KEY_OTHER},    {"moves", .kind = KEY_OTHER},
    };
    static const struct tree_key of_table[] = {
        {"measured", .kind = KEY_OTHER},
        {"table", .kind = KEY_OTHER},
        {"links", .kind = KEY_OTHER},
        {"moves", .kind = KEY_OTHER},
    };
    const struct tree *table = tree_member(tree, "table"), *links = tree_member(tree, "links");
    memset(stages_out, 0, sizeof *stages_out);
    stages_out->hbm_scale = stages_out->nic_scale = stages_out->nvlink_scale = 1;
    stages_out->prompt.compute_share = 1;
    stages_out->has_links = links != NULL;
    enum status status =
        tree_keys_read(place, tree, table ? of_table : of_rates,
                       table ? ARRAY_COUNT(of_table) : ARRAY_COUNT(of_rates), NULL);
    if (!status && table) status = read_table(arena, place, table, stages_out);
    if (!status && (!table || tree_member(tree, "measured")))
        status = read_scales(place, tree, hardware, stages_out);
    if (!status && !table) status = read_rates(place, tree, stages_out);
    if (!status && links) status = read_links(arena, place, links, &stages_out->links);
    if (!status && tree_member(tree, "moves"))
        status = tree_keys_read_member(place, tree, "moves", move_keys, ARRAY_COUNT(move_keys),
                                       &stages_out->moves);
    return status;
}
