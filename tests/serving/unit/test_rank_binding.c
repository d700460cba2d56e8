/* SPDX-License-Identifier: Apache-2.0
 * Protects what binding to ranks is for. The unit of several ranks runs in virtual time, with an
 * engine of numbers whose step takes as long as its costliest rank: of prompts of very different
 * lengths the last one in a hundred waits hardly longer for its first token when they are bound as
 * a rank is about to take them than when they are bound on arrival, and less than in turns. And
 * what levelled steps are for: all wait less.
 */

#include "base/random.h"
#include "contract/step_plan.h"
#include "serving/policy/balance/balance.h"
#include "serving/unit/rank_units.h"
#include "test_case.h"

enum { RANKS = 8, REQUESTS = 1200, PROMPT_MAX = 1800, VOCAB = 30000 };

struct request {
    int64_t arrives_ns, first_ns;
    uint32_t prompt_count, new_tokens;
};

struct world {
    struct machine machine;
    struct request requests[REQUESTS];
    struct step_plan *plans[RANKS];
    uint32_t plan_count, ended;
    int64_t now_ns;
};

static struct unit_options options_of(enum balance_method method, bool on_arrival, bool levels) {
    static const uint8_t model_id[32] = {1};
    return (struct unit_options){.requests_max = 256,
                                 .page_count = 800,
                                 .context_tokens_max = 2048,
                                 .step_rows_max = 64,
                                 .step_tokens_max = 512,
                                 .vocab_count = VOCAB,
                                 .prefix_cache = true,
                                 .rank_balance = method,
                                 .bind_on_arrival = on_arrival,
                                 .level_steps = levels,
                                 .model_id = model_id,
                                 .numerics_id = "test"};
}

static uint64_t seed;

static double draw(uint32_t what, uint64_t i) {
    return random_uniform(seed, what, i);
}

/* Most are short, one of five is long; arrivals of a Poisson process, near what the ranks can do.
 */
static void make_requests(struct world *world) {
    double at_ns = 0;
    for (uint32_t i = 0; i < REQUESTS; i++) {
        bool is_long = draw(0, i) < 0.2;
        double length = is_long ? 1000 + 800 * draw(1, i) : 20 + 200 * draw(1, i);
        at_ns += 1.1e6 * 2 * draw(2, i);
        world->requests[i] = (struct request){.arrives_ns = (int64_t)at_ns,
                                              .prompt_count = (uint32_t)length,
                                              .new_tokens = 1 + (uint32_t)(20 * draw(3, i))};
    }
}

static void drain(struct world *world) {
    struct outbox *outbox = world->machine.outbox;
    for (const struct record *record = NULL; (record = machine_outbox_next(outbox, record));) {
        if (record->kind == RECORD_RUN_STEP) {
            const struct step_plan *plan = (const struct step_plan *)record;
            world->plans[plan->rank] = malloc(record->bytes);
            memcpy(world->plans[plan->rank], record, record->bytes);
            world->plan_count++;
        } else if (record->kind == RECORD_TOKENS) {
            const struct record_tokens *tokens = (const struct record_tokens *)record;
            if (tokens->first_output_position == 0)
                world->requests[tokens->request.low].first_ns = world->now_ns;
        } else if (record->kind == RECORD_FINISHED) {
            assert_int_equal(((const struct record_finished *)record)->reason, FINISH_LENGTH);
            world->ended++;
        }
    }
    machine_outbox_clear(outbox);
}

static void send(struct world *world, const void *record) {
    assert_int_equal(world->machine.receive(world->machine.self, record, world->now_ns), STATUS_OK);
    drain(world);
}

static void submit(struct world *world, uint32_t i) {
    static union {
        struct record_submit submit;
        char bytes[sizeof(struct record_submit) + (PROMPT_MAX + 16) * sizeof(uint32_t)];
    } record;
    const struct request *request = &world->requests[i];
    record.submit = (struct record_submit){.request.low = i,
                                           .sampling.top_p = 1,
                                           .prompt_count = request->prompt_count,
                                           .new_tokens_max = request->new_tokens};
    record_set_head(&record.submit, RECORD_SUBMIT);
    uint32_t *tokens = submit_tokens(&record.submit);
    memset(tokens, 0, record.submit.record.bytes - sizeof record.submit);
    for (uint32_t t = 0; t < request->prompt_count; t++)
        tokens[t] = (i * 31 + t) % VOCAB;
    send(world, &record.submit);
}

/* 0.2 ms, and what the costliest rank's tokens take, those deep in a context longer. */
static int64_t step_ns(const struct world *world) {
    double most = 0;
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        double own = 0;
        for (uint32_t i = 0; i < world->plans[rank]->row_count; i++) {
            const struct step_row *row = &step_plan_rows(world->plans[rank])[i];
            own += row->token_count * (10e3 + 5.0 * row->first_position);
        }
        if (own > most) most = own;
    }
    return 200000 + (int64_t)most;
}

static void complete(struct world *world, int64_t took_ns) {
    world->plan_count = 0;
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        struct step_plan *plan = world->plans[rank];
        struct step_result fixed = {
            .step = plan->step, .compute_ns = took_ns, .row_count = plan->row_count, .rank = rank};
        struct step_result *result = calloc(1, record_bytes(RECORD_STEP_DONE, &fixed));
        *result = fixed;
        record_set_head(result, RECORD_STEP_DONE);
        for (uint32_t i = 0; i < plan->row_count; i++) {
            struct step_result_row *row = &step_result_rows(result)[i];
            row->slot = step_plan_rows(plan)[i].slot;
            row->token_count = step_plan_rows(plan)[i].sample;
            if (row->token_count) row->tokens[0] = 1;
        }
        world->plans[rank] = NULL;
        send(world, result);
        free(result);
        free(plan);
    }
}

static void run(struct world *world) {
    uint32_t arrived = 0;
    int64_t done_ns = 0;
    while (world->ended < REQUESTS) {
        for (; arrived < REQUESTS && world->requests[arrived].arrives_ns <= world->now_ns;
             arrived++)
            submit(world, arrived);
        if (world->plan_count && done_ns <= world->now_ns) complete(world, 1 + step_ns(world));
        if (!world->plan_count) {
            world->machine.step(world->machine.self, world->now_ns);
            drain(world);
            if (world->plan_count) done_ns = world->now_ns + step_ns(world);
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
    return x < y ? -1 : x > y;
}

struct waits { /* for the first token, ms */
    double p50, p99, most;
};

static struct waits live(enum balance_method method, bool on_arrival, bool levels) {
    static double waits[REQUESTS];
    struct unit_options options = options_of(method, on_arrival, levels);
    size_t bytes = rank_units_memory_bytes(&options, RANKS);
    struct world *world = calloc(1, sizeof *world);
    void *memory = malloc(bytes);
    struct arena arena;
    struct rank_units *units;
    struct error error;
    arena_over(&arena, memory, bytes);
    if (rank_units_create(&arena, &options, RANKS, &units, &error)) fail_msg("%s", error.text);
    world->machine = rank_units_machine(units);
    make_requests(world);
    run(world);
    for (uint32_t i = 0; i < REQUESTS; i++)
        waits[i] = (double)(world->requests[i].first_ns - world->requests[i].arrives_ns) * 1e-6;
    qsort(waits, REQUESTS, sizeof *waits, by_value);
    struct waits found = {waits[REQUESTS / 2], waits[REQUESTS * 99 / 100], waits[REQUESTS - 1]};
    free(memory);
    free(world);
    return found;
}

enum { SEEDS = 6 };

static struct waits mean_of(const char *name, enum balance_method method, bool on_arrival,
                            bool levels) {
    struct waits mean = {0};
    for (seed = 0; seed < SEEDS; seed++) {
        struct waits one = live(method, on_arrival, levels);
        mean.p50 += one.p50 / SEEDS;
        mean.p99 += one.p99 / SEEDS;
        if (one.most > mean.most) mean.most = one.most;
    }
    print_message("# first token, ms, bound %s: p50 %.1f p99 %.1f most %.1f\n", name, mean.p50,
                  mean.p99, mean.most);
    return mean;
}

TEST(prompts_that_are_bound_late_wait_no_longer) {
    struct waits late = mean_of("late", BALANCE_WORK, false, false);
    struct waits arrival = mean_of("on arrival", BALANCE_WORK, true, false);
    struct waits turns = mean_of("in turns", BALANCE_ROUND_ROBIN, true, false);
    struct waits levelled = mean_of("late, in levelled steps", BALANCE_WORK, false, true);
    assert_true(late.p99 <= arrival.p99 * 1.2);
    assert_true(late.p99 < turns.p99);
    assert_true(levelled.p50 < late.p50 && levelled.p99 < late.p99);
}
