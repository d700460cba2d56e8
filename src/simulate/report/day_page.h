/* SPDX-License-Identifier: Apache-2.0
 * A simulated day as one HTML page. It redraws the two charts that DeepSeek published (nodes, and
 * cost and income, by hour), adds further series by hour that DeepSeek did not publish, shows the
 * figures next to the published ones, and lists the parameters with their sources.
 */
#pragma once

#include "simulate/report/day_outcome.h"

void day_page_write(struct json_writer *writer, const struct day_outcome *outcome);
