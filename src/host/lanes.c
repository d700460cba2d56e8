/* SPDX-License-Identifier: Apache-2.0 */
#include "host/lanes.h"

#include "policy/cut_batch.h"

/* Multiply-adds of a token in attention's linears, by those of a position that it attends to. */
static uint64_t token_work(const struct shape *shape) {
    uint64_t query = (uint64_t)shape->heads * shape_query_dim(shape);
    uint64_t values = (uint64_t)shape->heads * shape->value_dim;
    uint64_t down = shape_kv_width(shape) + shape->q_rank;
    uint64_t up = (shape->q_rank ? shape->q_rank : shape->hidden) * query;
    return (shape->hidden * (down + values) + up) / (query + values);
}

void lanes_cut(struct step_plan *plan, enum overlap_kind overlap, const struct shape *shape) {
    plan->overlap = overlap;
    plan->cut_row = plan->row_count;
    plan->cut_token = 0;
    if (overlap_of(overlap)->lane_count == 1) return;
    struct cut_batch cut = cut_batch_evenly(plan, token_work(shape));
    plan->cut_row = cut.row;
    plan->cut_token = cut.token;
}
