/* SPDX-License-Identifier: Apache-2.0
 * A unit with an invented storage below its pages, which answers when it likes, loses blocks, and
 * loads less than it said: the answers are what they always are (the world checks every row that is
 * read), nobody touches a page that is being loaded or copied, every page is back at the end, and
 * what one unit has kept another one loads.
 */

#include "contract/record_kv.h"
#include "serving/policy/speculate.h"
#include "serving/unit/kv_offload.h"
#include "serving/unit/unit_request.h"
#include "storage.h"
#include "test_case.h"

static void take_other(struct world *world, const struct record *record) {
    storage_take(world->context, world, record);
}

static uint32_t load_parts; /* of all worlds to come */
static double fail_odds;

/* Until nothing is left to do, in any order. */
static void run(struct world *world) {
    struct storage *storage = world->context;
    for (int turn = 0; turn < 100000; turn++) {
        world_drain(world);
        if (storage->pending_count && storage_draw(storage) >= storage->late_odds) {
            storage_do(storage, (uint32_t)(storage_draw(storage) * storage->pending_count));
            continue;
        }
        if (world->plan)
            world_complete(world, storage_draw(storage) < fail_odds);
        else if (!storage->pending_count &&
                 world->machine.next_wake_ns(world->machine.self) == MACHINE_NEVER)
            return;
        world_drain(world);
        if (storage->pending_count < PENDING_MAX / 2) world_step(world);
    }
    fail();
}

static struct world *open_above(struct storage *storage, enum kv_choice choice) {
    struct unit_options options = world_options();
    options.prefix_cache = true;
    options.kv_storage = true;
    options.kv_choice = choice;
    options.page_bytes = 1000;
    options.kv_load_parts = load_parts;
    struct world *world = world_open(&options);
    world->other = take_other;
    world->await = storage_await;
    world->context = storage;
    return world;
}

/* Four long prompts, twice; returns the hits. */
static uint32_t ask_families(struct world *world) {
    for (uint32_t i = 0; i < 4; i++) {
        world_submit_family(world, 3 + i, (3 + i) * 100, 10);
        run(world);
    }
    world_assert_empty(world);
    return world->hits;
}

TEST(what_one_keeps_another_loads) {
    struct storage *storage = storage_open(1);
    struct world *first = open_above(storage, KV_CHOICE_LOAD);
    assert_int_equal(ask_families(first), 0);
    assert_true(storage->keeps > 20 && storage->loads == 0);
    assert_int_equal(first->load.totals.kept_blocks, storage->keeps);
    world_close(first);
    struct world *second = open_above(storage, KV_CHOICE_LOAD);
    uint32_t hits = ask_families(second), whole = 0;
    for (uint32_t i = 0; i < 4; i++)
        whole += ((3 + i) * 100 - 1) / KV_BLOCK_TOKENS * KV_BLOCK_TOKENS;
    assert_int_equal(hits, whole); /* every whole block before the last token */
    assert_int_equal(storage->loads, 4);
    assert_int_equal(
        second->load.totals.loaded_disk_tokens + second->load.totals.loaded_host_tokens, hits);
    assert_int_equal(second->load.kv_storage, KV_STORAGE_ON);
    world_close(second);
    struct world *third = open_above(storage, KV_CHOICE_COMPUTE); /* hits, though all is computed */
    assert_int_equal(ask_families(third), whole);
    assert_int_equal(storage->loads, 4);
    assert_int_equal(third->load.totals.loaded_disk_tokens + third->load.totals.loaded_host_tokens,
                     0);
    world_close(third);
    free(storage);
}

TEST(another_tenant_finds_nothing) {
    struct storage *storage = storage_open(2);
    struct world *world = open_above(storage, KV_CHOICE_LOAD);
    uint32_t tokens[300];
    for (uint32_t i = 0; i < 300; i++)
        tokens[i] = i % VOCAB;
    for (uint32_t salt = 0; salt < 4; salt++) {
        struct record_submit head = {.prompt_count = 300, .new_tokens_max = 4};
        head.tenant.bytes[salt ? 31 : 0] = (uint8_t)salt; /* each of its bytes counts */
        world_submit_head(world, &head, tokens);
        run(world);
    }
    assert_int_equal(world->hits, 0);
    assert_int_equal(storage->loads, 0);
    world_assert_empty(world);
    world_close(world);
    free(storage);
}

/* The storage of another process is asked: a request waits for its answer, but not for ever; the
 * unit says until when. */
TEST(an_answer_is_waited_for_in_time) {
    struct storage *storage = storage_open(3);
    struct world *world = open_above(storage, KV_CHOICE_MEASURED);
    uint32_t late = world_submit(world, 200, 5);
    world_drain(world);
    world_step(world);
    world_drain(world);
    assert_null(world->plan);
    int64_t wake_ns = world->machine.next_wake_ns(world->machine.self);
    assert_true(wake_ns > world->now_ns && wake_ns < MACHINE_NEVER);
    uint32_t short_one = world_submit(world, 20, 5); /* nothing to be found: it goes on */
    for (int turn = 0; turn < 100 && !world->known[short_one].endings; turn++) {
        world_drain(world);
        if (world->plan) world_complete(world, false);
        world_step(world);
    }
    assert_int_equal(world->known[short_one].endings, 1);
    assert_int_equal(world->known[late].endings, 0);
    if (world->now_ns < wake_ns) world->now_ns = wake_ns;
    for (int turn = 0; turn < 100 && !world->known[late].endings; turn++) {
        world_drain(world);
        if (world->plan) world_complete(world, false);
        world_step(world);
    }
    assert_int_equal(world->known[late].endings, 1);
    assert_true(storage->pending_count > 0);
    run(world);
    world_assert_empty(world);
    world_close(world);
    free(storage);
}

/* Cancelled while its pages are written to: they are given back when that is over. */
TEST(a_load_outlives_its_request) {
    struct storage *storage = storage_open(4);
    struct world *world = open_above(storage, KV_CHOICE_LOAD);
    world_submit_family(world, 5, 500, 4);
    run(world);
    world_close(world);
    world = open_above(storage, KV_CHOICE_LOAD);
    uint32_t number = world_submit_family(world, 5, 500, 4);
    world_drain(world);
    assert_int_equal(storage->pending_count, 1);
    storage_do(storage, 0); /* found */
    world_step(world);
    world_drain(world);
    assert_int_equal(storage->pending[0].record->kind, RECORD_KV_LOAD);
    world_cancel(world, number);
    world_drain(world);
    assert_int_equal(world->known[number].endings, 0);
    assert_true(world->load.pages_held > 0);
    storage_do(storage, 0);
    world_drain(world);
    assert_int_equal(world->known[number].endings, 1);
    run(world);
    world_assert_empty(world);
    world_close(world);
    free(storage);
}

static uint64_t reloaded(const struct world *world) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < world->submitted; i++)
        sum += world->known[i].work.reloaded_tokens;
    return sum;
}

/* Answers that grow until pages run out: who lost its pages loads what it had, of its answer, too,
 * which was kept block by block; the tokens are those of whoever computes all of it again. */
TEST(interrupted_requests_load_what_they_had) {
    uint64_t recomputed[2] = {0}, loaded[2] = {0}, preemptions = 0;
    for (uint32_t way = 0; way < 2; way++)
        for (uint32_t life = 0; life < 10; life++) {
            struct storage *storage = storage_open(life);
            struct unit_options options = world_options();
            options.page_count = 14;
            options.prefix_cache = true;
            options.speculate = life % 2 ? SPECULATE_ALWAYS : SPECULATE_NEVER;
            options.kv_storage = true;
            options.kv_choice = way ? KV_CHOICE_LOAD : KV_CHOICE_COMPUTE;
            options.page_bytes = 1000;
            struct world *world = world_open(&options);
            world->other = take_other;
            world->context = storage;
            world->stop_odds = 0;
            for (uint32_t i = 0; i < 6; i++)
                world_submit(world, 100 + 20 * life, 600);
            run(world);
            world_assert_empty(world);
            preemptions += world->load.totals.preemptions;
            recomputed[way] += world->load.totals.recomputed_tokens;
            loaded[way] += reloaded(world);
            world_close(world);
            free(storage);
        }
    assert_true(preemptions > 40);
    assert_int_equal(loaded[0], 0);
    assert_true(loaded[1] > 5000 && recomputed[1] < recomputed[0] / 3);
}

/* A unit is lost with all its pages; another one that shares the storage goes on from the last
 * whole block, be it of the answer, and is told to look for what was stored a moment ago. */
TEST(another_unit_loads_an_answers_blocks) {
    struct storage *storage = storage_open(5);
    struct world *first = open_above(storage, KV_CHOICE_LOAD);
    first->stop_odds = 0;
    world_submit_family(first, 3, 200, 300);
    run(first);
    struct known known = first->known[0];
    world_close(first);
    for (uint32_t cut = 1; cut < 300; cut += 37) {
        struct world *second = open_above(storage, KV_CHOICE_LOAD);
        uint32_t finds = storage->fresh_finds, whole = (200 + cut - 1) / KV_BLOCK_TOKENS;
        second->stop_odds = 0;
        world_submit_resumed(second, &(struct sampling){.top_p = 1}, known.tokens, 200, cut, 300);
        run(second);
        assert_int_equal(storage->fresh_finds, finds + 1);
        assert_int_equal(second->known[0].first_start, whole * KV_BLOCK_TOKENS);
        assert_memory_equal(second->known[0].tokens, known.tokens, 500 * sizeof(uint32_t));
        const struct unit_work *work = &second->known[0].work;
        assert_int_equal(work->prompt_hit_tokens, whole < 4 ? 192 : 200);
        assert_int_equal(work->recomputed_tokens,
                         200 + cut - 1 - whole * KV_BLOCK_TOKENS - (whole < 4 ? 200 - 192 : 0));
        world_assert_empty(second);
        world_close(second);
    }
    free(storage);
}

/* Many requests, a slow and forgetful storage, few pages. */
TEST(whatever_the_storage_does_the_answers_stay) {
    uint32_t loaded = 0, dropped = 0;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct storage *storage = storage_open(seed);
        storage->late_odds = 0.7;
        storage->lose_odds = seed % 2 ? 0.1 : 0;
        for (int life = 0; life < 2; life++) {
            struct world *world =
                open_above(storage, seed % 3 ? KV_CHOICE_LOAD : KV_CHOICE_MEASURED);
            for (uint32_t i = 0; i < 12; i++) {
                for (uint32_t k = 0; k < 3; k++)
                    world_submit_family(world, 1 + (uint32_t)(storage_draw(storage) * 8),
                                        100 + (uint32_t)(storage_draw(storage) * 700), 20);
                if (storage_draw(storage) < 0.5)
                    world_cancel(world, (uint32_t)(storage_draw(storage) * world->submitted));
                run(world);
            }
            world_assert_empty(world);
            world_close(world);
        }
        loaded += storage->loaded;
        dropped += storage->dropped;
        free(storage);
    }
    assert_true(loaded > 300 && dropped > 100);
}

/* A lone request runs while its blocks come: its row begins behind them before they are there, and
 * counts as if they had been. */
TEST(a_lone_request_runs_while_it_loads) {
    struct storage *storage = storage_open(6);
    struct world *world = open_above(storage, KV_CHOICE_LOAD);
    world_submit_family(world, 5, 500, 4);
    run(world);
    world_close(world);
    load_parts = 5;
    for (uint32_t way = 0; way < 3; way++) { /* it comes; not all of it; the step fails */
        world = open_above(storage, KV_CHOICE_LOAD);
        uint32_t number = world_submit_family(world, 5, 500, 4);
        world_drain(world);
        storage_do(storage, 0); /* found */
        world_step(world);
        world_drain(world);
        assert_non_null(world->plan);
        const struct step_row *row = step_plan_rows(world->plan);
        assert_int_equal(row->first_position, 7 * KV_BLOCK_TOKENS);
        assert_int_equal(storage->pending[0].record->kind, RECORD_KV_LOAD);
        const struct record_kv_load *load = (const void *)storage->pending[0].record;
        assert_true(load->in_step && row->loads);
        assert_int_equal(load->slot, row->slot);
        storage->lose_odds = way == 1;
        uint32_t loads = storage->loads;
        world_complete(world, way == 2);
        world_drain(world);
        assert_int_equal(storage->loads, loads + (way < 2));
        assert_int_equal(world->known[number].received, way == 0);
        storage->lose_odds = 0;
        run(world);
        assert_int_equal(world->known[number].first_start, way == 1 ? 0 : 7 * KV_BLOCK_TOKENS);
        world_assert_empty(world);
        world_close(world);
    }
    load_parts = 0;
    free(storage);
}

/* A world above a storage of families 3 to 6, whose steps take a millisecond. It has loaded a
 * family, so that it knows what the storage says of a block, unless that is 0. */
static struct world *open_measured(struct storage *storage, int64_t block_ns) {
    struct world *world = open_above(storage, KV_CHOICE_LOAD);
    (void)ask_families(world);
    world_close(world);
    load_parts = 40;
    world = open_above(storage, KV_CHOICE_LOAD);
    load_parts = 0;
    world->step_ns = 1000000;
    world->stop_odds = 0;
    storage->block_ns = block_ns;
    world_submit(world, 300, 3); /* what a step costs */
    if (block_ns) world_submit_family(world, 3, 300, 3);
    run(world);
    return world;
}

/* Begins an answer, which goes on meanwhile. */
static void begin_answer(struct world *world) {
    world_submit(world, 100, 500);
    for (int i = 0; i < 4; i++) {
        world_step(world);
        world_drain(world);
        if (world->plan) world_complete(world, false);
        world_drain(world);
    }
}

/* Up to the plan in which it may have its row; its number. */
static uint32_t ask_family(struct storage *storage, struct world *world, uint32_t family) {
    while (storage->pending_count)
        storage_do(storage, 0);
    uint32_t number = world_submit_family(world, family, family * 100, 4);
    world_drain(world);
    storage_do(storage, 0); /* found */
    world_step(world);
    world_drain(world);
    return number;
}

static uint32_t waiting_rows(const struct world *world) {
    uint32_t count = 0;
    for (uint32_t i = 0; world->plan && i < world->plan->row_count; i++)
        count += step_plan_rows(world->plan)[i].loads > 0;
    return count;
}

/* Alone a row waits in a step for its load, however long that takes; where others run, only if its
 * load is known to be quick; else it is parked as ever. */
TEST(a_row_makes_others_wait_for_little) {
    static const struct {
        bool answers;
        int64_t block_ns;
        bool waits;
    } cases[] = {{false, 0, true},       {false, 1000, true},     {false, 1000000, true},
                 {true, 0, false},       {true, 1000, true},      {true, 10000, true},
                 {true, 1000000, false}, {true, 100000000, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct storage *storage = storage_open(7);
        struct world *world = open_measured(storage, cases[i].block_ns);
        uint64_t before = world->load.totals.loads_in_step;
        if (cases[i].answers) begin_answer(world);
        uint32_t number = ask_family(storage, world, 5);
        assert_int_equal(waiting_rows(world), cases[i].waits);
        assert_int_equal(world->plan != NULL, cases[i].waits || cases[i].answers);
        run(world);
        assert_int_equal(world->load.totals.loads_in_step, before + cases[i].waits);
        assert_int_equal(world->load.totals.loads_in_step_lost, 0);
        assert_int_equal(world->known[number].first_start, 7 * KV_BLOCK_TOKENS);
        world_assert_empty(world);
        world_close(world);
        free(storage);
    }
}

/* Requests at other ranks wait for a step as those here do. */
TEST(other_ranks_wait_for_little) {
    for (int64_t block_ns = 0; block_ns <= 1000000; block_ns += 1000000) {
        struct storage *storage = storage_open(7);
        struct world *world = open_measured(storage, block_ns);
        struct unit *unit = world->unit;
        uint32_t number = ask_family(storage, world, 5);
        const struct unit_request *request =
            unit_request_of(unit, (struct request_id){.low = number});
        assert_true(kv_offload_may_wait(unit, request, 1000));
        unit->others = true;
        assert_false(kv_offload_may_wait(unit, request, 1000));
        run(world);
        world_assert_empty(world);
        world_close(world);
        free(storage);
    }
}

/* A load comes behind those that are under way at its rank: each would be quick alone. */
TEST(loads_ahead_count) {
    struct storage *storage = storage_open(10);
    struct world *world = open_measured(storage, 100000);
    begin_answer(world);
    uint32_t first = ask_family(storage, world, 6);
    assert_int_equal(waiting_rows(world), 1);
    storage->idle_odds = 1; /* the step does not see its end */
    world_complete(world, false);
    world_drain(world);
    assert_int_equal(world->known[first].received, 0);
    for (int i = 0; i < 4; i++) { /* the answer goes on, and time for prompts is earned */
        world_step(world);
        world_drain(world);
        assert_int_equal(waiting_rows(world), 0);
        world_complete(world, false);
        world_drain(world);
    }
    uint32_t second = world_submit_family(world, 5, 500, 4);
    world_drain(world);
    storage_do(storage, storage->pending_count - 1); /* found */
    world_step(world);
    world_drain(world);
    assert_int_equal(waiting_rows(world), 0);
    run(world);
    assert_int_equal(world->load.totals.loads_in_step_lost, 1);
    assert_true(world->known[first].received == 4 && world->known[second].received == 4);
    world_assert_empty(world);
    world_close(world);
    free(storage);
}

/* What a refused row would have taken of the step is somebody else's: a prompt that computes all
 * gets the same row as if the other had not been there. */
TEST(a_refused_row_leaves_its_room) {
    uint32_t rows[2];
    for (uint32_t way = 0; way < 2; way++) {
        struct storage *storage = storage_open(8);
        struct world *world = open_measured(storage, 1000000);
        while (storage->pending_count)
            storage_do(storage, 0);
        if (way) world_submit_family(world, 5, 500, 4); /* before it in the line */
        world_submit(world, 63, 4);
        world_submit(world, 400, 4);
        world_drain(world);
        while (storage->pending_count)
            storage_do(storage, 0); /* found */
        world_step(world);
        world_drain(world);
        assert_int_equal(waiting_rows(world), 0);
        rows[way] = world->plan->token_count;
        run(world);
        world_assert_empty(world);
        world_close(world);
        free(storage);
    }
    assert_int_equal(rows[0], rows[1]);
}

/* In mid-step, beside an answer: its client leaves, the engine dies, the step fails; the load comes
 * before the step's end, not whole, or long after it. */
TEST(a_row_that_waits_may_be_left) {
    enum { STAYS, CANCELLED, ABANDONED, FAILED, FAILED_BEHIND, WAYS };
    for (uint32_t way = 0; way < WAYS; way++)
        for (uint32_t load = 0; load < 3; load++) { /* whole; not; later */
            struct storage *storage = storage_open(9);
            struct world *world = open_measured(storage, 1000);
            begin_answer(world);
            uint32_t number = ask_family(storage, world, 5), loads = storage->loads;
            uint64_t lost = load > 0 || way >= FAILED || way == ABANDONED;
            assert_int_equal(waiting_rows(world), 1);
            storage->lose_odds = load == 1;
            storage->idle_odds = load == 2;
            if (way == CANCELLED) world_cancel(world, number);
            if (way == ABANDONED) world->unit->abandoned = true;
            if (way == FAILED_BEHIND && load < 2) storage_await(world, number);
            world_complete(world, way >= ABANDONED);
            world_drain(world);
            bool over = storage->loads > loads;
            assert_int_equal(over, load < 2 && (way < ABANDONED || way == FAILED_BEHIND));
            assert_int_equal(world->known[number].received, way == STAYS && load == 0);
            assert_int_equal(world->load.totals.loads_in_step_lost, lost);
            assert_int_equal(world->load.totals.loads_in_step, 1 - lost);
            /* Until the unit has been told that the load is over the request holds its pages. */
            assert_int_equal(world->known[number].endings, over && way == CANCELLED);
            storage->lose_odds = storage->idle_odds = 0;
            if (way == ABANDONED) {
                for (int i = 0; i < 9; i++) {
                    world_step(world);
                    world_drain(world);
                    if (storage->pending_count) storage_do(storage, 0);
                }
            }
            run(world);
            enum finish_reason reason = world->known[number].reason;
            if (way == STAYS) assert_int_equal(reason, FINISH_LENGTH);
            if (way == CANCELLED) assert_int_equal(reason, FINISH_CANCELLED);
            if (way == ABANDONED) assert_int_equal(reason, FINISH_FAILED);
            if (way == FAILED || way == FAILED_BEHIND) assert_int_equal(reason, FINISH_LENGTH);
            world_assert_empty(world);
            world_close(world);
            free(storage);
        }
}

/* Lone requests and others, loads that break, steps that fail, cancels in mid-step. */
TEST(rows_that_wait_change_no_answer) {
    uint32_t waited = 0, lost = 0;
    load_parts = 5;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct storage *storage = storage_open(seed);
        storage->late_odds = 0.9; /* the engine is there before the load is over */
        storage->lose_odds = seed % 2 ? 0.1 : 0;
        storage->idle_odds = seed % 3 ? 0 : 0.3;
        fail_odds = seed % 5 == 0 ? 0.1 : 0;
        for (uint32_t i = 0; i < 30; i++) {
            struct world *world = open_above(storage, KV_CHOICE_LOAD); /* nothing is in pages */
            for (uint32_t k = 0; k < 1 + i % 4 / 3; k++)
                world_submit_family(world, 1 + (uint32_t)(storage_draw(storage) * 8),
                                    100 + (uint32_t)(storage_draw(storage) * 700), 3);
            world_drain(world);
            while (storage->pending_count)
                storage_do(storage, 0); /* found */
            world_step(world);
            world_drain(world);
            if (storage_draw(storage) < 0.2) world_cancel(world, world->submitted - 1);
            run(world);
            waited += world->waited_rows;
            lost += world->lost_rows;
            world_assert_empty(world);
            world_close(world);
        }
        free(storage);
    }
    load_parts = 0;
    fail_odds = 0;
    assert_true(waited > 100 && lost > 10);
}
