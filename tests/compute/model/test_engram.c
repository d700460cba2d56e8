/* SPDX-License-Identifier: Apache-2.0
 * Protects Engram: gates are those of the reference (tests/golden/ops_v41.json), and a sequence has
 * the same bits in one step or token by token, as n-grams reach back before a step.
 */
#include <math.h>

#include "test_case.h"

#include "../../golden/golden.h"
#include "base/check.h"
#include "compute/model/engram.h"
#include "host/engine/solo.h"

#define TOKENS 60

static struct golden_list list;

static void take(const struct tree *of, const char *key, float *out, uint32_t count) {
    golden_numbers(tree_member(of, key), &list);
    assert_int_equal(list.count, count);
    for (uint32_t i = 0; i < count; i++)
        out[i] = (float)list.values[i];
}

TEST(gates_are_those_of_the_reference) {
    const struct tree *of = tree_member(golden_read(golden_home(), "ops_v41.json"), "engram_gate");
    float h[32], key[32], q[32], k[32], gates[4];
    take(of, "h", h, 32);
    take(of, "key", key, 32);
    take(of, "q_weight", q, 32);
    take(of, "k_weight", k, 32);
    take(of, "gate", gates, 4);
    for (uint32_t i = 0; i < 4; i++)
        assert_true(fabsf(engram_gate(h + 8 * i, key + 8 * i, q + 8 * i, k + 8 * i, 8, 1e-20f) -
                          gates[i]) <= 1e-6f);
}

static void run(struct solo *solo, const uint32_t *tokens, uint32_t count, float *logits) {
    struct error error = {""};
    const struct solo_row row = {
        .form = TOKEN_PROMPT, .tokens = tokens, .token_count = count, .logits_count = count};
    if (solo_step(solo, &row, 1, logits, NULL, &error)) fail_msg("%s", error.text);
}

TEST(no_cut_changes_a_bit_of_v41) {
    uint32_t tokens[TOKENS];
    struct error error = {""};
    struct solo *solo;
    char directory[1024];
    snprintf(directory, sizeof directory, "%s/v41-bf16-base", golden_home());
    const struct solo_options options = {.model = {.directory = directory,
                                                   .activations = ACTIVATIONS_BF16,
                                                   .level = kernels_detect(),
                                                   .threads = 2,
                                                   .step_tokens_max = TOKENS},
                                         .sequences = 1,
                                         .context_max = TOKENS};
    if (solo_open(&options, &solo, &error)) fail_msg("%s", error.text);
    const uint32_t vocab = model_shape(solo_model(solo))->vocab;
    float *whole = malloc((size_t)TOKENS * vocab * sizeof *whole);
    float *found = malloc((size_t)TOKENS * vocab * sizeof *found);
    for (uint32_t i = 0; i < TOKENS; i++)
        tokens[i] = (i * 131 + i * i * 7) % vocab;
    run(solo, tokens, TOKENS, whole);
    for (uint32_t piece = 1; piece <= 17; piece += 4) {
        solo_reset(solo, 0);
        for (uint32_t at = 0; at < TOKENS; at += piece) {
            const uint32_t count = at + piece < TOKENS ? piece : TOKENS - at;
            run(solo, tokens + at, count, found);
            assert_memory_equal(found, whole + (size_t)at * vocab, count * vocab * sizeof *found);
        }
    }
    free(whole);
    free(found);
    solo_close(solo);
}
