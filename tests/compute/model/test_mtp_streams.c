/* SPDX-License-Identifier: Apache-2.0
 * Protects V4's MTP layer: its predictions at all positions are the same whether a prompt comes in
 * one step or in many, although each step writes over the layer's ring.
 */
#include "test_case.h"

#include "../../golden/golden.h"
#include "base/check.h"
#include "host/engine/solo.h"

#define TOKENS_MAX 512

static uint32_t tokens[TOKENS_MAX], count;

static void predict(struct solo *solo, uint32_t chunk, uint32_t *argmax) {
    struct error error = {""};
    solo_reset(solo, 0);
    for (uint32_t done = 0; done < count; done += chunk) {
        const uint32_t end = done + chunk < count ? done + chunk : count;
        const struct solo_row row = {
            .form = TOKEN_PROMPT, .tokens = tokens + done, .token_count = end - done};
        const struct model_probe probe = {
            .mtp_argmax = argmax + done,
            .mtp_next_token = end < count ? tokens[end] : UINT32_MAX,
        };
        if (solo_step(solo, &row, 1, NULL, &probe, &error)) fail_msg("%s", error.text);
    }
}

TEST(predictions_do_not_depend_on_the_chunk) {
    static uint32_t whole[TOKENS_MAX], found[TOKENS_MAX];
    static const uint32_t chunks[] = {1, 7, 64, 200};
    struct error error = {""};
    char directory[1024];
    struct solo *solo;
    snprintf(directory, sizeof directory, "%s/v4-bf16-flash", golden_home());
    const struct tree *prompts = tree_member(golden_read(directory, "golden.json"), "prompts");
    count = golden_ids(tree_member(tree_at(prompts, tree_count(prompts) - 1), "tokens"), tokens,
                       TOKENS_MAX);
    assert_true(count > 300);
    const struct solo_options options = {.model = {.directory = directory,
                                                   .activations = ACTIVATIONS_F32,
                                                   .level = kernels_detect(),
                                                   .threads = 2,
                                                   .step_tokens_max = TOKENS_MAX,
                                                   .mtp = true},
                                         .sequences = 1,
                                         .context_max = TOKENS_MAX};
    if (solo_open(&options, &solo, &error)) fail_msg("%s", error.text);
    predict(solo, count, whole);
    for (uint32_t i = 0; i < ARRAY_COUNT(chunks); i++) {
        predict(solo, chunks[i], found);
        assert_memory_equal(found, whole, count * sizeof *found);
    }
    solo_close(solo);
}
