/* SPDX-License-Identifier: Apache-2.0
 * A day as one HTML page: the two charts that DeepSeek published (nodes, cost and income by hour)
 * drawn again, further series by hour that it did not publish, the figures next to the published
 * ones, and the parameters with their sources.
 */
#pragma once

#include "simulate/report/day_outcome.h"

void day_page_write(struct json_writer *writer, const struct day_outcome *outcome);
