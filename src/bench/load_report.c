/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/load_report.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/check.h"

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

static struct stats figure_stats(const struct load_outcome *outcome, size_t request_count,
                                 enum report_figure figure, double *values) {
    size_t count = 0;
    for (size_t i = 0; i < request_count; i++)
        if (outcome->results[i].failure == LOAD_OK)
            count += load_report_figure_of(&outcome->results[i], figure, &values[count]);
    return stats_of(values, count);
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
    report.first = figure_stats(outcome, request_count, FIRST, values);
    report.token = figure_stats(outcome, request_count, TOKEN, values);
    report.whole = figure_stats(outcome, request_count, WHOLE, values);
    report.queue = figure_stats(outcome, request_count, QUEUE, values);
    report.prompt_lengths = figure_stats(outcome, request_count, PROMPTS, values);
    report.output_lengths = figure_stats(outcome, request_count, OUTPUTS, values);
    report.gap = stats_of(outcome->gaps, outcome->gap_count);
    free(values);
    *report_out = report;
    return STATUS_OK;
}

static double rate(double count, const struct load_outcome *outcome) {
    return outcome->seconds > 0 ? count / outcome->seconds : 0;
}

static void print_totals(struct json_print *out, const struct load_report *report,
                         const struct load_outcome *outcome, const struct load_options *options) {
    const double requests = rate((double)report->failures[LOAD_OK], outcome);
    const double prompts = rate((double)report->prompt_tokens, outcome);
    const double outputs = rate((double)report->output_tokens, outcome);
    json_print_text(out, "url", options->url);
    json_print_text(out, "model", outcome->model);
    json_print_values(
        out,
        "\"endpoint\":\"%s\",\"requests\":%lu,\"failed\":%lu,\"left\":%lu,\"seconds\":%.6g,"
        "\"running_max\":%u,\"prompt_tokens\":%lu,\"cached_tokens\":%lu,\"output_tokens\":%lu,"
        "\"requests_per_second\":%.6g,\"prompt_tokens_per_second\":%.6g,"
        "\"output_tokens_per_second\":%.6g",
        options->chat ? "chat" : "completions", report->count, report->failed, report->left,
        outcome->seconds, outcome->running_max, report->prompt_tokens, report->cached_tokens,
        report->output_tokens, requests, prompts, outputs);
    json_print_say(out, "%s, model %s, %s\n", options->url, outcome->model,
                   options->chat ? "chat completions" : "completions");
    json_print_say(out, "%zu requests in %.2f s, at most %u at a time, %zu failed\n", report->count,
                   outcome->seconds, outcome->running_max, report->failed);
    json_print_say(out,
                   "%.2f requests/s, %.1f prompt tokens/s, %.1f output tokens/s (%" PRIu64
                   " in, %" PRIu64 " of them from a cache, %" PRIu64 " out)\n\n",
                   requests, prompts, outputs, report->prompt_tokens, report->cached_tokens,
                   report->output_tokens);
}

/* The member "each": one object for each request. */
static void print_each(struct json_print *out, const struct load_outcome *outcome,
                       const struct load_request *requests) {
    json_print_open(out, "each", '[');
    for (size_t i = 0; i < outcome->request_count; i++) {
        const struct load_result *result = &outcome->results[i];
        const struct load_request *request = &requests[i];
        json_print_open(out, NULL, '{');
        json_print_values(
            out,
            "\"arrival\":%.6f,\"sent\":%.6f,\"first\":%.6f,\"last\":%.6f,\"end\":%.6f,"
            "\"prompt_tokens\":%u,\"output_tokens\":%u,\"cached_tokens\":%u,"
            "\"outcome\":\"%s\",\"block_tokens\":%u",
            result->arrival, result->sent, result->first, result->last, result->end,
            result->prompt_tokens, result->output_tokens, result->cached_tokens,
            load_failure_name(result->failure), request->block_tokens);
        json_print_open(out, "blocks", '[');
        for (uint32_t j = 0; j < request->block_count; j++)
            json_print_count(out, NULL, request->blocks[j]);
        json_print_close(out);
        json_print_close(out);
    }
    json_print_close(out);
}

static void print_failures(struct json_print *out, const struct load_report *report,
                           const struct load_outcome *outcome) {
    if (report->left)
        json_print_say(out, "%zu left in the middle of their answers\n", report->left);
    json_print_open(out, "errors", '{');
    for (int kind = LOAD_OK + 1; kind < LOAD_LEFT; kind++) {
        const char *name = load_failure_name((enum load_failure)kind);
        const char *first = outcome->messages[kind];
        if (!report->failures[kind]) continue;
        json_print_open(out, name, '{');
        harness_number(out, "count", (double)report->failures[kind]);
        json_print_text(out, "first", first);
        json_print_close(out);
        json_print_say(out, "%zu failed, %s%s%s\n", report->failures[kind], name,
                       first[0] ? ": " : "", first);
    }
    json_print_close(out);
}

void load_report_print(struct json_print *out, const struct load_report *report,
                       const struct load_outcome *outcome, const struct load_options *options,
                       const struct load_request *each) {
    print_totals(out, report, outcome, options);
    harness_stats_titles(out);
    harness_stats(out, "ttft_seconds", "time to first token, ms", 1e3, &report->first);
    harness_stats(out, "tpot_seconds", "time per output token, ms", 1e3, &report->token);
    harness_stats(out, "itl_seconds", "between two events, ms", 1e3, &report->gap);
    harness_stats(out, "e2e_seconds", "whole request, ms", 1e3, &report->whole);
    harness_stats(out, "queue_seconds", options->open ? "wait for a place, ms" : NULL, 1e3,
                  &report->queue);
    harness_stats(out, "prompt_lengths", "prompt tokens", 1, &report->prompt_lengths);
    harness_stats(out, "output_lengths", "output tokens", 1, &report->output_lengths);
    if (each) print_each(out, outcome, each);
    print_failures(out, report, outcome);
}
