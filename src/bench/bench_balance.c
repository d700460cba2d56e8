/* SPDX-License-Identifier: Apache-2.0
 * fathom bench balance: the prefill and the decode load balancer on a trace of requests, each way
 * of choosing beside the others, in virtual time on the step times of the published hardware or of
 * a measured one (simulate/hardware.h). A trace is too short for hundreds of ranks: it is played
 * several times over, each time with other prompts, and so fast that the ranks have the load asked
 * for: of what equal prefill ranks compute, or of what the weakest of the methods does.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/file.h"
#include "bench/bench.h"
#include "serving/cache/prefix_affinity.h"
#include "simulate/hardware.h"
#include "simulate/ranks.h"
#include "simulate/load/load_trace.h"
#include "simulate/unit_choice.h"

#define TRACE_BYTES_MAX ((size_t)1 << 30)
#define TABLE_BYTES_MAX ((size_t)16 << 20)
#define REQUESTS_MAX 4000000
#define FULL_LOAD 2.0            /* of what equal ranks compute: prompts never run out */
#define TABLE_ENTRIES (1u << 20) /* of the gateway's prefixes */
#define ANSWERS_A_PLACE                                                                            \
    8 /* requests played for each that runs at once, so that a steady state shows */

struct balance_values {
    uint64_t prefill_ranks, decode_ranks, load, step_tokens, requests_max, rank_tokens, max_prompt;
    uint64_t units, unit_tokens;
    double fetch_us, patience;
    const char *hardware, *load_of, *rank_steps;
    bool json;
};

#define AT(field) .offset = offsetof(struct balance_values, field)

static const struct option balance_rows[] = {
    {.name = "prefill-ranks",
     .type = OPTION_COUNT,
     .fallback = "32",
     .help = "DP ranks of the prefill unit; 0: leave prefill out",
     .maximum = LIMIT_RANKS,
     AT(prefill_ranks)},
    {.name = "decode-ranks",
     .type = OPTION_COUNT,
     .fallback = "144",
     .help = "DP ranks of the decode unit; 0: leave decode out",
     .maximum = LIMIT_RANKS,
     AT(decode_ranks)},
    {.name = "load",
     .type = OPTION_COUNT,
     .fallback = "80",
     .help = "percent: of the prompt tokens a second that equal prefill ranks compute, hits not "
             "counted (see --load-of), and of the decode ranks' KV memory or rows",
     .minimum = 1,
     .maximum = 200,
     AT(load)},
    {.name = "load-of",
     .type = OPTION_CHOICE,
     .fallback = "equal",
     .choices = "equal|weakest",
     .help = "what the prefill ranks' load is a part of: what equal ranks compute, or the prompt "
             "tokens a second, hits counted, of the method that gets least done when prompts never "
             "run out; all methods are played so first",
     AT(load_of)},
    {.name = "rank-steps",
     .type = OPTION_CHOICE,
     .fallback = "levelled",
     .choices = "levelled|full",
     .help = "whether a prefill rank whose prompts would make a step last longer than the others' "
             "takes fewer of their tokens, or all that fit: the same for all methods",
     AT(rank_steps)},
    {.name = "step-tokens",
     .type = OPTION_COUNT,
     .fallback = "8192",
     .help = "tokens of a prefill rank in a step",
     .minimum = 256,
     .maximum = 1 << 20,
     AT(step_tokens)},
    {.name = "requests-max",
     .type = OPTION_COUNT,
     .fallback = "128",
     .help = "requests of a decode rank at once",
     .minimum = 1,
     .maximum = 4096,
     AT(requests_max)},
    {.name = "rank-tokens",
     .type = OPTION_COUNT,
     .fallback = "500000",
     .help = "KV tokens in a decode rank's memory",
     .minimum = 4096,
     .maximum = 1 << 30,
     AT(rank_tokens)},
    {.name = "max-prompt",
     .type = OPTION_COUNT,
     .fallback = "131072",
     .help = "cut prompts to so many tokens",
     .minimum = 1,
     .maximum = LOAD_TRACE_TOKENS_MAX,
     AT(max_prompt)},
    {.name = "fetch-us",
     .type = OPTION_NUMBER,
     .fallback = "3",
     .help = "microseconds to fetch a cached token that lies on another rank or disk",
     .maximum = 1e6,
     AT(fetch_us)},
    {.name = "patience",
     .type = OPTION_NUMBER,
     .fallback = "2",
     .help = "seconds for which a prompt may be passed over",
     .maximum = 1e6,
     AT(patience)},
    {.name = "units",
     .type = OPTION_COUNT,
     .fallback = "0",
     .help = "show the gateway's choice, too, among so many units that have the prefill ranks' "
             "speed together, beside one unit with all their pages",
     .maximum = LIMIT_FLEET_UNITS,
     AT(units)},
    {.name = "unit-tokens",
     .type = OPTION_COUNT,
     .fallback = "4000000",
     .help = "KV tokens in the pages of each of --units",
     .minimum = RANKS_BLOCK_TOKENS,
     .maximum = UINT32_MAX,
     AT(unit_tokens)},
    {.name = "hardware",
     .type = OPTION_TEXT,
     .help =
         "stage times of a machine that `fathom bench layer --table` measured, instead of those "
         "published for the H800",
     AT(hardware)},
    {.name = "json", .type = OPTION_FLAG, .help = "print one JSON object", AT(json)},
};

const struct option_table bench_balance_options = {
    .command = "bench balance",
    .arguments = "TRACE",
    .description =
        "The prefill and the decode load balancer on a trace, in virtual time: how equal "
        "the ranks are, and what it does to TTFT, TPOT and throughput.",
    .positional_min = 1,
    .positional_max = 1,
    .options = balance_rows,
    .option_count = ARRAY_COUNT(balance_rows),
};

struct balance_bench {
    struct balance_values values;
    struct load_trace trace;
    void *trace_memory;
    struct stage_table *measured;   /* NULL: the published hardware */
    struct ranks_request *requests; /* [count] of several plays of the trace */
    uint32_t *blocks;
    int64_t *ready_ns;
    double *times; /* [count] for percentiles */
    uint32_t count, block_ids;
    void *memory; /* of a world */
    size_t bytes;
    uint32_t printed;
};

/* ---- the requests ---- */

static uint32_t cut(uint32_t tokens, uint64_t most) {
    tokens = tokens ? tokens : 1;
    return tokens < most ? tokens : (uint32_t)most;
}

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* The trace's own block numbers become 0, 1, 2 … */
static enum status number_blocks(struct balance_bench *bench, uint32_t **numbers_out,
                                 struct error *error) {
    const struct load_trace *trace = &bench->trace;
    uint64_t *sorted = malloc((trace->block_count + 1) * sizeof *sorted);
    uint32_t *numbers = malloc((trace->block_count + 1) * sizeof *numbers);
    if (!sorted || !numbers) {
        free(sorted);
        free(numbers);
        return error_set(error, STATUS_NO_MEMORY, "no memory for the trace's blocks");
    }
    memcpy(sorted, trace->blocks, trace->block_count * sizeof *sorted);
    qsort(sorted, trace->block_count, sizeof *sorted, by_value);
    size_t distinct = 0;
    for (size_t i = 0; i < trace->block_count; i++)
        if (i == 0 || sorted[i] != sorted[i - 1]) sorted[distinct++] = sorted[i];
    for (size_t i = 0; i < trace->block_count; i++) {
        const uint64_t *found =
            bsearch(&trace->blocks[i], sorted, distinct, sizeof *sorted, by_value);
        numbers[i] = (uint32_t)(found - sorted);
    }
    bench->block_ids = (uint32_t)distinct;
    free(sorted);
    *numbers_out = numbers;
    return STATUS_OK;
}

static double trace_seconds(const struct load_trace *trace) {
    double last = trace->rows[trace->count - 1].arrival;
    return last > 0 ? last * (1 + 1.0 / (double)trace->count) : (double)trace->count;
}

/* Plays the trace `plays` times, `speed` times as fast as it was recorded. */
static enum status play(struct balance_bench *bench, uint32_t plays, double speed,
                        struct error *error) {
    const struct load_trace *trace = &bench->trace;
    uint64_t count = (uint64_t)plays * trace->count;
    uint32_t *numbers = NULL;
    if (count > REQUESTS_MAX)
        return error_set(error, STATUS_TOO_LARGE,
                         "so many ranks need %llu requests, at most %d are played: lower --load or "
                         "the number of ranks",
                         (unsigned long long)count, REQUESTS_MAX);
    enum status status = number_blocks(bench, &numbers, error);
    if (status) return status;
    free(bench->requests);
    free(bench->blocks);
    bench->requests = malloc(count * sizeof *bench->requests);
    bench->blocks = malloc((plays * trace->block_count + 1) * sizeof *bench->blocks);
    bench->ready_ns = realloc(bench->ready_ns, count * sizeof *bench->ready_ns);
    bench->times = realloc(bench->times, count * sizeof *bench->times);
    if (!bench->requests || !bench->blocks || !bench->ready_ns || !bench->times) {
        free(numbers);
        return error_set(error, STATUS_NO_MEMORY, "no memory for %llu requests",
                         (unsigned long long)count);
    }
    bench->count = (uint32_t)count;
    double seconds = trace_seconds(trace);
    for (uint32_t i = 0; i < count; i++) {
        const struct load_trace_row *row = &trace->rows[i % trace->count];
        uint32_t round = i / trace->count;
        size_t at = (size_t)round * trace->block_count + row->block_index;
        double arrival = trace->has_arrivals
                             ? row->arrival
                             : seconds * (double)(i % trace->count) / (double)trace->count;
        for (uint32_t b = 0; b < row->block_count; b++)
            bench->blocks[at + b] = numbers[row->block_index + b] + round * bench->block_ids;
        uint32_t prompt = cut(row->prompt_tokens, bench->values.max_prompt);
        uint32_t whole = prompt / RANKS_BLOCK_TOKENS;
        bench->requests[i] = (struct ranks_request){
            .arrival_ns = (int64_t)((arrival + seconds * round) / speed * 1e9),
            .prompt_tokens = prompt,
            .output_tokens = cut(row->output_tokens, LOAD_TRACE_TOKENS_MAX / 2),
            .block_count = row->block_count < whole ? row->block_count : whole,
            .blocks = bench->blocks + at,
        };
    }
    bench->block_ids *= plays;
    free(numbers);
    return STATUS_OK;
}

/* ---- how fast to play ---- */

/* Tokens a second that equal ranks would compute, at the trace's mean context and without hits. */
static double prefill_rate(const struct balance_bench *bench, double tokens, double attended) {
    double step = (double)bench->values.step_tokens, context = attended / tokens;
    struct hardware_prefill_rank rank = {.tokens = (uint32_t)step,
                                         .attended = (uint64_t)(step * context),
                                         .cached = (uint64_t)context};
    return step / (hardware_prefill_ns(bench->measured, &rank, 1) * 1e-9) *
           (double)bench->values.prefill_ranks;
}

static double prefill_rate_of_trace(const struct balance_bench *bench) {
    double tokens = 0, attended = 0;
    for (size_t i = 0; i < bench->trace.count; i++) {
        double prompt = cut(bench->trace.rows[i].prompt_tokens, bench->values.max_prompt);
        tokens += prompt;
        attended += prompt * (prompt + 1) / 2;
    }
    return prefill_rate(bench, tokens, attended);
}

/* As fast as gives `rate` prompt tokens a second. */
static enum status play_for_prefill(struct balance_bench *bench, double rate, struct error *error) {
    double tokens = 0;
    for (size_t i = 0; i < bench->trace.count; i++)
        tokens += cut(bench->trace.rows[i].prompt_tokens, bench->values.max_prompt);
    uint32_t plays =
        1 + (uint32_t)(125.0 * (double)bench->values.prefill_ranks / (double)bench->trace.count);
    return play(bench, plays, rate / (tokens / trace_seconds(&bench->trace)), error);
}

static double load_of(const struct balance_bench *bench) {
    return (double)bench->values.load / 100;
}

/* Requests a rank at the load asked for: as its KV memory, or its rows, allow. */
static double decode_requests(const struct balance_bench *bench, double mean_context) {
    double by_memory = load_of(bench) * (double)bench->values.rank_tokens / mean_context;
    double by_rows = load_of(bench) * (double)bench->values.requests_max;
    return by_memory < by_rows ? by_memory : by_rows;
}

static enum status play_for_decode(struct balance_bench *bench, struct error *error) {
    double outputs = 0, context = 0, count = (double)bench->trace.count;
    for (size_t i = 0; i < bench->trace.count; i++) {
        double prompt = cut(bench->trace.rows[i].prompt_tokens, bench->values.max_prompt);
        double output = cut(bench->trace.rows[i].output_tokens, LOAD_TRACE_TOKENS_MAX / 2);
        outputs += output;
        context += output * (prompt + output / 2);
    }
    double ranks = (double)bench->values.decode_ranks;
    double requests = decode_requests(bench, context / outputs);
    struct hardware_decode_rank rank = {(uint32_t)(requests + 1),
                                        (uint64_t)(requests * context / outputs)};
    double step = hardware_decode_ns(bench->measured, &rank, 1) * 1e-9;
    double rate = ranks * requests / (outputs / count * step);
    uint32_t plays = 1 + (uint32_t)(ANSWERS_A_PLACE * ranks * requests / count);
    return play(bench, plays, trace_seconds(&bench->trace) * rate / count, error);
}

/* ---- runs ---- */

static int by_double(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

struct balance_line {
    const char *what, *method, *spread[2], *time;
    double p50_ms, p99_ms;
};

static void print_line(struct balance_bench *bench, const struct balance_line *line,
                       const struct ranks_report *report) {
    double rate = (double)report->tokens / report->busy_s;
    if (bench->values.json) {
        printf("%s\n  {\"phase\":\"%s\",\"method\":\"%s\",\"%s\":%.4f,\"%s\":%.4f,"
               "\"%s_p50_ms\":%.2f,\"%s_p99_ms\":%.2f,\"tokens_per_second\":%.0f,\"steps\":%llu,"
               "\"cached_tokens\":%llu,\"moved\":%llu}",
               bench->printed++ ? "," : "[", line->what, line->method, line->spread[0],
               report->spread[0], line->spread[1], report->spread[1], line->time, line->p50_ms,
               line->time, line->p99_ms, rate, (unsigned long long)report->steps,
               (unsigned long long)report->cached_tokens, (unsigned long long)report->moved);
        return;
    }
    printf("  %-15s %10.3f %10.3f %12.1f %12.1f %14.0f %8llu\n", line->method, report->spread[0],
           report->spread[1], line->p50_ms, line->p99_ms, rate, (unsigned long long)report->moved);
}

/* Percentiles of the middle four fifths of the requests, by arrival. */
static void set_percentiles(struct balance_bench *bench, struct balance_line *line) {
    uint32_t first = bench->count / 10, count = 0;
    for (uint32_t i = first; i < bench->count - first; i++)
        if (bench->times[i] > 0) bench->times[count++] = bench->times[i];
    if (!count) return;
    qsort(bench->times, count, sizeof *bench->times, by_double);
    line->p50_ms = bench->times[count / 2] * 1e-6;
    line->p99_ms = bench->times[(uint64_t)count * 99 / 100] * 1e-6;
}

/* Fills ready_ns and times (TTFT or TPOT) of all requests. */
static enum status run_ranks(struct balance_bench *bench, bool prefill, enum balance_method method,
                             struct ranks_report *report_out, struct error *error) {
    const struct balance_values *values = &bench->values;
    struct ranks_options options = {
        .method = method,
        .full_steps = strcmp(values->rank_steps, "full") == 0,
        .rank_count = (uint32_t)(prefill ? values->prefill_ranks : values->decode_ranks),
        .block_ids = bench->block_ids,
        .step_tokens = (uint32_t)values->step_tokens,
        .device_tokens = (uint32_t)values->rank_tokens,
        .requests_max = (uint32_t)values->requests_max,
        .rank_tokens = values->rank_tokens,
        .fetch_token_ns = values->fetch_us * 1e3,
        .measured = bench->measured,
        .patience_ns = (int64_t)(values->patience * 1e9),
    };
    struct arena arena;
    enum status status;
    arena_over(&arena, bench->memory, bench->bytes);
    if (prefill) {
        status = ranks_prefill(&options, bench->requests, bench->count, &arena, bench->ready_ns,
                               report_out);
        for (uint32_t i = 0; !status && i < bench->count; i++)
            bench->times[i] = (double)(bench->ready_ns[i] - bench->requests[i].arrival_ns);
    } else {
        for (uint32_t i = 0; i < bench->count; i++)
            bench->ready_ns[i] = bench->requests[i].arrival_ns;
        status = ranks_decode(&options, bench->requests, bench->count, bench->ready_ns, &arena,
                              bench->times, report_out);
    }
    if (status) return error_set(error, status, "no memory for %u requests", bench->count);
    return STATUS_OK;
}

static enum status run_phase(struct balance_bench *bench, bool prefill, enum balance_method method,
                             struct error *error) {
    struct ranks_report report;
    struct balance_line line = {.what = prefill ? "prefill" : "decode",
                                .method = balance_method_name(method),
                                .spread = {prefill ? "attention_spread" : "kv_spread",
                                           prefill ? "token_spread" : "request_spread"},
                                .time = prefill ? "ttft" : "tpot"};
    enum status status = run_ranks(bench, prefill, method, &report, error);
    if (status) return status;
    set_percentiles(bench, &line);
    print_line(bench, &line, &report);
    return STATUS_OK;
}

/* For a world of the requests that are played. */
static enum status take_memory(struct balance_bench *bench, struct error *error) {
    bench->bytes = (size_t)bench->count * 128 + (size_t)bench->block_ids * 32 + ((size_t)64 << 20);
    free(bench->memory);
    bench->memory = malloc(bench->bytes);
    return bench->memory ? STATUS_OK
                         : error_set(error, STATUS_NO_MEMORY, "no memory for the ranks");
}

/* Prompt tokens a second of the method that gets least done when prompts never run out. */
static enum status find_weakest(struct balance_bench *bench, double *rate_out,
                                struct error *error) {
    double weakest = 0;
    enum status status = play_for_prefill(bench, FULL_LOAD * prefill_rate_of_trace(bench), error);
    if (!status) status = take_memory(bench, error);
    for (int method = 0; !status && method < BALANCE_METHOD_COUNT; method++) {
        struct ranks_report report;
        status = run_ranks(bench, true, (enum balance_method)method, &report, error);
        if (status) break;
        double rate = (double)(report.tokens + report.cached_tokens) / report.busy_s;
        if (method == 0 || rate < weakest) weakest = rate;
    }
    *rate_out = weakest;
    return status;
}

static enum status play_for_methods(struct balance_bench *bench, bool prefill,
                                    struct error *error) {
    if (!prefill) return play_for_decode(bench, error);
    double rate = prefill_rate_of_trace(bench);
    enum status status = STATUS_OK;
    if (strcmp(bench->values.load_of, "weakest") == 0) status = find_weakest(bench, &rate, error);
    return status ? status : play_for_prefill(bench, load_of(bench) * rate, error);
}

static enum status run_methods(struct balance_bench *bench, bool prefill, struct error *error) {
    enum status status = play_for_methods(bench, prefill, error);
    if (!status) status = take_memory(bench, error);
    if (status) return status;
    if (!bench->values.json)
        printf("%s, %llu ranks, %u requests; max/mean over ranks of %s, then %s\n"
               "  %-15s %10s %10s %12s %12s %14s %8s\n",
               prefill ? "prefill" : "decode",
               (unsigned long long)(prefill ? bench->values.prefill_ranks
                                            : bench->values.decode_ranks),
               bench->count, prefill ? "core attention" : "KV tokens",
               prefill ? "tokens" : "requests", "method", prefill ? "attention" : "KV",
               prefill ? "tokens" : "requests", prefill ? "TTFT p50 ms" : "TPOT p50 ms", "p99 ms",
               "tokens/s busy", "moved");
    for (int method = 0; !status && method < BALANCE_METHOD_COUNT; method++)
        status = run_phase(bench, prefill, (enum balance_method)method, error);
    return status;
}

/* Percentiles of the middle four fifths, hits of all prompts. */
static enum status run_units(struct balance_bench *bench, const char *name,
                             enum unit_choice_method method, uint32_t units, struct error *error) {
    const struct balance_values *values = &bench->values;
    double rate = prefill_rate_of_trace(bench);
    struct unit_choice_options options = {
        .method = method,
        .unit_count = units,
        .block_ids = bench->block_ids,
        .unit_blocks = (uint32_t)(values->unit_tokens * values->units / units / RANKS_BLOCK_TOKENS),
        .table_entries = TABLE_ENTRIES,
        .token_ns = 1e9 * units / rate};
    struct unit_choice_report report;
    struct balance_line line = {.what = "units"};
    struct arena arena;
    arena_over(&arena, bench->memory, bench->bytes);
    enum status status =
        unit_choice_run(&options, bench->requests, bench->count, &arena, bench->ready_ns, &report);
    if (status) return error_set(error, status, "no memory for %u requests", bench->count);
    for (uint32_t i = 0; i < bench->count; i++)
        bench->times[i] = (double)(bench->ready_ns[i] - bench->requests[i].arrival_ns);
    set_percentiles(bench, &line);
    double hits = (double)report.cached_tokens / (double)report.prompt_tokens;
    if (values->json)
        printf("%s\n  {\"phase\":\"units\",\"method\":\"%s\",\"hit_rate\":%.4f,"
               "\"token_spread\":%.4f,\"ttft_p50_ms\":%.2f,\"ttft_p99_ms\":%.2f}",
               bench->printed++ ? "," : "[", name, hits, report.spread, line.p50_ms, line.p99_ms);
    else
        printf("  %-15s %10.3f %10.3f %12.1f %12.1f\n", name, hits, report.spread, line.p50_ms,
               line.p99_ms);
    return STATUS_OK;
}

static enum status run_all_units(struct balance_bench *bench, struct error *error) {
    uint32_t units = (uint32_t)bench->values.units;
    enum status status =
        play_for_prefill(bench, load_of(bench) * prefill_rate_of_trace(bench), error);
    if (status) return status;
    bench->bytes = (size_t)bench->count * 64 + ((size_t)bench->block_ids + 1) * units * 12 +
                   prefix_affinity_bytes(TABLE_ENTRIES) + ((size_t)64 << 20);
    free(bench->memory);
    bench->memory = malloc(bench->bytes);
    if (!bench->memory) return error_set(error, STATUS_NO_MEMORY, "no memory for the units");
    if (!bench->values.json)
        printf("%u units, %u requests; tokens computed: max/mean over units\n"
               "  %-15s %10s %10s %12s %12s\n",
               units, bench->count, "method", "hit rate", "tokens", "TTFT p50 ms", "p99 ms");
    for (int method = 0; !status && method < UNIT_CHOICE_METHOD_COUNT; method++)
        status = run_units(bench, unit_choice_method_name((enum unit_choice_method)method),
                           (enum unit_choice_method)method, units, error);
    return status ? status : run_units(bench, "one unit", UNIT_CHOICE_LOAD, 1, error);
}

static enum status read_trace(struct balance_bench *bench, const char *path, struct error *error) {
    struct bytes text;
    enum status status = file_take(path, TRACE_BYTES_MAX, &text, error);
    if (status) return status;
    size_t bytes = load_trace_bytes(text);
    struct arena arena;
    bench->trace_memory = malloc(bytes);
    arena_over(&arena, bench->trace_memory, bench->trace_memory ? bytes : 0);
    status = load_trace_read(&arena, text, path, &bench->trace, error);
    free((void *)(uintptr_t)text.data);
    if (!status && bench->trace.count == 0)
        return error_set(error, STATUS_INVALID, "%.300s: a trace without requests", path);
    return status;
}

static enum status read_hardware(struct balance_bench *bench, const char *path,
                                 struct error *error) {
    struct bytes text;
    if (!path) return STATUS_OK;
    bench->measured = malloc(sizeof *bench->measured);
    if (!bench->measured) return error_set(error, STATUS_NO_MEMORY, "no memory for %.300s", path);
    enum status status = file_take(path, TABLE_BYTES_MAX, &text, error);
    if (status) return status;
    status = stage_table_read(text, path, bench->measured, error);
    free((void *)(uintptr_t)text.data);
    return status;
}

int bench_balance(int argc, char **argv) {
    struct balance_bench bench = {.count = 0};
    struct option_result result;
    struct error error = {""};
    int exit_code;
    if (!command_begin(&bench_balance_options, argc, argv, &bench.values, &result, &exit_code))
        return exit_code;
    enum status status = read_trace(&bench, result.positional[0], &error);
    if (!status) status = read_hardware(&bench, bench.values.hardware, &error);
    if (!status && bench.values.prefill_ranks) status = run_methods(&bench, true, &error);
    if (!status && bench.values.decode_ranks) status = run_methods(&bench, false, &error);
    if (!status && bench.values.units) status = run_all_units(&bench, &error);
    if (!status && bench.values.json) printf("%s\n", bench.printed ? "\n]" : "[]");
    free(bench.trace_memory);
    free(bench.requests);
    free(bench.blocks);
    free(bench.ready_ns);
    free(bench.times);
    free(bench.memory);
    free(bench.measured);
    return status ? command_failed(&bench_balance_options, status, &error)
                  : command_end(&bench_balance_options);
}
