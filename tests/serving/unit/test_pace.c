/* SPDX-License-Identifier: Apache-2.0
 * What long prompts cost the answers beside them, in virtual time on an invented machine that costs
 * about what the embedded model costs on two cores: a prompt of 1,900 tokens each second takes a
 * good quarter of it. Streams of answers of random lengths, percentiles of their time per output
 * token: (last - first token) / (tokens - 1) of each.
 */

#include "base/check.h"
#include "base/random.h"
#include "contract/step_plan.h"
#include "serving/unit/rank_units.h"
#include "test_case.h"

enum { STREAMS_MAX = 64, LONG_PROMPT = 1900, ANSWERS_MAX = 20000, REQUESTS_MAX = 1024 };
#define SECOND INT64_C(1000000000)

struct request {
    bool active, stream;
    uint32_t tokens, wanted;
    int64_t arrived_ns, first_ns, last_ns;
};

struct pace {
    double p50_ms, p99_ms, first_p50_ms, first_p99_ms, prompt_first_max_ms;
    uint32_t answers, prompts_begun, prompts_done;
};

static struct world {
    struct machine machine;
    struct step_plan *plan;
    struct request requests[REQUESTS_MAX]; /* request id low % REQUESTS_MAX */
    uint64_t submitted;
    int64_t now_ns, long_first_ns_max;
    double answers_ms[ANSWERS_MAX], firsts_ms[ANSWERS_MAX]; /* [answer_count] */
    uint32_t answer_count, running_streams, long_done;
    double noise; /* share of a step's time */
} world;

static _Alignas(8) char record_memory[1 << 16];
static struct outbox records = {.memory = record_memory, .capacity = sizeof record_memory};

static void *make(enum record_kind kind, const void *fixed) {
    machine_outbox_clear(&records);
    return machine_outbox_put(&records, kind, fixed);
}

static void submit(uint32_t prompt_count, uint32_t wanted, bool stream) {
    struct record_submit *record =
        make(RECORD_SUBMIT, &(struct record_submit){.prompt_count = prompt_count});
    uint32_t *prompt = submit_tokens(record);
    uint64_t id = world.submitted++;
    struct request *request = &world.requests[id % REQUESTS_MAX];
    check(!request->active);
    *request = (struct request){
        .active = true, .stream = stream, .wanted = wanted, .arrived_ns = world.now_ns};
    record->request.low = id;
    record->new_tokens_max = wanted;
    for (uint32_t i = 0; i < prompt_count; i++)
        prompt[i] = (uint32_t)(random_uniform(3, id, i) * 1000);
    assert_int_equal(world.machine.receive(world.machine.self, &record->record, world.now_ns), 0);
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* 0.25 ms a step, 0.15 ms an answer, 0.11 ms a prompt token, 23 ns a position that it attends to,
 * and 2.4 us for each token of context that a chunk reads back. */
static int64_t plan_ns(const struct step_plan *plan) {
    double ns = 250000;
    for (uint32_t i = 0; i < plan->row_count; i++) {
        const struct step_row *row = &step_plan_rows(plan)[i];
        double count = row->token_count, first = row->first_position;
        if (row->form == TOKEN_GENERATED)
            ns += 150000 * count;
        else
            ns += 110000 * count + 23 * count * (first + count / 2) + 2400 * (first + count);
    }
    double luck = random_uniform(5, 1, (uint32_t)plan->step);
    return (int64_t)(ns * (1 + world.noise * (luck - 0.5)));
}

static void take_finished(const struct record_finished *record) {
    struct request *request = &world.requests[record->request.low % REQUESTS_MAX];
    assert_int_equal(record->reason, FINISH_LENGTH);
    if (request->stream) {
        world.running_streams--;
        check(world.answer_count < ANSWERS_MAX);
        world.firsts_ms[world.answer_count] =
            (double)(request->first_ns - request->arrived_ns) / 1e6;
        world.answers_ms[world.answer_count++] =
            (double)(request->last_ns - request->first_ns) / 1e6 / (request->wanted - 1);
    } else {
        int64_t first_ns = request->first_ns - request->arrived_ns;
        if (first_ns > world.long_first_ns_max) world.long_first_ns_max = first_ns;
        world.long_done++;
    }
    request->active = false;
}

static void drain(void) {
    struct outbox *outbox = world.machine.outbox;
    for (const struct record *r = NULL; (r = machine_outbox_next(outbox, r));) {
        if (r->kind == RECORD_TOKENS) {
            const struct record_tokens *tokens = (const void *)r;
            struct request *request = &world.requests[tokens->request.low % REQUESTS_MAX];
            if (request->tokens == 0) request->first_ns = world.now_ns;
            request->tokens += tokens->token_count;
            request->last_ns = world.now_ns;
        } else if (r->kind == RECORD_FINISHED) {
            take_finished((const void *)r);
        } else if (r->kind == RECORD_RUN_STEP) {
            world.plan = malloc(r->bytes);
            memcpy(world.plan, r, r->bytes);
        }
    }
    machine_outbox_clear(outbox);
}

static void run_step(void) {
    world.machine.step(world.machine.self, world.now_ns);
    drain();
    if (!world.plan) return;
    int64_t ns = plan_ns(world.plan);
    struct step_result *result =
        make(RECORD_STEP_DONE, &(struct step_result){.step = world.plan->step,
                                                     .compute_ns = ns,
                                                     .row_count = world.plan->row_count});
    for (uint32_t i = 0; i < world.plan->row_count; i++) {
        step_result_rows(result)[i].slot = step_plan_rows(world.plan)[i].slot;
        step_result_rows(result)[i].token_count = step_plan_rows(world.plan)[i].sample;
    }
    free(world.plan);
    world.plan = NULL;
    world.now_ns += ns;
    assert_int_equal(world.machine.receive(world.machine.self, &result->record, world.now_ns), 0);
    drain();
}

static void begin_streams(uint32_t streams) {
    while (world.running_streams < streams) {
        uint32_t wanted = 64 + (uint32_t)(random_uniform(4, 0, (uint32_t)world.submitted) * 150);
        submit(40, wanted, true);
        world.running_streams++;
    }
}

/* A minute; a long prompt each second or none. The first five seconds are the machine's to learn.
 */
static struct pace run(uint32_t streams, bool prompts, double noise) {
    static const uint8_t model_id[32] = {1};
    struct unit_options options = {.requests_max = 128,
                                   .page_count = 4096,
                                   .context_tokens_max = 2048,
                                   .step_rows_max = STREAMS_MAX + 16,
                                   .step_tokens_max = 512,
                                   .vocab_count = 1000,
                                   .model_id = model_id,
                                   .numerics_id = "test",
                                   .prompt_bytes = 64 << 20};
    size_t bytes = rank_units_memory_bytes(&options, 1);
    void *memory = malloc(bytes);
    struct arena arena;
    struct rank_units *units;
    struct error error;
    struct pace pace = {0};
    arena_over(&arena, memory, bytes);
    assert_int_equal(rank_units_create(&arena, &options, 1, &units, &error), STATUS_OK);
    memset(&world, 0, sizeof world);
    world.machine = rank_units_machine(units);
    world.noise = noise;
    bool learnt = false;
    for (int64_t next_ns = 0; world.now_ns < 60 * SECOND;) {
        if (!learnt && world.now_ns >= 5 * SECOND) {
            learnt = true;
            world.answer_count = 0;
        }
        begin_streams(streams);
        if (prompts && world.now_ns >= next_ns) {
            submit(LONG_PROMPT, 2, false);
            next_ns += SECOND;
            pace.prompts_begun++;
        }
        run_step();
    }
    qsort(world.answers_ms, world.answer_count, sizeof(double), compare);
    pace.p50_ms = world.answers_ms[world.answer_count / 2];
    pace.p99_ms = world.answers_ms[world.answer_count * 99 / 100];
    qsort(world.firsts_ms, world.answer_count, sizeof(double), compare);
    pace.first_p50_ms = world.firsts_ms[world.answer_count / 2];
    pace.first_p99_ms = world.firsts_ms[world.answer_count * 99 / 100];
    pace.prompt_first_max_ms = (double)world.long_first_ns_max / 1e6;
    pace.prompts_done = world.long_done;
    pace.answers = world.answer_count;
    free(memory);
    return pace;
}

/* What the default pace promises: TPOT's 99th percentile at most one and a half times as long, and
 * all prompts get through at the rate at which they come. */
TEST(long_prompts_lengthen_answers_by_half_at_most) {
    static const uint32_t streams[] = {4, 16, 64};
    /* Of 64 tokens at a millisecond each, one block of a long prompt is a sixth. */
    static const double most[] = {1.65, 1.5, 1.5};
    static const double noises[] = {0, 0.3};
    for (size_t s = 0; s < ARRAY_COUNT(streams); s++)
        for (size_t n = 0; n < ARRAY_COUNT(noises); n++) {
            struct pace calm = run(streams[s], false, noises[n]);
            struct pace busy = run(streams[s], true, noises[n]);
            print_message(
                "# %u streams, noise %.1f: TPOT p50 %.2f -> %.2f ms (%.2f x), p99 %.2f -> "
                "%.2f ms (%.2f x); TTFT p50 %.0f -> %.0f, p99 %.0f -> %.0f ms; answers %u -> %u; "
                "prompts %u "
                "of %u, first token after %.0f ms at most\n",
                streams[s], noises[n], calm.p50_ms, busy.p50_ms, busy.p50_ms / calm.p50_ms,
                calm.p99_ms, busy.p99_ms, busy.p99_ms / calm.p99_ms, calm.first_p50_ms,
                busy.first_p50_ms, calm.first_p99_ms, busy.first_p99_ms, calm.answers, busy.answers,
                busy.prompts_done, busy.prompts_begun, busy.prompt_first_max_ms);
            assert_true(busy.p99_ms <= most[s] * calm.p99_ms);
            assert_true(busy.first_p99_ms < 1500);
            assert_true(busy.prompts_done + 4 >= busy.prompts_begun);
            assert_true(busy.prompt_first_max_ms < 4000);
        }
}
