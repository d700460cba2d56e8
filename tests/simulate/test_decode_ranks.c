/* SPDX-License-Identifier: Apache-2.0
 * Protects the simulation of answers on ranks: each gets its tokens whoever balances, and balancing
 * by work is even in KV and in requests.
 */
#include "drawn_ranks.h"

static void every_answer_gets_its_tokens(void **state) {
    (void)state;
    draw_requests(60);
    uint64_t wanted = 0;
    for (uint32_t i = 0; i < COUNT; i++)
        wanted += requests[i].output_tokens;
    for (int method = 0; method < BALANCE_METHOD_COUNT; method++) {
        struct ranks_report report = run(false, method);
        assert_int_equal(report.tokens, wanted);
        for (uint32_t i = 0; i < COUNT; i++)
            assert_true(requests[i].output_tokens == 1 || tpot_ns[i] > 0);
    }
}

/* Both at once: KV nearly as equal as where only that counts, requests more equal than there; and
 * hardly anybody has to leave. */
static void work_balances_decode_on_both(void **state) {
    (void)state;
    draw_requests(60);
    struct ranks_report ours = run(false, BALANCE_WORK);
    struct ranks_report by_requests = run(false, BALANCE_LEAST_REQUESTS);
    struct ranks_report by_tokens = run(false, BALANCE_LEAST_TOKENS);
    struct ranks_report in_turn = run(false, BALANCE_ROUND_ROBIN);
    assert_true(ours.spread[0] < by_requests.spread[0] && ours.spread[0] < in_turn.spread[0]);
    assert_true(ours.spread[1] < by_tokens.spread[1]);
    assert_true(ours.moved <= by_requests.moved && ours.moved <= in_turn.moved);
}

static void the_same_requests_give_the_same_report(void **state) {
    (void)state;
    draw_requests(30);
    struct ranks_report first = run(false, BALANCE_WORK), again = run(false, BALANCE_WORK);
    assert_memory_equal(&first, &again, sizeof first);
}

static void too_little_memory_is_said(void **state) {
    (void)state;
    static char room[4096];
    struct ranks_options options = {.rank_count = 16, .step_tokens = 4096, .requests_max = 64};
    struct ranks_report report;
    struct arena arena;
    arena_over(&arena, room, sizeof room);
    assert_int_equal(ranks_decode(&options, requests, COUNT, ready_ns, &arena, tpot_ns, &report),
                     STATUS_NO_MEMORY);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_answer_gets_its_tokens),
        cmocka_unit_test(work_balances_decode_on_both),
        cmocka_unit_test(the_same_requests_give_the_same_report),
        cmocka_unit_test(too_little_memory_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
