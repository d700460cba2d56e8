/* SPDX-License-Identifier: Apache-2.0
 * Protects the choice of drafting ahead: it comes to the faster way wherever that lies, for each
 * number of answers, soon and from noisy times; it keeps looking, seldom, and notices a change;
 * what it is told to do it does; and a step that has no room gets no drafts.
 */
#include "serving/policy/speculate.h"

#include "base/random.h"
#include "test_case.h"

/* A machine and a text. */
struct world {
    double off_ns, on_ns; /* a step without drafts, and with */
    double right;         /* chance of a draft */
    double noise;         /* of a time, to either side */
};

static bool close_to(double found, double expected) {
    return found - expected < 1e-9 && expected - found < 1e-9;
}

struct counts {
    uint32_t on, tries, learns;
};

static struct counts run(struct speculate *speculate, const struct world *world, uint32_t rows,
                         uint32_t steps, uint64_t seed) {
    struct counts counts = {0};
    for (uint32_t i = 0; i < steps; i++) {
        struct speculate_choice choice =
            speculate_choose(speculate, SPECULATE_MEASURED, rows, rows, 2 * rows);
        counts.on += choice.drafts;
        counts.tries += choice.reason == SPECULATE_TRIES;
        counts.learns += choice.reason == SPECULATE_LEARNS;
        uint32_t right = 0;
        for (uint32_t row = 0; row < rows && choice.drafts; row++)
            right += random_uniform(seed, i, row) < world->right;
        double ns = choice.drafts ? world->on_ns : world->off_ns;
        ns *= 1 + world->noise * (2 * random_uniform(seed, 1u << 20, i) - 1);
        if (random_uniform(seed, 1u << 21, i) < 0.01) ns *= 30; /* the machine stutters */
        speculate_observe(speculate, rows, choice.drafts ? rows : 0, right, (int64_t)ns);
    }
    return counts;
}

/* At 70 % right, 1.3 times the time pays and twice the time does not. */
TEST(it_comes_to_the_faster_way) {
    for (uint64_t seed = 0; seed < 40; seed++)
        for (uint32_t rows = 1; rows <= 32; rows *= 4) {
            struct speculate speculate = {0};
            struct world pays = {1e6, 1.3e6, 0.7, 0.05}, costs = {1e6, 2e6, 0.7, 0.05};
            struct counts on = run(&speculate, &pays, rows, 2000, seed);
            assert_true(on.learns <= 40 && on.on > 1900);
            speculate = (struct speculate){0};
            struct counts off = run(&speculate, &costs, rows, 2000, seed);
            assert_true(off.learns <= 40 && off.on < 100);
        }
}

/* The worse way is tried after 64 steps, then 128, 256, ... and at last once in 1024. */
TEST(it_looks_again_ever_more_seldom) {
    struct speculate speculate = {0};
    struct world world = {1e6, 3e6, 0.5, 0};
    run(&speculate, &world, 1, 16, 1);
    struct counts early = run(&speculate, &world, 1, 1000, 2);
    assert_in_range(early.tries, 3, 4);
    run(&speculate, &world, 1, 3000, 3);
    struct counts late = run(&speculate, &world, 1, 10 * 1025, 4);
    assert_int_equal(late.tries, 10);
    assert_int_equal(late.on, 10);
}

/* Load elsewhere on the machine makes wide steps dear, then it goes away again. */
TEST(it_notices_a_change) {
    struct speculate speculate = {0};
    struct world cheap = {1e6, 1.2e6, 0.8, 0.02}, dear = {1e6, 2.4e6, 0.8, 0.02};
    run(&speculate, &cheap, 4, 500, 1);
    run(&speculate, &dear, 4, 100, 2);
    assert_true(run(&speculate, &dear, 4, 400, 3).on < 40);
    run(&speculate, &cheap, 4, 12000, 4); /* found out by trying */
    assert_true(run(&speculate, &cheap, 4, 400, 5).on > 360);
}

/* A text whose drafts are wrong. */
TEST(it_notices_another_text) {
    struct speculate speculate = {0};
    struct world good = {1e6, 1.3e6, 0.8, 0.02}, bad = {1e6, 1.3e6, 0.1, 0.02};
    run(&speculate, &good, 2, 300, 1);
    run(&speculate, &bad, 2, 200, 2);
    assert_true(run(&speculate, &bad, 2, 400, 3).on < 40);
}

/* Each number of answers has its own times. */
TEST(few_and_many_answers_are_kept_apart) {
    struct speculate speculate = {0};
    struct world few = {1e6, 1.1e6, 0.7, 0.02}, many = {1e7, 1.9e7, 0.7, 0.02};
    for (uint32_t i = 0; i < 20; i++) {
        run(&speculate, &few, 1, 20, i);
        run(&speculate, &many, 16, 20, 100 + i);
    }
    assert_true(run(&speculate, &few, 1, 100, 7).on > 90);
    assert_true(run(&speculate, &many, 16, 100, 8).on < 10);
}

/* Times of steps with prompts do not count, how many drafts were right does. */
TEST(steps_with_prompts_teach_no_times) {
    struct speculate speculate = {0};
    for (uint32_t i = 0; i < 200; i++)
        speculate_observe(&speculate, 2, 2, 1, 0);
    assert_true(speculate.right > 0.49 && speculate.right < 0.51);
    struct speculate_choice choice = speculate_choose(&speculate, SPECULATE_MEASURED, 2, 2, 64);
    assert_int_equal(choice.reason, SPECULATE_LEARNS);
    assert_true(choice.drafts);                /* until it knows better */
    speculate_observe(&speculate, 0, 0, 0, 5); /* a step of prompts alone */
}

/* As if from sixteen answers at the beginning, and from the last 64 in the end. */
TEST(what_was_right_is_an_average_of_the_last_answers) {
    struct speculate speculate = {0};
    speculate_observe(&speculate, 2, 2, 2, 0);
    assert_true(close_to(speculate.right, 0.5 + 0.5 * 2 / 18));
    speculate_observe(&speculate, 2, 2, 2, 0);
    assert_true(close_to(speculate.right, 1 - 8.0 / 20));
    for (uint32_t i = 0; i < 22; i++)
        speculate_observe(&speculate, 2, 2, 2, 0);
    double before = speculate.right; /* of 64 */
    assert_true(close_to(before, 1 - 8.0 / 64));
    speculate_observe(&speculate, 2, 2, 0, 0);
    assert_true(close_to(speculate.right, before - before * 2 / 64));
    speculate_observe(&speculate, 128, 128, 32, 0); /* more answers than that: theirs alone */
    assert_true(close_to(speculate.right, 0.25));
}

/* Eight steps each way, and none is compared before. */
TEST(both_ways_are_learnt_before_they_are_compared) {
    struct speculate speculate = {0};
    for (uint32_t i = 0; i < 16; i++) {
        struct speculate_choice choice = speculate_choose(&speculate, SPECULATE_MEASURED, 4, 4, 64);
        assert_int_equal(choice.reason, SPECULATE_LEARNS);
        assert_int_equal(choice.drafts, i % 2 == 0); /* by turns, drafts first */
        speculate_observe(&speculate, 4, choice.drafts ? 4 : 0, choice.drafts ? 4 : 0, 1000);
    }
    struct speculate_choice choice = speculate_choose(&speculate, SPECULATE_MEASURED, 4, 4, 64);
    assert_true(choice.drafts && choice.reason == SPECULATE_PAYS);
    for (uint32_t known = 0; known < 2; known++) { /* one way alone */
        speculate = (struct speculate){0};
        for (uint32_t i = 0; i < 20; i++)
            speculate_observe(&speculate, 4, known ? 4 : 0, 0, 1000);
        choice = speculate_choose(&speculate, SPECULATE_MEASURED, 4, 4, 64);
        assert_int_equal(choice.reason, SPECULATE_LEARNS);
        assert_int_equal(choice.drafts, !known);
    }
}

TEST(what_is_ordered_is_done) {
    static const struct {
        enum speculate_mode mode;
        uint32_t rows, drafts, room;
        bool wanted;
        enum speculate_reason reason;
    } cases[] = {
        {SPECULATE_NEVER, 1, 1, 64, false, SPECULATE_FORBIDDEN},
        {SPECULATE_ALWAYS, 1, 1, 64, true, SPECULATE_DEMANDED},
        {SPECULATE_ALWAYS, 1, 0, 64, false, SPECULATE_NO_ROWS},
        {SPECULATE_ALWAYS, 0, 0, 64, false, SPECULATE_NO_ROWS},
        {SPECULATE_ALWAYS, 40, 25, 64, false, SPECULATE_NO_ROOM},
        {SPECULATE_ALWAYS, 40, 24, 64, true, SPECULATE_DEMANDED},
        {SPECULATE_MEASURED, 40, 25, 64, false, SPECULATE_NO_ROOM},
        {SPECULATE_MEASURED, 512, 512, 1024, true, SPECULATE_LEARNS},
    };
    struct speculate speculate = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct speculate_choice choice = speculate_choose(&speculate, cases[i].mode, cases[i].rows,
                                                          cases[i].drafts, cases[i].room);
        assert_int_equal(choice.drafts, cases[i].wanted);
        assert_int_equal(choice.reason, cases[i].reason);
    }
}
