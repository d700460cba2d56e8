/* SPDX-License-Identifier: Apache-2.0
 * Protects V4's attention: a sequence has the same bits however its prompt is cut, also in the
 * middle of a group of 4 or 128 tokens and within the window, alone or with others in a step, in
 * micro-batches, with any number of threads, token by token, and when its last tokens are dropped
 * and computed again.
 */
#include "test_case.h"

#include "host/engine/solo.h"

#define TOKENS 300
#define SEQUENCES 3

static uint32_t tokens[SEQUENCES][TOKENS];
static float *expected[SEQUENCES]; /* [TOKENS][vocab] */
static float *found;               /* [TOKENS * SEQUENCES][vocab] */
static uint32_t vocab;
static uint64_t random_state = 11;

static uint32_t draw(uint32_t below) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((random_state >> 33) % below);
}

static struct solo *open_solo(const char *name, enum activations activations, uint32_t threads) {
    const char *source = getenv("FATHOM_SOURCE");
    static char directory[4096];
    struct error error = {""};
    struct solo *solo;
    snprintf(directory, sizeof directory, "%s/tests/golden/%s", source ? source : ".", name);
    struct solo_options options = {.model = {.directory = directory,
                                             .activations = activations,
                                             .level = kernels_detect(),
                                             .threads = threads,
                                             .step_tokens_max = 512},
                                   .sequences = SEQUENCES,
                                   .context_max = TOKENS};
    if (solo_open(&options, &solo, &error)) fail_msg("%s", error.text);
    vocab = model_shape(solo_model(solo))->vocab;
    return solo;
}

static void run_rows(struct solo *solo, const struct solo_row *rows, uint32_t count) {
    struct error error = {""};
    if (solo_step(solo, rows, count, found, NULL, &error)) fail_msg("%s", error.text);
}

static struct solo_row row_at(uint32_t sequence, uint32_t first, uint32_t count) {
    return (struct solo_row){.sequence = sequence,
                             .form = TOKEN_PROMPT,
                             .tokens = tokens[sequence] + first,
                             .token_count = count,
                             .logits_count = count};
}

static void expect_same(uint32_t sequence, uint32_t first, uint32_t count, const float *logits) {
    for (uint32_t i = 0; i < count; i++)
        if (memcmp(expected[sequence] + (size_t)(first + i) * vocab, logits + (size_t)i * vocab,
                   vocab * sizeof *logits) != 0)
            fail_msg("sequence %u, position %u differs in a step from %u to %u", sequence,
                     first + i, first, first + count);
}

static void learn(struct solo *solo) {
    size_t bytes = (size_t)TOKENS * vocab * sizeof(float);
    found = malloc(SEQUENCES * bytes);
    for (uint32_t sequence = 0; sequence < SEQUENCES; sequence++) {
        for (uint32_t i = 0; i < TOKENS; i++)
            tokens[sequence][i] = draw(vocab);
        struct solo_row row = row_at(sequence, 0, TOKENS);
        expected[sequence] = malloc(bytes);
        run_rows(solo, &row, 1);
        memcpy(expected[sequence], found, bytes);
        solo_reset(solo, sequence);
    }
}

static void forget(void) {
    for (uint32_t sequence = 0; sequence < SEQUENCES; sequence++)
        free(expected[sequence]);
    free(found);
}

/* All sequences advance together, by pieces of any size. */
static void run_together(struct solo *solo, uint32_t piece_max, bool cuts) {
    uint32_t done[SEQUENCES] = {0};
    for (bool more = true; more;) {
        struct solo_row rows[SEQUENCES];
        uint32_t count = 0;
        for (uint32_t sequence = 0; sequence < SEQUENCES; sequence++) {
            uint32_t left = TOKENS - done[sequence], piece = 1 + draw(piece_max);
            if (left) rows[count++] = row_at(sequence, done[sequence], piece < left ? piece : left);
        }
        more = count > 0;
        if (!more) break;
        const struct step_cut cut[OVERLAP_MICRO_BATCHES - 1] = {{.row = count / 2}};
        if (cuts) solo_cut_next(solo, OVERLAP_PREFILL_DUAL_BATCH, cut);
        run_rows(solo, rows, count);
        const float *logits = found;
        for (uint32_t i = 0; i < count; i++) {
            uint32_t sequence = rows[i].sequence;
            expect_same(sequence, done[sequence], rows[i].token_count, logits);
            logits += (size_t)rows[i].token_count * vocab;
            done[sequence] += rows[i].token_count;
        }
    }
    for (uint32_t sequence = 0; sequence < SEQUENCES; sequence++)
        solo_reset(solo, sequence);
}

/* One sequence token by token; the last one or two are now and then dropped. */
static void run_with_drops(struct solo *solo) {
    for (uint32_t at = 0, highest = 0; at < TOKENS;) {
        struct solo_row row = row_at(0, at, 1);
        run_rows(solo, &row, 1);
        expect_same(0, at++, 1, found);
        if (at > highest) highest = at;
        if (at < 4 || draw(3)) continue;
        const uint32_t dropped = 1 + draw(3);
        if (highest - (at - dropped) > STEP_ROW_TOKENS) continue;
        at -= dropped;
        solo_truncate(solo, 0, at);
    }
    solo_reset(solo, 0);
}

static void expect_invariance(const char *name, enum activations activations) {
    struct solo *solo = open_solo(name, activations, 2);
    learn(solo);
    run_together(solo, 7, false);
    run_together(solo, 150, true);
    run_with_drops(solo);
    solo_close(solo);
    solo = open_solo(name, activations, 1);
    run_together(solo, 70, false);
    solo_close(solo);
    forget();
}

TEST(no_cut_changes_a_bit_of_v4) {
    expect_invariance("v4-bf16-flash", ACTIVATIONS_F32);
    expect_invariance("v4-bf16-flash", ACTIVATIONS_BF16);
    expect_invariance("v4-fp8base-w48", ACTIVATIONS_F32);
    expect_invariance("v4-fp8fp4-pro", ACTIVATIONS_BF16);
    expect_invariance("v4-fp8fp4-pro", ACTIVATIONS_FP8);
}

TEST(a_prefix_of_another_slot_is_refused) {
    struct solo *solo = open_solo("v4-bf16-flash", ACTIVATIONS_F32, 1);
    struct error error = {""};
    learn(solo);
    struct solo_row row = row_at(0, 0, 100);
    run_rows(solo, &row, 1);
    solo_truncate(solo, 0, 64);
    row = row_at(0, 64, 10);
    assert_int_equal(solo_step(solo, &row, 1, found, NULL, &error), STATUS_UNSUPPORTED);
    assert_non_null(strstr(error.text, "begins at position 64"));
    solo_close(solo);
    forget();
}
