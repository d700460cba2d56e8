/* SPDX-License-Identifier: Apache-2.0
 * bench_line [RANKS]: the cost of forming a step of a unit of several ranks while prompts wait in
 * its line. Each rank runs some answers, one of them with a long prompt, and has too few pages for
 * another one. The walk along the line therefore looks at every prompt and finds a rank for none.
 * Cases: prompts that are not cached, and prompts with a prefix of 1,600 tokens that every rank
 * has. For comparison: the time to compute the blocks' keys anew for each prompt, rank and step,
 * and a step with an empty line, with too few pages for all answers to grow at once and with
 * enough. Times are processor times of one thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "contract/step_plan.h"
#include "serving/cache/block_key.h"
#include "serving/unit/rank_units.h"

enum {
    STEPS = 30, /* an answer's first page lasts twice as long */
    ANSWERS = 32,
    PREFIX_TOKENS = 1600,
    PROMPT_TOKENS = 2000,
    /* Two for an answer, the prefix with two of its own, and the free pages for growth. */
    PAGES = 2 * (ANSWERS - 1) + PREFIX_TOKENS / KV_BLOCK_TOKENS + 2 + 7,
    VOCAB = 100000
};

struct world {
    struct rank_units *units;
    struct machine machine;
    struct step_plan **plans; /* [ranks] of the step in flight */
    uint32_t ranks, plan_count, submitted;
    uint32_t other_records; /* records with tokens or ends of answers */
    int64_t now_ns;
    void *memory;
};

static double now_us(void) {
    struct timespec at;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at);
    return 1e6 * (double)at.tv_sec + 1e-3 * (double)at.tv_nsec;
}

static void *take_memory(size_t bytes) {
    void *memory = calloc(1, bytes);
    check(memory);
    return memory;
}

/* ---- a unit of ranks, with engines that answer at once ---- */

static void open_world(struct world *world, uint32_t ranks, uint32_t spare_pages) {
    static const uint8_t model_id[32] = {1};
    struct unit_options options = {.requests_max = 128,
                                   .page_count = PAGES + spare_pages,
                                   .context_tokens_max = 4000,
                                   .step_rows_max = 64,
                                   .step_tokens_max = 2304,
                                   .vocab_count = VOCAB,
                                   .prefix_cache = true,
                                   .prompt_patience_ns = INT64_MAX / 2,
                                   .model_id = model_id,
                                   .numerics_id = "bench"};
    struct arena arena;
    struct error error;
    size_t bytes = rank_units_memory_bytes(&options, ranks);
    *world = (struct world){.ranks = ranks, .memory = malloc(bytes)};
    check(world->memory);
    arena_over(&arena, world->memory, bytes);
    if (rank_units_create(&arena, &options, ranks, &world->units, &error)) {
        fprintf(stderr, "bench_line: %s\n", error.text);
        exit(1);
    }
    world->machine = rank_units_machine(world->units);
    world->plans = take_memory(ranks * sizeof(struct step_plan *));
}

static void close_world(struct world *world) {
    for (uint32_t rank = 0; rank < world->ranks; rank++)
        free(world->plans[rank]);
    free(world->plans);
    free(world->memory);
}

static void drain(struct world *world) {
    struct outbox *outbox = world->machine.outbox;
    for (const struct record *record = NULL; (record = machine_outbox_next(outbox, record));) {
        check(record->kind != RECORD_FINISHED); /* all are long enough */
        if (record->kind != RECORD_RUN_STEP) continue;
        uint32_t rank = ((const struct step_plan *)record)->rank;
        world->plans[rank] = realloc(world->plans[rank], record->bytes);
        check(world->plans[rank]);
        memcpy(world->plans[rank], record, record->bytes);
        world->plan_count++;
    }
    machine_outbox_clear(outbox);
}

/* Returns the time that it took. */
static double receive(struct world *world, const struct record *record) {
    double start = now_us();
    enum status status = world->machine.receive(world->machine.self, record, world->now_ns);
    double took = now_us() - start;
    check(status == STATUS_OK);
    drain(world);
    return took;
}

/* Submits a prompt with `shared` tokens of a common prefix. All other tokens are unique. */
static double submit(struct world *world, uint32_t tokens, uint32_t shared, uint32_t answer) {
    struct record_submit fixed = {.request.low = world->submitted++,
                                  .sampling.top_p = 1,
                                  .prompt_count = tokens,
                                  .new_tokens_max = answer};
    size_t bytes = record_bytes(RECORD_SUBMIT, &fixed);
    struct record_submit *submit = take_memory(round_up(bytes, 16));
    *submit = fixed;
    record_set_head(submit, RECORD_SUBMIT);
    uint32_t *text = submit_tokens(submit);
    for (uint32_t i = 0; i < tokens; i++)
        text[i] = i < shared ? i : (world->submitted * 7919 + i * 31) % VOCAB;
    double took = receive(world, &submit->record);
    free(submit);
    return took;
}

static void complete(struct world *world) {
    if (world->plan_count == 0) return;
    check(world->plan_count == world->ranks);
    world->plan_count = 0;
    for (uint32_t rank = 0; rank < world->ranks; rank++) {
        const struct step_plan *plan = world->plans[rank];
        struct step_result fixed = {
            .step = plan->step, .compute_ns = 10000000, .row_count = plan->row_count, .rank = rank};
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
        receive(world, &result->record);
        free(result);
    }
}

/* Returns the time to form the step. */
static double step(struct world *world) {
    double start = now_us();
    world->machine.step(world->machine.self, world->now_ns);
    double took = now_us() - start;
    drain(world);
    world->now_ns += 10000000;
    return took;
}

/* Gives every rank its answers, the prefix, and too few pages for a prompt. */
static void fill_ranks(struct world *world) {
    step(world); /* the hello */
    for (uint32_t rank = 0; rank < world->ranks; rank++)
        submit(world, PREFIX_TOKENS + 1, PREFIX_TOKENS, 1000);
    for (int i = 0; i < 4; i++, complete(world))
        step(world);
    for (uint32_t i = 0; i < world->ranks * (ANSWERS - 1); i++)
        submit(world, 1, 0, 1000);
    for (int i = 0; i < 12; i++, complete(world))
        step(world);
    for (uint32_t rank = 0; rank < world->ranks; rank++)
        check(unit_request_count(rank_units_unit(world->units, rank)) == ANSWERS);
}

/* ---- output ---- */

/* The best time of many for one block. */
static double key_us(void) {
    uint32_t tokens[KV_BLOCK_TOKENS] = {1};
    uint8_t forms[KV_BLOCK_TOKENS] = {0};
    struct block_key key = {{0}};
    double best = 1e9;
    for (int round = 0; round < 50; round++) {
        double start = now_us();
        for (int i = 0; i < 200; i++)
            key = block_key_next(BLOCK_KEY_TRUE, &key, tokens, forms);
        double took = (now_us() - start) / 200;
        if (took < best) best = took;
    }
    return best;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The time to compute the keys for the walk if none were stored: those up to the first missing
 * block, and the sequence's root. */
static double keys_anew_us(uint32_t ranks, uint32_t waiting, bool shared, double one_us) {
    uint32_t looks = waiting < 16 * ranks ? waiting : 16 * ranks;
    uint32_t keys = 2 + (shared ? PREFIX_TOKENS / KV_BLOCK_TOKENS : 0);
    return (double)looks * ranks * keys * one_us;
}

static void run(uint32_t ranks, uint32_t waiting, bool shared, uint32_t spare_pages,
                double one_us) {
    struct world world;
    double times[STEPS], arrivals = 0;
    open_world(&world, ranks, spare_pages);
    fill_ranks(&world);
    for (uint32_t i = 0; i < waiting; i++)
        arrivals += submit(&world, PROMPT_TOKENS, shared ? PREFIX_TOKENS : 0, 1000);
    for (int i = 0; i < STEPS; i++) {
        times[i] = step(&world);
        check(world.plan_count == ranks);
        complete(&world);
    }
    for (uint32_t rank = 0; rank < ranks; rank++) /* no request was admitted */
        check(unit_request_count(rank_units_unit(world.units, rank)) == ANSWERS);
    qsort(times, STEPS, sizeof times[0], by_value);
    printf("%5u ranks %5u prompts %-12s SUBMIT %6.1f us  step %8.1f us (%.1f to %.1f)  keys anew "
           "%.0f us\n",
           ranks, waiting,
           spare_pages ? "pages enough"
           : shared    ? "cached"
                       : "unknown",
           waiting ? arrivals / waiting : 0, times[STEPS / 2], times[0], times[STEPS - 1],
           keys_anew_us(ranks, waiting, shared, one_us));
    fflush(stdout);
    close_world(&world);
}

int main(int argc, char **argv) {
    static const uint32_t line[] = {0, 64, 512};
    uint32_t rank_counts[] = {8, 32}, count = ARRAY_COUNT(rank_counts);
    double one_us = key_us();
    if (argc > 1) {
        rank_counts[0] = (uint32_t)strtoul(argv[1], NULL, 10);
        count = 1;
    }
    printf("a block's key %.2f us\n", one_us);
    for (uint32_t r = 0; r < count; r++) {
        run(rank_counts[r], 0, false, 64, one_us);
        for (size_t w = 0; w < ARRAY_COUNT(line); w++)
            for (int shared = 0; shared < (line[w] ? 2 : 1); shared++)
                run(rank_counts[r], line[w], shared, 0, one_us);
    }
    return 0;
}
