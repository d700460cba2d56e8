/* SPDX-License-Identifier: Apache-2.0
 * Protects batch invariance, a promise everything leans on: the logits of a sequence are bitwise
 * the same alone or in any batch, with any thread count, however its prompt is cut (chunks end on
 * block boundaries or at the prompt's end), whatever lay in the KV pages before, by whatever
 * schedule and wherever a step is cut into micro-batches; and at all CPU levels that share a
 * numerics text; in either order of summing experts. What a stage or a layer leaves behind is
 * overwritten before the next, as other values lie in the same place (scratch.h). Tokens, chunks
 * and weights are drawn from one seed; FATHOM_SEEDS="first count" asks for others (`./dev ranks`),
 * which leave out the plain C kernels: those are slow.
 */
#include <sys/stat.h>
#include <unistd.h>

#define TEST_OWN_MAIN
#include "test_case.h"

#include "base/check.h"
#include "compute/model/model_state.h"
#include "compute/model/scratch.h"
#include "compute/weights/random_checkpoint.h"
#include "host/engine/solo.h"

#define SEQUENCES 5
#define PROMPT_MAX 200
#define GENERATED_MAX 6
#define TOKENS_MAX (PROMPT_MAX + GENERATED_MAX)
#define STEP_TOKENS 256
#define TRIALS 2

struct sequence {
    uint32_t prompt_count, count;
    uint32_t tokens[TOKENS_MAX];
    float *expected, *found; /* [TOKENS_MAX][vocab] */
    uint32_t done;
};

static struct sequence sequences[SEQUENCES];
static uint64_t random_state;
static uint64_t seed = 20240501, seed_count = 1;
static enum kernel_level lowest = KERNEL_LEVEL_C;

static uint32_t draw(uint32_t below) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((random_state >> 33) % below);
}

static struct solo *open_solo(const char *directory, enum activations activations,
                              enum expert_sum sum, enum kernel_level level, uint32_t threads) {
    struct error error = {.text = ""};
    struct solo *solo;
    struct solo_options options = {
        .model = {.directory = directory,
                  .activations = activations,
                  .expert_sum = sum,
                  .level = level,
                  .threads = threads,
                  .step_tokens_max = STEP_TOKENS},
        .sequences = SEQUENCES,
        .context_max = TOKENS_MAX,
    };
    if (solo_open(&options, &solo, &error) != STATUS_OK) fail_msg("%s", error.text);
    return solo;
}

/* A NaN in every cell, be it BF16 or F32: what is read without having been written will show. */
static void poison_pages(struct solo *solo) {
    struct kv_pages *kv = &solo_model(solo)->kv;
    memset(kv->memory, 0xFF, kv->page_count * kv->page_bytes);
}

static void begin_stage(void *context) {
}

/* NaNs where a stage's values lay and, behind a layer, where its lane's did; not always, as that is
 * much to write. */
static void poison_values(void *context, enum stage stage, uint32_t index, uint32_t layer,
                          const struct exchange_transfer *ended) {
    const struct model *model = context;
    const struct micro_batch *micro_batch = &model->micro_batches[index];
    const struct scratch *scratch = micro_batch->scratch;
    if (draw(16)) return;
    memset(scratch->stage, 0xFF, scratch->stage_bytes);
    if (stage == STAGE_COMBINE)
        memset(scratch->q, 0xFF,
               (size_t)micro_batch->batch.token_count * scratch->micro_batch_stride *
                   sizeof(float));
}

static void draw_sequences(uint32_t vocab, uint32_t prompt_max) {
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        struct sequence *sequence = &sequences[i];
        sequence->prompt_count = 1 + draw(prompt_max);
        if (i == 0) sequence->prompt_count = KV_BLOCK_TOKENS; /* the edges, always */
        if (i == 1) sequence->prompt_count = 1;
        sequence->count = sequence->prompt_count + 1 + draw(GENERATED_MAX);
        for (uint32_t k = 0; k < sequence->count; k++)
            sequence->tokens[k] = draw(vocab);
        sequence->expected = malloc((size_t)TOKENS_MAX * vocab * sizeof(float));
        sequence->found = malloc((size_t)TOKENS_MAX * vocab * sizeof(float));
        check(sequence->expected && sequence->found);
    }
}

static void free_sequences(void) {
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        free(sequences[i].expected);
        free(sequences[i].found);
    }
}

static void step(struct solo *solo, const struct solo_row *rows, uint32_t row_count,
                 float *logits) {
    struct error error = {.text = ""};
    if (solo_step(solo, rows, row_count, logits, NULL, &error) != STATUS_OK)
        fail_msg("%s", error.text);
}

/* Each sequence by itself: its prompt at once, then token by token. */
static void run_alone(struct solo *solo, uint32_t vocab) {
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        struct sequence *sequence = &sequences[i];
        poison_pages(solo);
        solo_reset(solo, i);
        struct solo_row row = {.sequence = i,
                               .form = TOKEN_PROMPT,
                               .tokens = sequence->tokens,
                               .token_count = sequence->prompt_count,
                               .logits_count = sequence->prompt_count};
        step(solo, &row, 1, sequence->expected);
        for (uint32_t k = sequence->prompt_count; k < sequence->count; k++) {
            row = (struct solo_row){.sequence = i,
                                    .form = TOKEN_GENERATED,
                                    .tokens = sequence->tokens + k,
                                    .token_count = 1,
                                    .logits_count = 1};
            step(solo, &row, 1, sequence->expected + (size_t)k * vocab);
        }
    }
}

/* A random next piece of a sequence, or none: whole blocks or the prompt's rest; a few generated
 * tokens. */
static uint32_t draw_piece(const struct sequence *sequence, uint32_t room) {
    uint32_t left = sequence->count - sequence->done;
    if (left == 0 || draw(4) == 0) return 0;
    if (sequence->done >= sequence->prompt_count) {
        uint32_t count = 1 + draw(3);
        count = count < left ? count : left;
        return count <= room ? count : 0;
    }
    left = sequence->prompt_count - sequence->done;
    uint32_t count = KV_BLOCK_TOKENS * (1 + draw(4));
    count = count < left ? count : left;
    return count <= room ? count : 0;
}

/* A random schedule, its lanes beginning anywhere: also empty ones, and, in an order that no policy
 * would choose, such that end before they begin. */
static void cut_anywhere(struct solo *solo, const struct solo_row *rows, uint32_t row_count) {
    struct step_cut cuts[OVERLAP_MICRO_BATCHES - 1];
    for (uint32_t i = 0; i < OVERLAP_MICRO_BATCHES - 1; i++) {
        uint32_t row = draw(row_count + 1), token = 0;
        if (row < row_count && rows[row].form == TOKEN_PROMPT) /* it begins on a block boundary */
            token = draw((rows[row].token_count - 1) / KV_BLOCK_TOKENS + 1) * KV_BLOCK_TOKENS;
        cuts[i] = (struct step_cut){.row = row, .token = token};
    }
    solo_cut_next(solo, (enum overlap_kind)draw(OVERLAP_KIND_COUNT), cuts);
}

/* One step of random rows; returns the tokens that all sequences still lack. */
static uint32_t run_random_step(struct solo *solo, uint32_t vocab, float *logits) {
    struct solo_row rows[SEQUENCES];
    uint32_t row_count = 0, room = STEP_TOKENS, start = draw(SEQUENCES), missing = 0;
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        uint32_t index = (start + i) % SEQUENCES;
        struct sequence *sequence = &sequences[index];
        uint32_t count = draw_piece(sequence, room);
        room -= count;
        if (!count) continue;
        rows[row_count++] = (struct solo_row){
            .sequence = index,
            .form = sequence->done < sequence->prompt_count ? TOKEN_PROMPT : TOKEN_GENERATED,
            .tokens = sequence->tokens + sequence->done,
            .token_count = count,
            .logits_count = count,
        };
    }
    if (row_count) {
        cut_anywhere(solo, rows, row_count);
        step(solo, rows, row_count, logits);
    }
    for (uint32_t i = 0; i < row_count; i++) {
        struct sequence *sequence = &sequences[rows[i].sequence];
        memcpy(sequence->found + (size_t)sequence->done * vocab, logits,
               (size_t)rows[i].token_count * vocab * sizeof(float));
        logits += (size_t)rows[i].token_count * vocab;
        sequence->done += rows[i].token_count;
    }
    for (uint32_t i = 0; i < SEQUENCES; i++)
        missing += sequences[i].count - sequences[i].done;
    return missing;
}

static void expect_same(uint32_t vocab, const char *what) {
    for (uint32_t i = 0; i < SEQUENCES; i++)
        for (uint32_t k = 0; k < sequences[i].count; k++)
            if (memcmp(sequences[i].expected + (size_t)k * vocab,
                       sequences[i].found + (size_t)k * vocab, vocab * sizeof(float)))
                fail_msg("seed %llu, %s: sequence %u (prompt %u): logits of position %u differ",
                         (unsigned long long)seed, what, i, sequences[i].prompt_count, k);
}

static void expect_invariance(const char *directory, enum activations activations,
                              enum expert_sum sum, enum kernel_level level) {
    static const uint32_t thread_counts[TRIALS] = {2, 5};
    struct solo *alone = open_solo(directory, activations, sum, level, 1);
    uint32_t vocab = model_shape(solo_model(alone))->vocab;
    float *logits = malloc((size_t)STEP_TOKENS * vocab * sizeof(float));
    char what[256];
    check(logits);
    bool slow = level == KERNEL_LEVEL_C || level == KERNEL_LEVEL_NEONBF16; /* under emulation */
    draw_sequences(vocab, slow ? 70 : PROMPT_MAX);
    run_alone(alone, vocab);
    for (uint32_t i = 0; i < SEQUENCES; i++)
        for (uint32_t k = 0; k < sequences[i].count * vocab; k++)
            assert_true(sequences[i].expected[k] == sequences[i].expected[k]); /* no NaN */
    uint32_t trials = level == kernels_detect() ? TRIALS : 1;
    for (uint32_t trial = TRIALS - trials; trial < TRIALS; trial++) {
        struct solo *solo = open_solo(directory, activations, sum, level, thread_counts[trial]);
        snprintf(what, sizeof what, "%s, %s, sum %d, level %d, %u threads", directory,
                 activations_name(activations), (int)sum, (int)level, thread_counts[trial]);
        struct model *model = solo_model(solo);
        const struct model_trace trace = {model, begin_stage, poison_values, NULL, NULL};
        model->trace = &trace;
        poison_pages(solo);
        for (uint32_t i = 0; i < SEQUENCES; i++)
            sequences[i].done = 0;
        while (run_random_step(solo, vocab, logits)) {
        }
        expect_same(vocab, what);
        solo_close(solo);
    }
    solo_close(alone);
    free_sequences();
    free(logits);
}

static char odd[1024], made[1024], sparse[1024];

TEST(any_batch_chunks_and_threads_give_the_same_bits) {
    const char *directories[] = {odd, made, made, sparse};
    for (int i = 0; i < 4; i++)
        for (int level = lowest; level < KERNEL_LEVEL_COUNT; level++)
            for (int mode = 0; kernels_has((enum kernel_level)level) && mode < ACTIVATIONS_COUNT;
                 mode++)
                expect_invariance(directories[i], (enum activations)mode,
                                  i == 2 ? EXPERT_SUM_GROUPS : EXPERT_SUM_EXPERTS,
                                  (enum kernel_level)level);
}

TEST(levels_of_one_numerics_agree) {
    for (int turn = 0; turn < ACTIVATIONS_COUNT * EXPERT_SUM_COUNT; turn++) {
        enum activations mode = (enum activations)(turn % ACTIVATIONS_COUNT);
        enum expert_sum sum = (enum expert_sum)(turn / ACTIVATIONS_COUNT);
        struct solo *plain = open_solo(made, mode, sum, lowest, 2);
        uint32_t vocab = model_shape(solo_model(plain))->vocab;
        draw_sequences(vocab, 70);
        run_alone(plain, vocab);
        for (int level = lowest + 1; level < KERNEL_LEVEL_COUNT; level++) {
            if (!kernels_has((enum kernel_level)level)) continue;
            struct solo *solo = open_solo(made, mode, sum, (enum kernel_level)level, 2);
            bool same_numerics =
                !strcmp(model_numerics_id(solo_model(solo)), model_numerics_id(solo_model(plain)));
            for (uint32_t i = 0; i < SEQUENCES; i++) { /* found = the plain level's */
                float *swap = sequences[i].found;
                sequences[i].found = sequences[i].expected;
                sequences[i].expected = swap;
            }
            run_alone(solo, vocab);
            if (same_numerics) expect_same(vocab, "levels");
            solo_close(solo);
            if (!same_numerics) break;
        }
        solo_close(plain);
        free_sequences();
    }
}

/* Heads of 24 + 40 rows that straddle scale blocks, a rank of 80, ragged widths: nothing is a
 * multiple of a panel. */
#define COMMON_CONFIG                                                                              \
    "\"hidden_size\":168,\"intermediate_size\":300,\"moe_intermediate_size\":72,"                  \
    "\"first_k_dense_replace\":1,\"moe_layer_freq\":1,"                                            \
    "\"n_routed_experts\":12,\"n_shared_experts\":2,\"num_experts_per_tok\":3,\"n_group\":4,"      \
    "\"topk_group\":2,\"topk_method\":\"noaux_tc\",\"scoring_func\":\"sigmoid\","                  \
    "\"norm_topk_prob\":true,\"routed_scaling_factor\":2.5,\"num_attention_heads\":3,"             \
    "\"num_key_value_heads\":3,\"q_lora_rank\":136,\"kv_lora_rank\":80,\"qk_nope_head_dim\":24,"   \
    "\"qk_rope_head_dim\":8,\"v_head_dim\":72,\"rms_norm_eps\":1e-6,\"rope_theta\":10000,"         \
    "\"max_position_embeddings\":1024,\"vocab_size\":333,\"hidden_act\":\"silu\","                 \
    "\"tie_word_embeddings\":false,\"num_nextn_predict_layers\":0,\"bos_token_id\":0,"             \
    "\"eos_token_id\":1,\"quantization_config\":{\"quant_method\":\"fp8\",\"fmt\":\"e4m3\","       \
    "\"activation_scheme\":\"dynamic\",\"scale_fmt\":\"ue8m0\",\"weight_block_size\":[128,128]}}"

static int write_checkpoint(char directory[1024], struct bytes config) {
    struct error error = {.text = ""};
    snprintf(directory, 1024, "%s/fathom-invariance-XXXXXX",
             getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (!mkdtemp(directory)) return -1;
    struct random_checkpoint plan = {
        .directory = directory, .config = config, .seed = seed, .bias_deviation = 0.15f};
    if (random_checkpoint_write(&plan, &error) == STATUS_OK) return 0;
    fprintf(stderr, "%s\n", error.text);
    return -1;
}

/* The sparse one chooses 20 rows, so that most tokens choose; its third layer takes the choice of
 * its second. */
static int make_checkpoints(void **state) {
    static const char dense[] = "{\"architectures\":[\"DeepseekV3ForCausalLM\"],"
                                "\"num_hidden_layers\":3," COMMON_CONFIG;
    static const char with_index[] =
        "{\"architectures\":[\"GlmMoeDsaForCausalLM\"],\"num_hidden_layers\":3,"
        "\"index_n_heads\":5,\"index_head_dim\":32,\"index_topk\":20,"
        "\"index_topk_pattern\":\"FFS\"," COMMON_CONFIG;
    snprintf(odd, sizeof odd, "%s/v3-fp8-odd-noq-g1-noyarn", getenv("FATHOM_TEST_GOLDENS"));
    int failed = write_checkpoint(made, BYTES_LITERAL(dense));
    return failed ? failed : write_checkpoint(sparse, BYTES_LITERAL(with_index));
}

static int remove_checkpoints(void **state) {
    char command[2100];
    snprintf(command, sizeof command, "rm -r '%s' '%s'", made, sparse);
    return system(command);
}

TEST_GROUP(make_checkpoints, remove_checkpoints)

int main(void) {
    const char *asked_for = getenv("FATHOM_SEEDS");
    if (asked_for) {
        unsigned long long first, count;
        check(sscanf(asked_for, "%llu %llu", &first, &count) == 2);
        seed = first;
        seed_count = count;
        while (kernels_detect() > lowest && (lowest == KERNEL_LEVEL_C || !kernels_has(lowest)))
            lowest++;
    }
    for (uint64_t last = seed + seed_count; seed < last; seed++) {
        random_state = seed;
        if (test_cases_run()) return 1;
    }
    return 0;
}
