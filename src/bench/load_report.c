/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/load_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/json_writer.h"

enum report_figure { FIRST, TOKEN, WHOLE, QUEUE, PROMPTS, OUTPUTS, FIGURE_COUNT };

/* Returns false if this result has no such figure. */
static bool load_report_figure_of(const struct load_result *result, enum report_figure figure,
                                  double *out) {
    switch (figure) {
    case FIRST:
        *out = result->first - result->arrival;
        return true;
    case TOKEN:
        if (result->output_tokens < 2) return false;
        *out = (result->last - result->first) / (result->output_tokens - 1);
        return true;
    case WHOLE:
        *out = result->end - result->arrival;
        return true;
    case QUEUE:
        *out = result->sent - result->arrival;
        return true;
    case PROMPTS:
        *out = result->prompt_tokens;
        return true;
    case OUTPUTS:
        *out = result->output_tokens;
        return true;
    case FIGURE_COUNT:
        break;
    }
    return false;
}

static struct load_stats stats_of(const struct load_outcome *outcome, size_t request_count,
                                  enum report_figure figure, double *values) {
    size_t count = 0;
    for (size_t i = 0; i < request_count; i++)
        if (outcome->results[i].failure == LOAD_OK)
            count += load_report_figure_of(&outcome->results[i], figure, &values[count]);
    return load_stats_of(values, count);
}

enum status load_report_make(struct load_outcome *outcome, size_t request_count,
                             struct load_report *report_out, struct error *error) {
    struct load_report report = {.count = request_count};
    double *values = malloc((request_count + 1) * sizeof *values);
    if (!values) return error_set(error, STATUS_NO_MEMORY, "no memory for the figures");
    for (size_t i = 0; i < request_count; i++) {
        const struct load_result *result = &outcome->results[i];
        report.failures[result->failure]++;
        if (result->failure != LOAD_OK) continue;
        report.prompt_tokens += result->prompt_tokens;
        report.cached_tokens += result->cached_tokens;
        report.output_tokens += result->output_tokens;
    }
    report.left = report.failures[LOAD_LEFT];
    report.failed = request_count - report.failures[LOAD_OK] - report.left;
    report.first = stats_of(outcome, request_count, FIRST, values);
    report.token = stats_of(outcome, request_count, TOKEN, values);
    report.whole = stats_of(outcome, request_count, WHOLE, values);
    report.queue = stats_of(outcome, request_count, QUEUE, values);
    report.prompt_lengths = stats_of(outcome, request_count, PROMPTS, values);
    report.output_lengths = stats_of(outcome, request_count, OUTPUTS, values);
    report.gap = load_stats_of(outcome->gaps, outcome->gap_count);
    free(values);
    *report_out = report;
    return STATUS_OK;
}

static double rate(double count, const struct load_outcome *outcome) {
    return outcome->seconds > 0 ? count / outcome->seconds : 0;
}

/* ---- for people ---- */

static void load_report_print_row(const char *name, const struct load_stats *stats, double scale,
                                  int decimals) {
    if (stats->count == 0) return;
    printf("%-28s %10.*f %10.*f %10.*f %10.*f %10.*f %10.*f\n", name, decimals, stats->mean * scale,
           decimals, stats->p50 * scale, decimals, stats->p90 * scale, decimals, stats->p95 * scale,
           decimals, stats->p99 * scale, decimals, stats->max * scale);
}

void load_report_print(const struct load_report *report, const struct load_outcome *outcome,
                       const struct load_options *options) {
    printf("%s, model %s, %s\n", options->url, outcome->model,
           options->chat ? "chat completions" : "completions");
    printf("%zu requests in %.2f s, at most %u at a time, %zu failed\n", report->count,
           outcome->seconds, outcome->running_max, report->failed);
    printf("%.2f requests/s, %.1f prompt tokens/s, %.1f output tokens/s (%" PRIu64 " in, %" PRIu64
           " of them from a cache, %" PRIu64 " out)\n\n",
           rate((double)report->failures[LOAD_OK], outcome),
           rate((double)report->prompt_tokens, outcome),
           rate((double)report->output_tokens, outcome), report->prompt_tokens,
           report->cached_tokens, report->output_tokens);
    printf("%-28s %10s %10s %10s %10s %10s %10s\n", "", "mean", "p50", "p90", "p95", "p99", "max");
    load_report_print_row("time to first token, ms", &report->first, 1e3, 1);
    load_report_print_row("time per output token, ms", &report->token, 1e3, 2);
    load_report_print_row("between two events, ms", &report->gap, 1e3, 2);
    load_report_print_row("whole request, ms", &report->whole, 1e3, 1);
    if (options->open) load_report_print_row("wait for a place, ms", &report->queue, 1e3, 1);
    load_report_print_row("prompt tokens", &report->prompt_lengths, 1, 0);
    load_report_print_row("output tokens", &report->output_lengths, 1, 0);
    if (report->left) printf("%zu left in the middle of their answers\n", report->left);
    for (int kind = LOAD_OK + 1; kind < LOAD_LEFT; kind++)
        if (report->failures[kind])
            printf("%zu failed, %s%s%s\n", report->failures[kind],
                   load_failure_name((enum load_failure)kind),
                   outcome->messages[kind][0] ? ": " : "", outcome->messages[kind]);
}

/* ---- for programs ---- */

static void load_report_print_stats(const char *name, const struct load_stats *stats) {
    printf(",\n \"%s\":{\"count\":%zu,\"mean\":%.6g,\"p50\":%.6g,\"p90\":%.6g,\"p95\":%.6g,"
           "\"p99\":%.6g,\"max\":%.6g}",
           name, stats->count, stats->mean, stats->p50, stats->p90, stats->p95, stats->p99,
           stats->max);
}

static void load_report_print_string(const char *text) {
    char out[2048];
    struct json_writer writer = {.out = out, .room = sizeof out};
    json_writer_string(&writer, bytes_of(text));
    if (json_writer_fits(&writer))
        printf("%.*s", (int)writer.count, out);
    else
        printf("\"\"");
}

/* ,"each":[{...},...] */
static void print_each(const struct load_outcome *outcome, const struct load_request *requests) {
    printf(",\n \"each\":[");
    for (size_t i = 0; i < outcome->request_count; i++) {
        const struct load_result *result = &outcome->results[i];
        const struct load_request *request = &requests[i];
        printf("%s\n  {\"arrival\":%.6f,\"sent\":%.6f,\"first\":%.6f,\"last\":%.6f,\"end\":%.6f,"
               "\"prompt_tokens\":%u,\"output_tokens\":%u,\"cached_tokens\":%u,\"outcome\":\"%s\","
               "\"block_tokens\":%u,\"blocks\":[",
               i ? "," : "", result->arrival, result->sent, result->first, result->last,
               result->end, result->prompt_tokens, result->output_tokens, result->cached_tokens,
               load_failure_name(result->failure), request->block_tokens);
        for (uint32_t j = 0; j < request->block_count; j++)
            printf("%s%" PRIu64, j ? "," : "", request->blocks[j]);
        printf("]}");
    }
    printf("]");
}

void load_report_print_json(const struct load_report *report, const struct load_outcome *outcome,
                            const struct load_options *options, const struct load_request *each,
                            const char *extra) {
    printf("{%s\"url\":", extra);
    load_report_print_string(options->url);
    printf(",\"model\":");
    load_report_print_string(outcome->model);
    printf(",\"endpoint\":\"%s\",\n \"requests\":%zu,\"failed\":%zu,\"left\":%zu,\"seconds\":%.6g,"
           "\"running_max\":%u,\"prompt_tokens\":%" PRIu64 ",\"cached_tokens\":%" PRIu64
           ",\"output_tokens\":%" PRIu64
           ",\n \"requests_per_second\":%.6g,\"prompt_tokens_per_second\":%.6g,"
           "\"output_tokens_per_second\":%.6g",
           options->chat ? "chat" : "completions", report->count, report->failed, report->left,
           outcome->seconds, outcome->running_max, report->prompt_tokens, report->cached_tokens,
           report->output_tokens, rate((double)report->failures[LOAD_OK], outcome),
           rate((double)report->prompt_tokens, outcome),
           rate((double)report->output_tokens, outcome));
    load_report_print_stats("ttft_seconds", &report->first);
    load_report_print_stats("tpot_seconds", &report->token);
    load_report_print_stats("itl_seconds", &report->gap);
    load_report_print_stats("e2e_seconds", &report->whole);
    load_report_print_stats("queue_seconds", &report->queue);
    load_report_print_stats("prompt_lengths", &report->prompt_lengths);
    load_report_print_stats("output_lengths", &report->output_lengths);
    if (each) print_each(outcome, each);
    printf(",\n \"errors\":{");
    for (int kind = LOAD_OK + 1, printed = 0; kind < LOAD_LEFT; kind++)
        if (report->failures[kind]) {
            printf("%s\"%s\":{\"count\":%zu,\"first\":", printed++ ? "," : "",
                   load_failure_name((enum load_failure)kind), report->failures[kind]);
            load_report_print_string(outcome->messages[kind]);
            printf("}");
        }
    printf("}}\n");
}
