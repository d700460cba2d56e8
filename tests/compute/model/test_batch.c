/* SPDX-License-Identifier: Apache-2.0
 * Protects the lining up of tokens: positions follow the run, a lane's part of a batch counts from
 * its own first token, and prompt form stays apart from generated form wherever it is cut.
 */
#include "compute/model/batch.h"

#include "test_case.h"

#define TOKENS 9

static struct batch whole, part;

/* Prompt runs of 4 tokens from position 64 on and of 3 from 0 on, a generated one of 2 from 10 on;
 * token i has the id 100 + i. */
static int open_batches(void **state) {
    static const struct run runs[] = {{.plan_row = 2, .first_position = 64},
                                      {.plan_row = 0, .first_position = 0},
                                      {.plan_row = 1, .first_position = 10}};
    static const uint32_t counts[] = {4, 3, 2};
    struct error error;
    if (batch_open(&whole, TOKENS, 3, &error) || batch_open(&part, TOKENS, 3, &error)) return 1;
    for (uint32_t i = 0, token = 0; i < 3; i++) {
        batch_begin_run(&whole, runs[i]);
        for (uint32_t k = 0; k < counts[i]; k++)
            batch_add(&whole, 100 + token++);
        if (i == 1) batch_end_prompts(&whole);
    }
    return 0;
}

static int close_batches(void **state) {
    batch_close(&whole);
    batch_close(&part);
    return 0;
}

TEST(positions_follow_the_run) {
    static const uint32_t positions[TOKENS] = {64, 65, 66, 67, 0, 1, 2, 10, 11};
    assert_int_equal(whole.token_count, TOKENS);
    assert_int_equal(whole.prompt_tokens, 7);
    assert_int_equal(whole.prompt_runs, 2);
    for (uint32_t i = 0; i < TOKENS; i++)
        assert_int_equal(whole.positions[i], positions[i]);
    assert_int_equal(batch_run_of_row(&whole, 0)->first, 4);
    assert_null(batch_run_of_row(&whole, 3));
}

TEST(a_part_counts_from_its_first_token) {
    for (uint32_t first = 0; first <= TOKENS; first++)
        for (uint32_t count = 0; first + count <= TOKENS; count++) {
            uint32_t prompts = first < 7 ? 7 - first : 0;
            batch_take(&part, &whole, first, count);
            assert_int_equal(part.token_count, count);
            assert_int_equal(part.prompt_tokens, prompts < count ? prompts : count);
            for (uint32_t i = 0; i < count; i++) {
                const struct run *run = &part.runs[part.token_run[i]];
                const struct run *of = &whole.runs[whole.token_run[first + i]];
                assert_int_equal(part.token_ids[i], 100 + first + i);
                assert_int_equal(part.positions[i], whole.positions[first + i]);
                assert_int_equal(run->plan_row, of->plan_row);
                assert_int_equal(run->first_position + i - run->first, part.positions[i]);
                assert_true(i < run->first + run->token_count);
                assert_int_equal(part.token_run[i] < part.prompt_runs, i < part.prompt_tokens);
            }
        }
}

TEST_GROUP(open_batches, close_batches)
