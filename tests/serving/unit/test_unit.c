/* SPDX-License-Identifier: Apache-2.0
 * The unit with an invented engine: first its promises one by one, then random lives over many
 * seeds.
 */

#include "base/check.h"
#include "base/random.h"
#include "serving/policy/step_cost.h"
#include "test_case.h"
#include "world.h"

/* ---- promises ---- */

TEST(it_introduces_itself_once) {
    struct unit_options options = world_options();
    struct world *world = world_open(&options);
    assert_int_not_equal(world->machine.next_wake_ns(world->machine.self), MACHINE_NEVER);
    world_run(world);
    world_submit(world, 10, 3);
    world_run(world);
    assert_int_equal(world->hellos, 1);
    struct record_role *role = world_make(RECORD_ROLE, NULL);
    role->role = UNIT_DECODE;
    world_send(world, role);
    world_run(world);
    assert_int_equal(world->hellos, 2); /* again, since what it says has changed */
    assert_int_equal(world->role, UNIT_DECODE);
    world_assert_empty(world);
    world_close(world);
}

/* Prompts longer than a step, answers to the last allowed token, many at once. */
TEST(requests_of_all_sizes_end_well) {
    struct unit_options options = world_options();
    struct world *world = world_open(&options);
    static const uint32_t sizes[][2] = {{1, 1}, {64, 1}, {65, 64}, {700, 40}, {128, 300}, {999, 1}};
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++)
        world_submit(world, sizes[i][0], sizes[i][1]);
    world_run(world);
    for (uint32_t i = 0; i < world->submitted; i++)
        assert_true(world->known[i].reason == FINISH_LENGTH ||
                    world->known[i].reason == FINISH_STOP_TOKEN);
    assert_int_equal(world->known[0].received, 1);
    world_assert_empty(world);
    world_close(world);
}

TEST(what_cannot_run_is_refused_at_once) {
    struct unit_options options = world_options();
    options.page_count = 10; /* 640 tokens */
    struct world *world = world_open(&options);
    uint32_t context = world_submit(world, 990, 11), memory = world_submit(world, 600, 41);
    world_drain(world);
    assert_int_equal(world->known[context].reason, FINISH_REFUSED_TOO_LARGE);
    assert_int_equal(world->known[memory].reason, FINISH_REFUSED_TOO_LARGE);
    for (int i = 0; i < 12; i++)
        world_submit(world, 60, 4);
    uint32_t late = world_submit(world, 60, 4);
    world_drain(world);
    assert_int_equal(world->known[late].reason, FINISH_REFUSED_QUEUE);
    struct record_drain *drain_record = world_make(RECORD_DRAIN, NULL);
    world_send(world, drain_record);
    uint32_t later = world_submit(world, 60, 4);
    world_drain(world);
    assert_int_equal(world->known[later].reason, FINISH_REFUSED_DRAINING);
    world_run(world); /* those let in before still run */
    assert_int_equal(world->known[2].endings, 1);
    assert_true(world->known[2].reason <= FINISH_LENGTH);
    world_assert_empty(world);
    world_close(world);
}

/* The engine still writes to the pages of a running request: they may go back only after the step.
 */
TEST(a_request_cancelled_in_a_step_frees_its_pages_after_it) {
    struct unit_options options = world_options();
    struct world *world = world_open(&options);
    uint32_t running = world_submit(world, 100, 50);
    world_step(world);
    world_drain(world);
    assert_non_null(world->plan);
    uint32_t waiting = world_submit(world, 100, 50);
    world_cancel(world, running);
    world_cancel(world, waiting);
    world_drain(world);
    assert_int_equal(world->known[running].endings, 0);
    assert_int_equal(world->load.pages_held, 3);
    assert_int_equal(world->known[waiting].reason, FINISH_CANCELLED);
    world_complete(world, false);
    world_drain(world);
    assert_int_equal(world->known[running].reason, FINISH_CANCELLED);
    world_cancel(world, running); /* late: ignored */
    world_assert_empty(world);
    world_close(world);
}

TEST(a_failed_step_fails_its_requests_only) {
    struct unit_options options = world_options();
    struct world *world = world_open(&options);
    uint32_t first = world_submit(world, 100, 50);
    world_step(world);
    world_drain(world);
    uint32_t second = world_submit(world, 100, 50);
    world_complete(world, true);
    world_drain(world);
    assert_int_equal(world->known[first].reason, FINISH_FAILED);
    assert_int_equal(world->known[second].endings, 0);
    world_run(world);
    assert_true(world->known[second].reason <= FINISH_LENGTH);
    world_assert_empty(world);
    world_close(world);
}

static enum status create(const struct unit_options *options, size_t bytes, struct error *error) {
    void *memory = malloc(bytes);
    struct arena arena;
    struct rank_units *units;
    arena_over(&arena, memory, bytes);
    enum status status = rank_units_create(&arena, options, 1, &units, error);
    free(memory);
    return status;
}

TEST(options_out_of_range_are_named) {
    struct unit_options options = world_options();
    struct error error;
    size_t bytes = rank_units_memory_bytes(&options, 1);
    options.step_tokens_max = 69;
    assert_int_equal(create(&options, bytes, &error), STATUS_INVALID);
    assert_non_null(strstr(error.text, "step_tokens_max is 69, must be 70 to"));
    options = world_options();
    options.outbox_bytes = 100;
    assert_int_equal(create(&options, bytes, &error), STATUS_INVALID);
    options = world_options();
    assert_int_equal(create(&options, bytes, &error), STATUS_OK);
    assert_int_equal(create(&options, 1 << 10, &error), STATUS_NO_MEMORY);
}

/* ---- random lives ---- */

static uint64_t seed_now;
static uint32_t draws, answers_max;

static uint32_t below(uint32_t bound) {
    return (uint32_t)(random_uniform(seed_now, 9, draws++) * bound);
}

static struct unit_options random_options(void) {
    struct unit_options options = world_options();
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
    world_step(world);
    world_drain(world);
    if (world->plan) world_complete(world, false);
    world_drain(world);
}

/* A prompt of its own, of a family, or a talk's next turn. */
static void arrive(struct world *world) {
    uint32_t kind = below(4), size = 1 + below(below(4) ? 150 : 1000);
    uint32_t answer = 1 + below(answers_max);
    world->constraint_bytes = below(3) ? 0 : 1 + below(below(4) ? 300 : LIMIT_CONSTRAINT_BYTES);
    if (kind == 0 && world->submitted)
        world_submit_turn(world, below(world->submitted), 1 + below(100), answer);
    else
        world_submit_family(world, kind == 1 ? 0 : 1 + below(3), size, answer);
}

/* Everything at random moments: arrivals, cancellations, failed steps, undrained outboxes (FULL), a
 * drain, few pages, constraints that force tokens, come late or lead nowhere. Whatever happens: one
 * ending each, tokens in order and the same as without interruptions, only rows read that were
 * written for these very tokens, pages back, tables empty.
 */
TEST(every_life_ends_once_and_returns_its_pages) {
    uint32_t reasons[FINISH_REASON_COUNT] = {0}, fulls = 0, forced = 0, late = 0, stuck = 0;
    uint64_t drafts = 0, right = 0;
    uint64_t hits = 0, evicted = 0, preemptions = 0, recomputed = 0, steps = 0, outputs = 0;
    for (seed_now = 0; seed_now < 300; seed_now++) {
        draws = 0;
        struct unit_options options = random_options();
        struct world *world = world_open(&options);
        uint32_t turns = 200 + below(800), failures = below(2) ? below(10) : 0;
        uint32_t arrivals = 1 + below(3), quick = below(2) ? 1 : 1 + below(12);
        answers_max = below(2) ? 60 : 600;
        world->forced_odds = below(2) ? 0.5 : 0.95;
        world->late_odds = below(2) ? 0 : 0.1;
        world->stuck_odds = 0.005;
        uint32_t drain_odds = 1 + below(below(3) ? 2 : 60), cancel_odds = 1 + below(20);
        for (uint32_t turn = 0; turn < turns; turn++) {
            world->now_ns += below(1000);
            uint32_t act = below(10);
            if (act < arrivals && world->submitted < REQUESTS_MAX)
                arrive(world);
            else if (act == 3 && world->submitted && below(cancel_odds) == 0)
                world_cancel(world, below(world->submitted));
            else if (act < 7 && world->plan) {
                world->step_ns = below(200);
                world_complete(world, below(100) < failures);
            } else if (act == 7 && below(200) == 0)
                world_send(world, world_make(RECORD_DRAIN, NULL));
            world_step(world);
            if (below(20) == 0) fill_outbox(world);
            if (below(drain_odds) == 0) world_drain(world);
            for (uint32_t i = below(quick); i > 0; i--)
                turn_engine(world);
        }
        world_run(world);
        world_assert_empty(world);
        for (uint32_t i = 0; i < world->submitted; i++) {
            reasons[world->known[i].reason]++;
            forced += world->known[i].forced;
            late += world->known[i].late;
            stuck += world->known[i].stuck;
        }
        fulls += world->fulls;
        steps += world->load.totals.steps;
        outputs += world->load.totals.output_tokens;
        hits += world->hits;
        evicted += world->load.totals.evicted_pages;
        preemptions += world->load.totals.preemptions;
        recomputed += world->load.totals.recomputed_tokens;
        drafts += world->load.totals.drafts;
        right += world->load.totals.drafts_right;
        world_close(world);
    }
    for (int i = 0; i < FINISH_HANDED_OVER; i++)
        assert_true(reasons[i] > 0); /* all were met */
    assert_true(fulls > 20);
    print_message(
        "# %lu steps, %lu tokens, %lu hit; pages evicted %lu; interrupted %lu, again %lu; drafts "
        "%lu, %lu right\n",
        (unsigned long)steps, (unsigned long)outputs, (unsigned long)hits, (unsigned long)evicted,
        (unsigned long)preemptions, (unsigned long)recomputed, (unsigned long)drafts,
        (unsigned long)right);
    assert_true(drafts > 10000 && right > 5000 && right < drafts);
    print_message("# %u tokens forced, %u rows late, %u answers stuck\n", forced, late, stuck);
    assert_true(forced > 10000 && late > 500 && stuck > 50);
    assert_true(hits > 10000 && evicted > 1000 && preemptions > 50 && recomputed > 5000);
}
