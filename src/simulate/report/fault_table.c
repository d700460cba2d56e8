/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/report/fault_table.h"

#include "simulate/report/words.h"

static bool fault_table_any(const struct outcome *outcome) {
    for (uint32_t kind = 0; kind < SIMULATOR_FAULT_KIND_COUNT; kind++)
        if (outcome->costs[kind].times) return true;
    return false;
}

static double fault_table_percent(uint64_t part, uint64_t whole) {
    return words_ratio(100 * (double)part, (double)whole);
}

static double limit_s(int64_t ns) {
    return (double)ns * 1e-9;
}

/* ---- text ---- */

void fault_table_text(struct json_writer *writer, const struct outcome *outcome) {
    const struct fault_limits *limits = &outcome->scenario->limits;
    if (!fault_table_any(outcome)) return;
    json_writer_print(writer, "\n%-12s %6s %9s %7s %21s %21s\n", "faults", "times", "requests",
                      "failed", "TTFT missed (without)", "TPOT missed (without)");
    for (uint32_t kind = 0; kind < SIMULATOR_FAULT_KIND_COUNT; kind++) {
        const struct fault_cost *cost = &outcome->costs[kind];
        if (!cost->times) continue;
        json_writer_print(
            writer, "%-12s %6llu %9llu %7llu %9.1f %% (%5.1f %%) %9.1f %% (%5.1f %%)\n",
            simulator_faults_name((enum simulator_fault_kind)kind), (unsigned long long)cost->times,
            (unsigned long long)cost->requests, (unsigned long long)cost->failed,
            fault_table_percent(cost->ttft_missed, cost->requests),
            fault_table_percent(cost->ttft_without, cost->requests),
            fault_table_percent(cost->tpot_missed, cost->requests),
            fault_table_percent(cost->tpot_without, cost->requests));
    }
    json_writer_print(
        writer,
        "missed: beyond %.6g s, and %.6g s a token, of requests in the fleet until %d s "
        "behind such a fault. without: the same requests in a run without any fault.\n",
        limit_s(limits->ttft_ns), limit_s(limits->tpot_ns),
        (int)(FAULT_COSTS_AFTER_NS / 1000000000));
}

/* ---- a page ---- */

static void fault_table_write_cell(struct json_writer *writer, uint64_t value) {
    json_writer_print(writer, "<td class=\"n\">%llu</td>", (unsigned long long)value);
}

static void write_share(struct json_writer *writer, uint64_t with, uint64_t without,
                        uint64_t requests) {
    json_writer_print(writer, "<td class=\"n\">%.1f %%</td><td class=\"n\">%.1f %%</td>",
                      fault_table_percent(with, requests), fault_table_percent(without, requests));
}

void fault_table_html(struct json_writer *writer, const struct outcome *outcome) {
    const struct fault_limits *limits = &outcome->scenario->limits;
    if (!fault_table_any(outcome)) return;
    json_writer_print(
        writer,
        "<h2>What faults cost</h2>\n<p>Of requests that were in the fleet at some time "
        "from such a fault's beginning to %d s behind its end: those that missed a TTFT of "
        "%.6g s, or a mean TPOT of %.6g s; and the same requests in a run without any "
        "fault.</p>\n",
        (int)(FAULT_COSTS_AFTER_NS / 1000000000), limit_s(limits->ttft_ns),
        limit_s(limits->tpot_ns));
    json_writer_text(writer,
                     "<table><tr><th>fault</th><th class=\"n\">times</th><th class=\"n\">requests"
                     "</th><th class=\"n\">failed</th><th class=\"n\">TTFT missed</th><th "
                     "class=\"n\">without</th><th class=\"n\">TPOT missed</th><th class=\"n\">"
                     "without</th></tr>\n");
    for (uint32_t kind = 0; kind < SIMULATOR_FAULT_KIND_COUNT; kind++) {
        const struct fault_cost *cost = &outcome->costs[kind];
        if (!cost->times) continue;
        json_writer_print(writer, "<tr><td>%s</td>",
                          simulator_faults_name((enum simulator_fault_kind)kind));
        fault_table_write_cell(writer, cost->times);
        fault_table_write_cell(writer, cost->requests);
        fault_table_write_cell(writer, cost->failed);
        write_share(writer, cost->ttft_missed, cost->ttft_without, cost->requests);
        write_share(writer, cost->tpot_missed, cost->tpot_without, cost->requests);
        json_writer_text(writer, "</tr>\n");
    }
    json_writer_text(writer, "</table>\n");
}

/* ---- JSON ---- */

static void write_kind(struct json_writer *writer, uint32_t kind, const struct fault_cost *cost) {
    const char *name = simulator_faults_name((enum simulator_fault_kind)kind);
    words_member_text(writer, true, "kind", bytes_of(name));
    words_member(writer, false, "times", (double)cost->times);
    words_member(writer, false, "requests", (double)cost->requests);
    words_member(writer, false, "failed", (double)cost->failed);
    words_member(writer, false, "ttft_missed", (double)cost->ttft_missed);
    words_member(writer, false, "ttft_missed_without", (double)cost->ttft_without);
    words_member(writer, false, "tpot_missed", (double)cost->tpot_missed);
    words_member(writer, false, "tpot_missed_without", (double)cost->tpot_without);
}

void fault_table_json(struct json_writer *writer, const struct outcome *outcome) {
    const struct fault_limits *limits = &outcome->scenario->limits;
    const char *before = "\n{";
    if (!fault_table_any(outcome)) return;
    json_writer_text(writer, ",\n\"faults\":{");
    words_member(writer, true, "ttft_limit_s", limit_s(limits->ttft_ns));
    words_member(writer, false, "tpot_limit_s", limit_s(limits->tpot_ns));
    words_member(writer, false, "counted_behind_s", limit_s(FAULT_COSTS_AFTER_NS));
    json_writer_text(writer, ",\"kinds\":[");
    for (uint32_t kind = 0; kind < SIMULATOR_FAULT_KIND_COUNT; kind++) {
        if (!outcome->costs[kind].times) continue;
        json_writer_text(writer, before);
        write_kind(writer, kind, &outcome->costs[kind]);
        json_writer_text(writer, "}");
        before = ",\n{";
    }
    json_writer_text(writer, "]}");
}
