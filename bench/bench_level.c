/* SPDX-License-Identifier: Apache-2.0
 * bench_level [RANKS [STEP_TOKENS]]: the unit of several ranks as a prefill unit in virtual time,
 * on the published hardware's step times (simulate/hardware.h), with levelled steps and without:
 * the wait for the first token, and the time that the ranks spend in steps, on mixes with more and
 * more long prompts. Each line is the mean over some seeds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/random.h"
#include "contract/step_plan.h"
#include "serving/policy/balance_prefill.h"
#include "serving/unit/rank_units.h"
#include "simulate/hardware.h"

enum { REQUESTS = 1000, CONTEXT = 131072, VOCAB = 100000, SEEDS = 6 };

struct mix { /* shares of prompts, and of what lengths */
    const char *name;
    double long_share, long_tokens[2], short_tokens[2];
};

struct request {
    int64_t arrives_ns, first_ns;
    uint32_t prompt_count;
};

struct world {
    struct machine machine;
    struct request requests[REQUESTS];
    struct step_plan **plans; /* [ranks] of the step in flight */
    struct hardware_prefill_rank *work;
    uint32_t ranks, plan_count, ended;
    uint64_t steps, tokens;
    int64_t now_ns;
    double busy_ns;
};

struct outcome {
    double p50_ms, p99_ms, long_ms, tokens_s, step_ms; /* tokens a second of steps */
};

static void *take_memory(size_t bytes) {
    void *memory = calloc(1, bytes);
    check(memory);
    return memory;
}

/* Arrivals of a Poisson process, at a share of what the ranks can do together. */
static void make_requests(struct world *world, const struct mix *mix, uint64_t seed, double load) {
    struct hardware_costs hardware = hardware_costs_of_rank(NULL);
    struct prefill_costs costs = {hardware.token_ns, hardware.attended_ns, hardware.read_ns};
    double at_ns = 0, sum_ns = 0;
    for (uint32_t i = 0; i < REQUESTS; i++) {
        const double *range =
            random_uniform(seed, 0, i) < mix->long_share ? mix->long_tokens : mix->short_tokens;
        double length = range[0] + (range[1] - range[0]) * random_uniform(seed, 1, i);
        world->requests[i].prompt_count = (uint32_t)length;
        sum_ns += prefill_costs_of(&costs, (uint32_t)length, 0);
    }
    for (uint32_t i = 0; i < REQUESTS; i++) {
        world->requests[i].arrives_ns = (int64_t)at_ns;
        at_ns += 2 * random_uniform(seed, 2, i) * sum_ns / REQUESTS / world->ranks / load;
    }
}

static void drain(struct world *world) {
    struct outbox *outbox = world->machine.outbox;
    for (const struct record *record = NULL; (record = outbox_next(outbox, record));) {
        if (record->kind == RECORD_RUN_STEP) {
            uint32_t rank = ((const struct step_plan *)record)->rank;
            world->plans[rank] = take_memory(round_up(record->bytes, 16));
            memcpy(world->plans[rank], record, record->bytes);
            world->plan_count++;
        } else if (record->kind == RECORD_FINISHED) {
            const struct record_finished *finished = (const struct record_finished *)record;
            check(finished->reason == FINISH_LENGTH);
            world->requests[finished->request.low].first_ns = world->now_ns;
            world->ended++;
        }
    }
    outbox_clear(outbox);
}

static void send(struct world *world, const void *record) {
    enum status status = world->machine.receive(world->machine.self, record, world->now_ns);
    check(status == STATUS_OK);
    drain(world);
}

static void submit(struct world *world, uint32_t i) {
    uint32_t count = world->requests[i].prompt_count;
    struct record_submit fixed = {
        .request.low = i, .sampling.top_p = 1, .prompt_count = count, .new_tokens_max = 1};
    size_t bytes = record_bytes(RECORD_SUBMIT, &fixed);
    struct record_submit *submit = take_memory(round_up(bytes, 16));
    *submit = fixed;
    record_set_head(submit, RECORD_SUBMIT);
    uint32_t *tokens = submit_tokens(submit);
    for (uint32_t t = 0; t < count; t++)
        tokens[t] = (i * 7919 + t) % VOCAB;
    send(world, submit);
    free(submit);
}

static double step_ns(struct world *world) {
    for (uint32_t rank = 0; rank < world->ranks; rank++) {
        struct hardware_prefill_rank *work = &world->work[rank];
        *work = (struct hardware_prefill_rank){0};
        for (uint32_t i = 0; i < world->plans[rank]->row_count; i++) {
            const struct step_row *row = &step_plan_rows(world->plans[rank])[i];
            uint64_t count = row->token_count;
            work->tokens += row->token_count;
            work->attended += count * row->first_position + count * (count + 1) / 2;
            work->cached += row->first_position;
        }
        world->tokens += work->tokens;
    }
    return hardware_prefill_ns(NULL, world->work, world->ranks);
}

static void complete(struct world *world, int64_t took_ns) {
    world->plan_count = 0;
    for (uint32_t rank = 0; rank < world->ranks; rank++) {
        struct step_plan *plan = world->plans[rank];
        struct step_result fixed = {
            .step = plan->step, .compute_ns = took_ns, .row_count = plan->row_count, .rank = rank};
        size_t bytes = record_bytes(RECORD_STEP_DONE, &fixed);
        struct step_result *result = take_memory(round_up(bytes, 16));
        *result = fixed;
        record_set_head(result, RECORD_STEP_DONE);
        for (uint32_t i = 0; i < plan->row_count; i++) {
            struct step_result_row *row = &step_result_rows(result)[i];
            row->slot = step_plan_rows(plan)[i].slot;
            row->token_count = step_plan_rows(plan)[i].sample;
            row->tokens[0] = 1;
        }
        send(world, result);
        free(result);
        free(plan);
    }
}

static void run(struct world *world) {
    uint32_t arrived = 0;
    int64_t done_ns = 0, took_ns = 0;
    while (world->ended < REQUESTS) {
        while (arrived < REQUESTS && world->requests[arrived].arrives_ns <= world->now_ns)
            submit(world, arrived++);
        if (world->plan_count && done_ns <= world->now_ns) complete(world, took_ns);
        if (!world->plan_count) {
            world->machine.step(world->machine.self, world->now_ns);
            drain(world);
            if (world->plan_count) {
                took_ns = (int64_t)step_ns(world);
                done_ns = world->now_ns + took_ns;
                world->busy_ns += (double)took_ns;
                world->steps++;
            }
        }
        int64_t next_ns = world->plan_count ? done_ns : INT64_MAX;
        if (arrived < REQUESTS && world->requests[arrived].arrives_ns < next_ns)
            next_ns = world->requests[arrived].arrives_ns;
        if (next_ns == INT64_MAX) next_ns = world->now_ns + 1000;
        if (next_ns > world->now_ns) world->now_ns = next_ns;
    }
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static struct outcome live(const struct mix *mix, const struct unit_options *options,
                           uint32_t ranks, uint64_t seed, double load) {
    static double waits[REQUESTS];
    size_t bytes = rank_units_memory_bytes(options, ranks);
    struct world *world = take_memory(sizeof *world);
    void *memory = malloc(bytes);
    struct arena arena;
    struct rank_units *units;
    struct error error;
    check(memory);
    arena_over(&arena, memory, bytes);
    if (rank_units_create(&arena, options, ranks, &units, &error)) {
        fprintf(stderr, "bench_level: %s\n", error.text);
        exit(1);
    }
    world->ranks = ranks;
    world->plans = take_memory(ranks * sizeof(struct step_plan *));
    world->work = take_memory(ranks * sizeof *world->work);
    world->machine = rank_units_machine(units);
    make_requests(world, mix, seed, load);
    run(world);
    double longest = 0;
    uint32_t longs = 0;
    for (uint32_t i = 0; i < REQUESTS; i++) {
        const struct request *request = &world->requests[i];
        waits[i] = (double)(request->first_ns - request->arrives_ns) * 1e-6;
        if (request->prompt_count < mix->long_tokens[0]) continue;
        longest += waits[i];
        longs++;
    }
    qsort(waits, REQUESTS, sizeof *waits, by_value);
    struct outcome outcome = {
        waits[REQUESTS / 2], waits[REQUESTS * 99 / 100], longs ? longest / longs : 0,
        1e9 * (double)world->tokens / world->busy_ns, world->busy_ns * 1e-6 / (double)world->steps};
    free(world->work);
    free(world->plans);
    free(memory);
    free(world);
    return outcome;
}

static void compare(const struct mix *mix, uint32_t ranks, uint32_t step_tokens, double load) {
    static const uint8_t model_id[32] = {1};
    for (int levels = 0; levels < 2; levels++) {
        struct unit_options options = {.requests_max = 128,
                                       .page_count = 8192,
                                       .context_tokens_max = CONTEXT,
                                       .step_rows_max = 32,
                                       .step_tokens_max = step_tokens,
                                       .vocab_count = VOCAB,
                                       .prefix_cache = true,
                                       .level_steps = levels,
                                       .model_id = model_id,
                                       .numerics_id = "bench"};
        struct outcome mean = {0};
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            struct outcome one = live(mix, &options, ranks, seed, load);
            mean.p50_ms += one.p50_ms / SEEDS;
            mean.p99_ms += one.p99_ms / SEEDS;
            mean.long_ms += one.long_ms / SEEDS;
            mean.tokens_s += one.tokens_s / SEEDS;
            mean.step_ms += one.step_ms / SEEDS;
        }
        printf(
            "%-26s load %.0f %% %-9s p50 %7.0f ms  p99 %7.0f ms  long %7.0f ms  %6.0f tokens/s  a "
            "step %5.0f ms\n",
            mix->name, 100 * load, levels ? "levelled" : "as it is", mean.p50_ms, mean.p99_ms,
            mean.long_ms, mean.tokens_s, mean.step_ms);
        fflush(stdout);
    }
}

int main(int argc, char **argv) {
    static const struct mix mixes[] = {
        {"short: 200 to 4,000", 0, {131072, 131072}, {200, 4000}},
        {"5 % of 16,000 to 60,000", 0.05, {16000, 60000}, {200, 4000}},
        {"10 % of 60,000 to 130,000", 0.1, {60000, 130000}, {200, 4000}},
    };
    uint32_t ranks = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 8;
    uint32_t step_tokens = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 8192;
    for (size_t i = 0; i < ARRAY_COUNT(mixes); i++)
        for (double load = 0.6; load < 1; load += 0.25)
            compare(&mixes[i], ranks, step_tokens, load);
    return 0;
}
