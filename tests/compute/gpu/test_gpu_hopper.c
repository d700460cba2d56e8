/* SPDX-License-Identifier: Apache-2.0
 * Protects how the device's kernels for Hopper, emulated, are given what the engine says: a norm for two
 * products, rows of pairs, their sums and MTP's pairs have the reference bodies' bits in every form; prompts'
 * attention is near the reference body's, whatever form kv_b has, and has the same bits in whatever
 * room. Whole models are compared in tests/golden.
 */
#include "../kernels/cuda/entries.h"

#include <math.h>

/* One norm for two products and itself, in all pairs of forms. */
static void a_norm_leaves_all_its_forms(void **state) {
    enum { N = 200, PITCH = 800, STRIDE = 8 };
    struct gpu_kernels hopper = gpu_hopper();
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
                                     .first_form = {(enum input_kind)(kinds % 4), PITCH, STRIDE},
                                     .second_form = {(enum input_kind)(kinds / 4), PITCH, STRIDE},
                                     .x_stride = N,
                                     .plain_stride = N,
                                     .n = N,
                                     .rows = ROWS,
                                     .epsilon = 1e-6f};
            launch(i ? &hopper.prepare : &gpu_reference.prepare, &of);
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

/* What an entry leaves, in a room for so many keys at a time. */
static void attend(const struct device_kernel *kernel, struct gpu_prompt of, float *attended,
                   uint32_t room_keys) {
    size_t bytes = gpu_hopper().prompt_room(&of.of, TOKENS, room_keys);
    of.room = device_new(bytes, "room");
    of.room_keys = room_keys;
    of.attended = attended;
    launch(kernel, &of);
    device_free(of.room);
}

static void check_prompts(bool quantized) {
    static const struct gpu_run runs[] = {{0, 70, 0, 0}, {70, 3, 1, 2}};
    static const uint32_t pages[PAGES] = {4, 1, 0, 5, 2, 3};
    static const float scales[] = {0.004f, 0.006f};
    uint32_t kv_index[TOKENS], pitch = quantized ? 80 : RANK * 2;
    struct gpu_kernels hopper = gpu_hopper();
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
        .of = {HEADS, NOPE, ROPE, VALUE, RANK, true, 0.15f},
        .latents = quantized ? INPUT_FP8 : INPUT_BF16,
        .queries_pitch = HEADS * (NOPE + ROPE) * 2,
        .run_count = 2,
        .rows = TOKENS,
        .query_tiles = 2,
        .key_tiles = 3,
        .room_rows = TOKENS};
    float *attended[3];
    for (uint32_t i = 0; i < 3; i++)
        attended[i] = device_new(values * sizeof(float), "attended");
    attend(&gpu_reference.prompt, of, attended[0], GPU_PROMPT_TILE);
    attend(&hopper.prompt, of, attended[1], 4 * GPU_PROMPT_TILE);
    attend(&hopper.prompt, of, attended[2], GPU_PROMPT_TILE);
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

static void prompts_are_near_the_reference_in_any_room(void **state) {
    check_prompts(false);
    check_prompts(true);
}

/* Rows of an odd length, in every form. */
static void gathered_rows_are_the_twins(void **state) {
    enum { N = 203, PITCH = 816, STRIDE = 8, PAIRS = 11 };
    struct gpu_kernels hopper = gpu_hopper();
    uint32_t *from_row = device_new(PAIRS * sizeof *from_row, "rows to take");
    for (uint32_t i = 0; i < PAIRS; i++)
        from_row[i] = draw(ROWS);
    float *from = numbers((size_t)ROWS * PITCH / 4, "rows"), *scales = numbers(16, "scales");
    for (uint32_t kind = 0; kind < 4; kind++) {
        struct output to = output_new((size_t)PAIRS * PITCH, "taken rows");
        struct output to_scales = output_new(2 * 12 * sizeof(float), "taken scales");
        for (uint32_t i = 0; i < 2; i++) {
            struct gpu_gather of = {.from = from,
                                    .from_scales = scales,
                                    .row_token = from_row,
                                    .to = i ? to.found : to.expected,
                                    .to_scales = (void *)(i ? to_scales.found : to_scales.expected),
                                    .from_form = {(enum input_kind)kind, PITCH, STRIDE},
                                    .to_form = {(enum input_kind)kind, PITCH, 12},
                                    .n = N,
                                    .rows = PAIRS};
            launch(i ? &hopper.gather : &gpu_reference.gather, &of);
        }
        output_check(&to, "taken rows");
        output_check(&to_scales, "taken scales");
        output_free(&to);
        output_free(&to_scales);
    }
    device_free(from_row);
    device_free(from);
    device_free(scales);
}

/* With and without rounding, by experts and by groups of 4; some groups have one expert, some several. */
static void sums_of_experts_are_the_twins(void **state) {
    enum { N = 150, STRIDE = 160, PER_TOKEN = 4 };
    static const uint32_t experts[ROWS * PER_TOKEN] = {0, 1, 2, 3, 0,  4,  8, 12, 1, 2,
                                                       5, 6, 3, 9, 10, 11, 4, 5,  6, 15};
    struct gpu_kernels hopper = gpu_hopper();
    uint32_t pair_row[ROWS * PER_TOKEN];
    for (uint32_t i = 0; i < ROWS * PER_TOKEN; i++)
        pair_row[i] = (i * 7 + 3) % (ROWS * PER_TOKEN);
    uint32_t *rows_there = device_new_copy(pair_row, sizeof pair_row, "rows of pairs");
    uint32_t *experts_there = device_new_copy(experts, sizeof experts, "experts");
    float *weights = numbers(ROWS * PER_TOKEN, "weights");
    float *results = numbers((size_t)ROWS * PER_TOKEN * STRIDE, "results");
    for (uint32_t way = 0; way < 4; way++) {
        struct output y = output_new(ROWS * STRIDE * sizeof(float), "sums");
        for (uint32_t i = 0; i < 2; i++) {
            struct gpu_combine of = {.results = results,
                                     .pair_row = rows_there,
                                     .experts = experts_there,
                                     .weights = weights,
                                     .y = (float *)(void *)(i ? y.found : y.expected),
                                     .stride = STRIDE,
                                     .y_stride = STRIDE,
                                     .n = N,
                                     .tokens = ROWS,
                                     .per_token = PER_TOKEN,
                                     .group_experts = way / 2 * 4,
                                     .rounds_bf16 = way % 2};
            launch(i ? &hopper.combine : &gpu_reference.combine, &of);
        }
        output_check(&y, "sums");
        output_free(&y);
    }
    device_free(rows_there);
    device_free(experts_there);
    device_free(weights);
    device_free(results);
}

static void pairs_of_mtp_are_the_twins(void **state) {
    enum { N = 72, WORDS = 20 };
    struct gpu_kernels hopper = gpu_hopper();
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
                                      .form = {.type = kind ? WEIGHT_BF16 : WEIGHT_F32,
                                               .rows = WORDS,
                                               .cols = N,
                                               .pitch = N * (kind ? 2 : 4)},
                                      .n = N,
                                      .rows = ROWS,
                                      .epsilon = 1e-6f};
            launch(i ? &hopper.pair : &gpu_reference.pair, &of);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_norm_leaves_all_its_forms),
        cmocka_unit_test(prompts_are_near_the_reference_in_any_room),
        cmocka_unit_test(gathered_rows_are_the_twins),
        cmocka_unit_test(sums_of_experts_are_the_twins),
        cmocka_unit_test(pairs_of_mtp_are_the_twins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
