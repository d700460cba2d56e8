/* SPDX-License-Identifier: Apache-2.0 */
#include "host/engine/group_step.h"

#include <string.h>

static uint32_t first_schedule(const struct step_plan *const *plans, uint32_t count) {
    for (uint32_t rank = 0; rank < count; rank++)
        if (plans[rank]->overlap < OVERLAP_KIND_COUNT) return plans[rank]->overlap;
    return 0;
}

struct step_plan group_step_none(const struct step_plan *const *plans, uint32_t count) {
    struct step_plan none = {.record = record_head(RECORD_RUN_STEP, sizeof none),
                             .overlap = first_schedule(plans, count),
                             .awaits = plans[0]->awaits};
    for (uint32_t rank = 0; rank < count; rank++)
        none.others_draft |= plans[rank]->others_draft;
    return none;
}

enum status group_step_check(const struct step_plan *none, const struct step_plan *plan,
                             struct error *error) {
    if (plan->overlap != none->overlap)
        return error_set(error, STATUS_INVALID,
                         "step %llu, rank %u: the schedule is %u; expected %u, as on all ranks",
                         (unsigned long long)plan->step, plan->rank, plan->overlap, none->overlap);
    if (plan->awaits != none->awaits)
        return error_set(error, STATUS_INVALID,
                         "step %llu, rank %u: the plan %s; expected the same on all ranks",
                         (unsigned long long)plan->step, plan->rank,
                         plan->awaits ? "only waits" : "computes");
    return STATUS_OK;
}

void group_step_fail(const struct step_plan *plan, struct step_result *result) {
    *result = (struct step_result){.step = plan->step,
                                   .row_count = plan->row_count,
                                   .failed = plan->row_count > 0,
                                   .rank = plan->rank};
    record_set_head(result, RECORD_STEP_DONE);
    for (uint32_t i = 0; i < plan->row_count; i++)
        step_result_rows(result)[i] =
            (struct step_result_row){.slot = step_plan_rows(plan)[i].slot};
}

void group_step_take(const struct step_plan *plan, struct bytes report,
                     struct step_result *result) {
    if (report.count) memcpy(result, report.data, report.count);
    if (!report.count || result->step != plan->step || result->rank != plan->rank ||
        result->row_count != plan->row_count)
        group_step_fail(plan, result);
}

void group_step_break(const struct step_plan *plan, bool lives, struct step_result *result) {
    group_step_fail(plan, result);
    result->failed = !lives && plan->row_count > 0;
    for (uint32_t i = 0; i < plan->row_count; i++)
        step_result_rows(result)[i].lost = !result->failed;
}

void group_step_set_times(struct step_result *const *results, uint32_t count, int64_t rank_0_ns) {
    int64_t awaited_ns = 0;
    for (uint32_t rank = 0; rank < count; rank++)
        if (results[rank]->awaited_ns > awaited_ns) awaited_ns = results[rank]->awaited_ns;
    int64_t compute_ns = rank_0_ns > awaited_ns ? rank_0_ns - awaited_ns : 0;
    for (uint32_t rank = 0; rank < count; rank++)
        results[rank]->compute_ns = compute_ns;
}
