/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/unit_counters.h"

#include "base/check.h"

const struct unit_counter unit_counter_table[] = {
#define UNIT_COUNTER_ROW(member, ranks, where, metric, labels, help)                               \
    {offsetof(struct unit_counters, member), ranks, where, metric, labels, help},
    UNIT_COUNTERS(UNIT_COUNTER_ROW)
#undef UNIT_COUNTER_ROW
};
const size_t unit_counter_count = ARRAY_COUNT(unit_counter_table);

static uint64_t *unit_counters_value_at(struct unit_counters *counters,
                                        const struct unit_counter *counter) {
    return (uint64_t *)(void *)((char *)counters + counter->offset);
}

uint64_t unit_counters_value(const struct unit_counters *counters,
                             const struct unit_counter *counter) {
    return *(const uint64_t *)(const void *)((const char *)counters + counter->offset);
}

static void renew_rank(uint64_t *sum, uint64_t before, uint64_t now, enum counted_ranks ranks) {
    if (ranks == COUNTED_BY_EACH)
        *sum += now - before;
    else if (now > *sum)
        *sum = now;
}

/* Called for each rank that has changed, with every load report. */
void unit_counters_renew_rank(struct unit_counters *sum, const struct unit_counters *before,
                              const struct unit_counters *now) {
#define UNIT_COUNTER_RENEW(member, ranks, where, metric, labels, help)                             \
    renew_rank(&sum->member, before->member, now->member, ranks);
    UNIT_COUNTERS(UNIT_COUNTER_RENEW)
#undef UNIT_COUNTER_RENEW
}

void unit_counters_add_unit(struct unit_counters *sum, const struct unit_counters *unit) {
    for (size_t i = 0; i < unit_counter_count; i++)
        *unit_counters_value_at(sum, &unit_counter_table[i]) +=
            unit_counters_value(unit, &unit_counter_table[i]);
}
