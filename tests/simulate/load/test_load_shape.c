/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/load/load_shape.h"

#include <math.h>

#include "base/check.h"
#include "base/limits.h"
#include "test_case.h"

/* 608e9 / 168e9 tokens, 342e9 of 608e9 obtained, 4,989 KV tokens: DeepSeek's day, 2025-02-27. */
static const struct mix_moments published = {
    .prompt_answer_ratio = 608.0 / 168, .hit_share = 342.0 / 608, .kv_tokens = 4989};

/* The mean part of a prompt's end that fills no block. */
#define BLOCK_LOSS ((KV_BLOCK_TOKENS - 1) / 2.0)

static struct mix_moments moments_of(const struct load_shape *shape) {
    double later = 1 - 1 / shape->turns;
    double prompt = shape->system_tokens + shape->text_tokens * shape->turns +
                    shape->answer_tokens * (shape->turns - 1);
    double computed = shape->text_tokens + later * (shape->answer_tokens + BLOCK_LOSS);
    double half = (1 + shape->answer_cv * shape->answer_cv) / 2;
    return (struct mix_moments){
        .prompt_answer_ratio = prompt / shape->answer_tokens,
        .hit_share = 1 - computed / prompt,
        .kv_tokens = prompt + shape->answer_tokens * half,
    };
}

TEST(a_solved_shape_has_the_moments) {
    static const double turns[] = {1.2, 2, 2.2}, cvs[] = {0, 0.8, 1.2};
    for (size_t t = 0; t < ARRAY_COUNT(turns); t++)
        for (size_t c = 0; c < ARRAY_COUNT(cvs); c++) {
            struct load_shape shape = {.turns = turns[t], .answer_cv = cvs[c], .text_cv = 1};
            struct error error;
            assert_int_equal(load_shape_solve(&published, &shape, &error), STATUS_OK);
            struct mix_moments found = moments_of(&shape);
            assert_true(fabs(found.prompt_answer_ratio / published.prompt_answer_ratio - 1) < 1e-9);
            assert_true(fabs(found.hit_share / published.hit_share - 1) < 1e-9);
            assert_true(fabs(found.kv_tokens / published.kv_tokens - 1) < 1e-9);
            assert_true(shape.text_tokens >= 1 && shape.system_tokens >= 0);
        }
}

/* With every answer alike, the published moments mean 1,211 tokens to an answer. */
TEST(answers_that_are_all_alike_are_longer) {
    struct load_shape shape = {.turns = 2, .answer_cv = 0};
    struct error error;
    assert_int_equal(load_shape_solve(&published, &shape, &error), STATUS_OK);
    assert_true(fabs(shape.answer_tokens - 1211) < 1);
}

TEST(moments_that_no_shape_has_are_refused_with_the_cure) {
    struct load_shape shape = {.turns = 6, .answer_cv = 1};
    struct error error = {""};
    assert_int_equal(load_shape_solve(&published, &shape, &error), STATUS_INVALID);
    assert_non_null(strstr(error.text, "turns"));
    struct mix_moments few = published;
    few.hit_share = 0.999;
    shape.turns = 2;
    assert_int_equal(load_shape_solve(&few, &shape, &error), STATUS_INVALID);
    assert_non_null(strstr(error.text, "hit_share"));
}
