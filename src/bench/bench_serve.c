/* SPDX-License-Identifier: Apache-2.0
 * fathom bench serve: puts load on any OpenAI-style server and reports what its clients see.
 * Lengths and arrivals are drawn from the seed, or taken from a trace. All answers are streamed.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/limits.h"
#include "base/random.h"
#include "base/tree.h"
#include "bench/bench.h"
#include "bench/harness.h"
#include "bench/load.h"
#include "bench/load_ideal.h"
#include "bench/load_report.h"
#include "host/process/gzip_file.h"
#include "simulate/load/load_trace.h"

#define REQUESTS_MAX 10000000
#define REQUESTS_PER_SECOND 1000 /* drawn for --seconds */
#define TRACE_BYTES_MAX ((size_t)1 << 30)

struct bench_serve_values {
    const char *endpoint, *prompts, *prompt_tokens, *output_tokens, *trace, *model_name, *token_ids,
        *extra;
    uint64_t requests, concurrency, seconds, leave_percent, warmup, seed, timeout, max_prompt,
        max_output, sample;
    double rate, speed, scale_tokens, trace_rate, temperature;
    bool ignore_eos, describe, each, json;
};

#define AT(field) .offset = offsetof(struct bench_serve_values, field)

static const struct option serve_rows[] = {
    {"requests", OPTION_COUNT, NULL,
     "requests to send; 0: 64, or all of the trace, or what fits into --seconds", AT(requests),
     .maximum = REQUESTS_MAX},
    {"seconds", OPTION_COUNT, NULL, "begin no request later than this; 0: all begin", AT(seconds),
     .maximum = 1000000},
    {"leave-percent", OPTION_COUNT, NULL,
     "percent of the clients that leave in the middle of their answers", AT(leave_percent),
     .maximum = 100},
    {"concurrency", OPTION_COUNT, NULL,
     "requests at a time at most; 0: 16, or no bound with --rate or --trace", AT(concurrency),
     .maximum = LOAD_CONCURRENCY_MAX},
    {"rate", OPTION_NUMBER, NULL,
     "requests per second on average, arriving at random moments (Poisson); 0: as fast as "
     "--concurrency allows",
     AT(rate), .maximum = 1e6},
    {"prompt-tokens", OPTION_TEXT, "256", "tokens of a prompt: A, or A:B for any number between",
     AT(prompt_tokens)},
    {"output-tokens", OPTION_TEXT, "64", "tokens of an answer: A, or A:B", AT(output_tokens)},
    {"trace", OPTION_TEXT, NULL,
     "a file of arrivals and lengths: an Azure LLM trace (CSV), a Mooncake trace (JSON Lines), or "
     "CSV with num_prefill_tokens and num_decode_tokens",
     AT(trace)},
    {"speed", OPTION_NUMBER, "1", "how much faster than recorded a trace is played", AT(speed),
     .minimum = 1e-6, .maximum = 1e9},
    {"trace-rate", OPTION_NUMBER, NULL,
     "play a trace at this many requests per second on average; 0: at --speed", AT(trace_rate),
     .maximum = 1e6},
    {"sample", OPTION_COUNT, "1",
     "play one in this many conversations of a trace; requests that share their second block stay "
     "together",
     AT(sample), .minimum = 1, .maximum = 1 << 30},
    {"scale-tokens", OPTION_NUMBER, "1",
     "factor for the lengths of a trace's prompts, shared blocks and answers: with 0.125 a block "
     "of 512 tokens has 64; --max-prompt and --max-output apply afterwards",
     AT(scale_tokens), .minimum = 1.0 / LOAD_TRACE_BLOCK_TOKENS, .maximum = 16},
    {"max-prompt", OPTION_COUNT, NULL, "truncate a trace's prompts to this many tokens; 0: never",
     AT(max_prompt), .maximum = LOAD_TRACE_TOKENS_MAX},
    {"max-output", OPTION_COUNT, NULL, "truncate a trace's answers to this many tokens; 0: never",
     AT(max_output), .maximum = LOAD_TRACE_TOKENS_MAX},
    {"endpoint", OPTION_CHOICE, "completions", "API that receives the requests", AT(endpoint),
     .choices = "chat|completions"},
    {"prompts", OPTION_CHOICE, "tokens",
     "token ids, or words (about one token each); chats are always words", AT(prompts),
     .choices = "tokens|words"},
    {"token-ids", OPTION_TEXT, "300:1000", "draw ids from A up to, but not including, B",
     AT(token_ids)},
    {"model-name", OPTION_TEXT, NULL,
     "model of the requests; default: the first that the server lists", AT(model_name)},
    {"ignore-eos", OPTION_FLAG, "true",
     "request answers of full length; --no-ignore-eos for servers without this parameter",
     AT(ignore_eos)},
    {"temperature", OPTION_NUMBER, NULL, "temperature of the sampling", AT(temperature),
     .maximum = 100},
    {"extra", OPTION_TEXT, NULL,
     "a JSON object with members for every request, e.g. {\"cache_prompt\":false}", AT(extra)},
    {"warmup", OPTION_COUNT, "0", "requests before the measurement", AT(warmup),
     .maximum = 1000000},
    {"timeout", OPTION_COUNT, "600", "seconds without a byte after which a request has failed",
     AT(timeout), .minimum = 1, .maximum = 86400},
    {"seed", OPTION_COUNT, "1", "seed of all that is drawn", AT(seed)},
    {"describe", OPTION_FLAG, NULL,
     "send nothing; print the load, and the hits of an endless cache", AT(describe)},
    {"each", OPTION_FLAG, NULL, "with --json: print each request's times and blocks, too", AT(each),
     .needs = "json"},
    {"json", OPTION_FLAG, NULL, "print one JSON object", AT(json)},
};

const struct option_table bench_serve_options = {
    .command = "bench serve",
    .arguments = "URL",
    .description =
        "Sends load to any OpenAI-style server and prints what its clients see: time to first "
        "token, time per token, throughput. Fails if a request does.",
    .options = serve_rows,
    .option_count = ARRAY_COUNT(serve_rows),
    .positional_max = 1,
};

struct plan {
    struct load_options options;
    struct load_request *requests;
    size_t count;
    struct load_trace trace;
    void *trace_memory;
};

/* "A" or "A:B", 1 <= A <= B. */
static bool bench_serve_read_range(const char *text, uint32_t range[2]) {
    char *end;
    unsigned long low = strtoul(text, &end, 10), high = low;
    if (end == text || text[0] == '-') return false;
    if (*end == ':') {
        const char *second = end + 1;
        high = strtoul(second, &end, 10);
        if (end == second || *second == '-') return false;
    }
    range[0] = (uint32_t)low;
    range[1] = (uint32_t)high;
    return *end == 0 && low >= 1 && low <= high && high <= LOAD_TRACE_TOKENS_MAX;
}

static uint32_t draw_between(const uint32_t range[2], double uniform) {
    return range[0] + (uint32_t)(uniform * (range[1] - range[0] + 1));
}

enum { DRAW_PROMPT = 1, DRAW_OUTPUT, DRAW_ARRIVAL };

static enum status draw_requests(struct plan *plan, const struct bench_serve_values *values,
                                 struct error *error) {
    uint32_t prompt[2], output[2];
    if (!bench_serve_read_range(values->prompt_tokens, prompt))
        return error_set(error, STATUS_INVALID,
                         "--prompt-tokens: expected A or A:B with 1 <= A <= B, found '%s'",
                         values->prompt_tokens);
    if (!bench_serve_read_range(values->output_tokens, output))
        return error_set(error, STATUS_INVALID,
                         "--output-tokens: expected A or A:B with 1 <= A <= B, found '%s'",
                         values->output_tokens);
    uint64_t in_time = values->seconds * REQUESTS_PER_SECOND;
    plan->count = values->requests ? values->requests : !in_time ? 64 : in_time;
    if (plan->count > REQUESTS_MAX) plan->count = REQUESTS_MAX;
    plan->requests = calloc(plan->count, sizeof *plan->requests);
    if (!plan->requests) return error_set(error, STATUS_NO_MEMORY, "no memory for the requests");
    double arrival = 0;
    for (size_t i = 0; i < plan->count; i++) {
        uint32_t place = (uint32_t)i;
        plan->requests[i] = (struct load_request){
            .arrival = arrival,
            .prompt_tokens = draw_between(prompt, random_uniform(values->seed, DRAW_PROMPT, place)),
            .output_tokens = draw_between(output, random_uniform(values->seed, DRAW_OUTPUT, place)),
        };
        if (values->rate > 0)
            arrival -= log1p(-random_uniform(values->seed, DRAW_ARRIVAL, place)) / values->rate;
    }
    plan->options.open = values->rate > 0;
    return STATUS_OK;
}

static uint32_t bench_serve_cut(uint32_t tokens, uint64_t max) {
    return max && tokens > max ? (uint32_t)max : tokens;
}

static enum status bench_serve_take_trace(struct plan *plan,
                                          const struct bench_serve_values *values,
                                          struct error *error) {
    struct bytes text;
    enum status status = gzip_file_take(values->trace, TRACE_BYTES_MAX, &text, error);
    if (status) return status;
    size_t bytes = load_trace_bytes(text);
    struct arena arena;
    plan->trace_memory = malloc(bytes);
    arena_over(&arena, plan->trace_memory, plan->trace_memory ? bytes : 0);
    status = load_trace_read(&arena, text, values->trace, &plan->trace, error);
    free((void *)(uintptr_t)text.data);
    if (status) return status;
    load_trace_sample(&plan->trace, values->sample, values->seed);
    plan->count = plan->trace.count;
    if (values->requests && values->requests < plan->count) plan->count = values->requests;
    if (plan->count == 0)
        return error_set(error, STATUS_INVALID, "--sample: none of the conversations is drawn");
    return STATUS_OK;
}

/* The factor on the recorded speed. */
static double bench_serve_speed_of(const struct plan *plan,
                                   const struct bench_serve_values *values) {
    double seconds = plan->trace.rows[plan->count - 1].arrival;
    if (values->trace_rate <= 0 || seconds <= 0) return values->speed;
    return values->trace_rate * seconds / (double)plan->count;
}

static enum status bench_serve_read_trace(struct plan *plan,
                                          const struct bench_serve_values *values,
                                          struct error *error) {
    enum status status = bench_serve_take_trace(plan, values, error);
    if (status) return status;
    plan->requests = calloc(plan->count, sizeof *plan->requests);
    if (!plan->requests) return error_set(error, STATUS_NO_MEMORY, "no memory for the requests");
    uint32_t block_tokens = (uint32_t)lround(values->scale_tokens * LOAD_TRACE_BLOCK_TOKENS);
    double poisson = 0, speed = bench_serve_speed_of(plan, values);
    for (size_t i = 0; i < plan->count; i++) {
        const struct load_trace_row *row = &plan->trace.rows[i];
        plan->requests[i] = (struct load_request){
            .arrival = values->rate > 0 ? poisson : row->arrival / speed,
            .prompt_tokens = bench_serve_cut(load_trace_scale(row->prompt_tokens, block_tokens),
                                             values->max_prompt),
            .output_tokens = bench_serve_cut(load_trace_scale(row->output_tokens, block_tokens),
                                             values->max_output),
            .blocks = row->block_count ? plan->trace.blocks + row->block_index : NULL,
            .block_count = row->block_count,
            .block_tokens = block_tokens,
        };
        if (values->rate > 0)
            poisson -=
                log1p(-random_uniform(values->seed, DRAW_ARRIVAL, (uint32_t)i)) / values->rate;
    }
    plan->options.open = plan->trace.has_arrivals || values->rate > 0;
    return STATUS_OK;
}

/* The members of the JSON object `text`, for every body. */
static enum status read_extra(const char *text, char **members_out, struct error *error) {
    struct arena arena;
    const struct tree *root;
    size_t room = strlen(text) * 64 + 4096;
    void *memory = malloc(room);
    if (!memory) return error_set(error, STATUS_NO_MEMORY, "no memory for --extra");
    arena_over(&arena, memory, room);
    enum status status = tree_parse(&arena, bytes_of(text), "--extra", &root, error);
    if (!status && tree_kind(root) != TREE_OBJECT)
        status = error_set(error, STATUS_INVALID, "--extra: expected a JSON object, found %s",
                           tree_name(root));
    free(memory);
    if (status) return status;
    const char *open = strchr(text, '{') + 1, *close = strrchr(text, '}');
    while (open < close && strchr(" \t\r\n", *open))
        open++;
    *members_out = strndup(open, (size_t)(close - open));
    return *members_out ? STATUS_OK : error_set(error, STATUS_NO_MEMORY, "no memory for --extra");
}

static enum status bench_serve_make_plan(struct plan *plan, const struct bench_serve_values *values,
                                         const char *url, char **extra_out, struct error *error) {
    uint32_t ids[2];
    enum status status = values->trace ? bench_serve_read_trace(plan, values, error)
                                       : draw_requests(plan, values, error);
    if (!status && values->extra) status = read_extra(values->extra, extra_out, error);
    if (status) return status;
    if (!bench_serve_read_range(values->token_ids, ids) || ids[0] == ids[1])
        return error_set(error, STATUS_INVALID,
                         "--token-ids: expected A:B with 1 <= A < B, found '%s'",
                         values->token_ids);
    uint64_t places = values->concurrency;
    if (!places) places = plan->options.open ? LOAD_CONCURRENCY_MAX : 16;
    if (places > plan->count && places > values->warmup)
        places = plan->count > values->warmup ? plan->count : values->warmup;
    struct load_options *options = &plan->options;
    options->url = url;
    options->model = values->model_name;
    options->extra = *extra_out;
    options->chat = !strcmp(values->endpoint, "chat");
    options->text_prompts = !strcmp(values->prompts, "words");
    options->ignore_eos = values->ignore_eos;
    options->concurrency = (uint32_t)places;
    options->token_low = ids[0];
    options->token_high = ids[1];
    options->warmup = (uint32_t)values->warmup;
    options->stall_ms_max = (uint32_t)values->timeout * 1000;
    options->seed = values->seed;
    options->leave_percent = (uint32_t)values->leave_percent;
    options->seconds_max = (double)values->seconds;
    options->temperature = values->temperature;
    return STATUS_OK;
}

static double bench_serve_percent(uint64_t part, uint64_t whole) {
    return whole ? 100.0 * (double)part / (double)whole : 0;
}

/* The share of the prompts that an endless cache would hold. */
static enum status print_ideal(struct json_print *out, const struct plan *plan,
                               struct error *error) {
    struct load_ideal ideal;
    enum status status = load_ideal_of(plan->requests, plan->count, KV_BLOCK_TOKENS, &ideal, error);
    if (status) return status;
    json_print_open(out, "ideal", '{');
    harness_number(out, "prompt_tokens", (double)ideal.prompt_tokens);
    harness_number(out, "output_tokens", (double)ideal.output_tokens);
    harness_number(out, "cached_tokens", (double)ideal.cached_tokens);
    harness_number(out, "block_cached_tokens", (double)ideal.block_cached_tokens);
    json_print_close(out);
    json_print_say(
        out,
        "%" PRIu64 " tokens in, %" PRIu64 " out; an endless cache would have %.1f %% of the "
        "prompts' tokens, %.1f %% in whole blocks of %d\n",
        ideal.prompt_tokens, ideal.output_tokens,
        bench_serve_percent(ideal.cached_tokens, ideal.prompt_tokens),
        bench_serve_percent(ideal.block_cached_tokens, ideal.prompt_tokens), KV_BLOCK_TOKENS);
    return STATUS_OK;
}

static enum status bench_serve_describe(const struct plan *plan, struct json_print *out,
                                        struct error *error) {
    double seconds = plan->requests[plan->count - 1].arrival;
    json_print_say(out, "%zu requests in %.2f s, ", plan->count, seconds);
    enum status status = print_ideal(out, plan, error);
    harness_number(out, "requests", (double)plan->count);
    harness_number(out, "seconds", seconds);
    return status;
}

static enum status bench_serve_show(const struct plan *plan,
                                    const struct bench_serve_values *values,
                                    struct load_outcome *outcome, struct json_print *out,
                                    size_t *failed_out, struct error *error) {
    struct load_report report;
    enum status status = load_report_make(outcome, plan->count, &report, error);
    if (status) return status;
    load_report_print(out, &report, outcome, &plan->options, values->each ? plan->requests : NULL);
    if (values->trace) {
        json_print_say(out, "%.1f %% of the prompts' tokens came from a cache; of ",
                       bench_serve_percent(report.cached_tokens, report.prompt_tokens));
        status = print_ideal(out, plan, error);
    }
    *failed_out = report.failed;
    return status;
}

int bench_serve(void *given, const struct option_result *result) {
    struct bench_serve_values *values = given;
    struct plan plan = {.count = 0};
    struct load_outcome outcome = {0};
    struct json_print out;
    struct error error = {""};
    char *extra = NULL;
    size_t failed = 0;
    const char *url = result->positional_count ? result->positional[0] : NULL;
    if (!url && !values->describe) return command_misused("the server's URL is needed");
    enum status status = bench_serve_make_plan(&plan, values, url, &extra, &error);
    if (!status && !values->describe)
        status = load_run(&plan.options, plan.requests, plan.count, &outcome, &error);
    if (!status) {
        out = json_print_begin(values->json);
        if (!values->describe) plan.count = outcome.request_count;
        status = values->describe
                     ? bench_serve_describe(&plan, &out, &error)
                     : bench_serve_show(&plan, values, &outcome, &out, &failed, &error);
        json_print_close(&out);
    }
    if (!status && failed)
        status = error_set(&error, STATUS_IO, "%zu of %zu requests to %s failed", failed,
                           plan.count, url);
    load_outcome_free(&outcome);
    free(plan.trace_memory);
    free(plan.requests);
    free(extra);
    return command_end(status, &error);
}
