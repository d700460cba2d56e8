/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/fleet_report.h"

#include "base/check.h"
#include "base/format.h"
#include "base/tree.h"
#include "gateway/reply.h"

#define RANKS_TOLD_MAX 2048 /* in one report, which has to fit the smallest outbox */

static const char *state_name(const struct fleet_unit *unit) {
    static const char *const names[] = {[FLEET_FREE] = "free",
                                        [FLEET_JOINING] = "joining",
                                        [FLEET_SERVING] = "serving",
                                        [FLEET_SILENT] = "silent",
                                        [FLEET_REFUSED] = "refused"};
    return unit->draining && unit->state == FLEET_SERVING ? "draining" : names[unit->state];
}

static const char *role_name(uint32_t role) {
    static const char *const names[UNIT_ROLE_COUNT] = {
        [UNIT_BOTH] = "both", [UNIT_PREFILL] = "prefill", [UNIT_DECODE] = "decode"};
    check(role < UNIT_ROLE_COUNT);
    return names[role];
}

static void write_member(struct json_writer *writer, const char *name, uint64_t value) {
    json_writer_text(writer, name);
    json_writer_unsigned(writer, value);
}

static void write_text_member(struct json_writer *writer, const char *name, const char *value) {
    json_writer_text(writer, name);
    json_writer_string(writer, bytes_of(value));
}

static void write_pages(struct json_writer *writer, uint32_t free, uint32_t held, uint32_t cached) {
    write_member(writer, ",\"kv_pages\":{\"free\":", free);
    write_member(writer, ",\"held\":", held);
    write_member(writer, ",\"cached\":", cached);
    write_member(writer, ",\"total\":", (uint64_t)free + held + cached);
    json_writer_text(writer, "}");
}

static void write_rank(struct json_writer *writer, const struct fleet_rank *rank) {
    json_writer_text(writer, "{\"pid\":");
    json_writer_integer(writer, rank->is.pid);
    write_member(writer, ",\"requests_waiting\":", rank->load.requests_waiting);
    write_member(writer, ",\"requests_running\":", rank->load.requests_running);
    write_pages(writer, rank->load.pages_free, rank->load.pages_held, rank->load.pages_cached);
    json_writer_text(writer, "}");
}

static void write_unit(struct json_writer *writer, const struct fleet_unit *unit,
                       uint32_t *ranks_told) {
    static const char digits[] = "0123456789abcdef";
    char model[2 * sizeof unit->hello.model_id + 1] = "", milliseconds[32];
    for (size_t i = 0; i < sizeof unit->hello.model_id; i++) {
        model[2 * i] = digits[(uint8_t)unit->hello.model_id[i] >> 4];
        model[2 * i + 1] = digits[(uint8_t)unit->hello.model_id[i] & 15];
    }
    write_member(writer, "{\"id\":", unit->id.value);
    write_text_member(writer, ",\"role\":", role_name(unit->hello.role));
    write_text_member(writer, ",\"state\":", state_name(unit));
    write_text_member(writer, ",\"model\":", model);
    write_text_member(writer, ",\"numerics\":", unit->hello.numerics_id);
    json_writer_text(writer, ",\"ranks\":[");
    uint32_t rank_count = unit->state == FLEET_REFUSED ? 0 : unit->hello.rank_count;
    for (uint32_t i = 0; i < rank_count && *ranks_told < RANKS_TOLD_MAX; i++, ++*ranks_told) {
        if (i) json_writer_text(writer, ",");
        write_rank(writer, &unit->ranks[i]);
    }
    write_member(writer, "],\"requests_bound\":", unit->bound);
    write_member(writer, ",\"requests_waiting\":", unit->load.requests_waiting);
    write_member(writer, ",\"requests_running\":", unit->load.requests_running);
    write_pages(writer, unit->load.pages_free, unit->load.pages_held, unit->load.pages_cached);
    write_member(writer, ",\"steps_total\":", unit->load.steps_total);
    format_text(milliseconds, sizeof milliseconds, "%.3f", (double)unit->load.last_step_ns / 1e6);
    json_writer_text(writer, ",\"last_step_ms\":");
    json_writer_text(writer, milliseconds);
    json_writer_text(writer, "}");
}

static void write_report(struct json_writer *writer, const void *context) {
    const struct gateway *gateway = context;
    uint32_t told = 0, ranks_told = 0;
    json_writer_text(writer, "{\"units\":[");
    for (uint32_t i = 0; i < LIMIT_FLEET_UNITS; i++) {
        if (gateway->fleet.units[i].state == FLEET_FREE) continue;
        if (told++) json_writer_text(writer, ",");
        write_unit(writer, &gateway->fleet.units[i], &ranks_told);
    }
    write_member(writer, "],\"queue\":", gateway->queue.count);
    write_member(writer, ",\"requests\":", gateway->held_count);
    write_member(writer, ",\"resumed_total\":", gateway->resumed_total);
    write_member(writer, ",\"lost_units_total\":", gateway->fleet.losses_total);
    json_writer_text(writer, "}");
}

static struct reply reply_of(struct connection_id connection) {
    return (struct reply){.connection = connection,
                          .endpoint = METRICS_FLEET,
                          .http_status = 200,
                          .content_type = CONTENT_JSON};
}

enum status fleet_report(struct gateway *gateway, struct connection_id connection) {
    struct reply reply = reply_of(connection);
    return reply_whole(gateway, &reply, write_report, gateway);
}

/* ---- draining -------------------------------------------------------------------------------- */

static void write_drained(struct json_writer *writer, const void *context) {
    const struct fleet_unit *unit = context;
    write_member(writer, "{\"unit\":", unit->id.value);
    json_writer_text(writer, ",\"state\":\"draining\"}");
}

/* False: *error_out says what is wrong with the body. */
static bool read_unit(struct gateway *gateway, const struct record_client_request *record,
                      uint32_t *unit_out, struct api_error *error_out) {
    size_t body_at =
        record_tail(record_tail(sizeof *record) + record->path_bytes) + record->authorization_bytes;
    struct bytes body = {record_tail_at(record, body_at), record->body_bytes};
    const struct tree *root = NULL;
    struct error why;
    int64_t id;
    arena_clear(&gateway->scratch);
    if (body.count > gateway->options.body_bytes_max ||
        tree_parse(&gateway->scratch, body, "request body", &root, &why) ||
        !tree_get_integer(tree_member(root, "unit"), &id))
        return api_error_set(error_out, 400, "unit", "invalid_value",
                             "The body must be {\"unit\": id}, an id of GET /debug/fleet.");
    *unit_out = FLEET_NONE;
    if (id >= 0 && id <= UINT32_MAX)
        *unit_out = fleet_find(&gateway->fleet, (struct unit_id){(uint32_t)id});
    if (*unit_out != FLEET_NONE && fleet_is_member(&gateway->fleet, *unit_out)) return true;
    return api_error_set(error_out, 404, "unit", "not_found", "No unit %lld serves here.",
                         (long long)id);
}

enum status fleet_report_drain(struct gateway *gateway,
                               const struct record_client_request *record) {
    struct api_error error;
    uint32_t index = FLEET_NONE;
    if (!read_unit(gateway, record, &index, &error))
        return reply_error(gateway, record->connection, METRICS_FLEET, &error);
    struct fleet_unit *unit = &gateway->fleet.units[index];
    struct reply reply = reply_of(record->connection);
    uint32_t mark = gateway->outbox.used;
    if (!outbox_put_carried(&gateway->outbox, RECORD_TO_UNIT, unit->id, RECORD_DRAIN,
                            sizeof(struct record_drain)))
        return STATUS_FULL;
    if (reply_whole(gateway, &reply, write_drained, unit)) {
        gateway->outbox.used = mark;
        return STATUS_FULL;
    }
    unit->draining = true;
    return STATUS_OK;
}
