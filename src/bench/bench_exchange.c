/* SPDX-License-Identifier: Apache-2.0
 * fathom bench exchange: dispatch and combine of random tokens between ranks, without a model, as
 * medians with their spread. The floor for comparison is bare messages of as many bytes between
 * contiguous buffers (job_all_to_all), in turn in the same rounds. The exchange's times include all
 * its work: choosing slots, gathering rows into messages, sorting received rows by expert. The cost
 * of writing and reading depends on where rows are in memory. Each is therefore also timed together
 * with one write of all rows and one read of all received ones, including a rank's own.
 *
 * With groups of experts, each group is on as few ranks, or nodes, as possible, tokens choose among
 * some groups as a router does, and the exchange that sums results by groups runs next to the one
 * that returns results one by one. With nodes (`--experiment ranks-per-node=N`) either runs by
 * nodes, too. Sums made on the way are part of these times, sums left for the receiver are not.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/random.h"
#include "bench/bench.h"
#include "bench/harness.h"
#include "command/rank_job.h"
#include "compute/exchange/exchange.h"
#include "compute/exchange/job.h"
#include "compute/model/expert_sum.h"

#define ROUNDS_MAX 999
#define WARM_UP 3
#define COMBINE_FORM ROW_BF16

struct exchange_values {
    struct rank_job_values job;
    uint64_t tokens, hidden, experts, per_token, groups, groups_kept, rounds;
    bool json;
};

#define AT(field) .offset = offsetof(struct exchange_values, field)

static const struct option exchange_rows[] = {
    RANK_JOB_OPTIONS(struct exchange_values),
    {"tokens", OPTION_COUNT, "128", "tokens that each rank dispatches", AT(tokens), .minimum = 1,
     .maximum = LIMIT_STEP_TOKENS},
    {"hidden", OPTION_COUNT, "7168", "channels of a token", AT(hidden), .minimum = 16,
     .maximum = 65536},
    {"experts", OPTION_COUNT, "256", "experts of the layer", AT(experts), .minimum = 1,
     .maximum = LIMIT_EXPERTS},
    {"experts-per-token", OPTION_COUNT, "8", "experts that a token goes to", AT(per_token),
     .minimum = 1, .maximum = LIMIT_TOP_K_EXPERTS},
    {"groups", OPTION_COUNT, "1",
     "groups of experts; more than one: results are also summed by groups", AT(groups),
     .minimum = 1, .maximum = LIMIT_EXPERTS},
    {"groups-kept", OPTION_COUNT, NULL, "groups that a token's experts are of; 0: all",
     AT(groups_kept), .maximum = LIMIT_EXPERTS},
    {"rounds", OPTION_COUNT, "51", "repetitions; the result is their median", AT(rounds),
     .minimum = 7, .maximum = ROUNDS_MAX},
    {"json", OPTION_FLAG, NULL, "print one JSON object", AT(json)},
};

const struct option_table bench_exchange_options = {
    .command = "bench exchange",
    .arguments = "",
    .description =
        "Times the expert exchange between ranks, compared with bare messages of as many "
        "bytes.",
    .options = exchange_rows,
    .option_count = ARRAY_COUNT(exchange_rows),
};

/* Ways to exchange the same tokens. Each has a dispatch and a combine. */
enum exchange_way { WAY_PLAIN, WAY_GROUPS, WAY_NODES, WAY_GROUPS_NODES, WAY_COUNT };
#define FIGURE_COUNT (2 * WAY_COUNT)

struct exchange_bench {
    struct json_print report;
    struct exchange_values values;
    struct placement placement;
    struct exchange *exchanges[WAY_COUNT]; /* NULL: there are no groups, or nodes */
    struct exchange_link link, node_link;
    const struct kernels *kernels;
    float *sum, *room;                      /* [hidden] */
    uint32_t dispatch_bytes, combine_bytes; /* of a row */
    uint32_t *chosen;                       /* [tokens][per_token] */
    float *weights;                         /* [tokens][per_token] */
    char *activations;                      /* [tokens][dispatch_bytes] */
    char *out, *in;                         /* [ranks][largest] for bare messages */
    uint64_t bytes[FIGURE_COUNT];           /* bytes that rank 0 sends */
    uint64_t bytes_between[FIGURE_COUNT];   /* the part that goes to other nodes */
    double seconds[FIGURE_COUNT][ROUNDS_MAX], swap_seconds[FIGURE_COUNT][ROUNDS_MAX];
    /* including the write and the read of all rows */
    double whole[FIGURE_COUNT][ROUNDS_MAX], swap_whole[FIGURE_COUNT][ROUNDS_MAX];
    uint64_t sum_read; /* keeps the compiler from removing the reads */
};

static void draw_experts(struct exchange_bench *bench) {
    const struct exchange_values *values = &bench->values;
    uint32_t at = 0, experts = (uint32_t)values->experts, groups = (uint32_t)values->groups;
    for (uint32_t token = 0; token < values->tokens; token++) {
        uint32_t wanted = (uint32_t)values->per_token, kept = (uint32_t)values->groups_kept;
        uint32_t left = kept * (experts / groups);
        /* Ascending, each set with the same probability. */
        for (uint32_t group = 0; group < groups; group++) {
            if (groups > 1 &&
                random_uniform(job_rank(), token, experts + group) * (groups - group) >= kept)
                continue;
            kept--;
            for (uint32_t i = 0; i < experts / groups; i++, left--) {
                uint32_t expert = group * (experts / groups) + i;
                if (random_uniform(job_rank(), token, expert) * left >= wanted) continue;
                bench->chosen[at++] = expert;
                wanted--;
            }
        }
    }
    check(at == values->tokens * values->per_token);
}

/* Places experts in order, so that a group is on as few ranks as possible. If ranks belong to
 * nodes, a group is on as few nodes as possible, and its experts are dealt to the node's ranks in
 * turn, since a balancer may put them anywhere on the node. Replicas follow. */
static void place_in_order(struct placement *placement, bool nodes) {
    uint32_t each = nodes ? placement->node_ranks : 1, room = each * placement->slots_per_rank;
    for (uint32_t slot = 0; slot < placement->ranks * placement->slots_per_rank; slot++) {
        uint32_t place = slot % room / placement->slots_per_rank;
        uint32_t expert = slot / room * room + slot % placement->slots_per_rank * each + place;
        placement->slot_expert[slot] = expert % placement->experts;
    }
}

static struct exchange_link bench_exchange_link_of(double gbps, double us) {
    return (struct exchange_link){.ns_per_byte = gbps > 0 ? 8 / gbps : 0,
                                  .latency_ns = (int64_t)(us * 1e3)};
}

/* Same as the model (compute/model/experts.c), in one thread. */
static void bench_exchange_make_sums(void *context, const struct exchange_sum *sums,
                                     uint32_t count) {
    struct exchange_bench *bench = context;
    uint32_t hidden = (uint32_t)bench->values.hidden;
    for (uint32_t i = 0; i < count; i++) {
        memset(bench->sum, 0, hidden * sizeof *bench->sum);
        expert_sum_add(bench->kernels, COMBINE_FORM, bench->sum, sums[i].results, sums[i].weights,
                       sums[i].count, hidden, bench->room);
        exchange_rows_pack(bench->kernels, COMBINE_FORM, bench->sum, hidden, sums[i].sum);
    }
}

static enum status bench_exchange_open_exchanges(struct exchange_bench *bench,
                                                 struct error *error) {
    const struct exchange_values *values = &bench->values;
    struct exchange_options options = {.tokens_max = (uint32_t)values->tokens,
                                       .experts = (uint32_t)values->experts,
                                       .experts_per_token = (uint32_t)values->per_token,
                                       .placement = &bench->placement,
                                       .rank = job_rank(),
                                       .dispatch_bytes = bench->dispatch_bytes,
                                       .combine_bytes = bench->combine_bytes,
                                       .sum = bench_exchange_make_sums,
                                       .sum_context = bench,
                                       .link = &bench->link};
    enum status status = STATUS_OK;
    bench->link = bench_exchange_link_of(values->job.link_gbps, values->job.link_us);
    bench->node_link = bench_exchange_link_of(values->job.near_gbps, values->job.link_us);
    if (values->job.near_gbps > 0) options.node_link = &bench->node_link;
    for (uint32_t way = 0; !status && way < WAY_COUNT; way++) {
        bool groups = way & WAY_GROUPS, nodes = way & WAY_NODES;
        if ((groups && values->groups == 1) || (nodes && !values->job.node_ranks)) continue;
        options.channel = way;
        options.group_experts = groups ? (uint32_t)(values->experts / values->groups) : 0;
        status = exchange_open_ranks(&options, &bench->exchanges[way], error);
        if (!status) exchange_set_two_levels(bench->exchanges[way], nodes);
    }
    return status;
}

static enum status bench_exchange_open_bench(struct exchange_bench *bench, struct error *error) {
    const struct exchange_values *values = &bench->values;
    uint32_t experts = (uint32_t)values->experts, ranks = job_count();
    const uint32_t hidden = (uint32_t)values->hidden;
    bench->dispatch_bytes = (uint32_t)exchange_rows_bytes(ROW_FP8, hidden);
    bench->combine_bytes = (uint32_t)exchange_rows_bytes(COMBINE_FORM, hidden);
    bench->sum = calloc(values->hidden, sizeof *bench->sum);
    bench->room = calloc(values->hidden, sizeof *bench->room);
    if (!bench->sum || !bench->room) return error_set(error, STATUS_NO_MEMORY, "no memory");
    enum status status = kernels_select(kernels_detect(), &bench->kernels, error);
    if (status == STATUS_OK)
        status = placement_open(
            &bench->placement, 1, experts, ranks,
            placement_slots_per_rank(experts, ranks, (uint32_t)values->job.redundant), error);
    if (status != STATUS_OK) return status;
    if (values->job.node_ranks) bench->placement.node_ranks = (uint32_t)values->job.node_ranks;
    placement_spread(&bench->placement, values->job.seed);
    if (values->groups > 1 && !values->job.seed)
        place_in_order(&bench->placement, values->job.node_ranks);
    status = placement_index(&bench->placement, error);
    if (status == STATUS_OK) status = bench_exchange_open_exchanges(bench, error);
    if (status != STATUS_OK) return status;
    bench->chosen = calloc(values->tokens * values->per_token, sizeof *bench->chosen);
    bench->weights = calloc(values->tokens * values->per_token, sizeof *bench->weights);
    bench->activations = calloc(values->tokens, bench->dispatch_bytes);
    if (bench->chosen && bench->weights && bench->activations) return STATUS_OK;
    return error_set(error, STATUS_NO_MEMORY, "no memory for the tokens");
}

static void bench_exchange_read_all(struct exchange_bench *bench, const void *rows, size_t bytes) {
    const uint64_t *words = rows;
    for (size_t i = 0; i < bytes / sizeof *words; i++)
        bench->sum_read += words[i];
}

static void read_received(struct exchange_bench *bench, const struct exchange_received *received) {
    uint32_t tokens = 0;
    for (uint32_t row = 0; row < received->row_count; row++)
        if (received->row_token[row] >= tokens) tokens = received->row_token[row] + 1;
    for (uint32_t token = 0; token < tokens; token++)
        bench_exchange_read_all(bench, received->token_data[token], bench->dispatch_bytes);
}

static void read_returned(struct exchange_bench *bench, const struct exchange_returned *returned) {
    for (uint64_t pair = 0; pair < bench->values.tokens * bench->values.per_token; pair++)
        if (returned->token_rows[pair] != EXCHANGE_SUMMED)
            bench_exchange_read_all(
                bench, returned->results + returned->token_rows[pair] * bench->combine_bytes,
                bench->combine_bytes);
}

/* One dispatch and combine, each begun by all ranks together. The sent rows are written just
 * before, as by a layer; otherwise they would be in the receiver's cache from the previous
 * round. */
static void run_exchange(struct exchange_bench *bench, uint32_t way, uint32_t round) {
    struct exchange *exchange = bench->exchanges[way];
    uint32_t dispatch = 2 * way, combine = dispatch + 1;
    uint64_t between = exchange_counts(exchange).bytes_between_nodes;
    struct exchange_received received;
    struct exchange_returned returned;
    double began = machine_limits_now();
    memset(bench->activations, (int)round, bench->values.tokens * bench->dispatch_bytes);
    double written = machine_limits_now() - began;
    job_barrier();
    double start = machine_limits_now();
    exchange_dispatch_begin(exchange, 0, bench->chosen, bench->weights,
                            (uint32_t)bench->values.tokens, bench->activations);
    exchange_dispatch_finish(exchange, &received);
    bench->seconds[dispatch][round] = machine_limits_now() - start;
    read_received(bench, &received);
    bench->whole[dispatch][round] = written + machine_limits_now() - start;
    bench->bytes[dispatch] = exchange_last_transfer(exchange).bytes_sent;
    bench->bytes_between[dispatch] = exchange_counts(exchange).bytes_between_nodes - between;
    began = machine_limits_now();
    for (uint32_t row = 0; row < received.row_count; row++)
        memset(exchange_result(exchange, row), (int)row, bench->combine_bytes);
    written = machine_limits_now() - began;
    between = exchange_counts(exchange).bytes_between_nodes;
    job_barrier();
    start = machine_limits_now();
    if (received.row_count) exchange_combine_begin(exchange, 0, received.row_count);
    exchange_combine_finish(exchange, &returned);
    bench->seconds[combine][round] = machine_limits_now() - start;
    read_returned(bench, &returned);
    bench->whole[combine][round] = written + machine_limits_now() - start;
    bench->bytes[combine] = exchange_last_transfer(exchange).bytes_sent;
    bench->bytes_between[combine] = exchange_counts(exchange).bytes_between_nodes - between;
}

static void run_exchanges(struct exchange_bench *bench, uint32_t round) {
    for (uint32_t way = 0; way < WAY_COUNT; way++)
        if (bench->exchanges[way]) run_exchange(bench, way, round);
}

/* Runs the bare messages, also with data that was just written. */
static void run_swap(struct exchange_bench *bench, uint64_t bytes, uint32_t round,
                     double *seconds_out, double *whole_out) {
    double began = machine_limits_now();
    memset(bench->out, (int)round, job_count() * bytes);
    double written = machine_limits_now() - began;
    job_barrier();
    double start = machine_limits_now();
    job_all_to_all(bench->out, bench->in, bytes);
    *seconds_out = machine_limits_now() - start;
    bench_exchange_read_all(bench, bench->in, job_count() * bytes);
    *whole_out = written + machine_limits_now() - start;
}

/* Makes all ranks swap as much as rank 0 sends to each of the others, on average. */
static void agree_on_bytes(struct exchange_bench *bench, uint64_t each[static FIGURE_COUNT]) {
    uint32_t others = job_count() - 1;
    for (uint32_t i = 0; i < FIGURE_COUNT; i++)
        each[i] = bench->bytes[i] / others;
    for (uint32_t rank = 1; rank <= others && job_rank() == 0; rank++)
        job_send(rank, each, FIGURE_COUNT * sizeof *each);
    if (job_rank()) job_receive(0, each, FIGURE_COUNT * sizeof *each);
}

static enum status bench_exchange_measure(struct exchange_bench *bench, struct error *error) {
    uint64_t each[FIGURE_COUNT], largest = 0;
    draw_experts(bench);
    for (uint32_t i = 0; i < WARM_UP; i++)
        run_exchanges(bench, 0);
    agree_on_bytes(bench, each);
    for (uint32_t i = 0; i < FIGURE_COUNT; i++)
        if (each[i] > largest) largest = each[i];
    bench->out = calloc(job_count(), largest + 1);
    bench->in = calloc(job_count(), largest + 1);
    if (!bench->out || !bench->in) return error_set(error, STATUS_NO_MEMORY, "no memory");
    for (uint32_t i = 0; i < WARM_UP; i++)
        run_swap(bench, largest, i, &bench->swap_seconds[0][0], &bench->swap_whole[0][0]);
    for (uint32_t round = 0; round < bench->values.rounds; round++) {
        run_exchanges(bench, round);
        for (uint32_t i = 0; i < FIGURE_COUNT; i++)
            if (each[i])
                run_swap(bench, each[i], round, &bench->swap_seconds[i][round],
                         &bench->swap_whole[i][round]);
    }
    return STATUS_OK;
}

static const struct harness_column exchange_columns[] = {
    {NULL, "", -30, 0, 0},
    {"bytes", "MB out", 9, 3, 1e-6},
    {NULL, "kB a token", 10, 1, 1e-3},
    {"bytes_between_nodes", NULL, 0, 0, 0},
    {NULL, "between nodes", 13, 1, 1e-3},
    {"seconds", "us", 9, 1, 1e6},
    {"low", "10 %", 9, 1, 1e6},
    {"high", "90 %", 9, 1, 1e6},
    {"floor_seconds", "bare us", 9, 1, 1e6},
    {"floor_low", NULL, 0, 0, 0},
    {"floor_high", NULL, 0, 0, 0},
    {"ratio", "ratio", 6, 2, 0},
    {"whole_seconds", "whole us", 9, 1, 1e6},
    {"whole_floor_seconds", "bare us", 9, 1, 1e6},
    {"whole_ratio", "ratio", 6, 2, 0},
};
static const struct harness_table exchange_table = {exchange_columns,
                                                    ARRAY_COUNT(exchange_columns)};

/* Prints the figures of a way's dispatch or combine. */
static void bench_exchange_print_figure(struct exchange_bench *bench, uint32_t i) {
    static const char *const names[FIGURE_COUNT] = {"dispatch",
                                                    "combine",
                                                    "dispatch_by_groups",
                                                    "combine_by_groups",
                                                    "dispatch_by_nodes",
                                                    "combine_by_nodes",
                                                    "dispatch_by_groups_and_nodes",
                                                    "combine_by_groups_and_nodes"};
    const size_t rounds = bench->values.rounds;
    const struct stats_spread own = stats_spread(bench->seconds[i], rounds, 0.1);
    const struct stats_spread swap = stats_spread(bench->swap_seconds[i], rounds, 0.1);
    const double whole = stats_median(bench->whole[i], rounds);
    const double swap_whole = stats_median(bench->swap_whole[i], rounds);
    const double bytes = (double)bench->bytes[i], between = (double)bench->bytes_between[i];
    const double tokens = (double)bench->values.tokens, ratio = own.median / swap.median;
    const double a_token = bytes / tokens, between_each = between / tokens;
    const double whole_ratio = whole / swap_whole;
    const double numbers[] = {bytes,   a_token,  between,     between_each, own.median,
                              own.low, own.high, swap.median, swap.low,     swap.high,
                              ratio,   whole,    swap_whole,  whole_ratio};
    harness_row(&bench->report, names[i], &exchange_table, &names[i], numbers);
}

static void print(struct exchange_bench *bench) {
    struct json_print *out = &bench->report;
    *out = json_print_begin(bench->values.json);
    harness_number(out, "ranks", job_count());
    harness_number(out, "tokens", (double)bench->values.tokens);
    harness_number(out, "rounds", (double)bench->values.rounds);
    json_print_say(
        out,
        "%u ranks, %u tokens each; medians of %u rounds (10 %% and 90 %% of them); bare: "
        "messages of as many bytes; whole: all rows written and read, too\n",
        job_count(), (uint32_t)bench->values.tokens, (uint32_t)bench->values.rounds);
    harness_titles(out, &exchange_table);
    for (uint32_t i = 0; i < FIGURE_COUNT; i++)
        if (bench->exchanges[i / 2]) bench_exchange_print_figure(bench, i);
    json_print_close(out);
}

int bench_exchange(void *given, const struct option_result *result) {
    static struct exchange_bench bench;
    struct error error = {.text = ""};
    int exit_code;
    bench.values = *(const struct exchange_values *)given;
    if (bench.values.job.ranks == 1) /* as if not given: there is nothing to measure alone */
        return command_misused("--ranks must be 2 or more");
    if (bench.values.per_token > bench.values.experts)
        return command_misused("--experts-per-token is more than --experts");
    if (bench.values.job.node_ranks && bench.values.job.ranks % bench.values.job.node_ranks)
        return command_misused("ranks-per-node must divide --ranks");
    if (bench.values.groups_kept == 0) bench.values.groups_kept = bench.values.groups;
    uint64_t group_experts = bench.values.experts / bench.values.groups;
    if (bench.values.experts % bench.values.groups ||
        bench.values.groups_kept > bench.values.groups ||
        bench.values.groups_kept * group_experts < bench.values.per_token)
        return command_misused("--groups must divide --experts, and --groups-kept of them must "
                               "have --experts-per-token");
    if (rank_job_begin(RANK_JOB_ALIKE, &bench.values.job, &exit_code)) return exit_code;
    enum status status = bench_exchange_open_bench(&bench, &error);
    if (status == STATUS_OK) status = bench_exchange_measure(&bench, &error);
    if (status == STATUS_OK && job_rank() == 0) print(&bench);
    for (uint32_t way = 0; way < WAY_COUNT; way++)
        exchange_close(bench.exchanges[way]);
    placement_close(&bench.placement);
    free(bench.chosen);
    free(bench.weights);
    free(bench.activations);
    free(bench.sum);
    free(bench.room);
    free(bench.out);
    free(bench.in);
    exit_code = command_end(status, &error);
    job_end();
    return exit_code;
}
