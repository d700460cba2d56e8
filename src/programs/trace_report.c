/* SPDX-License-Identifier: Apache-2.0
 * fathom trace report: the overlap in a trace (host/engine/trace.h), per stage and in total.
 *
 *   work      time in a stage without its wait
 *   exposed   time during which a stage waited for a transfer
 *   transfer  time in which transfers were on the link, each counted
 *   hidden    the share of transfer time without a waiting stage: the overlap's efficiency
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/file.h"
#include "base/tree.h"
#include "command/json_print.h"
#include "contract/overlap.h"
#include "programs/programs.h"

#define TRACE_BYTES_MAX ((size_t)4 << 30)
#define LINE_BYTES_MAX 4096 /* of an event line from trace_write */
#define RANKS 1024
#define US_DIGITS 12 /* of sums of microseconds */

struct report_values {
    bool json;
};

static const struct option report_rows[] = {
    {"json", OPTION_FLAG, NULL, "print one JSON object",
     .offset = offsetof(struct report_values, json)},
};

const struct option_table trace_options = {
    .command = "trace",
    .arguments = "report FILE",
    .description = "Times per stage, exposed communication and overlap of a trace that --trace "
                   "wrote; open the file itself in ui.perfetto.dev.",
    .positional_min = 2,
    .positional_max = 2,
    .options = report_rows,
    .option_count = ARRAY_COUNT(report_rows),
};

struct stage_sum {
    uint64_t count;
    double work_us, exposed_us, transfer_us;
};

struct trace_report {
    struct stage_sum stages[STAGE_COUNT]; /* over all ranks and lanes */
    double first_us, last_us;
    uint64_t bytes;
    uint32_t ranks;
};

/* One event's fields; absent members stay unchanged. */
struct trace_report_event {
    char phase;
    enum stage stage;
    double at_us, length_us, waited_us, link_us;
    int64_t rank, bytes;
};

static bool read_stage(const struct tree *name, struct trace_report_event *event) {
    struct bytes text;
    if (!tree_get_string(name, &text) || text.count < 3) return false;
    text.count -= 2; /* the micro-batch */
    for (int stage = 0; stage < STAGE_COUNT; stage++)
        if (bytes_equal(text, bytes_of(overlap_stage_name((enum stage)stage)))) {
            event->stage = (enum stage)stage;
            return true;
        }
    return false;
}

/* Returns false if it is no event of a stage, such as the name of a row. */
static bool read_event(const struct tree *root, struct trace_report_event *event) {
    struct bytes phase;
    if (!tree_get_string(tree_member(root, "ph"), &phase) || phase.count != 1) return false;
    event->phase = phase.data[0];
    if (!read_stage(tree_member(root, "name"), event)) return false;
    const struct tree *arguments = tree_member(root, "args");
    tree_get_number(tree_member(root, "dur"), &event->length_us);
    tree_get_number(tree_member(arguments, "waited_us"), &event->waited_us);
    tree_get_number(tree_member(arguments, "link_us"), &event->link_us);
    tree_get_integer(tree_member(arguments, "bytes"), &event->bytes);
    return tree_get_number(tree_member(root, "ts"), &event->at_us) &&
           tree_get_integer(tree_member(root, "pid"), &event->rank) && event->rank >= 0 &&
           event->rank < RANKS;
}

static void trace_report_add_event(struct trace_report *report,
                                   const struct trace_report_event *event) {
    struct stage_sum *sum = &report->stages[event->stage];
    if (event->phase == 'X') {
        sum->count++;
        sum->work_us += event->length_us - event->waited_us;
        sum->exposed_us += event->waited_us;
    } else if (event->phase == 'b') {
        sum->transfer_us += event->link_us;
        report->bytes += (uint64_t)event->bytes;
    }
    double end_us = event->at_us + event->length_us;
    if (event->at_us < report->first_us) report->first_us = event->at_us;
    if (end_us > report->last_us) report->last_us = end_us;
    if ((uint32_t)event->rank >= report->ranks) report->ranks = (uint32_t)event->rank + 1;
}

static enum status trace_report_read_line(struct bytes line, size_t number,
                                          struct trace_report *report, struct error *error) {
    static char room[64 * LINE_BYTES_MAX];
    struct arena arena;
    const struct tree *root;
    struct error why;
    struct trace_report_event event = {.phase = 0};
    if (line.count && line.data[line.count - 1] == ',') line.count--;
    if (line.count == 0 || line.data[0] != '{' || line.data[line.count - 1] != '}')
        return STATUS_OK; /* a line around the events */
    if (line.count > LINE_BYTES_MAX)
        return error_set(error, STATUS_INVALID, "line %zu is longer than an event of a trace",
                         number);
    arena_over(&arena, room, sizeof room);
    enum status status = tree_parse(&arena, line, "event", &root, &why);
    if (status) return error_set(error, status, "line %zu: %s", number, why.text);
    if (read_event(root, &event)) trace_report_add_event(report, &event);
    return STATUS_OK;
}

static enum status trace_report_read_trace(struct bytes text, const char *path,
                                           struct trace_report *report, struct error *error) {
    size_t number = 1;
    struct error why;
    for (size_t at = 0; at < text.count; number++) {
        const char *end = memchr(text.data + at, '\n', text.count - at);
        size_t count = end ? (size_t)(end - text.data) - at : text.count - at;
        enum status status =
            trace_report_read_line((struct bytes){text.data + at, count}, number, report, &why);
        if (status) return error_set(error, status, "%.300s: %s", path, why.text);
        at += count + 1;
    }
    if (report->ranks) return STATUS_OK;
    return error_set(error, STATUS_INVALID, "%.300s: no stage of a trace that --trace wrote", path);
}

static double trace_report_hidden_of(double transfer_us, double exposed_us) {
    return transfer_us > 0 ? fmax(0, 1 - exposed_us / transfer_us) : 0;
}

static struct stage_sum total_of(const struct trace_report *report) {
    struct stage_sum total = {0};
    for (int stage = 0; stage < STAGE_COUNT; stage++) {
        total.work_us += report->stages[stage].work_us;
        total.exposed_us += report->stages[stage].exposed_us;
        total.transfer_us += report->stages[stage].transfer_us;
    }
    return total;
}

static void print_sum(struct json_print *print, const struct stage_sum *sum) {
    json_print_values(print, "\"work_us\":%.3f,\"exposed_us\":%.3f,\"transfer_us\":%.3f",
                      sum->work_us, sum->exposed_us, sum->transfer_us);
}

/* Prints a line of the table, with means over the ranks. */
static void say_sum(const struct json_print *print, const struct stage_sum *sum, double ranks) {
    json_print_say(print, " %12.3f %12.3f %12.3f", sum->work_us * 1e-3 / ranks,
                   sum->exposed_us * 1e-3 / ranks, sum->transfer_us * 1e-3 / ranks);
}

static void trace_report_print(const struct trace_report *report, bool json) {
    struct stage_sum total = total_of(report);
    double span_us = report->last_us - report->first_us, ranks = report->ranks;
    double hidden = trace_report_hidden_of(total.transfer_us, total.exposed_us);
    struct json_print print = json_print_begin(json);
    json_print_count(&print, "ranks", report->ranks);
    json_print_number(&print, "span_us", span_us, US_DIGITS);
    print_sum(&print, &total);
    json_print_number(&print, "hidden", hidden, 4);
    json_print_count(&print, "bytes", report->bytes);
    json_print_say(&print, "%u ranks, %.3f ms; times are means over the ranks\n", report->ranks,
                   span_us * 1e-3);
    json_print_say(&print, "%-10s %10s %12s %12s %12s %9s\n", "stage", "count", "work ms",
                   "exposed ms", "transfer ms", "of span");
    json_print_open(&print, "stages", '[');
    for (int stage = 0; stage < STAGE_COUNT; stage++) {
        const struct stage_sum *sum = &report->stages[stage];
        const char *name = overlap_stage_name((enum stage)stage);
        json_print_open(&print, NULL, '{');
        json_print_text(&print, "stage", name);
        json_print_count(&print, "count", sum->count);
        print_sum(&print, sum);
        json_print_close(&print);
        json_print_say(&print, "%-10s %10.0f", name, (double)sum->count / ranks);
        say_sum(&print, sum, ranks);
        json_print_say(&print, " %8.1f%%\n",
                       100 * (sum->work_us + sum->exposed_us) / ranks / span_us);
    }
    json_print_close(&print);
    json_print_say(&print, "%-10s %10s", "all", "");
    say_sum(&print, &total, ranks);
    json_print_say(&print, "\nhidden: %.1f%% of the communication (%.1f MiB)\n", 100 * hidden,
                   (double)report->bytes / ((size_t)1 << 20));
    json_print_close(&print);
}

int program_trace(void *given, const struct option_result *result) {
    struct report_values *values = given;
    struct error error = {.text = ""};
    struct trace_report report = {.first_us = INFINITY, .last_us = -INFINITY};
    struct bytes text = {NULL, 0};
    if (strcmp(result->positional[0], "report") != 0)
        return command_misused("no subject named '%s'; there is: report", result->positional[0]);
    const char *path = result->positional[1];
    enum status status = file_take(path, TRACE_BYTES_MAX, &text, &error);
    if (!status) status = trace_report_read_trace(text, path, &report, &error);
    free((void *)(uintptr_t)text.data);
    if (!status) trace_report_print(&report, values->json);
    return command_end(status, &error);
}
