/* SPDX-License-Identifier: Apache-2.0
 * A request's life by hand: every transition counts, takes or gives back its pages, and is
 * reported when a load report would show it; the counts always agree with the requests.
 */
#include "serving/unit/unit_request.h"

#include "serving/unit/rank_units.h"
#include "test_case.h"

#define PROMPT_TOKENS 100
#define PAGES 16

struct world {
    void *memory;
    struct unit *unit;
};

static void open_world(struct world *world) {
    struct unit_options options = {.requests_max = 3,
                                   .page_count = PAGES,
                                   .context_tokens_max = 512,
                                   .step_rows_max = 4,
                                   .step_tokens_max = 256,
                                   .vocab_count = 100,
                                   .prefix_cache = true,
                                   .model_id = (const uint8_t[32]){0},
                                   .numerics_id = "test"};
    struct arena arena;
    struct error error;
    struct rank_units *units;
    size_t bytes = rank_units_memory_bytes(&options, 1);
    world->memory = malloc(bytes);
    arena_over(&arena, world->memory, bytes);
    assert_int_equal(rank_units_create(&arena, &options, 1, &units, &error), STATUS_OK);
    world->unit = rank_units_unit(units, 0);
}

static struct unit_request *enter(struct unit *unit, uint64_t id) {
    struct unit_request *request = unit_request_free(unit);
    request->id = (struct request_id){.high = id, .low = id};
    request->prompt_count = PROMPT_TOKENS;
    request->new_tokens_max = request->tokens_here_max = 8;
    request->scored_count = PROMPT_TOKENS;
    request->node = PREFIX_NONE;
    request->work.queue_ns = -1;
    request->tokens = arena_take_zeroed(&request->arena, 128 * sizeof *request->tokens);
    request->pages = arena_take_zeroed(&request->arena, 4 * sizeof *request->pages);
    request->block_prompt = arena_take_zeroed(&request->arena, 4);
    unit_request_enter(unit, request, 10);
    return request;
}

static void assert_counts(struct unit *unit, uint32_t waiting, uint32_t parked, uint32_t leaving,
                          uint32_t prefill, uint32_t decode) {
    const uint32_t wanted[] = {waiting, parked, leaving, prefill, decode};
    assert_memory_equal(&unit->counts[UNIT_REQUEST_WAITING], wanted, sizeof wanted);
    assert_int_equal(unit_held_count(unit), waiting + parked + leaving + prefill + decode);
    unit_request_audit(unit);
}

/* Whether the last transition is one that a load report shows. */
static bool was_reported(struct unit *unit) {
    bool changed = unit->load_changed;
    unit->load_changed = false;
    return changed;
}

TEST(each_transition_counts) {
    struct world world;
    open_world(&world);
    struct unit *unit = world.unit;
    struct unit_request *request = enter(unit, 1);
    assert_counts(unit, 1, 0, 0, 0, 0);
    assert_true(was_reported(unit) && unit->plan_wanted);
    assert_ptr_equal(unit_request_of(unit, request->id), request);
    unit_request_start(unit, request, 20);
    assert_counts(unit, 0, 0, 0, 1, 0);
    assert_true(was_reported(unit) && request->fresh);
    unit_request_answer(unit, request);
    unit_request_answer(unit, request);
    assert_counts(unit, 0, 0, 0, 0, 1);
    assert_false(was_reported(unit)); /* it runs, as before */
    unit_request_wait_again(unit, request, 30);
    assert_counts(unit, 1, 0, 0, 0, 0);
    assert_true(was_reported(unit) && request->waits_since_ns == 30);
    unit_request_end(unit, request, FINISH_CANCELLED);
    assert_counts(unit, 0, 0, 0, 0, 0);
    assert_int_equal(machine_outbox_next(unit->outbox, NULL)->kind, RECORD_FINISHED);
    free(world.memory);
}

TEST(who_is_parked_holds_its_pages_until_it_waits_again_or_ends) {
    struct world world;
    open_world(&world);
    struct unit *unit = world.unit;
    struct unit_request *request = enter(unit, 1);
    struct pages_hit hit = pages_look_up(unit, request);
    assert_true(unit_request_park(unit, request, &hit, PROMPT_TOKENS + 1));
    assert_counts(unit, 0, 1, 0, 0, 0);
    assert_int_equal(unit->pages.held_count, request->page_count);
    assert_int_equal(request->page_count, 2);
    was_reported(unit);
    unit_request_go_on(unit, request, UNIT_REQUEST_PREFILL);
    assert_counts(unit, 0, 0, 0, 1, 0);
    unit_request_park_again(unit, request);
    assert_counts(unit, 0, 1, 0, 0, 0);
    was_reported(unit);
    unit_request_leave(unit, request);
    assert_counts(unit, 0, 0, 1, 0, 0);
    assert_false(was_reported(unit)); /* parked, as a report calls it */
    assert_int_equal(unit->pages.held_count, 2);
    unit_request_drop(unit, request);
    assert_int_equal(unit->pages.held_count, 0);
    assert_ptr_equal(machine_outbox_next(unit->outbox, NULL), NULL); /* without a word */
    request = enter(unit, 2);
    hit = pages_look_up(unit, request);
    assert_true(unit_request_park(unit, request, &hit, PROMPT_TOKENS + 1));
    unit_request_wait_again(unit, request, 50);
    assert_counts(unit, 1, 0, 0, 0, 0);
    assert_int_equal(unit->pages.held_count, 0);
    free(world.memory);
}

TEST(nobody_is_parked_without_room) {
    struct world world;
    open_world(&world);
    struct unit *unit = world.unit;
    struct page_id pages[PAGES];
    assert_true(page_table_claim(&unit->pages, PAGES - 1, pages));
    struct unit_request *request = enter(unit, 1);
    struct pages_hit hit = pages_look_up(unit, request);
    assert_false(unit_request_park(unit, request, &hit, PROMPT_TOKENS + 1));
    assert_counts(unit, 1, 0, 0, 0, 0);
    assert_int_equal(request->page_count, 0);
    free(world.memory);
}

TEST(slots_come_back) {
    struct world world;
    open_world(&world);
    struct unit *unit = world.unit;
    for (uint64_t round = 0; round < 10; round++) {
        struct unit_request *first = enter(unit, 3 * round), *second = enter(unit, 3 * round + 1);
        struct unit_request *third = enter(unit, 3 * round + 2);
        assert_counts(unit, 3, 0, 0, 0, 0);
        unit_request_drop(unit, second);
        unit_request_drop(unit, round % 2 ? first : third);
        unit_request_drop(unit, round % 2 ? third : first);
        assert_counts(unit, 0, 0, 0, 0, 0);
        assert_int_equal(unit->prompts->free_count, unit->prompts->chunk_count);
    }
    free(world.memory);
}
