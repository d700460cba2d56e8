/* SPDX-License-Identifier: Apache-2.0
 * Protects attention in floats on a GPU, emulated: halves of kv_b of each type, the core over
 * pages, and prompts in any room have the reference bodies' bits, which are the CPU's; a row alone
 * has those that it has among others; rows that are not there are left alone; and no schedule shows
 * a fault.
 */
#include "test_case.h"

#include "compute/emulated/gpu_reference.h"
#include "entries.h"

/* Heads' rows of kv_b straddle blocks of 128, some of them. */
#define HEADS 2u
#define NOPE 20u
#define ROPE 6u
#define VALUE 46u
#define RANK 136u
#define WIDTH (RANK + ROPE)
#define PAGES 6u
#define STRIDE_U (HEADS * RANK + 4)
#define STRIDE_Q (HEADS * WIDTH + 8)

static const struct gpu_heads heads_of_all = {HEADS, NOPE, ROPE, VALUE, RANK, false, 0.11f};

static size_t row_bytes(enum weight_type type, uint32_t columns) {
    return round_up(weight_type_bytes(type, columns), 16);
}

/* Codes, halves or floats; no code is a NaN. */
static void *weights_new(enum weight_type type, uint32_t rows, uint32_t columns) {
    size_t bytes = rows * row_bytes(type, columns);
    char *to = device_new(bytes, "kv_b");
    for (size_t i = 0; i < bytes / 4; i++) {
        float value = draw_number();
        uint16_t half = bf16_from_float(value);
        uint8_t code = e4m3_from_float(value * 16);
        if (type == WEIGHT_F32)
            memcpy(to + i * 4, &value, 4);
        else
            for (uint32_t k = 0; k < 4; k += type == WEIGHT_FP8 ? 1 : 2)
                memcpy(to + i * 4 + k, type == WEIGHT_FP8 ? (void *)&code : (void *)&half,
                       type == WEIGHT_FP8 ? 1 : 2);
    }
    return to;
}

static struct packed_matrix matrix_of(enum weight_type type, uint32_t rows, uint32_t columns) {
    return (struct packed_matrix){
        .type = type, .rows = rows, .cols = columns, .pitch = row_bytes(type, columns)};
}

/* `kernel` once for all rows, then for each alone, then for three of five that are there. `y_at`:
 * where the arguments have the output, x_at: the input, rows_at, live_at. */
struct offsets {
    size_t x, y, rows, live;
};

static void check_rows(const struct device_kernel *reference, const struct device_kernel *kernel,
                       const void *arguments, size_t bytes, const struct offsets *at,
                       size_t x_pitch, size_t y_pitch, bool alone) {
    _Alignas(16) char of[DEVICE_ARGUMENT_BYTES];
    struct output y = output_new(ROWS * y_pitch, "y");
    uint32_t rows = ROWS, one = 1, three = 3;
    const char *x;
    char *to = y.expected;
    memcpy(of, arguments, bytes);
    memcpy(&x, of + at->x, sizeof x);
    memcpy(of + at->y, &to, sizeof to);
    memcpy(of + at->rows, &rows, sizeof rows);
    launch(reference, of);
    to = y.found;
    memcpy(of + at->y, &to, sizeof to);
    launch(kernel, of);
    output_check(&y, "all rows");
    memset(y.found, 0xFF, y.bytes);
    memcpy(of + at->rows, &one, sizeof one);
    for (uint32_t row = 0; row < ROWS && alone; row++, x += x_pitch, to += y_pitch) {
        memcpy(of + at->x, &x, sizeof x);
        memcpy(of + at->y, &to, sizeof to);
        launch(kernel, of);
    }
    if (alone) output_check(&y, "each row alone");
    uint32_t *live = device_new_copy(&three, sizeof three, "how many are there");
    memcpy(&x, (const char *)arguments + at->x, sizeof x);
    to = y.found;
    memset(y.found, 0xFF, y.bytes);
    memset(y.expected + three * y_pitch, 0xFF, (ROWS - three) * y_pitch);
    memcpy(of + at->x, &x, sizeof x);
    memcpy(of + at->y, &to, sizeof to);
    memcpy(of + at->rows, &rows, sizeof rows);
    memcpy(of + at->live, &live, sizeof live);
    launch(kernel, of);
    output_check(&y, "three rows that are there");
    device_free(live);
    output_free(&y);
}

static void check_halves(enum weight_type type) {
    uint32_t rows = HEADS * (NOPE + VALUE);
    char *kv_b = weights_new(type, rows, RANK);
    float *scales = numbers(4, "scales"), *q = numbers(ROWS * HEADS * (NOPE + ROPE), "queries");
    float *u = numbers(ROWS * STRIDE_U, "u");
    struct gpu_absorb absorb = {.queries = q,
                                .kv_b = kv_b,
                                .kv_b_scales = scales,
                                .matrix = matrix_of(type, rows, RANK),
                                .heads = heads_of_all,
                                .queries_pitch = HEADS * (NOPE + ROPE) * 4,
                                .to_pitch = STRIDE_Q * 4};
    static const struct offsets of_absorb = {
        offsetof(struct gpu_absorb, queries), offsetof(struct gpu_absorb, to),
        offsetof(struct gpu_absorb, rows), offsetof(struct gpu_absorb, live)};
    check_rows(&gpu_reference.absorb, &gpu_hopper.absorb, &absorb, sizeof absorb, &of_absorb,
               absorb.queries_pitch, absorb.to_pitch, true);
    struct gpu_release release = {.u = u,
                                  .kv_b = kv_b,
                                  .kv_b_scales = scales,
                                  .matrix = absorb.matrix,
                                  .heads = heads_of_all,
                                  .u_pitch = STRIDE_U * 4};
    static const struct offsets of_release = {
        offsetof(struct gpu_release, u), offsetof(struct gpu_release, attended),
        offsetof(struct gpu_release, rows), offsetof(struct gpu_release, live)};
    check_rows(&gpu_reference.release, &gpu_hopper.release, &release, sizeof release, &of_release,
               release.u_pitch, HEADS * VALUE * 4, true);
    device_free(kv_b);
    device_free(scales);
    device_free(q);
    device_free(u);
}

TEST(halves_of_kv_b_are_the_twins) {
    for (uint32_t seed = 0; seed < device_seeds(); seed += 20)
        for (enum weight_type type = 0; type <= WEIGHT_F32; type++) {
            emulate_seed(seed);
            check_halves(type);
        }
}

/* All see the same keys, so that a row may stand for another: up to 130 of three pages, the first
 * of which is none. */
TEST(the_core_is_the_twins) {
    enum { CORE_RANK = 40, CORE_WIDTH = CORE_RANK + ROPE };
    static const uint32_t last[] = {0, 63, 64, 130}, pages[] = {4, 1, 5, 0, 2, 3};
    size_t slice = 64 * CORE_WIDTH * 4, page_bytes = 64 + 2 * slice;
    float *memory = numbers(PAGES * page_bytes / 4, "pages' memory");
    for (uint32_t seed = 0; seed < device_seeds(); seed++) {
        uint32_t kv_index[ROWS], kv_first[ROWS], first_page[ROWS];
        for (uint32_t i = 0; i < ROWS; i++) {
            kv_index[i] = last[seed % 4];
            kv_first[i] = kv_index[i] ? seed / 4 % 2 : 0;
            first_page[i] = seed % 3;
        }
        float *absorbed = numbers(ROWS * HEADS * CORE_WIDTH, "absorbed queries");
        struct gpu_core core = {
            .absorbed = absorbed,
            .kv_index = device_new_copy(kv_index, sizeof kv_index, "kv_index"),
            .kv_first = device_new_copy(kv_first, sizeof kv_first, "kv_first"),
            .first_page = device_new_copy(first_page, sizeof first_page, "first_page"),
            .pages = device_new_copy(pages, sizeof pages, "page table"),
            .memory = (const char *)memory,
            .kv = {page_bytes, 64 + slice, CORE_WIDTH * 4, CORE_WIDTH, PAGES, false},
            .heads = {HEADS, NOPE, ROPE, VALUE, CORE_RANK, false, 0.11f},
            .absorbed_pitch = HEADS * CORE_WIDTH * 4,
            .to_pitch = HEADS * CORE_RANK * 4,
            .keys_max = 131};
        static const struct offsets at = {
            offsetof(struct gpu_core, absorbed), offsetof(struct gpu_core, to),
            offsetof(struct gpu_core, rows), offsetof(struct gpu_core, live)};
        emulate_seed(seed);
        check_rows(&gpu_reference.core, &gpu_hopper.core, &core, sizeof core, &at,
                   core.absorbed_pitch, core.to_pitch, seed % 4 == 3);
        const void *all[] = {absorbed, core.kv_index, core.kv_first, core.first_page, core.pages};
        for (uint32_t i = 0; i < 5; i++)
            device_free((void *)(uintptr_t)all[i]);
    }
    device_free(memory);
}

/* ---- prompts ---- */

enum {
    P_HEADS = 2,
    P_NOPE = 12,
    P_ROPE = 6,
    P_VALUE = 10,
    P_RANK = 40,
    P_WIDTH = P_RANK + P_ROPE,
    P_TOKENS = 23, /* 20 tokens; 3 behind 140, whose key 0 is none */
    P_ROWS = P_HEADS * (P_NOPE + P_VALUE)
};

static void attend(const struct device_kernel *kernel, struct gpu_prompt of, float *attended,
                   uint32_t workspace_keys) {
    of.workspace =
        device_new(gpu_hopper.prompt_workspace(&of.heads, P_TOKENS, workspace_keys), "room");
    of.workspace_keys = workspace_keys;
    of.attended = attended;
    launch(kernel, &of);
    device_free(of.workspace);
}

static void check_prompts(enum weight_type type) {
    static const struct gpu_run runs[] = {{0, 20, 0, 0}, {20, 3, 1, 1}};
    static const uint32_t pages[] = {4, 1, 5, 0};
    uint32_t kv_index[P_TOKENS];
    size_t bytes = P_TOKENS * P_HEADS * P_VALUE * sizeof(float), page = 64 * P_WIDTH * 4;
    for (uint32_t i = 0; i < P_TOKENS; i++)
        kv_index[i] = i < 20 ? i : 140 + i - 20;
    struct gpu_prompt of = {.queries = numbers(P_TOKENS * P_HEADS * (P_NOPE + P_ROPE), "queries"),
                            .kv_b = weights_new(type, P_ROWS, P_RANK),
                            .kv_b_scales = numbers(1, "scales"),
                            .kv_index = device_new_copy(kv_index, sizeof kv_index, "kv_index"),
                            .runs = device_new_copy(runs, sizeof runs, "runs"),
                            .pages = device_new_copy(pages, sizeof pages, "page table"),
                            .memory = (const char *)numbers(PAGES * page / 4, "pages' memory"),
                            .matrix = matrix_of(type, P_ROWS, P_RANK),
                            .kv = {page, 0, P_WIDTH * 4, P_WIDTH, PAGES, false},
                            .heads = {P_HEADS, P_NOPE, P_ROPE, P_VALUE, P_RANK, false, 0.3f},
                            .latents = INPUT_F32,
                            .queries_pitch = P_HEADS * (P_NOPE + P_ROPE) * 4,
                            .run_count = 2,
                            .rows = P_TOKENS,
                            .query_tiles = 2,
                            .key_tiles = 3,
                            .workspace_rows = P_TOKENS};
    struct output attended = output_new(bytes, "attended");
    attend(&gpu_reference.prompt, of, (void *)attended.expected, GPU_PROMPT_TILE);
    for (uint32_t tiles = 1; tiles <= 4; tiles += 3) {
        memset(attended.found, 0xFF, bytes);
        attend(&gpu_hopper.prompt, of, (void *)attended.found, tiles * GPU_PROMPT_TILE);
        output_check(&attended, "attended");
    }
    output_free(&attended);
    const void *all[] = {of.queries, of.kv_b,  of.kv_b_scales, of.kv_index,
                         of.runs,    of.pages, of.memory};
    for (uint32_t i = 0; i < 7; i++)
        device_free((void *)(uintptr_t)all[i]);
}

TEST(prompts_are_the_twins_in_any_room) {
    for (uint32_t seed = 0; seed < device_seeds(); seed += 10) {
        emulate_seed(seed);
        check_prompts(seed / 10 % 2 ? WEIGHT_FP8 : WEIGHT_BF16);
    }
}
