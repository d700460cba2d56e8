/* SPDX-License-Identifier: Apache-2.0
 * Scales are powers of two, the least that hold the largest value of a group; only V4.1's entries
 * have E4M3 scales. V4 rounds the channels without RoPE of windows and entries, and index keys
 * after a Hadamard transform. V4.1 rounds whole rows, in smaller groups.
 */
#include "compute/model/kv_rounding.h"

#include <math.h>

#include "base/number.h"
#include "compute/model/attention_index.h"

#define E4M3_MAX 448.0f
#define E4M3_FLOOR 1e-4f /* least amax of a group */
#define E2M1_MAX 6.0f
#define ENTRY_GROUP 16 /* of V4.1 */

static float largest_of(const float *x, uint32_t count, float floor) {
    float largest = floor;
    for (uint32_t i = 0; i < count; i++)
        largest = fabsf(x[i]) > largest ? fabsf(x[i]) : largest;
    return largest;
}

void kv_rounding_e4m3(float *x, uint32_t count, uint32_t group) {
    for (uint32_t first = 0; first < count; first += group) {
        const uint32_t end = min_u32(count, first + group);
        const float s =
            power_of_two_from(largest_of(x + first, end - first, E4M3_FLOOR) / E4M3_MAX);
        for (uint32_t i = first; i < end; i++)
            x[i] = float_from_e4m3(e4m3_from_float(x[i] / s)) * s;
    }
}

/* Nearest of 0, 0.5, 1, 1.5, 2, 3, 4, 6; ties go to the even code. */
static float e2m1_nearest(float x) {
    const float a = fabsf(x);
    float nearest = a <= 0.25f   ? 0
                    : a < 0.75f  ? 0.5f
                    : a <= 1.25f ? 1
                    : a < 1.75f  ? 1.5f
                    : a <= 2.5f  ? 2
                    : a < 3.5f   ? 3
                    : a <= 5     ? 4
                                 : E2M1_MAX;
    return copysignf(nearest, x);
}

void kv_rounding_e2m1(float *x, uint32_t count, uint32_t group, bool e4m3_scales) {
    const float floor = e4m3_scales ? E2M1_MAX * 0x1p-9f : E2M1_MAX * 0x1p-126f;
    for (uint32_t first = 0; first < count; first += group) {
        const uint32_t end = min_u32(count, first + group);
        const float least = largest_of(x + first, end - first, floor) / E2M1_MAX;
        const float s =
            e4m3_scales ? float_from_e4m3(e4m3_from_float(least)) : power_of_two_from(least);
        for (uint32_t i = first; i < end; i++)
            x[i] = e2m1_nearest(x[i] / s) * s;
    }
}

static bool is_v4(const struct model *model) {
    return model->shape->architecture == ARCHITECTURE_DEEPSEEK_V4;
}

void kv_rounding_window(const struct model *model, float *row) {
    if (!model->kv_rounding) return;
    if (is_v4(model))
        kv_rounding_e4m3(row, model->shape->nope_dim, 64);
    else
        kv_rounding_e4m3(row, shape_kv_width(model->shape), 32);
}

void kv_rounding_entry(const struct model *model, float *row) {
    if (!model->kv_rounding) return;
    if (is_v4(model))
        kv_rounding_e4m3(row, model->shape->nope_dim, 64);
    else
        kv_rounding_e2m1(row, shape_kv_width(model->shape), ENTRY_GROUP, true);
}

void kv_rounding_key(const struct model *model, float *row) {
    if (!model->kv_rounding) return;
    if (is_v4(model)) attention_index_hadamard(row, model->shape->index_dim);
    kv_rounding_e2m1(row, model->shape->index_dim, 32, false);
}
