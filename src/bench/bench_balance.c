/* SPDX-License-Identifier: Apache-2.0
 * fathom bench balance: the load balancers on a trace of requests, each way of choosing beside the
 * others: the product's own gateway and units in the twin (simulate/twin), on the step times of a
 * hardware file. Three phases, each by itself: the ranks of a unit that computes prompts (answers of
 * one token), those of a unit that answers (prompts and transfers take no time), and the units
 * behind a gateway.
 *
 * Requests come as they were recorded, only so fast that the load asked for is had. Where prompts
 * are computed that is a part of what the weakest of the methods gets done when requests never run
 * out, for which each method plays the trace with all requests at once first; where answers are
 * made, a part of the ranks' KV memory or rows. So nobody's queue should grow; whose does is told.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/map.h"
#include "base/number.h"
#include "bench/bench.h"
#include "contract/kv_block.h"
#include "host/process/gzip_file.h"
#include "host/process/yaml_tree.h"
#include "serving/policy/balance.h"
#include "simulate/hardware/builtin.h"
#include "simulate/load/load_replay.h"
#include "simulate/twin/twin.h"

#define TRACE_BYTES_MAX ((size_t)1 << 30)
#define PREFIX_BLOCKS (1u << 20) /* that the gateway remembers */
#define AT_ONCE 1e6              /* requests a second: they never run out */
#define FREE_RANKS 8             /* of the unit whose prompts take no time */
#define FREE_STEP_TOKENS LIMIT_STEP_TOKENS
#define REDUNDANT_EXPERTS 32 /* at least, so that each rank has as many slots */
#define ROWS_OF_PROMPTS 64   /* of a rank that computes prompts */
#define QUICK_RANKS 4        /* --quick has so many times fewer */
#define QUICK_REQUESTS 20
#define GROWS 1.5 /* times as many requests held in the second half */
#define METHODS_MAX 8

struct balance_values {
    uint64_t prefill_ranks, decode_ranks, units, load, requests, step_tokens, rows, rank_tokens;
    uint64_t max_prompt, disk_tokens;
    const char *hardware, *model, *rank_steps;
    bool quick, json;
};

#define AT(field) .offset = offsetof(struct balance_values, field)

static const struct option balance_rows[] = {
    {.name = "prefill-ranks",
     .type = OPTION_COUNT,
     .fallback = "32",
     .help = "DP ranks of the unit that computes prompts; 0: leave prefill out",
     .maximum = LIMIT_RANKS,
     AT(prefill_ranks)},
    {.name = "decode-ranks",
     .type = OPTION_COUNT,
     .fallback = "32",
     .help = "DP ranks of the unit that answers; 0: leave decode out",
     .maximum = LIMIT_RANKS,
     AT(decode_ranks)},
    {.name = "units",
     .type = OPTION_COUNT,
     .fallback = "0",
     .help = "show the gateway's choice, too, among so many units that have the prefill ranks "
             "together",
     .maximum = LIMIT_FLEET_UNITS,
     AT(units)},
    {.name = "load",
     .type = OPTION_COUNT,
     .fallback = "70",
     .help =
         "percent: of the prompt tokens a second that the weakest of the methods gets done when "
         "requests never run out; of the answering ranks' KV memory, or rows",
     .minimum = 1,
     .maximum = 200,
     AT(load)},
    {.name = "requests",
     .type = OPTION_COUNT,
     .fallback = "12000",
     .help = "requests that come; the trace is played again, with other prompts, until they have",
     .minimum = 100,
     .maximum = LIMIT_GATEWAY_REQUESTS,
     AT(requests)},
    {.name = "rank-steps",
     .type = OPTION_CHOICE,
     .fallback = "levelled",
     .choices = "levelled|full",
     .help = "whether a rank whose prompts would make a step last longer than the others' takes "
             "fewer of their tokens, or all that fit: the same for all methods",
     AT(rank_steps)},
    {.name = "step-tokens",
     .type = OPTION_COUNT,
     .fallback = "8192",
     .help = "prompt tokens of a rank in a step",
     .minimum = 256,
     .maximum = LIMIT_STEP_TOKENS,
     AT(step_tokens)},
    {.name = "requests-max",
     .type = OPTION_COUNT,
     .fallback = "128",
     .help = "answers of a rank at once",
     .minimum = 1,
     .maximum = LIMIT_STEP_ROWS,
     AT(rows)},
    {.name = "rank-tokens",
     .type = OPTION_COUNT,
     .fallback = "500000",
     .help = "KV tokens in a rank's pages",
     .minimum = 4096,
     .maximum = 1 << 26,
     AT(rank_tokens)},
    {.name = "disk-tokens",
     .type = OPTION_COUNT,
     .fallback = "0",
     .help = "KV tokens on disks that all ranks share; 0: prompts are found in a rank's own pages "
             "alone",
     .maximum = (uint64_t)1 << 28,
     AT(disk_tokens)},
    {.name = "max-prompt",
     .type = OPTION_COUNT,
     .fallback = "131072",
     .help = "cut prompts, with their answers, to so many tokens",
     .minimum = 2,
     .maximum = 1 << 18,
     AT(max_prompt)},
    {.name = "hardware",
     .type = OPTION_TEXT,
     .fallback = "h800",
     .help = "h800, h100, h200, or a hardware file (twin/hardware/README.md)",
     AT(hardware)},
    {.name = "model",
     .type = OPTION_TEXT,
     .fallback = "deepseek-v3",
     .help = "deepseek-v3, tiny-r1, or a model file",
     AT(model)},
    {.name = "quick",
     .type = OPTION_FLAG,
     .help = "a quarter of the ranks and a twentieth of the requests: shows that it works",
     AT(quick)},
    {.name = "json", .type = OPTION_FLAG, .help = "print one JSON array", AT(json)},
};

const struct option_table bench_balance_options = {
    .command = "bench balance",
    .arguments = "TRACE",
    .description = "The load balancers on a trace, in the twin: how even ranks and units are, what "
                   "they find cached, and what it does to TTFT, TPOT and throughput.",
    .positional_min = 1,
    .positional_max = 1,
    .options = balance_rows,
    .option_count = ARRAY_COUNT(balance_rows),
};

enum balance_phase { PHASE_PREFILL, PHASE_DECODE, PHASE_UNITS };

struct balance_way { /* of choosing */
    const char *name;
    enum balance_method method;
    bool on_arrival, by_prefix;
};

struct balance_bench {
    struct balance_values values;
    struct hardware hardware;
    struct model_figures model;
    struct load_trace trace;
    void *trace_memory, *file_memory, *replay_memory;
    enum balance_phase phase;
    struct twin_source trace_source;
    struct twin_ended *ended; /* [values.requests] in the order of their ends */
    double *numbers;          /* [values.requests] scratch */
    uint32_t ended_count, printed;
};

struct method_outcome {
    struct twin_report report;
    double spread[2], p50_ms, p99_ms, held[2], tokens_s;
    bool keeps_up;
};

/* ---- what is played ---- */

/* Answers of one token where prompts are looked at. */
static bool next_request(void *self, struct twin_request *request_out) {
    struct balance_bench *bench = self;
    if (!bench->trace_source.next(bench->trace_source.self, request_out)) return false;
    if (bench->phase != PHASE_DECODE) request_out->answer_tokens = 1;
    return true;
}

static enum status open_source(struct balance_bench *bench, double requests_per_s,
                               struct error *error) {
    const struct load_replay_options options = {.trace = &bench->trace,
                                                .block_tokens = LOAD_TRACE_BLOCK_TOKENS,
                                                .tokens_max = (uint32_t)bench->values.max_prompt,
                                                .requests_per_s = requests_per_s,
                                                .abreast = 1,
                                                .requests = bench->values.requests,
                                                .seed = 1};
    size_t bytes = load_replay_bytes(&options);
    struct load_replay *replay;
    struct arena arena;
    free(bench->replay_memory);
    bench->replay_memory = malloc(bytes);
    arena_over(&arena, bench->replay_memory, bench->replay_memory ? bytes : 0);
    enum status status = load_replay_open(&arena, &options, &replay, error);
    if (!status) bench->trace_source = load_replay_source(replay);
    return status;
}

struct played { /* sums over the requests */
    double prompt_tokens, answer_tokens, known_tokens;
    double answer_context; /* KV positions that answers read */
};

/* `known`: of prompts, in blocks that some prompt before had, all others before them likewise: what
 * a cache would find that forgets nothing. */
static enum status sum_up(struct balance_bench *bench, struct played *out, struct error *error) {
    uint64_t rounds = bench->values.requests / bench->trace.count + 1;
    uint32_t capacity = (uint32_t)(rounds * bench->trace.block_count + 1);
    struct map seen;
    struct arena arena;
    size_t bytes = map_bytes(capacity);
    void *memory = malloc(bytes);
    struct twin_request request;
    *out = (struct played){0};
    arena_over(&arena, memory, memory ? bytes : 0);
    enum status status = map_open(&seen, &arena, capacity);
    if (status) error_set(error, status, "no memory for the trace's blocks");
    if (!status) status = open_source(bench, 1, error);
    while (!status && next_request(bench, &request)) {
        uint32_t known = 0;
        bool all = true;
        for (uint32_t i = 0; i < request.block_count; i++) {
            struct map_key key = {.low = request.blocks[i]};
            all &= map_find(&seen, key) != MAP_NONE;
            known += all;
            if (map_find(&seen, key) == MAP_NONE) map_add(&seen, key, 0);
        }
        known = min_u32(known * request.block_tokens, request.prompt_tokens - 1);
        out->known_tokens += known - known % KV_BLOCK_TOKENS;
        out->prompt_tokens += request.prompt_tokens;
        out->answer_tokens += request.answer_tokens;
        out->answer_context +=
            (double)request.answer_tokens * (request.prompt_tokens + request.answer_tokens / 2.0);
    }
    free(memory);
    return status;
}

/* ---- a run ---- */

static uint32_t ranks_of(const struct balance_bench *bench) {
    const struct balance_values *values = &bench->values;
    if (bench->phase == PHASE_DECODE) return (uint32_t)values->decode_ranks;
    if (bench->phase == PHASE_PREFILL) return (uint32_t)values->prefill_ranks;
    return max_u32(1, (uint32_t)(values->prefill_ranks / values->units));
}

static struct twin_unit_kind kind_of(const struct balance_bench *bench, enum unit_role role,
                                     uint32_t ranks, uint32_t rows) {
    const struct balance_values *values = &bench->values;
    uint32_t experts = bench->model.experts;
    return (struct twin_unit_kind){
        .count = 1,
        .role = role,
        .hardware = &bench->hardware,
        .ranks = ranks,
        .ranks_per_node = min_u32(ranks, bench->hardware.gpus_per_node),
        .redundant_experts =
            (uint32_t)divide_up(experts + REDUNDANT_EXPERTS, ranks) * ranks - experts,
        .balance_experts = true,
        .rows_max = rows,
        .requests_max = 2 * rows,
        .step_tokens_max = (uint32_t)values->step_tokens,
        .page_count = (uint32_t)(values->rank_tokens / KV_BLOCK_TOKENS),
        .context_tokens_max = (uint32_t)values->max_prompt,
        .overlap = OVERLAP_PREFILL_DUAL_BATCH,
        .level_steps = strcmp(values->rank_steps, "levelled") == 0,
        .prefix_cache = true,
        .kv_storage = values->disk_tokens > 0,
    };
}

/* Prompts in no time: what answers wait for is their own unit alone. */
static void set_decode(struct balance_bench *bench, const struct balance_way *way,
                       struct twin_options *options) {
    uint32_t rows = (uint32_t)bench->values.rows;
    struct twin_unit_kind *prompts = &options->kinds[0], *answers = &options->kinds[1];
    *prompts = kind_of(bench, UNIT_PREFILL, FREE_RANKS, ROWS_OF_PROMPTS);
    prompts->step_tokens_max = FREE_STEP_TOKENS;
    *answers = kind_of(bench, UNIT_DECODE, ranks_of(bench), rows);
    answers->step_tokens_max = 8 * rows + KV_BLOCK_TOKENS;
    answers->overlap = OVERLAP_DECODE_FIVE_STAGE;
    answers->rank_balance = way->method;
    prompts->prefix_cache = answers->prefix_cache = false;
    prompts->kv_storage = answers->kv_storage = false;
    options->kind_count = 2;
    options->settle_ns = INT64_MAX;
}

static void set_prompts(struct balance_bench *bench, const struct balance_way *way,
                        struct twin_options *options) {
    struct twin_unit_kind *kind = &options->kinds[0];
    *kind = kind_of(bench, UNIT_BOTH, ranks_of(bench), ROWS_OF_PROMPTS);
    if (bench->phase == PHASE_UNITS) kind->count = (uint32_t)bench->values.units;
    kind->rank_balance = way->method;
    kind->bind_on_arrival = way->on_arrival;
    options->kind_count = 1;
    options->prefix_blocks = way->by_prefix ? PREFIX_BLOCKS : 0;
    options->storage_bytes = (double)bench->values.disk_tokens * bench->model.kv_bytes_per_token;
}

/* Requests a second that hold the load asked for of all ranks' memory or rows, where ranks have
 * equal ones. */
static enum status decode_rate(struct balance_bench *bench, const struct played *played,
                               double *rate_out, struct error *error) {
    const struct balance_values *values = &bench->values;
    const struct twin_unit_kind kind = kind_of(bench, UNIT_DECODE, ranks_of(bench), 1);
    const struct step_clock_options options = {.hardware = kind.hardware,
                                               .model = &bench->model,
                                               .ranks = kind.ranks,
                                               .ranks_per_node = kind.ranks_per_node,
                                               .redundant_experts = kind.redundant_experts,
                                               .balance_experts = true};
    static struct step_share shares[LIMIT_RANKS];
    double context = played->answer_context / played->answer_tokens, load = (double)values->load;
    double requests = (double)values->rank_tokens / context;
    if (requests > (double)values->rows) requests = (double)values->rows;
    requests *= load / 100;
    for (uint32_t rank = 0; rank < kind.ranks; rank++)
        shares[rank] = (struct step_share){.answer_rows = (uint32_t)(requests + 1),
                                           .answer_tokens = (uint32_t)(requests + 1),
                                           .context = (uint64_t)(requests * context),
                                           .slowness = 1};
    struct step_clock *clock;
    struct arena arena;
    size_t bytes = step_clock_bytes(&options);
    void *memory = malloc(bytes);
    arena_over(&arena, memory, memory ? bytes : 0);
    enum status status = step_clock_open(&arena, &options, &clock, error);
    if (!status) {
        struct step_time time = step_clock_step(clock, shares, OVERLAP_DECODE_FIVE_STAGE, 0);
        double answers = played->answer_tokens / (double)values->requests;
        *rate_out = kind.ranks * requests / (answers * (double)time.ns * 1e-9);
    }
    free(memory);
    return status;
}

static void note_end(void *context, const struct twin_ended *ended) {
    struct balance_bench *bench = context;
    bench->ended[bench->ended_count++] = *ended;
}

static enum status run(struct balance_bench *bench, const struct balance_way *way,
                       double requests_per_s, struct twin_report *report_out, struct error *error) {
    struct twin_options options = {.model = &bench->model,
                                   .gateways = 1,
                                   .gateway_requests_max = (uint32_t)bench->values.requests,
                                   .source = {bench, next_request},
                                   .seed = 1,
                                   .context = bench,
                                   .ended = note_end};
    struct arena arena;
    if (bench->phase == PHASE_DECODE)
        set_decode(bench, way, &options);
    else
        set_prompts(bench, way, &options);
    enum status status = open_source(bench, requests_per_s, error);
    if (status) return status;
    size_t bytes = twin_bytes(&options);
    void *memory = malloc(bytes);
    if (!memory)
        return error_set(error, STATUS_NO_MEMORY, "no %zu MiB for %u ranks", bytes >> 20,
                         ranks_of(bench));
    arena_over(&arena, memory, bytes);
    bench->ended_count = 0;
    status = twin_run(&options, &arena, report_out, error);
    free(memory);
    if (!status) status = twin_judge(report_out, "the run", error);
    if (status) return status;
    uint64_t lost = report_out->refused + report_out->failed;
    return lost ? error_set(error, STATUS_INVALID,
                            "%llu requests were not answered: give ranks more --rank-tokens",
                            (unsigned long long)lost)
                : STATUS_OK;
}

/* ---- what came of it ---- */

static double tokens_of(const struct balance_bench *bench, const struct twin_ended *ended) {
    return bench->phase == PHASE_DECODE ? ended->answer_tokens : ended->prompt_tokens;
}

/* Between the ends of the first tenth and of the first eight tenths. */
static double tokens_s(const struct balance_bench *bench) {
    uint32_t first = bench->ended_count / 10, last = bench->ended_count * 8 / 10;
    double tokens = 0;
    for (uint32_t i = first; i < last; i++)
        tokens += tokens_of(bench, &bench->ended[i]);
    double ns = (double)(bench->ended[last - 1].end_ns - bench->ended[first].end_ns);
    return ns > 0 ? tokens / (ns * 1e-9) : 0;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static int64_t last_arrival(const struct balance_bench *bench) {
    int64_t last_ns = 0;
    for (uint32_t i = 0; i < bench->ended_count; i++)
        if (bench->ended[i].arrival_ns > last_ns) last_ns = bench->ended[i].arrival_ns;
    return last_ns;
}

/* TTFT or TPOT of the middle four fifths, by arrival. */
static void set_percentiles(struct balance_bench *bench, struct method_outcome *outcome) {
    int64_t last_ns = last_arrival(bench);
    uint32_t count = 0;
    for (uint32_t i = 0; i < bench->ended_count; i++) {
        const struct twin_ended *ended = &bench->ended[i];
        if (ended->arrival_ns < last_ns / 10 || ended->arrival_ns > last_ns - last_ns / 10)
            continue;
        if (bench->phase != PHASE_DECODE)
            bench->numbers[count++] = (double)(ended->first_ns - ended->arrival_ns);
        else if (ended->answer_tokens > 1)
            bench->numbers[count++] =
                (double)(ended->end_ns - ended->first_ns) / (double)(ended->answer_tokens - 1);
    }
    if (!count) return;
    qsort(bench->numbers, count, sizeof *bench->numbers, by_value);
    outcome->p50_ms = bench->numbers[count / 2] * 1e-6;
    outcome->p99_ms = bench->numbers[(uint64_t)count * 99 / 100] * 1e-6;
}

/* Requests that have come and not ended, mean over the time between. */
static double held_between(const struct balance_bench *bench, double from_ns, double to_ns) {
    double sum = 0;
    for (uint32_t i = 0; i < bench->ended_count; i++) {
        double begin = max_double(from_ns, (double)bench->ended[i].arrival_ns);
        double end = (double)bench->ended[i].end_ns;
        sum += max_double(0, (end < to_ns ? end : to_ns) - begin);
    }
    return to_ns > from_ns ? sum / (to_ns - from_ns) : 0;
}

static void set_held(const struct balance_bench *bench, struct method_outcome *outcome) {
    double last_ns = (double)last_arrival(bench);
    outcome->held[0] = held_between(bench, 0.1 * last_ns, 0.5 * last_ns);
    outcome->held[1] = held_between(bench, 0.5 * last_ns, 0.9 * last_ns);
    outcome->keeps_up = outcome->held[1] <= GROWS * outcome->held[0] + ranks_of(bench);
}

static double spread_of(const struct twin_role_counts *counts, enum twin_load load) {
    double mean = counts->load_mean[load];
    return mean > 0 ? counts->load_most[load] / mean : 1;
}

static void set_spreads(const struct balance_bench *bench, struct method_outcome *outcome) {
    bool decode = bench->phase == PHASE_DECODE;
    const struct twin_role_counts *counts =
        &outcome->report.roles[decode ? UNIT_DECODE : UNIT_BOTH];
    double units = (double)counts->units, computed = (double)counts->computed_tokens;
    outcome->spread[0] = spread_of(counts, decode ? TWIN_LOAD_CONTEXT : TWIN_LOAD_ATTENDED);
    outcome->spread[1] = spread_of(counts, decode ? TWIN_LOAD_ROWS : TWIN_LOAD_TOKENS);
    if (bench->phase == PHASE_UNITS && computed > 0)
        outcome->spread[0] = (double)counts->unit_computed_most * units / computed;
}

/* ---- lines ---- */

struct phase_words {
    const char *name, *spread[2], *heads[2], *time, *time_head;
};

static const struct phase_words words_of[] = {
    [PHASE_PREFILL] = {"prefill",
                       {"attention_spread", "token_spread"},
                       {"attention", "tokens"},
                       "ttft",
                       "TTFT p50 ms"},
    [PHASE_DECODE] =
        {"decode", {"kv_spread", "request_spread"}, {"KV", "requests"}, "tpot", "TPOT p50 ms"},
    [PHASE_UNITS] =
        {"units", {"unit_spread", "token_spread"}, {"units", "tokens"}, "ttft", "TTFT p50 ms"},
};

static double hit_rate(const struct twin_report *report) {
    return report->prompt_tokens ? (double)report->hit_tokens / (double)report->prompt_tokens : 0;
}

static void print_line(struct balance_bench *bench, const struct balance_way *way,
                       const struct method_outcome *outcome) {
    const struct phase_words *words = &words_of[bench->phase];
    const struct twin_report *report = &outcome->report;
    uint64_t preempted = report->roles[UNIT_DECODE].preemptions;
    if (bench->values.json) {
        printf("%s\n  {\"phase\":\"%s\",\"method\":\"%s\",\"hit_rate\":%.4f,\"%s\":%.4f,"
               "\"%s\":%.4f,\"%s_p50_ms\":%.2f,\"%s_p99_ms\":%.2f,"
               "\"held_first_half\":%.1f,\"held_second_half\":%.1f,\"keeps_up\":%s,"
               "\"preempted\":%llu,\"tokens_per_second\":%.0f}",
               bench->printed++ ? "," : "[", words->name, way->name, hit_rate(report),
               words->spread[0], outcome->spread[0], words->spread[1], outcome->spread[1],
               words->time, outcome->p50_ms, words->time, outcome->p99_ms, outcome->held[0],
               outcome->held[1], outcome->keeps_up ? "true" : "false",
               (unsigned long long)preempted, outcome->tokens_s);
        return;
    }
    printf("  %-15s %6.3f %9.3f %9.3f %12.1f %10.1f %7.0f %7.0f %9llu %14.0f%s\n", way->name,
           hit_rate(report), outcome->spread[0], outcome->spread[1], outcome->p50_ms,
           outcome->p99_ms, outcome->held[0], outcome->held[1], (unsigned long long)preempted,
           outcome->tokens_s, outcome->keeps_up ? "" : "  falls behind");
    fflush(stdout);
}

static void print_head(const struct balance_bench *bench, const struct played *played,
                       const char *of, double requests_per_s) {
    const struct phase_words *words = &words_of[bench->phase];
    if (bench->values.json) return;
    printf("%s: %llu of %u ranks, %llu requests, %.3g a second: %llu %% of %s\n", words->name,
           (unsigned long long)(bench->phase == PHASE_UNITS ? bench->values.units : 1),
           ranks_of(bench), (unsigned long long)bench->values.requests, requests_per_s,
           (unsigned long long)bench->values.load, of);
    if (bench->phase != PHASE_DECODE)
        printf("  hits of a cache that forgets nothing: %.3f\n",
               played->known_tokens / played->prompt_tokens);
    printf("  %-15s %6s %9s %9s %12s %10s %7s %7s %9s %14s\n", "method", "hits", words->heads[0],
           words->heads[1], words->time_head, "p99 ms", "held:", "later", "preempted",
           bench->phase == PHASE_DECODE ? "tokens/s" : "tokens/s, full");
}

/* ---- phases ---- */

static uint32_t list_ways(enum balance_phase phase, struct balance_way ways[METHODS_MAX]) {
    uint32_t count = 0;
    if (phase == PHASE_UNITS) {
        ways[count++] = (struct balance_way){"prefix", BALANCE_WORK, false, true};
        ways[count++] = (struct balance_way){"load", BALANCE_WORK, false, false};
        return count;
    }
    for (int method = 0; method < BALANCE_METHOD_COUNT; method++) {
        const char *name = balance_method_name((enum balance_method)method);
        ways[count++] = (struct balance_way){name, (enum balance_method)method, false, false};
        if (method == BALANCE_WORK && phase == PHASE_PREFILL)
            ways[count++] = (struct balance_way){"work-on-arrival", BALANCE_WORK, true, false};
    }
    return count;
}

/* What each method gets done of prompts that never run out; the weakest's rate times the load. */
static enum status prompt_rate(struct balance_bench *bench, const struct balance_way *ways,
                               uint32_t count, const struct played *played, double *full_out,
                               uint32_t *weakest_out, double *rate_out, struct error *error) {
    struct twin_report report;
    uint32_t weakest = 0;
    for (uint32_t i = 0; i < count; i++) {
        enum status status = run(bench, &ways[i], AT_ONCE, &report, error);
        if (status) return status;
        full_out[i] = tokens_s(bench);
        if (full_out[i] < full_out[weakest]) weakest = i;
    }
    *weakest_out = weakest;
    *rate_out = full_out[weakest] * (double)bench->values.load / 100 *
                (double)bench->values.requests / played->prompt_tokens;
    return STATUS_OK;
}

static enum status run_phase(struct balance_bench *bench, enum balance_phase phase,
                             struct error *error) {
    struct balance_way ways[METHODS_MAX];
    double full[METHODS_MAX] = {0}, rate = 0;
    uint32_t count = list_ways(phase, ways), weakest = 0;
    char of[96] = "the ranks' KV memory or rows";
    struct played played;
    bench->phase = phase;
    enum status status = sum_up(bench, &played, error);
    if (!status && phase == PHASE_DECODE) status = decode_rate(bench, &played, &rate, error);
    if (!status && phase != PHASE_DECODE) {
        status = prompt_rate(bench, ways, count, &played, full, &weakest, &rate, error);
        snprintf(of, sizeof of, "what %s gets done when they never run out", ways[weakest].name);
    }
    if (!status) print_head(bench, &played, of, rate);
    for (uint32_t i = 0; i < count && !status; i++) {
        struct method_outcome outcome = {.tokens_s = full[i]};
        status = run(bench, &ways[i], rate, &outcome.report, error);
        if (status) return status;
        if (phase == PHASE_DECODE) outcome.tokens_s = tokens_s(bench);
        set_percentiles(bench, &outcome);
        set_held(bench, &outcome);
        set_spreads(bench, &outcome);
        print_line(bench, &ways[i], &outcome);
    }
    return status;
}

/* ---- files ---- */

static enum status read_trace(struct balance_bench *bench, const char *path, struct error *error) {
    struct bytes text;
    enum status status = gzip_file_take(path, TRACE_BYTES_MAX, &text, error);
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

/* A file of the binary's, or one at a path. */
static enum status read_tree(struct arena *arena, enum builtin_kind kind, const char *name,
                             const struct tree **tree_out, struct error *error) {
    struct bytes text = builtin_text(kind, (struct bytes){name, strlen(name)});
    return text.data ? yaml_tree_parse(arena, text, name, tree_out, error)
                     : yaml_tree_read(arena, name, tree_out, error);
}

static enum status read_files(struct balance_bench *bench, struct error *error) {
    const char *hardware = bench->values.hardware, *model = bench->values.model;
    const size_t bytes = 64 * YAML_TREE_BYTES_MAX; /* only what is used is touched */
    const struct tree *tree;
    struct arena arena;
    bench->file_memory = malloc(bytes);
    arena_over(&arena, bench->file_memory, bench->file_memory ? bytes : 0);
    enum status status = read_tree(&arena, BUILTIN_HARDWARE, hardware, &tree, error);
    if (!status) status = hardware_read(&arena, tree, hardware, &bench->hardware, error);
    if (!status) status = read_tree(&arena, BUILTIN_MODEL, model, &tree, error);
    if (!status) status = model_figures_read(tree, model, &bench->model, error);
    return status;
}

static enum status set_up(struct balance_bench *bench, const char *path, struct error *error) {
    struct balance_values *values = &bench->values;
    if (values->quick) {
        values->prefill_ranks = divide_up(values->prefill_ranks, QUICK_RANKS);
        values->decode_ranks = divide_up(values->decode_ranks, QUICK_RANKS);
        values->requests = divide_up(values->requests, QUICK_REQUESTS);
    }
    values->max_prompt =
        values->max_prompt < values->rank_tokens / 2 ? values->max_prompt : values->rank_tokens / 2;
    bench->ended = malloc(values->requests * sizeof *bench->ended);
    bench->numbers = malloc(values->requests * sizeof *bench->numbers);
    if (!bench->ended || !bench->numbers)
        return error_set(error, STATUS_NO_MEMORY, "no memory for the requests");
    enum status status = read_trace(bench, path, error);
    return status ? status : read_files(bench, error);
}

int bench_balance(int argc, char **argv) {
    struct balance_bench bench = {.printed = 0};
    struct option_result result;
    struct error error = {""};
    int exit_code;
    if (!command_begin(&bench_balance_options, argc, argv, &bench.values, &result, &exit_code))
        return exit_code;
    enum status status = set_up(&bench, result.positional[0], &error);
    if (!status && bench.values.prefill_ranks) status = run_phase(&bench, PHASE_PREFILL, &error);
    if (!status && bench.values.decode_ranks) status = run_phase(&bench, PHASE_DECODE, &error);
    if (!status && bench.values.units) status = run_phase(&bench, PHASE_UNITS, &error);
    if (!status && bench.values.json) printf("%s\n", bench.printed ? "\n]" : "[]");
    free(bench.trace_memory);
    free(bench.file_memory);
    free(bench.replay_memory);
    free(bench.ended);
    free(bench.numbers);
    return status ? command_failed(&bench_balance_options, status, &error)
                  : command_end(&bench_balance_options);
}
