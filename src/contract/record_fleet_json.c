/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/record_fleet_json.h"

#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "contract/record_unit.h"

#define COUNTER(name, member)                                                                      \
    {                                                                                              \
        name, offsetof(struct record_fleet_load, member),                                          \
            sizeof(((struct record_fleet_load *)0)->member)                                        \
    }

static const struct load_member {
    const char *name;
    size_t offset, bytes;
} load_members[] = {
    COUNTER("arrived_requests", arrived_requests),
    COUNTER("arrived_tokens", arrived_tokens),
    COUNTER("hit_tokens", hit_tokens),
    COUNTER("miss_tokens", miss_tokens),
    COUNTER("answers", completed),
    COUNTER("answer_tokens", output_tokens),
    COUNTER("first_tokens", first_tokens),
    COUNTER("late_first", ttft_misses),
    COUNTER("timed_answers", tpot_requests),
    COUNTER("slow_answers", tpot_misses),
    COUNTER("queued", requests_queued),
    COUNTER("held", requests_held),
};

static const char *const observed_state_names[FLEET_UNIT_STATE_COUNT] = {
    [FLEET_UNIT_STARTING] = "starting",
    [FLEET_UNIT_SERVING] = "serving",
    [FLEET_UNIT_DRAINING] = "draining"};

/* ---- writing ---- */

static void write_counters(struct json_writer *writer, const struct record_fleet_load *load) {
    for (size_t i = 0; i < ARRAY_COUNT(load_members); i++) {
        const char *at = (const char *)load + load_members[i].offset;
        uint64_t wide = 0;
        uint32_t narrow = 0;
        memcpy(load_members[i].bytes == 8 ? (void *)&wide : (void *)&narrow, at,
               load_members[i].bytes);
        json_writer_print(writer, "%s\"%s\":%lu", i ? "," : "", load_members[i].name,
                          wide + narrow);
    }
}

static void record_fleet_json_write_unit(struct json_writer *writer,
                                         const struct fleet_gateway_unit *unit) {
    json_writer_print(writer,
                      "{\"instance\":\"%016lx\",\"connection\":%u,\"role\":\"%s\",\"sight\":\"%s\","
                      "\"requests\":%u,\"refused\":%s,\"numerics\":",
                      unit->instance, unit->connection,
                      record_unit_role_name((enum unit_role)unit->role),
                      observed_state_names[unit->observed_state], unit->requests,
                      unit->refused ? "true" : "false");
    json_writer_string(writer, bytes_of(unit->numerics));
    json_writer_text(writer, "}");
}

void record_fleet_json_write(struct json_writer *writer, const struct record_fleet_gateway *report,
                             const struct fleet_gateway_unit *units) {
    json_writer_text(writer, "{\"load\":{");
    write_counters(writer, &report->load);
    json_writer_text(writer, "},\"units\":[");
    for (uint32_t i = 0; i < report->unit_count; i++) {
        if (i) json_writer_text(writer, ",");
        record_fleet_json_write_unit(writer, &units[i]);
    }
    json_writer_text(writer, "]}");
}

/* ---- reading ---- */

static bool read_count(const struct tree *of, const char *name, uint64_t most, uint64_t *count_out,
                       const char **missing_out) {
    int64_t count;
    *missing_out = name;
    if (!tree_get_integer(tree_member(of, name), &count) || count < 0 || (uint64_t)count > most)
        return false;
    *count_out = (uint64_t)count;
    return true;
}

static bool read_counters(const struct tree *of, struct record_fleet_load *load_out,
                          const char **missing_out) {
    for (size_t i = 0; i < ARRAY_COUNT(load_members); i++) {
        bool is_wide = load_members[i].bytes == 8;
        uint64_t wide;
        if (!read_count(of, load_members[i].name, is_wide ? INT64_MAX : UINT32_MAX, &wide,
                        missing_out))
            return false;
        uint32_t narrow = (uint32_t)wide;
        memcpy((char *)load_out + load_members[i].offset,
               is_wide ? (const void *)&wide : (const void *)&narrow, load_members[i].bytes);
    }
    return true;
}

static bool read_instance(const struct tree *of, uint64_t *instance_out) {
    struct bytes text;
    if (!tree_get_string(of, &text) || text.count != 16) return false;
    *instance_out = 0;
    for (size_t i = 0; i < text.count; i++) {
        const char *digit = memchr("0123456789abcdef", text.data[i], 16);
        if (!digit) return false;
        *instance_out = *instance_out << 4 | (uint64_t)(digit - "0123456789abcdef");
    }
    return true;
}

/* The index i < count with name_of(i) equal to the string; `count` if there is none. */
static uint32_t read_name(const struct tree *of, const char *(*name_of)(uint32_t), uint32_t count) {
    struct bytes text;
    uint32_t found = 0;
    if (!tree_get_string(of, &text)) return count;
    for (; found < count; found++)
        if (name_of(found) && bytes_equal(text, bytes_of(name_of(found)))) break;
    return found;
}

static const char *observed_state_name(uint32_t state) {
    return observed_state_names[state];
}

static const char *record_fleet_json_role_name(uint32_t role) {
    return record_unit_role_name((enum unit_role)role);
}

static bool record_fleet_json_read_unit(const struct tree *of, struct fleet_gateway_unit *unit_out,
                                        const char **missing_out) {
    struct bytes numerics;
    uint64_t connection, requests;
    bool refused;
    *unit_out = (struct fleet_gateway_unit){
        .role = read_name(tree_member(of, "role"), record_fleet_json_role_name, UNIT_ROLE_COUNT),
        .observed_state =
            read_name(tree_member(of, "sight"), observed_state_name, FLEET_UNIT_STATE_COUNT)};
    if (!read_count(of, "connection", UINT32_MAX, &connection, missing_out)) return false;
    if (!read_count(of, "requests", UINT32_MAX, &requests, missing_out)) return false;
    *missing_out = "role";
    if (unit_out->role == UNIT_ROLE_COUNT) return false;
    *missing_out = "sight";
    if (unit_out->observed_state == FLEET_UNIT_STATE_COUNT) return false;
    *missing_out = "instance";
    if (!read_instance(tree_member(of, "instance"), &unit_out->instance)) return false;
    *missing_out = "refused";
    if (!tree_get_bool(tree_member(of, "refused"), &refused)) return false;
    *missing_out = "numerics";
    if (!tree_get_string(tree_member(of, "numerics"), &numerics) ||
        numerics.count >= sizeof unit_out->numerics)
        return false;
    memcpy(unit_out->numerics, numerics.data, numerics.count);
    unit_out->connection = (uint32_t)connection;
    unit_out->requests = (uint32_t)requests;
    unit_out->refused = refused;
    return true;
}

bool record_fleet_json_read(const struct tree *root, struct record_fleet_gateway *report_out,
                            struct fleet_gateway_unit *units_out, uint32_t units_max,
                            const char **missing_out) {
    const struct tree *units = tree_member(root, "units");
    *report_out = (struct record_fleet_gateway){.responds = 1};
    if (!read_counters(tree_member(root, "load"), &report_out->load, missing_out)) return false;
    for (size_t i = 0; i < tree_count(units) && report_out->unit_count < units_max; i++)
        if (!record_fleet_json_read_unit(tree_at(units, i), &units_out[report_out->unit_count++],
                                         missing_out))
            return false;
    return true;
}
