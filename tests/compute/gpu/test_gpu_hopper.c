/* SPDX-License-Identifier: Apache-2.0
 * Protects the arguments that the kernels for Hopper, emulated, receive from the engine. A norm for
 * two products, rows of pairs and of an exchange, their sums, and MTP's pairs have the bits of the
 * reference bodies in every format. Attention of prompts is near the reference for each format of
 * kv_b, and has the same bits with any workspace. tests/golden compares whole models.
 */
#include "test_case.h"

#include "../kernels/cuda/entries.h"

#include <math.h>

#include "base/check.h"
#include "compute/emulated/gpu_reference.h"

/* One norm for two products and itself, in all pairs of forms. */
TEST(a_norm_leaves_all_its_forms) {
    enum { N = 200, PITCH = 800, STRIDE = 8 };
    for (uint32_t kinds = 0; kinds < 16; kinds++) {
        float *x = numbers((size_t)ROWS * N, "x"), *weight = numbers(N, "weight");
        struct output first = output_new((size_t)ROWS * PITCH, "first");
        struct output second = output_new((size_t)ROWS * PITCH, "second");
        struct output scales = output_new(4 * STRIDE * sizeof(float), "scales");
        struct output plain = output_new((size_t)ROWS * N * sizeof(float), "plain");
        for (uint32_t i = 0; i < 2; i++) {
            float *to = (float *)(void *)(i ? scales.found : scales.expected);
            struct gpu_prepare of = {.x = x,
                                     .weight = weight,
                                     .first = i ? first.found : first.expected,
                                     .first_scales = to,
                                     .second = i ? second.found : second.expected,
                                     .second_scales = to + 2 * STRIDE,
                                     .plain = (float *)(void *)(i ? plain.found : plain.expected),
                                     .first_format = {(enum input_kind)(kinds % 4), PITCH, STRIDE},
                                     .second_format = {(enum input_kind)(kinds / 4), PITCH, STRIDE},
                                     .x_stride = N,
                                     .plain_stride = N,
                                     .n = N,
                                     .rows = ROWS,
                                     .epsilon = 1e-6f};
            launch(i ? &gpu_hopper.prepare : &gpu_reference.prepare, &of);
        }
        output_check(&first, "the first product's rows");
        output_check(&second, "the second product's rows");
        output_check(&scales, "scales");
        output_check(&plain, "rows as they are");
        output_free(&first);
        output_free(&second);
        output_free(&scales);
        output_free(&plain);
        device_free(x);
        device_free(weight);
    }
}

/* Prompts of a small layer: 70 tokens; 3 tokens behind 200, the first of whose keys is none. */
enum {
    HEADS = 2,
    NOPE = 32,
    ROPE = 16,
    VALUE = 48,
    RANK = 72,
    WIDTH = RANK + ROPE,
    TOKENS = 73,
    PAGES = 6,
    PAGE_BYTES = 64 * WIDTH * 2,
    KV_B_ROWS = HEADS * (NOPE + VALUE)
};

static uint16_t *halves(size_t count, float scale, const char *name) {
    uint16_t *x = device_new(count * sizeof *x, name);
    for (size_t i = 0; i < count; i++)
        x[i] = bf16_from_float(draw_number() * scale);
    return x;
}

static void *codes(size_t count, const char *name) {
    uint8_t *x = device_new(count, name);
    for (size_t i = 0; i < count; i++)
        x[i] = e4m3_from_float(draw_number() * 8);
    return x;
}

/* What an entry outgoing, in a room for so many keys at a time. */
static void attend(const struct device_kernel *kernel, struct gpu_prompt of, float *attended,
                   uint32_t workspace_keys) {
    size_t bytes = gpu_hopper.prompt_workspace(&of.heads, TOKENS, workspace_keys);
    of.workspace = device_new(bytes, "room");
    of.workspace_keys = workspace_keys;
    of.attended = attended;
    launch(kernel, &of);
    device_free(of.workspace);
}

static void check_prompts(bool quantized) {
    static const struct gpu_run runs[] = {{0, 70, 0, 0}, {70, 3, 1, 2}};
    static const uint32_t pages[PAGES] = {4, 1, 0, 5, 2, 3};
    static const float scales[] = {0.004f, 0.006f};
    uint32_t kv_index[TOKENS], pitch = quantized ? 80 : RANK * 2;
    size_t values = (size_t)TOKENS * HEADS * VALUE;
    for (uint32_t i = 0; i < TOKENS; i++)
        kv_index[i] = i < 70 ? i : 200 + i - 70;
    struct gpu_prompt of = {
        .queries = halves((size_t)TOKENS * HEADS * (NOPE + ROPE), 1, "queries"),
        .kv_b = quantized ? codes((size_t)KV_B_ROWS * pitch, "kv_b")
                          : halves((size_t)KV_B_ROWS * RANK, 0.1f, "kv_b"),
        .kv_b_scales = device_new_copy(scales, sizeof scales, "scales of kv_b"),
        .kv_index = device_new_copy(kv_index, sizeof kv_index, "kv_index"),
        .runs = device_new_copy(runs, sizeof runs, "runs"),
        .pages = device_new_copy(pages, sizeof pages, "page table"),
        .memory = (const char *)halves((size_t)PAGES * 64 * WIDTH, 0.3f, "pages' memory"),
        .matrix = {.type = quantized ? WEIGHT_FP8 : WEIGHT_BF16,
                   .rows = KV_B_ROWS,
                   .cols = RANK,
                   .pitch = pitch},
        .kv = {PAGE_BYTES, 0, WIDTH * 2, WIDTH, PAGES, true},
        .heads = {HEADS, NOPE, ROPE, VALUE, RANK, true, 0.15f},
        .latents = quantized ? INPUT_FP8 : INPUT_BF16,
        .queries_pitch = HEADS * (NOPE + ROPE) * 2,
        .run_count = 2,
        .rows = TOKENS,
        .query_tiles = 2,
        .key_tiles = 3,
        .workspace_rows = TOKENS};
    float *attended[3];
    for (uint32_t i = 0; i < 3; i++)
        attended[i] = device_new(values * sizeof(float), "attended");
    attend(&gpu_reference.prompt, of, attended[0], GPU_PROMPT_TILE);
    attend(&gpu_hopper.prompt, of, attended[1], 4 * GPU_PROMPT_TILE);
    attend(&gpu_hopper.prompt, of, attended[2], GPU_PROMPT_TILE);
    assert_memory_equal(attended[1], attended[2], values * sizeof(float));
    double largest = 0, off = 0;
    for (size_t i = 0; i < values; i++) {
        largest = fmax(largest, fabs((double)attended[0][i]));
        off = fmax(off, fabs((double)attended[1][i] - (double)attended[0][i]));
    }
    print_message("# kv_b of %s: %.1e of the largest value\n", quantized ? "FP8" : "BF16",
                  off / largest);
    assert_true(off <= largest / 64);
    for (uint32_t i = 0; i < 3; i++)
        device_free(attended[i]);
    const void *all[] = {of.queries, of.kv_b,  of.kv_b_scales, of.kv_index,
                         of.runs,    of.pages, of.memory};
    for (uint32_t i = 0; i < 7; i++)
        device_free((void *)(uintptr_t)all[i]);
}

TEST(prompts_are_near_the_reference_in_any_room) {
    check_prompts(false);
    check_prompts(true);
}

/* Rows of an odd length, in every format: as the device has them, and as an exchange carries them,
 * a row's scales behind its codes. */
enum { LENGTH = 203, PITCH = 816, PAIRS = 11, SCALES_AT = 204 / 4, SCALE_STEP = PITCH / 4 };

struct rows_way { /* from, and to */
    bool packed[2], by_ids, apart[2];
};

/* Where rows lie that are told one by one: those of `ids`, or each its own, of `rows`. */
static char **node_ranks(char *rows, const uint32_t *ids) {
    char **list = device_new(PAIRS * sizeof *list, "node_ranks of rows");
    for (uint32_t i = 0; i < PAIRS; i++)
        list[i] = rows + (size_t)(ids ? ids[i] : PAIRS - 1 - i) * PITCH;
    return list;
}

/* What an entry makes of `rows` of them; scales stand behind codes, or behind all rows. */
static void gather(const struct device_kernel *kernel, const struct rows_way *way, uint32_t kind,
                   const float *from, const uint32_t *ids, char *to, uint32_t rows) {
    static const uint32_t steps[2] = {1, SCALE_STEP}, strides[2] = {12, 1};
    static const size_t at[2] = {(size_t)PAIRS * SCALE_STEP, SCALES_AT};
    struct gpu_gather of = {.from = from,
                            .from_scales = from + at[way->packed[0]],
                            .row_token = way->by_ids ? ids : NULL,
                            .to = to,
                            .to_scales = (float *)(void *)to + at[way->packed[1]],
                            .from_format = {(enum input_kind)kind, PITCH, strides[way->packed[0]]},
                            .to_format = {(enum input_kind)kind, PITCH, strides[way->packed[1]]},
                            .n = LENGTH,
                            .rows = rows,
                            .from_scale_step = steps[way->packed[0]],
                            .to_scale_step = steps[way->packed[1]]};
    if (way->apart[0]) {
        of.from_rows =
            (const char *const *)node_ranks((char *)(uintptr_t)from, way->by_ids ? ids : NULL);
        of.from = of.from_scales = NULL;
        of.row_token = NULL;
        of.scales_at = SCALES_AT * sizeof(float);
    }
    if (way->apart[1]) of.to_rows = node_ranks(to, NULL);
    launch(kernel, &of);
    if (of.from_rows) device_free((void *)(uintptr_t)of.from_rows);
    if (of.to_rows) device_free((void *)(uintptr_t)of.to_rows);
}

static void check_gather(const struct rows_way *way, uint32_t kind, uint32_t seed) {
    enum { BYTES = PAIRS * PITCH + 24 * sizeof(float) };
    uint32_t *ids = device_new(PAIRS * sizeof *ids, "rows to take");
    float *from = numbers(BYTES / sizeof(float), "rows");
    struct output to = output_new(BYTES, "taken rows");
    for (uint32_t i = 0; i < PAIRS; i++)
        ids[i] = draw(PAIRS);
    emulate_seed(seed);
    gather(&gpu_reference.gather, way, kind, from, ids, to.expected, PAIRS);
    gather(&gpu_hopper.gather, way, kind, from, ids, to.found, PAIRS);
    output_check(&to, "taken rows");
    memset(to.found, 0xFF, to.bytes);
    gather(&gpu_hopper.gather, way, kind, from, ids, to.found, 1);
    if (!way->apart[1]) assert_memory_equal(to.found, to.expected, LENGTH);
    output_free(&to);
    device_free(ids);
    device_free(from);
}

TEST(gathered_packed_and_unpacked_rows_are_the_twins) {
    static const struct rows_way ways[] = {
        {.packed = {false, false}, .by_ids = true},
        {.packed = {false, true}},
        {.packed = {true, false}},
        {.packed = {true, false}, .by_ids = true},
        {.packed = {true, false}, .by_ids = true, .apart = {true, false}},
        {.packed = {true, false}, .apart = {true, false}},
        {.packed = {false, false}, .apart = {false, true}}};
    enum { WAYS = sizeof ways / sizeof *ways };
    for (uint32_t seed = 0; seed < device_seeds() || seed < 4 * WAYS; seed++)
        check_gather(&ways[seed % WAYS], seed / WAYS % 4, seed);
}

/* Results of F32 or BF16, rounded or not, by experts and by groups of 4; some groups have one
 * expert, some several; of some the sum has come, and some pairs are none. */
enum { SUM_LENGTH = 150, SUM_STRIDE = 160, PER_TOKEN = 4 };

struct sums_way {
    bool is_bf16, rounds_bf16, by_groups, one_group, some_summed;
};

static void combine(const struct device_kernel *kernel, struct gpu_combine of, char *y,
                    uint32_t tokens) {
    of.y = (float *)(void *)y;
    of.tokens = tokens;
    launch(kernel, &of);
}

static void check_sums(const struct sums_way *way, uint32_t seed) {
    static const uint32_t experts[ROWS * PER_TOKEN] = {0, 1, 2, 3, 0,  4,  8, 12, 1, 2,
                                                       5, 6, 3, 9, 10, 11, 4, 5,  6, 15};
    uint32_t pair_row[ROWS * PER_TOKEN];
    for (uint32_t i = 0; i < ROWS * PER_TOKEN; i++)
        pair_row[i] = way->one_group && i % 3 == 2 ? GPU_NO_PAIR : (i * 7 + 3) % (ROWS * PER_TOKEN);
    if (way->some_summed) /* the first token's only group, and the third's second */
        pair_row[1] = pair_row[2] = pair_row[3] = pair_row[11] = GPU_SUMMED;
    size_t count = (size_t)ROWS * PER_TOKEN * SUM_STRIDE;
    float *weights = numbers(ROWS * PER_TOKEN, "weights");
    struct gpu_combine of = {
        .results = way->is_bf16 ? (void *)halves(count, 1, "results") : numbers(count, "results"),
        .pair_row = device_new_copy(pair_row, sizeof pair_row, "rows of pairs"),
        .experts = way->one_group ? NULL : device_new_copy(experts, sizeof experts, "experts"),
        .weights = weights,
        .pitch = SUM_STRIDE * (way->is_bf16 ? 2 : 4),
        .y_stride = SUM_STRIDE,
        .n = SUM_LENGTH,
        .per_token = PER_TOKEN,
        .group_experts = way->by_groups ? 4 : 0,
        .is_bf16 = way->is_bf16,
        .rounds_bf16 = way->rounds_bf16};
    struct output y = output_new(ROWS * SUM_STRIDE * sizeof(float), "sums");
    emulate_seed(seed);
    combine(&gpu_reference.combine, of, y.expected, ROWS);
    combine(&gpu_hopper.combine, of, y.found, ROWS);
    output_check(&y, "sums");
    memset(y.found, 0xFF, y.bytes);
    combine(&gpu_hopper.combine, of, y.found, 1);
    assert_memory_equal(y.found, y.expected, SUM_LENGTH * sizeof(float));
    output_free(&y);
    device_free(weights);
    device_free((void *)(uintptr_t)of.results);
    device_free((void *)(uintptr_t)of.pair_row);
    if (of.experts) device_free((void *)(uintptr_t)of.experts);
}

TEST(sums_of_experts_are_the_twins) {
    static const struct sums_way ways[] = {
        {false, false, false, false, false}, {false, true, false, false, false},
        {false, false, true, false, false},  {false, true, true, false, false},
        {true, true, true, false, true},     {false, false, true, false, true},
        {true, true, true, true, false},     {false, false, true, true, false},
        {true, true, false, false, false}};
    for (uint32_t seed = 0; seed < device_seeds(); seed++)
        check_sums(&ways[seed % ARRAY_COUNT(ways)], seed);
}

TEST(pairs_of_mtp_are_the_twins) {
    enum { N = 72, WORDS = 20 };
    static const uint32_t source[ROWS] = {2, GPU_KEPT | 1, 0, GPU_KEPT | 3, 4};
    uint32_t ids[ROWS];
    for (uint32_t i = 0; i < ROWS; i++)
        ids[i] = draw(WORDS);
    uint32_t *ids_there = device_new_copy(ids, sizeof ids, "ids");
    uint32_t *source_there = device_new_copy(source, sizeof source, "sources");
    float *hidden = numbers(ROWS * N, "outputs"), *kept = numbers(4 * N, "kept outputs");
    float *norm = numbers(N, "a norm"), *other = numbers(N, "another norm");
    for (uint32_t kind = 0; kind < 2; kind++) {
        struct output pair = output_new((size_t)ROWS * 2 * N * sizeof(float), "pairs");
        float *floats = numbers(WORDS * N, "an embedding");
        uint16_t *rounded = halves(WORDS * N, 1, "an embedding of BF16");
        for (uint32_t i = 0; i < 2; i++) {
            struct gpu_mtp_pair of = {.pair = (float *)(void *)(i ? pair.found : pair.expected),
                                      .embedding = kind ? (void *)rounded : (void *)floats,
                                      .embedding_norm = norm,
                                      .hidden_norm = other,
                                      .hidden = hidden,
                                      .kept = kept,
                                      .ids = ids_there,
                                      .source = source_there,
                                      .format = {.type = kind ? WEIGHT_BF16 : WEIGHT_F32,
                                                 .rows = WORDS,
                                                 .cols = N,
                                                 .pitch = N * (kind ? 2 : 4)},
                                      .n = N,
                                      .rows = ROWS,
                                      .epsilon = 1e-6f};
            launch(i ? &gpu_hopper.pair : &gpu_reference.pair, &of);
        }
        output_check(&pair, "pairs");
        output_free(&pair);
        device_free(floats);
        device_free(rounded);
    }
    void *all[] = {ids_there, source_there, hidden, kept, norm, other};
    for (uint32_t i = 0; i < 6; i++)
        device_free(all[i]);
}
