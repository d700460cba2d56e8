/* SPDX-License-Identifier: Apache-2.0
 * A run as one JSON object: `figures`, and all counters. It contains no real time, so equal runs
 * yield equal texts.
 */
#pragma once

#include "simulate/report/outcome.h"
#include "simulate/report/words.h"

void outcome_json_write(struct json_writer *writer, const struct outcome *outcome);

/* "figures":[…] of any run: {"name","kind","fitted","published","simulated","unit"}. */
void outcome_json_figures(struct json_writer *writer, const struct day_figure *figures,
                          uint32_t count);
