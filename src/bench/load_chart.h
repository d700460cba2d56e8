/* SPDX-License-Identifier: Apache-2.0
 * One chart of a load, as SVG: the distributions of time to first token, time per token and whole
 * requests, and the load over time.
 */
#ifndef BENCH_LOAD_CHART_H
#define BENCH_LOAD_CHART_H

#include "bench/load.h"

/* STATUS_IO names the file. */
enum status load_chart_write(const char *path, const struct load_outcome *outcome,
                             size_t request_count, const char *title, struct error *error);

#endif
