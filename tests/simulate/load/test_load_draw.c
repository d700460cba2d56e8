/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/load/load_draw.h"

#include <math.h>

#include "base/check.h"
#include "test_case.h"

#define DRAWS 400000

struct moments {
    double mean, cv;
};

static void assert_near(double found, double wanted, double share) {
    if (!(fabs(found - wanted) <= share * fabs(wanted)))
        fail_msg("%.9g is not near %.9g", found, wanted);
}

static struct moments lengths_of(const struct draw_lengths *lengths) {
    struct load_dice dice = {.seed = 7};
    double sum = 0, squares = 0;
    for (int i = 0; i < DRAWS; i++) {
        double length = load_draw_length(&dice, lengths);
        assert_true(length >= 1 && length <= lengths->most);
        sum += length;
        squares += length * length;
    }
    double mean = sum / DRAWS;
    return (struct moments){mean, sqrt(squares / DRAWS - mean * mean) / mean};
}

/* A cut takes the longest away: what is left still has the moments that were asked for. */
TEST(lengths_have_their_moments_behind_the_cut) {
    static const struct {
        double mean, cv;
        uint32_t most;
    } cases[] = {{1000, 1, 65536}, {1000, 1, 4000}, {300, 0.2, 400}, {2000, 1.5, 32768}};
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct draw_lengths lengths;
        assert_true(load_draw_fit(cases[i].mean, cases[i].cv, cases[i].most, &lengths));
        struct moments moments = lengths_of(&lengths);
        assert_near(moments.mean, cases[i].mean, 0.01);
        assert_near(moments.cv, cases[i].cv, 0.02);
    }
}

TEST(a_cv_of_zero_is_one_length) {
    struct draw_lengths lengths;
    assert_true(load_draw_fit(1234, 0, 4096, &lengths));
    struct load_dice dice = {.seed = 1};
    for (int i = 0; i < 10; i++)
        assert_int_equal(load_draw_length(&dice, &lengths), 1234);
}

TEST(what_the_cut_leaves_no_room_for_is_refused) {
    struct draw_lengths lengths;
    assert_false(load_draw_fit(5000, 1, 4096, &lengths));
    assert_false(load_draw_fit(0, 1, 4096, &lengths));
    assert_false(load_draw_fit(4000, 2, 4096, &lengths));
}

TEST(gaps_have_their_mean_and_cv) {
    static const double cvs[] = {0.3, 1, 2.5};
    for (size_t i = 0; i < ARRAY_COUNT(cvs); i++) {
        struct load_dice dice = {.seed = 3, .name = i};
        double sum = 0, squares = 0;
        for (int n = 0; n < DRAWS; n++) {
            double gap = load_draw_gamma(&dice, 0.25, cvs[i]);
            sum += gap;
            squares += gap * gap;
        }
        double mean = sum / DRAWS;
        assert_near(mean, 0.25, 0.02);
        assert_near(sqrt(squares / DRAWS - mean * mean) / mean, cvs[i], 0.03);
    }
}

/* What one request draws never depends on what others drew. */
TEST(a_dice_depends_on_its_name_alone) {
    struct load_dice a = {.seed = 5, .name = 9}, b = a, other = {.seed = 5, .name = 10};
    double first = load_draw_uniform(&a);
    load_draw_uniform(&other);
    assert_true(first == load_draw_uniform(&b));
    assert_true(load_draw_uniform(&a) != first);
}
