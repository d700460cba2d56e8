/* SPDX-License-Identifier: Apache-2.0
 * Protects the simulation of prompts on ranks: every method computes each once and finds what is
 * cached, and what levelled steps and binding by work are for shows.
 */
#include "drawn_ranks.h"

/* Nothing is lost or computed twice, whoever chooses. */
static void every_prompt_is_computed_once(void **state) {
    (void)state;
    draw_requests(30);
    uint64_t wanted = 0;
    for (uint32_t i = 0; i < COUNT; i++)
        wanted += requests[i].prompt_tokens;
    for (int method = 0; method < BALANCE_METHOD_COUNT; method++) {
        struct ranks_report report = run(true, method);
        assert_int_equal(report.tokens + report.cached_tokens, wanted);
        assert_true(report.cached_tokens > 0);
        for (uint32_t i = 0; i < COUNT; i++)
            assert_true(ready_ns[i] > requests[i].arrival_ns);
    }
}

static double mean_wait_s(bool (*counts)(const struct ranks_request *)) {
    double sum = 0;
    uint32_t count = 0;
    for (uint32_t i = 0; i < COUNT; i++) {
        if (!counts(&requests[i])) continue;
        sum += (double)(ready_ns[i] - requests[i].arrival_ns) * 1e-9;
        count++;
    }
    return sum / count;
}

static bool is_short(const struct ranks_request *request) {
    return request->prompt_tokens < 2000;
}

/* Levelled steps are no part of a method: whoever binds prompts computes more in them, and short
 * prompts wait less, since a long one costs all ranks less. */
static void levelled_steps_serve_every_method(void **state) {
    (void)state;
    draw_requests(30);
    for (int method = 0; method < BALANCE_METHOD_COUNT; method++) {
        struct ranks_report full = run_steps(true, method, true);
        double full_wait_s = mean_wait_s(is_short);
        struct ranks_report levelled = run_steps(true, method, false);
        assert_true(levelled.spread[0] < full.spread[0]);
        assert_true(levelled.busy_s < full.busy_s);
        assert_true(mean_wait_s(is_short) < full_wait_s);
    }
}

/* With levelled steps for all, where everybody keeps up: nobody's short prompts wait less than
 * those bound by work but for a twentieth, and those of who does not look at tokens wait longer. */
static void work_binds_prompts_well(void **state) {
    (void)state;
    draw_requests(5);
    run(true, BALANCE_WORK);
    double wait_s = mean_wait_s(is_short);
    for (int method = BALANCE_WORK + 1; method < BALANCE_METHOD_COUNT; method++) {
        run(true, method);
        double other_s = mean_wait_s(is_short);
        assert_true(wait_s < 1.05 * other_s);
        assert_true(method == BALANCE_LEAST_TOKENS || wait_s < other_s);
    }
}

/* Who was bound while another one with the same beginning was computed need not compute it again:
 * a router in front of ranks does not know, the rank does. */
static void a_prompt_looks_for_its_blocks_when_it_begins(void **state) {
    (void)state;
    uint32_t prompt = 8 * RANKS_BLOCK_TOKENS + 96, step = 2 * prompt;
    const struct ranks_request three[] = {
        {0, prompt, 1, 8, blocks}, {0, 2 * step, 1, 0, blocks}, {0, prompt, 1, 8, blocks}};
    struct ranks_options options = {
        .rank_count = 1, .block_ids = BLOCK_IDS, .step_tokens = step, .device_tokens = 200000};
    for (int method = 0; method < BALANCE_METHOD_COUNT; method++) {
        static char room[65536];
        struct ranks_report report;
        struct arena arena;
        int64_t ready[3];
        arena_over(&arena, room, sizeof room);
        options.method = method;
        assert_int_equal(ranks_prefill(&options, three, 3, &arena, ready, &report), STATUS_OK);
        assert_int_equal(report.cached_tokens, 8 * RANKS_BLOCK_TOKENS);
        assert_int_equal(report.tokens + report.cached_tokens, 2 * prompt + 2 * step);
    }
}

static void the_same_requests_give_the_same_report(void **state) {
    (void)state;
    draw_requests(30);
    struct ranks_report first = run(true, BALANCE_WORK), again = run(true, BALANCE_WORK);
    assert_memory_equal(&first, &again, sizeof first);
}

static void too_little_memory_is_said(void **state) {
    (void)state;
    static char room[4096];
    struct ranks_options options = {.rank_count = 16, .step_tokens = 4096, .requests_max = 64};
    struct ranks_report report;
    struct arena arena;
    arena_over(&arena, room, sizeof room);
    assert_int_equal(ranks_prefill(&options, requests, COUNT, &arena, ready_ns, &report),
                     STATUS_NO_MEMORY);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_prompt_is_computed_once),
        cmocka_unit_test(levelled_steps_serve_every_method),
        cmocka_unit_test(work_binds_prompts_well),
        cmocka_unit_test(a_prompt_looks_for_its_blocks_when_it_begins),
        cmocka_unit_test(the_same_requests_give_the_same_report),
        cmocka_unit_test(too_little_memory_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
