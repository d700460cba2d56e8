/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/record_fleet.h"

#include "base/limits.h"
#include "contract/record_unit.h"

static bool role_valid_of(uint32_t role) {
    return role == UNIT_PREFILL || role == UNIT_DECODE;
}

static bool gateway_unit_valid(const struct fleet_gateway_unit *unit) {
    bool connected = unit->observed_state == FLEET_UNIT_STARTING ||
                     unit->observed_state == FLEET_UNIT_SERVING ||
                     unit->observed_state == FLEET_UNIT_DRAINING;
    return unit->role < UNIT_ROLE_COUNT && connected && unit->refused <= 1 &&
           !unit->numerics[sizeof unit->numerics - 1];
}

bool record_fleet_gateway_valid(const void *record) {
    const struct record_fleet_gateway *gateway = record;
    if (gateway->gateway >= LIMIT_FLEET_GATEWAYS || gateway->responds > 1 || gateway->reserved)
        return false;
    if (!gateway->responds && gateway->unit_count) return false;
    for (uint32_t i = 0; i < gateway->unit_count; i++)
        if (!gateway_unit_valid(&fleet_gateway_units(gateway)[i])) return false;
    return true;
}

bool record_fleet_jobs_valid(const void *record) {
    const struct record_fleet_jobs *jobs = record;
    if (jobs->responds > 1 || (!jobs->responds && jobs->job_count)) return false;
    for (uint32_t i = 0; i < jobs->job_count; i++) {
        const struct launcher_job *job = &fleet_jobs(jobs)[i];
        if (!job->number || !role_valid_of(job->role) || job->pending > 1 || job->reserved ||
            job->name[FLEET_JOB_NAME_BYTES - 1])
            return false;
    }
    return true;
}

bool record_fleet_unit_valid(const void *record) {
    const struct record_fleet_unit *unit = record;
    return unit->number > 0 && role_valid_of(unit->role) &&
           unit->observed_state < FLEET_UNIT_STATE_COUNT && unit->drained_by_operator <= 1 &&
           unit->stranded <= 1;
}

bool record_fleet_command_valid(const void *record) {
    const struct record_fleet_command *command = record;
    if (command->kind >= FLEET_COMMAND_COUNT) return false;
    if (command->kind == FLEET_COMMAND_PIN)
        return command->number == 0 && role_valid_of(command->role);
    return command->number > 0 && command->role == 0 && command->count == 0;
}

bool record_fleet_action_valid(const void *record) {
    const struct record_fleet_action *action = record;
    bool has_role = action->act == FLEET_ACT_START || action->act == FLEET_ACT_ROLE;
    bool asks_gateway = action->act == FLEET_ACT_DRAIN || action->act == FLEET_ACT_RESUME ||
                        action->act == FLEET_ACT_ROLE;
    if (!asks_gateway && (action->gateway || action->connection)) return false;
    return action->act < FLEET_ACT_COUNT && action->number > 0 &&
           action->gateway < LIMIT_FLEET_GATEWAYS && action->reason < FLEET_REASONS_MAX &&
           (has_role ? role_valid_of(action->role) : action->role == 0);
}
