/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/harness.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"

#define NUMBER_DIGITS 6
#define EXACT_MAX 1e15 /* whole numbers up to this are printed in full */

void harness_number(struct json_print *print, const char *name, double value) {
    if (value == floor(value) && fabs(value) < EXACT_MAX)
        json_print_integer(print, name, (int64_t)value);
    else
        json_print_number(print, name, value, NUMBER_DIGITS);
}

void harness_titles(const struct json_print *print, const struct harness_table *table) {
    for (size_t i = 0; i < table->count; i++)
        if (table->columns[i].title)
            json_print_say(print, "%*s ", table->columns[i].width, table->columns[i].title);
    json_print_say(print, "\n");
}

static void harness_print_line(const struct harness_table *table, const char *const *texts,
                               const double *numbers) {
    for (size_t i = 0; i < table->count; i++) {
        const struct harness_column *column = &table->columns[i];
        const char *text = column->width < 0 ? *texts++ : NULL;
        double number = text ? NAN : *numbers++;
        if (!column->title) continue;
        if (text || !isfinite(number))
            printf("%*s ", column->width, text ? text : "");
        else
            printf("%*.*f ", column->width, column->decimals,
                   number * (column->scale != 0 ? column->scale : 1));
    }
    putchar('\n');
}

/* Opens and closes objects inside a row's object. Returns the member's name in the open one. */
static const char *enter(struct json_print *print, const char *member, const char **object) {
    const char *dot = strchr(member, '.');
    size_t bytes = dot ? (size_t)(dot - member) : 0;
    if (*object && (!dot || strncmp(*object, member, bytes + 1) != 0)) {
        json_print_close(print);
        *object = NULL;
    }
    if (dot && !*object) {
        char name[40];
        snprintf(name, sizeof name, "%.*s", (int)bytes, member);
        json_print_open(print, name, '{');
        *object = member;
    }
    return dot ? dot + 1 : member;
}

static bool harness_has_members(const struct harness_table *table) {
    for (size_t i = 0; i < table->count; i++)
        if (table->columns[i].member) return true;
    return false;
}

static void print_object(struct json_print *print, const struct harness_table *table,
                         const char *const *texts, const double *numbers) {
    const char *object = NULL; /* the one that is open, or NULL */
    for (size_t i = 0; i < table->count; i++) {
        const struct harness_column *column = &table->columns[i];
        const char *text = column->width < 0 ? *texts++ : NULL;
        double number = text ? NAN : *numbers++;
        if (!column->member) continue;
        const char *name = enter(print, column->member, &object);
        if (text)
            json_print_text(print, name, text);
        else if (column->decimals == HARNESS_FLAG)
            json_print_bool(print, name, number != 0);
        else
            harness_number(print, name, number);
    }
    if (object) json_print_close(print);
}

void harness_row(struct json_print *print, const char *name, const struct harness_table *table,
                 const char *const *texts, const double *numbers) {
    if (print->off) harness_print_line(table, texts, numbers);
    if (print->off || !harness_has_members(table)) return;
    json_print_open(print, name, '{');
    print_object(print, table, texts, numbers);
    json_print_close(print);
}

void harness_limits(struct json_print *print, const char *name, const struct machine_limits *limits,
                    bool giga) {
    const double unit = giga ? 1e-9 : 1, scale = giga ? 1 : 1e-9;
    const struct harness_column columns[] = {
        {"threads", "threads", 7, 0, 0},
        {giga ? "fma_gflops" : "fma_flops", "GFLOP/s float", 13, 1, scale},
        {giga ? "bf16_gflops" : "bf16_flops", "bf16 pairs", 10, 1, scale},
        {giga ? "read_gbytes" : "read_bytes", "GB/s read", 9, 2, scale},
    };
    const struct harness_table table = {columns, ARRAY_COUNT(columns)};
    const double numbers[] = {limits->threads, limits->fma_flops * unit, limits->bf16_flops * unit,
                              limits->read_bytes * unit};
    harness_titles(print, &table);
    harness_row(print, name, &table, NULL, numbers);
}

static const struct harness_column stats_columns[] = {
    {NULL, "", -28, 0, 0},   {NULL, "mean", 10, 2, 0}, {NULL, "p50", 10, 2, 0},
    {NULL, "p90", 10, 2, 0}, {NULL, "p95", 10, 2, 0},  {NULL, "p99", 10, 2, 0},
    {NULL, "max", 10, 2, 0},
};
static const struct harness_table stats_table = {stats_columns, ARRAY_COUNT(stats_columns)};

void harness_stats_titles(const struct json_print *print) {
    harness_titles(print, &stats_table);
}

void harness_stats(struct json_print *out, const char *name, const char *title, double scale,
                   const struct stats *stats) {
    const double numbers[] = {stats->mean, stats->p50, stats->p90,
                              stats->p95,  stats->p99, stats->max};
    static const char *const names[] = {"mean", "p50", "p90", "p95", "p99", "max"};
    double scaled[ARRAY_COUNT(numbers)];
    json_print_open(out, name, '{');
    harness_number(out, "count", (double)stats->count);
    for (size_t i = 0; i < ARRAY_COUNT(numbers); i++) {
        harness_number(out, names[i], numbers[i]);
        scaled[i] = scale * numbers[i];
    }
    json_print_close(out);
    if (title && stats->count) harness_row(out, NULL, &stats_table, &title, scaled);
}
