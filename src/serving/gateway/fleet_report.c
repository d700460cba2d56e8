/* SPDX-License-Identifier: Apache-2.0
 * The operator's view of the fleet, and the operator's orders. GET /debug/fleet:
 *
 *   {"units":[{"id","instance","role","state":"joining|serving|draining|silent|refused",
 *     "model","numerics",
 *     "ranks":[{"pid","requests_waiting","requests_running","requests_parked","kv_pages":{...}}],
 *     "requests_bound","requests_waiting","requests_running",
 *     "kv_pages":{"free","held","cached","total"},"steps_total","last_step_ms",
 *     "prefill_choices":{reason: times},"decode_choices":{reason: times}}],
 *    "unit_choices":{reason: times},"queue","requests","resumed_total","role_changes_total",
 *    "lost_units_total"}
 *
 * POST /debug/fleet/load with {"ttft_limit_ns":N,"tpot_limit_ns":N}: the load report for the
 * fleet's manager (contract/record_fleet_json.h).
 * POST /debug/fleet/drain with {"unit":id}: the unit takes no new requests and finishes its own.
 * With "back":true it serves again. With "rank":r the order is for that rank only.
 * POST /debug/fleet/role with {"unit":id,"role":"prefill|decode|both"}: its role for later
 * requests.
 */
#include "serving/gateway/fleet_report.h"
#include "base/check.h"
#include "base/format.h"
#include "base/tree.h"
#include "contract/record_fleet_json.h"
#include "serving/gateway/dispatch.h"
#include "serving/gateway/gateway_state.h"
#include "serving/gateway/reply.h"
#include "serving/policy/balance/balance_decode.h"
#include "serving/policy/balance/balance_prefill.h"
#include "serving/policy/balance/rebalance.h"

#define RANKS_REPORTED_MAX 2048 /* in one report, which must fit the smallest outbox */

static const char *fleet_report_state_name(const struct fleet_unit *unit) {
    static const char *const names[] = {[FLEET_FREE] = "free",
                                        [FLEET_JOINING] = "joining",
                                        [FLEET_SERVING] = "serving",
                                        [FLEET_SILENT] = "silent",
                                        [FLEET_REFUSED] = "refused"};
    bool drains = unit->draining || unit->load.draining;
    return drains && unit->state == FLEET_SERVING ? "draining" : names[unit->state];
}

/* Writes how often each reason has been chosen. */
#define WRITE_REASONS(writer, type, count, name_of, times)                                         \
    for (uint32_t i = 0; i < (count); i++)                                                         \
    json_writer_print(writer, "%s\"%s\":%lu", i ? "," : "", name_of((enum type)i), (times)[i])

/* Writes nothing if there is no storage. */
static void fleet_report_write_storage(struct json_writer *writer, uint32_t state) {
    if (state != KV_STORAGE_NONE)
        json_writer_text(writer, state == KV_STORAGE_ON ? ",\"kv_storage\":\"on\""
                                                        : ",\"kv_storage\":\"read only\"");
}

static void fleet_report_write_pages(struct json_writer *writer, uint32_t free, uint32_t held,
                                     uint32_t cached) {
    json_writer_print(writer, ",\"kv_pages\":{\"free\":%u,\"held\":%u,\"cached\":%u,\"total\":%lu}",
                      free, held, cached, (uint64_t)free + held + cached);
}

/* The drain state of a rank; "" if it serves. */
static const char *drain_name(const struct fleet_unit *unit, uint32_t rank) {
    const struct unit_rank_load *load = &unit->ranks[rank].load;
    if (!experts_bit(unit->experts.masked, rank)) return "";
    bool empty = experts_bit(unit->experts.empty, rank) && !load->requests_running &&
                 !load->requests_waiting;
    return empty ? ",\"state\":\"drained\"" : ",\"state\":\"draining\"";
}

static void write_rank(struct json_writer *writer, const struct fleet_unit *unit, uint32_t index) {
    const struct fleet_rank *rank = &unit->ranks[index];
    json_writer_print(
        writer,
        "{\"pid\":%ld,\"requests_waiting\":%u,\"requests_running\":%u,\"requests_parked\":%u",
        rank->is.pid, rank->load.requests_waiting, rank->load.requests_running,
        rank->load.requests_parked);
    fleet_report_write_pages(writer, rank->load.pages_free, rank->load.pages_held,
                             rank->load.pages_cached);
    fleet_report_write_storage(writer, rank->load.kv_storage);
    json_writer_text(writer, drain_name(unit, index));
    json_writer_text(writer, "}");
}

static void write_ranks(struct json_writer *writer, const struct fleet_unit *unit,
                        uint32_t *ranks_reported) {
    uint32_t rank_count = unit->state == FLEET_REFUSED ? 0 : unit->hello.rank_count;
    for (uint32_t i = 0; i < rank_count && *ranks_reported < RANKS_REPORTED_MAX;
         i++, ++*ranks_reported) {
        if (i) json_writer_text(writer, ",");
        write_rank(writer, unit, i);
    }
}

static void fleet_report_write_unit(struct json_writer *writer, const struct fleet_unit *unit,
                                    uint32_t *ranks_reported) {
    const struct record_unit_load *load = &unit->load;
    struct bytes numerics = bytes_of(unit->hello.numerics_id);
    json_writer_print(
        writer, "{\"id\":%u,\"instance\":\"%016lx\",\"role\":\"%s\",\"state\":\"%s\",\"model\":\"",
        unit->number, unit->hello.instance, record_unit_role_name(unit->hello.role),
        fleet_report_state_name(unit));
    for (size_t i = 0; i < sizeof unit->hello.model_id; i++)
        json_writer_print(writer, "%02x", (uint8_t)unit->hello.model_id[i]);
    json_writer_print(writer, "\",\"numerics\":\"%.*s\",\"ranks\":[", PRINT_BYTES(numerics));
    write_ranks(writer, unit, ranks_reported);
    json_writer_print(writer,
                      "],\"requests_bound\":%u,\"requests_waiting\":%u,\"requests_running\":%u",
                      unit->bound, load->requests_waiting, load->requests_running);
    fleet_report_write_pages(writer, load->pages_free, load->pages_held, load->pages_cached);
    fleet_report_write_storage(writer, load->kv_storage);
    json_writer_print(writer, ",\"steps_total\":%lu,\"last_step_ms\":%.3f,\"prefill_choices\":{",
                      load->totals.steps, (double)load->last_step_ns / 1e6);
    WRITE_REASONS(writer, prefill_reason, LOAD_PREFILL_REASONS, balance_prefill_reason_name,
                  load->prefill_choices_total);
    json_writer_text(writer, "},\"decode_choices\":{");
    WRITE_REASONS(writer, decode_reason, LOAD_DECODE_REASONS, balance_decode_reason_name,
                  load->decode_choices_total);
    json_writer_text(writer, "}}");
}

static void write_report(struct json_writer *writer, const void *context) {
    const struct gateway *gateway = context;
    uint32_t reported = 0, ranks_reported = 0;
    json_writer_text(writer, "{\"units\":[");
    for (uint32_t i = 0; i < LIMIT_FLEET_UNITS; i++) {
        if (gateway->fleet.units[i].state == FLEET_FREE) continue;
        if (reported++) json_writer_text(writer, ",");
        fleet_report_write_unit(writer, &gateway->fleet.units[i], &ranks_reported);
    }
    json_writer_text(writer, "],\"unit_choices\":{");
    WRITE_REASONS(writer, units_reason, UNITS_REASON_COUNT, balance_units_reason_name,
                  gateway->unit_choices);
    json_writer_print(writer,
                      "},\"queue\":%u,\"requests\":%u,\"resumed_total\":%lu,"
                      "\"handed_over_total\":%lu,\"role_changes_total\":%lu",
                      gateway_queued_count(gateway), gateway_held_count(gateway),
                      gateway->resumed_total, gateway->handed_over_total,
                      gateway->role_changes_total);
    if (gateway->options.role_hold_ns)
        json_writer_print(writer, ",\"role_choice\":\"%s\"",
                          choose_roles_reason_name(gateway->roles.reason));
    json_writer_print(writer, ",\"lost_units_total\":%lu}", gateway->fleet.losses_total);
}

enum status fleet_report(struct gateway *gateway, const struct endpoint_call *call) {
    return reply_call(gateway, call, write_report, gateway);
}

/* ---- the manager's report ---- */

static uint64_t count_above(const struct histogram *histogram, int64_t limit_ns) {
    uint64_t above = 0;
    for (uint32_t i = 0; i <= histogram_times.bound_count; i++)
        if (i == histogram_times.bound_count || (int64_t)histogram_times.bounds[i] > limit_ns)
            above += histogram->counts[i];
    return above;
}

static uint32_t fleet_report_state_of(const struct fleet *fleet, uint32_t unit) {
    uint32_t state = fleet->units[unit].state;
    if (state == FLEET_SERVING && fleet_drains(fleet, unit)) return FLEET_UNIT_DRAINING;
    return state == FLEET_SERVING || state == FLEET_SILENT ? FLEET_UNIT_SERVING
                                                           : FLEET_UNIT_STARTING;
}

void fleet_report_fill(const struct gateway *gateway, int64_t ttft_limit_ns, int64_t tpot_limit_ns,
                       struct record_fleet_gateway *report_out,
                       struct fleet_gateway_unit *units_out) {
    const struct metrics *metrics = &gateway->metrics;
    const struct fleet *fleet = &gateway->fleet;
    *report_out = (struct record_fleet_gateway){
        .responds = 1,
        .load = {.arrived_requests = metrics->arrived_answers,
                 .arrived_tokens = metrics->arrived_tokens,
                 .hit_tokens = metrics->prompt_hit_tokens,
                 .miss_tokens = metrics->prompt_miss_tokens,
                 .completed = histogram_total(&metrics->output_lengths),
                 .output_tokens = metrics->output_lengths.sum,
                 .first_tokens = histogram_total(&metrics->first_token_ns),
                 .ttft_misses = count_above(&metrics->first_token_ns, ttft_limit_ns),
                 .tpot_requests = histogram_total(&metrics->token_ns),
                 .tpot_misses = count_above(&metrics->token_ns, tpot_limit_ns),
                 .requests_queued = gateway_queued_count(gateway),
                 .requests_held = gateway_held_count(gateway)}};
    for (uint32_t i = 0; i < LIMIT_FLEET_UNITS; i++) {
        const struct fleet_unit *unit = &fleet->units[i];
        if (unit->state == FLEET_FREE || unit->state == FLEET_JOINING) continue;
        struct fleet_gateway_unit *out = &units_out[report_out->unit_count++];
        *out = (struct fleet_gateway_unit){.instance = unit->hello.instance,
                                           .connection = unit->number,
                                           .role = unit->hello.role,
                                           .observed_state = fleet_report_state_of(fleet, i),
                                           .requests = unit->bound,
                                           .refused = unit->state == FLEET_REFUSED};
        memcpy(out->numerics, unit->hello.numerics_id, sizeof out->numerics);
    }
}

struct load_limits {
    const struct gateway *gateway;
    int64_t ttft_limit_ns, tpot_limit_ns;
};

static void write_load(struct json_writer *writer, const void *context) {
    const struct load_limits *asked = context;
    struct record_fleet_gateway report;
    struct fleet_gateway_unit units[LIMIT_FLEET_UNITS];
    fleet_report_fill(asked->gateway, asked->ttft_limit_ns, asked->tpot_limit_ns, &report, units);
    record_fleet_json_write(writer, &report, units);
}

static bool fleet_report_check_size(struct bytes body, struct api_error *error_out) {
    return body.count <= LIMIT_ORDER_BYTES ||
           api_error_set(error_out, 413, NULL, "request_too_large",
                         "The body has %zu bytes; at most %d are allowed here.", body.count,
                         LIMIT_ORDER_BYTES);
}

/* Rejects a body with an unknown member. */
static bool fleet_report_check_members(const struct tree *root, const char *const *members,
                                       struct api_error *error_out) {
    struct tree_cursor cursor = {NULL};
    struct bytes name;
    const struct tree *value;
    while (tree_next_member(root, &cursor, &name, &value)) {
        const char *const *known = members;
        while (*known && !bytes_equal(name, bytes_of(*known)))
            known++;
        if (*known) continue;
        int shown = name.count < 100 ? (int)name.count : 100;
        return api_error_set(error_out, 400, NULL, "unsupported_parameter",
                             "\"%.*s\" is not known here; nothing was changed.", shown, name.data);
    }
    return true;
}

/* Reads a limit of 0 or more nanoseconds. */
static bool fleet_report_read_limit(const struct tree *root, const char *name, int64_t *out) {
    return tree_get_integer(tree_member(root, name), out) && *out >= 0;
}

enum status fleet_report_load(struct gateway *gateway, const struct endpoint_call *call) {
    static const char *const members[] = {"ttft_limit_ns", "tpot_limit_ns", NULL};
    struct load_limits asked = {.gateway = gateway};
    struct bytes body = {client_request_body(call->record), call->record->body_bytes};
    const struct tree *root = NULL;
    struct api_error error;
    struct error why;
    arena_clear(&gateway->scratch);
    bool valid = fleet_report_check_size(body, &error);
    if (valid && (tree_parse(&gateway->scratch, body, "request body", &root, &why) ||
                  !fleet_report_read_limit(root, "ttft_limit_ns", &asked.ttft_limit_ns) ||
                  !fleet_report_read_limit(root, "tpot_limit_ns", &asked.tpot_limit_ns)))
        valid = api_error_set(&error, 400, NULL, "invalid_value",
                              "The body must be {\"ttft_limit_ns\": n, \"tpot_limit_ns\": n}, "
                              "with whole numbers from 0 on.");
    if (!valid || !fleet_report_check_members(root, members, &error))
        return reply_error(gateway, call->record->connection, call->endpoint, NULL, &error);
    return reply_call(gateway, call, write_load, &asked);
}

/* ---- orders ---- */

/* The fields of an operator's order. */
struct fleet_order {
    uint32_t unit, number;     /* index of the unit, and its number */
    struct record_drain drain; /* the drain order without its head, or */
    enum unit_role role;
};

struct fleet_order_call {
    const char *more;             /* members of a body other than "unit", required or optional */
    const char *const members[4]; /* all allowed members; NULL after the last */
    bool (*read)(const struct gateway *gateway, const struct tree *root, struct fleet_order *order,
                 struct api_error *error_out);
    enum status (*give)(struct gateway *gateway, const struct fleet_order *order); /* or FULL */
    void (*write)(struct json_writer *writer, const void *order);
};

/* Parses the body and finds the unit that it names. False: *error_out is set. */
static bool fleet_report_read_unit(struct gateway *gateway,
                                   const struct record_client_request *record, const char *more,
                                   const struct tree **root_out, struct fleet_order *order,
                                   struct api_error *error_out) {
    struct bytes body = {client_request_body(record), record->body_bytes};
    struct error why;
    int64_t id;
    arena_clear(&gateway->scratch);
    if (!fleet_report_check_size(body, error_out)) return false;
    if (tree_parse(&gateway->scratch, body, "request body", root_out, &why) ||
        !tree_get_integer(tree_member(*root_out, "unit"), &id))
        return api_error_set(error_out, 400, "unit", "invalid_value",
                             "The body must be {\"unit\": id}, an id of GET /debug/fleet, %s.",
                             more);
    if (id >= 0 && id <= UINT32_MAX) {
        order->number = (uint32_t)id;
        order->unit = fleet_find_number(&gateway->fleet, order->number);
    }
    if (order->unit == FLEET_NONE || !fleet_is_member(&gateway->fleet, order->unit))
        return api_error_set(error_out, 404, "unit", "not_found", "There is no unit %lld.",
                             (long long)id);
    return true;
}

static enum status fleet_report_perform(struct gateway *gateway, const struct endpoint_call *call,
                                        const struct fleet_order_call *kind) {
    struct api_error error;
    struct fleet_order order = {.unit = FLEET_NONE};
    const struct tree *root = NULL;
    if (!fleet_report_read_unit(gateway, call->record, kind->more, &root, &order, &error) ||
        !fleet_report_check_members(root, kind->members, &error) ||
        !kind->read(gateway, root, &order, &error))
        return reply_error(gateway, call->record->connection, call->endpoint, NULL, &error);
    uint32_t mark = gateway->outbox.used;
    if (kind->give(gateway, &order)) return STATUS_FULL;
    if (!reply_call(gateway, call, kind->write, &order)) return STATUS_OK;
    gateway->outbox.used = mark; /* repeating the order later is harmless */
    return STATUS_FULL;
}

/* ---- draining ---- */

static void write_drained(struct json_writer *writer, const void *context) {
    const struct fleet_order *order = context;
    json_writer_print(writer, "{\"unit\":%u", order->number);
    if (order->drain.one_rank) json_writer_print(writer, ",\"rank\":%u", order->drain.rank);
    json_writer_print(writer, ",\"state\":\"%s\"}", order->drain.back ? "serving" : "draining");
}

/* Checks that a rank may leave: the others must have slots for all experts. */
static bool check_rank(const struct gateway *gateway, const struct fleet_order *order,
                       struct api_error *error_out) {
    const struct fleet_unit *unit = &gateway->fleet.units[order->unit];
    const struct record_experts *experts = &unit->experts;
    struct rebalance_shape shape = {.experts = experts->experts,
                                    .ranks = experts->ranks,
                                    .slots_per_rank = experts->slots_per_rank};
    bool masked[LIMIT_RANKS] = {false};
    uint32_t gone = 0;
    if (order->drain.rank >= unit->hello.rank_count)
        return api_error_set(error_out, 404, "rank", "not_found", "Unit %u has no rank %u.",
                             order->number, order->drain.rank);
    for (uint32_t rank = 0; rank < experts->ranks; rank++) {
        masked[rank] = experts_bit(experts->masked, rank);
        if (rank == order->drain.rank) masked[rank] = !order->drain.back;
        gone += masked[rank];
    }
    if (!gone || (gone < experts->ranks && rebalance_fits(&shape, masked))) return true;
    if (gone >= experts->ranks)
        return api_error_set(error_out, 409, "rank", "not_possible",
                             "Unit %u would have no rank left.", order->number);
    return api_error_set(
        error_out, 409, "rank", "not_possible",
        "The other ranks of unit %u have %u slots in a layer, for %u experts. Start it with "
        "--redundant-experts %u.",
        order->number, (experts->ranks - gone) * experts->slots_per_rank, experts->experts,
        rebalance_redundancy(&shape, gone));
}

static bool read_drain(const struct gateway *gateway, const struct tree *root,
                       struct fleet_order *order, struct api_error *error_out) {
    int64_t rank;
    bool back = false;
    if (tree_member(root, "back") && !tree_get_bool(tree_member(root, "back"), &back))
        return api_error_set(error_out, 400, "back", "invalid_value",
                             "\"back\" must be true or false.");
    order->drain.back = back;
    if (!tree_member(root, "rank")) return true;
    if (!tree_get_integer(tree_member(root, "rank"), &rank) || rank < 0 || rank >= LIMIT_RANKS)
        return api_error_set(error_out, 400, "rank", "invalid_value",
                             "\"rank\" must be the number of a rank.");
    order->drain = (struct record_drain){.one_rank = 1, .rank = (uint32_t)rank, .back = back};
    return check_rank(gateway, order, error_out);
}

static enum status give_drain(struct gateway *gateway, const struct fleet_order *order) {
    struct fleet_unit *unit = &gateway->fleet.units[order->unit];
    if (!machine_outbox_put_envelope(&gateway->outbox, RECORD_TO_UNIT, unit->id, RECORD_DRAIN,
                                     &order->drain))
        return STATUS_FULL;
    if (order->drain.one_rank) return STATUS_OK;
    unit->draining = !order->drain.back;
    if (order->drain.back) unit->load.draining = 0; /* until its next load report */
    gateway->changed = true;                        /* waiting requests may use the unit again */
    return STATUS_OK;
}

enum status fleet_report_drain(struct gateway *gateway, const struct endpoint_call *call) {
    static const struct fleet_order_call kind = {
        .more = "or also name a \"rank\" of it, and say whether it is to come \"back\"",
        .members = {"unit", "rank", "back"},
        .read = read_drain,
        .give = give_drain,
        .write = write_drained};
    return fleet_report_perform(gateway, call, &kind);
}

/* ---- roles ---- */

static void write_assigned(struct json_writer *writer, const void *context) {
    const struct fleet_order *order = context;
    json_writer_print(writer, "{\"unit\":%u,\"role\":\"%s\"}", order->number,
                      record_unit_role_name(order->role));
}

static bool read_role(const struct gateway *gateway, const struct tree *root,
                      struct fleet_order *order, struct api_error *error_out) {
    struct bytes name;
    uint32_t role = 0;
    bool known = tree_get_string(tree_member(root, "role"), &name);
    while (known && role < UNIT_ROLE_COUNT &&
           !bytes_equal(name, bytes_of(record_unit_role_name(role))))
        role++;
    if (!known || role == UNIT_ROLE_COUNT)
        return api_error_set(error_out, 400, "role", "invalid_value",
                             "\"role\" must be \"prefill\", \"decode\" or \"both\".");
    if (role != UNIT_BOTH && !fleet_moves_blocks(&gateway->fleet, order->unit))
        return api_error_set(
            error_out, 409, "role", "not_possible",
            "Unit %u accepts no KV blocks from other units. Start it with --kv-listen, or "
            "serve with --prefill-units and --decode-units.",
            order->number);
    order->role = (enum unit_role)role;
    return true;
}

static enum status give_role(struct gateway *gateway, const struct fleet_order *order) {
    return dispatch_assign(gateway, order->unit, order->role);
}

enum status fleet_report_role(struct gateway *gateway, const struct endpoint_call *call) {
    static const struct fleet_order_call kind = {.more = "and its \"role\"",
                                                 .members = {"unit", "role"},
                                                 .read = read_role,
                                                 .give = give_role,
                                                 .write = write_assigned};
    return fleet_report_perform(gateway, call, &kind);
}
