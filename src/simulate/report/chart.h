/* SPDX-License-Identifier: Apache-2.0
 * Charts as inline SVG: lines over numbers, stacked bars over names. Colours are the page's classes
 * (.c0 to .c7), so one style sheet serves light and dark. Axes have round numbers and labels with
 * units. The module is independent of the data.
 */
#pragma once

#include "simulate/report/words.h"

#define CHART_SERIES_MAX 8

struct chart_series {
    const char *name;
    const double *values; /* [count] of the chart; NaN: none */
};

struct chart {
    const char *title, *x_label, *y_label;
    size_t count;             /* of points, or of bars */
    const double *x;          /* [count], ascending; lines only */
    const char *const *names; /* [count], of bars */
    struct chart_series series[CHART_SERIES_MAX];
    size_t series_count;
    bool steps;   /* a line keeps its value up to the next point */
    bool log_x;   /* x > 0 */
    double y_min; /* start of a line's axis; no value may be less */
    double y_max; /* 0: derived from the values */
};

/* Draws lines, one for each series. Without points it writes a notice. */
void chart_lines(struct json_writer *writer, const struct chart *chart);

/* Draws one horizontal bar for each name, with the series one after the other. */
void chart_bars(struct json_writer *writer, const struct chart *chart);

/* The style for the elements of the functions above, for the page's head. */
extern const char chart_style[];
