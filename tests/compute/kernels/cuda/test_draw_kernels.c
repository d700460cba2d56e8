/* SPDX-License-Identifier: Apache-2.0
 * Protects draws on a GPU, emulated: whatever logits and rules are, the token is the reference
 * body's, which is the CPU's sampler, under every schedule; and a row draws alone what it draws
 * among a hundred.
 */
#include "test_case.h"

#include "entries.h"

#include <float.h>
#include <math.h>

#include "base/check.h"
#include "compute/emulated/gpu_reference.h"

#define MANY 100u

/* What a row's logits are like. */
enum logits_kind { SHARP, FLAT, TIES, EQUAL, WILD, HUGE_ONES, TINY, TWO_FAR, KINDS };

static float draw_logit(enum logits_kind kind, uint32_t token) {
    static const float wild[] = {NAN,   INFINITY, -INFINITY, -NAN, FLT_MAX, -FLT_MAX, 0,
                                 -0.0f, 1e-40f,   -1e-40f,   20,   19.5f,   -3};
    switch (kind) {
    case SHARP:
        return draw_number() * (draw(50) ? 2 : 8);
    case FLAT:
        return draw_number() * 0.1f;
    case TIES:
        return (float)draw(5) * 0.5f - 1;
    case EQUAL:
        return -0.25f;
    case WILD:
        return wild[draw(ARRAY_COUNT(wild))];
    case HUGE_ONES:
        return draw_number() * 1e37f;
    case TINY:
        return draw_number() * 1e-39f;
    default:
        return token % 97 == 3 ? 1000 : token % 89 == 5 ? 999.9f : -1000;
    }
}

static struct draw_rule draw_a_rule(uint32_t n) {
    static const float temperatures[] = {0.6f, 1, 2, 0, 0.1f, 100, 1e-30f, 1e30f, FLT_MIN};
    static const float top_p[] = {1, 0.95f, 0.5f, 0.1f, 0, 0.999999f};
    static const float min_p[] = {0, 0, 0, 0.05f, 0.5f, 1};
    const uint32_t top_k[] = {0, 0, 0, 1, 2, 7, n, n + 5, n > 1 ? n - 1 : 1};
    double uniform = (draw(1 << 20) * 0x1p-20 + draw(1 << 20) * 0x1p-40) * (1 - 0x1p-53);
    return (struct draw_rule){.uniform = draw(8)   ? uniform
                                         : draw(2) ? 0
                                                   : 1 - 0x1p-53,
                              .temperature =
                                  temperatures[draw(draw(2) ? 3 : ARRAY_COUNT(temperatures))],
                              .top_p = top_p[draw(ARRAY_COUNT(top_p))],
                              .min_p = min_p[draw(ARRAY_COUNT(min_p))],
                              .top_k = top_k[draw(ARRAY_COUNT(top_k))]};
}

struct problem {
    struct gpu_draw of;
    struct output to;
    float *logits;
    struct draw_rule *rules;
};

static struct problem problem_new(uint32_t n, uint32_t rows) {
    uint32_t stride = (uint32_t)round_up(n, 4) + 4;
    struct problem problem = {
        .to = output_new(rows * sizeof(uint32_t), "tokens"),
        .logits = device_new((size_t)rows * stride * sizeof(float), "logits"),
        .rules = device_new(rows * sizeof(struct draw_rule), "rules"),
    };
    for (uint32_t row = 0; row < rows; row++) {
        enum logits_kind kind = (enum logits_kind)draw(KINDS);
        problem.rules[row] = draw_a_rule(n);
        for (uint32_t i = 0; i < n; i++)
            problem.logits[(size_t)row * stride + i] = draw_logit(kind, i);
    }
    problem.of = (struct gpu_draw){.logits = problem.logits,
                                   .rules = problem.rules,
                                   .to = (uint32_t *)(void *)problem.to.expected,
                                   .stride = stride,
                                   .n = n,
                                   .rows = rows};
    gpu_reference.draw.start(&problem.of, NULL);
    problem.of.to = (uint32_t *)(void *)problem.to.found;
    return problem;
}

static void problem_free(struct problem *problem) {
    output_free(&problem->to);
    device_free(problem->logits);
    device_free(problem->rules);
}

/* By the rules, then the likeliest. How many rows draw another token. */
static uint32_t check_all(struct problem *problem) {
    uint32_t others = 0, *tokens = malloc(problem->to.bytes);
    assert_non_null(tokens);
    launch(&gpu_hopper.draw, &problem->of);
    output_check(&problem->to, "tokens");
    memcpy(tokens, problem->to.found, problem->to.bytes);
    struct gpu_draw likeliest = problem->of;
    likeliest.rules = NULL;
    launch(&gpu_hopper.draw, &likeliest);
    likeliest.to = (uint32_t *)(void *)problem->to.expected;
    gpu_reference.draw.start(&likeliest, NULL);
    output_check(&problem->to, "likeliest tokens");
    for (uint32_t row = 0; row < problem->of.rows; row++)
        others += likeliest.to[row] != tokens[row];
    free(tokens);
    return others;
}

TEST(tokens_are_those_of_the_simulator) {
    static const uint32_t lengths[] = {1, 3, 31, 255, 700, 2049, 8195};
    uint32_t others = 0;
    for (uint32_t seed = 0; seed < device_seeds(); seed++) {
        struct problem problem = problem_new(lengths[seed % ARRAY_COUNT(lengths)], ROWS);
        emulate_seed(seed);
        others += check_all(&problem);
        problem_free(&problem);
    }
    print_message("# %u of %u rows drew another token than the likeliest\n", others,
                  device_seeds() * ROWS);
    assert_true(others > device_seeds());
}

/* Every kind of logits, by a rule that cuts nothing, R1's, and one that cuts all it can. */
TEST(a_vocabulary_of_v3_is_drawn_from) {
    static const struct draw_rule rules[] = {
        {.uniform = 0.7, .temperature = 1, .top_p = 1},
        {.uniform = 0.9, .temperature = 0.6f, .top_p = 0.95f},
        {.uniform = 0.5, .temperature = 0.8f, .top_p = 0.9f, .min_p = 1e-3f, .top_k = 40},
    };
    uint32_t n = 129280;
    for (uint32_t row = 0; row < ARRAY_COUNT(rules); row++) {
        struct problem problem = problem_new(n, 1);
        for (uint32_t i = 0; i < n; i++)
            problem.logits[i] = draw_logit(row == 2 ? TIES : row ? SHARP : FLAT, i);
        problem.rules[0] = rules[row];
        problem.of.to = (uint32_t *)(void *)problem.to.expected;
        gpu_reference.draw.start(&problem.of, NULL);
        problem.of.to = (uint32_t *)(void *)problem.to.found;
        emulate_seed(row);
        check_all(&problem);
        problem_free(&problem);
    }
}

TEST(a_row_draws_alone_what_it_draws_among_others) {
    struct problem problem = problem_new(301, MANY);
    emulate_seed(1);
    launch(&gpu_hopper.draw, &problem.of);
    output_check(&problem.to, "tokens");
    uint32_t *among = malloc(problem.to.bytes);
    assert_non_null(among);
    memcpy(among, problem.to.found, problem.to.bytes);
    for (uint32_t row = 0; row < MANY; row += 11) {
        struct gpu_draw alone = problem.of;
        alone.logits += (size_t)row * alone.stride;
        alone.rules += row;
        alone.rows = 1;
        memset(problem.to.found, 0xFF, problem.to.bytes);
        emulate_seed(row);
        launch(&gpu_hopper.draw, &alone);
        assert_int_equal(*(uint32_t *)(void *)problem.to.found, among[row]);
    }
    free(among);
    problem_free(&problem);
}
