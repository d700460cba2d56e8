/* SPDX-License-Identifier: Apache-2.0 */
#include "host/fleet/fleet_status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/bytes.h"

static const char *const side_names[SCALE_SIDES] = {
    [SCALE_PREFILL] = "prefill", [SCALE_DECODE] = "decode"};

static void fleet_status_time(int64_t wall_ns, char *text_out) {
    time_t seconds = (time_t)(wall_ns / 1000000000);
    struct tm when;
    gmtime_r(&seconds, &when);
    strftime(text_out, 24, "%Y-%m-%dT%H:%M:%SZ", &when);
}

static const char *fleet_status_job_of(const struct fleet_moment *reported, uint32_t number) {
    for (uint32_t i = 0; i < reported->unit_count; i++)
        if (reported->units[i].number == number) return reported->units[i].job;
    return "";
}

/* Writes an action, such as "start 2 decode". */
static void write_action(char text[64], const struct fleet_next *next) {
    snprintf(text, 64, "%s %d %s", next->change > 0 ? "start" : "drain", abs(next->change),
             side_names[next->side]);
}

/* ---- JSON ---- */

static void write_units(struct json_writer *writer, const struct fleet_moment *reported) {
    struct managed_unit units[MANAGED_UNITS_MAX];
    uint32_t count = fleet_manager_units(reported->manager, units);
    json_writer_text(writer, "{\"units\":[");
    for (uint32_t i = 0; i < count; i++) {
        uint32_t side = fleet_manager_side_of(units[i].role);
        json_writer_print(
            writer,
            "%s{\"id\":%u,\"role\":\"%s\",\"state\":\"%s\",\"nodes\":%u,\"launcher\":\"%s\"",
            i ? "," : "", units[i].number, side_names[side],
            managed_units_state_name(units[i].state),
            reported->file->manager.rule.sides[side].unit_nodes, reported->launcher);
        json_writer_text(writer, ",\"job\":");
        json_writer_string(writer, bytes_of(fleet_status_job_of(reported, units[i].number)));
        json_writer_text(writer, "}");
    }
}

void fleet_status_write_json(struct json_writer *writer, const struct fleet_moment *reported) {
    struct fleet_outlook outlook = fleet_manager_outlook(reported->manager);
    struct fleet_next next = fleet_manager_next(reported->manager, reported->wall_ns);
    char at[24], action[64];
    write_units(writer, reported);
    json_writer_print(writer, "],\"wanted\":{\"prefill\":%u,\"decode\":%u},\"next\":",
                      outlook.wanted[SCALE_PREFILL], outlook.wanted[SCALE_DECODE]);
    if (next.is_known) {
        fleet_status_time(next.at_ns, at);
        write_action(action, &next);
        json_writer_print(writer, "{\"at\":\"%s\",\"action\":\"%s\",\"reason\":\"%s\"}}\n", at,
                          action, scale_fleet_reason_name(next.reason));
    } else {
        json_writer_text(writer, "{\"at\":null,\"action\":null,\"reason\":null}}\n");
    }
}

/* ---- the table ---- */

static void write_sides(struct json_writer *writer, const struct fleet_outlook *outlook) {
    json_writer_print(writer, "%-8s %6s %6s %12s %12s %12s  %s\n", "role", "units", "wanted",
                      "tokens/s now", "soon", "later", "why");
    for (uint32_t side = 0; side < SCALE_SIDES; side++) {
        const struct scale_demand *demand = &outlook->demand[side];
        json_writer_print(writer, "%-8s %6u %6u %12.1f %12.1f %12.1f  %s\n", side_names[side],
                          outlook->units[side], outlook->wanted[side], demand->now, demand->soon,
                          demand->later,
                          outlook->has_load ? scale_fleet_reason_name(outlook->reason[side])
                                            : "the load is not known yet");
    }
}

void fleet_status_write_table(struct json_writer *writer, const struct fleet_moment *reported) {
    struct managed_unit units[MANAGED_UNITS_MAX];
    uint32_t count = fleet_manager_units(reported->manager, units);
    struct fleet_outlook outlook = fleet_manager_outlook(reported->manager);
    struct fleet_next next = fleet_manager_next(reported->manager, reported->wall_ns);
    char at[24], action[64];
    fleet_status_time(reported->wall_ns, at);
    json_writer_print(
        writer, "fleet %s at %s: %u of %u nodes, %llu starts, %llu failed, %llu units lost\n",
        reported->file->name, at, outlook.nodes, outlook.nodes_max,
        (unsigned long long)outlook.starts_total, (unsigned long long)outlook.failed_total,
        (unsigned long long)outlook.lost_total);
    if (reported->trouble[0]) json_writer_print(writer, "cannot be seen: %s\n", reported->trouble);
    json_writer_text(writer, "\n");
    write_sides(writer, &outlook);
    json_writer_print(writer, "\n%6s %-8s %-9s %6s %9s  %s\n", "unit", "role", "state", "nodes",
                      "requests", "job");
    for (uint32_t i = 0; i < count; i++)
        json_writer_print(
            writer, "%6u %-8s %-9s %6u %9u  %s%s\n", units[i].number,
            side_names[fleet_manager_side_of(units[i].role)],
            managed_units_state_name(units[i].state),
            reported->file->manager.rule.sides[fleet_manager_side_of(units[i].role)].unit_nodes,
            units[i].requests, fleet_status_job_of(reported, units[i].number),
            units[i].drained_by_operator ? " (drained by an operator)" : "");
    if (next.is_known) {
        fleet_status_time(next.at_ns, at);
        write_action(action, &next);
        json_writer_print(writer, "\nnext: %s at %s: %s\n", action, at,
                          scale_fleet_reason_name(next.reason));
    } else {
        json_writer_text(writer, "\nnext: nothing within a day, as far as is expected\n");
    }
}

/* ---- metrics ---- */

static void fleet_status_write_family(struct json_writer *writer, const char *name,
                                      const char *type, const char *help) {
    json_writer_print(writer, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void write_total(struct json_writer *writer, const char *name, const char *help,
                        uint64_t value) {
    fleet_status_write_family(writer, name, "counter", help);
    json_writer_print(writer, "%s %llu\n", name, (unsigned long long)value);
}

void fleet_status_write_metrics(struct json_writer *writer, const struct fleet_moment *reported) {
    struct fleet_outlook outlook = fleet_manager_outlook(reported->manager);
    fleet_status_write_family(writer, "fathom_fleet_units", "gauge", "Units that serve or start.");
    for (uint32_t side = 0; side < SCALE_SIDES; side++)
        json_writer_print(writer, "fathom_fleet_units{role=\"%s\"} %u\n", side_names[side],
                          outlook.units[side]);
    fleet_status_write_family(writer, "fathom_fleet_units_wanted", "gauge",
                              "Units that the load wants.");
    for (uint32_t side = 0; side < SCALE_SIDES; side++)
        json_writer_print(writer, "fathom_fleet_units_wanted{role=\"%s\"} %u\n", side_names[side],
                          outlook.wanted[side]);
    fleet_status_write_family(
        writer, "fathom_fleet_tokens_per_second", "gauge",
        "Tokens that arrive for a role, now and by the time a unit has started.");
    for (uint32_t side = 0; side < SCALE_SIDES; side++)
        json_writer_print(writer,
                          "fathom_fleet_tokens_per_second{role=\"%s\",when=\"now\"} %.3f\n"
                          "fathom_fleet_tokens_per_second{role=\"%s\",when=\"soon\"} %.3f\n",
                          side_names[side], outlook.demand[side].now, side_names[side],
                          outlook.demand[side].soon);
    fleet_status_write_family(writer, "fathom_fleet_nodes", "gauge",
                              "Nodes that the fleet has, and may have.");
    json_writer_print(writer,
                      "fathom_fleet_nodes{is=\"used\"} %u\nfathom_fleet_nodes{is=\"allowed\"} %u\n",
                      outlook.nodes, outlook.nodes_max);
    write_total(writer, "fathom_fleet_starts_total", "Units that were ordered.",
                outlook.starts_total);
    write_total(writer, "fathom_fleet_starts_failed_total", "Of them, never served.",
                outlook.failed_total);
    write_total(writer, "fathom_fleet_units_lost_total", "Units that ended while they served.",
                outlook.lost_total);
    write_total(writer, "fathom_fleet_reversals_total",
                "Times that growth followed on shrinking, or the opposite.",
                outlook.reversals_total);
}
