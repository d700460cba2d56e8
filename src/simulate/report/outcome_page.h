/* SPDX-License-Identifier: Apache-2.0
 * The results of a run as one HTML page, with charts as inline SVG, tables, and the parameters with
 * their sources. It needs no script and no other file, and follows the light or dark mode of the
 * reader's system.
 */
#pragma once

#include "simulate/report/chart.h"
#include "simulate/report/outcome.h"

void outcome_page_write(struct json_writer *writer, const struct outcome *outcome);

/* Parts that other pages also use: the head up to <body>, a table of figures, and the values of a
 * tree with their sources. */
void outcome_page_head(struct json_writer *writer, const char *title);
void outcome_page_figures(struct json_writer *writer, const struct day_figure *figures,
                          uint32_t count);
void outcome_page_parameters(struct json_writer *writer, const struct tree *tree);

/* Draws a chart in its own box. `draw` is chart_lines or chart_bars. */
void outcome_page_chart(struct json_writer *writer, const struct chart *chart,
                        void (*draw)(struct json_writer *writer, const struct chart *chart));
