/* SPDX-License-Identifier: Apache-2.0
 * A chart has 640 x 270 units, which the browser scales.
 */
#include "simulate/report/chart.h"

#include <math.h>

#include "base/check.h"

#define WIDTH 640.0
#define HEIGHT 270.0
#define LEFT 62.0
#define RIGHT 14.0
#define TOP 46.0
#define BOTTOM 44.0
#define TICKS 5
#define BAR_HEIGHT 22.0
#define BAR_GAP 10.0
#define NAMES_WIDTH 110.0

const char chart_style[] =
    "svg.chart{width:100%;height:auto;overflow:visible;font:12px system-ui,sans-serif}"
    ".chart text{fill:var(--ink)}.chart .soft{fill:var(--soft)}"
    ".chart .title{font-weight:600;font-size:13px}"
    ".chart .grid{stroke:var(--line);stroke-width:1}"
    ".chart .line{fill:none;stroke-width:2;stroke-linejoin:round}"
    ".c0{--c:#2f6fde}.c1{--c:#e0792b}.c2{--c:#2e9d68}.c3{--c:#b4487f}"
    ".c4{--c:#8a6fd1}.c5{--c:#c3a11c}.c6{--c:#3aa6b9}.c7{--c:#8b8f98}"
    ".chart .line[class*=c]{stroke:var(--c)}.chart rect[class*=c]{fill:var(--c)}";

struct axis {
    double low, high, step;
    bool log;
};

/* A step of 1, 2, 2.5 or 5 times a power of ten, such that several steps fit into the span. */
static double chart_round_step(double span) {
    static const double steps[] = {1, 2, 2.5, 5, 10};
    double power = pow(10, floor(log10(span / TICKS)));
    for (size_t i = 0; i < ARRAY_COUNT(steps); i++)
        if (span / (steps[i] * power) <= TICKS + 0.01) return steps[i] * power;
    return 10 * power;
}

/* The smallest of 1, 2, 5, 10, 20, ... that is not less than the value. */
static double log_tick_above(double value) {
    static const double steps[] = {1, 2, 5, 10};
    double power = pow(10, floor(log10(value)));
    for (size_t i = 0; i < ARRAY_COUNT(steps); i++)
        if (steps[i] * power >= value * (1 - 1e-9)) return steps[i] * power;
    return 10 * power;
}

static struct axis axis_of(double low, double high, bool log) {
    if (log) {
        high = log_tick_above(high);
        double first = pow(10, floor(log10(low)));
        while (log_tick_above(first * 1.0001) <= low)
            first = log_tick_above(first * 1.0001);
        return (struct axis){first, high > first ? high : 10 * first, 10, true};
    }
    if (!(high > low)) high = low + 1;
    double step = chart_round_step(high - low);
    return (struct axis){step * floor(low / step + 1e-9), step * ceil(high / step - 1e-9), step,
                         false};
}

/* The position of a value along the axis, 0..1. */
static double place_on(const struct axis *axis, double value) {
    if (axis->log) return log10(value / axis->low) / log10(axis->high / axis->low);
    return (value - axis->low) / (axis->high - axis->low);
}

static double next_tick(const struct axis *axis, double tick) {
    return axis->log ? log_tick_above(tick * 1.0001) : tick + axis->step;
}

static double chart_x_of(const struct axis *axis, double value) {
    return LEFT + place_on(axis, value) * (WIDTH - LEFT - RIGHT);
}

static double chart_y_of(const struct axis *axis, double value) {
    return HEIGHT - BOTTOM - place_on(axis, value) * (HEIGHT - TOP - BOTTOM);
}

static void chart_write_text(struct json_writer *writer, double x, double y, const char *class,
                             const char *anchor, const char *text) {
    json_writer_print(writer, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\" text-anchor=\"%s\">", x, y,
                      class, anchor);
    words_html(writer, bytes_of(text));
    json_writer_text(writer, "</text>");
}

static void begin(struct json_writer *writer, const struct chart *chart, double height) {
    json_writer_print(writer, "<svg class=\"chart\" viewBox=\"0 0 %.0f %.0f\" role=\"img\"><title>",
                      WIDTH, height);
    words_html(writer, bytes_of(chart->title));
    json_writer_text(writer, "</title>");
    chart_write_text(writer, 4, 15, "title", "start", chart->title);
}

/* Writes the legend next to the title, from the right, series by series. */
static void write_legend(struct json_writer *writer, const struct chart *chart) {
    double x = WIDTH - RIGHT;
    for (size_t i = chart->series_count; i-- > 0;) {
        const char *name = chart->series[i].name;
        if (chart->series_count < 2) return;
        x -= 7.0 * (double)strlen(name);
        chart_write_text(writer, x, 15, "soft", "start", name);
        x -= 13;
        json_writer_print(
            writer, "<rect class=\"c%zu\" x=\"%.1f\" y=\"6\" width=\"9\" height=\"9\"/>", i, x);
        x -= 10;
    }
}

/* Formats the number of a tick as short as possible. */
static void tick_text(double tick, char text[WORDS_SHORT_BYTES]) {
    words_short(tick, text);
    size_t count = strlen(text), end = count;
    if (!strchr(text, '.')) return;
    while (end > 0 && (text[end - 1] < '0' || text[end - 1] > '9'))
        end--;
    size_t digits = end;
    while (digits > 0 && text[digits - 1] == '0')
        digits--;
    if (digits > 0 && text[digits - 1] == '.') digits--;
    memmove(text + digits, text + end, count - end + 1);
}

static void write_axes(struct json_writer *writer, const struct chart *chart, const struct axis *x,
                       const struct axis *y) {
    char text[WORDS_SHORT_BYTES];
    double tick = y->low;
    while (tick <= y->high * (1 + 1e-9)) {
        double at = chart_y_of(y, tick);
        json_writer_print(writer,
                          "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>",
                          LEFT, WIDTH - RIGHT, at, at);
        tick_text(tick, text);
        chart_write_text(writer, LEFT - 6, at + 4, "soft", "end", text);
        tick = next_tick(y, tick);
    }
    tick = x->low;
    while (tick <= x->high * (1 + 1e-9)) {
        tick_text(tick, text);
        chart_write_text(writer, chart_x_of(x, tick), HEIGHT - BOTTOM + 16, "soft", "middle", text);
        tick = next_tick(x, tick);
    }
    chart_write_text(writer, (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, "soft", "middle",
                     chart->x_label);
    chart_write_text(writer, 4, TOP - 15, "soft", "start", chart->y_label);
}

static void chart_write_line(struct json_writer *writer, const struct chart *chart, size_t index,
                             const struct axis *x, const struct axis *y) {
    const double *values = chart->series[index].values;
    bool down = false;
    json_writer_print(writer, "<path class=\"line c%zu\" d=\"", index);
    for (size_t i = 0; i < chart->count; i++) {
        if (!isfinite(values[i])) {
            down = false;
            continue;
        }
        double at_x = chart_x_of(x, chart->x[i]), at_y = chart_y_of(y, values[i]);
        if (down && chart->steps) json_writer_print(writer, "H%.1f", at_x);
        json_writer_print(writer, "%s%.1f %.1f", down ? "L" : "M", at_x, at_y);
        down = true;
    }
    json_writer_text(writer, "\"/>");
}

static double chart_largest(const struct chart *chart) {
    double most = 0;
    for (size_t s = 0; s < chart->series_count; s++)
        for (size_t i = 0; i < chart->count; i++)
            if (isfinite(chart->series[s].values[i]) && chart->series[s].values[i] > most)
                most = chart->series[s].values[i];
    return most;
}

void chart_lines(struct json_writer *writer, const struct chart *chart) {
    begin(writer, chart, HEIGHT);
    check(chart->series_count <= CHART_SERIES_MAX);
    if (chart->count == 0) {
        chart_write_text(writer, WIDTH / 2, HEIGHT / 2, "soft", "middle", "nothing was measured");
        json_writer_text(writer, "</svg>");
        return;
    }
    struct axis x = axis_of(chart->x[0], chart->x[chart->count - 1], chart->log_x);
    struct axis y =
        axis_of(chart->y_min, chart->y_max > 0 ? chart->y_max : chart_largest(chart), false);
    if (!x.log) { /* the x axis ends at the last value */
        x.low = chart->x[0] < x.low + x.step && x.low >= 0 ? x.low : chart->x[0];
    }
    write_axes(writer, chart, &x, &y);
    for (size_t i = 0; i < chart->series_count; i++)
        chart_write_line(writer, chart, i, &x, &y);
    write_legend(writer, chart);
    json_writer_text(writer, "</svg>");
}

static void write_bar(struct json_writer *writer, const struct chart *chart, size_t bar,
                      double scale, double y) {
    double x = NAMES_WIDTH;
    chart_write_text(writer, NAMES_WIDTH - 8, y + BAR_HEIGHT - 7, "soft", "end", chart->names[bar]);
    for (size_t i = 0; i < chart->series_count; i++) {
        double value = chart->series[i].values[bar], width = value * scale;
        if (!(width > 0)) continue;
        json_writer_print(
            writer,
            "<rect class=\"c%zu\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.0f\">"
            "<title>",
            i, x, y, width, BAR_HEIGHT);
        words_html(writer, bytes_of(chart->series[i].name));
        char text[WORDS_SHORT_BYTES];
        words_short(value, text);
        json_writer_print(writer, ": %s</title></rect>", text);
        x += width;
    }
}

/* Writes a table of colours and names under the bars, four in a row. */
static void write_keys(struct json_writer *writer, const struct chart *chart, double y) {
    for (size_t i = 0; i < chart->series_count; i++) {
        size_t line = i / 4;
        double x = NAMES_WIDTH + 130.0 * (double)(i % 4), row = y + 18.0 * (double)line;
        json_writer_print(writer,
                          "<rect class=\"c%zu\" x=\"%.1f\" y=\"%.1f\" width=\"9\" height=\"9\"/>",
                          i, x, row - 9);
        chart_write_text(writer, x + 14, row, "soft", "start", chart->series[i].name);
    }
}

void chart_bars(struct json_writer *writer, const struct chart *chart) {
    double most = 0, bars = (double)chart->count, rows = ceil((double)chart->series_count / 4);
    double keys = 30 + bars * (BAR_HEIGHT + BAR_GAP) + 36;
    check(chart->series_count <= CHART_SERIES_MAX);
    begin(writer, chart, keys + 18 * rows);
    for (size_t bar = 0; bar < chart->count; bar++) {
        double sum = 0;
        for (size_t i = 0; i < chart->series_count; i++)
            sum += chart->series[i].values[bar];
        if (sum > most) most = sum;
    }
    if (chart->y_max > 0) most = chart->y_max;
    double scale = most > 0 ? (WIDTH - NAMES_WIDTH - RIGHT) / most : 0;
    for (size_t bar = 0; bar < chart->count; bar++)
        write_bar(writer, chart, bar, scale, 30 + (double)bar * (BAR_HEIGHT + BAR_GAP));
    char text[WORDS_SHORT_BYTES];
    for (int i = 0; i <= 4; i++) {
        tick_text(most * i / 4, text);
        chart_write_text(writer, NAMES_WIDTH + most * i / 4 * scale, keys - 22, "soft",
                         i ? "end" : "start", text);
    }
    chart_write_text(writer, 4, keys - 22, "soft", "start", chart->x_label);
    write_keys(writer, chart, keys);
    json_writer_text(writer, "</svg>");
}
