/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/policy/admit.h"

#include "base/check.h"
#include "contract/record_unit.h"

static uint64_t need_tokens(struct admit_need need) {
    return (uint64_t)need.prompt_tokens + need.new_tokens_max;
}

struct admit_need admit_need_of(const struct record_submit *submit) {
    uint32_t new_tokens = submit->task == SUBMIT_PREFILL ? 1 : submit->new_tokens_max;
    return (struct admit_need){submit->prompt_count, new_tokens};
}

uint64_t admit_pages(struct admit_need need) {
    return (need_tokens(need) + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS;
}

uint64_t admit_start_pages(struct admit_need need, uint32_t known_tokens) {
    uint64_t pages = (uint64_t)known_tokens / KV_BLOCK_TOKENS + 1;
    if (known_tokens % KV_BLOCK_TOKENS) pages++;
    uint64_t most = admit_pages(need);
    return pages < most ? pages : most;
}

enum admit admit_arrival(struct admit_need need, const struct unit_capacity *capacity) {
    if (capacity->draining) return ADMIT_REFUSE_DRAINING;
    if (need_tokens(need) > capacity->context_tokens_max) return ADMIT_REFUSE_CONTEXT;
    if (admit_pages(need) > capacity->page_count) return ADMIT_REFUSE_MEMORY;
    if (capacity->requests_held >= capacity->requests_max) return ADMIT_REFUSE_QUEUE;
    return admit_start(admit_start_pages(need, need.prompt_tokens), capacity);
}

enum admit admit_start(uint64_t pages, const struct unit_capacity *capacity) {
    if (capacity->waits) return ADMIT_WAIT_TURN;
    if (capacity->rows_running >= capacity->rows_max) return ADMIT_WAIT_ROWS;
    if (pages + capacity->rows_running / ADMIT_ROWS_PER_PAGE > capacity->pages_available)
        return ADMIT_WAIT_PAGES;
    return ADMIT_NOW;
}

enum finish_reason admit_finish_reason(enum admit refusal) {
    switch (refusal) {
    case ADMIT_REFUSE_DRAINING:
        return FINISH_REFUSED_DRAINING;
    case ADMIT_REFUSE_QUEUE:
        return FINISH_REFUSED_QUEUE;
    case ADMIT_REFUSE_CONTEXT:
    case ADMIT_REFUSE_MEMORY:
        return FINISH_REFUSED_TOO_LARGE;
    default:
        check(!"a refusal");
        return FINISH_FAILED;
    }
}
