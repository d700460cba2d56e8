/* SPDX-License-Identifier: Apache-2.0
 * What faults cost (simulate/twin/fault_costs.h), as a table of text, of a page, and as JSON: for
 * each kind of fault how often it came, how many requests were there, and the share of them that
 * missed the limits of TTFT and TPOT, with the faults and without them. Nothing is written of a run
 * that was not compared.
 */
#ifndef SIMULATE_REPORT_FAULT_TABLE_H
#define SIMULATE_REPORT_FAULT_TABLE_H

#include "simulate/report/outcome.h"

/* Whether the outcome has costs. */
bool fault_table_any(const struct outcome *outcome);

void fault_table_text(struct json_writer *writer, const struct outcome *outcome);
void fault_table_html(struct json_writer *writer, const struct outcome *outcome);

/* ,"faults":{…} */
void fault_table_json(struct json_writer *writer, const struct outcome *outcome);

#endif
