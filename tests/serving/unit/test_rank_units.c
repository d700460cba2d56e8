/* SPDX-License-Identifier: Apache-2.0
 * Protects the unit of several ranks: steps come out whole (one plan a rank, in order, all in one
 * go) and only when the last one is back; requests spread evenly, and each gets its tokens from its
 * own rank; cancellations, refusals and failed steps end each request once; drafts of one rank are
 * told to all; hello and load speak for all; what passes between a rank's unit and the KV storage
 * of its own pages is that rank's alone. When a rank runs out of pages, one of its requests goes on
 * at another that has room, with the answer it would have had alone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "contract/step_plan.h"
#include "serving/policy/balance_decode.h"
#include "serving/policy/balance_prefill.h"
#include "serving/unit/rank_units.h"

enum { RANKS = 3, REQUESTS = 60, VOCAB = 500, NEW_TOKENS = 9, PROMPT_MAX = 150, ASKS_MAX = 16 };
enum { LONG_TOKENS = 230, PAGE_COUNT = 20 };

/* A KV row of the invented engine: it stands for all tokens up to its own, and their forms. */
typedef uint64_t page_rows[KV_BLOCK_TOKENS];

struct world {
    void *memory;
    struct rank_units *units;
    struct machine machine;
    struct step_plan *plans[RANKS];
    uint32_t plan_count, steps, hellos, role, submitted;
    uint32_t received[REQUESTS], endings[REQUESTS], reasons[FINISH_REASON_COUNT];
    uint32_t answers[REQUESTS][LONG_TOKENS];
    struct unit_work works[REQUESTS]; /* when they ended */
    page_rows rows[RANKS][PAGE_COUNT];
    uint32_t rows_of_rank[RANKS];
    uint32_t masks, experts;          /* records that came through */
    struct record_kv *asks[ASKS_MAX]; /* of the KV storage, not yet answered */
    uint32_t ask_count;
    int64_t load_ns;         /* that a load takes; 0: some */
    bool from_memory;        /* loads come from the storage's memory, not from its disk */
    uint32_t storage[RANKS]; /* enum kv_storage_state, as last told */
    struct record_unit_load load;
    int64_t now_ns;
};

static struct unit_options options(void) {
    static const uint8_t model_id[32] = {1};
    return (struct unit_options){.requests_max = 5,
                                 .page_count = PAGE_COUNT,
                                 .context_tokens_max = 400,
                                 .step_rows_max = 4,
                                 .step_tokens_max = 200,
                                 .vocab_count = VOCAB,
                                 .prefix_cache = true,
                                 .model_id = model_id,
                                 .numerics_id = "test"};
}

static void open_world(struct world *world, const struct unit_options *unit) {
    struct arena arena;
    struct error error;
    size_t bytes = rank_units_memory_bytes(unit, RANKS);
    *world = (struct world){.memory = malloc(bytes)};
    arena_over(&arena, world->memory, bytes);
    if (rank_units_create(&arena, unit, RANKS, &world->units, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    world->machine = rank_units_machine(world->units);
}

static void free_world(struct world *world) {
    while (world->ask_count)
        free(world->asks[--world->ask_count]);
    free(world->memory);
}

/* All that was asked has ended. */
static void close_world(struct world *world) {
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        struct unit *unit = rank_units_unit(world->units, rank);
        unit_audit(unit);
        assert_int_equal(unit_request_count(unit), 0);
        assert_true(world->rows_of_rank[rank] > 0);
    }
    for (uint32_t i = 0; i < world->submitted; i++)
        assert_int_equal(world->endings[i], 1);
    free_world(world);
}

static void take_plan(struct world *world, const struct step_plan *plan) {
    assert_true(record_valid(plan, plan->record.bytes));
    assert_true(plan->rank < RANKS && !world->plans[plan->rank]);
    world->plans[plan->rank] = malloc(plan->record.bytes);
    memcpy(world->plans[plan->rank], plan, plan->record.bytes);
    world->plan_count++;
    world->rows_of_rank[plan->rank] += plan->row_count;
}

static void drain(struct world *world) {
    uint32_t plans_before = world->plan_count;
    for (const struct record *record = NULL;
         (record = outbox_next(world->machine.outbox, record));) {
        if (record->kind == RECORD_RUN_STEP) take_plan(world, (const struct step_plan *)record);
        if (record->kind == RECORD_UNIT_HELLO) {
            const struct record_unit_hello *hello = (const struct record_unit_hello *)record;
            assert_int_equal(hello->page_count, RANKS * options().page_count);
            assert_int_equal(hello->requests_max, RANKS * options().requests_max);
            world->hellos++;
            world->role = hello->role;
        }
        if (record->kind == RECORD_UNIT_LOAD) {
            memcpy(&world->load, record, sizeof world->load);
            for (uint32_t rank = 0; rank < RANKS; rank++)
                world->storage[rank] = load_ranks((const void *)record)[rank].kv_storage;
            assert_int_equal(world->load.pages_free + world->load.pages_held +
                                 world->load.pages_cached,
                             RANKS * options().page_count);
        }
        if (record->kind == RECORD_TOKENS) {
            const struct record_tokens *tokens = (const struct record_tokens *)record;
            assert_int_equal(world->endings[tokens->request.low], 0);
            assert_int_equal(tokens->first_output_position, world->received[tokens->request.low]);
            memcpy(world->answers[tokens->request.low] + tokens->first_output_position,
                   tokens_chosen(tokens), tokens->token_count * sizeof(uint32_t));
            world->received[tokens->request.low] += tokens->token_count;
        }
        if (record_is_kv(record)) {
            assert_true(record_valid(record, record->bytes) && world->ask_count < ASKS_MAX);
            world->asks[world->ask_count] = malloc(record->bytes);
            memcpy(world->asks[world->ask_count++], record, record->bytes);
        }
        world->masks += record->kind == RECORD_DRAIN;
        world->experts += record->kind == RECORD_EXPERTS;
        if (record->kind == RECORD_FINISHED) {
            const struct record_finished *finished = (const struct record_finished *)record;
            world->endings[finished->request.low]++;
            world->works[finished->request.low] = finished->work;
            world->reasons[finished->reason]++;
        }
    }
    outbox_clear(world->machine.outbox);
    if (world->plan_count != plans_before) { /* all at once, none while others are out */
        assert_int_equal(plans_before, 0);
        assert_int_equal(world->plan_count, RANKS);
        world->steps++;
    }
}

static void send(struct world *world, const void *record) {
    assert_int_equal(world->machine.receive(world->machine.self, record, ++world->now_ns),
                     STATUS_OK);
    drain(world);
}

/* Prompts of a family begin alike. */
static void submit_of(struct world *world, uint32_t family, uint32_t prompt_count) {
    struct {
        struct record_submit submit;
        uint32_t tokens[PROMPT_MAX + 2];
    } record = {.submit = {.prompt_count = prompt_count,
                           .new_tokens_max = NEW_TOKENS,
                           .sampling = {.top_p = 1, .seed = world->submitted}}};
    struct record_submit *submit = &record.submit;
    submit->request.low = world->submitted++;
    for (uint32_t i = 0; i < submit->prompt_count; i++)
        record.tokens[i] = (family * 50 + i * (1 + family / 10)) % VOCAB;
    record_set_head(submit, RECORD_SUBMIT);
    assert_true(record_valid(submit, submit->record.bytes));
    send(world, submit);
}

static void submit(struct world *world) {
    submit_of(world, world->submitted % 4, 1 + world->submitted * 7 % PROMPT_MAX);
}

static uint32_t held_by(const struct world *world, uint32_t rank) {
    return unit_request_count(rank_units_unit(world->units, rank));
}

static void cancel(struct world *world, uint32_t number) {
    struct record_cancel cancel = {.record = record_head(RECORD_CANCEL, sizeof cancel),
                                   .request = {.low = number}};
    send(world, &cancel);
}

static uint64_t mix(uint64_t chain, uint64_t more) {
    return (chain ^ more) * 0x9e3779b97f4a7c15u + (chain >> 29);
}

/* What a row's tokens come to; never 0, nor the last of the vocabulary. */
static uint32_t compute_row(struct world *world, const struct step_plan *plan,
                            const struct step_row *row) {
    const uint32_t *tokens = step_plan_tokens(plan) + row->token_index;
    const struct page_id *pages = step_plan_pages(plan) + row->page_index;
    uint32_t before = row->first_position - 1;
    uint64_t chain = 1;
    if (row->first_position)
        chain =
            world
                ->rows[plan->rank][pages[before / KV_BLOCK_TOKENS].index][before % KV_BLOCK_TOKENS];
    for (uint32_t i = 0; i < row->token_count; i++) {
        uint32_t at = row->first_position + i;
        chain = mix(chain, tokens[i] * 2 + row->form);
        world->rows[plan->rank][pages[at / KV_BLOCK_TOKENS].index][at % KV_BLOCK_TOKENS] = chain;
    }
    chain = mix(chain, row->sampling.seed);
    for (uint32_t i = 0; i < row->history_count; i++)
        chain = mix(chain, step_plan_history(plan)[row->history_index + i]);
    for (uint32_t i = 0; i < row->bias_count; i++)
        chain = mix(chain, step_plan_biases(plan)[row->bias_index + i].token);
    return 1 + (uint32_t)(mix(chain, row->history_prompt_count) >> 32) % (VOCAB - 2);
}

/* The engines' answers, in any order. */
static void complete(struct world *world, bool failed) {
    bool drafts = false;
    uint32_t first = (uint32_t)(random_uniform(5, 0, world->steps) * RANKS);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        for (uint32_t i = 0; i < world->plans[rank]->row_count; i++)
            drafts |= step_plan_rows(world->plans[rank])[i].draft_count > 0;
    for (uint32_t turn = 0; turn < RANKS; turn++) {
        uint32_t rank = (first + turn) % RANKS;
        struct step_plan *plan = world->plans[rank];
        struct step_result fixed = {.step = plan->step,
                                    .compute_ns = 1000 + 10 * (int64_t)plan->token_count,
                                    .row_count = plan->row_count,
                                    .failed = failed && turn == 0,
                                    .rank = rank};
        struct step_result *result = calloc(1, record_bytes(RECORD_STEP_DONE, &fixed));
        assert_int_equal(plan->others_draft, drafts);
        *result = fixed;
        record_set_head(result, RECORD_STEP_DONE);
        for (uint32_t i = 0; i < plan->row_count; i++) {
            struct step_result_row *row = &step_result_rows(result)[i];
            row->slot = step_plan_rows(plan)[i].slot;
            row->token_count = step_plan_rows(plan)[i].sample;
            uint32_t token = compute_row(world, plan, &step_plan_rows(plan)[i]);
            if (row->token_count) row->tokens[0] = token;
        }
        world->plans[rank] = NULL;
        world->plan_count -= turn + 1 == RANKS ? RANKS : 0;
        send(world, result);
        free(result);
        free(plan);
    }
}

static void step(struct world *world) {
    world->machine.step(world->machine.self, ++world->now_ns);
    drain(world);
}

static void run(struct world *world) {
    do {
        step(world);
        if (world->plan_count) complete(world, false);
    } while (world->machine.next_wake_ns(world->machine.self) != MACHINE_NEVER);
}

static void test_spread(void **state) {
    struct world world;
    struct unit_options unit = options();
    open_world(&world, &unit);
    for (uint32_t i = 0; i < RANKS * 3; i++)
        submit(&world);
    step(&world);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        assert_int_equal(unit_request_count(rank_units_unit(world.units, rank)), 3);
    assert_int_equal(world.plan_count, RANKS);
    step(&world); /* nothing new while a step is out */
    submit(&world);
    step(&world);
    assert_int_equal(world.steps, 1);
    complete(&world, false);
    run(&world);
    for (uint32_t i = 0; i < world.submitted; i++)
        assert_int_equal(world.received[i], NEW_TOKENS);
    assert_int_equal(world.reasons[FINISH_LENGTH], world.submitted);
    assert_int_equal(world.hellos, 1);
    struct record_role role = {.record = record_head(RECORD_ROLE, sizeof role),
                               .role = UNIT_PREFILL};
    send(&world, &role);
    assert_int_equal(world.hellos, 2);
    assert_int_equal(world.role, UNIT_PREFILL);
    assert_int_equal(world.load.totals.output_tokens, world.submitted * NEW_TOKENS);
    assert_int_equal(world.load.requests_running + world.load.requests_waiting, 0);
    close_world(&world);
}

/* A prompt goes where its beginning is cached, but not all of them to one rank. */
static void test_prefixes(void **state) {
    struct world world;
    struct unit_options unit = options();
    open_world(&world, &unit);
    for (uint32_t family = 0; family < RANKS; family++)
        submit_of(&world, family, 140);
    step(&world);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        assert_int_equal(held_by(&world, rank), 1); /* nothing is cached: they spread */
    complete(&world, false);
    run(&world);
    for (uint32_t turn = 0; turn < 2 * RANKS; turn++) {
        uint32_t family = (turn * 2 + 1) % RANKS;
        submit_of(&world, family, 141 + turn);
        step(&world);
        assert_int_equal(held_by(&world, family), 1);
        complete(&world, false);
        run(&world);
    }
    for (uint32_t i = 0; i < 9; i++)
        submit_of(&world, 1, 150);
    step(&world);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        assert_in_range(held_by(&world, rank), 1, 5);
    complete(&world, false);
    run(&world);
    assert_true(world.load.prefill_choices_total[PREFILL_BOUND] >= RANKS);
    close_world(&world);
}

static void test_simple_methods(void **state) {
    for (uint32_t method = BALANCE_WORK + 1; method < BALANCE_METHOD_COUNT; method++) {
        struct world world;
        struct unit_options unit = options();
        unit.rank_balance = method;
        open_world(&world, &unit);
        for (uint32_t i = 0; i < 2 * RANKS; i++)
            submit_of(&world, 1, 10);
        for (uint32_t rank = 0; rank < RANKS && method != BALANCE_POWER_OF_TWO; rank++)
            assert_int_equal(held_by(&world, rank), 2);
        run(&world);
        assert_int_equal(world.reasons[FINISH_LENGTH], 2 * RANKS);
        for (uint32_t rank = 0; rank < RANKS; rank++) /* as they should, in the long run */
            world.rows_of_rank[rank] += world.rows_of_rank[rank] == 0;
        close_world(&world);
    }
}

static void test_one_works(void **state) {
    struct world world;
    struct unit_options unit = options();
    open_world(&world, &unit);
    submit(&world);
    run(&world);
    assert_int_equal(world.received[0], NEW_TOKENS);
    assert_int_equal(world.rows_of_rank[1] + world.rows_of_rank[2], 0);
    world.rows_of_rank[1] = world.rows_of_rank[2] = 1; /* as they should: checked here */
    close_world(&world);
}

/* One rank's prompt beside others' answers: nobody waits for it but they, and there is no other to
 * wait for. */
static void test_level_of_one(void **state) {
    uint32_t steps[2];
    for (uint32_t levels = 0; levels < 2; levels++) {
        struct world world;
        struct unit_options unit = options();
        unit.step_tokens_max = 68; /* a block a step */
        unit.level_steps = levels;
        open_world(&world, &unit);
        for (uint32_t i = 0; i < RANKS; i++)
            submit_of(&world, i, 5);
        for (int i = 0; i < 2; i++) {
            step(&world);
            complete(&world, false);
        }
        submit_of(&world, 5, PROMPT_MAX);
        run(&world);
        steps[levels] = world.steps;
        close_world(&world);
    }
    assert_int_equal(steps[0], steps[1]);
}

static void test_random_lives(void **state) {
    for (uint32_t life = 0; life < 30; life++) {
        struct world world;
        struct unit_options unit = options();
        unit.speculate = life % 2;
        unit.bind_on_arrival = life % 3 == 0;
        unit.level_steps = life % 4 > 1;
        open_world(&world, &unit);
        for (uint32_t turn = 0; turn < 400; turn++) {
            uint32_t what = (uint32_t)(random_uniform(life, 0, turn) * 10);
            uint32_t whom = (uint32_t)(random_uniform(life, 1, turn) * (world.submitted + 1));
            if (what < 4 && world.submitted < REQUESTS) submit(&world);
            if (what == 4 && whom < world.submitted) cancel(&world, whom);
            if (what > 4 && world.plan_count) complete(&world, what == 5 && turn % 7 == 0);
            if (what > 4) step(&world);
        }
        if (world.plan_count) complete(&world, false);
        run(&world);
        assert_true(world.steps > 10 && world.reasons[FINISH_LENGTH] > 0);
        close_world(&world);
    }
}

static void test_full(void **state) {
    struct world world;
    struct unit_options unit = options();
    open_world(&world, &unit);
    for (uint32_t i = 0; i < RANKS * unit.requests_max + 4; i++)
        submit(&world);
    assert_int_equal(world.reasons[FINISH_REFUSED_QUEUE], 4);
    struct record_drain record = {.record = record_head(RECORD_DRAIN, sizeof record)};
    send(&world, &record);
    submit(&world);
    assert_int_equal(world.reasons[FINISH_REFUSED_DRAINING], 1);
    run(&world);
    assert_int_equal(world.reasons[FINISH_LENGTH], RANKS * unit.requests_max);
    record.back = 1;
    for (int i = 0; i < 2; i++) /* twice is as good as once */
        send(&world, &record);
    submit(&world);
    run(&world);
    assert_int_equal(world.reasons[FINISH_LENGTH], RANKS * unit.requests_max + 1);
    assert_int_equal(world.reasons[FINISH_REFUSED_DRAINING], 1);
    close_world(&world);
}

static void mask(struct world *world, uint32_t rank, bool back) {
    struct record_drain record = {.record = record_head(RECORD_DRAIN, sizeof record),
                                  .one_rank = 1,
                                  .rank = rank,
                                  .back = back};
    assert_true(record_valid(&record, sizeof record));
    send(world, &record);
}

/* A masked rank gets no new request and finishes what it has; what is said of experts passes. */
static void test_masked(void **state) {
    struct world world;
    struct unit_options unit = options();
    struct record_experts experts = {.record = record_head(RECORD_EXPERTS, sizeof experts),
                                     .ranks = RANKS};
    unit.experts = &experts;
    open_world(&world, &unit);
    for (uint32_t i = 0; i < RANKS; i++)
        submit(&world);
    step(&world);
    assert_int_equal(world.experts, world.hellos);
    mask(&world, 1, false);
    mask(&world, RANKS, false); /* there is none */
    assert_int_equal(world.masks, 1);
    for (uint32_t i = 0; i < (RANKS - 1) * (unit.requests_max - 1); i++)
        submit(&world);
    assert_int_equal(unit_request_count(rank_units_unit(world.units, 1)), 1);
    assert_int_equal(world.reasons[FINISH_REFUSED_QUEUE], 0);
    submit(&world); /* the others are full */
    assert_int_equal(world.reasons[FINISH_REFUSED_QUEUE], 1);
    assert_int_equal(unit_request_count(rank_units_unit(world.units, 1)), 1);
    mask(&world, 1, true);
    complete(&world, false);
    step(&world);
    assert_true(unit_request_count(rank_units_unit(world.units, 1)) > 1);
    send(&world, &experts);
    assert_true(world.masks == 2 && world.experts == world.hellos + 1);
    run(&world);
    close_world(&world);
}

static uint32_t held_by_all(const struct world *world) {
    uint32_t held = 0;
    for (uint32_t rank = 0; rank < RANKS; rank++)
        held += held_by(world, rank);
    return held;
}

/* Who comes belongs to no rank until one is about to take it; it may leave before. */
static void test_late(void **state) {
    struct world world;
    struct unit_options unit = options();
    open_world(&world, &unit);
    for (uint32_t i = 0; i < RANKS; i++)
        submit_of(&world, i, 100);
    assert_int_equal(held_by_all(&world), 0);
    step(&world);
    assert_int_equal(held_by_all(&world), RANKS);
    for (uint32_t i = 0; i < 2 * RANKS; i++)
        submit_of(&world, i, 30 + i);
    submit_of(&world, 0, 150);
    step(&world); /* one is out */
    assert_int_equal(held_by_all(&world), RANKS);
    assert_int_equal(world.load.requests_waiting, 2 * RANKS + 1);
    cancel(&world, RANKS);
    assert_int_equal(world.reasons[FINISH_CANCELLED], 1);
    assert_int_equal(world.load.requests_waiting, 2 * RANKS);
    struct record_drain record = {.record = record_head(RECORD_DRAIN, sizeof record)};
    send(&world, &record); /* who is in line is served all the same */
    complete(&world, false);
    step(&world);
    assert_true(held_by_all(&world) > RANKS + 3);
    complete(&world, false);
    run(&world);
    assert_int_equal(world.reasons[FINISH_LENGTH], 3 * RANKS);
    assert_int_equal(world.load.requests_waiting, 0);
    close_world(&world);
}

/* The line is for those that some rank may take. */
static void test_nobody_takes(void **state) {
    struct world world;
    struct unit_options unit = options();
    open_world(&world, &unit);
    for (uint32_t i = 0; i < 2 * RANKS; i++)
        submit_of(&world, i, 10);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        mask(&world, rank, false);
    run(&world);
    submit(&world);
    assert_int_equal(world.reasons[FINISH_REFUSED_DRAINING], 2 * RANKS + 1);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        world.rows_of_rank[rank] = 1; /* as they should: none of them worked */
    close_world(&world);
}

static void reserve(struct world *world, uint32_t prompt_count, uint32_t new_tokens) {
    struct {
        struct record_submit submit;
        uint32_t tokens[PROMPT_MAX + 2];
    } record = {.submit = {.prompt_count = prompt_count,
                           .new_tokens_max = new_tokens,
                           .task = SUBMIT_RESERVE,
                           .route = {.ticket = {1, world->submitted}},
                           .sampling = {.top_p = 1}}};
    record.submit.request.low = world->submitted++;
    record_set_head(&record.submit, RECORD_SUBMIT);
    for (uint32_t i = 0; i < prompt_count; i++)
        record.tokens[i] = (world->submitted + i) % VOCAB;
    assert_true(record_valid(&record, record.submit.record.bytes));
    send(world, &record);
}

/* Answers whose prompts come from elsewhere: equal KV pages rather than equal counts, and none
 * where there is no room. */
static void test_reserve(void **state) {
    struct world world;
    struct unit_options unit = options();
    open_world(&world, &unit);
    reserve(&world, 150, 9); /* 4 pages with the first token's: as much as two small ones */
    for (uint32_t i = 0; i < 4; i++)
        reserve(&world, 20, 9);
    assert_int_equal(held_by(&world, 0), 1);
    assert_int_equal(held_by(&world, 1), 2);
    assert_int_equal(held_by(&world, 2), 2);
    for (uint32_t i = 0; i < 3 * 4 - 5; i++)
        reserve(&world, 20, 9);
    assert_int_equal(world.reasons[FINISH_REFUSED_QUEUE], 0);
    reserve(&world, 20, 9); /* as many rows as may run */
    assert_int_equal(world.reasons[FINISH_REFUSED_QUEUE], 1);
    step(&world);
    assert_int_equal(world.load.decode_choices_total[DECODE_BOUND], 12);
    assert_int_equal(world.load.decode_choices_total[DECODE_WAITS_ROWS], 1);
    free_world(&world);
}

/* The one ask of this kind that a rank's unit has said; the caller frees it. NULL: none. */
static void *take_ask(struct world *world, enum record_kind kind, uint32_t rank) {
    for (uint32_t i = 0; i < world->ask_count; i++) {
        struct record_kv *ask = world->asks[i];
        if (ask->record.kind != kind || ask->rank != rank) continue;
        world->asks[i] = world->asks[--world->ask_count];
        return ask;
    }
    return NULL;
}

/* Of the leading blocks of its request, the storage of rank r has r. */
static void answer_find(struct world *world, uint32_t rank) {
    struct record_kv_find *find = take_ask(world, RECORD_KV_FIND, rank);
    assert_non_null(find);
    struct record_kv_found found = {.record = record_head(RECORD_KV_FOUND, sizeof found),
                                    .request = find->request,
                                    .rank = rank,
                                    .blocks = rank,
                                    .host_blocks = world->from_memory ? rank : 0};
    assert_int_equal(find->key_count, 2);
    free(find);
    send(world, &found);
}

static void answer_load(struct world *world, uint32_t rank) {
    struct record_kv_load *load = take_ask(world, RECORD_KV_LOAD, rank);
    assert_non_null(load);
    assert_int_equal(load->block_count, rank);
    struct record_kv_loaded loaded = {.record = record_head(RECORD_KV_LOADED, sizeof loaded),
                                      .request = load->request,
                                      .rank = rank,
                                      .end = {.blocks = rank,
                                              .host_blocks = world->from_memory ? rank : 0,
                                              .ns = world->load_ns ? world->load_ns : 1000}};
    free(load);
    send(world, &loaded);
}

/* All blocks are stored, but those of rank 1, whose disk is full. */
static uint32_t answer_keeps(struct world *world, uint32_t rank) {
    uint32_t blocks = 0;
    for (struct record_kv_keep *keep; (keep = take_ask(world, RECORD_KV_KEEP, rank)); free(keep)) {
        bool full = rank == 1;
        struct record_kv_kept kept = {.record = record_head(RECORD_KV_KEPT, sizeof kept),
                                      .rank = rank,
                                      .last_page = keep->last_page,
                                      .dropped = full ? keep->block_count : 0,
                                      .writable = !full};
        blocks += keep->block_count;
        send(world, &kept);
    }
    return blocks;
}

static void test_storage(void **state) {
    struct world world;
    struct unit_options unit = options();
    unit.kv_storage = true;
    unit.kv_choice = KV_CHOICE_LOAD;
    unit.page_bytes = 1000;
    open_world(&world, &unit);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        submit_of(&world, rank, 140); /* one on each; two whole blocks and a bit */
    step(&world);
    assert_int_equal(world.plan_count, 0); /* nobody starts before it knows what there is */
    for (uint32_t rank = RANKS; rank-- > 0;)
        answer_find(&world, rank);
    step(&world);
    assert_int_equal(world.plan_count, RANKS);
    assert_int_equal(world.plans[0]->row_count, 1); /* nothing to load there */
    for (uint32_t rank = 1; rank < RANKS; rank++) {
        assert_int_equal(world.plans[rank]->row_count, 0);
        answer_load(&world, rank);
    }
    run(&world);
    assert_int_equal(world.load.totals.loaded_disk_tokens, (1 + 2) * KV_BLOCK_TOKENS);
    assert_int_equal(world.reasons[FINISH_LENGTH], RANKS);
    assert_int_equal(world.load.pages_held, 2 + 2); /* being copied, with those before them */
    uint32_t kept = 0;
    for (uint32_t rank = RANKS; rank-- > 0;) {
        uint32_t blocks = answer_keeps(&world, rank);
        assert_int_equal(blocks, 2 - rank); /* what was computed */
        kept += rank == 1 ? 0 : blocks;
    }
    run(&world);
    assert_int_equal(world.ask_count, 0);
    assert_int_equal(world.load.pages_held, 0);
    assert_int_equal(world.load.totals.kept_blocks, kept);
    assert_int_equal(world.load.totals.dropped_blocks, 1);
    assert_int_equal(world.load.kv_storage, KV_STORAGE_READ_ONLY); /* one of them at least */
    for (uint32_t rank = 0; rank < RANKS; rank++)
        assert_int_equal(world.storage[rank], rank == 1 ? KV_STORAGE_READ_ONLY : KV_STORAGE_ON);
    close_world(&world);
}

/* One prompt for each rank: the others' ranks load, the second time beside a rank that computes. */
static void submit_three(struct world *world, uint32_t family) {
    for (uint32_t rank = 0; rank < RANKS; rank++)
        submit_of(world, family + rank, 140);
    step(world);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        answer_find(world, rank);
    step(world);
}

/* A step is one for all ranks: a row waits in it for its load where that is known to be quick; and
 * where no rank has anything else to do, be it slow or not measured. */
static void test_loads_in_steps(void **state) {
    for (int quick = 0; quick < 2; quick++) {
        struct world world;
        struct unit_options unit = options();
        unit.kv_storage = true;
        unit.kv_choice = KV_CHOICE_LOAD;
        unit.page_bytes = 1000;
        unit.kv_load_parts = 40;
        open_world(&world, &unit);
        world.load_ns = quick ? 10 : 1000000;
        submit_three(&world, 0);
        for (uint32_t rank = 1; rank < RANKS; rank++) { /* not measured */
            assert_int_equal(world.plans[rank]->row_count, 0);
            answer_load(&world, rank);
        }
        run(&world);
        submit_three(&world, 3);
        for (uint32_t rank = 1; rank < RANKS; rank++) {
            assert_int_equal(world.plans[rank]->row_count, quick);
            if (quick) assert_true(step_plan_rows(world.plans[rank])[0].loads);
            answer_load(&world, rank);
        }
        run(&world);
        assert_int_equal(world.load.totals.loads_in_step, quick * (RANKS - 1));
        mask(&world, 0, false);
        mask(&world, 1, false);
        submit_of(&world, 6, 140);
        step(&world);
        answer_find(&world, 2);
        step(&world);
        assert_int_equal(world.plan_count, RANKS);
        assert_int_equal(world.plans[0]->row_count + world.plans[1]->row_count, 0);
        assert_true(step_plan_rows(world.plans[2])[0].loads);
        answer_load(&world, 2);
        run(&world);
        assert_int_equal(world.load.totals.loads_in_step, 1 + quick * (RANKS - 1));
        assert_int_equal(world.load.totals.loads_in_step_lost, 0);
        assert_int_equal(world.reasons[FINISH_LENGTH], world.submitted);
        for (uint32_t rank = 0; rank < RANKS; rank++)
            answer_keeps(&world, rank);
        close_world(&world);
    }
}

/* A rank that has nothing of a prompt in its pages loads what another one has stored: that counts
 * when the prompt is bound, as soon as a load has shown what it costs. */
static void test_fetch(void **state) {
    for (int measured = 0; measured < 2; measured++) {
        struct world world;
        struct unit_options unit = options();
        unit.kv_storage = true;
        unit.kv_choice = KV_CHOICE_LOAD;
        unit.page_bytes = 1000;
        open_world(&world, &unit);
        world.load_ns = measured ? 1 : 1000000;
        for (uint32_t rank = 0; rank < RANKS; rank++)
            submit_of(&world, rank, 140);
        step(&world);
        for (uint32_t rank = 0; rank < RANKS; rank++)
            answer_find(&world, rank);
        step(&world);
        for (uint32_t rank = 1; rank < RANKS; rank++)
            answer_load(&world, rank);
        run(&world);
        for (uint32_t rank = 0; rank < RANKS; rank++)
            answer_keeps(&world, rank);
        submit_of(&world, 3, 60); /* to rank 0, the first of equals */
        step(&world);
        assert_int_equal(held_by(&world, 0), 1);
        submit_of(&world, 0, 140); /* rank 0 has it in its pages */
        complete(&world, false);
        step(&world);
        assert_int_equal(held_by(&world, 0), measured ? 1 : 2);
        free_world(&world);
    }
}

/* On rank 2 alone, whose storage has both blocks: it comes, is loaded, and ends. */
static void pass_through(struct world *world, uint32_t family) {
    submit_of(world, family, 140);
    step(world);
    assert_int_equal(held_by(world, 2), 1);
    answer_find(world, 2);
    step(world);
    answer_load(world, 2);
    run(world);
    answer_keeps(world, 2);
}

/* A rank's storage keeps a prompt's blocks in memory when they have long left its pages: that
 * counts when the prompt comes again, if they are remembered. */
static void test_memory(void **state) {
    for (uint32_t remembered = 0; remembered < 60; remembered += 30) {
        struct world world;
        struct unit_options unit = options();
        unit.kv_storage = true;
        unit.kv_choice = KV_CHOICE_LOAD;
        unit.page_bytes = 1000;
        unit.kv_memory_blocks = remembered;
        open_world(&world, &unit);
        world.load_ns = 1;
        world.from_memory = true;
        mask(&world, 0, false);
        mask(&world, 1, false);
        for (uint32_t family = 0; family <= PAGE_COUNT / 2; family++)
            pass_through(&world, family);
        mask(&world, 0, true);
        mask(&world, 1, true);
        submit_of(&world, 0, 140);
        step(&world);
        assert_int_equal(held_by(&world, remembered ? 2 : 0), 1);
        free_world(&world);
    }
}

/* A long answer with all that a request can bring to the choice of its tokens. */
static void submit_long(struct world *world, uint32_t number, uint32_t prompt_count,
                        uint32_t new_tokens) {
    struct {
        struct record_submit submit;
        uint32_t tail[PROMPT_MAX + 8];
    } record = {.submit = {.request.low = number,
                           .prompt_count = prompt_count,
                           .new_tokens_max = new_tokens,
                           .stop_token_count = 1,
                           .bias_count = 1,
                           .sampling = {.top_p = 1,
                                        .seed = number,
                                        .frequency_penalty = 0.5f,
                                        .min_tokens = new_tokens / 2}}};
    struct token_bias bias = {7, 1};
    record_set_head(&record.submit, RECORD_SUBMIT);
    *submit_stop_tokens(&record.submit) = VOCAB - 1;
    *submit_biases(&record.submit) = bias;
    for (uint32_t i = 0; i < prompt_count; i++)
        record.tail[i] = (number * 50 + i) % VOCAB;
    assert_true(record_valid(&record, record.submit.record.bytes));
    world->submitted = number + 1;
    send(world, &record);
}

enum { LONG = 4 }; /* that a rank begins, and cannot end together: 24 pages of its 20 */

/* All at rank 0, when the others may take again, or may not. */
static void crowd(struct world *world, bool relieved) {
    struct unit_options unit = options();
    open_world(world, &unit);
    mask(world, 1, false);
    mask(world, 2, false);
    for (uint32_t i = 0; i < LONG; i++)
        submit_long(world, i, PROMPT_MAX, LONG_TOKENS);
    while (held_by(world, 0) < LONG) {
        step(world);
        complete(world, false);
    }
    if (relieved) {
        mask(world, 1, true);
        mask(world, 2, true);
    }
}

static void assert_as_alone(const struct world *world, uint32_t number, uint32_t prompt_count,
                            uint32_t new_tokens) {
    struct world alone;
    struct unit_options unit = options();
    const struct unit_work *work = &world->works[number];
    open_world(&alone, &unit);
    submit_long(&alone, number, prompt_count, new_tokens);
    run(&alone);
    assert_int_equal(world->received[number], new_tokens);
    assert_memory_equal(world->answers[number], alone.answers[number],
                        sizeof alone.answers[number]);
    assert_int_equal(work->prompt_hit_tokens + work->prompt_miss_tokens, prompt_count);
    assert_int_equal(work->device_tokens + work->computed_tokens, prompt_count);
    assert_true(work->preemptions > 0 || work->recomputed_tokens == 0);
    free(alone.memory);
}

/* What the ranks say they have done is what they did for each; all is given back. */
static void assert_adds_up(const struct world *world) {
    uint64_t computed = 0, again = 0, preemptions = 0;
    for (uint32_t i = 0; i < world->submitted; i++) {
        computed += world->works[i].computed_tokens;
        again += world->works[i].recomputed_tokens;
        preemptions += world->works[i].preemptions;
    }
    assert_int_equal(world->load.totals.prompt_tokens, computed);
    assert_int_equal(world->load.totals.recomputed_tokens, again);
    assert_int_equal(world->load.totals.preemptions, preemptions);
    assert_int_equal(world->load.pages_held, 0);
}

static void assert_undisturbed(const struct world *world) {
    for (uint32_t i = 0; i < LONG; i++)
        assert_as_alone(world, i, PROMPT_MAX, LONG_TOKENS);
    assert_adds_up(world);
}

/* A rank is about to run out of pages: one of its requests goes on where there are some. */
static void test_relieved(void **state) {
    struct world world;
    uint32_t moved = 0;
    crowd(&world, true);
    run(&world);
    assert_undisturbed(&world);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        unit_audit(rank_units_unit(world.units, rank));
    for (uint32_t i = 0; i < LONG; i++) {
        moved += world.works[i].rank != 0;
        assert_int_equal(world.works[i].preemptions, world.works[i].rank != 0);
    }
    assert_int_equal(moved, 1);
    assert_int_equal(world.load.totals.preemptions, 1);
    assert_int_equal(world.load.decode_choices_total[DECODE_BOUND], 1);
    free_world(&world);
}

/* Nobody else takes any: it waits for pages of its own rank. */
static void test_not_relieved(void **state) {
    struct world world;
    crowd(&world, false);
    run(&world);
    assert_undisturbed(&world);
    for (uint32_t i = 0; i < LONG; i++)
        assert_int_equal(world.works[i].rank, 0);
    assert_true(world.load.totals.preemptions > 0);
    assert_true(world.load.decode_choices_total[DECODE_WAITS_ROWS] > 0);
    free_world(&world);
}

static uint32_t dice(uint32_t life, uint32_t what, uint32_t i, uint32_t below) {
    return (uint32_t)(random_uniform(life, what, i) * below);
}

static uint32_t some(uint32_t most, uint32_t life, uint32_t what, uint32_t i) {
    return most / 2 + dice(life, what, i, most / 2);
}

/* More than all ranks together have pages for: they move, and are interrupted, and move. */
static void test_crowded_lives(void **state) {
    uint64_t moved = 0, preempted = 0;
    for (uint32_t life = 0; life < 30; life++) {
        struct world world;
        struct unit_options unit = options();
        unit.step_rows_max = unit.requests_max;
        open_world(&world, &unit);
        for (uint32_t i = 0; i < 40; i++) {
            while (i - world.reasons[FINISH_LENGTH] > 12 || dice(life, 2, world.steps, 3)) {
                step(&world);
                if (!world.plan_count) break;
                complete(&world, false);
            }
            submit_long(&world, i, some(PROMPT_MAX, life, 0, i), some(LONG_TOKENS, life, 1, i));
        }
        run(&world);
        for (uint32_t i = 0; i < 40; i++)
            assert_as_alone(&world, i, some(PROMPT_MAX, life, 0, i), some(LONG_TOKENS, life, 1, i));
        assert_adds_up(&world);
        moved += world.load.decode_choices_total[DECODE_BOUND];
        preempted += world.load.totals.preemptions;
        close_world(&world);
    }
    print_message("# moved %llu of %llu interrupted\n", (unsigned long long)moved,
                  (unsigned long long)preempted);
    assert_true(moved > 0 && preempted > moved);
}

/* Its client leaves: the rank where it is now learns of it. */
static void test_moved_is_cancelled(void **state) {
    struct world world;
    crowd(&world, true);
    while (held_by(&world, 1) + held_by(&world, 2) == 0) {
        step(&world);
        complete(&world, false);
    }
    for (uint32_t i = 0; i < LONG; i++)
        cancel(&world, i);
    run(&world);
    assert_int_equal(world.reasons[FINISH_CANCELLED], LONG);
    world.rows_of_rank[1] = world.rows_of_rank[2] = 1; /* one of them had none to do */
    close_world(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spread),         cmocka_unit_test(test_prefixes),
        cmocka_unit_test(test_simple_methods), cmocka_unit_test(test_one_works),
        cmocka_unit_test(test_level_of_one),   cmocka_unit_test(test_random_lives),
        cmocka_unit_test(test_full),           cmocka_unit_test(test_masked),
        cmocka_unit_test(test_late),           cmocka_unit_test(test_nobody_takes),
        cmocka_unit_test(test_reserve),        cmocka_unit_test(test_storage),
        cmocka_unit_test(test_loads_in_steps), cmocka_unit_test(test_fetch),
        cmocka_unit_test(test_memory),         cmocka_unit_test(test_relieved),
        cmocka_unit_test(test_not_relieved),   cmocka_unit_test(test_moved_is_cancelled),
        cmocka_unit_test(test_crowded_lives)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
