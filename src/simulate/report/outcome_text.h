/* SPDX-License-Identifier: Apache-2.0
 * The results of a run as a table for the terminal.
 */
#pragma once

#include "simulate/report/outcome.h"
#include "simulate/report/words.h"

void outcome_text_write(struct json_writer *writer, const struct outcome *outcome);
