/* SPDX-License-Identifier: Apache-2.0
 * Protects sampling: greedy and its ties, the cuts of top-k and top-p, frequencies that follow the
 * probabilities, the same token for the same seed and position, and no logits that can crash it.
 * And masks: a choice under one is the choice among its tokens alone, whatever the logits are. And
 * that sums are whole numbers: what a draw leaves is what all candidates in a sorted list say.
 */
#include <math.h>

#include "test_case.h"

#include "compute/kernels/kernels.h"
#include "compute/model/sample.h"

#define VOCAB 300

static float logits[VOCAB], scratch[2 * VOCAB];

static uint64_t random_state = 5;

static uint32_t random_below(uint32_t bound) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((random_state >> 33) % bound);
}

static void set_logits(float value) {
    for (uint32_t i = 0; i < VOCAB; i++)
        logits[i] = value;
}

static uint32_t sample(struct sampling sampling, uint32_t position) {
    return sample_token(logits, VOCAB, &sampling, position, NULL, scratch);
}

TEST(greedy_takes_the_first_of_the_largest) {
    set_logits(-1);
    logits[17] = logits[250] = 3;
    assert_int_equal(sample((struct sampling){.temperature = 0, .top_p = 1}, 0), 17);
    logits[3] = NAN;
    assert_int_equal(sample((struct sampling){.temperature = 0, .top_p = 1}, 0), 17);
}

TEST(top_k_and_top_p_cut) {
    set_logits(-20);
    logits[5] = 2;
    logits[9] = 1;
    logits[7] = 1; /* a tie: 7 stands before 9 */
    logits[1] = 0;
    bool seen[VOCAB] = {false};
    for (uint32_t i = 0; i < 2000; i++)
        seen[sample((struct sampling){.temperature = 1, .top_p = 1, .top_k = 2, .seed = 1}, i)] =
            true;
    assert_true(seen[5] && seen[7] && !seen[9] && !seen[1]);
    memset(seen, 0, sizeof seen);
    /* shares 0.53, 0.20, 0.20, 0.07: 0.6 needs the first two */
    for (uint32_t i = 0; i < 2000; i++)
        seen[sample((struct sampling){.temperature = 1, .top_p = 0.6f, .seed = 1}, i)] = true;
    assert_true(seen[5] && seen[7] && !seen[9] && !seen[1]);
    /* top-p over what top-k left: of 0.73, the first alone is 0.73 of it */
    memset(seen, 0, sizeof seen);
    for (uint32_t i = 0; i < 2000; i++)
        seen[sample((struct sampling){.temperature = 1, .top_p = 0.7f, .top_k = 2, .seed = 1}, i)] =
            true;
    assert_true(seen[5] && !seen[7]);
    assert_int_equal(sample((struct sampling){.temperature = 1, .top_p = 0, .seed = 4}, 2), 5);
}

TEST(frequencies_follow_probabilities) {
    static const struct sampling ways[] = {
        {.temperature = 0.5f, .top_p = 1, .seed = 77},
        {.temperature = 0.5f, .top_p = 0.999999f, .seed = 77},
        {.temperature = 0.5f, .top_p = 1, .top_k = VOCAB - 1, .seed = 77},
    };
    set_logits(-100);
    for (uint32_t i = 0; i < 8; i++)
        logits[i * 30] = (float)i * 0.2f;
    double total = 0;
    for (uint32_t i = 0; i < 8; i++)
        total += exp((double)i * 0.4);
    for (size_t way = 0; way < sizeof ways / sizeof ways[0]; way++) {
        uint32_t counts[VOCAB] = {0};
        for (uint32_t i = 0; i < 10000; i++)
            counts[sample(ways[way], i)]++;
        for (uint32_t i = 0; i < 8; i++) {
            double expected = 10000 * exp((double)i * 0.4) / total;
            assert_true(fabs(counts[i * 30] - expected) < 5 * sqrt(expected));
        }
    }
}

TEST(the_same_choice_is_made_again) {
    uint32_t different = 0;
    for (uint32_t i = 0; i < VOCAB; i++)
        logits[i] = (float)(i % 17) * 0.1f;
    for (uint32_t i = 0; i < 100; i++) {
        struct sampling sampling = {
            .temperature = 1, .top_p = 0.9f, .seed = i / 2, .choice = i % 2};
        uint32_t token = sample(sampling, i);
        assert_int_equal(token, sample(sampling, i));
        different += token != sample(sampling, i + 1);
    }
    assert_true(different > 80);
}

TEST(wild_logits_give_a_token) {
    static const float wild[] = {NAN, INFINITY, -INFINITY, 3e38f, -3e38f, 0, 1e-40f};
    static const float temperatures[] = {0, 1e-30f, 0.7f, 1e30f, NAN};
    for (uint32_t trial = 0; trial < 500; trial++) {
        for (uint32_t i = 0; i < VOCAB; i++)
            logits[i] = wild[(trial + i * (trial % 6)) % 7];
        struct sampling sampling = {.temperature = temperatures[trial % 5],
                                    .top_p = trial % 3 ? 0.9f : 1,
                                    .top_k = trial % 4,
                                    .seed = trial};
        assert_true(sample(sampling, trial) < VOCAB);
    }
}

/* ---- a sorted list ---- */

static int compare_candidates(const void *a, const void *b) {
    uint32_t first = *(const uint32_t *)a, second = *(const uint32_t *)b;
    if (logits[first] != logits[second]) return logits[first] > logits[second] ? -1 : 1;
    return first < second ? -1 : 1;
}

static uint64_t units[VOCAB];

/* Of the ids' first `count`. */
static uint64_t sum_units(const uint32_t *ids, uint32_t count) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += units[ids[i]];
    return sum;
}

/* By the definition, from the last id to the first, of finite logits. */
static uint32_t draw_from_list(const struct draw_rule *rule) {
    uint32_t ids[VOCAB], count = 0, all = VOCAB;
    for (uint32_t i = 0; i < VOCAB; i++)
        ids[i] = i;
    qsort(ids, VOCAB, sizeof *ids, compare_candidates);
    for (uint32_t i = VOCAB; i-- > 0;) {
        float weight = kernels_exp((logits[i] - logits[ids[0]]) / rule->temperature);
        units[i] = weight < rule->min_p ? 0 : (uint64_t)((double)weight * 0x1p40);
    }
    while (units[ids[all - 1]] == 0)
        all--;
    if (rule->top_k && rule->top_k < all) all = rule->top_k;
    double wanted = (double)rule->top_p * (double)sum_units(ids, all);
    while (all > 1 && (double)sum_units(ids, all - 1) >= wanted)
        all--;
    double place = floor(rule->uniform * (double)sum_units(ids, all));
    while (count + 1 < all && (double)sum_units(ids, count + 1) <= place)
        count++;
    return ids[count];
}

TEST(a_draw_is_what_a_sorted_list_says) {
    uint32_t firsts = 0;
    for (uint32_t trial = 0; trial < 2000; trial++) {
        for (uint32_t i = 0; i < VOCAB; i++) /* with ties; in every third trial mostly far away */
            logits[i] = (float)random_below(trial % 2 ? 40 : 1000) * (trial % 3 ? 0.01f : 0.3f);
        struct draw_rule rule = {.uniform = (double)random_below(1 << 20) * 0x1p-20,
                                 .temperature = 0.1f + 0.3f * (float)(trial % 5),
                                 .top_p = trial % 4 ? 0.1f * (float)random_below(11) : 1,
                                 .min_p = trial % 6 ? 0 : 0.1f,
                                 .top_k = trial % 5 ? 0 : 1 + random_below(VOCAB + 50)};
        uint32_t token = sample_draw(logits, VOCAB, &rule, NULL, scratch);
        assert_int_equal(token, draw_from_list(&rule));
        rule.temperature = 0;
        firsts += token == sample_draw(logits, VOCAB, &rule, NULL, scratch);
    }
    assert_true(firsts < 1000);
}

/* ---- masks ---- */

#define MASK_WORDS ((VOCAB + 63) / 64)

/* At least one token, one in `sparseness` of the others. */
static void draw_mask(uint64_t *mask, uint32_t sparseness) {
    memset(mask, 0, MASK_WORDS * sizeof *mask);
    uint32_t sure = random_below(VOCAB);
    for (uint32_t i = 0; i < VOCAB; i++)
        if (i == sure || random_below(sparseness) == 0) mask[i / 64] |= UINT64_C(1) << i % 64;
}

/* The plain reference: logits of the mask's tokens alone, in order, and no mask. */
static uint32_t sample_plainly(const struct sampling *sampling, uint32_t position,
                               const uint64_t *mask) {
    static float few[VOCAB], few_scratch[2 * VOCAB];
    uint32_t ids[VOCAB], count = 0;
    for (uint32_t i = 0; i < VOCAB; i++)
        if (mask[i / 64] >> i % 64 & 1) {
            few[count] = logits[i];
            ids[count++] = i;
        }
    return ids[sample_token(few, count, sampling, position, NULL, few_scratch)];
}

static struct sampling draw_sampling(uint32_t trial) {
    return (struct sampling){.temperature = trial % 5 ? 0.2f + 0.4f * (float)(trial % 5) : 0,
                             .top_p = trial % 3 ? 0.3f + 0.1f * (float)random_below(7) : 1,
                             .top_k = trial % 4 ? 0 : 1 + random_below(VOCAB),
                             .min_p = trial % 7 ? 0 : 0.05f,
                             .seed = trial};
}

TEST(a_mask_leaves_its_tokens_alone) {
    uint64_t mask[MASK_WORDS];
    uint32_t elsewhere = 0;
    for (uint32_t trial = 0; trial < 3000; trial++) {
        for (uint32_t i = 0; i < VOCAB; i++) /* with ties */
            logits[i] = (float)random_below(trial % 2 ? 40 : 1000) * 0.01f;
        draw_mask(mask, 1 + random_below(trial % 3 ? 10 : 400));
        struct sampling sampling = draw_sampling(trial);
        uint32_t token = sample_token(logits, VOCAB, &sampling, trial, mask, scratch);
        assert_int_equal(token, sample_plainly(&sampling, trial, mask));
        elsewhere += token != sample(sampling, trial);
    }
    assert_true(elsewhere > 1000);
}

TEST(a_full_mask_changes_nothing) {
    uint64_t mask[MASK_WORDS];
    memset(mask, 0xFF, sizeof mask); /* bits behind the vocabulary mean nothing */
    for (uint32_t trial = 0; trial < 500; trial++) {
        for (uint32_t i = 0; i < VOCAB; i++)
            logits[i] = (float)random_below(1000) * 0.01f;
        struct sampling sampling = draw_sampling(trial);
        assert_int_equal(sample_token(logits, VOCAB, &sampling, trial, mask, scratch),
                         sample(sampling, trial));
    }
}

TEST(no_logits_lead_out_of_a_mask) {
    static const float wild[] = {NAN, INFINITY, -INFINITY, 3e38f, -3e38f, 0, 1e-40f};
    uint64_t mask[MASK_WORDS];
    for (uint32_t trial = 0; trial < 2000; trial++) {
        draw_mask(mask, 1 + random_below(300));
        for (uint32_t i = 0; i < VOCAB; i++) /* at times none of the mask's is a number */
            logits[i] = trial % 5 == 0 && mask[i / 64] >> i % 64 & 1 ? NAN : wild[random_below(7)];
        struct sampling sampling = draw_sampling(trial);
        uint32_t token = sample_token(logits, VOCAB, &sampling, trial, mask, scratch);
        assert_true(token < VOCAB && (mask[token / 64] >> token % 64 & 1));
    }
}

TEST(a_mask_without_likely_tokens_is_noticed) {
    uint64_t mask[MASK_WORDS] = {0};
    set_logits(1);
    mask[0] = UINT64_C(1) << 3;
    mask[2] = UINT64_C(1) << 7;
    assert_true(sample_leaves_any(logits, VOCAB, mask));
    logits[3] = -INFINITY;
    assert_true(sample_leaves_any(logits, VOCAB, mask));
    logits[2 * 64 + 7] = NAN;
    assert_false(sample_leaves_any(logits, VOCAB, mask));
    logits[2 * 64 + 7] = -3e38f;
    assert_true(sample_leaves_any(logits, VOCAB, mask));
}
