/* SPDX-License-Identifier: Apache-2.0 */
#include "programs/ledger_page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "programs/money.h"
#include "programs/outside_text.h"
#include "simulate/report/chart.h"
#include "simulate/report/outcome_page.h"

#define NANOS 1e9

double ledger_page_node_hours(const struct ledger_totals *totals) {
    double sum = 0;
    for (int role = 0; role < LEDGER_ROLES; role++)
        sum += totals->node_hours[role];
    return sum;
}

double ledger_page_hit_rate(const struct ledger_usage *usage) {
    double prompt = (double)(usage->hit_tokens + usage->miss_tokens);
    return prompt > 0 ? (double)usage->hit_tokens / prompt : 0;
}

double ledger_page_margin_percent(const struct ledger_totals *totals) {
    if (totals->cost <= 0) return 0;
    return 100 * ((double)totals->usage.amount / (double)totals->cost - 1);
}

void ledger_page_hour(int64_t hour, char out[LEDGER_HOUR_BYTES]) {
    time_t seconds = (time_t)(hour * 3600);
    struct tm when;
    gmtime_r(&seconds, &when);
    if (!strftime(out, LEDGER_HOUR_BYTES, "%Y-%m-%dT%H", &when)) out[0] = 0;
}

/* ---- charts ---- */

/* A step chart over hours. Hours without data are zeros. */
struct hour_chart {
    struct chart chart;
    double *x, *columns[LEDGER_ROLES + 1];
    int64_t first;
};

static double ledger_page_nodes_of(const struct ledger_hour *hour, int column) {
    double decode = hour->nodes[2], all = hour->nodes[0] + hour->nodes[1] + decode;
    return column == 0 ? all : decode;
}

static double ledger_page_money_of(const struct ledger_hour *hour, int column) {
    int64_t values[] = {hour->cost, hour->usage.list_amount, hour->usage.amount};
    return (double)values[column] / NANOS;
}

static void ledger_page_write_chart(struct json_writer *writer, const struct ledger_found *found,
                                    struct chart chart,
                                    double (*value_of)(const struct ledger_hour *, int)) {
    const struct ledger_hour *hours = found->hours;
    int64_t first = hours[0].hour, count = hours[found->hour_count - 1].hour - first + 2;
    double *values = calloc((size_t)count * (1 + chart.series_count), sizeof *values);
    check(values);
    for (int64_t i = 0; i < count; i++)
        values[i] = (double)i;
    for (size_t s = 0; s < chart.series_count; s++) {
        double *column = values + (size_t)count * (s + 1);
        for (size_t i = 0; i < found->hour_count; i++)
            column[hours[i].hour - first] = value_of(&hours[i], (int)s);
        column[count - 1] = column[count - 2]; /* the end of the last hour */
        chart.series[s].values = column;
    }
    chart.x = values;
    chart.count = (size_t)count;
    json_writer_text(writer, "<div>");
    chart_lines(writer, &chart);
    json_writer_text(writer, "</div>\n");
    free(values);
}

static void ledger_page_write_charts(struct json_writer *writer, const struct ledger_found *found) {
    char first[LEDGER_HOUR_BYTES], label[64], money[32];
    ledger_page_hour(found->hours[0].hour, first);
    snprintf(label, sizeof label, "hours from %s:00 UTC", first);
    snprintf(money, sizeof money, "%s an hour", found->currency);
    struct chart nodes = {.title = "Nodes",
                          .x_label = label,
                          .y_label = "nodes",
                          .series = {{.name = "all"}, {.name = "decode"}},
                          .series_count = 2,
                          .steps = true};
    struct chart income = {
        .title = "Cost and theoretical income",
        .x_label = label,
        .y_label = money,
        .series = {{.name = "cost"}, {.name = "income at list prices"}, {.name = "income"}},
        .series_count = 3,
        .steps = true};
    json_writer_text(writer, "<div class=\"charts\">\n");
    ledger_page_write_chart(writer, found, nodes, ledger_page_nodes_of);
    ledger_page_write_chart(writer, found, income, ledger_page_money_of);
    json_writer_text(writer, "</div>\n");
}

/* ---- tables ---- */

static void ledger_page_write_usage(struct json_writer *writer, const struct ledger_usage *usage,
                                    const char *currency) {
    char amount[MONEY_BYTES];
    money_write(usage->amount, amount);
    json_writer_print(writer,
                      "<td>%lld</td><td>%lld</td><td>%lld</td><td>%lld</td><td>%.1f %%</td>"
                      "<td>%s %s</td></tr>\n",
                      (long long)usage->requests, (long long)usage->hit_tokens,
                      (long long)usage->miss_tokens, (long long)usage->output_tokens,
                      100 * ledger_page_hit_rate(usage), amount, currency);
}

static void write_accounts(struct json_writer *writer, const struct ledger_found *found) {
    json_writer_text(writer, "<h2>Accounts</h2>\n<table><tr><th>account</th><th>requests</th>"
                             "<th>hit tokens</th><th>miss tokens</th><th>output tokens</th>"
                             "<th>hits</th><th>amount</th></tr>\n");
    for (size_t i = 0; i < found->account_count; i++) {
        const struct ledger_account *account = &found->accounts[i];
        json_writer_text(writer, "<tr><td>");
        char *name = outside_text_visible(account->name[0] ? account->name : "(none)");
        words_html(writer, bytes_of(name));
        free(name);
        json_writer_text(writer, "</td>");
        ledger_page_write_usage(writer, &account->usage, found->currency);
    }
    json_writer_text(writer, "<tr><td>all</td>");
    ledger_page_write_usage(writer, &found->totals.usage, found->currency);
    json_writer_text(writer, "</table>\n");
}

static void ledger_page_write_sums(struct json_writer *writer, const struct ledger_found *found) {
    const struct ledger_totals *totals = &found->totals;
    char cost[MONEY_BYTES], income[MONEY_BYTES], list[MONEY_BYTES];
    money_write(totals->cost, cost);
    money_write(totals->usage.amount, income);
    money_write(totals->usage.list_amount, list);
    json_writer_print(
        writer,
        "<p>Cost %s %s for %.2f node-hours; income %s, %s at list prices; margin %.0f %%. "
        "Hits %.1f %% of prompts' tokens.</p>\n",
        cost, found->currency, ledger_page_node_hours(totals), income, list,
        ledger_page_margin_percent(totals), 100 * ledger_page_hit_rate(&totals->usage));
}

void ledger_page_write(struct json_writer *writer, const struct ledger_found *found) {
    outcome_page_head(writer, found->title);
    ledger_page_write_sums(writer, found);
    if (found->hour_count > 0) ledger_page_write_charts(writer, found);
    write_accounts(writer, found);
    json_writer_text(writer, "</body></html>\n");
}
