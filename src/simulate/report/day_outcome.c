/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/report/day_outcome.h"

#include <math.h>

#include "base/check.h"
#include "simulate/report/outcome_json.h"
#include "simulate/report/words.h"

/* ---- a window ---- */

static void set_spent(const struct simulator_role_counts *counts, double *spent_out) {
    double sum = 0;
    for (uint32_t i = 0; i <= STEP_SPENT_COUNT; i++)
        sum += outcome_spent(counts, i);
    for (uint32_t i = 0; i <= STEP_SPENT_COUNT; i++)
        spent_out[i] = words_ratio(outcome_spent(counts, i), sum);
}

static void add_layers(struct day_layers *layers, const struct simulator_role_counts *counts,
                       double weight) {
    for (uint32_t i = 0; i < LIMIT_LAYERS; i++)
        layers->sum[i] += weight * counts->layer_balance[i];
    layers->weight += weight;
}

double day_outcome_balance(const struct day_outcome *outcome, int role, uint32_t layer) {
    return words_ratio(outcome->layers[role].sum[layer], outcome->layers[role].weight);
}

void day_outcome_add(struct day_outcome *outcome, const struct day_segment *segment,
                     const struct day_segment *shared, bool whole, const struct outcome *window,
                     const struct simulator_options *options) {
    const struct simulator_report *report = &window->report;
    const struct simulator_role_counts *prefill = &report->roles[UNIT_PREFILL];
    const struct simulator_role_counts *decode = &report->roles[UNIT_DECODE];
    double hits = (double)prefill->hit_tokens;
    double share = (double)options->kinds[1].count / segment->decode_units;
    double output = (double)(prefill->output_tokens + decode->output_tokens);
    check(outcome->window_count < DAY_SEGMENTS_MAX);
    struct day_window_outcome *out = &outcome->windows[outcome->window_count++];
    *out = (struct day_window_outcome){
        .segment = *segment,
        .whole = whole,
        .speed = words_ratio(report->user_speed_tokens, report->user_tokens),
        .requests_gpu = words_ratio((double)decode->rows * (double)decode->units,
                                    (double)decode->steps * (double)decode->ranks),
        .kv_tokens = words_ratio((double)decode->context, (double)decode->rows),
        .hit_share = words_ratio(hits, (double)prefill->prompt_tokens),
        .input_of_offered = words_ratio((double)prefill->prompt_tokens / report->measured_s,
                                        shared->input_rate * share),
        .output_of_offered = words_ratio(output / report->measured_s, shared->output_rate * share),
        .ttft_p50_s = spread_quantile(&window->ttft, 0.5) * 1e-9,
        .ttft_p99_s = spread_quantile(&window->ttft, 0.99) * 1e-9,
        .tpot_p50_s = spread_quantile(&window->tpot, 0.5) * 1e-9,
        .tpot_p99_s = spread_quantile(&window->tpot, 0.99) * 1e-9,
        .prefill_busy =
            words_ratio(prefill->step_ns * 1e-9, report->measured_s * (double)prefill->units),
        .decode_busy =
            words_ratio(decode->step_ns * 1e-9, report->measured_s * (double)decode->units),
        .prefill_balance = prefill->expert_balance,
        .decode_balance = decode->expert_balance,
        .prefill_step_s = words_ratio(prefill->step_ns * 1e-9, (double)prefill->steps),
        .decode_step_s = words_ratio(decode->step_ns * 1e-9, (double)decode->steps),
        .pages_share = words_ratio((double)decode->pages_held, (double)decode->pages_total),
        .device_share = words_ratio((double)prefill->device_hits, hits),
        .host_share = words_ratio((double)prefill->host_hits, hits),
        .disk_share = words_ratio((double)prefill->disk_hits, hits)};
    set_spent(prefill, out->spent[0]);
    set_spent(decode, out->spent[1]);
    add_layers(&outcome->layers[0], prefill, segment->hours * segment->prefill_units);
    add_layers(&outcome->layers[1], decode, segment->hours * segment->decode_units);
    day_figures_sums_add(&outcome->sums, segment, shared, options, report);
}

/* Sorts the windows by hour. There are only a few. */
static void order_windows(struct day_outcome *outcome) {
    for (uint32_t i = 1; i < outcome->window_count; i++)
        for (uint32_t j = i;
             j > 0 && outcome->windows[j].segment.hour < outcome->windows[j - 1].segment.hour;
             j--) {
            struct day_window_outcome swapped = outcome->windows[j];
            outcome->windows[j] = outcome->windows[j - 1];
            outcome->windows[j - 1] = swapped;
        }
}

void day_outcome_end(struct day_outcome *outcome) {
    order_windows(outcome);
    const struct prices *prices = &outcome->scenario->prices;
    const struct day_prices of_day = {.hit = prices->calendar.tokens.input_hit,
                                      .miss = prices->calendar.tokens.input_miss,
                                      .output = prices->calendar.tokens.output,
                                      .node_hour = prices->node_hour};
    outcome->figure_count = day_figures(&outcome->sums, &of_day, outcome->scenario->options.model,
                                        &outcome->profile, outcome->figures);
}

/* ---- text ---- */

static void day_outcome_write_published(struct json_writer *writer,
                                        const struct day_figure *figure) {
    char low[WORDS_SHORT_BYTES], high[WORDS_SHORT_BYTES];
    words_short(figure->published[0], low);
    words_short(figure->published[1], high);
    if (figure->published_count == 0)
        json_writer_print(writer, " %16s", "-");
    else if (figure->published_count == 1)
        json_writer_print(writer, " %16.10g", figure->published[0]);
    else
        json_writer_print(writer, " %8s .. %4s", low, high);
}

static void day_outcome_write_figures(struct json_writer *writer,
                                      const struct day_outcome *outcome) {
    json_writer_print(writer, "%-42s %16s %14s %8s  %-14s %s\n", "figure", "published", "simulated",
                      "error", "unit", "kind");
    for (uint32_t i = 0; i < outcome->figure_count; i++) {
        const struct day_figure *figure = &outcome->figures[i];
        json_writer_print(writer, "%-42s", figure->name);
        day_outcome_write_published(writer, figure);
        json_writer_print(writer, " %14.7g", figure->simulated);
        if (figure->published_count)
            json_writer_print(writer, " %+7.2f%%", day_figures_error(figure) * 100);
        else
            json_writer_print(writer, " %8s", "");
        json_writer_print(writer, "  %-14s %s%s\n", figure->unit,
                          day_figures_kind_name(figure->kind),
                          figure->fitted ? ", its data fitted a parameter" : "");
    }
}

static void write_windows(struct json_writer *writer, const struct day_outcome *outcome) {
    json_writer_print(writer, "\n%6s %5s %3s %3s %3s %8s %7s %7s %9s %9s %9s %7s %7s %6s %6s\n",
                      "hour", "hours", "D", "P", "of", "tok/s/u", "req/GPU", "KV/tok", "step ms",
                      "TTFT p50", "TTFT p99", "in", "out", "bal", "busy");
    for (uint32_t i = 0; i < outcome->window_count; i++) {
        const struct day_window_outcome *window = &outcome->windows[i];
        json_writer_print(
            writer,
            "%6.2f %5.2f %3u %3u %3u %8.2f %7.1f %7.0f %9.2f %8.2fs %8.2fs %6.1f%% %6.1f%% %6.3f "
            "%6.3f%s\n",
            window->segment.hour, window->segment.hours, window->segment.decode_units,
            window->segment.prefill_units,
            window->whole ? window->segment.prefill_units : window->segment.sample_prefill_units,
            window->speed, window->requests_gpu, window->kv_tokens, window->decode_step_s * 1e3,
            window->ttft_p50_s, window->ttft_p99_s, window->input_of_offered * 100,
            window->output_of_offered * 100, window->decode_balance, window->prefill_busy,
            window->whole ? "  whole fleet" : "");
    }
    json_writer_print(
        writer,
        "\nhour: of the day that begins at noon. D, P: decode and prefill units; of: prefill "
        "units in the window. in, out: tokens of those offered. bal: experts of decode, "
        "largest rank over mean. busy: prefill.\n");
}

void day_outcome_write_text(struct json_writer *writer, const struct day_outcome *outcome) {
    day_outcome_write_figures(writer, outcome);
    write_windows(writer, outcome);
}

/* ---- JSON ---- */

static void write_window_json(struct json_writer *writer, const struct day_window_outcome *window) {
    static const char *const roles[] = {"prefill_spent", "decode_spent"};
    words_member(writer, true, "hour", window->segment.hour);
    words_member(writer, false, "hours", window->segment.hours);
    words_member(writer, false, "decode_units", window->segment.decode_units);
    words_member(writer, false, "prefill_units", window->segment.prefill_units);
    words_member(writer, false, "sample_prefill_units", window->segment.sample_prefill_units);
    json_writer_text(writer, window->whole ? ",\"whole\":true" : ",\"whole\":false");
    words_member(writer, false, "input_rate", window->segment.input_rate);
    words_member(writer, false, "output_rate", window->segment.output_rate);
    words_member(writer, false, "tokens_per_s_per_user", window->speed);
    words_member(writer, false, "requests_per_decode_gpu", window->requests_gpu);
    words_member(writer, false, "kv_tokens_per_output_token", window->kv_tokens);
    words_member(writer, false, "hit_share", window->hit_share);
    words_member(writer, false, "input_of_offered", window->input_of_offered);
    words_member(writer, false, "output_of_offered", window->output_of_offered);
    words_member(writer, false, "ttft_p50_s", window->ttft_p50_s);
    words_member(writer, false, "ttft_p99_s", window->ttft_p99_s);
    words_member(writer, false, "tpot_p50_s", window->tpot_p50_s);
    words_member(writer, false, "tpot_p99_s", window->tpot_p99_s);
    words_member(writer, false, "prefill_busy", window->prefill_busy);
    words_member(writer, false, "decode_busy", window->decode_busy);
    words_member(writer, false, "prefill_step_s", window->prefill_step_s);
    words_member(writer, false, "decode_step_s", window->decode_step_s);
    words_member(writer, false, "prefill_expert_balance", window->prefill_balance);
    words_member(writer, false, "decode_expert_balance", window->decode_balance);
    words_member(writer, false, "pages_share", window->pages_share);
    words_member(writer, false, "hits_device", window->device_share);
    words_member(writer, false, "hits_host", window->host_share);
    words_member(writer, false, "hits_disk", window->disk_share);
    for (int role = 0; role < 2; role++) {
        json_writer_print(writer, ",\"%s\":{", roles[role]);
        for (uint32_t i = 0; i <= STEP_SPENT_COUNT; i++)
            words_member(writer, i == 0, outcome_spent_name(i), window->spent[role][i]);
        json_writer_text(writer, "}");
    }
}

static void write_layers_json(struct json_writer *writer, const struct day_outcome *outcome) {
    static const char *const roles[] = {"prefill", "decode"};
    const struct model_figures *model = outcome->scenario->options.model;
    json_writer_text(writer, "\"expert_balance_by_layer\":{");
    words_member(writer, true, "first_layer", model->dense_layers);
    for (int role = 0; role < 2; role++) {
        json_writer_print(writer, ",\n\"%s\":[", roles[role]);
        for (uint32_t i = model->dense_layers; i < model->layers; i++) {
            if (i > model->dense_layers) json_writer_text(writer, ",");
            words_number(writer, day_outcome_balance(outcome, role, i));
        }
        json_writer_text(writer, "]");
    }
    json_writer_text(writer, "}");
}

void day_outcome_write_json(struct json_writer *writer, const struct day_outcome *outcome) {
    json_writer_text(writer, "{");
    words_member_text(writer, true, "scenario", bytes_of(outcome->scenario->name));
    words_member(writer, false, "seed", (double)outcome->scenario->options.seed);
    json_writer_text(writer, ",\n");
    outcome_json_figures(writer, outcome->figures, outcome->figure_count);
    json_writer_text(writer, ",\n\"load\":{");
    words_member(writer, true, "prompt_mean", outcome->lengths.prompt_mean);
    words_member(writer, false, "answer_mean", outcome->lengths.answer_mean);
    words_member(writer, false, "hit_of_prompt", outcome->lengths.hit_of_prompt);
    json_writer_text(writer, "},\n");
    write_layers_json(writer, outcome);
    json_writer_text(writer, ",\n\"windows\":[");
    for (uint32_t i = 0; i < outcome->window_count; i++) {
        json_writer_text(writer, i ? ",\n{" : "\n{");
        write_window_json(writer, &outcome->windows[i]);
        json_writer_text(writer, "}");
    }
    json_writer_text(writer, "]}\n");
}
