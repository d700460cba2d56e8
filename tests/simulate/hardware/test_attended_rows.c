/* SPDX-License-Identifier: Apache-2.0
 * Protects the rows that a step's tokens attend to: all of them with dense attention, and with
 * sparse attention the best 2,048 of those that the indexer scores.
 */
#include "simulate/hardware/attended_rows.h"

#include "test_case.h"

static const struct model_figures dense = {.heads = 128}, sparse = {.heads = 128,
                                                                    .index_heads = 64,
                                                                    .index_dim = 128,
                                                                    .index_top_k = 2048};

TEST(dense_attention_takes_the_loads_own_sums) {
    struct step_load load = {0};
    step_load_add_chunk(&load, 512, 100000);
    step_load_add_answers(&load, 8, 8, 100000);
    struct attended_rows rows = attended_rows_of(&dense, &load);
    assert_true(rows.answer_rows == load.context && rows.answer_scored == 0);
    assert_true(rows.dense_pairs == load.attended && rows.dense_tokens == 512);
    assert_true(rows.dense_rows == 100512 && rows.sparse_tokens == 0);
}

TEST(short_contexts_are_dense) {
    struct step_load load = {0};
    step_load_add_chunk(&load, 512, 1536);
    step_load_add_answers(&load, 4, 4, 2048);
    struct attended_rows a = attended_rows_of(&dense, &load), b = attended_rows_of(&sparse, &load);
    assert_memory_equal(&a, &b, sizeof a);
}

TEST(long_contexts_are_scored_and_chosen_from) {
    struct step_load load = {0};
    step_load_add_chunk(&load, 512, 100000);
    step_load_add_answers(&load, 8, 16, 100000);
    struct attended_rows rows = attended_rows_of(&sparse, &load);
    assert_true(rows.answer_rows == 8 * 2048 && rows.answer_scored == 800000);
    assert_true(rows.dense_tokens == 0 && rows.dense_rows == 0 && rows.sparse_tokens == 512);
    assert_true(rows.prompt_scored == load.attended);
}

/* Tokens 1,920 to 2,047 attend to all rows, 128 more to chosen ones. */
TEST(a_chunk_may_have_both) {
    struct step_load load = {0};
    step_load_add_chunk(&load, 256, 1920);
    step_load_add_chunk(&load, 256, 1920);
    struct attended_rows rows = attended_rows_of(&sparse, &load);
    assert_true(rows.dense_tokens == 256 && rows.sparse_tokens == 256);
    assert_true(rows.dense_rows == 2 * 2048);
    assert_true(rows.dense_pairs == 2 * (128 * 1920 + 128 * 129 / 2));
    assert_true(rows.prompt_scored == 2 * (128 * 2048 + 128 * 129 / 2));
}
