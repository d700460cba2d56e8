/* SPDX-License-Identifier: Apache-2.0
 * bench_machines plan: the cost of the scheduler itself. One decode unit of many ranks is filled
 * with requests with prompts computed elsewhere. Then its steps are planned and their results
 * processed, with no computation in between. Figures are milliseconds of one core for a step of all
 * ranks, next to the time that this machine needs to write as many bytes as the unit does.
 */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/random.h"
#include "bench/stats.h"
#include "bench_machines.h"
#include "command/json_print.h"
#include "contract/kv_block.h"
#include "contract/record_kv.h"
#include "contract/step_plan.h"
#include "host/process/lazy_memory.h"
#include "serving/unit/rank_units.h"

#define VOCAB 129280
#define STEPS_MAX 1000
#define WARM_STEPS 5
#define STEP_NS 50000000
#define BANDWIDTH_BYTES ((size_t)256 << 20)
#define BANDWIDTH_ROUNDS 5

struct bench_plan_values {
    uint64_t ranks, rows, context, steps;
    bool json;
};

#define AT(field) .offset = offsetof(struct bench_plan_values, field)

static const struct option plan_rows[] = {
    {"ranks", OPTION_COUNT, "144", "DP ranks of the unit", AT(ranks), .minimum = 1,
     .maximum = LIMIT_RANKS},
    {"rows", OPTION_COUNT, "88", "requests of a rank, all of them in every step", AT(rows),
     .minimum = 1, .maximum = LIMIT_STEP_ROWS},
    {"context", OPTION_COUNT, "5000", "tokens of each request before the first step", AT(context),
     .minimum = KV_BLOCK_TOKENS, .maximum = 131072},
    {"steps", OPTION_COUNT, "101", "figures are medians over so many", AT(steps), .minimum = 1,
     .maximum = STEPS_MAX},
    {"json", OPTION_FLAG, NULL, "print one JSON object", AT(json)},
};

const struct option_table bench_plan_options = {
    .command = "bench_machines plan",
    .arguments = "",
    .description = "Planning a step of a whole unit and taking its results, without an engine.",
    .options = plan_rows,
    .option_count = ARRAY_COUNT(plan_rows),
};

struct plan_bench {
    struct bench_plan_values values;
    struct rank_units *units;
    struct machine machine;
    size_t memory_bytes;
    int64_t now_ns;
    struct record_submit *submit; /* scratch */
    struct record_continue *first_token;
    struct record_kv_done *kv_done;
    struct step_result **results;                       /* [ranks] of the planned step */
    size_t plan_bytes, said_bytes, load_bytes, records; /* per step */
    uint32_t step_rows;
    double submit_s; /* per request, in the last tenth */
    double results_s[STEPS_MAX], plan_s[STEPS_MAX], all_s[STEPS_MAX];
};

/* ---- the unit ---- */

static struct unit_options options_of(const struct bench_plan_values *values) {
    static const uint8_t model_id[32] = {1};
    uint32_t answer = (uint32_t)values->steps + WARM_STEPS + 2 * KV_BLOCK_TOKENS;
    uint32_t rows = (uint32_t)values->rows, rows_max = rows < 128 ? 128 : rows;
    uint32_t context = (uint32_t)values->context + answer;
    return (struct unit_options){
        .requests_max = rows_max,
        .page_count = (rows + 1) * (uint32_t)divide_up(context + KV_BLOCK_TOKENS, KV_BLOCK_TOKENS),
        .context_tokens_max = context,
        .step_rows_max = rows_max,
        .step_tokens_max = 2 * rows_max + KV_BLOCK_TOKENS,
        .vocab_count = VOCAB,
        .prefix_cache = true,
        .role = UNIT_DECODE,
        .model_id = model_id,
        .numerics_id = "bench"};
}

static enum status open_unit(struct plan_bench *bench, struct error *error) {
    struct unit_options options = options_of(&bench->values);
    uint32_t ranks = (uint32_t)bench->values.ranks;
    struct arena arena;
    bench->memory_bytes = rank_units_memory_bytes(&options, ranks);
    struct lazy_memory memory = lazy_memory_take(bench->memory_bytes);
    bench->results = calloc(ranks, sizeof(struct step_result *));
    struct record_submit submit = {.prompt_count = options.context_tokens_max};
    bench->submit = calloc(1, record_bytes(RECORD_SUBMIT, &submit));
    bench->kv_done = calloc(1, record_bytes(RECORD_KV_DONE, NULL));
    struct record_continue first = {.token_count = 1};
    bench->first_token = calloc(1, record_bytes(RECORD_CONTINUE, &first));
    bool all =
        memory.start && bench->results && bench->submit && bench->kv_done && bench->first_token;
    for (uint32_t rank = 0; all && rank < ranks; rank++)
        all = (bench->results[rank] = malloc(step_result_bytes_max(options.step_rows_max, 0)));
    if (!all) return error_set(error, STATUS_NO_MEMORY, "no memory for %u ranks", ranks);
    lazy_memory_widen(&memory);
    arena_over(&arena, memory.start, bench->memory_bytes);
    enum status status = rank_units_create(&arena, &options, ranks, &bench->units, error);
    if (!status) bench->machine = rank_units_machine(bench->units);
    return status;
}

static void send(struct plan_bench *bench, const void *record) {
    check(machine_pass(&bench->machine, record, bench->now_ns));
}

/* ---- requests ---- */

/* A unique prompt. Blocks of different requests end in different steps. */
static void submit_one(struct plan_bench *bench, uint32_t number) {
    uint32_t count = (uint32_t)bench->values.context - 1 + number % KV_BLOCK_TOKENS;
    struct record_submit *submit = bench->submit;
    *submit =
        (struct record_submit){.request = {.low = number},
                               .sampling = {.temperature = 0.6f, .top_p = 0.95f},
                               .prompt_count = count,
                               .new_tokens_max = (uint32_t)bench->values.steps + WARM_STEPS + 3,
                               .task = SUBMIT_RESERVE};
    submit->sampling.seed = number;
    record_set_head(submit, RECORD_SUBMIT);
    for (uint32_t i = 0; i < count; i++)
        submit_tokens(submit)[i] = (number * 7919 + i * 31) % VOCAB;
    send(bench, submit);
}

/* Reports that its blocks and its first token have arrived. */
static void begin_one(struct plan_bench *bench) {
    const struct record_kv_expect *expect = NULL;
    struct outbox *outbox = bench->machine.outbox;
    for (const struct record *record = NULL; (record = machine_outbox_next(outbox, record));)
        if (record->kind == RECORD_KV_EXPECT) expect = (const struct record_kv_expect *)record;
    check(expect);
    *bench->kv_done = (struct record_kv_done){.request = expect->request,
                                              .rank = expect->rank,
                                              .arrived = 1,
                                              .blocks = expect->page_count};
    bench->first_token->request = expect->request;
    bench->first_token->token_count = 1;
    record_set_head(bench->kv_done, RECORD_KV_DONE);
    record_set_head(bench->first_token, RECORD_CONTINUE);
    machine_outbox_clear(outbox);
    send(bench, bench->kv_done);
    machine_outbox_clear(outbox);
    send(bench, bench->first_token);
    machine_outbox_clear(outbox);
}

static void fill(struct plan_bench *bench) {
    uint32_t count = (uint32_t)(bench->values.ranks * bench->values.rows);
    uint32_t timed = count / 10 + 1;
    bench->machine.step(bench->machine.self, 0); /* sends the hello */
    machine_outbox_clear(bench->machine.outbox);
    for (uint32_t number = 0; number < count; number++) {
        double begin_s = bench_machines_now();
        submit_one(bench, number);
        if (number + timed >= count) bench->submit_s += bench_machines_now() - begin_s;
        begin_one(bench);
    }
    bench->submit_s /= timed;
}

/* ---- steps ---- */

/* Returns one token for each row of a plan. */
static void answer(struct plan_bench *bench, const struct step_plan *plan) {
    struct step_result *result = bench->results[plan->rank];
    *result = (struct step_result){.step = plan->step,
                                   .compute_ns = STEP_NS,
                                   .row_count = plan->row_count,
                                   .rank = plan->rank};
    record_set_head(result, RECORD_STEP_DONE);
    for (uint32_t i = 0; i < plan->row_count; i++) {
        const struct step_row *row = &step_plan_rows(plan)[i];
        struct step_result_row *out = &step_result_rows(result)[i];
        *out = (struct step_result_row){.slot = row->slot, .token_count = 1};
        out->tokens[0] = (row->slot * 31 + row->first_position) % VOCAB;
    }
    bench->step_rows += plan->row_count;
    bench->plan_bytes += plan->record.bytes;
}

/* Counts the records in the outbox and answers the plans. */
static void look(struct plan_bench *bench) {
    struct outbox *outbox = bench->machine.outbox;
    for (const struct record *record = NULL; (record = machine_outbox_next(outbox, record));) {
        bench->records++;
        bench->said_bytes += record->bytes;
        if (record->kind == RECORD_RUN_STEP) answer(bench, (const struct step_plan *)record);
        if (record->kind == RECORD_UNIT_LOAD) bench->load_bytes += record->bytes;
    }
    machine_outbox_clear(outbox);
}

static void plan(struct plan_bench *bench) {
    bench->machine.step(bench->machine.self, bench->now_ns);
}

/* Delivers the results of one step and collects the plans of the next. */
static void step_once(struct plan_bench *bench, uint32_t index) {
    uint32_t ranks = (uint32_t)bench->values.ranks;
    double results_s = 0, last_s = 0;
    bench->plan_bytes = bench->said_bytes = bench->load_bytes = bench->records = 0;
    bench->step_rows = 0;
    bench->now_ns += STEP_NS;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        double begin_s = bench_machines_now();
        send(bench, bench->results[rank]);
        last_s = bench_machines_now() - begin_s;
        results_s += last_s;
        bench->records++;
        look(bench);
    }
    double begin_s = bench_machines_now();
    plan(bench);
    double plan_s = bench_machines_now() - begin_s;
    bench->results_s[index] = results_s;
    bench->plan_s[index] = last_s + plan_s;
    bench->all_s[index] = results_s + plan_s;
    look(bench);
}

/* Bytes per second that one core writes. */
static double measure_writes(void) {
    double rates[BANDWIDTH_ROUNDS];
    char *memory = malloc(BANDWIDTH_BYTES);
    if (!memory) return 0;
    memset(memory, 1, BANDWIDTH_BYTES);
    for (int round = 0; round < BANDWIDTH_ROUNDS; round++) {
        double begin_s = bench_machines_now();
        memset(memory, round, BANDWIDTH_BYTES);
        __asm__ volatile("" ::"r"(memory) : "memory");
        rates[round] = BANDWIDTH_BYTES / (bench_machines_now() - begin_s);
    }
    free(memory);
    return stats_median(rates, BANDWIDTH_ROUNDS);
}

/* ---- the report ---- */

struct plan_figure { /* over all steps; the minimum is the least disturbed by other processes */
    double median_ms, least_ms;
};

struct plan_report {
    struct plan_figure plan, results, all;
    double floor_ms, ns_per_row, submit_us, records_per_s;
    double held_mb; /* resident memory of this process */
};

static struct plan_figure figure_of(double *seconds, uint32_t steps) {
    struct stats_spread spread = stats_spread(seconds, steps, 0);
    return (struct plan_figure){.median_ms = spread.median * 1e3, .least_ms = spread.low * 1e3};
}

static struct plan_report report_of(struct plan_bench *bench) {
    uint32_t steps = (uint32_t)bench->values.steps;
    struct plan_report report = {
        .plan = figure_of(bench->plan_s, steps),
        .results = figure_of(bench->results_s, steps),
        .all = figure_of(bench->all_s, steps),
        .submit_us = bench->submit_s * 1e6,
        .held_mb = bench_machines_resident() / (1 << 20),
    };
    report.floor_ms = (double)bench->said_bytes / measure_writes() * 1e3;
    report.ns_per_row = report.all.median_ms * 1e6 / bench->step_rows;
    report.records_per_s = (double)bench->records / report.all.median_ms * 1e3;
    return report;
}

static void print_figure(const struct json_print *out, const char *name,
                         const struct plan_figure *figure, uint32_t rows) {
    json_print_say(out, "%-36s %8.3f ms, %4.0f ns a row; least %.3f ms\n", name, figure->median_ms,
                   figure->median_ms * 1e6 / rows, figure->least_ms);
}

static void print_report(const struct plan_bench *bench, const struct plan_report *report) {
    const struct plan_figure *plan = &report->plan, *results = &report->results;
    uint32_t ranks = (uint32_t)bench->values.ranks, outbox = bench->machine.outbox->capacity;
    struct json_print out = json_print_begin(bench->values.json);
    json_print_values(
        &out,
        "\"ranks\":%u,\"rows\":%u,\"plan_ms\":%.4f,\"results_ms\":%.4f,"
        "\"step_ms\":%.4f,\"plan_least_ms\":%.4f,\"results_least_ms\":%.4f,"
        "\"step_least_ms\":%.4f,\"floor_ms\":%.4f,\"ns_per_row\":%.1f,"
        "\"records_per_s\":%.0f,\"submit_us\":%.2f,\"plan_bytes\":%lu,"
        "\"load_bytes\":%lu,\"said_bytes\":%lu,\"outbox_bytes\":%u,"
        "\"memory_bytes\":%lu,\"resident_mb\":%.0f",
        ranks, bench->step_rows, plan->median_ms, results->median_ms, report->all.median_ms,
        plan->least_ms, results->least_ms, report->all.least_ms, report->floor_ms,
        report->ns_per_row, report->records_per_s, report->submit_us, bench->plan_bytes,
        bench->load_bytes, bench->said_bytes, outbox, bench->memory_bytes, report->held_mb);
    json_print_say(&out,
                   "%u ranks, %u rows in a step; medians of %u steps, processor time of one "
                   "core\n",
                   ranks, bench->step_rows, (uint32_t)bench->values.steps);
    print_figure(&out, "planning, from the last result on", plan, bench->step_rows);
    print_figure(&out, "taking the results", results, bench->step_rows);
    print_figure(&out, "both", &report->all, bench->step_rows);
    json_print_say(&out, "%-36s %8.3f ms, to write %.2f MB\n", "floor", report->floor_ms,
                   (double)bench->said_bytes * 1e-6);
    json_print_say(&out, "%-36s %8.3f MB, of load reports %.3f MB\n", "plans of a step",
                   (double)bench->plan_bytes * 1e-6, (double)bench->load_bytes * 1e-6);
    json_print_say(&out, "%-36s %8.2f million a second\n", "records in and out",
                   report->records_per_s * 1e-6);
    json_print_say(&out, "%-36s %8.2f us\n", "a request comes, others are there",
                   report->submit_us);
    json_print_say(&out, "%-36s %8.0f MB reserved, outbox %.0f MB of it; process %.0f MB\n",
                   "memory", (double)bench->memory_bytes * 1e-6, outbox * 1e-6, report->held_mb);
    json_print_close(&out);
}

int bench_plan(void *given, const struct option_result *result) {
    static struct plan_bench bench;
    struct error error = {""};
    bench.values = *(const struct bench_plan_values *)given;
    enum status status = open_unit(&bench, &error);
    if (status) return command_failed(status, &error);
    fill(&bench);
    plan(&bench);
    look(&bench);
    for (uint32_t i = 0; i < WARM_STEPS; i++)
        step_once(&bench, 0);
    for (uint32_t i = 0; i < bench.values.steps; i++)
        step_once(&bench, i);
    struct plan_report report = report_of(&bench);
    print_report(&bench, &report);
    return command_end(STATUS_OK, NULL);
}
