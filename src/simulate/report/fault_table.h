/* SPDX-License-Identifier: Apache-2.0
 * The cost of faults (simulate/simulator/fault_costs.h) as a table in text, as a table in HTML, and
 * as JSON. For each kind of fault it gives the number of faults, the number of affected requests,
 * and the share of these that missed the limits of TTFT and TPOT, with and without the faults.
 * Nothing is written if the run was not compared with one without faults.
 */
#pragma once

#include "simulate/report/outcome.h"

void fault_table_text(struct json_writer *writer, const struct outcome *outcome);
void fault_table_html(struct json_writer *writer, const struct outcome *outcome);

/* ,"faults":{…} */
void fault_table_json(struct json_writer *writer, const struct outcome *outcome);
