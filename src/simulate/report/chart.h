/* SPDX-License-Identifier: Apache-2.0
 * Charts as inline SVG: lines over numbers, and stacked bars over names. Colours are CSS classes of
 * the page (.c0 to .c7), so one style sheet serves light and dark mode. Axes have round numbers and
 * labels with units. The module knows nothing about the data.
 */
#pragma once

#include "simulate/report/words.h"

#define CHART_SERIES_MAX 8

struct chart_series {
    const char *name;
    const double *values; /* [chart.count]; NaN: no value */
};

struct chart {
    const char *title, *x_label, *y_label;
    size_t count;             /* number of points, or of bars */
    const double *x;          /* [count], ascending; lines only */
    const char *const *names; /* [count]; bars only */
    struct chart_series series[CHART_SERIES_MAX];
    size_t series_count;
    bool steps;   /* lines keep their value up to the next point */
    bool log_x;   /* x > 0 */
    double y_min; /* start of the y axis of lines; no value may be less */
    double y_max; /* 0: derived from the values */
};

/* Draws one line for each series. Without points it writes a notice. */
void chart_lines(struct json_writer *writer, const struct chart *chart);

/* Draws one horizontal bar for each name, made of all series. */
void chart_bars(struct json_writer *writer, const struct chart *chart);

/* The CSS for these charts, for the page's head. */
extern const char chart_style[];
