/* SPDX-License-Identifier: Apache-2.0
 * A run as a table for the terminal.
 */
#ifndef SIMULATE_REPORT_OUTCOME_TEXT_H
#define SIMULATE_REPORT_OUTCOME_TEXT_H

#include "simulate/report/outcome.h"
#include "simulate/report/words.h"

void outcome_text_write(struct json_writer *writer, const struct outcome *outcome);

#endif
