/* SPDX-License-Identifier: Apache-2.0 */
#include "host/fleet/gateway_watch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/tree.h"
#include "contract/record_fleet_json.h"
#include "contract/record_unit.h"
#include "host/fleet/admin_call.h"
#include "host/fleet/launcher.h"

#define TREE_BYTES ((size_t)32 << 20)

struct gateway_watch {
    const struct fleet_file *file;
    char tag[FLEET_TAG_DIGITS + 1];
    /* NULL: the host name could not be resolved yet */
    struct admin_call *calls[LIMIT_FLEET_GATEWAYS];
    struct record_fleet_gateway *report; /* with LIMIT_FLEET_UNITS units */
    void *memory;                        /* [TREE_BYTES] */
};

enum status gateway_watch_open(const struct fleet_file *file, const char *tag,
                               struct gateway_watch **watch_out, struct error *error) {
    struct gateway_watch *watch = calloc(1, sizeof *watch);
    if (!watch) return error_set(error, STATUS_NO_MEMORY, "no memory for gateways' reports");
    watch->memory = malloc(TREE_BYTES);
    watch->report =
        calloc(1, sizeof *watch->report + LIMIT_FLEET_UNITS * sizeof(struct fleet_gateway_unit));
    if (!watch->memory || !watch->report) {
        gateway_watch_close(watch);
        return error_set(error, STATUS_NO_MEMORY, "no memory for gateways' reports");
    }
    watch->file = file;
    snprintf(watch->tag, sizeof watch->tag, "%s", tag);
    *watch_out = watch;
    return STATUS_OK;
}

void gateway_watch_close(struct gateway_watch *watch) {
    if (!watch) return;
    for (uint32_t i = 0; i < LIMIT_FLEET_GATEWAYS; i++)
        admin_call_close(watch->calls[i]);
    free(watch->report);
    free(watch->memory);
    free(watch);
}

static enum status gateway_watch_ask(struct gateway_watch *watch, uint32_t gateway,
                                     const char *path, const char *body, struct bytes *answer_out,
                                     struct error *error) {
    struct admin_call **call = &watch->calls[gateway];
    enum status status = STATUS_OK;
    if (!*call) status = admin_call_open(watch->file->gateways.words[gateway], call, error);
    return status ? status : admin_call_ask(*call, path, body, answer_out, error);
}

/* ---- reports ---- */

/* The fleet's number of a unit, from its instance after the fleet's tag. */
static uint32_t number_of(const struct gateway_watch *watch, uint64_t instance) {
    char digits[24];
    snprintf(digits, sizeof digits, "%016" PRIx64, instance);
    digits[2 * FLEET_TAG_DIGITS] = 0;
    return launcher_number(watch->tag, digits);
}

static enum status ask_report(struct gateway_watch *watch, uint32_t gateway, struct error *error) {
    const struct fleet_manager_options *options = &watch->file->manager;
    const struct tree *root;
    const char *missing;
    struct bytes text;
    struct arena arena;
    char body[128];
    snprintf(body, sizeof body, "{\"ttft_limit_ns\":%" PRId64 ",\"tpot_limit_ns\":%" PRId64 "}",
             options->ttft_limit_ns, options->tpot_limit_ns);
    enum status status = gateway_watch_ask(watch, gateway, "/debug/fleet/load", body, &text, error);
    arena_over(&arena, watch->memory, TREE_BYTES);
    if (!status) status = tree_parse(&arena, text, "/debug/fleet/load", &root, error);
    if (status) return status;
    if (record_fleet_json_read(root, watch->report, fleet_gateway_units(watch->report),
                               LIMIT_FLEET_UNITS, &missing))
        return STATUS_OK;
    return error_set(error, STATUS_INVALID,
                     "%.200s/debug/fleet/load: expected \"%s\"; is it the operator's port of a "
                     "Fathom gateway of this version?",
                     watch->file->gateways.words[gateway], missing);
}

enum status gateway_watch_poll(struct gateway_watch *watch, uint32_t gateway,
                               const struct record_fleet_gateway **report_out,
                               struct error *error) {
    struct record_fleet_gateway *report = watch->report;
    enum status status = ask_report(watch, gateway, error);
    if (status) *report = (struct record_fleet_gateway){.responds = 0};
    for (uint32_t i = 0; i < report->unit_count; i++) {
        struct fleet_gateway_unit *unit = &fleet_gateway_units(report)[i];
        unit->number = number_of(watch, unit->instance);
    }
    report->gateway = gateway;
    record_set_head(report, RECORD_FLEET_GATEWAY);
    *report_out = report;
    return status;
}

/* ---- orders ---- */

enum status gateway_watch_order(struct gateway_watch *watch,
                                const struct record_fleet_action *action, struct error *error) {
    struct bytes answer;
    char body[96];
    if (!action->connection)
        return error_set(error, STATUS_NOT_FOUND, "no gateway is connected to unit %u",
                         action->number);
    if (action->act == FLEET_ACT_ROLE)
        snprintf(body, sizeof body, "{\"unit\":%u,\"role\":\"%s\"}", action->connection,
                 record_unit_role_name((enum unit_role)action->role));
    else
        snprintf(body, sizeof body, "{\"unit\":%u,\"back\":%s}", action->connection,
                 action->act == FLEET_ACT_RESUME ? "true" : "false");
    return gateway_watch_ask(watch, action->gateway,
                             action->act == FLEET_ACT_ROLE ? "/debug/fleet/role"
                                                           : "/debug/fleet/drain",
                             body, &answer, error);
}
