/* SPDX-License-Identifier: Apache-2.0
 * A day as one HTML page: the two charts that DeepSeek published (nodes, cost and income by hour)
 * drawn again, what it did not publish by hour, the figures beside the published ones, and the
 * parameters with where each comes from.
 */
#ifndef SIMULATE_REPORT_DAY_PAGE_H
#define SIMULATE_REPORT_DAY_PAGE_H

#include "simulate/report/day_outcome.h"

void day_page_write(struct json_writer *writer, const struct day_outcome *outcome);

#endif
