/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/harness.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"

#define NUMBER_DIGITS 6
#define EXACT_MAX 1e15 /* whole numbers up to this are printed in full */

void harness_begin(struct harness *harness, bool json) {
    *harness = (struct harness){.json = json, .print.off = !json};
    harness_open(harness, NULL, '{');
}

void harness_end(struct harness *harness) {
    harness_close(harness);
    check(!harness->print.depth);
}

void harness_open(struct harness *harness, const char *name, char bracket) {
    json_print_open(&harness->print, name, bracket);
}

void harness_close(struct harness *harness) {
    json_print_close(&harness->print);
}

void harness_text(struct harness *harness, const char *name, const char *text) {
    json_print_text(&harness->print, name, text);
}

void harness_number(struct harness *harness, const char *name, double value) {
    if (value == floor(value) && fabs(value) < EXACT_MAX)
        json_print_integer(&harness->print, name, (int64_t)value);
    else
        json_print_number(&harness->print, name, value, NUMBER_DIGITS);
}

void harness_say(const struct harness *harness, const char *format, ...) {
    va_list arguments;
    if (harness->json) return;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
}

void harness_titles(const struct harness *harness, const struct harness_table *table) {
    for (size_t i = 0; i < table->count; i++)
        if (table->columns[i].title)
            harness_say(harness, "%*s ", table->columns[i].width, table->columns[i].title);
    harness_say(harness, "\n");
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

/* Opens and closes the objects in a row's, and returns the member's name in the one that is open. */
static const char *enter(struct harness *harness, const char *member, const char **object) {
    const char *dot = strchr(member, '.');
    size_t bytes = dot ? (size_t)(dot - member) : 0;
    if (*object && (!dot || strncmp(*object, member, bytes + 1) != 0)) {
        harness_close(harness);
        *object = NULL;
    }
    if (dot && !*object) {
        char name[40];
        snprintf(name, sizeof name, "%.*s", (int)bytes, member);
        harness_open(harness, name, '{');
        *object = member;
    }
    return dot ? dot + 1 : member;
}

static void print_object(struct harness *harness, const struct harness_table *table,
                         const char *const *texts, const double *numbers) {
    const char *object = NULL; /* the one that is open, or NULL */
    for (size_t i = 0; i < table->count; i++) {
        const struct harness_column *column = &table->columns[i];
        const char *text = column->width < 0 ? *texts++ : NULL;
        double number = text ? NAN : *numbers++;
        if (!column->member) continue;
        const char *name = enter(harness, column->member, &object);
        if (text)
            harness_text(harness, name, text);
        else if (column->decimals == HARNESS_FLAG)
            json_print_bool(&harness->print, name, number != 0);
        else
            harness_number(harness, name, number);
    }
    if (object) harness_close(harness);
}

void harness_row(struct harness *harness, const char *name, const struct harness_table *table,
                 const char *const *texts, const double *numbers) {
    if (!harness->json) {
        harness_print_line(table, texts, numbers);
        return;
    }
    harness_open(harness, name, '{');
    print_object(harness, table, texts, numbers);
    harness_close(harness);
}

void harness_limits(struct harness *harness, const char *name, const struct machine_limits *limits,
                    bool giga) {
    static const struct harness_column plain[] = {{"threads", "threads", 7, 0, 0},
                                                  {"fma_flops", "GFLOP/s float", 13, 1, 1e-9},
                                                  {"bf16_flops", "bf16 pairs", 10, 1, 1e-9},
                                                  {"read_bytes", "GB/s read", 9, 2, 1e-9}};
    static const struct harness_column giga_columns[] = {{"threads", "threads", 7, 0, 0},
                                                         {"fma_gflops", "GFLOP/s float", 13, 1, 0},
                                                         {"bf16_gflops", "bf16 pairs", 10, 1, 0},
                                                         {"read_gbytes", "GB/s read", 9, 2, 0}};
    const struct harness_table table = {giga ? giga_columns : plain, ARRAY_COUNT(plain)};
    const double unit = giga ? 1e-9 : 1;
    const double numbers[] = {limits->threads, limits->fma_flops * unit, limits->bf16_flops * unit,
                              limits->read_bytes * unit};
    harness_titles(harness, &table);
    harness_row(harness, name, &table, NULL, numbers);
}

static const struct harness_column stats_columns[] = {
    {NULL, "", -28, 0, 0},   {NULL, "mean", 10, 2, 0}, {NULL, "p50", 10, 2, 0},
    {NULL, "p90", 10, 2, 0}, {NULL, "p95", 10, 2, 0},  {NULL, "p99", 10, 2, 0},
    {NULL, "max", 10, 2, 0},
};
static const struct harness_table stats_table = {stats_columns, ARRAY_COUNT(stats_columns)};

void harness_stats_titles(const struct harness *harness) {
    harness_titles(harness, &stats_table);
}

void harness_stats(struct harness *out, const char *name, const char *title, double scale,
                   const struct stats *stats) {
    const double numbers[] = {stats->mean, stats->p50, stats->p90,
                              stats->p95,  stats->p99, stats->max};
    static const char *const names[] = {"mean", "p50", "p90", "p95", "p99", "max"};
    double scaled[ARRAY_COUNT(numbers)];
    harness_open(out, name, '{');
    harness_number(out, "count", (double)stats->count);
    for (size_t i = 0; i < ARRAY_COUNT(numbers); i++) {
        harness_number(out, names[i], numbers[i]);
        scaled[i] = scale * numbers[i];
    }
    harness_close(out);
    if (!out->json && title && stats->count) harness_row(out, NULL, &stats_table, &title, scaled);
}
