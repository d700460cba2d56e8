/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/memory_need.h"

#include "base/check.h"
#include "base/limits.h"

uint32_t memory_need_slots(const struct memory_weights *model, uint32_t ranks, uint32_t redundant) {
    check(ranks > 0);
    if (!model->experts) return 0;
    return (uint32_t)(((uint64_t)model->experts + redundant + ranks - 1) / ranks);
}

double memory_need_rank(const struct memory_weights *model, uint32_t slots) {
    return model->common + model->expert * model->moe_layers * slots;
}

struct memory_sum memory_need_host(const struct memory_need *need) {
    const struct memory_weights *model = &need->model;
    uint32_t slots = memory_need_slots(model, need->ranks, need->redundant);
    double shared = need->shares ? model->common * (need->host_ranks - 1) : 0;
    return (struct memory_sum){
        .weights = memory_need_rank(model, slots) * need->host_ranks - shared,
        .kv = need->kv / need->ranks * need->host_ranks,
        .step = need->step * need->host_ranks,
    };
}

double memory_need_total(const struct memory_sum *sum) {
    return sum->weights + sum->kv + sum->step;
}

uint32_t memory_need_hosts(const struct memory_need *need, double host_bytes) {
    struct memory_need spread = *need;
    for (uint32_t hosts = 1; hosts * need->host_ranks <= LIMIT_RANKS; hosts++) {
        spread.ranks = hosts * need->host_ranks;
        struct memory_sum sum = memory_need_host(&spread);
        if (memory_need_total(&sum) <= host_bytes) return hosts;
    }
    return 0;
}
