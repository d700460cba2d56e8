/* SPDX-License-Identifier: Apache-2.0 */
#include "host/http/own_time.h"

#define STEP_NS_MAX (4 * OWN_TIME_TICK_NS)

int64_t own_time_ns(struct own_time *time, int64_t now_ns) {
    int64_t step_ns = time->seen_ns ? now_ns - time->seen_ns : 0;
    if (step_ns > STEP_NS_MAX) time->lost_ns += step_ns - STEP_NS_MAX;
    time->seen_ns = now_ns;
    return now_ns - time->lost_ns;
}
