/* SPDX-License-Identifier: Apache-2.0
 * fathom bench orders: how an order comes from rank 0 to all ranks and their reports come back, down
 * and up the tree (job_tree.h), beside the same from rank 0 to each rank by itself, in turn in the
 * same rounds. No model runs: plans and results are as large as those of a step of a decode unit.
 *
 * A rank notes when an order is there, by the machine's clock, and says it in its report: so the
 * ranks are on one machine. Where they outnumber its CPUs, times are the scheduler's; what remains
 * are rank 0's processor time and its messages.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "bench/bench.h"
#include "bench/machine_limits.h"
#include "command/rank_job.h"
#include "compute/exchange/job.h"
#include "compute/exchange/job_tree.h"
#include "contract/kv_block.h"
#include "contract/step_plan.h"

#define ROUNDS_MAX 999u
#define WARM_UP 3u

struct orders_values {
    struct rank_job_values job;
    uint64_t rows, context, rounds;
    bool json;
};

#define AT(field) .offset = offsetof(struct orders_values, field)

static const struct option orders_rows[] = {
    RANK_JOB_OPTIONS(struct orders_values),
    STEP_SIZE_OPTIONS(struct orders_values, "tokens of each request, whose pages its plan names"),
    {.name = "rounds",
     .type = OPTION_COUNT,
     .fallback = "51",
     .help = "repetitions, of which the median counts",
     .minimum = 1,
     .maximum = ROUNDS_MAX,
     AT(rounds)},
    {.name = "json", .type = OPTION_FLAG, .help = "print one JSON object", AT(json)},
};

const struct option_table bench_orders_options = {
    .command = "bench orders",
    .arguments = "",
    .description = "Times orders to all ranks and their reports: along the tree, and one by one.",
    .options = orders_rows,
    .option_count = ARRAY_COUNT(orders_rows),
};

enum orders_way { WAY_TREE, WAY_EACH, WAY_COUNT };
enum orders_kind { KIND_ORDER, KIND_STEP, KIND_COUNT };
enum orders_figure {
    FIGURE_LAST,     /* until the last rank has its order */
    FIGURE_WHOLE,    /* until all reports are there */
    FIGURE_SENDING,  /* rank 0's processor time for the orders */
    FIGURE_TAKING,   /* and for the reports */
    FIGURE_FORWARDS, /* the most that another rank needed for both */
    FIGURE_COUNT
};

static const char *const way_names[WAY_COUNT] = {"tree", "one by one"};
static const char *const kind_names[KIND_COUNT] = {"order to all", "plans and results"};

/* What a rank says in front of its report. */
struct heard {
    double at, processor;
};

struct orders_bench {
    struct orders_values values;
    size_t plan_bytes[KIND_COUNT], result_bytes[KIND_COUNT]; /* of one rank */
    struct job_tree_parts orders, reports;
    char *report; /* of one by one */
    double last, forwards;
    double seconds[KIND_COUNT][WAY_COUNT][FIGURE_COUNT][ROUNDS_MAX];
};

static void note(struct orders_bench *bench, const char *report) {
    struct heard heard;
    memcpy(&heard, report, sizeof heard);
    if (heard.at > bench->last) bench->last = heard.at;
    if (heard.processor > bench->forwards) bench->forwards = heard.processor;
}

static void send_orders(struct orders_bench *bench, enum orders_kind kind, enum orders_way way) {
    job_tree_clear(&bench->orders);
    if (way == WAY_TREE && kind == KIND_ORDER)
        memset(job_tree_add(&bench->orders, JOB_TREE_ALL, bench->plan_bytes[kind]), 1,
               bench->plan_bytes[kind]);
    for (uint32_t rank = 1; rank < job_count() && way == WAY_TREE && kind == KIND_STEP; rank++)
        memset(job_tree_add(&bench->orders, rank, bench->plan_bytes[kind]), 1,
               bench->plan_bytes[kind]);
    if (way == WAY_TREE) {
        job_tree_send(&bench->orders);
        return;
    }
    char *memory = job_tree_add(&bench->orders, 0, bench->plan_bytes[kind]);
    for (uint32_t rank = 1; rank < job_count(); rank++) {
        memset(memory, 1, bench->plan_bytes[kind]);
        job_send(rank, memory, bench->plan_bytes[kind]);
    }
}

static void take_reports(struct orders_bench *bench, enum orders_kind kind, enum orders_way way) {
    size_t at = 0;
    uint32_t rank;
    struct bytes part;
    job_tree_clear(&bench->reports);
    bench->last = bench->forwards = 0;
    if (way == WAY_TREE) {
        bool whole = job_tree_gather(&bench->reports);
        check(whole);
        while (job_tree_next(&bench->reports, &at, &rank, &part)) {
            memcpy(bench->report, part.data, part.count);
            note(bench, bench->report);
        }
    }
    for (rank = 1; rank < job_count() && way == WAY_EACH; rank++) {
        job_receive(rank, bench->report, bench->result_bytes[kind]);
        note(bench, bench->report);
    }
}

static void drive(struct orders_bench *bench, enum orders_kind kind, enum orders_way way,
                  uint32_t round) {
    double figures[FIGURE_COUNT];
    job_barrier();
    double start = machine_limits_now(), processor = machine_limits_processor_now();
    send_orders(bench, kind, way);
    figures[FIGURE_SENDING] = machine_limits_processor_now() - processor;
    processor = machine_limits_processor_now();
    take_reports(bench, kind, way);
    figures[FIGURE_TAKING] = machine_limits_processor_now() - processor;
    figures[FIGURE_WHOLE] = machine_limits_now() - start;
    figures[FIGURE_LAST] = bench->last - start;
    figures[FIGURE_FORWARDS] = bench->forwards;
    for (uint32_t i = 0; i < FIGURE_COUNT && round >= WARM_UP; i++)
        bench->seconds[kind][way][i][round - WARM_UP] = figures[i];
}

/* As another rank: processor time counts from when the order is there until the report has left, so
 * that a report tells that of the round before. */
static void follow(struct orders_bench *bench, enum orders_kind kind, enum orders_way way) {
    static double before[KIND_COUNT][WAY_COUNT];
    struct heard heard = {.processor = before[kind][way]};
    struct bytes part;
    size_t bytes;
    char *report;
    job_barrier();
    bool there = job_await(way == WAY_TREE ? job_tree_parent() : 0, &bytes);
    check(there);
    double processor = machine_limits_processor_now();
    job_tree_clear(&bench->reports);
    report = job_tree_add(&bench->reports, job_rank(), bench->result_bytes[kind]);
    if (way == WAY_TREE) {
        there = job_tree_take(&bench->orders, bytes, &part);
        check(there && part.count == bench->plan_bytes[kind]);
        heard.at = machine_limits_now();
        memcpy(report, &heard, sizeof heard);
        there = job_tree_gather(&bench->reports);
        check(there);
    } else {
        job_tree_clear(&bench->orders);
        job_receive(0, job_tree_add(&bench->orders, 0, bytes), bytes);
        heard.at = machine_limits_now();
        memcpy(report, &heard, sizeof heard);
        job_send(0, report, bench->result_bytes[kind]);
    }
    before[kind][way] = machine_limits_processor_now() - processor;
}

static void measure(struct orders_bench *bench) {
    for (uint32_t round = 0; round < WARM_UP + bench->values.rounds; round++)
        for (uint32_t kind = 0; kind < KIND_COUNT; kind++)
            for (uint32_t way = 0; way < WAY_COUNT; way++) {
                if (job_rank() == 0)
                    drive(bench, (enum orders_kind)kind, (enum orders_way)way, round);
                else
                    follow(bench, (enum orders_kind)kind, (enum orders_way)way);
            }
}

static enum status open_bench(struct orders_bench *bench, struct error *error) {
    const struct orders_values *values = &bench->values;
    uint32_t rows = (uint32_t)values->rows;
    uint32_t pages = rows * (uint32_t)divide_up(values->context, KV_BLOCK_TOKENS);
    bench->plan_bytes[KIND_ORDER] = sizeof(uint64_t);
    bench->result_bytes[KIND_ORDER] = sizeof(struct heard);
    bench->plan_bytes[KIND_STEP] = record_bytes(
        RECORD_RUN_STEP,
        &(struct step_plan){.row_count = rows, .token_count = rows, .page_count = pages});
    bench->result_bytes[KIND_STEP] =
        record_bytes(RECORD_STEP_DONE, &(struct step_result){.row_count = rows});
    bench->report = calloc(1, bench->result_bytes[KIND_STEP]);
    if (bench->report) return STATUS_OK;
    return error_set(error, STATUS_NO_MEMORY, "no memory for reports");
}

static uint32_t messages_of(enum orders_way way) {
    return way == WAY_TREE ? job_tree_place(0, job_count()).child_count : job_count() - 1;
}

static void print_way(struct orders_bench *bench, enum orders_kind kind, enum orders_way way) {
    double median[FIGURE_COUNT];
    for (uint32_t i = 0; i < FIGURE_COUNT; i++)
        median[i] = 1e6 * machine_limits_median(bench->seconds[kind][way][i],
                                                (uint32_t)bench->values.rounds);
    if (bench->values.json)
        printf("%s\n {\"kind\":\"%s\",\"way\":\"%s\",\"messages\":%u,\"last_us\":%.1f,"
               "\"whole_us\":%.1f,\"sending_us\":%.1f,\"taking_us\":%.1f,\"forwards_us\":%.1f}",
               kind || way ? "," : "", kind_names[kind], way_names[way], messages_of(way),
               median[FIGURE_LAST], median[FIGURE_WHOLE], median[FIGURE_SENDING],
               median[FIGURE_TAKING], median[FIGURE_FORWARDS]);
    else
        printf("%-18s %-10s %9u %10.1f %10.1f %14.1f %10.1f %14.1f\n", kind_names[kind],
               way_names[way], messages_of(way), median[FIGURE_LAST], median[FIGURE_WHOLE],
               median[FIGURE_SENDING], median[FIGURE_TAKING], median[FIGURE_FORWARDS]);
}

static void print(struct orders_bench *bench) {
    double plans = (double)bench->plan_bytes[KIND_STEP] * (job_count() - 1);
    double results = (double)bench->result_bytes[KIND_STEP] * (job_count() - 1);
    if (bench->values.json)
        printf("{\"ranks\":%u,\"plans_bytes\":%.0f,\"results_bytes\":%.0f,\"ways\":[", job_count(),
               plans, results);
    else
        printf("%u ranks; plans of a step %.3f MB, results %.3f MB; medians of %u rounds, us\n"
               "%-18s %-10s %9s %10s %10s %14s %10s %14s\n",
               job_count(), plans * 1e-6, results * 1e-6, (uint32_t)bench->values.rounds, "", "",
               "messages", "last rank", "all back", "rank 0: sends", "takes", "most of others");
    for (uint32_t kind = 0; kind < KIND_COUNT; kind++)
        for (uint32_t way = 0; way < WAY_COUNT; way++)
            print_way(bench, (enum orders_kind)kind, (enum orders_way)way);
    if (bench->values.json) printf("]}\n");
}

int bench_orders(int argc, char **argv) {
    static struct orders_bench bench;
    struct option_result result;
    struct error error = {.text = ""};
    int exit_code;
    if (!command_begin(&bench_orders_options, argc, argv, &bench.values, &result, &exit_code))
        return exit_code;
    if (bench.values.job.ranks == 1)
        return command_misused(&bench_orders_options, "--ranks must be 2 or more");
    if (rank_job_begin_alike(&bench_orders_options, &bench.values.job, &exit_code))
        return exit_code;
    enum status status = open_bench(&bench, &error);
    if (status == STATUS_OK) measure(&bench);
    if (status == STATUS_OK && job_rank() == 0) print(&bench);
    job_tree_free(&bench.orders);
    job_tree_free(&bench.reports);
    free(bench.report);
    exit_code = status == STATUS_OK ? command_end(&bench_orders_options)
                                    : command_failed(&bench_orders_options, status, &error);
    job_end();
    return exit_code;
}
