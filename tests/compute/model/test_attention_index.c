/* SPDX-License-Identifier: Apache-2.0
 * Protects the indexer's operators against those of DeepSeek's code (tests/golden/ops_dsa.json):
 * LayerNorm, Hadamard transform, E4M3 keys, scores and the choice; and the choice against a sorted
 * list, with many equal scores, infinities and both zeros.
 */
#include "compute/model/attention_index.h"

#include <math.h>
#include <stdlib.h>

#include "../../golden/golden.h"
#include "test_case.h"

#include "base/number.h"
#include "base/random.h"

enum { KEY = 128, TOKENS_MAX = 64 };

static const struct tree *operators(void) {
    return golden_read(golden_home(), "ops_dsa.json");
}

static uint32_t floats_of(const struct tree *array, float *out) {
    static struct golden_list list;
    golden_numbers(array, &list);
    for (uint32_t i = 0; i < list.count; i++)
        out[i] = (float)list.values[i];
    return list.count;
}

/* The goldens sum in float32. One norm has a mean a hundred times its deviation. */
static void expect_near(const float *found, const float *expected, uint32_t count, float bound) {
    for (uint32_t i = 0; i < count; i++)
        if (!(fabsf(found[i] - expected[i]) <= bound))
            fail_msg("%u: %.9g, expected %.9g", i, (double)found[i], (double)expected[i]);
}

TEST(layer_norm_and_hadamard_equal_the_goldens) {
    const struct tree *norms = tree_member(operators(), "k_norm");
    const struct tree *transforms = tree_member(operators(), "hadamard");
    float x[KEY], y[KEY], weight[KEY], bias[KEY];
    assert_true(tree_count(norms) > 0 && tree_count(transforms) > 0);
    for (size_t i = 0; i < tree_count(norms); i++) {
        floats_of(tree_member(tree_at(norms, i), "weight"), weight);
        floats_of(tree_member(tree_at(norms, i), "bias"), bias);
        floats_of(tree_member(tree_at(norms, i), "y"), y);
        uint32_t count = floats_of(tree_member(tree_at(norms, i), "x"), x);
        attention_index_layer_norm(x, weight, bias, count);
        expect_near(x, y, count, 1e-4f);
    }
    for (size_t i = 0; i < tree_count(transforms); i++) {
        floats_of(tree_member(tree_at(transforms, i), "y"), y);
        uint32_t count = floats_of(tree_member(tree_at(transforms, i), "x"), x);
        attention_index_hadamard(x, count);
        expect_near(x, y, count, 3e-5f);
    }
}

/* A row in a page: the codes, then the scale. */
TEST(e4m3_keys_equal_the_goldens) {
    const struct tree *cases = tree_member(operators(), "quant_ue8m0");
    const struct kernels *kernels;
    struct kv_pages pages = {
        .format = {.group_count = 2, .groups = {{0}, {KV_ELEMENT_E4M3, KEY, 1}}}};
    assert_int_equal(kernels_select(KERNEL_LEVEL_C, &kernels, NULL), STATUS_OK);
    assert_true(tree_count(cases) > 0);
    for (size_t i = 0; i < tree_count(cases); i++) {
        struct {
            uint8_t codes[KEY];
            float scale;
        } row;
        uint32_t codes[KEY];
        float x[KEY], scale;
        floats_of(tree_member(tree_at(cases, i), "x"), x);
        double expected = 0;
        assert_true(tree_get_number(tree_member(tree_at(cases, i), "scale"), &expected));
        assert_int_equal(golden_ids(tree_member(tree_at(cases, i), "codes"), codes, KEY), KEY);
        kv_pages_write(&pages, kernels, KV_GROUP_INDEX, &row, x);
        scale = row.scale;
        assert_true(scale == (float)expected);
        for (uint32_t c = 0; c < KEY; c++)
            assert_true(row.codes[c] == codes[c] || (row.codes[c] | codes[c]) == 0x80);
    }
}

TEST(published_choices_are_made) {
    const struct tree *cases = tree_member(operators(), "score");
    assert_true(tree_count(cases) > 0);
    for (size_t i = 0; i < tree_count(cases); i++) {
        float scores[TOKENS_MAX];
        uint32_t expected[TOKENS_MAX], found[TOKENS_MAX];
        uint32_t count = floats_of(tree_member(tree_at(cases, i), "scores"), scores);
        uint32_t wanted = golden_ids(tree_member(tree_at(cases, i), "topk"), expected, TOKENS_MAX);
        attention_index_pick(scores, 0, count, wanted, found);
        assert_memory_equal(found, expected, wanted * sizeof *found);
    }
}

struct scored {
    float score;
    uint32_t index;
};

static int by_score(const void *a, const void *b) {
    const struct scored *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

TEST(the_choice_is_that_of_a_sorted_list) {
    enum { COUNT = 700 };
    for (uint32_t draw = 0; draw < 200; draw++) {
        struct scored sorted[COUNT];
        float scores[COUNT];
        uint32_t found[COUNT], first = draw % 3;
        uint32_t count = 1 + (uint32_t)(random_uniform(draw, 0, 0) * (COUNT - 3));
        uint32_t wanted = 1 + (uint32_t)(random_uniform(draw, 0, 1) * (count - 1));
        uint32_t values = draw % 2 ? 9 : 1 << 20; /* many equal ones, or few */
        bool chosen[COUNT] = {false};
        for (uint32_t i = 0; i < count; i++) {
            float value = (float)(int32_t)(random_uniform(draw, 1, i) * values) - (float)values / 2;
            scores[first + i] = value == 0 && i % 50 == 49 ? INFINITY : value;
            sorted[i] = (struct scored){scores[first + i], first + i};
        }
        qsort(sorted, count, sizeof *sorted, by_score);
        for (uint32_t i = 0; i < wanted; i++)
            chosen[sorted[i].index] = true;
        attention_index_pick(scores, first, first + count, wanted, found);
        for (uint32_t i = 0; i < wanted; i++) {
            assert_true(chosen[found[i]]);
            assert_true(i == 0 || found[i - 1] < found[i]);
        }
    }
}
