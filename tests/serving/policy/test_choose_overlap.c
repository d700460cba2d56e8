/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/policy/choose_overlap.h"

#include "test_case.h"

static struct choose_overlap choose;
static const struct choose_overlap_step answers = {.ranks = 4, .tokens = 40, .prompts = false};
static const struct choose_overlap_step prompts = {.ranks = 4, .tokens = 40, .prompts = true};

/* `steps` steps in which the kinds take these times; returns how many took each. */
static void run(const struct choose_overlap_step *step, const int64_t ns[OVERLAP_KIND_COUNT],
                uint32_t steps, uint32_t taken[OVERLAP_KIND_COUNT]) {
    for (int kind = 0; kind < OVERLAP_KIND_COUNT; kind++)
        taken[kind] = 0;
    for (uint32_t i = 0; i < steps; i++) {
        struct choose_overlap_choice choice = choose_overlap(&choose, step);
        taken[choice.kind]++;
        choose_overlap_observe(&choose, step, choice.kind, ns[choice.kind]);
    }
}

TEST(one_rank_has_nothing_to_hide) {
    choose = (struct choose_overlap){0};
    struct choose_overlap_step alone = {.ranks = 1, .tokens = 4096, .prompts = true};
    for (int i = 0; i < 100; i++) {
        struct choose_overlap_choice choice = choose_overlap(&choose, &alone);
        assert_int_equal(choice.kind, OVERLAP_SEQUENTIAL);
        assert_int_equal(choice.reason, CHOOSE_OVERLAP_ALONE);
    }
}

/* All are tried, then the fastest is taken, in each class of steps by itself. */
TEST(the_fastest_is_taken) {
    const int64_t five[] = {1000, 1500, 700, 800, 850, 900, 5000};
    const int64_t dual[] = {1000, 500, 700, 600, 900, 5000, 1};
    uint32_t taken[OVERLAP_KIND_COUNT];
    choose = (struct choose_overlap){0};
    run(&answers, five, 200, taken);
    assert_true(taken[OVERLAP_DECODE_FIVE_STAGE] > 175);
    assert_true(taken[OVERLAP_SEQUENTIAL] >= 3 && taken[OVERLAP_PREFILL_DUAL_BATCH] >= 2);
    run(&prompts, dual, 200, taken);
    assert_true(taken[OVERLAP_PREFILL_DUAL_BATCH] > 175);
    assert_int_equal(taken[OVERLAP_DECODE_EARLY], 0); /* of prompts it is the five stages */
    assert_int_equal(choose_overlap(&choose, &answers).kind, OVERLAP_DECODE_FIVE_STAGE);
    assert_int_equal(choose_overlap(&choose, &answers).reason, CHOOSE_OVERLAP_FASTEST);
}

/* The one that was a little slower becomes much faster: a link got slow. */
TEST(a_change_is_noticed) {
    const int64_t before[] = {1000, 1900, 1100, 1200, 1900, 1950, 1950};
    const int64_t after[] = {3000, 2000, 1100, 900, 2900, 2900, 2900};
    uint32_t taken[OVERLAP_KIND_COUNT];
    choose = (struct choose_overlap){0};
    run(&answers, before, 300, taken);
    assert_true(taken[OVERLAP_SEQUENTIAL] > 250);
    run(&answers, after, 1000, taken);
    assert_true(taken[OVERLAP_QUAD_BATCH] > 800); /* was third: it has its turns, too */
    assert_int_equal(choose_overlap(&choose, &answers).kind, OVERLAP_QUAD_BATCH);
}

/* Lanes without tokens are not tried; what is far slower is tried twice and no more. */
TEST(what_cannot_help_is_left_out) {
    const int64_t ns[] = {1000, 700, 800, 3000, 500, 9000, 9000};
    struct choose_overlap_step small = {.ranks = 4, .tokens = 4, .prompts = false};
    uint32_t taken[OVERLAP_KIND_COUNT];
    choose = (struct choose_overlap){0};
    run(&small, ns, 500, taken);
    assert_int_equal(taken[OVERLAP_OCTO_BATCH], 0);
    assert_int_equal(taken[OVERLAP_QUAD_BATCH], 2);
    small.tokens = 1;
    run(&small, ns, 500, taken);
    assert_int_equal(taken[OVERLAP_SEQUENTIAL], 500);
}

/* One step in which the machine did something else changes no choice. */
TEST(a_hiccup_does_not_matter) {
    const int64_t ns[] = {1000, 2500, 1400, 1500, 1600, 1700, 1700};
    uint32_t taken[OVERLAP_KIND_COUNT];
    choose = (struct choose_overlap){0};
    run(&answers, ns, 50, taken);
    choose_overlap_observe(&choose, &answers, OVERLAP_SEQUENTIAL, 1000000);
    run(&answers, ns, 50, taken);
    assert_true(taken[OVERLAP_SEQUENTIAL] >= 45);
}

TEST(reasons_have_names) {
    for (int reason = 0; reason < CHOOSE_OVERLAP_REASON_COUNT; reason++)
        assert_non_null(choose_overlap_reason_name(reason));
}
