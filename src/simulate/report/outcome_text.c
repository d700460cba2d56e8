/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/report/outcome_text.h"

#include "base/check.h"
#include "simulate/report/fault_table.h"

static void outcome_text_write_counts(struct json_writer *writer, const struct outcome *outcome) {
    const struct simulator_report *report = &outcome->report;
    json_writer_print(writer, "%s, seed %llu: %.6g s measured, %llu requests asked, %llu answered",
                      outcome->scenario->name, (unsigned long long)outcome->scenario->options.seed,
                      report->measured_s, (unsigned long long)report->asked,
                      (unsigned long long)report->answered);
    if (report->refused)
        json_writer_print(writer, ", %llu refused", (unsigned long long)report->refused);
    if (report->failed)
        json_writer_print(writer, ", %llu failed", (unsigned long long)report->failed);
    json_writer_text(writer, "\n");
}

static void outcome_text_write_role(struct json_writer *writer, const struct outcome *outcome,
                                    enum unit_role role) {
    const struct simulator_role_counts *counts = &outcome->report.roles[role];
    double seconds = outcome->report.measured_s, ranks = (double)counts->ranks;
    double rates[4] = {words_ratio((double)counts->prompt_tokens, seconds),
                       words_ratio((double)counts->computed_tokens, seconds),
                       words_ratio((double)counts->output_tokens, seconds),
                       words_ratio((double)counts->output_tokens + (double)counts->computed_tokens,
                                   seconds * ranks)};
    char text[4][WORDS_SHORT_BYTES];
    if (counts->units == 0) return;
    for (int i = 0; i < 4; i++)
        words_short(i < 3 ? words_ratio(rates[i], outcome_nodes(outcome, role)) : rates[i],
                    text[i]);
    json_writer_print(writer, "%-8s %5llu %6llu %6llu %10s %10s %10s %10s %9.2f %7.1f %8.3f\n",
                      record_unit_role_name(role), (unsigned long long)counts->units,
                      (unsigned long long)counts->ranks, (unsigned long long)counts->nodes, text[0],
                      text[1], text[2], text[3],
                      words_ratio(counts->step_ns * 1e-6, (double)counts->steps),
                      100 * words_ratio((double)counts->pages_held, (double)counts->pages_total),
                      counts->expert_balance);
}

static void outcome_text_write_roles(struct json_writer *writer, const struct outcome *outcome) {
    json_writer_print(writer, "\n%-8s %5s %6s %6s %10s %10s %10s %10s %9s %7s %8s\n", "", "units",
                      "ranks", "nodes", "prompt", "computed", "output", "of a rank", "step ms",
                      "KV %", "balance");
    json_writer_print(writer, "%-8s %5s %6s %6s %32s\n", "", "", "", "",
                      "tokens a second and node");
    for (int role = 0; role < UNIT_ROLE_COUNT; role++)
        outcome_text_write_role(writer, outcome, (enum unit_role)role);
}

static void write_time(struct json_writer *writer, const char *name,
                       const struct time_spread *spread) {
    json_writer_print(writer, "%-8s %10.2f %10.2f %10.2f %10.2f %10.2f %10llu\n", name,
                      spread_mean(spread) * 1e-6, spread_quantile(spread, 0.5) * 1e-6,
                      spread_quantile(spread, 0.9) * 1e-6, spread_quantile(spread, 0.99) * 1e-6,
                      spread_quantile(spread, 0.999) * 1e-6, (unsigned long long)spread->total);
}

static void outcome_text_write_times(struct json_writer *writer, const struct outcome *outcome) {
    const struct simulator_report *report = &outcome->report;
    json_writer_print(writer, "\n%-8s %10s %10s %10s %10s %10s %10s\n", "ms", "mean", "p50", "p90",
                      "p99", "p99.9", "requests");
    write_time(writer, "TTFT", &outcome->ttft);
    write_time(writer, "TPOT", &outcome->tpot);
    write_time(writer, "whole", &outcome->e2e);
    json_writer_print(writer, "speed of users: %.2f tokens/s (mean over tokens)\n",
                      words_ratio(report->user_speed_tokens, report->user_tokens));
}

static void outcome_text_write_spent(struct json_writer *writer, const struct outcome *outcome) {
    json_writer_print(writer, "\n%-8s", "time %");
    for (uint32_t i = 0; i <= STEP_SPENT_COUNT; i++)
        json_writer_print(writer, " %13s", outcome_spent_name(i));
    json_writer_text(writer, "\n");
    for (int role = 0; role < UNIT_ROLE_COUNT; role++) {
        const struct simulator_role_counts *counts = &outcome->report.roles[role];
        double all = outcome->report.measured_s * (double)counts->ranks;
        if (counts->units == 0) continue;
        json_writer_print(writer, "%-8s", record_unit_role_name((enum unit_role)role));
        for (uint32_t i = 0; i <= STEP_SPENT_COUNT; i++)
            json_writer_print(writer, " %13.1f", 100 * words_ratio(outcome_spent(counts, i), all));
        json_writer_text(writer, "\n");
    }
}

static void outcome_text_write_rest(struct json_writer *writer, const struct outcome *outcome) {
    struct day_figure figures[OUTCOME_FIGURES_MAX];
    const struct simulator_report *report = &outcome->report;
    const struct prices *prices = &outcome->scenario->prices;
    uint32_t count = outcome_figures(outcome, figures);
    uint64_t preemptions = 0, moves = 0;
    for (int role = 0; role < UNIT_ROLE_COUNT; role++) {
        preemptions += report->roles[role].preemptions;
        moves += report->roles[role].moves;
    }
    json_writer_print(writer,
                      "\nhits     %.2f %% of prompt tokens: device %.2f, host %.2f, storage %.2f\n",
                      outcome_figure_of(figures, count, "cache_hit_percent"),
                      outcome_figure_of(figures, count, "device_hit_percent"),
                      outcome_figure_of(figures, count, "host_hit_percent"),
                      outcome_figure_of(figures, count, "disk_hit_percent"));
    json_writer_print(writer,
                      "KV       %.0f tokens read for each output token; %.3g GB transferred, "
                      "%.3g GB read from storage, %.3g GB written\n",
                      outcome_figure_of(figures, count, "kv_tokens_per_output_token"),
                      report->transfer_bytes * 1e-9, report->storage_read_bytes * 1e-9,
                      report->storage_written_bytes * 1e-9);
    json_writer_print(writer,
                      "events   %u faults, %llu requests lost their pages, %llu experts moved\n",
                      outcome->scenario->options.fault_count, (unsigned long long)preemptions,
                      (unsigned long long)moves);
    if (prices->node_hour <= 0) return;
    json_writer_print(writer,
                      "money    cost %.2f %s an hour, income %.2f (%.2f at list prices), margin "
                      "%.1f %%\n",
                      outcome_figure_of(figures, count, "cost_per_hour"), prices->currency,
                      outcome_figure_of(figures, count, "income_per_hour"),
                      outcome_figure_of(figures, count, "income_list_per_hour"),
                      outcome_figure_of(figures, count, "margin_percent"));
}

void outcome_text_write(struct json_writer *writer, const struct outcome *outcome) {
    outcome_text_write_counts(writer, outcome);
    outcome_text_write_roles(writer, outcome);
    outcome_text_write_times(writer, outcome);
    outcome_text_write_spent(writer, outcome);
    outcome_text_write_rest(writer, outcome);
    fault_table_text(writer, outcome);
}
