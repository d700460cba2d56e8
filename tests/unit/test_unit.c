/* SPDX-License-Identifier: Apache-2.0
 * The unit with an invented engine: first its promises one by one, then random lives over many
 * seeds.
 */
#include "unit/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/random.h"
#include "contract/step_plan.h"
#include "policy/speculate.h"
#include "policy/step_cost.h"

enum { VOCAB = 1000, STOP_TOKEN = 7, REQUESTS_MAX = 400, TOKENS_MAX = 1100, PAGES_MAX = 64 };

/* What the world knows of each request it submitted. */
struct known {
    uint32_t prompt_count, new_tokens_max, received, endings, first_start, rows;
    uint32_t next_first; /* where its next row begins, if it is not interrupted */
    uint32_t drafted, right, pairs;
    enum finish_reason reason;
    bool cancelled;
    uint64_t chain; /* of all its known tokens, in their forms; 0: not known yet */
    uint32_t tokens[TOKENS_MAX];
};

/* A KV row of the invented engine: it stands for numbers that depend on every token up to its own
 * and on the form in which each was computed. */
struct kv_row {
    uint64_t chain;
    uint32_t token, form;
};

struct world {
    void *memory;
    struct unit *unit;
    struct machine machine;
    uint32_t outbox_capacity; /* while it claims to be full */
    struct known known[REQUESTS_MAX];
    struct kv_row kv[PAGES_MAX][KV_BLOCK_TOKENS]; /* what was written last, whoever owns it now */
    uint32_t submitted;
    struct step_plan *plan; /* copy of the step in flight; NULL: none */
    struct record_unit_load load;
    uint32_t hellos, page_count, fulls, hits;
    double made_odds, right_odds; /* of drafts */
    uint32_t draws;
    bool reuse_generated;
    int64_t now_ns, step_ns;
};

static struct unit_options small_options(void) {
    static const uint8_t model_id[32] = {1};
    return (struct unit_options){.requests_max = 12,
                                 .page_count = 24,
                                 .context_tokens_max = 1000,
                                 .step_rows_max = 6,
                                 .step_tokens_max = 200,
                                 .chunk_tokens_max = 128,
                                 .vocab_count = VOCAB,
                                 .model_id = model_id,
                                 .numerics_id = "test"};
}

static struct world *world_open(const struct unit_options *options) {
    struct world *world = calloc(1, sizeof *world);
    size_t bytes = unit_memory_bytes(options);
    struct arena arena;
    struct error error;
    world->memory = malloc(bytes);
    world->page_count = options->page_count;
    world->reuse_generated = options->reuse_generated;
    world->step_ns = 5;
    world->made_odds = 0.9;
    world->right_odds = 0.6;
    assert_true(options->page_count <= PAGES_MAX);
    arena_over(&arena, world->memory, bytes);
    assert_int_equal(unit_create(&arena, options, &world->unit, &error), STATUS_OK);
    world->machine = unit_machine(world->unit);
    return world;
}

static void world_close(struct world *world) {
    free(world->plan);
    free(world->memory);
    free(world);
}

static uint64_t chain_next(uint64_t chain, uint32_t token, uint32_t form) {
    uint64_t mixed = (chain ^ (token * 2 + form + 1)) * 0x9E3779B97F4A7C15u;
    return (mixed ^ mixed >> 29) * 0xBF58476D1CE4E5B9u | 1;
}

static double stop_odds = 0.002;

/* The token that the invented engine chooses behind a sequence: a stop token now and then. */
static uint32_t engine_token(uint64_t chain, uint64_t seed, uint32_t position) {
    uint32_t token = (uint32_t)(random_uniform(chain ^ seed, 0, position) * VOCAB);
    return random_uniform(chain ^ seed, 1, position) < stop_odds ? STOP_TOKEN : token;
}

static struct known *known_of(struct world *world, struct request_id id) {
    assert_true(id.low < world->submitted);
    return &world->known[id.low];
}

static void take_tokens(struct world *world, const struct record_tokens *record) {
    struct known *known = known_of(world, record->request);
    const uint32_t *tokens = record_tail_at(record, sizeof *record);
    assert_int_equal(record->first_output_position, known->received);
    assert_int_equal(known->endings, 0);
    assert_in_range(record->token_count, 1, 1 + LIMIT_DRAFTS);
    known->pairs += record->token_count == 2;
    for (uint32_t i = 0; i < record->token_count; i++) {
        assert_int_equal(tokens[i],
                         engine_token(known->chain, record->request.low, known->received));
        known->tokens[known->prompt_count + known->received++] = tokens[i];
        known->chain = chain_next(known->chain, tokens[i], TOKEN_GENERATED);
    }
}

static void take_finished(struct world *world, const struct record_finished *record) {
    struct known *known = known_of(world, record->request);
    known->endings++;
    known->reason = record->reason;
    assert_int_equal(known->endings, 1);
    assert_int_equal(record->output_tokens, known->received);
    assert_int_equal(record->drafts_made, known->drafted);
    assert_int_equal(record->drafts_right, known->right);
    if (known->received) assert_true(record->queue_ns >= 0);
    if (record->reason == FINISH_REFUSED_QUEUE) assert_int_equal(record->queue_ns, -1);
    assert_int_equal(record->prompt_hit_tokens + record->prompt_miss_tokens, known->prompt_count);
    assert_int_equal(record->prompt_hit_tokens, known->rows ? known->first_start : 0);
    assert_true(record->prompt_hit_tokens % KV_BLOCK_TOKENS == 0);
    world->hits += record->prompt_hit_tokens;
    if (record->reason == FINISH_LENGTH) assert_int_equal(known->received, known->new_tokens_max);
    if (record->reason == FINISH_STOP_TOKEN)
        assert_int_equal(known->tokens[known->prompt_count + known->received - 1], STOP_TOKEN);
}

/* No other row may read or write a page that this one writes to. */
static void check_writes(const struct step_plan *plan, const struct step_row *row) {
    const struct page_id *pages = step_plan_pages(plan);
    for (uint32_t w = row->first_position / KV_BLOCK_TOKENS; w < row->page_count; w++)
        for (uint32_t i = 0; i < plan->row_count; i++) {
            const struct step_row *other = &step_plan_rows(plan)[i];
            for (uint32_t p = 0; p < other->page_count; p++)
                assert_true((other == row && p == w) ||
                            pages[other->page_index + p].index != pages[row->page_index + w].index);
        }
}

/* The engine trusts a plan blindly, so the world looks at every row. */
static void take_plan(struct world *world, const struct step_plan *plan) {
    assert_null(world->plan);
    world->plan = malloc(plan->record.bytes);
    memcpy(world->plan, plan, plan->record.bytes);
    const struct page_id *pages = step_plan_pages(plan);
    for (uint32_t i = 0; i < plan->row_count; i++) {
        const struct step_row *row = &step_plan_rows(plan)[i];
        struct known *known = &world->known[row->sampling.seed];
        for (uint32_t p = 0; p < row->page_count; p++)
            assert_true(pages[row->page_index + p].index < world->page_count);
        check_writes(plan, row);
        if (known->rows++ == 0) known->first_start = row->first_position;
        if (known->rows == 1) assert_int_equal(row->fresh, 1);
        if (!row->fresh) assert_int_equal(row->first_position, known->next_first);
        if (row->draft_count) {
            assert_int_equal(row->fresh, 0);
            assert_true(known->received + 2 <= known->new_tokens_max);
        }
        uint32_t end = row->first_position + row->token_count;
        if (row->form == TOKEN_PROMPT && !world->reuse_generated)
            assert_true(end == known->prompt_count || end % KV_BLOCK_TOKENS == 0);
        assert_true(end <= known->prompt_count + known->received);
        assert_int_equal(row->sample, end == known->prompt_count + known->received);
    }
}

static void drain(struct world *world) {
    struct outbox *outbox = world->machine.outbox;
    for (const struct record *r = NULL; (r = outbox_next(outbox, r));) {
        assert_true(record_valid(r, r->bytes));
        switch (r->kind) {
        case RECORD_TOKENS:
            take_tokens(world, (const void *)r);
            break;
        case RECORD_FINISHED:
            take_finished(world, (const void *)r);
            break;
        case RECORD_RUN_STEP:
            take_plan(world, (const void *)r);
            break;
        case RECORD_UNIT_HELLO:
            world->hellos++;
            break;
        case RECORD_UNIT_LOAD:
            world->load = *(const struct record_unit_load *)r;
            break;
        default:
            fail();
        }
    }
    outbox_clear(outbox);
    if (world->outbox_capacity) outbox->capacity = world->outbox_capacity;
    assert_int_equal(world->load.pages_free + world->load.pages_held + world->load.pages_cached,
                     world->hellos ? world->page_count : 0);
    unit_audit(world->unit);
}

static enum status send(struct world *world, const void *record) {
    assert_true(record_valid(record, ((const struct record *)record)->bytes));
    return world->machine.receive(world->machine.self, record, world->now_ns);
}

static void must_send(struct world *world, const void *record) {
    if (send(world, record) == STATUS_OK) return;
    world->fulls++;
    drain(world); /* an empty outbox takes anything */
    assert_int_equal(send(world, record), STATUS_OK);
}

static _Alignas(8) char record_memory[1 << 16];
static struct outbox records = {.memory = record_memory, .capacity = sizeof record_memory};

static void *make(enum record_kind kind, size_t bytes) {
    outbox_clear(&records);
    return outbox_put(&records, kind, bytes);
}

/* Request number n is named n and has seed n. */
static uint32_t submit_tokens(struct world *world, const uint32_t *tokens, uint32_t prompt_count,
                              uint32_t new_tokens_max, int32_t priority) {
    size_t prompt_at = record_tail(sizeof(struct record_submit));
    size_t stop_at = record_tail(prompt_at + prompt_count * sizeof(uint32_t));
    struct record_submit *record = make(RECORD_SUBMIT, stop_at + sizeof(uint32_t));
    uint32_t number = world->submitted++;
    check(number < REQUESTS_MAX && prompt_count <= TOKENS_MAX);
    record->request.low = number;
    record->sampling.seed = number;
    record->prompt_count = prompt_count;
    record->new_tokens_max = new_tokens_max;
    record->stop_token_count = 1;
    record->priority = priority;
    struct known *known = &world->known[number];
    *known = (struct known){.prompt_count = prompt_count, .new_tokens_max = new_tokens_max};
    memcpy(known->tokens, tokens, prompt_count * sizeof *tokens);
    memcpy((char *)record + prompt_at, tokens, prompt_count * sizeof *tokens);
    *(uint32_t *)((char *)record + stop_at) = STOP_TOKEN;
    if (!world->reuse_generated)
        for (uint32_t i = 0; i < prompt_count; i++)
            known->chain = chain_next(known->chain, tokens[i], TOKEN_PROMPT);
    must_send(world, record);
    return number;
}

/* A prompt like no other, unless it is of a family: those begin alike. */
static uint32_t submit_family(struct world *world, uint32_t family, uint32_t prompt_count,
                              uint32_t new_tokens_max) {
    uint32_t tokens[TOKENS_MAX];
    for (uint32_t i = 0; i < prompt_count; i++)
        tokens[i] = (family && i < family * 100 ? family + 3 * i : world->submitted + i) % VOCAB;
    return submit_tokens(world, tokens, prompt_count, new_tokens_max, 0);
}

static uint32_t submit(struct world *world, uint32_t prompt_count, uint32_t new_tokens_max) {
    return submit_family(world, 0, prompt_count, new_tokens_max);
}

/* The next turn of a talk: an earlier prompt, what was answered so far, and some more. */
static uint32_t submit_turn(struct world *world, uint32_t earlier, uint32_t more,
                            uint32_t new_tokens_max) {
    uint32_t tokens[TOKENS_MAX];
    const struct known *known = &world->known[earlier];
    uint32_t count = known->prompt_count + known->received;
    if (count + more > TOKENS_MAX - 60) more = 1;
    memcpy(tokens, known->tokens, count * sizeof *tokens);
    for (uint32_t i = 0; i < more; i++)
        tokens[count + i] = (world->submitted * 5 + i) % VOCAB;
    return submit_tokens(world, tokens, count + more, new_tokens_max, 0);
}

static void cancel(struct world *world, uint32_t number) {
    struct record_cancel *record = make(RECORD_CANCEL, sizeof *record);
    record->request.low = number;
    world->known[number].cancelled = true;
    must_send(world, record);
}

static void step(struct world *world) {
    world->machine.step(world->machine.self, world->now_ns);
}

static struct kv_row *kv_at(struct world *world, const struct step_plan *plan,
                            const struct step_row *row, uint32_t position) {
    struct page_id page = step_plan_pages(plan)[row->page_index + position / KV_BLOCK_TOKENS];
    return &world->kv[page.index][position % KV_BLOCK_TOKENS];
}

/* All that a row's attention would read must stand in its pages, as one sequence; its own tokens
 * join. Returns the chain of the last. */
static uint64_t compute_row(struct world *world, const struct step_plan *plan,
                            const struct step_row *row) {
    const struct known *known = &world->known[row->sampling.seed];
    const uint32_t *tokens = step_plan_tokens(plan) + row->token_index;
    uint64_t chain = 0;
    for (uint32_t position = 0; position < row->first_position + row->token_count; position++) {
        struct kv_row *kv = kv_at(world, plan, row, position);
        if (position >= row->first_position)
            *kv = (struct kv_row){
                .chain = chain_next(chain, tokens[position - row->first_position], row->form),
                .token = tokens[position - row->first_position],
                .form = row->form};
        assert_true(kv->token == known->tokens[position]);
        assert_true(kv->chain == chain_next(chain, kv->token, kv->form));
        if (position >= known->prompt_count) assert_int_equal(kv->form, TOKEN_GENERATED);
        if (position < known->prompt_count && !world->reuse_generated)
            assert_int_equal(kv->form, TOKEN_PROMPT);
        chain = kv->chain;
    }
    return chain;
}

/* A step that fails may have written anything to the pages that it was to write to. */
static void spoil_row(struct world *world, const struct step_plan *plan,
                      const struct step_row *row) {
    for (uint32_t i = 0; i < row->token_count + row->draft_count; i++)
        kv_at(world, plan, row, row->first_position + i)->chain = 0;
}

/* Guesses the token behind the row's, and computes it too: at times it is right. `chain` is that of
 * the row's last token. */
static void draft_row(struct world *world, const struct step_plan *plan, const struct step_row *row,
                      uint64_t chain, struct step_result_row *out) {
    struct known *known = &world->known[row->sampling.seed];
    if (!row->draft_count || random_uniform(1, 0, world->draws++) >= world->made_odds) return;
    bool right = random_uniform(1, 1, world->draws++) < world->right_odds;
    uint32_t draft = right ? out->tokens[0] : (out->tokens[0] + 1) % VOCAB;
    chain = chain_next(chain, draft, TOKEN_GENERATED);
    *kv_at(world, plan, row, row->first_position + 1) =
        (struct kv_row){.chain = chain, .token = draft, .form = TOKEN_GENERATED};
    out->draft_count = 1;
    known->drafted++;
    if (!right) return;
    out->tokens[out->token_count++] =
        engine_token(chain, row->sampling.seed, row->output_position + 1);
    known->right++;
    known->next_first++;
}

/* Computes the plan in flight. */
static void complete(struct world *world, bool failed) {
    struct step_plan *plan = world->plan;
    check(plan);
    world->plan = NULL;
    uint32_t row_count = failed ? 0 : plan->row_count;
    struct step_result *result =
        make(RECORD_STEP_DONE, sizeof *result + row_count * sizeof(struct step_result_row));
    result->step = plan->step;
    result->compute_ns = world->step_ns;
    result->row_count = row_count;
    result->failed = failed;
    struct step_result_row *rows = record_tail_at(result, sizeof *result);
    for (uint32_t i = 0; i < plan->row_count; i++) {
        const struct step_row *row = &step_plan_rows(plan)[i];
        struct known *known = &world->known[row->sampling.seed];
        if (failed) {
            spoil_row(world, plan, row);
            continue;
        }
        uint64_t chain = compute_row(world, plan, row);
        if (row->sample && row->output_position == 0 && !known->chain) known->chain = chain;
        if (row->sample) assert_true(chain == known->chain); /* as if never interrupted */
        rows[i].slot = row->slot;
        rows[i].token_count = row->sample;
        known->next_first = row->first_position + row->token_count;
        if (!row->sample) continue;
        rows[i].tokens[0] = engine_token(chain, row->sampling.seed, row->output_position);
        draft_row(world, plan, row, chain, &rows[i]);
    }
    must_send(world, result);
    free(plan);
}

static void run_until_idle(struct world *world) {
    for (int turn = 0; turn < 100000; turn++) {
        drain(world);
        if (world->plan)
            complete(world, false);
        else if (world->machine.next_wake_ns(world->machine.self) == MACHINE_NEVER)
            return;
        drain(world);
        step(world);
    }
    fail();
}

static void assert_empty(struct world *world) {
    drain(world);
    assert_int_equal(unit_request_count(world->unit), 0);
    assert_int_equal(world->load.pages_held, 0);
    assert_int_equal(world->load.requests_waiting + world->load.requests_running, 0);
    for (uint32_t i = 0; i < world->submitted; i++)
        assert_int_equal(world->known[i].endings, 1);
}

/* ---- promises ------------------------------------------------------------------------------- */

static void it_introduces_itself_once(void **state) {
    (void)state;
    struct unit_options options = small_options();
    struct world *world = world_open(&options);
    assert_int_not_equal(world->machine.next_wake_ns(world->machine.self), MACHINE_NEVER);
    run_until_idle(world);
    submit(world, 10, 3);
    run_until_idle(world);
    assert_int_equal(world->hellos, 1);
    assert_empty(world);
    world_close(world);
}

/* Prompts longer than a step, answers to the last allowed token, many at once. */
static void requests_of_all_sizes_end_well(void **state) {
    (void)state;
    struct unit_options options = small_options();
    struct world *world = world_open(&options);
    static const uint32_t sizes[][2] = {{1, 1}, {64, 1}, {65, 64}, {700, 40}, {128, 300}, {999, 1}};
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++)
        submit(world, sizes[i][0], sizes[i][1]);
    run_until_idle(world);
    for (uint32_t i = 0; i < world->submitted; i++)
        assert_true(world->known[i].reason == FINISH_LENGTH ||
                    world->known[i].reason == FINISH_STOP_TOKEN);
    assert_int_equal(world->known[0].received, 1);
    assert_empty(world);
    world_close(world);
}

static void what_cannot_run_is_refused_at_once(void **state) {
    (void)state;
    struct unit_options options = small_options();
    options.page_count = 10; /* 640 tokens */
    struct world *world = world_open(&options);
    uint32_t context = submit(world, 990, 11), memory = submit(world, 600, 41);
    drain(world);
    assert_int_equal(world->known[context].reason, FINISH_REFUSED_TOO_LARGE);
    assert_int_equal(world->known[memory].reason, FINISH_REFUSED_TOO_LARGE);
    for (int i = 0; i < 12; i++)
        submit(world, 60, 4);
    uint32_t late = submit(world, 60, 4);
    drain(world);
    assert_int_equal(world->known[late].reason, FINISH_REFUSED_QUEUE);
    struct record_drain *drain_record = make(RECORD_DRAIN, sizeof *drain_record);
    must_send(world, drain_record);
    uint32_t later = submit(world, 60, 4);
    drain(world);
    assert_int_equal(world->known[later].reason, FINISH_REFUSED_DRAINING);
    run_until_idle(world); /* those let in before still run */
    assert_int_equal(world->known[2].endings, 1);
    assert_true(world->known[2].reason <= FINISH_LENGTH);
    assert_empty(world);
    world_close(world);
}

/* Three answers grow past the pages there are: the youngest gives way and comes back, and nobody
 * can tell from the tokens. */
static void who_is_interrupted_continues_as_if_never(void **state) {
    (void)state;
    struct unit_options options = small_options();
    options.page_count = 9;
    for (uint32_t cached = 0; cached < 2; cached++) {
        options.prefix_cache = cached;
        struct world *world = world_open(&options);
        for (int i = 0; i < 3; i++)
            submit(world, 100, 300);
        run_until_idle(world);
        assert_true(world->load.preemptions_total > 0);
        if (!cached) assert_true(world->load.recomputed_tokens_total > 0);
        assert_empty(world);
        world_close(world);
    }
}

/* The engine still writes to the pages of a running request: they may go back only after the step.
 */
static void a_request_cancelled_in_a_step_frees_its_pages_after_it(void **state) {
    (void)state;
    struct unit_options options = small_options();
    struct world *world = world_open(&options);
    uint32_t running = submit(world, 100, 50);
    step(world);
    drain(world);
    assert_non_null(world->plan);
    uint32_t waiting = submit(world, 100, 50);
    cancel(world, running);
    cancel(world, waiting);
    drain(world);
    assert_int_equal(world->known[running].endings, 0);
    assert_int_equal(world->load.pages_held, 3);
    assert_int_equal(world->known[waiting].reason, FINISH_CANCELLED);
    complete(world, false);
    drain(world);
    assert_int_equal(world->known[running].reason, FINISH_CANCELLED);
    cancel(world, running); /* late: ignored */
    assert_empty(world);
    world_close(world);
}

static void a_failed_step_fails_its_requests_only(void **state) {
    (void)state;
    struct unit_options options = small_options();
    struct world *world = world_open(&options);
    uint32_t first = submit(world, 100, 50);
    step(world);
    drain(world);
    uint32_t second = submit(world, 100, 50);
    complete(world, true);
    drain(world);
    assert_int_equal(world->known[first].reason, FINISH_FAILED);
    assert_int_equal(world->known[second].endings, 0);
    run_until_idle(world);
    assert_true(world->known[second].reason <= FINISH_LENGTH);
    assert_empty(world);
    world_close(world);
}

static void options_out_of_range_are_named(void **state) {
    (void)state;
    static char memory[1 << 10];
    struct unit_options options = small_options();
    struct arena arena;
    struct unit *unit;
    struct error error;
    arena_over(&arena, memory, sizeof memory);
    options.step_tokens_max = 69;
    assert_int_equal(unit_create(&arena, &options, &unit, &error), STATUS_INVALID);
    assert_non_null(strstr(error.text, "step_tokens_max is 69, must be 70 to"));
    options = small_options();
    options.outbox_bytes = 100;
    assert_int_equal(unit_create(&arena, &options, &unit, &error), STATUS_INVALID);
    options = small_options();
    assert_int_equal(unit_create(&arena, &options, &unit, &error), STATUS_NO_MEMORY);
}

/* ---- time ---------------------------------------------------------------------------------- */

/* A machine: 2 ms a step, 50 us an answer, 60 us a prompt token, 10 ns a position it reads. */
static int64_t plan_ns(const struct step_plan *plan) {
    struct step_work work = {0};
    for (uint32_t i = 0; i < plan->row_count; i++) {
        const struct step_row *row = &step_plan_rows(plan)[i];
        if (row->token_count == 1)
            work.answer_rows++;
        else
            step_work_add(&work, row->first_position, row->token_count);
    }
    return 2000000 + 50000 * (int64_t)work.answer_rows + 60000 * (int64_t)work.prompt_tokens +
           10 * (int64_t)work.attended;
}

/* One step in virtual time. */
static void step_in_time(struct world *world) {
    step(world);
    drain(world);
    assert_non_null(world->plan);
    world->step_ns = plan_ns(world->plan);
    world->now_ns += world->step_ns;
    complete(world, false);
    drain(world);
}

static struct unit_options timed_options(void) {
    struct unit_options options = small_options();
    options.page_count = 60;
    options.step_tokens_max = 512;
    options.chunk_tokens_max = 0;
    return options;
}

/* Milliseconds that a token of four running answers takes; beside_prompts: only while one of 640
 * tokens is computed, which comes every 600 ms and must be done before the next. */
static double answer_ms(const struct unit_options *options, bool beside_prompts, double *first_ms) {
    struct world *world = world_open(options);
    uint32_t prompt = UINT32_MAX, tokens = 0;
    stop_odds = 0;
    int64_t arrived_ns = 0, counted_ns = 0, longest_ns = 0;
    for (int i = 0; i < 4; i++)
        submit(world, 10, 900);
    for (int turn = 0; turn < 800; turn++) {
        bool pending = prompt != UINT32_MAX && !world->known[prompt].received;
        if (beside_prompts && turn >= 30 && world->now_ns - arrived_ns >= 600000000) {
            assert_false(pending);
            prompt = submit(world, 640, 1);
            arrived_ns = world->now_ns;
            pending = true;
        }
        int64_t before_ns = world->now_ns;
        step_in_time(world);
        if (pending && world->now_ns - arrived_ns > longest_ns)
            longest_ns = world->now_ns - arrived_ns;
        if (turn < 30 || pending != beside_prompts) continue;
        tokens++;
        counted_ns += world->now_ns - before_ns;
    }
    world_close(world);
    stop_odds = 0.002;
    *first_ms = (double)longest_ns / 1e6;
    return (double)counted_ns / 1e6 / tokens;
}

/* Prompts beside answers lengthen them by the stretch that is allowed and no more, whether a block
 * fits into one step's allowance or not; and each prompt gets through before the next arrives. */
static void prompts_do_not_starve_answers_nor_answers_prompts(void **state) {
    (void)state;
    double first_ms;
    struct unit_options options = timed_options();
    double calm = answer_ms(&options, false, &first_ms);
    for (uint32_t stretch = 130; stretch <= 400; stretch += 90) {
        options.tpot_stretch_percent = stretch;
        double busy = answer_ms(&options, true, &first_ms);
        print_message(
            "# %u %%: %.2f ms a token, %.2f ms with prompts (%.2f x), first after %.0f ms\n",
            stretch, calm, busy, busy / calm, first_ms);
        assert_true(busy <= calm * stretch / 100 * 1.1);
    }
    options.tpot_stretch_percent = 110; /* prompts want more than that: their waiting earns it */
    options.prompt_patience_ns = 100000000;
    answer_ms(&options, true, &first_ms);
    print_message("# 110 %%, patience 100 ms: first after %.0f ms\n", first_ms);
    assert_true(first_ms < 400);
    options.prompt_patience_ns = 0;
    options.tpot_target_ns = 1; /* cannot be kept: prompts get a block in 16 steps all the same */
    double busy = answer_ms(&options, true, &first_ms);
    print_message("# least: %.2f ms (%.2f x), first after %.0f ms\n", busy, busy / calm, first_ms);
}

/* Urgent requests keep coming, as many as can run: one that is not urgent waits only as long as its
 * lower priority is worth. */
static void nobody_waits_forever(void **state) {
    (void)state;
    struct unit_options options = timed_options();
    uint32_t tokens[64] = {0};
    options.step_rows_max = 2;
    options.priority_ns = 500000000;
    struct world *world = world_open(&options);
    uint32_t patient = UINT32_MAX;
    for (uint32_t turn = 0; turn < 2000; turn++) {
        while (unit_request_count(world->unit) < 6) {
            tokens[1] = world->submitted;
            submit_tokens(world, tokens, 64, 20, patient == UINT32_MAX ? 0 : 1);
            if (patient == UINT32_MAX) patient = world->submitted - 1;
        }
        step_in_time(world);
        if (world->known[patient].received > 0) break;
    }
    assert_true(world->known[patient].received > 0);
    assert_true(world->now_ns < 2 * options.priority_ns);
    world_close(world);
}

/* ---- random lives --------------------------------------------------------------------------- */

static uint64_t seed_now;
static uint32_t draws, answers_max;

static uint32_t below(uint32_t bound) {
    return (uint32_t)(random_uniform(seed_now, 9, draws++) * bound);
}

static struct unit_options random_options(void) {
    struct unit_options options = small_options();
    options.requests_max = 1 + below(20);
    options.page_count = 4 + below(below(2) ? 12 : 40);
    options.prefix_cache = below(4) > 0;
    options.reuse_generated = below(2);
    options.evict_rule = below(2);
    options.speculate = below(3);
    options.priority_ns = 1 + below(3000);
    options.tpot_target_ns = below(2) ? 1 + below(100) : 0;
    options.tpot_stretch_percent = 100 + below(100);
    options.prompt_patience_ns = 1 + below(100000);
    options.step_rows_max = 1 + below(8);
    options.step_tokens_max = options.step_rows_max + KV_BLOCK_TOKENS + below(300);
    options.chunk_tokens_max = below(2) ? KV_BLOCK_TOKENS + below(200) : 0;
    options.prompt_bytes = below(2) ? POOL_CHUNK_BYTES * (1 + below(8)) : 0;
    return options;
}

/* As if the outbox held as much as it can, until it is drained. */
static void fill_outbox(struct world *world) {
    struct outbox *outbox = world->machine.outbox;
    if (outbox->used == 0) return;
    if (!world->outbox_capacity) world->outbox_capacity = outbox->capacity;
    outbox->capacity = outbox->used + 8;
}

/* One step whole. */
static void turn_engine(struct world *world) {
    step(world);
    drain(world);
    if (world->plan) complete(world, false);
    drain(world);
}

/* A prompt of its own, of a family, or a talk's next turn. */
static void arrive(struct world *world) {
    uint32_t kind = below(4), size = 1 + below(below(4) ? 150 : 1000);
    uint32_t answer = 1 + below(answers_max);
    if (kind == 0 && world->submitted)
        submit_turn(world, below(world->submitted), 1 + below(100), answer);
    else
        submit_family(world, kind == 1 ? 0 : 1 + below(3), size, answer);
}

/* Everything at random moments: arrivals, cancellations, failed steps, undrained outboxes (FULL), a
 * drain, few pages. Whatever happens: one ending each, tokens in order and the same as without
 * interruptions, only rows read that were written for these very tokens, pages back, tables empty.
 */
static void every_life_ends_once_and_returns_its_pages(void **state) {
    (void)state;
    uint32_t reasons[FINISH_REASON_COUNT] = {0}, fulls = 0;
    uint64_t drafts = 0, right = 0;
    uint64_t hits = 0, evicted = 0, preemptions = 0, recomputed = 0, steps = 0, outputs = 0;
    for (seed_now = 0; seed_now < 300; seed_now++) {
        draws = 0;
        struct unit_options options = random_options();
        struct world *world = world_open(&options);
        uint32_t turns = 200 + below(800), failures = below(2) ? below(10) : 0;
        uint32_t arrivals = 1 + below(3), quick = below(2) ? 1 : 1 + below(12);
        answers_max = below(2) ? 60 : 600;
        uint32_t drain_odds = 1 + below(below(3) ? 2 : 60), cancel_odds = 1 + below(20);
        for (uint32_t turn = 0; turn < turns; turn++) {
            world->now_ns += below(1000);
            uint32_t act = below(10);
            if (act < arrivals && world->submitted < REQUESTS_MAX)
                arrive(world);
            else if (act == 3 && world->submitted && below(cancel_odds) == 0)
                cancel(world, below(world->submitted));
            else if (act < 7 && world->plan) {
                world->step_ns = below(200);
                complete(world, below(100) < failures);
            } else if (act == 7 && below(200) == 0)
                must_send(world, make(RECORD_DRAIN, sizeof(struct record_drain)));
            step(world);
            if (below(20) == 0) fill_outbox(world);
            if (below(drain_odds) == 0) drain(world);
            for (uint32_t i = below(quick); i > 0; i--)
                turn_engine(world);
        }
        run_until_idle(world);
        assert_empty(world);
        for (uint32_t i = 0; i < world->submitted; i++)
            reasons[world->known[i].reason]++;
        fulls += world->fulls;
        steps += world->load.steps_total;
        outputs += world->load.output_tokens_total;
        hits += world->hits;
        evicted += world->load.evicted_pages_total;
        preemptions += world->load.preemptions_total;
        recomputed += world->load.recomputed_tokens_total;
        drafts += world->load.drafts_total;
        right += world->load.drafts_right_total;
        world_close(world);
    }
    for (int i = 0; i < FINISH_REASON_COUNT; i++)
        assert_true(reasons[i] > 0); /* all were met */
    assert_true(fulls > 20);
    print_message(
        "# %lu steps, %lu tokens, %lu hit; pages evicted %lu; interrupted %lu, again %lu; drafts "
        "%lu, %lu right\n",
        (unsigned long)steps, (unsigned long)outputs, (unsigned long)hits, (unsigned long)evicted,
        (unsigned long)preemptions, (unsigned long)recomputed, (unsigned long)drafts,
        (unsigned long)right);
    assert_true(drafts > 10000 && right > 5000 && right < drafts);
    assert_true(hits > 10000 && evicted > 1000 && preemptions > 50 && recomputed > 5000);
}

/* ---- drafts -------------------------------------------------------------------------------- */

static struct unit_options drafting_options(void) {
    struct unit_options options = small_options();
    options.speculate = SPECULATE_ALWAYS;
    return options;
}

/* With every draft right an answer takes half the steps, one more where a draft would end a block,
 * and its last token needs no draft; with every draft wrong it takes a step for each token. */
static void drafts_save_steps_when_they_are_right(void **state) {
    (void)state;
    static const struct {
        double right;
        uint32_t prompt, answer, steps, pairs;
    } cases[] = {
        {1, 10, 1, 1, 0},    {1, 10, 2, 2, 0},    {1, 10, 3, 2, 1},
        {1, 10, 4, 3, 1},    {1, 10, 41, 21, 20}, {1, 10, 52, 27, 25},
        {1, 10, 55, 29, 26}, {1, 11, 55, 28, 27}, {0, 10, 55, 55, 0},
    };
    double odds = stop_odds;
    stop_odds = 0;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct unit_options options = drafting_options();
        struct world *world = world_open(&options);
        world->made_odds = 1;
        world->right_odds = cases[i].right;
        submit(world, cases[i].prompt, cases[i].answer);
        run_until_idle(world);
        assert_int_equal(world->known[0].received, cases[i].answer);
        assert_int_equal(world->load.steps_total, cases[i].steps);
        assert_int_equal(world->known[0].pairs, cases[i].pairs);
        assert_int_equal(world->load.drafts_total, world->known[0].drafted);
        assert_empty(world);
        world_close(world);
    }
    stop_odds = odds;
}

/* A stop token ends the answer, though the engine chose another behind it. */
static void nothing_follows_a_stop_token(void **state) {
    (void)state;
    struct unit_options options = drafting_options();
    struct world *world = world_open(&options);
    double odds = stop_odds;
    uint32_t cut = 0;
    stop_odds = 0.2;
    world->right_odds = 1;
    for (uint32_t i = 0; i < 200; i++) {
        submit(world, 10, 50);
        run_until_idle(world);
        const struct known *known = &world->known[i];
        /* one from the prompt, two from each right draft, one from each other row */
        uint32_t chosen = 1 + 2 * known->right + (known->rows - 1 - known->right);
        cut += chosen - known->received;
    }
    assert_true(cut > 10);
    stop_odds = odds;
    assert_empty(world);
    world_close(world);
}

/* The second of two tokens may not be chosen from what only the first had to keep off. */
static void no_draft_where_stop_tokens_become_free(void **state) {
    (void)state;
    struct unit_options options = drafting_options();
    struct world *world = world_open(&options);
    double odds = stop_odds;
    stop_odds = 0;
    world->made_odds = 1;
    world->right_odds = 0;
    enum { PROMPT = 5, MIN = 6, ANSWER = 12 };
    struct record_submit *record = make(RECORD_SUBMIT, submit_bytes(PROMPT, 1, 0));
    record->sampling.min_tokens = MIN;
    record->prompt_count = PROMPT;
    record->new_tokens_max = ANSWER;
    record->stop_token_count = 1;
    *(uint32_t *)((char *)record + submit_stops_at(PROMPT)) = STOP_TOKEN;
    world->submitted = 1;
    world->known[0] = (struct known){.prompt_count = PROMPT, .new_tokens_max = ANSWER};
    for (uint32_t i = 0; i < PROMPT; i++)
        world->known[0].chain = chain_next(world->known[0].chain, 0, TOKEN_PROMPT);
    must_send(world, record);
    for (uint32_t turn = 0; turn < ANSWER; turn++) {
        step(world);
        drain(world);
        const struct step_row *row = step_plan_rows(world->plan);
        assert_int_equal(row->output_position, turn);
        assert_int_equal(row->bias_count, turn < MIN);
        assert_int_equal(row->draft_count, turn > 0 && turn != MIN - 1 && turn != ANSWER - 1);
        complete(world, false);
        drain(world);
    }
    stop_odds = odds;
    assert_empty(world);
    world_close(world);
}

/* Two answers grow in step, and one page is left when both drafts would begin a block: one gets it,
 * the other goes without, and nobody is interrupted until a known token needs a page. */
static void no_draft_takes_a_page_from_others(void **state) {
    (void)state;
    double odds = stop_odds;
    stop_odds = 0;
    struct unit_options options = drafting_options();
    options.page_count = 5;
    struct world *world = world_open(&options);
    world->right_odds = 0;
    world->made_odds = 1;
    submit(world, 62, 80);
    submit(world, 62, 80);
    const struct step_row *rows = NULL;
    for (;;) {
        step(world);
        drain(world);
        rows = step_plan_rows(world->plan);
        if (rows->first_position == 2 * KV_BLOCK_TOKENS - 1) break;
        complete(world, false);
        drain(world);
    }
    assert_int_equal(world->plan->row_count, 2);
    assert_int_equal(rows[0].first_position, rows[1].first_position);
    assert_int_equal(rows[0].draft_count + rows[1].draft_count, 1);
    assert_int_equal(world->load.preemptions_total, 0);
    run_until_idle(world);
    assert_true(world->load.preemptions_total > 0);
    stop_odds = odds;
    assert_empty(world);
    world_close(world);
}

/* Too few tokens in a step for all drafts and a prompt's block: none. */
static void drafts_leave_room_for_a_prompt(void **state) {
    (void)state;
    struct unit_options options = drafting_options();
    options.step_rows_max = 6;
    options.step_tokens_max = 75; /* six rows, five drafts */
    struct world *world = world_open(&options);
    for (uint32_t i = 0; i < 6; i++)
        submit(world, 5, 20);
    bool none = false;
    for (uint32_t turn = 0; turn < 200 && unit_request_count(world->unit); turn++) {
        step(world);
        drain(world);
        if (!world->plan) break;
        const struct step_row *rows = step_plan_rows(world->plan);
        uint32_t tokens = world->plan->token_count, drafts = 0, answers = 0;
        for (uint32_t i = 0; i < world->plan->row_count; i++) {
            drafts += rows[i].draft_count;
            answers += rows[i].form == TOKEN_GENERATED;
        }
        assert_true(tokens + drafts <= options.step_tokens_max);
        if (answers + drafts) assert_true(answers + drafts + KV_BLOCK_TOKENS <= 75);
        none = none || (answers == 6 && !drafts);
        complete(world, false);
        drain(world);
    }
    run_until_idle(world);
    assert_true(none);
    assert_empty(world);
    world_close(world);
}

/* ---- what a choice depends on --------------------------------------------------------------- */

static void submit_sampled(struct world *world, struct sampling sampling, uint32_t bias_count) {
    enum { PROMPT = 70 };
    struct record_submit *record = make(RECORD_SUBMIT, submit_bytes(PROMPT, 1, bias_count));
    uint32_t *prompt = record_tail_at(record, sizeof *record);
    struct token_bias *biases = (void *)((char *)record + submit_biases_at(PROMPT, 1));
    uint32_t number = world->submitted++;
    record->request.low = sampling.seed = number;
    record->sampling = sampling;
    record->prompt_count = PROMPT;
    record->new_tokens_max = 4;
    record->stop_token_count = 1;
    record->bias_count = bias_count;
    for (uint32_t i = 0; i < PROMPT; i++)
        prompt[i] = (number + i) % VOCAB;
    *(uint32_t *)((char *)record + submit_stops_at(PROMPT)) = STOP_TOKEN;
    for (uint32_t i = 0; i < bias_count; i++)
        biases[i] = (struct token_bias){40 + i, (float)i};
    struct known *known = &world->known[number];
    *known = (struct known){.prompt_count = PROMPT, .new_tokens_max = 4};
    memcpy(known->tokens, prompt, PROMPT * sizeof *prompt);
    must_send(world, record);
}

/* Rows that sample bring the tokens before them, in order, and biases; stop tokens are masked as
 * long as min_tokens asks; other rows, and rows without such wishes, bring nothing. */
static void rows_bring_what_their_choice_depends_on(void **state) {
    (void)state;
    struct unit_options options = small_options();
    options.chunk_tokens_max = 64; /* the prompts take two steps */
    struct world *world = world_open(&options);
    submit_sampled(world, (struct sampling){.top_p = 1, .repetition_penalty = 1}, 0);
    submit_sampled(world, (struct sampling){.top_p = 1, .presence_penalty = 1, .min_tokens = 2}, 3);
    for (uint32_t turn = 0; turn < 4; turn++) {
        step(world);
        drain(world);
        const struct step_row *rows = step_plan_rows(world->plan);
        for (uint32_t i = 0; i < world->plan->row_count; i++) {
            const struct step_row *row = &rows[i];
            uint32_t position = row->output_position;
            if (row->sampling.seed == 0 || !row->sample) {
                assert_int_equal(row->history_count + row->bias_count, 0);
                continue;
            }
            const uint32_t *history = step_plan_history(world->plan) + row->history_index;
            const struct token_bias *biases = step_plan_biases(world->plan) + row->bias_index;
            assert_int_equal(row->history_prompt_count, 70);
            assert_int_equal(row->history_count, 70 + position);
            assert_int_equal(history[69], (1 + 69) % VOCAB);
            for (uint32_t t = 0; t < position; t++)
                assert_int_equal(history[70 + t], world->known[1].tokens[70 + t]);
            assert_int_equal(row->bias_count, position < 2 ? 4 : 3);
            assert_true(biases[2].token == 42 && biases[2].bias == 2.0f);
            if (position < 2) assert_true(biases[3].token == STOP_TOKEN && biases[3].bias < -1e38f);
        }
        complete(world, false);
        drain(world);
    }
    run_until_idle(world);
    assert_empty(world);
    world_close(world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_bring_what_their_choice_depends_on),
        cmocka_unit_test(drafts_save_steps_when_they_are_right),
        cmocka_unit_test(nothing_follows_a_stop_token),
        cmocka_unit_test(no_draft_where_stop_tokens_become_free),
        cmocka_unit_test(no_draft_takes_a_page_from_others),
        cmocka_unit_test(drafts_leave_room_for_a_prompt),
        cmocka_unit_test(it_introduces_itself_once),
        cmocka_unit_test(requests_of_all_sizes_end_well),
        cmocka_unit_test(what_cannot_run_is_refused_at_once),
        cmocka_unit_test(who_is_interrupted_continues_as_if_never),
        cmocka_unit_test(a_request_cancelled_in_a_step_frees_its_pages_after_it),
        cmocka_unit_test(a_failed_step_fails_its_requests_only),
        cmocka_unit_test(options_out_of_range_are_named),
        cmocka_unit_test(prompts_do_not_starve_answers_nor_answers_prompts),
        cmocka_unit_test(nobody_waits_forever),
        cmocka_unit_test(every_life_ends_once_and_returns_its_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
