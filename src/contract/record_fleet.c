/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/record_fleet.h"

#include "contract/record_unit.h"

static bool role_valid_of(uint32_t role) {
    return role == UNIT_PREFILL || role == UNIT_DECODE;
}

bool record_fleet_unit_valid(const void *record) {
    const struct record_fleet_unit *unit = record;
    return unit->number > 0 && role_valid_of(unit->role) && unit->sight < FLEET_SEEN_COUNT &&
           unit->held <= 1 && unit->alone <= 1;
}

bool record_fleet_order_valid(const void *record) {
    const struct record_fleet_order *order = record;
    if (order->wish >= FLEET_WISH_COUNT) return false;
    if (order->wish == FLEET_WISH_PIN) return order->number == 0 && role_valid_of(order->role);
    return order->number > 0 && order->role == 0 && order->count == 0;
}

bool record_fleet_action_valid(const void *record) {
    const struct record_fleet_action *action = record;
    bool has_role = action->act == FLEET_ACT_START || action->act == FLEET_ACT_ROLE;
    return action->act < FLEET_ACT_COUNT && action->number > 0 &&
           action->reason < FLEET_REASONS_MAX &&
           (has_role ? role_valid_of(action->role) : action->role == 0);
}
