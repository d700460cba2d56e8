/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "base/random.h"

#define COUNT 3000
#define BLOCK_IDS 64
#define ROOM ((size_t)32 << 20)

static struct ranks_request requests[COUNT];
static const uint32_t blocks[BLOCK_IDS] = {0, 1, 2, 3, 4, 5, 6, 7};
static int64_t ready_ns[COUNT];
static double tpot_ns[COUNT];

/* Many short prompts, one in fifty very long; every fourth shares its first eight blocks. */
static void draw_requests(double rate) {
    double at = 0;
    for (uint32_t i = 0; i < COUNT; i++) {
        at -= log1p(-random_uniform(1, 0, i)) / rate;
        double size = random_uniform(1, 1, i);
        uint32_t prompt = 200 + (uint32_t)(6000 * size * size) + (i % 50 == 0 ? 100000 : 0);
        bool shares = i % 4 == 0 && prompt > 8 * RANKS_BLOCK_TOKENS;
        requests[i] = (struct ranks_request){
            .arrival_ns = (int64_t)(at * 1e9),
            .prompt_tokens = prompt,
            .output_tokens = 1 + (uint32_t)(600 * random_uniform(1, 2, i)),
            .block_count = shares ? 8 : 0,
            .blocks = blocks,
        };
    }
}

static struct ranks_report run_steps(bool prefill, enum balance_method method, bool full_steps) {
    struct ranks_options options = {.method = method,
                                    .full_steps = full_steps,
                                    .rank_count = 16,
                                    .block_ids = BLOCK_IDS,
                                    .step_tokens = 4096,
                                    .device_tokens = 200000,
                                    .requests_max = 64,
                                    .rank_tokens = 250000,
                                    .fetch_token_ns = 3000,
                                    .patience_ns = 2000000000};
    struct ranks_report report;
    struct arena arena;
    void *memory = malloc(ROOM);
    assert_non_null(memory);
    arena_over(&arena, memory, ROOM);
    int64_t arrivals[COUNT];
    for (uint32_t i = 0; i < COUNT; i++)
        arrivals[i] = requests[i].arrival_ns;
    enum status status =
        prefill ? ranks_prefill(&options, requests, COUNT, &arena, ready_ns, &report)
                : ranks_decode(&options, requests, COUNT, arrivals, &arena, tpot_ns, &report);
    assert_int_equal(status, STATUS_OK);
    free(memory);
    return report;
}

static struct ranks_report run(bool prefill, enum balance_method method) {
    return run_steps(prefill, method, false);
}

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

static void the_same_again(void **state) {
    (void)state;
    draw_requests(30);
    for (int prefill = 0; prefill < 2; prefill++) {
        struct ranks_report first = run(prefill, BALANCE_WORK), again = run(prefill, BALANCE_WORK);
        assert_memory_equal(&first, &again, sizeof first);
    }
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
    arena_over(&arena, room, sizeof room);
    assert_int_equal(ranks_decode(&options, requests, COUNT, ready_ns, &arena, tpot_ns, &report),
                     STATUS_NO_MEMORY);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_prompt_is_computed_once),
        cmocka_unit_test(levelled_steps_serve_every_method),
        cmocka_unit_test(work_binds_prompts_well),
        cmocka_unit_test(a_prompt_looks_for_its_blocks_when_it_begins),
        cmocka_unit_test(every_answer_gets_its_tokens),
        cmocka_unit_test(work_balances_decode_on_both),
        cmocka_unit_test(the_same_again),
        cmocka_unit_test(too_little_memory_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
