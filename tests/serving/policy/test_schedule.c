/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/policy/schedule.h"

#include "base/check.h"
#include "base/random.h"
#include "test_case.h"

enum { ITEMS_MAX = 64 };
static struct schedule_choice choices[ITEMS_MAX];
static uint32_t order[ITEMS_MAX];

static const struct step_cost nothing_known;
static const struct schedule_limits roomy = {.rows_max = 8,
                                             .tokens_max = 512,
                                             .chunk_tokens_max = 256,
                                             .pages_available = 100,
                                             .cost = &nothing_known,
                                             .prompt_ns_max = SCHEDULE_UNBOUND};

static uint32_t run(const struct schedule_item *items, uint32_t count,
                    struct schedule_limits limits) {
    schedule_order(items, count, order);
    return schedule_step(items, count, &limits, order, choices);
}

static void assert_choice(uint32_t at, uint32_t item, uint32_t token_count,
                          enum schedule_reason reason) {
    assert_int_equal(choices[at].item, item);
    assert_int_equal(choices[at].token_count, token_count);
    assert_int_equal(choices[at].reason, reason);
}

/* Generation goes first, so that a long prompt cannot make the others stutter. */
TEST(decode_rows_come_first) {
    const struct schedule_item items[] = {
        {.slot = 0,
         .phase = SCHEDULE_PREFILL,
         .turn = -9,
         .row_end = 700,
         .known_tokens = 700,
         .arrival = 0},
        {.slot = 1,
         .phase = SCHEDULE_DECODE,
         .computed_tokens = 5,
         .row_end = 6,
         .known_tokens = 6,
         .arrival = 3},
        {.slot = 2, .phase = SCHEDULE_WAITING, .row_end = 30, .known_tokens = 30, .arrival = 2},
        {.slot = 3,
         .phase = SCHEDULE_DECODE,
         .computed_tokens = 5,
         .row_end = 6,
         .known_tokens = 6,
         .arrival = 1},
    };
    assert_int_equal(run(items, 4, roomy), 4);
    assert_choice(0, 3, 1, SCHEDULE_NEXT_TOKEN);
    assert_choice(1, 1, 1, SCHEDULE_NEXT_TOKEN);
    assert_choice(2, 0, 256, SCHEDULE_CHUNK);
    assert_choice(3, 2, 30, SCHEDULE_PROMPT_END);
    assert_true(choices[3].starts);
    assert_false(choices[2].starts);
}

/* Urgency, then arrival, then the lowest slot. */
TEST(prompts_go_by_priority_then_arrival) {
    const struct schedule_item items[] = {
        {.slot = 4, .phase = SCHEDULE_WAITING, .row_end = 10, .known_tokens = 10, .arrival = 7},
        {.slot = 3, .phase = SCHEDULE_WAITING, .row_end = 10, .known_tokens = 10, .arrival = 7},
        {.slot = 2, .phase = SCHEDULE_PREFILL, .row_end = 10, .known_tokens = 10, .arrival = 5},
        {.slot = 1,
         .phase = SCHEDULE_WAITING,
         .row_end = 10,
         .known_tokens = 10,
         .arrival = 9,
         .turn = -1},
    };
    assert_int_equal(run(items, 4, roomy), 4);
    assert_choice(0, 3, 10, SCHEDULE_PROMPT_END);
    assert_choice(1, 2, 10, SCHEDULE_PROMPT_END);
    assert_choice(2, 1, 10, SCHEDULE_PROMPT_END);
    assert_choice(3, 0, 10, SCHEDULE_PROMPT_END);
}

/* A request that is too large for now holds the later ones back: it must not starve. */
TEST(nobody_overtakes_the_first_that_waits) {
    const struct schedule_item items[] = {
        {.slot = 0,
         .phase = SCHEDULE_WAITING,
         .row_end = 640,
         .known_tokens = 640,
         .pages_needed = 11,
         .arrival = 0},
        {.slot = 1, .phase = SCHEDULE_WAITING, .row_end = 10, .known_tokens = 10, .arrival = 1},
        {.slot = 2, .phase = SCHEDULE_PREFILL, .row_end = 10, .known_tokens = 10, .arrival = 2},
    };
    struct schedule_limits limits = roomy;
    limits.pages_available = 10;
    assert_int_equal(run(items, 3, limits), 1);
    assert_choice(0, 2, 10, SCHEDULE_PROMPT_END);
    assert_choice(1, 0, 0, SCHEDULE_WAITS_PAGES);
    assert_choice(2, 1, 0, SCHEDULE_WAITS_TURN);
    limits.pages_available = 12;
    assert_int_equal(run(items, 3, limits), 3);
    limits.rows_max = 1;
    limits.tokens_max = 65;
    assert_int_equal(run(items, 3, limits), 1);
    assert_choice(1, 0, 0, SCHEDULE_WAITS_ROWS);
}

/* A decode row takes the tokens forced behind its one; where they are too many, as many as leave
 * one to each other and a block to prompts. */
TEST(forced_tokens_leave_the_others_theirs) {
    const struct schedule_item items[] = {
        {.slot = 0,
         .phase = SCHEDULE_DECODE,
         .computed_tokens = 60,
         .row_end = 67,
         .known_tokens = 67,
         .generated = true,
         .arrival = 0},
        {.slot = 1,
         .phase = SCHEDULE_DECODE,
         .computed_tokens = 5,
         .row_end = 6,
         .known_tokens = 6,
         .draft_tokens = 1,
         .generated = true,
         .arrival = 1},
        {.slot = 2,
         .phase = SCHEDULE_DECODE,
         .computed_tokens = 5,
         .row_end = 9,
         .known_tokens = 9,
         .generated = true,
         .arrival = 2},
        {.slot = 3, .phase = SCHEDULE_PREFILL, .row_end = 64, .known_tokens = 64, .arrival = 3},
    };
    static const uint32_t room[][4] = {
        {13, 7, 1, 4}, {12, 7, 1, 3}, {10, 7, 1, 1}, {9, 6, 1, 1}, {4, 1, 1, 1}};
    struct schedule_limits limits = roomy;
    limits.rows_max = 4;
    for (uint32_t i = 0; i < ARRAY_COUNT(room); i++) {
        limits.tokens_max = KV_BLOCK_TOKENS + room[i][0];
        assert_int_equal(run(items, 4, limits), 4);
        assert_choice(0, 0, room[i][1], room[i][1] < 7 ? SCHEDULE_CHUNK : SCHEDULE_NEXT_TOKEN);
        assert_choice(1, 1, room[i][2], SCHEDULE_NEXT_TOKEN);
        assert_choice(2, 2, room[i][3], room[i][3] < 4 ? SCHEDULE_CHUNK : SCHEDULE_NEXT_TOKEN);
        assert_choice(3, 3, 64, SCHEDULE_PROMPT_END);
    }
}

/* Who needs more than the plan has room for waits for the next one; those that wait do not overtake
 * each other, those that run do. */
TEST(constraints_fit_the_plan) {
    struct schedule_item items[5];
    for (uint32_t i = 0; i < ARRAY_COUNT(items); i++)
        items[i] = (struct schedule_item){.slot = i,
                                          .phase = i < 2 ? SCHEDULE_PREFILL : SCHEDULE_WAITING,
                                          .row_end = 10,
                                          .known_tokens = 10,
                                          .arrival = i};
    struct schedule_limits limits = roomy;
    limits.constraint_bytes_max = 100;
    limits.constraint_tokens_max = 20;
    assert_int_equal(run(items, 5, limits), 5);
    items[0].constraint_bytes = 60;
    items[1].constraint_bytes = 41;
    items[2].constraint_bytes = 40;
    items[3].constraint_bytes = 1;
    assert_int_equal(run(items, 5, limits), 2);
    assert_choice(0, 0, 10, SCHEDULE_PROMPT_END);
    assert_choice(1, 2, 10, SCHEDULE_PROMPT_END);
    assert_choice(2, 1, 0, SCHEDULE_NO_BYTES);
    assert_choice(3, 3, 0, SCHEDULE_NO_BYTES);
    assert_choice(4, 4, 0, SCHEDULE_WAITS_TURN);
    items[0] = (struct schedule_item){.phase = SCHEDULE_DECODE,
                                      .row_end = 10,
                                      .known_tokens = 10,
                                      .computed_tokens = 9,
                                      .constraint_bytes = 100,
                                      .constraint_tokens = 20};
    items[1].constraint_bytes = 0;
    items[1].constraint_tokens = 1;
    assert_int_equal(run(items, 5, limits), 1);
    assert_choice(0, 0, 1, SCHEDULE_NEXT_TOKEN);
    assert_choice(1, 1, 0, SCHEDULE_NO_BYTES);
}

static const struct step_cost some_cost = {.weights = {1000, 50, 40, 2000, 300}};

struct view {
    struct schedule_item items[ITEMS_MAX];
    struct schedule_limits limits;
    uint32_t count;
};

static uint32_t below(uint64_t seed, uint32_t *draw, uint32_t bound) {
    return (uint32_t)(random_uniform(seed, 0, (*draw)++) * bound);
}

static struct view random_view(uint64_t seed) {
    uint32_t draw = 0;
    struct view view = {0};
    view.limits.rows_max = 1 + below(seed, &draw, 16);
    view.limits.tokens_max = view.limits.rows_max + 64 + below(seed, &draw, 600);
    view.limits.chunk_tokens_max = 64 + below(seed, &draw, 600);
    view.limits.pages_available = below(seed, &draw, 40);
    view.limits.constraint_bytes_max = 300;
    view.limits.constraint_tokens_max = 200;
    view.limits.cost = &some_cost;
    view.limits.prompt_ns_max = below(seed, &draw, 2) ? SCHEDULE_UNBOUND : below(seed, &draw, 9000);
    view.limits.prompt_tokens_max = below(seed, &draw, 2) ? 0 : 64 + below(seed, &draw, 300);
    view.count = below(seed, &draw, ITEMS_MAX);
    uint32_t running = 0;
    for (uint32_t i = 0; i < view.count; i++) {
        struct schedule_item *item = &view.items[i];
        item->slot = i;
        item->phase = below(seed, &draw, SCHEDULE_PHASE_COUNT);
        if (item->phase != SCHEDULE_WAITING && running++ >= view.limits.rows_max)
            item->phase = SCHEDULE_WAITING;
        item->turn = (int64_t)below(seed, &draw, 3) - 1;
        item->arrival = below(seed, &draw, 20);
        item->known_tokens = item->row_end = 1 + below(seed, &draw, 500);
        item->computed_tokens = below(seed, &draw, item->row_end) / 64 * 64;
        item->constraint_bytes = below(seed, &draw, 3) ? 0 : below(seed, &draw, 301);
        item->constraint_tokens = item->constraint_bytes ? below(seed, &draw, 201) : 0;
        if (item->phase == SCHEDULE_DECODE) {
            uint32_t forced = below(seed, &draw, 3) ? 0 : below(seed, &draw, 7);
            item->computed_tokens = item->row_end > forced ? item->row_end - 1 - forced : 0;
            item->draft_tokens = forced ? 0 : below(seed, &draw, 2);
            view.limits.tokens_max += item->draft_tokens;
        }
        item->generated = item->phase == SCHEDULE_DECODE || below(seed, &draw, 4) == 0;
        item->known_tokens += below(seed, &draw, 2) * 50;
        item->pages_needed = 1 + item->known_tokens / 64;
        item->unseen = below(seed, &draw, 5) == 0;
    }
    return view;
}

static void check_chunk(const struct schedule_item *item, const struct schedule_choice *choice) {
    uint32_t end = item->computed_tokens + choice->token_count;
    if (item->phase == SCHEDULE_DECODE) {
        if (choice->token_count == 0) assert_int_equal(choice->reason, SCHEDULE_NO_BYTES);
        if (item->draft_tokens) assert_true(choice->token_count <= 1);
        assert_true(end <= item->row_end);
    } else if (choice->token_count) {
        assert_true(end <= item->row_end);
        assert_true(item->generated || end == item->row_end || end % KV_BLOCK_TOKENS == 0);
        assert_int_equal(choice->reason == SCHEDULE_PROMPT_END, end == item->known_tokens);
    }
}

/* Over random queues: every item is decided once, no limit is passed, chunks end on boundaries,
 * every decode row runs but for its constraint, and something runs if anything can. */
TEST(limits_hold_over_random_queues) {
    for (uint64_t seed = 0; seed < 3000; seed++) {
        struct view view = random_view(seed);
        uint32_t running = run(view.items, view.count, view.limits);
        uint32_t tokens = 0, rows = 0, pages = 0, underway = 0, prompt_tokens = 0;
        uint32_t bytes = 0, answers = 0;
        bool seen[ITEMS_MAX] = {false};
        double ns = 0;
        for (uint32_t i = 0; i < view.count; i++) {
            const struct schedule_choice *choice = &choices[i];
            const struct schedule_item *item = &view.items[choice->item];
            assert_false(seen[choice->item]);
            seen[choice->item] = true;
            assert_int_equal(choice->token_count > 0, i < running);
            assert_true(choice->starts ==
                        (choice->token_count > 0 && item->phase == SCHEDULE_WAITING));
            check_chunk(item, choice);
            tokens += choice->token_count ? choice->token_count + item->draft_tokens : 0;
            bytes += choice->token_count ? item->constraint_bytes : 0;
            answers += choice->token_count ? item->constraint_tokens : 0;
            underway += item->phase != SCHEDULE_WAITING;
            rows += item->phase != SCHEDULE_WAITING || choice->starts;
            if (choice->starts) pages += item->pages_needed;
            if (choice->starts) assert_false(item->unseen);
            if (item->phase == SCHEDULE_DECODE) continue;
            prompt_tokens += choice->token_count;
            if (choice->token_count)
                ns += step_cost_run_ns(&some_cost, item->computed_tokens, choice->token_count);
        }
        assert_true(tokens <= view.limits.tokens_max && rows <= view.limits.rows_max);
        assert_true(bytes <= 300 && answers <= 200);
        assert_true(pages <= view.limits.pages_available && ns <= view.limits.prompt_ns_max);
        if (view.limits.prompt_tokens_max)
            assert_true(prompt_tokens <= view.limits.prompt_tokens_max);
        if (view.limits.prompt_ns_max == SCHEDULE_UNBOUND)
            assert_true(running > 0 || underway == 0);
    }
}

/* Prompts get the time that is left beside answers, in blocks; none when it is less than one. */
TEST(prompts_wait_for_time) {
    const struct step_cost cost = {.weights = {[STEP_COST_TOKENS] = 6400}}; /* 100 ns a token */
    const struct schedule_item items[] = {
        {.slot = 0,
         .phase = SCHEDULE_DECODE,
         .computed_tokens = 5,
         .row_end = 6,
         .known_tokens = 6},
        {.slot = 1, .phase = SCHEDULE_PREFILL, .row_end = 700, .known_tokens = 900},
        {.slot = 2, .phase = SCHEDULE_PREFILL, .row_end = 10, .known_tokens = 10, .arrival = 1},
    };
    struct schedule_limits limits = roomy;
    limits.cost = &cost;
    limits.prompt_ns_max = 15000;
    assert_int_equal(run(items, 3, limits), 3);
    assert_choice(1, 1, 128, SCHEDULE_CHUNK);
    assert_choice(2, 2, 10, SCHEDULE_PROMPT_END);
    limits.prompt_ns_max = 6399;
    assert_int_equal(run(items, 3, limits), 2);
    assert_choice(1, 2, 10, SCHEDULE_PROMPT_END);
    assert_choice(2, 1, 0, SCHEDULE_NO_TIME);
}

/* Earned time is saved up to one block and no further, and comes even where the target leaves none.
 */
TEST(time_for_prompts_is_earned) {
    struct schedule_pace half = {.stretch_percent = 150, .patience_ns = 1000};
    struct schedule_pace hard = {.target_ns = 50, .patience_ns = 1000};
    assert_true(schedule_earn(&half, 0, 100, 10, 1000) == 50);  /* more than a block: as it comes */
    assert_true(schedule_earn(&half, 50, 100, 10, 1000) == 50); /* not saved */
    assert_true(schedule_earn(&half, 50, 100, 160, 1000) == 100); /* saved for a block */
    assert_true(schedule_earn(&half, 150, 100, 160, 1000) == 160);
    const double dear = 10 * SCHEDULE_PORTION_STEPS; /* a portion in so many steps at least */
    assert_true(schedule_earn(&hard, 0, 100, dear, 1000) == 10);
    assert_true(schedule_earn(&hard, 0, 20, 10, 1000) == 30);
    assert_true(schedule_earn(&half, 0, 100, 10, 3000) == 150); /* has waited three times as long */
    assert_true(schedule_earn(&hard, 0, 100, dear, 2000) == 20);
}

/* As many blocks as cost little beside the answers, but one at least; never more than there are. */
TEST(portions_fit_the_answers) {
    const struct step_cost cost = {
        .weights = {[STEP_COST_TOKENS] = 6400, [STEP_COST_CONTEXT] = 1024}}; /* 100 ns, 1 ns */
    struct schedule_item item = {.row_end = 1000, .known_tokens = 1000};
    assert_int_equal(schedule_portion(&cost, &item, 1e9), 256);
    const double enough_ns = (100 + 1) * 256.0 / SCHEDULE_PORTION_ANSWERS; /* for four blocks */
    assert_int_equal(schedule_portion(&cost, &item, enough_ns + 1), 256);
    assert_int_equal(schedule_portion(&cost, &item, enough_ns - 1), 192);
    assert_int_equal(schedule_portion(&cost, &item, 0), 64);
    item.computed_tokens = 512; /* reads more back */
    assert_int_equal(schedule_portion(&cost, &item, enough_ns + 1), 192);
    item.computed_tokens = 960;
    assert_int_equal(schedule_portion(&cost, &item, 1e9), 40);
    assert_int_equal(schedule_portion(&cost, &item, 0), 40);
}

/* Priority is worth time in the line, and no more: nobody waits forever. */
TEST(turns_never_change) {
    assert_int_equal(schedule_turn(100, 0, 0, 10), 100);
    assert_int_equal(schedule_turn(100, 0, 3, 10), 70);
    assert_int_equal(schedule_turn(100, 0, -3, 10), 130);
    assert_int_equal(schedule_turn(100, 20, 0, 10), 100 + 20 * SCHEDULE_SHARE);
    assert_true(schedule_turn(100, INT64_MAX, 0, 10) == INT64_MAX);
    assert_true(schedule_turn(0, 0, INT32_MAX, INT64_MAX) < schedule_turn(0, 0, 1, 10));
    assert_true(schedule_turn(5, 0, INT32_MIN, INT64_MAX) > schedule_turn(5, 0, -1, 10));
}
