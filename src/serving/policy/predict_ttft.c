/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/policy/predict_ttft.h"

static void count_time(struct predict_ttft *ttft, int64_t now_ns) {
    if (ttft->is_busy) ttft->busy_ns += (double)(now_ns - ttft->since_ns);
    ttft->since_ns = now_ns;
    if (ttft->busy_ns < 2.0 * (double)PREDICT_TTFT_MEMORY_NS) return;
    ttft->busy_ns /= 2;
    ttft->work /= 2;
}

void predict_ttft_busy(struct predict_ttft *ttft, bool is_busy, int64_t now_ns) {
    if (ttft->is_busy == is_busy) return;
    count_time(ttft, now_ns);
    ttft->is_busy = is_busy;
}

void predict_ttft_start(struct predict_ttft *ttft, uint64_t work, int64_t now_ns) {
    count_time(ttft, now_ns);
    ttft->work += (double)work;
    if (ttft->starts < PREDICT_TTFT_STARTS) ttft->starts++;
}

int64_t predict_ttft_ns(const struct predict_ttft *ttft, uint64_t work) {
    if (ttft->starts < PREDICT_TTFT_STARTS || ttft->work <= 0) return 0;
    double ns = (double)work * ttft->busy_ns / ttft->work;
    return ns < (double)(INT64_MAX / 4) ? (int64_t)ns : INT64_MAX / 4;
}

int64_t predict_ttft_limit(int64_t limit_ns, enum account_priority priority) {
    if (priority == ACCOUNT_LOW) return limit_ns / 2;
    return priority == ACCOUNT_HIGH ? 2 * limit_ns : limit_ns;
}
