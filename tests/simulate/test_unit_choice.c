/* SPDX-License-Identifier: Apache-2.0
 * Protects what prefix affinity is for: units that share conversations out by what they computed
 * come near the hits of one large cache, where turns and load alone do not, and no unit is left
 * with much more work than another, even where all prompts begin alike.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/random.h"
#include "simulate/unit_choice.h"

enum {
    ABREAST = 39,
    TALKS = 5 * ABREAST,
    TURNS = 10,
    REQUESTS = TALKS * TURNS,
    BLOCKS_A_TURN = 3,
    COMMON = 2
};

static struct ranks_request requests[REQUESTS];
static uint32_t blocks[REQUESTS][COMMON + TURNS * BLOCKS_A_TURN];
static int64_t ready_ns[REQUESTS];

/* Talks that grow, about so many of them alive at a time; all begin with the same blocks. */
static void make_requests(int64_t gap_ns) {
    for (uint32_t i = 0; i < REQUESTS; i++) {
        uint32_t group = i / (ABREAST * TURNS), place = i % (ABREAST * TURNS);
        uint32_t talk = group * ABREAST + place % ABREAST, turn = place / ABREAST;
        uint32_t own = (turn + 1) * BLOCKS_A_TURN, count = COMMON + own;
        for (uint32_t b = 0; b < count; b++)
            blocks[i][b] = b < COMMON ? b : COMMON + talk * TURNS * BLOCKS_A_TURN + b - COMMON;
        requests[i] = (struct ranks_request){.arrival_ns = (int64_t)i * gap_ns +
                                                           (int64_t)(random_uniform(3, 0, i) * 3e7),
                                             .prompt_tokens = count * RANKS_BLOCK_TOKENS + 100,
                                             .output_tokens = 1,
                                             .block_count = count,
                                             .blocks = blocks[i]};
        if (i && requests[i].arrival_ns < requests[i - 1].arrival_ns)
            requests[i].arrival_ns = requests[i - 1].arrival_ns;
    }
}

static struct unit_choice_report run(enum unit_choice_method method, uint32_t units) {
    size_t bytes = (size_t)64 << 20;
    void *memory = malloc(bytes);
    struct arena arena;
    struct unit_choice_report report;
    struct unit_choice_options options = {.method = method,
                                          .unit_count = units,
                                          .block_ids = COMMON + TALKS * TURNS * BLOCKS_A_TURN,
                                          .unit_blocks = 2400 / units,
                                          .table_entries = 1 << 14,
                                          .token_ns = 5e3 * units};
    arena_over(&arena, memory, bytes);
    assert_int_equal(unit_choice_run(&options, requests, REQUESTS, &arena, ready_ns, &report),
                     STATUS_OK);
    for (uint32_t i = 0; i < REQUESTS; i++)
        assert_true(ready_ns[i] > requests[i].arrival_ns);
    free(memory);
    return report;
}

static double rate(struct unit_choice_report report) {
    return (double)report.cached_tokens / (double)report.prompt_tokens;
}

static void units_share_a_large_cache(void **state) {
    (void)state;
    make_requests(40000000);
    double one = rate(run(UNIT_CHOICE_LOAD, 1)), turns = rate(run(UNIT_CHOICE_TURNS, 4));
    struct unit_choice_report prefix = run(UNIT_CHOICE_PREFIX, 4);
    print_message("# hits: one unit %.3f, four by prefix %.3f, by load %.3f, in turns %.3f\n", one,
                  rate(prefix), rate(run(UNIT_CHOICE_LOAD, 4)), turns);
    assert_true(rate(prefix) > 0.85 * one);
    assert_true(turns < 0.7 * one);
}

/* Under more load than there is room for, it is still shared evenly. */
static void no_unit_is_hot(void **state) {
    (void)state;
    make_requests(10000000);
    struct unit_choice_report prefix = run(UNIT_CHOICE_PREFIX, 4);
    print_message("# tokens computed under load: max/mean %.3f\n", prefix.spread);
    assert_true(prefix.spread < 1.5);
    for (uint32_t i = 0; i < REQUESTS; i++) { /* one prompt, again and again */
        requests[i].blocks = blocks[0];
        requests[i].block_count = COMMON + BLOCKS_A_TURN;
        requests[i].prompt_tokens = (COMMON + BLOCKS_A_TURN) * RANKS_BLOCK_TOKENS + 100;
        requests[i].arrival_ns = (int64_t)i * 600000; /* more than three of the units can do */
    }
    prefix = run(UNIT_CHOICE_PREFIX, 4);
    assert_true(prefix.spread < 2);
    assert_true(rate(prefix) > 0.9);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(units_share_a_large_cache),
        cmocka_unit_test(no_unit_is_hot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
