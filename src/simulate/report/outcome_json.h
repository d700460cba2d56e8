/* SPDX-License-Identifier: Apache-2.0
 * A run as one JSON object: `figures`, and everything that was counted. No time of a clock is in
 * it, so equal runs are equal texts.
 */
#ifndef SIMULATE_REPORT_OUTCOME_JSON_H
#define SIMULATE_REPORT_OUTCOME_JSON_H

#include "simulate/report/outcome.h"
#include "simulate/report/words.h"

void outcome_json_write(struct json_writer *writer, const struct outcome *outcome);

/* "figures":[…] of any run: {"name","kind","fitted","published","simulated","unit"}. */
void outcome_json_figures(struct json_writer *writer, const struct day_figure *figures,
                          uint32_t count);

#endif
