/* SPDX-License-Identifier: Apache-2.0
 * The results of a run as one JSON object: `figures`, and all counters. It contains no wall-clock
 * time, so equal runs give equal texts.
 */
#pragma once

#include "simulate/report/outcome.h"
#include "simulate/report/words.h"

void outcome_json_write(struct json_writer *writer, const struct outcome *outcome);

/* Writes "figures":[…] for any run; each is
 * {"name","kind","fitted","published","simulated","unit"}. */
void outcome_json_figures(struct json_writer *writer, const struct day_figure *figures,
                          uint32_t count);
