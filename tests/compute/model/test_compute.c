/* SPDX-License-Identifier: Apache-2.0
 * Protects the two sets of compute.h's functions against one another: the same steps give the same
 * bits on the CPU and on the emulated device, whose reference bodies have the CPU's arithmetic. So
 * what differs is the engine's fault: an order between streams that no event says, a row in the
 * wrong place, a number that the host reads too early. Steps mix prompts in chunks and generated
 * tokens, under any schedule; the device's streams run in an order drawn anew for each model; and a
 * row alone is the row among many.
 */
#include "test_case.h"

#include "../../golden/golden.h"
#include "base/check.h"
#include "compute/emulated/compute_emulated.h"
#include "compute/gpu/compute_gpu.h"
#include "host/engine/solo.h"

#define SEQUENCES 4
#define TOKENS 150 /* of a sequence: its prompt, then what is given as generated */
#define GENERATED 5
#define STEP_TOKENS 256

static uint64_t random_state = 20260101;

static uint32_t draw(uint32_t below) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((random_state >> 33) % below);
}

struct way {
    const char *directory;
    enum activations activations;
    enum expert_sum sum;
};

static struct solo *open_solo(const struct way *way, const struct model_device *device) {
    struct error error;
    struct solo *solo;
    struct solo_options options = {
        .model = {.directory = way->directory,
                  .activations = way->activations,
                  .expert_sum = way->sum,
                  .device = device,
                  .device_seed = random_state,
                  .level = kernels_detect_fma1(), /* the reference bodies' arithmetic */
                  .threads = 2,
                  .step_tokens_max = STEP_TOKENS},
        .sequences = SEQUENCES,
        .context_max = TOKENS,
    };
    if (solo_open(&options, &solo, &error) != STATUS_OK) fail_msg("%s", error.text);
    return solo;
}

struct sequence {
    uint32_t prompt, count, done;
    uint32_t tokens[TOKENS];
};

static struct sequence sequences[SEQUENCES];

static void draw_sequences(uint32_t vocab) {
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        struct sequence *sequence = &sequences[i];
        sequence->prompt = i == 0 ? KV_BLOCK_TOKENS : 1 + draw(TOKENS - GENERATED - 1);
        sequence->count = sequence->prompt + GENERATED;
        sequence->done = 0;
        for (uint32_t k = 0; k < sequence->count; k++)
            sequence->tokens[k] = draw(vocab);
    }
}

/* The next piece of a sequence: a block or two of its prompt, or a generated token. */
static struct solo_row next_row(uint32_t index) {
    struct sequence *sequence = &sequences[index];
    bool prompt = sequence->done < sequence->prompt;
    uint32_t left = (prompt ? sequence->prompt : sequence->count) - sequence->done;
    uint32_t most = prompt ? KV_BLOCK_TOKENS * (1 + draw(2)) : 1;
    return (struct solo_row){.sequence = index,
                             .form = prompt ? TOKEN_PROMPT : TOKEN_GENERATED,
                             .tokens = sequence->tokens + sequence->done,
                             .token_count = left < most ? left : most,
                             .logits_count = left < most ? left : most};
}

static void step(struct solo *solo, const struct solo_row *rows, uint32_t count, float *logits) {
    struct error error;
    if (solo_step(solo, rows, count, logits, NULL, &error) != STATUS_OK) fail_msg("%s", error.text);
}

static void draw_cuts(const struct solo_row *rows, uint32_t count, struct step_cut *cuts) {
    for (uint32_t i = 0; i < OVERLAP_MICRO_BATCHES - 1; i++) {
        uint32_t row = draw(count + 1), token = 0;
        if (row < count && rows[row].form == TOKEN_PROMPT)
            token = draw((rows[row].token_count - 1) / KV_BLOCK_TOKENS + 1) * KV_BLOCK_TOKENS;
        cuts[i] = (struct step_cut){.row = row, .token = token};
    }
}

/* Steps until all sequences are through; then, if the row is the first sequence's, alone again. */
static void expect_same(const struct way *way) {
    struct solo *cpu = open_solo(way, &model_on_cpu), *there = open_solo(way, &model_on_emulated);
    struct solo *alone = open_solo(way, &model_on_emulated);
    uint32_t vocab = model_shape(solo_model(cpu))->vocab, steps = 0;
    size_t bytes = (size_t)STEP_TOKENS * vocab * sizeof(float);
    float *expected = malloc(bytes), *found = malloc(bytes);
    check(expected && found);
    draw_sequences(vocab);
    for (;; steps++) {
        struct solo_row rows[SEQUENCES];
        struct step_cut cuts[OVERLAP_MICRO_BATCHES - 1];
        uint32_t count = 0, tokens = 0;
        for (uint32_t i = 0; i < SEQUENCES; i++) {
            if (sequences[i].done == sequences[i].count) continue;
            struct solo_row row = next_row(i);
            if (tokens + row.token_count > STEP_TOKENS) continue;
            tokens += row.token_count;
            rows[count++] = row;
        }
        if (!count) break;
        draw_cuts(rows, count, cuts);
        enum overlap_kind overlap = (enum overlap_kind)draw(OVERLAP_KIND_COUNT);
        solo_cut_next(cpu, overlap, cuts);
        step(cpu, rows, count, expected);
        solo_cut_next(there, overlap, cuts);
        memset(found, 0xFF, bytes);
        step(there, rows, count, found);
        if (memcmp(expected, found, (size_t)tokens * vocab * sizeof(float)))
            fail_msg("%s, %s, sum %d: step %u differs", way->directory,
                     activations_name(way->activations), (int)way->sum, steps);
        for (uint32_t i = 0; i < count; i++)
            sequences[rows[i].sequence].done += rows[i].token_count;
        if (rows[0].sequence != 0) continue;
        step(alone, rows, 1, found);
        assert_memory_equal(expected, found, (size_t)rows[0].token_count * vocab * sizeof(float));
    }
    assert_in_range(steps, GENERATED + 1, 100);
    solo_close(cpu);
    solo_close(there);
    solo_close(alone);
    free(expected);
    free(found);
}

TEST(the_emulated_device_gives_the_bits_of_the_cpu) {
    static char cases[GOLDEN_CASES_MAX][512];
    uint32_t count = golden_cases(cases);
    assert_true(count >= 3);
    for (uint32_t i = 0; i < count; i++)
        for (int turn = 0; turn < ACTIVATIONS_COUNT * EXPERT_SUM_COUNT; turn++)
            if (golden_is_for_gpus(cases[i]))
                expect_same(&(struct way){cases[i], (enum activations)(turn % ACTIVATIONS_COUNT),
                                          (enum expert_sum)(turn / ACTIVATIONS_COUNT)});
}
