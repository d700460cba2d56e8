/* SPDX-License-Identifier: Apache-2.0
 * The cost of faults (simulate/simulator/fault_costs.h), as a table in text, as a table of a page,
 * and as JSON. For each kind of fault it has the number of faults, the number of affected requests,
 * and the share of them that missed the limits of TTFT and TPOT, with the faults and without them.
 * If the run was not compared, nothing is written.
 */
#pragma once

#include "simulate/report/outcome.h"

/* True if the outcome has costs. */
bool fault_table_any(const struct outcome *outcome);

void fault_table_text(struct json_writer *writer, const struct outcome *outcome);
void fault_table_html(struct json_writer *writer, const struct outcome *outcome);

/* ,"faults":{…} */
void fault_table_json(struct json_writer *writer, const struct outcome *outcome);
