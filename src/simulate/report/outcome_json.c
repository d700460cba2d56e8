/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/report/outcome_json.h"

#include "simulate/report/fault_table.h"

#define SPREAD_SHARES 9

static void outcome_json_write_published(struct json_writer *writer,
                                         const struct day_figure *figure) {
    json_writer_text(writer, ",\"published\":");
    if (figure->published_count == 0) {
        json_writer_text(writer, "null");
    } else if (figure->published_count == 1) {
        words_number(writer, figure->published[0]);
    } else {
        json_writer_text(writer, "[");
        words_number(writer, figure->published[0]);
        json_writer_text(writer, ",");
        words_number(writer, figure->published[1]);
        json_writer_text(writer, "]");
    }
}

void outcome_json_figures(struct json_writer *writer, const struct day_figure *figures,
                          uint32_t count) {
    json_writer_text(writer, "\"figures\":[");
    for (uint32_t i = 0; i < count; i++) {
        const struct day_figure *figure = &figures[i];
        json_writer_text(writer, i ? ",\n{" : "\n{");
        words_member_text(writer, true, "name", bytes_of(figure->name));
        words_member_text(writer, false, "kind", bytes_of(day_figures_kind_name(figure->kind)));
        json_writer_text(writer, figure->fitted ? ",\"fitted\":true" : ",\"fitted\":false");
        outcome_json_write_published(writer, figure);
        words_member(writer, false, "simulated", figure->simulated);
        words_member_text(writer, false, "unit", bytes_of(figure->unit));
        json_writer_text(writer, "}");
    }
    json_writer_text(writer, "]");
}

static void outcome_json_write_role(struct json_writer *writer,
                                    const struct simulator_role_counts *counts) {
    words_member(writer, true, "units", (double)counts->units);
    words_member(writer, false, "ranks", (double)counts->ranks);
    words_member(writer, false, "nodes", (double)counts->nodes);
    words_member(writer, false, "steps", (double)counts->steps);
    words_member(writer, false, "step_s", counts->step_ns * 1e-9);
    words_member(writer, false, "prompt_tokens", (double)counts->prompt_tokens);
    words_member(writer, false, "computed_tokens", (double)counts->computed_tokens);
    words_member(writer, false, "device_hits", (double)counts->device_hits);
    words_member(writer, false, "host_hits", (double)counts->host_hits);
    words_member(writer, false, "disk_hits", (double)counts->disk_hits);
    words_member(writer, false, "output_tokens", (double)counts->output_tokens);
    words_member(writer, false, "rows", (double)counts->rows);
    words_member(writer, false, "context", (double)counts->context);
    words_member(writer, false, "pages_held", (double)counts->pages_held);
    words_member(writer, false, "pages_cached", (double)counts->pages_cached);
    words_member(writer, false, "pages_total", (double)counts->pages_total);
    words_member(writer, false, "preemptions", (double)counts->preemptions);
    words_member(writer, false, "moved_experts", (double)counts->moves);
    json_writer_text(writer, ",\"spent_s\":{");
    for (uint32_t i = 0; i <= STEP_SPENT_COUNT; i++)
        words_member(writer, i == 0, outcome_spent_name(i), outcome_spent(counts, i));
    json_writer_text(writer, "}");
}

static void outcome_json_write_roles(struct json_writer *writer, const struct outcome *outcome) {
    const char *before = "\"roles\":{";
    for (int role = 0; role < UNIT_ROLE_COUNT; role++) {
        if (outcome->report.roles[role].units == 0) continue;
        json_writer_print(writer, "%s\"%s\":{", before,
                          record_unit_role_name((enum unit_role)role));
        outcome_json_write_role(writer, &outcome->report.roles[role]);
        json_writer_text(writer, "}");
        before = ",\n";
    }
    json_writer_text(writer, *before == ',' ? "}" : "\"roles\":{}");
}

static void write_spread(struct json_writer *writer, const char *name,
                         const struct time_spread *spread) {
    static const double shares[SPREAD_SHARES] = {0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99};
    json_writer_print(writer, "\"%s\":{", name);
    words_member(writer, true, "count", (double)spread->total);
    words_member(writer, false, "mean", spread_mean(spread) * 1e-6);
    for (int i = 0; i < SPREAD_SHARES; i++) {
        json_writer_print(writer, ",\"p%.0f\":", 100 * shares[i]);
        words_number(writer, spread_quantile(spread, shares[i]) * 1e-6);
    }
    json_writer_text(writer, "}");
}

static void outcome_json_write_series(struct json_writer *writer, const struct outcome *outcome) {
    uint32_t count = outcome_points(outcome);
    json_writer_text(writer, "\"series\":[");
    for (uint32_t i = 0; i < count; i++) {
        const struct outcome_point *point = &outcome->points[i];
        json_writer_text(writer, i ? ",\n{" : "\n{");
        words_member(writer, true, "at_s", point->at_s);
        words_member(writer, false, "prompt_tokens_per_s", point->prompt_rate);
        words_member(writer, false, "computed_tokens_per_s", point->computed_rate);
        words_member(writer, false, "output_tokens_per_s", point->output_rate);
        words_member(writer, false, "open_requests", point->open);
        for (int role = 0; role < UNIT_ROLE_COUNT; role++) {
            if (outcome->report.roles[role].units == 0) continue;
            json_writer_print(writer,
                              ",\"%s_kv_use\":", record_unit_role_name((enum unit_role)role));
            words_number(writer, point->pages_share[role]);
        }
        json_writer_text(writer, "}");
    }
    json_writer_text(writer, "]");
}

static void outcome_json_write_counts(struct json_writer *writer,
                                      const struct simulator_report *report) {
    words_member(writer, true, "measured_s", report->measured_s);
    words_member(writer, false, "asked", (double)report->asked);
    words_member(writer, false, "answered", (double)report->answered);
    words_member(writer, false, "refused", (double)report->refused);
    words_member(writer, false, "failed", (double)report->failed);
    words_member(writer, false, "prompt_tokens", (double)report->prompt_tokens);
    words_member(writer, false, "hit_tokens", (double)report->hit_tokens);
    words_member(writer, false, "output_tokens", (double)report->output_tokens);
    words_member(writer, false, "transfer_bytes", report->transfer_bytes);
    words_member(writer, false, "storage_read_bytes", report->storage_read_bytes);
    words_member(writer, false, "storage_written_bytes", report->storage_written_bytes);
    words_member(writer, false, "records", (double)report->records);
    words_member(writer, false, "events", (double)report->events);
    json_writer_print(writer, ",\"digest\":\"%016llx\"", (unsigned long long)report->digest);
}

void outcome_json_write(struct json_writer *writer, const struct outcome *outcome) {
    struct day_figure figures[OUTCOME_FIGURES_MAX];
    uint32_t count = outcome_figures(outcome, figures);
    json_writer_text(writer, "{");
    words_member_text(writer, true, "scenario", bytes_of(outcome->scenario->name));
    words_member(writer, false, "seed", (double)outcome->scenario->options.seed);
    words_member_text(writer, false, "breach", bytes_of(outcome->report.breach));
    json_writer_text(writer, ",\n");
    outcome_json_figures(writer, figures, count);
    json_writer_text(writer, ",\n\"counts\":{");
    outcome_json_write_counts(writer, &outcome->report);
    json_writer_text(writer, "},\n");
    outcome_json_write_roles(writer, outcome);
    json_writer_text(writer, ",\n\"times_ms\":{");
    write_spread(writer, "ttft", &outcome->ttft);
    json_writer_text(writer, ",");
    write_spread(writer, "tpot", &outcome->tpot);
    json_writer_text(writer, ",");
    write_spread(writer, "e2e", &outcome->e2e);
    json_writer_text(writer, "},\n");
    outcome_json_write_series(writer, outcome);
    fault_table_json(writer, outcome);
    json_writer_text(writer, ",\n\"parameters\":");
    tree_write(writer, outcome->scenario->tree);
    json_writer_text(writer, "}\n");
}
