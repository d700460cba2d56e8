/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/unit_totals.h"

#include "base/check.h"

/* open_out[LIMIT_FLEET_UNITS]: sums of the books of the requests that each unit has. */
static void sum_open(const struct gateway *gateway, struct unit_books *open_out) {
    memset(open_out, 0, LIMIT_FLEET_UNITS * sizeof *open_out);
    for (uint32_t slot = 0; slot < gateway->requests.slots_used; slot++) {
        const struct request *request = &gateway->requests.slots[slot];
        if (request->life.state == REQUEST_FREE) continue;
        for (uint32_t part = 0; part < PART_COUNT; part++) {
            const struct request_binding *binding = &request->life.at[part];
            if (binding->unit == FLEET_NONE) continue;
            open_out[binding->unit].made_tokens += binding->books.made_tokens;
            open_out[binding->unit].computed_tokens += binding->books.computed_tokens;
        }
    }
}

static bool put(struct gateway *gateway, uint32_t index, const struct unit_books *open,
                bool is_lost) {
    const struct fleet_unit *unit = &gateway->fleet.units[index];
    struct record_unit_totals totals = {
        .instance = unit->hello.instance,
        .unit = unit->number,
        .role = unit->hello.role,
        .rank_count = unit->hello.rank_count,
        .is_lost = is_lost || unit->given_up,
        .counted = unit->load.totals,
        .entered = {unit->books.made_tokens - open->made_tokens,
                    unit->books.computed_tokens - open->computed_tokens},
        .open = *open,
    };
    /* A unit counts the work of a prompt before it reports it, so a unit with a request is not at
     * rest. */
    if (unit->bound && open->made_tokens + open->computed_tokens == 0)
        totals.open.computed_tokens = 1;
    return machine_outbox_put(&gateway->outbox, RECORD_UNIT_TOTALS, &totals) != NULL;
}

enum status unit_totals_lost(struct gateway *gateway, uint32_t unit) {
    struct unit_books open[LIMIT_FLEET_UNITS];
    if (!gateway->options.totals_ns || !fleet_is_member(&gateway->fleet, unit)) return STATUS_OK;
    sum_open(gateway, open);
    return put(gateway, unit, &open[unit], true) ? STATUS_OK : STATUS_FULL;
}

static bool has_just_ended(const struct gateway *gateway) {
    return gateway->draining && gateway_held_count(gateway) == 0 && !gateway->tallied_end;
}

void unit_totals_soon(struct gateway *gateway) {
    gateway->tallied_ns = -gateway->options.totals_ns;
}

int64_t unit_totals_wake_ns(const struct gateway *gateway) {
    if (!gateway->options.totals_ns || gateway->started_ns == MACHINE_NEVER) return MACHINE_NEVER;
    return has_just_ended(gateway) ? 0 : gateway->tallied_ns + gateway->options.totals_ns;
}

void unit_totals_run(struct gateway *gateway, int64_t now_ns) {
    struct unit_books open[LIMIT_FLEET_UNITS];
    if (now_ns < unit_totals_wake_ns(gateway)) return;
    if (!gateway_can_put(gateway, LIMIT_FLEET_UNITS * record_bytes(RECORD_UNIT_TOTALS, NULL)))
        return; /* again later */
    sum_open(gateway, open);
    for (uint32_t unit = 0; unit < LIMIT_FLEET_UNITS; unit++) {
        if (!fleet_is_member(&gateway->fleet, unit)) continue;
        bool room = put(gateway, unit, &open[unit], false);
        check(room);
    }
    gateway->tallied_ns = now_ns;
    gateway->tallied_end = has_just_ended(gateway) || gateway->tallied_end;
}
