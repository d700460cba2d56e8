/* SPDX-License-Identifier: Apache-2.0
 * Protects RoPE: a vector keeps its length, turns by its position, and two vectors' product depends
 * on how far apart they stand; interleaved pairs are the same pairs elsewhere.
 */
#include "compute/kernels/kernels.h"
#include "compute/model/rope.h"

#include <math.h>

#include "test_case.h"

enum { DIM = 8 };

static const struct kernels *plain(void) {
    const struct kernels *kernels;
    assert_int_equal(kernels_select(KERNEL_LEVEL_C, &kernels, NULL), STATUS_OK);
    return kernels;
}

static struct shape shape_of(bool interleaved) {
    struct shape shape = {.rope_dim = DIM, .rope_interleaved = interleaved, .rope_amplitude = 1};
    for (int i = 0; i < DIM / 2; i++)
        shape.rope_frequency[i] = powf(0.1f, (float)i);
    return shape;
}

static void rotate(const struct shape *shape, uint32_t position, const float *from, float *to) {
    float angles[DIM];
    rope_prepare(shape, &position, 1, angles);
    for (int i = 0; i < DIM; i++)
        to[i] = from[i];
    plain()->rotate(to, angles, DIM / 2, shape->rope_interleaved);
}

static float product(const float *a, const float *b) {
    float sum = 0;
    for (int i = 0; i < DIM; i++)
        sum += a[i] * b[i];
    return sum;
}

static const float query[DIM] = {1, -2, 3, 0.5f, -1, 2, 0.25f, 4};
static const float key[DIM] = {0.5f, 1, -1, 2, 3, -0.5f, 1, 1};

TEST(products_depend_on_the_distance_alone) {
    for (int interleaved = 0; interleaved < 2; interleaved++) {
        struct shape shape = shape_of(interleaved);
        float a[DIM], b[DIM], c[DIM], d[DIM];
        rotate(&shape, 0, query, a);
        assert_memory_equal(a, query, sizeof a); /* position 0 turns nothing */
        rotate(&shape, 7, query, a);
        rotate(&shape, 3, key, b);
        rotate(&shape, 104, query, c);
        rotate(&shape, 100, key, d);
        assert_true(fabsf(product(a, a) - product(query, query)) < 1e-4f);
        assert_true(fabsf(product(a, b) - product(c, d)) < 1e-4f);
        assert_true(fabsf(product(a, b) - product(query, key)) > 0.1f);
    }
}

TEST(interleaved_pairs_are_the_same_pairs_side_by_side) {
    struct shape halves = shape_of(false), pairs = shape_of(true);
    float side_by_side[DIM], a[DIM], b[DIM];
    for (int i = 0; i < DIM / 2; i++) {
        side_by_side[2 * i] = query[i];
        side_by_side[2 * i + 1] = query[DIM / 2 + i];
    }
    rotate(&halves, 5, query, a);
    rotate(&pairs, 5, side_by_side, b);
    for (int i = 0; i < DIM / 2; i++)
        assert_true(b[2 * i] == a[i] && b[2 * i + 1] == a[DIM / 2 + i]);
}

TEST(the_amplitude_multiplies_what_is_rotated) {
    struct shape one = shape_of(false), two = one;
    float a[DIM], b[DIM];
    two.rope_amplitude = 2;
    rotate(&one, 9, query, a);
    rotate(&two, 9, query, b);
    for (int i = 0; i < DIM; i++)
        assert_true(b[i] == 2 * a[i]);
}
