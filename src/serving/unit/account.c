/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/unit/account.h"

#include "base/check.h"
#include "base/number.h"

static uint32_t account_length(uint32_t from, uint32_t end) {
    return end > from ? end - from : 0;
}

/* Counts the positions in [from, end) of answer tokens that the SUBMIT had. Another unit computed
 * their rows, except for the last one, which it only sampled. */
static uint32_t count_resumed(const struct unit_request *request, uint32_t from, uint32_t end) {
    uint32_t first = request->prompt_count, behind = first + request->resumed_count;
    return request->resumed_count ? account_length(max_u32(from, first), min_u32(end, behind - 1))
                                  : 0;
}

void account_obtained(struct unit_request *request, enum account_source source, uint32_t from,
                      uint32_t end) {
    uint32_t peak = request->computed_peak, fresh = max_u32(from, peak);
    uint32_t again = account_length(from, min_u32(end, peak)) + count_resumed(request, fresh, end);
    uint32_t prompt_end = min_u32(end, request->prompt_count);
    uint32_t first = account_length(fresh, prompt_end);
    check(from <= peak); /* no token is skipped */
    request->computed_peak = max_u32(peak, end);
    if (first == 0 && again == 0) return; /* the next token of an answer; nothing to write */
    struct unit_work *work = request_work(request);
    switch (source) {
    case ACCOUNT_DEVICE:
        work->device_tokens += first;
        break;
    case ACCOUNT_HOST:
        work->host_tokens += first;
        work->reloaded_tokens += again;
        break;
    case ACCOUNT_DISK:
        work->disk_tokens += first;
        work->reloaded_tokens += again;
        break;
    case ACCOUNT_TRANSFERRED:
        work->transferred_tokens += first;
        return;
    case ACCOUNT_COMPUTED:
        work->computed_tokens += first;
        work->recomputed_tokens += again;
        return;
    }
    work->prompt_hit_tokens += account_length(max_u32(fresh, work->prompt_hit_tokens), prompt_end);
}

void account_found(struct unit_request *request, uint32_t token_count) {
    uint32_t found = min_u32(token_count, request->prompt_count);
    if (request->output_count > request->resumed_count) return; /* already reported */
    request_work(request)->prompt_hit_tokens = max_u32(request->work.prompt_hit_tokens, found);
}

void account_missed(struct unit_request *request, uint32_t token_count) {
    uint32_t whole = min_u32(token_count, request->prompt_count);
    request_work(request)->prompt_hit_tokens = min_u32(request->work.prompt_hit_tokens, whole);
}

void account_begins(struct unit_request *request, int64_t now_ns) {
    if (request->work.queue_ns >= 0) return;
    struct unit_work *work = request_work(request);
    int64_t queue_ns = now_ns - request->arrived_ns - work->load_ns - work->transfer_ns;
    work->queue_ns = queue_ns > 0 ? queue_ns : 0; /* the storage has its own clock */
    request->began_ns = now_ns;
}

void account_drafted(struct unit_request *request, uint32_t made, uint32_t right) {
    struct unit_work *work = request_work(request);
    work->drafts_made += made;
    work->drafts_right += right;
}

void account_report(const struct unit_request *request, struct unit_work *work_out) {
    const struct unit_work *work = &request->work;
    uint32_t hit_tokens = work->queue_ns < 0 ? 0 : work->prompt_hit_tokens; /* 0: no step ran */
    *work_out = *work;
    work_out->prompt_hit_tokens = hit_tokens;
    work_out->prompt_miss_tokens = request->prompt_count - hit_tokens;
}
