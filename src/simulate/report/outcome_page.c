/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/report/outcome_page.h"

#include <math.h>

#include "base/check.h"
#include "base/format.h"
#include "simulate/report/fault_table.h"

#define TIMES_POINTS 96 /* points of a cumulative curve */
#define PATH_BYTES 160
#define LEVELS_MAX 12
#define ITEMS_MAX 16 /* shown items of a list */

/* ---- the page's frame ---- */

static const char page_style[] =
    ":root{color-scheme:light dark;--ink:#1c2430;--soft:#5c6675;--line:#dfe3ea;--paper:#fff;"
    "--card:#f7f8fa}"
    "@media(prefers-color-scheme:dark){:root{--ink:#e6e9ef;--soft:#9aa4b2;--line:#343b47;"
    "--paper:#14181f;--card:#1b2029}}"
    "body{margin:0 auto;max-width:1120px;padding:24px;background:var(--paper);color:var(--ink);"
    "font:15px/1.5 system-ui,sans-serif}"
    "h1{font-size:22px;margin:0 0 4px}h2{font-size:17px;margin:32px 0 10px}"
    "p{color:var(--soft);margin:0 0 12px}.breach{color:#c23b3b;font-weight:600}"
    ".charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(440px,1fr));gap:16px}"
    ".charts>div{background:var(--card);border:1px solid var(--line);border-radius:8px;"
    "padding:10px}"
    "table{border-collapse:collapse;width:100%;font-size:13px}"
    "th,td{text-align:left;padding:4px 10px;border-bottom:1px solid var(--line);"
    "vertical-align:top}"
    "td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}"
    "td.path{font-family:ui-monospace,monospace;font-size:12px}.soft{color:var(--soft)}";

void outcome_page_head(struct json_writer *writer, const char *title) {
    json_writer_text(writer, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                             "<meta name=\"viewport\" content=\"width=device-width\"><title>");
    words_html(writer, bytes_of(title));
    json_writer_text(writer, "</title><style>");
    json_writer_text(writer, page_style);
    json_writer_text(writer, chart_style);
    json_writer_text(writer, "</style></head><body>\n<h1>");
    words_html(writer, bytes_of(title));
    json_writer_text(writer, "</h1>\n");
}

/* ---- tables ---- */

static void outcome_page_write_cell(struct json_writer *writer, const char *class,
                                    const char *text) {
    json_writer_print(writer, "<td class=\"%s\">", class);
    words_html(writer, bytes_of(text));
    json_writer_text(writer, "</td>");
}

static void outcome_page_write_published(struct json_writer *writer,
                                         const struct day_figure *figure) {
    char low[WORDS_SHORT_BYTES], high[WORDS_SHORT_BYTES], text[2 * WORDS_SHORT_BYTES + 8] = "";
    words_short(figure->published[0], low);
    words_short(figure->published[1], high);
    if (figure->published_count == 1) format_text(text, sizeof text, "%s", low);
    if (figure->published_count == 2) format_text(text, sizeof text, "%s to %s", low, high);
    outcome_page_write_cell(writer, "n", text);
    text[0] = 0;
    if (figure->published_count)
        format_text(text, sizeof text, "%+.2f %%", 100 * day_figures_error(figure));
    outcome_page_write_cell(writer, "n", text);
}

void outcome_page_figures(struct json_writer *writer, const struct day_figure *figures,
                          uint32_t count) {
    bool published = false;
    for (uint32_t i = 0; i < count; i++)
        published |= figures[i].published_count > 0;
    json_writer_text(writer, "<table><tr><th>figure</th><th class=\"n\">simulated</th>");
    if (published)
        json_writer_text(writer, "<th class=\"n\">published</th><th class=\"n\">error</th>");
    json_writer_text(writer, "<th>unit</th><th>kind</th></tr>\n");
    for (uint32_t i = 0; i < count; i++) {
        char text[WORDS_SHORT_BYTES];
        json_writer_text(writer, "<tr>");
        outcome_page_write_cell(writer, "", figures[i].name);
        words_short(figures[i].simulated, text);
        outcome_page_write_cell(writer, "n", text);
        if (published) outcome_page_write_published(writer, &figures[i]);
        outcome_page_write_cell(writer, "soft", figures[i].unit);
        outcome_page_write_cell(writer, "soft", day_figures_kind_name(figures[i].kind));
        json_writer_text(writer, "</tr>\n");
    }
    json_writer_text(writer, "</table>\n");
}

struct parameter_walk {
    struct json_writer *writer;
    char path[PATH_BYTES];
};

static void write_value(struct json_writer *writer, const struct tree *value) {
    double number;
    struct bytes text;
    if (tree_get_string(value, &text))
        words_html(writer, text);
    else if (tree_get_number(value, &number))
        words_number(writer, number);
    else
        json_writer_text(writer, tree_name(value));
}

static void write_parameter(struct parameter_walk *walk, const struct tree *value,
                            const struct tree *source) {
    struct bytes text = {"", 0};
    tree_get_string(source, &text);
    json_writer_text(walk->writer, "<tr><td class=\"path\">");
    words_html(walk->writer, bytes_of(walk->path));
    json_writer_text(walk->writer, "</td><td class=\"n\">");
    write_value(walk->writer, value);
    json_writer_text(walk->writer, "</td><td class=\"soft\">");
    words_html(walk->writer, text);
    json_writer_text(walk->writer, "</td></tr>\n");
}

static void walk_object(struct parameter_walk *walk, const struct tree *object, size_t level);

static void walk_value(struct parameter_walk *walk, const struct tree *value, size_t level) {
    size_t end = strlen(walk->path);
    enum tree_kind kind = tree_kind(value);
    if (level == LEVELS_MAX) return;
    if (kind == TREE_OBJECT && tree_member(value, "value")) {
        write_parameter(walk, tree_member(value, "value"), tree_member(value, "source"));
    } else if (kind == TREE_OBJECT) {
        walk_object(walk, value, level);
    } else if (kind == TREE_ARRAY) {
        for (size_t i = 0; i < tree_count(value) && i < ITEMS_MAX; i++) {
            format_text(walk->path + end, sizeof walk->path - end, "[%zu]", i);
            walk_value(walk, tree_at(value, i), level + 1);
            walk->path[end] = 0;
        }
    } else {
        write_parameter(walk, value, NULL);
    }
}

static void walk_object(struct parameter_walk *walk, const struct tree *object, size_t level) {
    struct tree_cursor cursor = {0};
    struct bytes name;
    const struct tree *value;
    size_t end = strlen(walk->path);
    while (tree_next_member(object, &cursor, &name, &value)) {
        format_text(walk->path + end, sizeof walk->path - end, "%s%.*s", end ? "." : "",
                    (int)(name.count < 64 ? name.count : 64), name.data);
        walk_value(walk, value, level + 1);
        walk->path[end] = 0;
    }
}

void outcome_page_parameters(struct json_writer *writer, const struct tree *tree) {
    struct parameter_walk walk = {.writer = writer};
    json_writer_text(writer, "<table><tr><th>parameter</th><th class=\"n\">value</th>"
                             "<th>where it comes from</th></tr>\n");
    if (tree && tree_kind(tree) == TREE_OBJECT) walk_object(&walk, tree, 0);
    json_writer_text(writer, "</table>\n");
}

/* ---- charts ---- */

void outcome_page_chart(struct json_writer *writer, const struct chart *chart,
                        void (*draw)(struct json_writer *writer, const struct chart *chart)) {
    json_writer_text(writer, "<div>");
    draw(writer, chart);
    json_writer_text(writer, "</div>\n");
}

struct series_room { /* members of the points, as columns */
    double x[OUTCOME_POINTS], columns[CHART_SERIES_MAX][OUTCOME_POINTS];
};

static double member_of(const struct outcome_point *point, size_t offset) {
    double value;
    memcpy(&value, (const char *)point + offset, sizeof value);
    return value;
}

static void outcome_page_write_series(struct json_writer *writer, const struct outcome *outcome,
                                      struct chart *chart, struct series_room *room,
                                      const size_t *offsets, const char *const *names, size_t count,
                                      double scale) {
    chart->count = outcome_points(outcome);
    chart->x = room->x;
    chart->series_count = count;
    chart->x_label = "seconds of the measured time";
    for (size_t s = 0; s < count; s++) {
        chart->series[s] = (struct chart_series){names[s], room->columns[s]};
        for (uint32_t i = 0; i < chart->count; i++) {
            room->x[i] = outcome->points[i].at_s;
            room->columns[s][i] = scale * member_of(&outcome->points[i], offsets[s]);
        }
    }
    outcome_page_chart(writer, chart, chart_lines);
}

static void write_throughput(struct json_writer *writer, const struct outcome *outcome) {
    struct series_room room;
    struct chart chart = {.title = "Throughput of the fleet", .y_label = "tokens a second"};
    static const size_t tokens[] = {offsetof(struct outcome_point, computed_rate),
                                    offsetof(struct outcome_point, output_rate)};
    static const char *const token_names[] = {"prompt, computed", "output"};
    outcome_page_write_series(writer, outcome, &chart, &room, tokens, token_names, 2, 1);
    struct chart open = {.title = "Requests under way", .y_label = "requests"};
    static const size_t requests[] = {offsetof(struct outcome_point, open)};
    static const char *const request_names[] = {"requests"};
    outcome_page_write_series(writer, outcome, &open, &room, requests, request_names, 1, 1);
}

static void outcome_page_write_pages(struct json_writer *writer, const struct outcome *outcome) {
    struct series_room room;
    struct chart chart = {.title = "KV pages that are held", .y_label = "% of all", .y_max = 100};
    size_t offsets[UNIT_ROLE_COUNT], count = 0;
    const char *names[UNIT_ROLE_COUNT];
    for (size_t role = 0; role < UNIT_ROLE_COUNT; role++) {
        if (outcome->report.roles[role].units == 0) continue;
        offsets[count] = offsetof(struct outcome_point, pages_share) + role * sizeof(double);
        names[count++] = record_unit_role_name((enum unit_role)role);
    }
    outcome_page_write_series(writer, outcome, &chart, &room, offsets, names, count, 100);
}

/* Writes the share of requests up to each time, on a logarithmic axis. */
static void outcome_page_write_times(struct json_writer *writer, const char *title,
                                     const struct time_spread *spread) {
    double x[TIMES_POINTS], share[TIMES_POINTS];
    double low = spread_quantile(spread, 0.001), high = spread_quantile(spread, 0.9999);
    struct chart chart = {.title = title,
                          .x_label = "milliseconds",
                          .y_label = "% of requests",
                          .x = x,
                          .series = {{"share", share}},
                          .series_count = 1,
                          .log_x = true,
                          .y_max = 100};
    if (low < 1e3) low = 1e3;
    if (high < 1.1 * low) high = 1.1 * low;
    for (int i = 0; i < TIMES_POINTS; i++) {
        x[i] = low * pow(high / low, (double)i / (TIMES_POINTS - 1)) * 1e-6;
        share[i] = 100 * spread_below(spread, x[i] * 1e6);
    }
    chart.count = spread->total ? TIMES_POINTS : 0;
    outcome_page_chart(writer, &chart, chart_lines);
}

static void outcome_page_write_spent(struct json_writer *writer, const struct outcome *outcome) {
    double shares[STEP_SPENT_COUNT + 1][UNIT_ROLE_COUNT];
    const char *names[UNIT_ROLE_COUNT];
    struct chart chart = {.title = "Where each GPU-second went", .x_label = "% of time"};
    for (int role = 0; role < UNIT_ROLE_COUNT; role++) {
        const struct simulator_role_counts *counts = &outcome->report.roles[role];
        double all = 0;
        if (counts->units == 0) continue;
        for (uint32_t i = 0; i <= STEP_SPENT_COUNT; i++)
            all += fmax(outcome_spent(counts, i), 0);
        for (uint32_t i = 0; i <= STEP_SPENT_COUNT; i++)
            shares[i][chart.count] = all > 0 ? 100 * fmax(outcome_spent(counts, i), 0) / all : 0;
        names[chart.count++] = record_unit_role_name((enum unit_role)role);
    }
    check(STEP_SPENT_COUNT + 1 <= CHART_SERIES_MAX);
    for (uint32_t i = 0; i <= STEP_SPENT_COUNT; i++)
        chart.series[chart.series_count++] =
            (struct chart_series){outcome_spent_name(i), shares[i]};
    chart.names = names;
    chart.y_max = 100;
    outcome_page_chart(writer, &chart, chart_bars);
}

static void write_hits(struct json_writer *writer, const struct day_figure *figures,
                       uint32_t count) {
    static const char *const bars[] = {"prompts"};
    double device = outcome_figure_of(figures, count, "device_hit_percent");
    double host = outcome_figure_of(figures, count, "host_hit_percent");
    double disk = outcome_figure_of(figures, count, "disk_hit_percent");
    double computed = fmax(100 - device - host - disk, 0);
    struct chart chart = {.title = "Where prompts' tokens came from",
                          .x_label = "% of tokens",
                          .count = 1,
                          .names = bars,
                          .series = {{"device", &device},
                                     {"host", &host},
                                     {"storage", &disk},
                                     {"computed", &computed}},
                          .series_count = 4,
                          .y_max = 100};
    outcome_page_chart(writer, &chart, chart_bars);
}

static void write_money(struct json_writer *writer, const struct outcome *outcome) {
    static const char *const bars[] = {"cost", "income", "list prices"};
    struct outcome_money money = outcome_money_of(outcome);
    double values[3] = {money.cost, money.income, money.income_list};
    char label[96];
    struct chart chart = {.title = "An hour of the fleet as measured",
                          .x_label = label,
                          .count = 3,
                          .names = bars,
                          .series = {{"money", values}},
                          .series_count = 1};
    if (outcome->scenario->prices.node_hour <= 0) return;
    format_text(label, sizeof label, "%s an hour", outcome->scenario->prices.currency);
    outcome_page_chart(writer, &chart, chart_bars);
}

/* ---- the page ---- */

void outcome_page_write(struct json_writer *writer, const struct outcome *outcome) {
    struct day_figure figures[OUTCOME_FIGURES_MAX];
    uint32_t count = outcome_figures(outcome, figures);
    char title[TREE_TEXT_BYTES + 32];
    format_text(title, sizeof title, "fathom sim: %s", outcome->scenario->name);
    outcome_page_head(writer, title);
    json_writer_print(
        writer,
        "<p>Seed %llu. %.6g s measured behind %.6g s of warming up; %llu requests "
        "asked, %llu answered, %llu refused, %llu failed.</p>\n",
        (unsigned long long)outcome->scenario->options.seed, outcome->report.measured_s,
        (double)outcome->scenario->options.warm_ns * 1e-9,
        (unsigned long long)outcome->report.asked, (unsigned long long)outcome->report.answered,
        (unsigned long long)outcome->report.refused, (unsigned long long)outcome->report.failed);
    if (outcome->report.breach[0]) {
        json_writer_text(writer, "<p class=\"breach\">");
        words_html(writer, bytes_of(outcome->report.breach));
        json_writer_text(writer, "</p>\n");
    }
    json_writer_text(writer, "<div class=\"charts\">\n");
    write_throughput(writer, outcome);
    outcome_page_write_times(writer, "Time to the first token (TTFT)", &outcome->ttft);
    outcome_page_write_times(writer, "Time for each further token (TPOT)", &outcome->tpot);
    outcome_page_write_spent(writer, outcome);
    outcome_page_write_pages(writer, outcome);
    write_hits(writer, figures, count);
    write_money(writer, outcome);
    json_writer_text(writer, "</div>\n<h2>Figures</h2>\n");
    outcome_page_figures(writer, figures, count);
    fault_table_html(writer, outcome);
    json_writer_text(writer, "<h2>Parameters</h2>\n<p>Of the scenario with its hardware, model and "
                             "prices, as the run took them.</p>\n");
    outcome_page_parameters(writer, outcome->scenario->tree);
    json_writer_text(writer, "</body></html>\n");
}
