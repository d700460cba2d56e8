/* SPDX-License-Identifier: Apache-2.0
 * Protects the rows that stand around attention on a GPU, emulated: rows of the latent cache and
 * rotated queries have the reference bodies' bits, in every form and under every schedule, and a
 * row alone has those that it has among others.
 */
#include "test_case.h"

#include "compute/emulated/gpu_reference.h"
#include "entries.h"

#define RANK 72u
#define ROPE 8u
#define WIDTH (RANK + ROPE)
#define POSITIONS 300u
#define PAGES 6u

/* A batch's arrays: rows of two sequences, whose pages lie in no order. */
struct places {
    uint32_t *positions, *kv_index, *first_page, *pages;
    float *angles;
};

static struct places places_new(void) {
    static const uint32_t index[ROWS] = {0, 63, 64, 130, 1}, first[ROWS] = {0, 0, 0, 0, 3};
    static const uint32_t pages[PAGES] = {4, 1, 5, 0, 2, 3};
    uint32_t positions[ROWS];
    for (uint32_t i = 0; i < ROWS; i++)
        positions[i] = draw(POSITIONS);
    return (struct places){.positions = device_new_copy(positions, sizeof positions, "positions"),
                           .kv_index = device_new_copy(index, sizeof index, "kv_index"),
                           .first_page = device_new_copy(first, sizeof first, "first_page"),
                           .pages = device_new_copy(pages, sizeof pages, "pages"),
                           .angles = numbers(POSITIONS * ROPE, "angles")};
}

static void places_free(struct places *places) {
    device_free(places->positions);
    device_free(places->kv_index);
    device_free(places->first_page);
    device_free(places->pages);
    device_free(places->angles);
}

static void check_latents(bool is_bf16, bool interleaved) {
    struct places places = places_new();
    size_t row_bytes = WIDTH * (is_bf16 ? 2 : 4), page_bytes = 256 + 2 * 64 * row_bytes;
    struct output memory = output_new(PAGES * page_bytes, "pages' memory");
    float *kv_a = numbers(ROWS * 96, "kv_a"), *weight = numbers(RANK, "weight");
    struct gpu_latent of = {.kv_a = kv_a,
                            .weight = weight,
                            .angles = places.angles,
                            .positions = places.positions,
                            .kv_index = places.kv_index,
                            .first_page = places.first_page,
                            .pages = places.pages,
                            .memory = memory.expected,
                            .kv = {.page_bytes = page_bytes,
                                   .slice_at = 256 + 64 * row_bytes,
                                   .row_bytes = row_bytes,
                                   .width = WIDTH,
                                   .is_bf16 = is_bf16},
                            .stride = 96,
                            .rows = ROWS,
                            .kv_rank = RANK,
                            .rope_dim = ROPE,
                            .interleaved = interleaved,
                            .epsilon = 1e-6f};
    gpu_reference.latent.start(&of, NULL);
    of.memory = memory.found;
    launch(&gpu_hopper.latent, &of);
    output_check(&memory, "KV rows");
    memset(memory.found, 0xFF, memory.bytes);
    of.rows = 1;
    for (uint32_t row = 0; row < ROWS; row++) {
        launch(&gpu_hopper.latent, &of);
        of.kv_a += of.stride;
        of.positions++;
        of.kv_index++;
        of.first_page++;
    }
    output_check(&memory, "KV rows, each alone");
    places_free(&places);
    output_free(&memory);
    device_free(kv_a);
    device_free(weight);
}

TEST(rows_of_the_cache_are_the_twins) {
    for (uint32_t seed = 0; seed < device_seeds(); seed++) {
        emulate_seed(seed);
        check_latents(seed % 2, seed / 2 % 2);
    }
}

#define HEADS 19u
#define NOPE 56u

TEST(rotated_queries_are_the_twins) {
    uint32_t width = HEADS * (NOPE + ROPE);
    for (uint32_t seed = 0; seed < device_seeds(); seed++) {
        bool is_bf16 = seed % 2;
        struct places places = places_new();
        uint32_t pitch = width * (is_bf16 ? 2 : 4) + 16;
        struct output to = output_new((size_t)ROWS * pitch, "queries");
        float *q = numbers((size_t)ROWS * width, "q");
        struct gpu_queries of = {.q = q,
                                 .angles = places.angles,
                                 .positions = places.positions,
                                 .to = to.expected,
                                 .stride = width,
                                 .rows = ROWS,
                                 .heads = HEADS,
                                 .nope_dim = NOPE,
                                 .rope_dim = ROPE,
                                 .interleaved = seed / 2 % 2,
                                 .is_bf16 = is_bf16,
                                 .to_pitch = pitch};
        emulate_seed(seed);
        gpu_reference.queries.start(&of, NULL);
        of.to = to.found;
        launch(&gpu_hopper.queries, &of);
        output_check(&to, "queries");
        places_free(&places);
        output_free(&to);
        device_free(q);
    }
}
