/* SPDX-License-Identifier: Apache-2.0
 * Unit and engine together on the model that comes with Fathom: an answer is the same to the last
 * token whether its request runs alone or among 31 others, with the prefix cache or without, on a
 * first or a second visit, when it is answers_are_the_same_when_interrupted because pages run out,
 * when it goes on at another unit from any place, and with tokens drafted ahead or without: greedy
 * and seeded, with penalties and log probabilities, which are the same too; so are those of its
 * prompt's tokens, to the last bit those of the model's logits.
 */

#include "base/random.h"
#include "compute/model/forward.h"
#include "compute/model/sample.h"
#include "contract/machine.h"
#include "contract/slot_pages.h"
#include "host/engine/engine.h"
#include "serving/policy/speculate.h"
#include "serving/unit/rank_units.h"
#include "test_case.h"

enum {
    REQUESTS = 32,
    ANSWER_MAX = 110,
    PROMPT_MAX = 150,
    ROWS = 32,
    PAGES = 256,
    TOP_LOGPROBS = 2,
    STEP_TOKENS = 256
};

static struct engine *engine;
static struct step_result *result;

struct asked {
    uint32_t prompt[PROMPT_MAX], prompt_count, answer_count;
    struct sampling sampling;
    uint32_t stop_token; /* UINT32_MAX: none */
};

static struct asked asked[REQUESTS];

struct answers {
    uint32_t tokens[REQUESTS][ANSWER_MAX], counts[REQUESTS], hits[REQUESTS];
    struct token_logprob logprobs[REQUESTS][ANSWER_MAX][1 + TOP_LOGPROBS]; /* zeros: not asked */
    struct token_logprob scores[REQUESTS][PROMPT_MAX][1 + TOP_LOGPROBS];   /* zeros: not asked */
    uint32_t scored[REQUESTS]; /* leading tokens of the prompt that have been told of */
    enum finish_reason reasons[REQUESTS];
    uint32_t drafts_made, drafts_right;
    uint32_t ended;
    struct record_unit_load load;
};

static uint32_t below(uint64_t stream, uint32_t draw, uint32_t bound) {
    return (uint32_t)(random_uniform(11, stream, draw) * bound);
}

/* Four families of prompts that begin alike; every other request is greedy, every third has
 * penalties, every fifth tells log probabilities, every fourth the prompt's, too, some may stop
 * early. */
static void make_requests(uint32_t vocab) {
    for (uint32_t i = 0; i < REQUESTS; i++) {
        struct asked *request = &asked[i];
        request->prompt_count = 20 + below(i, 0, PROMPT_MAX - 20);
        request->answer_count = 20 + below(i, 1, ANSWER_MAX - 20);
        for (uint32_t t = 0; t < request->prompt_count; t++)
            request->prompt[t] = below(t < 70 ? 100 + i % 4 : 200 + i, 2 + t, vocab);
        request->sampling = (struct sampling){
            .temperature = i % 2 ? 0 : 0.9f, .top_p = i % 4 ? 1 : 0.8f, .seed = i};
        if (i % 3 == 0) request->sampling.repetition_penalty = 1.3f;
        if (i % 12 == 0) request->sampling.frequency_penalty = 0.4f;
        if (i % 12 == 3) request->sampling.frequency_penalty = -0.7f; /* draws to what it said */
        if (i % 12 == 6) request->sampling.presence_penalty = -1.5f;
        if (i % 5 == 0) {
            request->sampling.flags = SAMPLING_LOGPROBS;
            request->sampling.top_logprobs = TOP_LOGPROBS;
        }
        if (i % 4 == 3) {
            request->sampling.flags = SAMPLING_LOGPROBS | SAMPLING_SCORES;
            request->sampling.top_logprobs = TOP_LOGPROBS;
        }
        request->stop_token = UINT32_MAX;
    }
}

struct run {
    struct unit *unit;
    struct machine machine;
    struct slot_pages slots;
    void *memory; /* of the unit and of the slots */
};

static struct run run_open(const struct unit_options *options) {
    uint32_t pages_each = (uint32_t)divide_up(options->context_tokens_max, KV_BLOCK_TOKENS);
    size_t bytes =
        rank_units_memory_bytes(options, 1) + slot_pages_bytes(options->requests_max, pages_each);
    struct run run = {.memory = malloc(bytes)};
    struct rank_units *units;
    struct arena arena;
    struct error error;
    arena_over(&arena, run.memory, bytes);
    if (rank_units_create(&arena, options, 1, &units, &error)) fail_msg("%s", error.text);
    run.unit = rank_units_unit(units, 0);
    run.machine = rank_units_machine(units);
    assert_true(slot_pages_open(&run.slots, &arena, options->requests_max, pages_each));
    return run;
}

static struct unit_options unit_defaults(void) {
    const struct model *model = engine_model(engine);
    return (struct unit_options){.requests_max = REQUESTS,
                                 .page_count = PAGES,
                                 .context_tokens_max = PROMPT_MAX + ANSWER_MAX,
                                 .step_rows_max = ROWS,
                                 .step_tokens_max = STEP_TOKENS,
                                 .vocab_count = model_shape(model)->vocab,
                                 .model_id = model_identity(model),
                                 .numerics_id = model_numerics_id(model)};
}

/* `resumed`: the first tokens of its answer, [resumed_count], which another unit has chosen. */
static void submit(struct run *run, uint32_t number, const uint32_t *resumed,
                   uint32_t resumed_count) {
    static _Alignas(8) char memory[1 << 16];
    struct outbox outbox = {.memory = memory, .capacity = sizeof memory};
    const struct asked *request = &asked[number];
    uint32_t stops = request->stop_token != UINT32_MAX;
    uint32_t token_count = request->prompt_count + resumed_count;
    struct record_submit *record = machine_outbox_put(
        &outbox, RECORD_SUBMIT,
        &(struct record_submit){.prompt_count = token_count, .stop_token_count = stops});
    record->request.low = number;
    record->sampling = request->sampling;
    if (resumed_count) record->sampling.flags &= ~SAMPLING_SCORES; /* as a gateway does */
    record->prompt_count = request->prompt_count;
    record->resumed_count = resumed_count;
    record->new_tokens_max = request->answer_count;
    uint32_t *tokens = submit_tokens(record);
    memcpy(tokens, request->prompt, request->prompt_count * sizeof(uint32_t));
    if (resumed_count)
        memcpy(tokens + request->prompt_count, resumed, resumed_count * sizeof(uint32_t));
    if (stops) *submit_stop_tokens(record) = request->stop_token;
    assert_true(record_valid(record, record->record.bytes));
    assert_int_equal(run->machine.receive(run->machine.self, &record->record, 0), STATUS_OK);
}

static void take_scores(struct answers *answers, const struct record_scores *scores) {
    uint64_t number = scores->request.low;
    const struct token_logprob *logprobs = scores_logprobs(scores);
    if (!answers->scored[number]) answers->scored[number] = 1;
    assert_int_equal(scores->first_position, answers->scored[number]);
    assert_int_equal(scores->logprobs_each, 1 + TOP_LOGPROBS);
    assert_int_equal(answers->counts[number], 0);
    for (uint32_t i = 0; i < scores->token_count; i++, logprobs += 1 + TOP_LOGPROBS)
        memcpy(answers->scores[number][answers->scored[number]++], logprobs,
               (1 + TOP_LOGPROBS) * sizeof *logprobs);
}

static void take(struct answers *answers, const struct record *record) {
    if (record->kind == RECORD_SCORES) {
        take_scores(answers, (const void *)record);
    } else if (record->kind == RECORD_TOKENS) {
        const struct record_tokens *tokens = (const void *)record;
        uint64_t number = tokens->request.low;
        uint32_t *count = &answers->counts[number];
        assert_int_equal(tokens->first_output_position, *count);
        const uint32_t *ids = tokens_chosen(tokens);
        const struct token_logprob *logprobs = tokens_logprobs(tokens);
        for (uint32_t i = 0; i < tokens->token_count; i++, ++*count) {
            answers->tokens[number][*count] = ids[i];
            memcpy(answers->logprobs[number][*count], logprobs + i * tokens->logprobs_each,
                   tokens->logprobs_each * sizeof *logprobs);
        }
    } else if (record->kind == RECORD_FINISHED) {
        const struct record_finished *finished = (const void *)record;
        assert_true(finished->reason == FINISH_LENGTH || finished->reason == FINISH_STOP_TOKEN);
        answers->reasons[finished->request.low] = (enum finish_reason)finished->reason;
        answers->drafts_made += finished->work.drafts_made;
        answers->drafts_right += finished->work.drafts_right;
        answers->hits[finished->request.low] = finished->work.prompt_hit_tokens;
        answers->ended++;
    } else if (record->kind == RECORD_UNIT_LOAD) {
        answers->load = *(const struct record_unit_load *)record;
    }
}

/* Until nothing is left to do. */
static void finish(struct run *run, struct answers *answers) {
    static _Alignas(8) char plan[1 << 20];
    struct error error = {""};
    for (;;) {
        run->machine.step(run->machine.self, 0);
        bool planned = false;
        for (const struct record *r = NULL; (r = machine_outbox_next(run->machine.outbox, r));) {
            take(answers, r);
            if (r->kind != RECORD_RUN_STEP) continue;
            assert_true(record_valid(r, r->bytes));
            size_t bytes = slot_pages_whole_bytes(&run->slots, (const void *)r);
            assert_true(bytes > 0 && bytes <= sizeof plan);
            slot_pages_expand(&run->slots, (const void *)r, (void *)plan);
            planned = true;
        }
        machine_outbox_clear(run->machine.outbox);
        if (!planned && run->machine.next_wake_ns(run->machine.self) == MACHINE_NEVER) return;
        if (!planned) continue;
        engine_run(engine, (const struct step_plan *)(const void *)plan, result, &error);
        if (result->failed) fail_msg("%s", error.text);
        assert_int_equal(run->machine.receive(run->machine.self, &result->record, 0), STATUS_OK);
    }
}

static void run_close(struct run *run) {
    unit_audit(run->unit);
    assert_int_equal(unit_request_count(run->unit), 0);
    free(run->memory);
}

static struct answers alone; /* each request by itself, without a cache and drafts */

static void assert_same(const struct answers *answers) {
    for (uint32_t i = 0; i < REQUESTS; i++) {
        assert_int_equal(answers->counts[i], alone.counts[i]);
        assert_int_equal(answers->reasons[i], alone.reasons[i]);
        assert_memory_equal(answers->tokens[i], alone.tokens[i],
                            alone.counts[i] * sizeof(uint32_t));
        assert_memory_equal(answers->logprobs[i], alone.logprobs[i],
                            alone.counts[i] * sizeof alone.logprobs[i][0]);
        assert_int_equal(answers->scored[i], alone.scored[i]);
        assert_memory_equal(answers->scores[i], alone.scores[i], sizeof alone.scores[i]);
    }
}

/* What a step of its own, which keeps all logits, makes of them. */
TEST(scores_are_of_the_true_logits) {
    struct model *model = engine_model(engine);
    uint32_t vocab = model_shape(model)->vocab, scored = 0;
    float *logits = malloc((size_t)PROMPT_MAX * vocab * sizeof *logits);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        static _Alignas(8) char memory[1 << 14];
        struct step_plan *plan = (struct step_plan *)(void *)memory;
        const struct asked *request = &asked[i];
        uint32_t count = request->prompt_count, pages = (count + 63) / 64;
        struct error error = {""};
        if (!(request->sampling.flags & SAMPLING_SCORES)) continue;
        *plan = (struct step_plan){.row_count = 1, .token_count = count, .page_count = pages};
        record_set_head(plan, RECORD_RUN_STEP);
        step_plan_rows(plan)[0] = (struct step_row){
            .token_count = count, .page_count = pages, .logits_count = count, .fresh = 1};
        memcpy(step_plan_tokens(plan), request->prompt, count * sizeof(uint32_t));
        for (uint32_t page = 0; page < pages; page++)
            step_plan_pages(plan)[page] = (struct page_id){page};
        if (forward_run(model, plan, logits, NULL, &error)) fail_msg("%s", error.text);
        assert_int_equal(alone.scored[i], count);
        for (uint32_t t = 1; t < count; t++, scored++) {
            struct token_logprob reported[1 + TOP_LOGPROBS];
            sample_logprobs(logits + (size_t)(t - 1) * vocab, vocab, request->prompt[t],
                            TOP_LOGPROBS, reported);
            assert_memory_equal(reported, alone.scores[i][t], sizeof reported);
        }
    }
    assert_true(scored > 500);
    free(logits);
}

/* All at once, `visits` times over; the last visit's answers. */
static struct answers run_all(const struct unit_options *options, uint32_t visits) {
    struct run run = run_open(options);
    struct answers answers = {0};
    for (uint32_t visit = 0; visit < visits; visit++) {
        answers = (struct answers){0};
        for (uint32_t i = 0; i < REQUESTS; i++)
            submit(&run, i, NULL, 0);
        finish(&run, &answers);
        assert_int_equal(answers.ended, REQUESTS);
        assert_same(&answers);
    }
    run_close(&run);
    return answers;
}

TEST(answers_are_the_same_among_others) {
    struct unit_options options = unit_defaults();
    options.speculate = SPECULATE_ALWAYS;
    struct answers answers = run_all(&options, 1);
    print_message("# %u tokens drafted ahead, %u right\n", answers.drafts_made,
                  answers.drafts_right);
    assert_true(answers.drafts_right > 0 && answers.drafts_right < answers.drafts_made);
    assert_int_equal(answers.drafts_made, answers.load.totals.drafts);
    assert_int_equal(answers.drafts_right, answers.load.totals.drafts_right);
}

/* The second visit finds every whole block before the last prompt token. */
TEST(answers_are_the_same_with_the_prefix_cache) {
    struct unit_options options = unit_defaults();
    options.prefix_cache = true;
    options.speculate = SPECULATE_ALWAYS;
    struct answers answers = run_all(&options, 2);
    assert_true(answers.drafts_right > 0);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        bool scored = asked[i].sampling.flags & SAMPLING_SCORES; /* which takes all its tokens */
        assert_int_equal(answers.hits[i], scored ? 0 : (asked[i].prompt_count - 1) / 64 * 64);
    }
}

/* Prompts join whatever they cost the others' pace: on a slow machine too, pages run out. */
static void crowd(struct unit_options *options) {
    options->tpot_stretch_percent = 100000;
    options->prompt_patience_ns = 1;
}

/* Seven to nine pages for 32 requests of up to five; once without cache and drafts, once with both.
 * What is preempted depends on the answers, and those on the CPU's kernels. */
#define FEW_PAGES 7
#define MORE_PAGES 9

TEST(answers_are_the_same_when_interrupted) {
    uint64_t preemptions[2] = {0}, again[2] = {0};
    for (uint32_t i = 0; i < 2 * (MORE_PAGES - FEW_PAGES + 1); i++) {
        struct unit_options options = unit_defaults();
        const bool cached = i % 2;
        options.page_count = FEW_PAGES + i / 2;
        options.prefix_cache = cached;
        options.speculate = cached ? SPECULATE_ALWAYS : SPECULATE_NEVER;
        options.step_tokens_max = 128;
        crowd(&options);
        struct answers answers = run_all(&options, 1);
        preemptions[cached] += answers.load.totals.preemptions;
        again[cached] += answers.load.totals.recomputed_tokens;
        assert_int_equal(answers.drafts_right > 0, cached);
    }
    for (uint32_t cached = 0; cached < 2; cached++) {
        print_message("# cache %u: %u preemptions, %u tokens again\n", cached,
                      (uint32_t)preemptions[cached], (uint32_t)again[cached]);
        assert_true(preemptions[cached] > 0);
        assert_true(again[cached] > 0);
    }
}

/* Every request goes on at a unit that has never seen it, each from another place: with drafts and
 * without, with few pages and with many. */
TEST(answers_are_the_same_when_they_go_on_elsewhere) {
    const uint32_t rounds = 2 + MORE_PAGES - FEW_PAGES + 1;
    uint64_t preemptions = 0;
    for (uint32_t round = 0; round < rounds; round++) {
        const bool crowded = round > 1;
        struct unit_options options = unit_defaults();
        options.prefix_cache = round > 0;
        options.speculate = crowded ? SPECULATE_NEVER : SPECULATE_ALWAYS;
        if (crowded) {
            options.page_count = FEW_PAGES + round - 2;
            options.step_tokens_max = 128;
            crowd(&options);
        }
        struct run run = run_open(&options);
        struct answers answers = {0};
        for (uint32_t i = 0; i < REQUESTS; i++) {
            uint32_t cut = below(300 + i, round, alone.counts[i]);
            if (crowded) cut /= 4; /* much is left to write */
            memcpy(answers.tokens[i], alone.tokens[i], cut * sizeof(uint32_t));
            memcpy(answers.logprobs[i], alone.logprobs[i], cut * sizeof alone.logprobs[i][0]);
            answers.counts[i] = cut;
            if (cut) {
                memcpy(answers.scores[i], alone.scores[i], sizeof alone.scores[i]);
                answers.scored[i] = alone.scored[i];
            }
            submit(&run, i, alone.tokens[i], cut);
        }
        finish(&run, &answers);
        assert_int_equal(answers.ended, REQUESTS);
        assert_same(&answers);
        if (!crowded) assert_int_equal(answers.load.totals.preemptions, 0);
        preemptions += answers.load.totals.preemptions;
        run_close(&run);
    }
    assert_true(preemptions > 0);
}

static void open_model(bool mtp) {
    const char *source = getenv("FATHOM_SOURCE");
    char directory[4096];
    struct error error;
    struct model_options options = {.directory = directory,
                                    .activations = ACTIVATIONS_BF16,
                                    .kv_bytes = (uint64_t)64 << 20,
                                    .step_tokens_max = STEP_TOKENS,
                                    .step_rows_max = ROWS,
                                    .mtp = mtp};
    snprintf(directory, sizeof directory, "%s/models/tiny-r1", source ? source : ".");
    options.level = kernels_detect();
    if (engine_open(&options, &engine, &error)) fail_msg("%s", error.text);
    assert_true(model_page_count(engine_model(engine)) >= PAGES);
}

static void answer_alone(uint32_t number) {
    struct unit_options unit = unit_defaults();
    struct run run = run_open(&unit);
    alone.counts[number] = alone.scored[number] = 0;
    submit(&run, number, NULL, 0);
    finish(&run, &alone);
    run_close(&run);
}

/* Every fourth request stops at a token of its own answer, every eighth not before min_tokens. */
static int answer_all_alone(void **state) {
    (void)state;
    open_model(false);
    result = calloc(1, step_result_bytes_max(ROWS, STEP_TOKENS));
    make_requests(model_shape(engine_model(engine))->vocab);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        answer_alone(i);
        if (i % 4 != 1) continue;
        uint32_t stop = asked[i].answer_count / 2;
        asked[i].stop_token = alone.tokens[i][stop];
        if (i % 8 == 1) asked[i].sampling.min_tokens = stop + 1;
        memset(alone.logprobs[i], 0, sizeof alone.logprobs[i]);
        answer_alone(i);
    }
    engine_close(engine);
    open_model(true);
    return 0;
}

static int close_engine(void **state) {
    (void)state;
    engine_close(engine);
    free(result);
    return 0;
}

TEST_GROUP(answer_all_alone, close_engine)
