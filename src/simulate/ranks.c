/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/ranks.h"

void ranks_note(struct ranks_report *report, double ns, uint32_t rank_count, const double most[2],
                const double sum[2]) {
    double before = report->measured_ns, after = before + ns;
    for (int i = 0; i < 2; i++)
        report->spread[i] =
            (report->spread[i] * before + most[i] * rank_count / sum[i] * ns) / after;
    report->measured_ns = after;
}
