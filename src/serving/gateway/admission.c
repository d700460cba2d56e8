/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/admission.h"

#include "serving/gateway/request_lines.h"

#define SECOND_NS ((int64_t)1000000000)

static enum account_priority priority_of(const struct gateway *gateway,
                                         const struct request *leader) {
    uint32_t account = leader->asked.account;
    return account == ACCOUNT_NONE
               ? ACCOUNT_NORMAL
               : (enum account_priority)gateway->accounts.slots[account].is.priority;
}

enum status admission_check(const struct gateway *gateway, const struct request *leader,
                            struct request_work work, struct api_error *error) {
    int64_t limit_ns =
        predict_ttft_limit(gateway->options.ttft_limit_ns, priority_of(gateway, leader));
    if (!gateway->options.ttft_limit_ns) return STATUS_OK;
    struct request_ahead ahead =
        request_lines_ahead(&gateway->requests.waiting, leader->asked.account, work.turn);
    int64_t wait_ns = predict_ttft_ns(&gateway->ttft, ahead.tokens + gateway->begun_tokens);
    if (wait_ns <= limit_ns) return STATUS_OK;
    /* A retry gets a later turn than all waiting requests, so the whole queue must drain first. */
    int64_t all_ns = predict_ttft_ns(&gateway->ttft, ahead.all_tokens + gateway->begun_tokens);
    int64_t retry_s = (all_ns - limit_ns + SECOND_NS - 1) / SECOND_NS;
    api_error_set(error, ahead.is_over_share ? 429 : 503, NULL,
                  ahead.is_over_share ? "rate_limit_exceeded" : "overloaded",
                  "%s The first token would come in %lld s. Try again in %lld s.",
                  ahead.is_over_share ? "This account has more requests waiting than its share."
                                      : "The server is overloaded.",
                  (long long)(wait_ns / SECOND_NS), (long long)retry_s);
    if (ahead.is_over_share) error->limit = USAGE_LIMIT_SHARE;
    error->retry_after_seconds = retry_s < UINT32_MAX ? (uint32_t)retry_s : UINT32_MAX;
    return STATUS_INVALID;
}

void admission_watch(struct gateway *gateway, int64_t now_ns) {
    bool is_busy = gateway->requests.waiting.count || gateway->begun_tokens;
    predict_ttft_busy(&gateway->ttft, is_busy, now_ns);
}

void admission_note_tokens(struct gateway *gateway, const struct request *request, int64_t now_ns) {
    if (request->life.is_begun)
        predict_ttft_start(&gateway->ttft, request->life.work_tokens, now_ns);
}
