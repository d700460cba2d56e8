/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/kernel/fault_timetable.h"

#include "base/check.h"
#include "base/number.h"
#include "contract/machine.h"

static void plan_next(struct fault_timetable *table, uint32_t kind, int64_t now_ns) {
    table->due_ns[kind] =
        now_ns + fleet_dice_time(&table->dice[kind], 0, table->kinds[kind].after_ms_max * FLEET_MS);
}

void fault_timetable_open(struct fault_timetable *table, const struct fault_kind *kinds,
                          uint32_t count, uint64_t seed, uint32_t stream) {
    *table = (struct fault_timetable){.kinds = kinds, .count = count};
    check(count <= FAULT_KINDS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        table->dice[i] = (struct fleet_dice){.seed = seed, .stream = stream + i};
        plan_next(table, i, 0);
    }
}

void fault_timetable_end(struct fault_timetable *table) {
    for (uint32_t i = 0; i < table->count; i++)
        table->due_ns[i] = MACHINE_NEVER;
}

int64_t fault_timetable_next_ns(const struct fault_timetable *table) {
    int64_t next_ns = MACHINE_NEVER;
    for (uint32_t i = 0; i < table->count; i++)
        next_ns = min_i64(next_ns, table->due_ns[i]);
    return next_ns;
}

uint32_t fault_timetable_strike(struct fault_timetable *table, struct world *world,
                                int64_t now_ns) {
    uint32_t struck = 0;
    for (uint32_t i = 0; i < table->count; i++) {
        if (table->due_ns[i] > now_ns) continue;
        table->kinds[i].strike(world, &table->dice[i]);
        plan_next(table, i, now_ns);
        struck++;
    }
    return struck;
}
