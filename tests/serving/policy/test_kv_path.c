/* SPDX-License-Identifier: Apache-2.0
 * The choice of the way on which KV blocks come: a transfer is waited for exactly as long as doing
 * without it takes, so the sum is at most twice the better of both, whenever it arrives, if ever,
 * and little more than the better one on a link that has been slow or fast for a while;
 * then what the storage has is loaded where that is faster, and what it may only be getting is
 * waited for as long as that saves.
 */
#include "serving/policy/kv_path.h"

#include "base/random.h"
#include "test_case.h"

enum { BLOCK_BYTES = 1000000 };

/* A step of 1 ms, and so much for each prompt token; loads at so many ns a byte. */
static void learn(struct step_cost *cost, struct load_rate *rate, double token_ns, double byte_ns) {
    for (uint32_t i = 0; i < 500; i++) {
        struct step_work work = {.answer_rows = 1};
        step_cost_observe(cost, &work, 1000000);
        work = (struct step_work){.prompt_tokens = 64 + i % 4 * 64};
        step_cost_observe(cost, &work, 1000000 + (int64_t)(token_ns * work.prompt_tokens));
        uint64_t bytes = (1 + i % 8) * (uint64_t)BLOCK_BYTES;
        load_or_compute_rate_observe(rate, bytes, (int64_t)(byte_ns * (double)bytes));
    }
}

static struct kv_path_ask ask_of(const struct step_cost *cost, const struct load_rate *rate,
                                 uint32_t stored) {
    return (struct kv_path_ask){.load = {.rate = rate,
                                         .cost = cost,
                                         .block_count = stored,
                                         .prompt_tokens = 1025,
                                         .chunk_tokens_max = 512,
                                         .block_bytes = BLOCK_BYTES}};
}

TEST(stored_blocks_are_loaded_where_that_is_faster) {
    static const struct {
        double token_ns, byte_ns;
        uint32_t stored;
        enum kv_path path;
    } rows[] = {
        {1e6, 0.1, 16, KV_PATH_LOAD},
        {1e6, 0.1, 5, KV_PATH_LOAD}, /* the other blocks are computed */
        {1e6, 1e3, 16, KV_PATH_COMPUTE},
        {1e6, 0.1, 0, KV_PATH_COMPUTE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct step_cost cost = {0};
        struct load_rate rate = {0};
        learn(&cost, &rate, rows[i].token_ns, rows[i].byte_ns);
        struct kv_path_ask ask = ask_of(&cost, &rate, rows[i].stored);
        struct kv_path_choice choice = kv_path_choose(&ask);
        assert_int_equal(choice.path, rows[i].path);
        assert_int_equal(choice.wait_ns, 0);
        assert_int_equal(choice.load.load_blocks, choice.path == KV_PATH_LOAD ? rows[i].stored : 0);
    }
}

/* Whenever the transfer would arrive, the time until the prompt stands is at most twice that of who
 * knew; but for the moment that is always waited. */
TEST(waiting_costs_at_most_as_much_again) {
    for (uint32_t seed = 0; seed < 500; seed++) {
        struct step_cost cost = {0};
        struct load_rate rate = {0};
        double token_ns = 1e4 * (1 + 500 * random_uniform(seed, 0, 0));
        learn(&cost, &rate, token_ns, 1);
        struct kv_path_ask ask = ask_of(&cost, &rate, seed % 2 ? 16 : 0);
        ask.under_way = true;
        double arrives_ns = 5e9 * random_uniform(seed, 1, 0), spent_ns = 0;
        double without_ns = load_or_compute(&ask.load).chosen_ns;
        struct kv_path_choice choice = kv_path_choose(&ask);
        while (choice.path == KV_PATH_WAIT && spent_ns < arrives_ns) {
            assert_true(choice.wait_ns > 0);
            double part = (double)choice.wait_ns * (seed % 3 ? 1 : 0.5); /* asked in between */
            spent_ns += part < 1 ? 1 : part;
            ask.waited_ns = (int64_t)spent_ns;
            choice = kv_path_choose(&ask);
        }
        bool came = spent_ns >= arrives_ns;
        double took_ns = came ? arrives_ns : spent_ns + without_ns;
        double best_ns = arrives_ns < without_ns ? arrives_ns : without_ns;
        assert_true(took_ns <= 2 * best_ns + KV_PATH_WAIT_NS_MIN + 2);
    }
}

TEST(what_was_never_measured_is_not_waited_for_for_ever) {
    struct step_cost cost = {0};
    struct load_rate rate = {0};
    struct kv_path_ask ask = ask_of(&cost, &rate, 0);
    ask.under_way = true;
    ask.waited_ns = 1;
    struct kv_path_choice choice = kv_path_choose(&ask);
    assert_int_equal(choice.path, KV_PATH_WAIT);
    assert_int_equal(choice.wait_ns, KV_PATH_WAIT_NS_MIN - 1);
    ask.waited_ns = KV_PATH_WAIT_NS_MIN;
    assert_int_equal(kv_path_choose(&ask).path, KV_PATH_COMPUTE);
    ask.waited_ns = KV_PATH_WAIT_NS_MIN + 7;
    assert_int_equal(kv_path_choose(&ask).wait_ns, 0); /* not so much the less */
    ask.under_way = false;
    ask.load.block_count = 3;
    choice = kv_path_choose(&ask);
    assert_int_equal(choice.path, KV_PATH_LOAD); /* tried, to learn the rate */
}

/* How long a request's second token takes whose blocks would arrive after so long: as the unit goes
 * about it. */
static double live(struct kv_transfers *transfers, const struct load_ask *load, uint32_t blocks,
                   double arrives_ns) {
    struct kv_path_ask ask = {.under_way = true, .load = *load};
    ask.doubted = kv_path_doubts(transfers, blocks, load);
    struct kv_path_choice choice = kv_path_choose(&ask);
    assert_int_equal(choice.path, KV_PATH_WAIT);
    bool arrived = arrives_ns <= (double)choice.wait_ns;
    ask.waited_ns = arrived ? (int64_t)arrives_ns : choice.wait_ns;
    kv_path_observe(transfers, blocks, ask.waited_ns, arrived, ask.doubted);
    if (arrived) return arrives_ns;
    choice = kv_path_choose(&ask);
    assert_int_equal(choice.path, KV_PATH_COMPUTE);
    return (double)ask.waited_ns + choice.load.chosen_ns;
}

/* A link that is slower than computing, then faster, then slower again; prompts of many lengths.
 * After a few transfers doing without costs an eighth more and a trial now and then; what arrives
 * sooner than was foretold is found out soon. */
TEST(slow_links_are_remembered) {
    for (uint32_t seed = 0; seed < 40; seed++) {
        struct step_cost cost = {0};
        struct load_rate rate = {0};
        struct kv_transfers transfers = {.doubted = 0};
        learn(&cost, &rate, 2e6, 1);
        for (uint32_t phase = 0; phase < 3; phase++) {
            /* of what computing takes */
            double slow = 1.3 + 3 * random_uniform(seed, phase, 0), quick = 0.02 + 0.03 * seed / 40;
            double spent_ns = 0, best_ns = 0;
            for (uint32_t i = 0; i < 200; i++) {
                struct load_ask load = ask_of(&cost, &rate, 0).load;
                load.prompt_tokens = 300 + (uint32_t)(2000 * random_uniform(seed, phase, i + 1));
                double without_ns = load_or_compute(&load).chosen_ns;
                double arrives_ns = without_ns * (phase == 1 ? quick : slow);
                double took_ns = live(&transfers, &load, load.prompt_tokens / 64, arrives_ns);
                assert_true(took_ns <= 2 * without_ns + KV_PATH_WAIT_NS_MIN);
                if (i < 10) continue;
                spent_ns += took_ns;
                best_ns += arrives_ns < without_ns ? arrives_ns : without_ns;
            }
            assert_true(spent_ns < 1.25 * best_ns);
        }
    }
}

/* The link gets faster than computing, but by so little that no doubted transfer is still waited
 * for when it arrives: one in a few is. */
TEST(doubts_end_when_a_trial_succeeds) {
    struct step_cost cost = {0};
    struct load_rate rate = {0};
    struct kv_transfers transfers = {.doubted = 0};
    learn(&cost, &rate, 2e6, 1);
    struct load_ask load = ask_of(&cost, &rate, 0).load;
    double without_ns = load_or_compute(&load).chosen_ns;
    uint32_t late = 0;
    for (uint32_t i = 0; i < 20; i++)
        live(&transfers, &load, 16, 3 * without_ns);
    for (uint32_t i = 0; i < 100; i++)
        late += live(&transfers, &load, 16, 0.5 * without_ns) > without_ns;
    assert_in_range(late, 1, 16);
}

TEST(one_in_sixteen_is_not_doubted) {
    struct step_cost cost = {0};
    struct load_rate rate = {0};
    struct kv_transfers transfers = {.doubted = 0};
    learn(&cost, &rate, 1e3, 1);
    struct load_ask load = ask_of(&cost, &rate, 0).load;
    kv_path_observe(&transfers, 16, 5000000000, false, false);
    for (uint32_t i = 0; i < 48; i++)
        assert_int_equal(kv_path_doubts(&transfers, 16, &load), i % 16 != 15);
}

TEST(nothing_is_doubted_without_knowledge) {
    struct step_cost cost = {0}, known = {0};
    struct load_rate rate = {0}, known_rate = {0};
    struct kv_transfers transfers = {.doubted = 0};
    struct load_ask load = ask_of(&cost, &rate, 0).load;
    learn(&known, &known_rate, 1e3, 1);
    struct load_ask known_load = ask_of(&known, &known_rate, 0).load;
    assert_false(kv_path_doubts(&transfers, 16, &known_load));
    kv_path_observe(&transfers, 16, 5000000000, false, false);
    assert_true(kv_path_doubts(&transfers, 16, &known_load));
    assert_false(kv_path_doubts(&transfers, 16, &load)); /* what does computing take? */
    kv_path_observe(&transfers, 16, 1, true, true);      /* it came at once */
    assert_false(kv_path_doubts(&transfers, 16, &known_load));
}

TEST(what_comes_in_half_the_time_makes_all_before_forgotten) {
    struct kv_transfers transfers = {.doubted = 3}, fresh = {.doubted = 0};
    for (uint32_t i = 0; i < 10; i++)
        kv_path_observe(&transfers, 16, 1000000, true, false);
    assert_true(load_or_compute_rate_ns(&transfers.rate, 16) > 0.99e6 &&
                load_or_compute_rate_ns(&transfers.rate, 16) < 1.01e6);
    kv_path_observe(&transfers, 16, 600000, true, false); /* sooner, but not so much */
    kv_path_observe(&transfers, 16, 400000, false,
                    false); /* given up: it would have taken longer */
    assert_true(transfers.rate.count > 2 && transfers.doubted == 3);
    kv_path_observe(&transfers, 16, 400000, true, false);
    kv_path_observe(&fresh, 16, 400000, true, false);
    assert_memory_equal(&transfers, &fresh, sizeof fresh);
    struct kv_transfers at_once = {.doubted = 0}, soon = {.doubted = 0};
    kv_path_observe(&at_once, 16, 0, true, false);
    kv_path_observe(&soon, 16, 1, true, false);
    assert_memory_equal(&at_once, &soon, sizeof soon);
    struct kv_transfers given_up = {.doubted = 0}, late = {.doubted = 0};
    kv_path_observe(&given_up, 16, 1000000, false, false); /* it would take twice as long, say */
    kv_path_observe(&late, 16, 2000000, true, false);
    assert_memory_equal(&given_up, &late, sizeof late);
}

TEST(the_storage_is_asked_again_after_as_long_as_was_waited) {
    static const struct {
        int64_t waited_ns, pause_ns;
    } rows[] = {{0, 2000000},          {1000000, 2000000},   {10000000, 10000000},
                {200000000, 50000000}, {499000000, 1000000}, {500000000, 0},
                {600000000, 0}};
    struct step_cost cost = {0};
    struct load_rate rate = {0};
    struct kv_path_rest rest = {.rest_blocks = 4, .load = ask_of(&cost, &rate, 12).load};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        rest.waited_ns = rows[i].waited_ns;
        assert_int_equal(kv_path_ask_again_ns(&rest), rows[i].pause_ns);
    }
}

/* Whenever the other unit has written the rest, if ever: what is waited for it is at most what
 * loading it saves, and at most half a second; and it is noticed soon after. */
TEST(the_rest_is_waited_for_as_long_as_it_saves) {
    uint32_t came = 0, missed = 0;
    for (uint32_t seed = 0; seed < 500; seed++) {
        struct step_cost cost = {0};
        struct load_rate rate = {0};
        learn(&cost, &rate, 1e3 * (1 + 2000 * random_uniform(seed, 0, 0)), 1);
        struct kv_path_rest rest = {.rest_blocks = 1 + seed % 16};
        rest.load = ask_of(&cost, &rate, 16 - rest.rest_blocks).load;
        struct load_ask all = rest.load;
        all.block_count = 16;
        double without_ns = load_or_compute(&rest.load).chosen_ns;
        double saves_ns = without_ns - load_or_compute(&all).chosen_ns;
        int64_t stored_ns = (int64_t)(6e8 * random_uniform(seed, 1, 0)), pause_ns;
        while ((pause_ns = kv_path_ask_again_ns(&rest)) > 0 && rest.waited_ns < stored_ns)
            rest.waited_ns += pause_ns;
        assert_true((double)rest.waited_ns <= saves_ns || rest.waited_ns == 0);
        assert_true(rest.waited_ns <= KV_PATH_REST_NS_MAX);
        if (rest.waited_ns < stored_ns) {
            missed++;
            continue;
        }
        came++;
        assert_true(rest.waited_ns <= 2 * stored_ns + 2000000);
        assert_true(rest.waited_ns <= stored_ns + 50000000);
    }
    assert_true(came > 100 && missed > 100);
}

TEST(what_saves_nothing_is_not_asked_for_again) {
    struct step_cost cost = {0};
    struct load_rate rate = {0};
    struct kv_path_rest rest = {.rest_blocks = 4, .load = ask_of(&cost, &rate, 12).load};
    assert_in_range(kv_path_ask_again_ns(&rest), 1, KV_PATH_REST_NS_MAX); /* not measured: tried */
    rest.waited_ns = KV_PATH_REST_NS_MAX;
    assert_int_equal(kv_path_ask_again_ns(&rest), 0);
    learn(&cost, &rate, 1e6, 0.1);
    rest.waited_ns = 0;
    assert_in_range(kv_path_ask_again_ns(&rest), 1, KV_PATH_REST_NS_MAX);
    rest.rest_blocks = 0;
    assert_int_equal(kv_path_ask_again_ns(&rest), 0);
    rest.rest_blocks = 4;
    cost = (struct step_cost){0};
    rate = (struct load_rate){0};
    learn(&cost, &rate, 1e3, 1e3); /* computing is faster */
    assert_int_equal(kv_path_ask_again_ns(&rest), 0);
}
