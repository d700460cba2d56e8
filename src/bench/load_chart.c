/* SPDX-License-Identifier: Apache-2.0
 * Three panels for the three times, each with the share of requests that take no longer. Below
 * them, the requests under way and the tokens per second over the run. Each axis begins at zero and
 * ends at a round number.
 */
#include "bench/load_chart.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/load_stats.h"
#include "host/process/own_file.h"

#define WIDTH 960
#define HEIGHT 630
#define CURVE_STEPS 200 /* the marked percentiles are among its points */
#define BINS 160

#define INK "#1f2933"
#define SOFT "#7b8794"
#define GRID "#e4e7eb"

struct panel {
    double left, top, width, height;
    double x_max, y_max; /* values at its right and upper edge */
};

static double load_chart_x_of(const struct panel *panel, double value) {
    return panel->left + panel->width * value / panel->x_max;
}

static double load_chart_y_of(const struct panel *panel, double value) {
    return panel->top + panel->height * (1 - value / panel->y_max);
}

/* The next of 1, 2, 5, 10, 20 … divided into four or five steps. */
static double load_chart_round_step(double max) {
    double power = pow(10, floor(log10(max > 0 ? max / 5 : 1)));
    double step = max > 0 ? max / 5 / power : 1;
    return (step <= 1 ? 1 : step <= 2 ? 2 : step <= 5 ? 5 : 10) * power;
}

static void load_chart_write_text(FILE *out, double x, double y, const char *anchor, int size,
                                  const char *color, const char *text) {
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" font-size=\"%d\" fill=\"%s\">", x,
            y, anchor, size, color);
    for (; *text; text++) {
        if (*text == '&' || *text == '<')
            fputs(*text == '&' ? "&amp;" : "&lt;", out);
        else
            fputc(*text, out);
    }
    fputs("</text>\n", out);
}

static void load_chart_write_number(FILE *out, double x, double y, const char *anchor,
                                    const char *color, double value) {
    char text[32];
    snprintf(text, sizeof text, "%.6g", value);
    load_chart_write_text(out, x, y, anchor, 11, color, text);
}

/* The number of lines in addition to the one at 0. */
static uint32_t lines_of(double most, double step) {
    return step > 0 ? (uint32_t)(most * 1.0001 / step) : 0;
}

/* Draws lines and numbers of both axes. y_step 0: the y axis has none. */
static void write_grid(FILE *out, const struct panel *panel, double x_step, double y_step) {
    for (uint32_t i = 0; i <= lines_of(panel->x_max, x_step); i++) {
        double x = i * x_step;
        fprintf(out,
                "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"" GRID "\"/>\n",
                load_chart_x_of(panel, x), panel->top, load_chart_x_of(panel, x),
                panel->top + panel->height);
        load_chart_write_number(out, load_chart_x_of(panel, x), panel->top + panel->height + 16,
                                "middle", SOFT, x);
    }
    for (uint32_t i = 0; y_step > 0 && i <= lines_of(panel->y_max, y_step); i++) {
        double y = i * y_step;
        fprintf(out,
                "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"" GRID "\"/>\n",
                panel->left, load_chart_y_of(panel, y), panel->left + panel->width,
                load_chart_y_of(panel, y));
        load_chart_write_number(out, panel->left - 6, load_chart_y_of(panel, y) + 4, "end", SOFT,
                                y);
    }
}

/* ---- distributions ---- */

enum time_kind { FIRST, TOKEN, WHOLE };

static size_t load_chart_collect(const struct load_outcome *outcome, size_t request_count,
                                 enum time_kind kind, double *values) {
    size_t count = 0;
    for (size_t i = 0; i < request_count; i++) {
        const struct load_result *result = &outcome->results[i];
        if (result->failure != LOAD_OK) continue;
        if (kind == FIRST) values[count++] = 1e3 * (result->first - result->arrival);
        if (kind == WHOLE) values[count++] = 1e3 * (result->end - result->arrival);
        if (kind == TOKEN && result->output_tokens > 1)
            values[count++] = 1e3 * (result->last - result->first) / (result->output_tokens - 1);
    }
    return count;
}

/* Draws a dot on the curve with its name and value. */
static void write_mark(FILE *out, const struct panel *panel, const char *name, double share,
                       double value) {
    char text[48];
    double x = load_chart_x_of(panel, value), y = load_chart_y_of(panel, share);
    bool left = x > panel->left + panel->width * 0.6;
    snprintf(text, sizeof text, value < 1000 ? "%s %.4g" : "%s %.0f", name, value);
    fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"" INK "\"/>\n", x, y);
    load_chart_write_text(out, left ? x - 8 : x + 8, left ? y - 4 : y + 13, left ? "end" : "start",
                          11, INK, text);
}

static void write_distribution(FILE *out, struct panel panel, const char *name, const char *color,
                               double *values, size_t count) {
    struct load_stats stats = load_stats_of(values, count);
    double step = load_chart_round_step(stats.max);
    panel.x_max = step * ceil(stats.max / step + 1e-9);
    panel.y_max = 100;
    if (panel.x_max <= 0) panel.x_max = 1;
    load_chart_write_text(out, panel.left, panel.top - 24, "start", 13, INK, name);
    write_grid(out, &panel, panel.x_max > 0 && count ? step : panel.x_max, 25);
    if (count == 0) {
        load_chart_write_text(out, panel.left + panel.width / 2, panel.top + panel.height / 2,
                              "middle", 12, SOFT, "nothing measured");
        return;
    }
    fprintf(out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"", color);
    for (int i = 0; i <= CURVE_STEPS; i++) {
        double share = (double)i / CURVE_STEPS;
        fprintf(out, "%.1f,%.1f ",
                load_chart_x_of(&panel, load_stats_percentile(values, count, share)),
                load_chart_y_of(&panel, 100 * share));
    }
    fputs("\"/>\n", out);
    write_mark(out, &panel, "p50", 50, stats.p50);
    write_mark(out, &panel, "p99", 99, stats.p99);
}

/* ---- over time ---- */

/* Means over each bin: requests under way, and tokens per second, spread evenly between a request's
 * first and last token. */
static void fill_bins(const struct load_outcome *outcome, size_t request_count, double bin_seconds,
                      double running[BINS], double tokens[BINS]) {
    for (size_t i = 0; i < request_count; i++) {
        const struct load_result *result = &outcome->results[i];
        double span = result->last - result->first;
        for (int bin = 0; bin < BINS; bin++) {
            double low = bin * bin_seconds, high = low + bin_seconds;
            double there = fmin(high, result->end) - fmax(low, result->sent);
            double talks = fmin(high, result->last) - fmax(low, result->first);
            if (there > 0) running[bin] += there / bin_seconds;
            if (result->failure != LOAD_OK) continue;
            if (span > 0 && talks > 0)
                tokens[bin] += result->output_tokens * (talks / span) / bin_seconds;
            else if (span <= 0 && result->first >= low && result->first < high)
                tokens[bin] += result->output_tokens / bin_seconds;
        }
    }
}

static void load_chart_write_line(FILE *out, struct panel panel, const char *name,
                                  const char *color, const double values[BINS]) {
    double max = 0;
    for (int bin = 0; bin < BINS; bin++)
        max = fmax(max, values[bin]);
    double step = load_chart_round_step(max);
    panel.y_max = step * ceil(max / step + 1e-9);
    if (panel.y_max <= 0) panel.y_max = step = 1;
    load_chart_write_text(out, panel.left, panel.top - 24, "start", 13, INK, name);
    write_grid(out, &panel, load_chart_round_step(panel.x_max), step);
    fprintf(out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\" points=\"", color);
    for (int bin = 0; bin < BINS; bin++)
        fprintf(out, "%.1f,%.1f ", load_chart_x_of(&panel, (bin + 0.5) * panel.x_max / BINS),
                load_chart_y_of(&panel, values[bin]));
    fputs("\"/>\n", out);
}

static void write_timeline(FILE *out, const struct load_outcome *outcome, size_t request_count) {
    double running[BINS] = {0}, tokens[BINS] = {0};
    double seconds = outcome->seconds > 0 ? outcome->seconds : 1;
    fill_bins(outcome, request_count, seconds / BINS, running, tokens);
    struct panel left = {70, 400, 390, 190, seconds, 1}, right = {540, 400, 390, 190, seconds, 1};
    load_chart_write_line(out, left, "requests under way, over seconds", "#2f6f9f", running);
    load_chart_write_line(out, right, "output tokens per second, over seconds", "#3f8f4f", tokens);
}

static void load_chart_write_all(FILE *out, const struct load_outcome *outcome,
                                 size_t request_count, const char *title, double *values) {
    static const struct {
        const char *name, *color;
    } panels[] = {
        [FIRST] = {"% with first token within ms", "#b5532d"},
        [TOKEN] = {"% with time per token within ms", "#7a4fa0"},
        [WHOLE] = {"% whole within ms", "#2f6f9f"},
    };
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
            "height=\"%d\" font-family=\"system-ui, sans-serif\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
            WIDTH, HEIGHT, WIDTH, HEIGHT);
    load_chart_write_text(out, 30, 36, "start", 16, INK, title);
    for (int kind = FIRST; kind <= WHOLE; kind++) {
        struct panel panel = {.left = 60 + 310 * kind, .top = 90, .width = 250, .height = 220};
        size_t count = load_chart_collect(outcome, request_count, (enum time_kind)kind, values);
        write_distribution(out, panel, panels[kind].name, panels[kind].color, values, count);
    }
    write_timeline(out, outcome, request_count);
    fputs("</svg>\n", out);
}

enum status load_chart_write(const char *path, const struct load_outcome *outcome,
                             size_t request_count, const char *title, struct error *error) {
    double *values = malloc((request_count + 1) * sizeof *values);
    if (!values) return error_set(error, STATUS_NO_MEMORY, "no memory for the chart");
    FILE *out = own_file_report(path);
    bool good = out != NULL;
    if (good) {
        load_chart_write_all(out, outcome, request_count, title, values);
        good = !ferror(out);
        if (fclose(out)) good = false;
    }
    free(values);
    if (good) return STATUS_OK;
    return error_set(error, STATUS_IO, "cannot write the chart %s: %s", path, strerror(errno));
}
