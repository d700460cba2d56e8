/* SPDX-License-Identifier: Apache-2.0 */
#include "host/engine/micro_batches.h"

#include "host/engine/cut_batch.h"

#include <string.h>

bool micro_batches_named(const char *name, struct micro_batches *micro_batches) {
    micro_batches->measured = !strcmp(name, "auto");
    if (micro_batches->measured) return true;
    for (int kind = 0; kind < OVERLAP_KIND_COUNT; kind++)
        if (!strcmp(name, overlap_name((enum overlap_kind)kind))) {
            micro_batches->kind = (enum overlap_kind)kind;
            micro_batches->reason = CHOOSE_OVERLAP_GIVEN;
            return true;
        }
    return false;
}

/* Multiply-adds per token in an expert layer's feed-forward network, or in a dense layer's. */
static uint64_t feed_forward_work(const struct shape *shape) {
    uint64_t experts = shape->experts_per_token + shape->shared_experts;
    uint64_t width = shape->experts ? experts * shape->expert_width : shape->dense_width;
    return 3 * shape->hidden * width;
}

/* Cost of a token in a layer's linears, in attended positions. */
static uint64_t token_work(const struct shape *shape, bool feed_forward) {
    uint64_t query = (uint64_t)shape->heads * shape_query_dim(shape);
    uint64_t values = (uint64_t)shape->heads * shape->value_dim;
    uint64_t down = shape_kv_width(shape) + shape->q_rank;
    uint64_t up = (shape->q_rank ? shape->q_rank : shape->hidden) * query;
    uint64_t linears = shape->hidden * (down + values) + up;
    if (feed_forward) linears += feed_forward_work(shape);
    return linears / (query + values);
}

static void cut_plan(struct step_plan *plan, enum overlap_kind kind, const struct shape *shape) {
    const struct overlap *overlap = overlap_of(kind);
    uint64_t work = token_work(shape, overlap->shares != NULL);
    struct cut_batch cut =
        cut_batch_by_work(plan, overlap->micro_batch_count, overlap->shares, work);
    plan->overlap = kind;
    memcpy(plan->cuts, cut.cuts, sizeof plan->cuts);
}

static struct choose_overlap_step view(struct step_plan *const *plans, uint32_t ranks) {
    uint64_t tokens = 0, prompts = 0;
    struct choose_overlap_step step = {.ranks = ranks};
    for (uint32_t rank = 0; rank < ranks; rank++) {
        const struct step_row *rows = step_plan_rows(plans[rank]);
        if (plans[rank]->token_count > step.tokens) step.tokens = plans[rank]->token_count;
        tokens += plans[rank]->token_count;
        for (uint32_t i = 0; i < plans[rank]->row_count; i++)
            prompts += rows[i].form == TOKEN_PROMPT ? rows[i].token_count : 0;
    }
    step.prompts = 2 * prompts > tokens;
    return step;
}

void micro_batches_begin(struct micro_batches *micro_batches, struct step_plan *const *plans,
                         uint32_t ranks, const struct shape *shape) {
    micro_batches->step = view(plans, ranks);
    if (micro_batches->echoed_ranks) micro_batches->step.ranks = micro_batches->echoed_ranks;
    if (micro_batches->measured) {
        struct choose_overlap_choice choice =
            choose_overlap(&micro_batches->choose, &micro_batches->step);
        micro_batches->kind = choice.kind;
        micro_batches->reason = choice.reason;
    }
    for (uint32_t rank = 0; rank < ranks; rank++)
        cut_plan(plans[rank], micro_batches->kind, shape);
}

void micro_batches_end(struct micro_batches *micro_batches, int64_t ns) {
    choose_overlap_observe(&micro_batches->choose, &micro_batches->step, micro_batches->kind, ns);
}
