/* SPDX-License-Identifier: Apache-2.0
 * Protects products in floats for GPUs, emulated: in every form of rows and weights, in groups or
 * not, in small tiles and in large ones, they have the reference body's bits; a row alone has those
 * that it has among others; and no schedule shows a fault.
 */
#include "test_case.h"

#include "compute/emulated/gpu_reference.h"
#include "entries.h"

enum { SLOTS = 2, GROUPS = 4, MANY = 260 };

struct form {
    enum weight_type type;
    bool is_bf16; /* rows */
    uint32_t n, k;
};

static const struct form forms[] = {{WEIGHT_F32, false, 18, 7},
                                    {WEIGHT_BF16, false, 33, 300},
                                    {WEIGHT_FP8, true, 140, 260},
                                    {WEIGHT_FP8, false, 17, 384}};

static size_t row_bytes(const struct form *form) {
    return round_up(weight_type_bytes(form->type, form->k), 16);
}

/* A slot: codes or values, then scales. */
static size_t slot_bytes(const struct form *form) {
    size_t scales = divide_up(form->n, QUANT_GROUP) * divide_up(form->k, QUANT_GROUP);
    return round_up(form->n * row_bytes(form) + scales * sizeof(float), 64);
}

static char *draw_weights(const struct form *form) {
    char *slots = device_new(SLOTS * slot_bytes(form), "weights");
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        char *at = slots + slot * slot_bytes(form);
        for (uint32_t i = 0; i < form->n * form->k; i++) {
            char *row = at + i / form->k * row_bytes(form);
            float value = draw_number();
            if (form->type == WEIGHT_F32) ((float *)(void *)row)[i % form->k] = value;
            if (form->type == WEIGHT_BF16)
                ((uint16_t *)(void *)row)[i % form->k] = bf16_from_float(value);
            if (form->type == WEIGHT_FP8)
                row[i % form->k] = (char)e4m3_from_float(draw(2) ? value : value * 0x1p-9f);
        }
        float *scales = (float *)(void *)(at + form->n * row_bytes(form));
        for (float *end = (float *)(void *)(at + slot_bytes(form)); scales < end; scales++)
            *scales = draw_number();
    }
    return slots;
}

static struct gpu_product describe(const struct form *form, const char *weights, const void *x,
                                   uint32_t rows) {
    size_t scales_at = form->n * row_bytes(form);
    return (struct gpu_product){
        .x = x,
        .weights = weights,
        .weight_scales =
            form->type == WEIGHT_FP8 ? (const float *)(const void *)(weights + scales_at) : NULL,
        .format = {form->is_bf16 ? INPUT_BF16 : INPUT_F32, (uint32_t)(form->k + 4) * 4, 0},
        .matrix = {.type = form->type, .rows = form->n, .cols = form->k, .pitch = row_bytes(form)},
        .slot_bytes = slot_bytes(form),
        .y_stride = form->n + 2,
        .rows = rows};
}

static void *draw_rows(const struct form *form, uint32_t rows) {
    float *x = numbers((size_t)rows * (form->k + 4), "x");
    for (size_t i = 0; form->is_bf16 && i < (size_t)rows * (form->k + 4); i++)
        ((uint16_t *)(void *)x)[2 * i] = ((uint16_t *)(void *)x)[2 * i + 1] =
            bf16_from_float(draw_number());
    return x;
}

/* All rows at once, and in groups: rows of slot 1, none, then rows of slot 0 that begin in a tile's
 * middle. */
static void check_product(const struct form *form, uint32_t rows, bool grouped, bool alone) {
    const struct gpu_group split[GROUPS] = {
        {0, rows / 3, 1}, {rows / 3, 0, 0}, {rows / 3, rows / 2, 0}, {rows / 3 + rows / 2, 0, 1}};
    struct gpu_group *groups = device_new_copy(split, sizeof split, "groups");
    char *weights = draw_weights(form);
    void *x = draw_rows(form, rows);
    struct gpu_product of = describe(form, weights, x, rows);
    struct output y = output_new((size_t)rows * of.y_stride * sizeof(float), "y");
    if (grouped) {
        of.groups = groups;
        of.group_count = GROUPS;
    }
    of.y = (float *)(void *)y.expected;
    launch(&gpu_reference.product, &of);
    of.y = (float *)(void *)y.found;
    if (!alone) launch(&gpu_hopper.product, &of);
    for (uint32_t row = 0; alone && row < rows; row++) {
        struct gpu_product one = of;
        one.x = (char *)x + (size_t)row * of.format.pitch;
        one.y = of.y + (size_t)row * of.y_stride;
        one.rows = 1;
        launch(&gpu_hopper.product, &one);
    }
    output_check(&y, "y");
    output_free(&y);
    device_free(groups);
    device_free(weights);
    device_free(x);
}

TEST(products_are_the_twins) {
    for (uint32_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        check_product(&forms[i], 21, false, false);
        check_product(&forms[i], 20, true, false);
        check_product(&forms[i], 3, false, true);
    }
    check_product(&forms[0], MANY, false, false);
    check_product(&forms[1], MANY, true, false);
}

TEST(no_schedule_shows_a_fault) {
    for (uint32_t seed = 0; seed < device_seeds(); seed++) {
        emulate_seed(seed);
        check_product(&forms[seed % 2 * 3], 17, seed % 4 > 1, false);
    }
}
