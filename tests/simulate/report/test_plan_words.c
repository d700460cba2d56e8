/* SPDX-License-Identifier: Apache-2.0
 * The cheapest fleet that holds comes first, and each other one says why it lost.
 */

#include "simulate/report/plan_words.h"
#include "test_case.h"

static struct plan_found found;

TEST(the_cheapest_comes_first_and_others_say_why_they_lost) {
    found = (struct plan_found){.count = 3};
    found.fleets[0] = (struct size_fleet){.verdict = SIZE_BOUND, .least_nodes = 9, .nodes = 9};
    found.fleets[1] = (struct size_fleet){.verdict = SIZE_HOLDS, .nodes = 8, .trials = 1};
    found.fleets[2] = (struct size_fleet){.verdict = SIZE_HOLDS, .nodes = 5, .trials = 2};
    assert_true(plan_words_verify(&found));
    assert_true(found.fleets[0].nodes == 5);
    assert_string_equal(found.fleets[0].why, "");
    assert_string_equal(found.fleets[1].why, "3 nodes more");
    assert_string_equal(found.fleets[2].why, "needs at least 9 nodes (4 more); by the clock");
}

TEST(a_fleet_that_would_grow_says_what_it_missed_with_fewer) {
    found = (struct plan_found){.count = 2};
    found.fleets[0] = (struct size_fleet){.verdict = SIZE_HOLDS, .nodes = 5, .trials = 2};
    found.fleets[1] = (struct size_fleet){.verdict = SIZE_BOUND,
                                          .least_nodes = 5,
                                          .nodes = 4,
                                          .trials = 1,
                                          .why = "TTFT p99 4.00 s > 3.00 s"};
    assert_true(plan_words_verify(&found));
    assert_string_equal(found.fleets[1].why,
                        "no cheaper: needs at least 5 nodes; with fewer TTFT p99 4.00 s > 3.00 s");
}

TEST(the_text_says_which_prompts_a_limit_counts) {
    static const struct hardware hardware = {.name = "by hand"};
    static const struct model_figures model = {.name = "by hand"};
    static const struct size_search search;
    static char text[1 << 14];
    found = (struct plan_found){.options = {.hardware = &hardware, .model = &model},
                                .load = "a trace",
                                .search = &search,
                                .reach = {.tokens = 12900, .long_s = 37},
                                .long_prompt = 77000};
    struct json_writer writer = {.out = text, .room = sizeof text - 1};
    plan_words_text(&writer, &found);
    assert_null(strstr(text, "TTFT counts"));
    found.options.load.counted_prompt = 12800;
    found.options.load.counted_share = 0.7;
    writer = (struct json_writer){.out = text, .room = sizeof text - 1};
    memset(text, 0, sizeof text);
    plan_words_text(&writer, &found);
    assert_non_null(strstr(text, "TTFT counts prompts of up to 12800 tokens, 70.0 % of all"));
    assert_non_null(strstr(text, "has 77000 tokens to compute or more, which takes 37.0 s"));
}

/* 8 requests a second: a capacity of 4 on 2 nodes needs 4 nodes. */
TEST(each_choice_of_the_winner_has_its_price) {
    static const struct hardware hardware = {.name = "by hand"};
    static const struct model_figures model = {.name = "by hand"};
    static struct size_search search = {
        .units = {{.role = UNIT_DECODE, .ranks = 16, .nodes = 2, .capacity = 4, .mtp = true},
                  {.role = UNIT_DECODE, .ranks = 16, .nodes = 2, .capacity = 2},
                  {.role = UNIT_DECODE, .ranks = 24, .nodes = 3, .capacity = 5, .mtp = true},
                  {.role = UNIT_DECODE, .ranks = 8, .nodes = 1, .mtp = true, .lost = "too heavy"}},
        .count = 4};
    static char text[1 << 14];
    memset(text, 0, sizeof text);
    found = (struct plan_found){
        .options = {.hardware = &hardware, .model = &model, .load = {.rate = 8}},
        .load = "a mix",
        .search = &search,
        .count = 1};
    found.fleets[0] = (struct size_fleet){.kinds = {search.units[0]},
                                          .counts = {2},
                                          .kind_count = 1,
                                          .verdict = SIZE_HOLDS,
                                          .trials = 1};
    struct json_writer writer = {.out = text, .room = sizeof text - 1};
    plan_words_text(&writer, &found);
    assert_non_null(strstr(text, "ranks               16: 4*  24: 4.8\n"));
    assert_non_null(strstr(text, "MTP                 0: 8  1: 4*\n"));
    assert_null(strstr(text, "tokens of a step"));
}

TEST(nothing_is_judged_where_no_fleet_holds) {
    found = (struct plan_found){.count = 1};
    found.fleets[0] = (struct size_fleet){.verdict = SIZE_MISSES, .trials = 1};
    assert_false(plan_words_verify(&found));
}
