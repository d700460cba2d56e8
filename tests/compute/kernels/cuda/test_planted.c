/* SPDX-License-Identifier: Apache-2.0
 * Protects the emulator's checks and the kernels' tests: each bug of planted.txt, planted in a copy
 * of a kernel, is found within 20 seeds by a check that the table names for it, and the report
 * names a place. `numbers`: the bits differ from the kernel's own.
 */
#include "test_case.h"

#include "products.h"

#include <math.h>

#include "base/number.h"
#include "compute/kernels/cuda/attention_rows.h"
#include "compute/kernels/cuda/bf16_gemm.h"
#include "compute/kernels/cuda/choice_kernels.h"
#include "compute/kernels/cuda/draw_kernels.h"
#include "compute/kernels/cuda/float_gemm.h"
#include "compute/kernels/cuda/mla_decode.h"
#include "compute/kernels/cuda/mla_float.h"
#include "compute/kernels/cuda/mla_prompt.h"
#include "compute/kernels/cuda/row_kernels.h"

#include "planted.inc"

#define SEEDS 20

struct planted {
    const char *name, *checks;
    __typeof__(fp8_gemm_run) *product;
    __typeof__(row_kernels_norm) *norm;
    __typeof__(row_kernels_gather) *gather;
    __typeof__(row_kernels_combine) *combine;
    __typeof__(choice_kernels_experts) *experts;
    __typeof__(draw_kernels_tokens) *tokens;
    __typeof__(attention_rows_write) *write;
    __typeof__(mla_prompt_take) *take;
    __typeof__(mla_prompt_attend) *attend;
    __typeof__(mla_float_absorb) *absorb;
    __typeof__(mla_float_release) *release;
    __typeof__(mla_float_decode) *decode;
    __typeof__(mla_float_attend) *attend_floats;
    __typeof__(bf16_gemm_run) *product_bf16;
    __typeof__(float_gemm_run) *product_floats;
    __typeof__(mla_decode_run) *mla;
};

/* What stands in for the kernel's output. */
struct outcome {
    struct emulate_report report;
    const void *output;
    size_t bytes;
};

typedef struct outcome run_planted(const struct planted *planted);

static struct product product;

static struct outcome run_product(const struct planted *planted) {
    struct outcome outcome = {.output = product.y,
                              .bytes = (size_t)product.m * product.y_stride * sizeof(float)};
    product_poison(&product);
    emulate_collect(&outcome.report);
    (planted ? planted->product : fp8_gemm_run)(NULL, &product.weights, &product.rows, product.y,
                                                product.y_stride, product.m);
    emulate_collect(NULL);
    return outcome;
}

#define NORM_ROWS 3u
#define NORM_LENGTH 515u
#define NORM_STRIDE 516u
#define ROW_PITCH 528u    /* of rows of codes that are packed */
#define PACKED_PITCH 544u /* behind 515 codes, at 516, five scales */
#define SCALE_GROUPS 5u
#define PAIRS_EACH 4u
#define CODES_BYTES (NORM_ROWS * NORM_STRIDE)
#define PACKED_BYTES (NORM_ROWS * PACKED_PITCH)
#define SUMS_BYTES (NORM_ROWS * NORM_STRIDE * sizeof(float))

/* A norm leaves codes; other codes are packed with their scales; results are summed by groups. */
static struct rows {
    float *x, *weight, *scales;
    uint8_t *codes;
    struct row_gather pack;
    struct row_results results;
    float *sums;
    uint8_t output[CODES_BYTES + PACKED_BYTES + SUMS_BYTES];
} rows;

static struct outcome run_rows(const struct planted *planted) {
    struct outcome outcome = {.output = rows.output, .bytes = sizeof rows.output};
    struct row_output outputs[ROW_OUTPUTS] = {{.codes = rows.codes,
                                               .code_stride = NORM_STRIDE,
                                               .scales = rows.scales,
                                               .scale_stride = 4}};
    memset(rows.codes, 0xFF, CODES_BYTES);
    memset(rows.pack.to, 0xFF, PACKED_BYTES);
    memset(rows.sums, 0xFF, SUMS_BYTES);
    emulate_collect(&outcome.report);
    (planted ? planted->norm : row_kernels_norm)(NULL, rows.x, NORM_STRIDE, NULL, 0, rows.weight,
                                                 1e-6f, outputs, NORM_ROWS, NORM_LENGTH, NULL);
    if (!outcome.report.made)
        (planted ? planted->gather : row_kernels_gather)(NULL, &rows.pack, NORM_ROWS);
    if (!outcome.report.made)
        (planted ? planted->combine : row_kernels_combine)(NULL, &rows.results, rows.sums,
                                                           NORM_STRIDE, NORM_ROWS, NORM_LENGTH);
    emulate_collect(NULL);
    memcpy(rows.output, rows.codes, CODES_BYTES);
    memcpy(rows.output + CODES_BYTES, rows.pack.to, PACKED_BYTES);
    memcpy(rows.output + CODES_BYTES + PACKED_BYTES, rows.sums, SUMS_BYTES);
    return outcome;
}

#define CHOICE_ROWS 4u
#define CHOICE_EXPERTS 64u
#define CHOSEN 6u

static struct choice {
    float *logits, *bias;
    uint32_t *words; /* [rows][CHOSEN] experts, as many weights */
} choice;

static struct outcome run_choice(const struct planted *planted) {
    struct outcome outcome = {.output = choice.words,
                              .bytes = CHOICE_ROWS * 2 * CHOSEN * sizeof(uint32_t)};
    struct choice_rule rule = {.experts = CHOICE_EXPERTS,
                               .per_token = CHOSEN,
                               .groups = 8,
                               .groups_kept = 3,
                               .two_largest = true,
                               .normalizes = true,
                               .scaling = 2.5f};
    uint32_t *weights = choice.words + CHOICE_ROWS * CHOSEN;
    memset(choice.words, 0xFF, outcome.bytes);
    emulate_collect(&outcome.report);
    (planted ? planted->experts
             : choice_kernels_experts)(NULL, &rule, choice.logits, CHOICE_EXPERTS, choice.bias,
                                       choice.words, (float *)(void *)weights, CHOICE_ROWS, NULL);
    emulate_collect(NULL);
    return outcome;
}

#define DRAWN_LENGTH 4109u
#define DRAWN_STRIDE 4112u

enum drawn {
    AS_R1,
    FIRST_OF_EQUALS,
    OF_FEW_EQUALS,
    LAST_OF_FEW,
    OF_ODD_ONES,
    LEAST_OF_ALL,
    LAST_OF_EQUALS,
    DRAWN_ROWS
};

static struct draws {
    float *logits;
    struct draw_rule *rules;
    uint32_t *tokens; /* by the rules, then the likeliest */
} draws;

static struct outcome run_draws(const struct planted *planted) {
    struct outcome outcome = {.output = draws.tokens,
                              .bytes = 2 * DRAWN_ROWS * sizeof *draws.tokens};
    __typeof__(draw_kernels_tokens) *tokens = planted ? planted->tokens : draw_kernels_tokens;
    memset(draws.tokens, 0xFF, outcome.bytes);
    emulate_collect(&outcome.report);
    tokens(NULL, draws.logits, DRAWN_STRIDE, DRAWN_LENGTH, draws.rules, draws.tokens, DRAWN_ROWS);
    if (!outcome.report.made)
        tokens(NULL, draws.logits, DRAWN_STRIDE, DRAWN_LENGTH, NULL, draws.tokens + DRAWN_ROWS,
               DRAWN_ROWS);
    emulate_collect(NULL);
    return outcome;
}

#define KV_ROWS 3u
#define KV_RANK 72u
#define KV_ROPE 16u
#define KV_PAGES 5u
#define KV_PAGE_BYTES (64 * (KV_RANK + KV_ROPE) * sizeof(uint16_t))

static struct latents { struct attention_latents of; } latents;

static struct outcome run_latents(const struct planted *planted) {
    struct outcome outcome = {.output = latents.of.memory, .bytes = KV_PAGES * KV_PAGE_BYTES};
    memset(latents.of.memory, 0xFF, outcome.bytes);
    emulate_collect(&outcome.report);
    (planted ? planted->write : attention_rows_write)(NULL, &latents.of, KV_ROWS);
    emulate_collect(NULL);
    return outcome;
}

/* Two runs, in two rounds of four tiles of places: 3 tokens behind a prefix of 300; 70 behind one
 * of 560, whose key 0 is none. */
#define PROMPT_HEADS 2u
#define PROMPT_NOPE 24u
#define PROMPT_ROPE 8u
#define PROMPT_VALUE 40u
#define PROMPT_RANK 40u
#define PROMPT_RUNS 2u
#define PROMPT_ROWS 73u
#define PROMPT_PLACES (8 * MLA_PROMPT_TILE)
#define PROMPT_ROUND (4 * MLA_PROMPT_TILE)
#define PROMPT_PAGES 15u
#define PROMPT_PAGE_BYTES (64 * (PROMPT_RANK + PROMPT_ROPE) * sizeof(uint16_t))
#define PROMPT_FLOATS (PROMPT_ROWS * PROMPT_HEADS * PROMPT_VALUE + PROMPT_PLACES * PROMPT_RANK)

static struct prompt {
    struct mla_prompt_runs runs;
    struct mla_prompt_rows rows;
    uint16_t *queries, *expanded, *tails, *taken;
    float *marks;
    float *output; /* attention's, then latents */
} prompt;

static struct outcome run_prompt(const struct planted *planted) {
    struct outcome outcome = {.output = prompt.output, .bytes = PROMPT_FLOATS * sizeof(float)};
    struct mla_prompt_heads heads = {PROMPT_HEADS, PROMPT_NOPE, PROMPT_ROPE, PROMPT_VALUE, 0.2f};
    uint32_t pitch = PROMPT_HEADS * (PROMPT_NOPE + PROMPT_ROPE) * sizeof(uint16_t);
    uint32_t width = PROMPT_HEADS * (PROMPT_NOPE + PROMPT_VALUE);
    float *taken = prompt.output + PROMPT_ROWS * PROMPT_HEADS * PROMPT_VALUE;
    memset(prompt.output, 0xFF, outcome.bytes);
    emulate_collect(&outcome.report);
    for (uint32_t first = 0; first < PROMPT_PLACES; first += PROMPT_ROUND) {
        struct mla_prompt_round round = {first, PROMPT_ROUND};
        struct mla_prompt_maps maps;
        assert_true(mla_prompt_make(&maps, &heads, prompt.queries, pitch, PROMPT_ROWS,
                                    prompt.expanded + first * width,
                                    prompt.tails + first * PROMPT_ROPE, PROMPT_ROUND));
        if (!outcome.report.made)
            (planted ? planted->take : mla_prompt_take)(NULL, &prompt.runs, &prompt.rows, &round,
                                                        taken + first * PROMPT_RANK, NULL,
                                                        prompt.taken);
        if (!outcome.report.made)
            (planted ? planted->attend : mla_prompt_attend)(NULL, &maps, &prompt.runs, &round, 2,
                                                            prompt.marks, prompt.output);
    }
    emulate_collect(NULL);
    return outcome;
}

/* Halves of kv_b of codes, whose second head's values straddle a block of 128; a core; and a prompt
 * of 6 tokens behind 130, of which key 0 is none, behind a run of one, in rounds of a tile of
 * places. */
#define FLOAT_HEADS 2u
#define FLOAT_NOPE 24u
#define FLOAT_ROPE 6u
#define FLOAT_VALUE 50u
#define FLOAT_RANK 140u
#define FLOAT_WIDTH (FLOAT_RANK + FLOAT_ROPE)
#define FLOAT_KEYS 90u
#define FLOAT_PROMPT 7u
#define FLOAT_PLACES (3 * MLA_PROMPT_TILE)
#define FLOAT_ABSORBED (2 * FLOAT_HEADS * FLOAT_WIDTH)
#define FLOAT_RELEASED (FLOAT_HEADS * FLOAT_VALUE)
#define FLOAT_DECODED (FLOAT_HEADS * FLOAT_RANK)
#define FLOAT_ATTENDED (FLOAT_PROMPT * FLOAT_HEADS * FLOAT_VALUE)
#define FLOAT_ALL (FLOAT_ABSORBED + FLOAT_RELEASED + FLOAT_DECODED + FLOAT_ATTENDED)

static struct floats {
    struct mla_float_heads heads;
    struct mla_float_keys keys;
    struct mla_float_prompt prompt;
    struct mla_prompt_runs runs;
    float *numbers, *output;
    uint32_t *live;
} floats;

static struct outcome run_floats(const struct planted *planted) {
    struct outcome outcome = {.output = floats.output, .bytes = FLOAT_ALL * sizeof(float)};
    float *to = floats.output;
    struct mla_float_rows absorb = {.x = floats.numbers,
                                    .y = to,
                                    .x_stride = FLOAT_HEADS * (FLOAT_NOPE + FLOAT_ROPE),
                                    .y_stride = FLOAT_HEADS * FLOAT_WIDTH,
                                    .rows = 2, /* of which one is there */
                                    .live = {floats.live, 1, 0}};
    struct mla_float_rows release = {.x = floats.numbers, .y = to += FLOAT_ABSORBED, .rows = 1};
    struct mla_float_rows decode = {.x = floats.numbers, .y = to += FLOAT_RELEASED, .rows = 1};
    floats.prompt.y = to + FLOAT_DECODED;
    memset(floats.output, 0xFF, outcome.bytes);
    emulate_collect(&outcome.report);
    (planted ? planted->absorb : mla_float_absorb)(NULL, &floats.heads, &absorb);
    if (!outcome.report.made)
        (planted ? planted->release : mla_float_release)(NULL, &floats.heads, &release);
    if (!outcome.report.made)
        (planted ? planted->decode : mla_float_decode)(NULL, &floats.keys, &decode);
    for (uint32_t first = 0; first < FLOAT_PLACES && !outcome.report.made;
         first += MLA_PROMPT_TILE) {
        struct mla_prompt_round round = {first, MLA_PROMPT_TILE};
        struct mla_float_prompt of = floats.prompt;
        of.expanded += (size_t)first * FLOAT_HEADS * (FLOAT_NOPE + FLOAT_VALUE);
        of.tails += (size_t)first * FLOAT_ROPE;
        (planted ? planted->attend_floats : mla_float_attend)(NULL, &of, &floats.runs, &round,
                                                              FLOAT_PROMPT);
    }
    emulate_collect(NULL);
    return outcome;
}

/* Weights either way round, in more stages than there is room for; a tile's second half has rows or
 * none. */
#define BF16_COLUMNS 129u
#define BF16_CHANNELS 600u
#define BF16_BATCH 2u
#define BF16_ROWS_MAX 70u
#define BF16_STRIDE 132u /* of y */
#define BF16_FLOATS (2 * BF16_BATCH * BF16_ROWS_MAX * BF16_STRIDE)

static struct products_of_bf16 {
    struct bf16_gemm_weights weights[2];
    struct bf16_gemm_rows rows[2];
    float *y;
} products_of_bf16;

static struct outcome run_bf16(const struct planted *planted) {
    static const uint32_t rows_of[2] = {40, BF16_ROWS_MAX};
    struct outcome outcome = {.output = products_of_bf16.y, .bytes = BF16_FLOATS * sizeof(float)};
    memset(products_of_bf16.y, 0xFF, outcome.bytes);
    emulate_collect(&outcome.report);
    for (uint32_t form = 0; form < 2 && !outcome.report.made; form++) {
        const struct bf16_gemm_output y = {.values = products_of_bf16.y + form * (BF16_FLOATS / 2),
                                           .row_stride = BF16_STRIDE,
                                           .batch_stride = BF16_ROWS_MAX * BF16_STRIDE};
        (planted ? planted->product_bf16 : bf16_gemm_run)(
            NULL, &products_of_bf16.weights[form], &products_of_bf16.rows[form], &y, rows_of[form]);
    }
    emulate_collect(NULL);
    return outcome;
}

/* Tokens whose keys are of one part, of two, and of the second alone; two blocks of heads. */
#define MLA_TOKENS 3u
#define MLA_HEADS 70u
#define MLA_RANK 64u
#define MLA_WIDTH 80u
#define MLA_KEYS 1100u
#define MLA_PAGES 18u /* of a token, most of which no page stands behind */
#define MLA_VALUES (MLA_TOKENS * MLA_HEADS * MLA_RANK)

static struct mla {
    struct mla_decode_pages pages;
    struct mla_decode_queries queries;
    struct mla_decode_tokens tokens;
    float *room;
    uint16_t *y;
    size_t room_bytes;
} mla;

static struct outcome run_mla(const struct planted *planted) {
    struct outcome outcome = {.output = mla.y, .bytes = MLA_VALUES * sizeof(uint16_t)};
    memset(mla.y, 0xFF, outcome.bytes);
    memset(mla.room, 0xFF, mla.room_bytes);
    emulate_collect(&outcome.report);
    (planted ? planted->mla : mla_decode_run)(NULL, &mla.pages, 0, &mla.queries, &mla.tokens,
                                              MLA_KEYS, 0.11f, mla.room, mla.y);
    emulate_collect(NULL);
    return outcome;
}

#define ROW(bug, checks) __typeof__(fp8_gemm_run) planted_##bug##_fp8_gemm_run;
PLANTED_fp8_gemm(ROW)
#undef ROW
#define ROW(bug, checks) __typeof__(bf16_gemm_run) planted_##bug##_bf16_gemm_run;
    PLANTED_bf16_gemm(ROW)
#undef ROW
#define ROW(bug, checks) __typeof__(float_gemm_run) planted_##bug##_float_gemm_run;
        PLANTED_float_gemm(ROW)
#undef ROW
#define ROW(bug, checks) __typeof__(mla_decode_run) planted_##bug##_mla_decode_run;
            PLANTED_mla_decode(ROW)
#undef ROW
#define ROW(bug, checks)                                                                           \
    __typeof__(row_kernels_norm) planted_##bug##_row_kernels_norm;                                 \
    __typeof__(row_kernels_gather) planted_##bug##_row_kernels_gather;                             \
    __typeof__(row_kernels_combine) planted_##bug##_row_kernels_combine;
                PLANTED_row_kernels(ROW)
#undef ROW
#define ROW(bug, checks) __typeof__(choice_kernels_experts) planted_##bug##_choice_kernels_experts;
                    PLANTED_choice_kernels(ROW)
#undef ROW
#define ROW(bug, checks) __typeof__(draw_kernels_tokens) planted_##bug##_draw_kernels_tokens;
                        PLANTED_draw_kernels(ROW)
#undef ROW
#define ROW(bug, checks) __typeof__(attention_rows_write) planted_##bug##_attention_rows_write;
                            PLANTED_attention_rows(ROW)
#undef ROW
#define ROW(bug, checks)                                                                           \
    __typeof__(mla_prompt_take) planted_##bug##_mla_prompt_take;                                   \
    __typeof__(mla_prompt_attend) planted_##bug##_mla_prompt_attend;
                                PLANTED_mla_prompt(ROW)
#undef ROW
#define ROW(bug, checks)                                                                           \
    __typeof__(mla_float_absorb) planted_##bug##_mla_float_absorb;                                 \
    __typeof__(mla_float_release) planted_##bug##_mla_float_release;                               \
    __typeof__(mla_float_decode) planted_##bug##_mla_float_decode;                                 \
    __typeof__(mla_float_attend) planted_##bug##_mla_float_attend;
                                    PLANTED_mla_float(ROW)
#undef ROW

                                        static const struct planted products[] = {
#define ROW(bug, checks) {#bug, checks, .product = planted_##bug##_fp8_gemm_run},
                                            PLANTED_fp8_gemm(ROW)
#undef ROW
};
static const struct planted row_bugs[] = {
#define ROW(bug, checks)                                                                           \
    {#bug, checks, .norm = planted_##bug##_row_kernels_norm,                                       \
     .gather = planted_##bug##_row_kernels_gather,                                                 \
     .combine = planted_##bug##_row_kernels_combine},
    PLANTED_row_kernels(ROW)
#undef ROW
};
static const struct planted choices[] = {
#define ROW(bug, checks) {#bug, checks, .experts = planted_##bug##_choice_kernels_experts},
    PLANTED_choice_kernels(ROW)
#undef ROW
};
static const struct planted draw_bugs[] = {
#define ROW(bug, checks) {#bug, checks, .tokens = planted_##bug##_draw_kernels_tokens},
    PLANTED_draw_kernels(ROW)
#undef ROW
};
static const struct planted writes[] = {
#define ROW(bug, checks) {#bug, checks, .write = planted_##bug##_attention_rows_write},
    PLANTED_attention_rows(ROW)
#undef ROW
};
static const struct planted prompts[] = {
#define ROW(bug, checks)                                                                           \
    {#bug, checks, .take = planted_##bug##_mla_prompt_take,                                        \
     .attend = planted_##bug##_mla_prompt_attend},
    PLANTED_mla_prompt(ROW)
#undef ROW
};

static const struct planted in_floats[] = {
#define ROW(bug, checks)                                                                           \
    {#bug,                                                                                         \
     checks,                                                                                       \
     .absorb = planted_##bug##_mla_float_absorb,                                                   \
     .release = planted_##bug##_mla_float_release,                                                 \
     .decode = planted_##bug##_mla_float_decode,                                                   \
     .attend_floats = planted_##bug##_mla_float_attend},
    PLANTED_mla_float(ROW)
#undef ROW
};

static const struct planted float_products[] = {
#define ROW(bug, checks) {#bug, checks, .product_floats = planted_##bug##_float_gemm_run},
    PLANTED_float_gemm(ROW)
#undef ROW
};

static const struct planted bf16_products[] = {
#define ROW(bug, checks) {#bug, checks, .product_bf16 = planted_##bug##_bf16_gemm_run},
    PLANTED_bf16_gemm(ROW)
#undef ROW
};
static const struct planted decodes[] = {
#define ROW(bug, checks) {#bug, checks, .mla = planted_##bug##_mla_decode_run},
    PLANTED_mla_decode(ROW)
#undef ROW
};

static bool is_named(const char *checks, const char *check) {
    size_t length = strlen(check);
    for (const char *at = checks; (at = strstr(at, check)); at += length)
        if ((at == checks || at[-1] == ',') && (!at[length] || at[length] == ',')) return true;
    return false;
}

/* Within some seeds, something is found. */
static void look_for(const struct planted *planted, run_planted *run, const void *expected) {
    for (uint32_t seed = 0; seed < SEEDS; seed++) {
        emulate_seed(seed);
        struct outcome outcome = run(planted);
        bool differs = !outcome.report.made && memcmp(expected, outcome.output, outcome.bytes);
        if (!outcome.report.made && !differs) continue;
        const char *found = differs ? "numbers" : emulate_check_name(outcome.report.check);
        print_message("# %s: %s, seed %u: %s\n", planted->name, found, seed,
                      differs ? "the output differs" : outcome.report.text);
        if (!is_named(planted->checks, found))
            fail_msg("%s: found by %s, expected %s", planted->name, found, planted->checks);
        return;
    }
    fail_msg("%s: nothing found in %u seeds", planted->name, SEEDS);
}

static void look_for_all(const struct planted *planted, size_t count, run_planted *run) {
    struct outcome outcome = run(NULL);
    device_check(&outcome.report);
    void *expected = malloc(outcome.bytes);
    memcpy(expected, outcome.output, outcome.bytes);
    for (size_t i = 0; i < count; i++)
        look_for(&planted[i], run, expected);
    free(expected);
}

TEST(bugs_of_the_fp8_product_are_found) {
    uint64_t state = 11;
    product = product_make(&state, 70, 200, 1100, WEIGHTS_RANDOM, NUMBERS_NORMAL);
    look_for_all(products, sizeof products / sizeof *products, run_product);
    product_free(&product);
}

static void make_norm(uint64_t *state) {
    rows.x = device_new(NORM_ROWS * NORM_STRIDE * sizeof(float), "x");
    rows.weight = device_new(NORM_LENGTH * sizeof(float), "weight");
    rows.codes = device_new(CODES_BYTES, "codes");
    rows.scales = device_new(SCALE_GROUPS * 4 * sizeof(float), "scales");
    levels_fill(state, NUMBERS_NORMAL, rows.x, NORM_ROWS * NORM_STRIDE);
    levels_fill(state, NUMBERS_NORMAL, rows.weight, NORM_LENGTH);
}

static void make_pack(uint64_t *state) {
    static const uint32_t ids[NORM_ROWS] = {2, 0, 1};
    uint8_t *from = device_new(NORM_ROWS * ROW_PITCH, "rows to be packed");
    float *scales = device_new(SCALE_GROUPS * NORM_ROWS * sizeof *scales, "their scales");
    uint8_t *to = device_new(PACKED_BYTES, "packed rows");
    for (uint32_t i = 0; i < NORM_ROWS * ROW_PITCH; i++)
        from[i] = (uint8_t)levels_random(state);
    levels_fill(state, NUMBERS_NORMAL, scales, SCALE_GROUPS * NORM_ROWS);
    rows.pack = (struct row_gather){.from = from,
                                    .to = to,
                                    .from_pitch = ROW_PITCH,
                                    .to_pitch = PACKED_PITCH,
                                    .from_scales = scales,
                                    .to_scales = (float *)(void *)(to + NORM_STRIDE),
                                    .from_scale_stride = NORM_ROWS,
                                    .to_scale_stride = 1,
                                    .from_scale_step = 1,
                                    .to_scale_step = PACKED_PITCH / sizeof(float),
                                    .ids = device_new_copy(ids, sizeof ids, "ids"),
                                    .bytes = NORM_LENGTH,
                                    .groups = SCALE_GROUPS};
}

/* Groups of four experts. Of the second row's first group a sum has come, and one pair is none. */
static void make_results(uint64_t *state) {
    static const uint32_t experts[NORM_ROWS * PAIRS_EACH] = {0, 1, 2, 7, 4, 5, 6, 9, 1, 2, 6, 7};
    static const uint32_t pair_row[NORM_ROWS * PAIRS_EACH] = {
        3, 0, 5, 1, 2, ROW_SUMMED, ROW_SUMMED, 6, 7, ROW_NO_PAIR, 8, 4};
    size_t count = NORM_ROWS * PAIRS_EACH;
    uint16_t *results = device_new(count * ROW_PITCH * sizeof *results, "results");
    float *weights = device_new(count * sizeof *weights, "weights of results");
    for (uint32_t i = 0; i < count * ROW_PITCH; i++)
        results[i] = bf16_from_float(levels_number(state, NUMBERS_NORMAL));
    levels_fill(state, NUMBERS_NORMAL, weights, count);
    rows.sums = device_new(SUMS_BYTES, "sums");
    rows.results =
        (struct row_results){.results = results,
                             .pitch = ROW_PITCH * sizeof *results,
                             .pair_row = device_new_copy(pair_row, sizeof pair_row, "pairs' rows"),
                             .experts = device_new_copy(experts, sizeof experts, "experts"),
                             .weights = weights,
                             .per_token = PAIRS_EACH,
                             .group_experts = 4,
                             .is_bf16 = true,
                             .rounds_bf16 = true};
}

TEST(bugs_of_rows_are_found) {
    uint64_t state = 12;
    make_norm(&state);
    make_pack(&state);
    make_results(&state);
    look_for_all(row_bugs, sizeof row_bugs / sizeof *row_bugs, run_rows);
    const void *all[] = {rows.x,
                         rows.weight,
                         rows.codes,
                         rows.scales,
                         rows.pack.from,
                         rows.pack.to,
                         rows.pack.from_scales,
                         rows.pack.ids,
                         rows.results.results,
                         rows.results.pair_row,
                         rows.results.experts,
                         rows.results.weights,
                         rows.sums};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        device_free((void *)(uintptr_t)all[i]);
}

/* Small integers, so that many are equal; the last is the largest. */
TEST(bugs_of_choices_are_found) {
    uint64_t state = 13;
    size_t count = CHOICE_ROWS * CHOICE_EXPERTS;
    choice.logits = device_new(count * sizeof(float), "logits");
    choice.bias = device_new(CHOICE_EXPERTS * sizeof(float), "bias");
    choice.words = device_new(CHOICE_ROWS * 2 * CHOSEN * sizeof(uint32_t), "choices");
    for (size_t i = 0; i < count; i++)
        choice.logits[i] = (float)(levels_random(&state) % 5) - 2;
    for (uint32_t i = 0; i < CHOICE_EXPERTS; i++)
        choice.bias[i] = (float)(levels_random(&state) % 3) * 0.125f;
    look_for_all(choices, sizeof choices / sizeof *choices, run_choice);
    device_free(choice.logits);
    device_free(choice.bias);
    device_free(choice.words);
}

static float drawn_logit(uint64_t *state, enum drawn row, uint32_t token) {
    static const float odd[] = {-0.0f, -INFINITY, -1, -2, NAN};
    uint32_t some = (uint32_t)levels_random(state) % 4096;
    switch (row) {
    case AS_R1:
        return token == DRAWN_LENGTH - 400 ? 12 : (float)some * 0x1p-9f;
    case LEAST_OF_ALL:
        return token ? -(float)some * 0x1p-8f : 1;
    case OF_ODD_ONES:
        return token % 64 == 63 ? 0 : odd[some % 5];
    case LAST_OF_EQUALS:
        return 0.5f;
    default:
        return (float)(some % 5);
    }
}

TEST(bugs_of_draws_are_found) {
    static const struct draw_rule rules[DRAWN_ROWS] = {
        [AS_R1] = {.uniform = 0.83, .temperature = 0.6f, .top_p = 0.95f},
        [FIRST_OF_EQUALS] = {.uniform = 0, .temperature = 1, .top_p = 1},
        [OF_FEW_EQUALS] = {.uniform = 0.97, .temperature = 0.7f, .top_p = 0.5f, .top_k = 900},
        [LAST_OF_FEW] = {.uniform = 1 - 0x1p-53, .temperature = 0.7f, .top_p = 1, .top_k = 900},
        [OF_ODD_ONES] = {.uniform = 0.01, .temperature = 1, .top_p = 0.999f},
        [LEAST_OF_ALL] = {.uniform = 1 - 0x1p-53, .temperature = 0.4f, .top_p = 1},
        [LAST_OF_EQUALS] = {.uniform = 1 - 0x1p-53, .temperature = 2, .top_p = 1, .min_p = 1},
    };
    uint64_t state = 19;
    draws.logits = device_new(DRAWN_ROWS * DRAWN_STRIDE * sizeof(float), "logits");
    draws.rules = device_new_copy(rules, sizeof rules, "rules");
    draws.tokens = device_new(2 * DRAWN_ROWS * sizeof(uint32_t), "tokens");
    for (uint32_t row = 0; row < DRAWN_ROWS; row++)
        for (uint32_t i = 0; i < DRAWN_LENGTH; i++)
            draws.logits[row * DRAWN_STRIDE + i] = drawn_logit(&state, (enum drawn)row, i);
    look_for_all(draw_bugs, sizeof draw_bugs / sizeof *draw_bugs, run_draws);
    device_free(draws.logits);
    device_free(draws.rules);
    device_free(draws.tokens);
}

TEST(bugs_of_rows_of_the_cache_are_found) {
    static const uint32_t positions[KV_ROWS] = {3, 70, 1}, index[KV_ROWS] = {3, 70, 0};
    static const uint32_t first[KV_ROWS] = {0, 0, 2}, pages[KV_PAGES] = {4, 1, 0, 2, 3};
    uint64_t state = 14;
    uint32_t width = KV_RANK + KV_ROPE;
    float *kv_a = device_new(KV_ROWS * width * sizeof(float), "kv_a");
    float *weight = device_new(KV_RANK * sizeof(float), "weight");
    float *angles = device_new(100 * KV_ROPE * sizeof(float), "angles");
    levels_fill(&state, NUMBERS_NORMAL, kv_a, KV_ROWS * width);
    levels_fill(&state, NUMBERS_NORMAL, weight, KV_RANK);
    levels_fill(&state, NUMBERS_NORMAL, angles, 100 * KV_ROPE);
    struct attention_latents of = {
        .kv_a = kv_a,
        .stride = width,
        .weight = weight,
        .angles = angles,
        .positions = device_new_copy(positions, sizeof positions, "positions"),
        .kv_index = device_new_copy(index, sizeof index, "kv_index"),
        .first_page = device_new_copy(first, sizeof first, "first_page"),
        .pages = device_new_copy(pages, sizeof pages, "pages"),
        .memory = device_new(KV_PAGES * KV_PAGE_BYTES, "memory of pages"),
        .page_bytes = KV_PAGE_BYTES,
        .row_bytes = width * sizeof(uint16_t),
        .rank = KV_RANK,
        .rope = KV_ROPE,
        .epsilon = 1e-6f,
        .is_bf16 = true};
    latents.of = of;
    look_for_all(writes, sizeof writes / sizeof *writes, run_latents);
    void *all[] = {kv_a,
                   weight,
                   angles,
                   (void *)(uintptr_t)of.positions,
                   (void *)(uintptr_t)of.kv_index,
                   (void *)(uintptr_t)of.first_page,
                   (void *)(uintptr_t)of.pages,
                   of.memory};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        device_free(all[i]);
}

static void fill_bf16(uint64_t *state, uint16_t *to, size_t count) {
    for (size_t i = 0; i < count; i++)
        to[i] = bf16_from_float(levels_number(state, NUMBERS_NORMAL));
}

/* Expanded keys are not made of the latents here. */
TEST(bugs_of_prompts_attention_are_found) {
    static const struct mla_prompt_run runs[PROMPT_RUNS] = {{0, 3, 0, 0}, {3, 70, 1, 5}};
    static const uint32_t pages[PROMPT_PAGES] = {5, 3, 0, 6, 14, 1, 8, 4, 2, 9, 11, 7, 13, 10, 12};
    uint32_t width = PROMPT_HEADS * (PROMPT_NOPE + PROMPT_VALUE), kv_index[PROMPT_ROWS];
    uint64_t state = 15;
    for (uint32_t i = 0; i < PROMPT_ROWS; i++)
        kv_index[i] = i < 3 ? 300 + i : 560 + i - 3;
    size_t row_width = PROMPT_HEADS * (PROMPT_NOPE + PROMPT_ROPE);
    char *memory = device_new(PROMPT_PAGES * PROMPT_PAGE_BYTES, "pages' memory");
    prompt.runs.runs = device_new_copy(runs, sizeof runs, "runs");
    prompt.runs.kv_index = device_new_copy(kv_index, sizeof kv_index, "kv_index");
    prompt.runs.pages = device_new_copy(pages, sizeof pages, "page table");
    prompt.runs.count = PROMPT_RUNS;
    prompt.rows = (struct mla_prompt_rows){
        memory, PROMPT_PAGE_BYTES, 0, PROMPT_PAGE_BYTES / 64, PROMPT_RANK, PROMPT_ROPE};
    prompt.queries = device_new(PROMPT_ROWS * row_width * sizeof(uint16_t), "queries");
    prompt.expanded = device_new(PROMPT_PLACES * width * sizeof(uint16_t), "expanded keys");
    prompt.tails = device_new(PROMPT_PLACES * PROMPT_ROPE * sizeof(uint16_t), "rotated keys");
    prompt.taken = device_new(PROMPT_ROUND * PROMPT_ROPE * sizeof(uint16_t), "taken keys");
    prompt.marks = device_new(PROMPT_ROWS * PROMPT_HEADS * 2 * sizeof(float), "marks");
    prompt.output = device_new(PROMPT_FLOATS * sizeof(float), "output");
    fill_bf16(&state, prompt.queries, PROMPT_ROWS * row_width);
    fill_bf16(&state, prompt.expanded, PROMPT_PLACES * width);
    fill_bf16(&state, prompt.tails, PROMPT_PLACES * PROMPT_ROPE);
    fill_bf16(&state, (uint16_t *)(void *)memory, PROMPT_PAGES * PROMPT_PAGE_BYTES / 2);
    look_for_all(prompts, sizeof prompts / sizeof *prompts, run_prompt);
    void *all[] = {memory,
                   (void *)(uintptr_t)prompt.runs.runs,
                   (void *)(uintptr_t)prompt.runs.kv_index,
                   (void *)(uintptr_t)prompt.runs.pages,
                   prompt.queries,
                   prompt.expanded,
                   prompt.tails,
                   prompt.taken,
                   prompt.marks,
                   prompt.output};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        device_free(all[i]);
}

static float *new_floats(uint64_t *state, size_t count, const char *name) {
    float *x = device_new(count * sizeof *x, name);
    levels_fill(state, NUMBERS_NORMAL, x, count);
    return x;
}

TEST(bugs_of_attention_in_floats_are_found) {
    static const struct mla_prompt_run runs[] = {{0, 1, 0, 0}, {1, 6, 1, 0}};
    static const uint32_t kv_index[FLOAT_PROMPT] = {3, 130, 131, 132, 133, 134, 135};
    static const uint32_t first[] = {1}, last[] = {FLOAT_KEYS - 1}, page[] = {0}, pages[] = {1, 0};
    uint32_t kv_rows = FLOAT_HEADS * (FLOAT_NOPE + FLOAT_VALUE), one = 1;
    uint64_t state = 16;
    uint8_t *kv_b = device_new((size_t)kv_rows * 144, "kv_b");
    for (size_t i = 0; i < (size_t)kv_rows * 144; i++)
        kv_b[i] = e4m3_from_float(levels_number(&state, NUMBERS_NORMAL));
    floats.numbers = new_floats(&state, 2 * FLOAT_HEADS * FLOAT_WIDTH, "queries");
    floats.output = device_new(FLOAT_ALL * sizeof(float), "output");
    floats.live = device_new_copy(&one, sizeof one, "how many are there");
    floats.heads = (struct mla_float_heads){.kv_b = kv_b,
                                            .scales = new_floats(&state, 4, "scales"),
                                            .type = FLOAT_GEMM_E4M3,
                                            .pitch = 144,
                                            .heads = FLOAT_HEADS,
                                            .nope = FLOAT_NOPE,
                                            .rope = FLOAT_ROPE,
                                            .value = FLOAT_VALUE,
                                            .rank = FLOAT_RANK};
    size_t page_bytes = 64 * FLOAT_WIDTH * sizeof(float);
    floats.keys = (struct mla_float_keys){
        .first = device_new_copy(first, sizeof first, "first keys"),
        .last = device_new_copy(last, sizeof last, "last keys"),
        .first_page = device_new_copy(page, sizeof page, "first_page"),
        .pages = device_new_copy(pages, sizeof pages, "page table"),
        .memory = (const char *)new_floats(&state, 2 * page_bytes / sizeof(float), "pages' memory"),
        .page_bytes = page_bytes,
        .row_bytes = FLOAT_WIDTH * sizeof(float),
        .heads = FLOAT_HEADS,
        .rank = FLOAT_RANK,
        .rope = FLOAT_ROPE,
        .scale = 0.05f};
    floats.runs.runs = device_new_copy(runs, sizeof runs, "runs");
    floats.runs.kv_index = device_new_copy(kv_index, sizeof kv_index, "kv_index");
    floats.runs.count = 2;
    floats.prompt = (struct mla_float_prompt){
        .queries = new_floats(&state, FLOAT_PROMPT * FLOAT_HEADS * (FLOAT_NOPE + FLOAT_ROPE),
                              "queries of the prompt"),
        .expanded = new_floats(
            &state, (size_t)FLOAT_PLACES * FLOAT_HEADS * (FLOAT_NOPE + FLOAT_VALUE), "expanded"),
        .tails = new_floats(&state, (size_t)FLOAT_PLACES * FLOAT_ROPE, "rotated keys"),
        .marks = device_new(FLOAT_PROMPT * FLOAT_HEADS * 2 * sizeof(float), "marks"),
        .stride = FLOAT_HEADS * (FLOAT_NOPE + FLOAT_ROPE),
        .heads = FLOAT_HEADS,
        .nope = FLOAT_NOPE,
        .rope = FLOAT_ROPE,
        .value = FLOAT_VALUE,
        .scale = 0.2f};
    look_for_all(in_floats, sizeof in_floats / sizeof *in_floats, run_floats);
    const void *all[] = {kv_b,
                         floats.numbers,
                         floats.output,
                         floats.live,
                         floats.heads.scales,
                         floats.keys.first,
                         floats.keys.last,
                         floats.keys.first_page,
                         floats.keys.pages,
                         floats.keys.memory,
                         floats.runs.runs,
                         floats.runs.kv_index,
                         floats.prompt.queries,
                         floats.prompt.expanded,
                         floats.prompt.tails,
                         floats.prompt.marks};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        device_free((void *)(uintptr_t)all[i]);
}

static uint16_t *new_bf16(uint64_t *state, size_t count, const char *name) {
    uint16_t *x = device_new(count * sizeof *x, name);
    fill_bf16(state, x, count);
    return x;
}

#define FLOATS_ROWS 21u
#define FLOATS_COLUMNS 140u /* two blocks of scales */
#define FLOATS_CHANNELS 300u
#define FLOATS_BLOCKS 3u

static struct {
    struct float_gemm_weights weights;
    struct float_gemm_rows rows;
    float *y;
} product_of_floats;

static struct outcome run_float_product(const struct planted *planted) {
    struct outcome outcome = {.output = product_of_floats.y,
                              .bytes = FLOATS_ROWS * FLOATS_COLUMNS * sizeof(float)};
    memset(product_of_floats.y, 0xA5, outcome.bytes);
    emulate_collect(&outcome.report);
    (planted ? planted->product_floats
             : float_gemm_run)(NULL, &product_of_floats.weights, &product_of_floats.rows,
                               product_of_floats.y, FLOATS_COLUMNS, FLOATS_ROWS);
    emulate_collect(NULL);
    return outcome;
}

TEST(bugs_of_the_product_of_floats_are_found) {
    uint64_t state = 19;
    uint8_t codes[FLOATS_COLUMNS * FLOATS_CHANNELS];
    for (uint32_t i = 0; i < sizeof codes; i++)
        codes[i] = (uint8_t)(levels_random(&state) % 120 + levels_random(&state) % 2 * 128);
    const float *scales = new_floats(&state, 2 * FLOATS_BLOCKS, "scales");
    const float *x = new_floats(&state, FLOATS_ROWS * FLOATS_CHANNELS, "x");
    product_of_floats.weights =
        (struct float_gemm_weights){.data = device_new_copy(codes, sizeof codes, "codes"),
                                    .scales = scales,
                                    .type = FLOAT_GEMM_E4M3,
                                    .pitch = FLOATS_CHANNELS,
                                    .n = FLOATS_COLUMNS,
                                    .k = FLOATS_CHANNELS};
    product_of_floats.rows = (struct float_gemm_rows){
        .x = x, .pitch = FLOATS_CHANNELS * sizeof(float), .live = live_rows_of(NULL)};
    product_of_floats.y = device_new(FLOATS_ROWS * FLOATS_COLUMNS * sizeof(float), "y");
    look_for_all(float_products, sizeof float_products / sizeof *float_products, run_float_product);
    device_free((void *)(uintptr_t)product_of_floats.weights.data);
    device_free((void *)(uintptr_t)scales);
    device_free((void *)(uintptr_t)x);
    device_free(product_of_floats.y);
}

TEST(bugs_of_the_bf16_product_are_found) {
    uint64_t state = 17;
    uint32_t k = BF16_CHANNELS, n = BF16_COLUMNS, most = BF16_ROWS_MAX, turned = 136;
    uint16_t *x = new_bf16(&state, (size_t)BF16_BATCH * most * k, "x");
    uint16_t *of_k = new_bf16(&state, (size_t)BF16_BATCH * n * k, "rows of k");
    uint16_t *of_n = new_bf16(&state, (size_t)BF16_BATCH * k * turned, "rows of n");
    products_of_bf16.y = device_new(BF16_FLOATS * sizeof(float), "y");
    assert_true(bf16_gemm_make_weights(&products_of_bf16.weights[0], of_k, BF16_GEMM_ROWS_OF_K,
                                       k * 2, (uint64_t)n * k * 2, n, k, BF16_BATCH));
    assert_true(bf16_gemm_make_weights(&products_of_bf16.weights[1], of_n, BF16_GEMM_ROWS_OF_N,
                                       turned * 2, (uint64_t)k * turned * 2, n, k, BF16_BATCH));
    for (uint32_t form = 0; form < 2; form++)
        assert_true(bf16_gemm_make_rows(&products_of_bf16.rows[form], x, k * 2,
                                        (uint64_t)most * k * 2, most, k, BF16_BATCH));
    look_for_all(bf16_products, sizeof bf16_products / sizeof *bf16_products, run_bf16);
    device_free(x);
    device_free(of_k);
    device_free(of_n);
    device_free(products_of_bf16.y);
}

/* Pages that a token sees are its own; a row that it does not see holds NaNs. */
TEST(bugs_of_decodes_attention_are_found) {
    static const uint32_t first[MLA_TOKENS] = {1, 900, 1030}, last[MLA_TOKENS] = {129, 1099, 1099};
    uint32_t first_page[MLA_TOKENS], page_of[MLA_TOKENS * MLA_PAGES] = {0};
    uint32_t page = 0, count = 3 + 4 + 2;
    size_t room = mla_decode_room(MLA_RANK, MLA_TOKENS, MLA_HEADS, MLA_KEYS);
    uint64_t state = 18;
    uint16_t *memory = device_new((size_t)count * 64 * MLA_WIDTH * sizeof *memory, "pages");
    uint16_t *queries = new_bf16(&state, MLA_TOKENS * MLA_HEADS * MLA_WIDTH, "queries");
    for (uint32_t i = 0; i < MLA_TOKENS; i++) {
        first_page[i] = i * MLA_PAGES;
        for (uint32_t block = first[i] / 64; block <= last[i] / 64; block++, page++) {
            uint32_t begin = first[i] > block * 64 ? first[i] % 64 : 0;
            uint32_t end = last[i] < block * 64 + 63 ? last[i] % 64 + 1 : 64;
            page_of[first_page[i] + block] = count - 1 - page;
            fill_bf16(&state, memory + ((count - 1 - page) * 64 + begin) * MLA_WIDTH,
                      (size_t)(end - begin) * MLA_WIDTH);
        }
    }
    assert_int_equal(page, count);
    assert_true(mla_decode_make_pages(&mla.pages, memory, 64 * MLA_WIDTH * 2, 64 * MLA_WIDTH * 2, 1,
                                      count, MLA_WIDTH, MLA_RANK));
    assert_true(mla_decode_make_queries(&mla.queries, queries, MLA_TOKENS, MLA_HEADS, MLA_WIDTH));
    mla.tokens = (struct mla_decode_tokens){
        .first = device_new_copy(first, sizeof first, "first keys"),
        .last = device_new_copy(last, sizeof last, "last keys"),
        .first_page = device_new_copy(first_page, sizeof first_page, "first_page"),
        .pages = device_new_copy(page_of, sizeof page_of, "page table"),
        .count = MLA_TOKENS,
        .live = live_rows_of(NULL)};
    mla.room_bytes = room * sizeof(float);
    mla.room = device_new(mla.room_bytes, "room");
    mla.y = device_new(MLA_VALUES * sizeof *mla.y, "y");
    look_for_all(decodes, sizeof decodes / sizeof *decodes, run_mla);
    const void *all[] = {memory,
                         queries,
                         mla.tokens.first,
                         mla.tokens.last,
                         mla.tokens.first_page,
                         mla.tokens.pages,
                         mla.room,
                         mla.y};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        device_free((void *)(uintptr_t)all[i]);
}
