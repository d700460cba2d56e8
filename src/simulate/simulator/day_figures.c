/* SPDX-License-Identifier: Apache-2.0
 * The published figures are from DeepSeek's "Inference System Overview" (open-infra-index, day 6)
 * and its profile-data.
 */
#include "simulate/simulator/day_figures.h"

#include "base/check.h"

#define DAY_SECONDS 86400.0
#define BILLION 1e9
#define MILLION 1e6
#define GIGA 1e9

/* ---- sums ---- */

static double prompt_tokens_of(const struct simulator_report *report) {
    return (double)report->roles[UNIT_PREFILL].prompt_tokens;
}

/* Output tokens of both roles. The first token of an answer comes from the prefill unit. */
static double output_tokens_of(const struct simulator_report *report) {
    return (double)(report->roles[UNIT_PREFILL].output_tokens +
                    report->roles[UNIT_DECODE].output_tokens);
}

static void day_figures_add_nodes(struct day_sums *sums, struct day_hour_sums *hour,
                                  const struct day_segment *segment,
                                  const struct simulator_options *options) {
    const struct simulator_unit_kind *prefill = &options->kinds[0], *decode = &options->kinds[1];
    double prefill_nodes =
        (double)segment->prefill_units * prefill->ranks / prefill->ranks_per_node;
    double decode_nodes = (double)segment->decode_units * decode->ranks / decode->ranks_per_node;
    sums->gpus_per_node = decode->ranks_per_node;
    sums->node_hours[UNIT_PREFILL] += prefill_nodes * segment->hours;
    sums->node_hours[UNIT_DECODE] += decode_nodes * segment->hours;
    if (prefill_nodes + decode_nodes > sums->nodes_peak)
        sums->nodes_peak = prefill_nodes + decode_nodes;
    hour->prefill_node_hours += prefill_nodes * segment->hours;
    hour->decode_node_hours += decode_nodes * segment->hours;
}

void day_figures_sums_add(struct day_sums *sums, const struct day_segment *segment,
                          const struct day_segment *shared, const struct simulator_options *options,
                          const struct simulator_report *report) {
    const struct simulator_role_counts *prefill = &report->roles[UNIT_PREFILL];
    const struct simulator_role_counts *decode = &report->roles[UNIT_DECODE];
    struct day_hour_sums *hour = &sums->hours[(uint32_t)segment->hour];
    double seconds = segment->hours * 3600;
    double input = segment->input_rate * seconds, output = segment->output_rate * seconds;
    double of_input = input / prompt_tokens_of(report);
    double of_output = output / output_tokens_of(report);
    double gpu_hours = (double)segment->decode_units * options->kinds[1].ranks * segment->hours;
    double ranks = (double)decode->ranks;
    day_figures_add_nodes(sums, hour, segment, options);
    sums->prompt += prompt_tokens_of(report) * of_input;
    sums->computed += (double)prefill->computed_tokens * of_input;
    sums->hits += (double)prefill->hit_tokens * of_input;
    sums->output += output_tokens_of(report) * of_output;
    sums->speed += report->user_speed_tokens * of_output;
    sums->speed_tokens += report->user_tokens * of_output;
    if (decode->steps) {
        double rows = (double)decode->rows / (double)decode->steps / ranks * (double)decode->units;
        sums->rows_gpu_hours += rows * gpu_hours;
        hour->decode_rows += rows * gpu_hours;
    }
    sums->gpu_hours += gpu_hours;
    hour->decode_gpu_hours += gpu_hours;
    sums->context += (double)decode->context * of_output;
    sums->context_rows += (double)decode->rows * of_output;
    sums->kv_bytes_gpu_hours += (double)decode->pages_held * KV_BLOCK_TOKENS *
                                options->model->kv_bytes_per_token * gpu_hours;
    sums->transfer_bytes += report->transfer_bytes * of_output;
    sums->storage_bytes += report->storage_read_bytes * of_input;
    double share = (double)options->kinds[1].count / segment->decode_units;
    sums->offered_input += shared->input_rate * share * segment->hours;
    sums->offered_output += shared->output_rate * share * segment->hours;
    sums->window_input += prompt_tokens_of(report) / report->measured_s * segment->hours;
    sums->window_output += output_tokens_of(report) / report->measured_s * segment->hours;
    hour->input += input;
    hour->output += output;
    hour->speed += report->user_speed_tokens * of_output;
    hour->speed_tokens += report->user_tokens * of_output;
}

/* ---- figures ---- */

const char *day_figures_kind_name(enum figure_kind kind) {
    static const char *const names[] = {[FIGURE_INPUT] = "input",
                                        [FIGURE_IDENTITY] = "identity",
                                        [FIGURE_PREDICTION] = "prediction"};
    return names[kind];
}

double day_figures_error(const struct day_figure *figure) {
    double low = figure->published[0], high = figure->published[figure->published_count > 1];
    if (figure->published_count == 0 || low == 0) return 0;
    if (figure->simulated < low) return figure->simulated / low - 1;
    return figure->simulated > high ? figure->simulated / high - 1 : 0;
}

struct figure_list {
    struct day_figure *figures;
    uint32_t count;
};

static void put(struct figure_list *list, const char *name, const char *unit, enum figure_kind kind,
                double published, double simulated) {
    check(list->count < DAY_FIGURES_MAX);
    list->figures[list->count++] = (struct day_figure){.name = name,
                                                       .unit = unit,
                                                       .kind = kind,
                                                       .published_count = published > 0,
                                                       .published = {published},
                                                       .simulated = simulated};
}

static void put_range(struct figure_list *list, const char *name, const char *unit, double low,
                      double high, double simulated) {
    put(list, name, unit, FIGURE_PREDICTION, low, simulated);
    list->figures[list->count - 1].published_count = 2;
    list->figures[list->count - 1].published[1] = high;
}

static void put_money(struct figure_list *list, const struct day_sums *sums,
                      const struct day_prices *prices) {
    double node_hours = sums->node_hours[UNIT_PREFILL] + sums->node_hours[UNIT_DECODE];
    double cost = node_hours * prices->node_hour;
    double income = (sums->hits * prices->hit + (sums->prompt - sums->hits) * prices->miss +
                     sums->output * prices->output) /
                    MILLION;
    put(list, "nodes_average", "nodes", FIGURE_INPUT, 226.75, node_hours / DAY_HOURS);
    put(list, "nodes_peak", "nodes", FIGURE_INPUT, 278, sums->nodes_peak);
    put(list, "cost_usd_per_day", "USD", FIGURE_IDENTITY, 87072, cost);
    put(list, "income_usd_per_day", "USD", FIGURE_IDENTITY, 562027, income);
    put(list, "margin_percent", "%", FIGURE_IDENTITY, 545, (income / cost - 1) * 100);
}

static void day_figures_put_tokens(struct figure_list *list, const struct day_sums *sums) {
    double prefill_s = sums->node_hours[UNIT_PREFILL] * 3600;
    double decode_s = sums->node_hours[UNIT_DECODE] * 3600, gpus = sums->gpus_per_node;
    put(list, "input_tokens", "10^9 tokens", FIGURE_INPUT, 608, sums->prompt / BILLION);
    put(list, "output_tokens", "10^9 tokens", FIGURE_INPUT, 168, sums->output / BILLION);
    put(list, "hit_tokens", "10^9 tokens", FIGURE_INPUT, 342, sums->hits / BILLION);
    put(list, "cache_hit_percent", "%", FIGURE_IDENTITY, 56.3, sums->hits / sums->prompt * 100);
    put(list, "prefill_tokens_per_s_per_node", "tokens/s", FIGURE_IDENTITY, 73700,
        sums->prompt / prefill_s);
    put(list, "decode_tokens_per_s_per_node", "tokens/s", FIGURE_IDENTITY, 14800,
        sums->output / decode_s);
    put(list, "input_tokens_per_s", "10^6 tokens/s", FIGURE_IDENTITY, 7.037,
        sums->prompt / DAY_SECONDS / MILLION);
    put(list, "computed_tokens_per_s", "10^6 tokens/s", FIGURE_IDENTITY, 3.079,
        (sums->prompt - sums->hits) / DAY_SECONDS / MILLION);
    put(list, "output_tokens_per_s", "10^6 tokens/s", FIGURE_IDENTITY, 1.944,
        sums->output / DAY_SECONDS / MILLION);
    put(list, "input_per_output", "tokens", FIGURE_IDENTITY, 3.62, sums->prompt / sums->output);
    put(list, "prefill_tokens_per_s_per_gpu", "tokens/s", FIGURE_IDENTITY, 9211,
        sums->prompt / prefill_s / gpus);
    put(list, "computed_tokens_per_s_per_gpu", "tokens/s", FIGURE_IDENTITY, 4030,
        (sums->prompt - sums->hits) / prefill_s / gpus);
    put(list, "decode_tokens_per_s_per_gpu", "tokens/s", FIGURE_IDENTITY, 1852,
        sums->output / decode_s / gpus);
}

static void put_predictions(struct figure_list *list, const struct day_sums *sums,
                            const struct model_figures *model, const struct day_profile *profile) {
    double prefill_s = sums->node_hours[UNIT_PREFILL] * 3600;
    double decode_s = sums->node_hours[UNIT_DECODE] * 3600;
    double speed = sums->speed / sums->speed_tokens;
    put(list, "kv_tokens_per_output_token", "tokens", FIGURE_INPUT, 4989,
        sums->context / sums->context_rows);
    put(list, "kv_bytes_per_token", "bytes", FIGURE_IDENTITY, 70272, model->kv_bytes_per_token);
    put_range(list, "tokens_per_s_per_user", "tokens/s", 20, 22, speed);
    put(list, "decode_profile_step_ms", "ms", FIGURE_PREDICTION, 87.32, profile->decode_ms);
    list->figures[list->count - 1].fitted = true; /* the rate of grouped products, and launches */
    put(list, "prefill_profile_step_ms", "ms", FIGURE_PREDICTION, 2090, profile->prefill_ms);
    put_range(list, "requests_per_decode_gpu", "requests", 84.1, 92.5,
              sums->rows_gpu_hours / sums->gpu_hours);
    put(list, "kv_bytes_per_decode_gpu", "GB", FIGURE_PREDICTION, 30.9,
        sums->kv_bytes_gpu_hours / sums->gpu_hours / GIGA);
    put(list, "kv_transfer_per_decode_node", "GB/s", FIGURE_PREDICTION, 3.8,
        sums->transfer_bytes / decode_s / GIGA);
    put(list, "kv_read_per_prefill_node", "GB/s", FIGURE_PREDICTION, 2.9,
        sums->storage_bytes / prefill_s / GIGA);
}

static void put_hours(struct figure_list *list, const struct day_sums *sums) {
    double speeds[2] = {1e9, 0}, ins[2] = {1e9, 0}, outs[2] = {1e9, 0}, rows[2] = {1e9, 0};
    for (uint32_t i = 0; i < DAY_HOURS; i++) {
        const struct day_hour_sums *hour = &sums->hours[i];
        double values[] = {hour->speed / hour->speed_tokens,
                           hour->input / hour->prefill_node_hours / 3600,
                           hour->output / hour->decode_node_hours / 3600,
                           hour->decode_rows / hour->decode_gpu_hours};
        double *ranges[] = {speeds, ins, outs, rows};
        for (int v = 0; v < 4; v++) {
            if (values[v] < ranges[v][0]) ranges[v][0] = values[v];
            if (values[v] > ranges[v][1]) ranges[v][1] = values[v];
        }
    }
    put(list, "tokens_per_s_per_user_slowest_hour", "tokens/s", FIGURE_PREDICTION, 0, speeds[0]);
    put(list, "tokens_per_s_per_user_fastest_hour", "tokens/s", FIGURE_PREDICTION, 0, speeds[1]);
    put(list, "requests_per_decode_gpu_least_hour", "requests", FIGURE_PREDICTION, 0, rows[0]);
    put(list, "requests_per_decode_gpu_most_hour", "requests", FIGURE_PREDICTION, 0, rows[1]);
    put(list, "prefill_tokens_per_s_per_node_least_hour", "tokens/s", FIGURE_IDENTITY, 59700,
        ins[0]);
    put(list, "prefill_tokens_per_s_per_node_most_hour", "tokens/s", FIGURE_IDENTITY, 80400,
        ins[1]);
    put(list, "decode_tokens_per_s_per_node_least_hour", "tokens/s", FIGURE_IDENTITY, 12600,
        outs[0]);
    put(list, "decode_tokens_per_s_per_node_most_hour", "tokens/s", FIGURE_IDENTITY, 15900,
        outs[1]);
}

uint32_t day_figures(const struct day_sums *sums, const struct day_prices *prices,
                     const struct model_figures *model, const struct day_profile *profile,
                     struct day_figure *figures_out) {
    struct figure_list list = {figures_out, 0};
    put_money(&list, sums, prices);
    day_figures_put_tokens(&list, sums);
    put_predictions(&list, sums, model, profile);
    put_hours(&list, sums);
    /* The window's token rate over the offered one, before scaling. */
    put(&list, "window_input_of_offered", "%", FIGURE_PREDICTION, 0,
        sums->window_input / sums->offered_input * 100);
    put(&list, "window_output_of_offered", "%", FIGURE_PREDICTION, 0,
        sums->window_output / sums->offered_output * 100);
    return list.count;
}

/* ---- the profile ---- */

/* The step of a unit with equal ranks, on a new clock in `memory`. */
static enum status profile_step(const struct hardware *hardware, const struct model_figures *model,
                                struct arena *memory, uint32_t ranks, uint32_t redundant,
                                const struct step_load *load, enum overlap_kind overlap,
                                struct step_time *time_out, struct error *error) {
    struct step_share shares[LIMIT_RANKS];
    struct step_clock_options options = {.hardware = hardware,
                                         .model = model,
                                         .ranks = ranks,
                                         .ranks_per_node = hardware->gpus_per_node,
                                         .redundant_experts = redundant,
                                         .balance_experts = true};
    struct step_clock *clock;
    arena_clear(memory);
    enum status status = step_clock_open(memory, &options, &clock, error);
    if (status) return status;
    for (uint32_t i = 0; i < ranks; i++)
        shares[i] = (struct step_share){*load, .slowness = 1};
    *time_out = step_clock_step(clock, shares, overlap, 0);
    return STATUS_OK;
}

enum status day_figures_profile_steps(const struct hardware *hardware,
                                      const struct model_figures *model, struct arena *memory,
                                      struct day_profile *profile_out, struct error *error) {
    struct step_load decode = {0}, prefill = {0};
    struct step_time of_decode, of_prefill;
    step_load_add_answers(&decode, 128, 2 * 128, 4096);
    for (uint32_t tokens = 0; tokens < 16384; tokens += 4096)
        step_load_add_chunk(&prefill, 4096, 0);
    enum status status = profile_step(hardware, model, memory, 128, 0, &decode,
                                      OVERLAP_DECODE_FIVE_STAGE, &of_decode, error);
    if (!status)
        status = profile_step(hardware, model, memory, 32, 32, &prefill, OVERLAP_PREFILL_DUAL_BATCH,
                              &of_prefill, error);
    if (status) return status;
    /* For decode, only the time of the layers was published, without LM head and sampling. */
    profile_out->decode_ms = (double)of_decode.layers_ns / 1e6;
    profile_out->prefill_ms = (double)of_prefill.ns / 1e6;
    return STATUS_OK;
}
