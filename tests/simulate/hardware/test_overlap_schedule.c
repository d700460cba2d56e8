/* SPDX-License-Identifier: Apache-2.0
 * Protects the walk of overlap tables: what the published figures say of a layer comes out of the
 * tables themselves, and a layer pays for what nothing hides.
 */

#include "test_case.h"

#include <math.h>

#include "simulate/hardware/overlap_schedule.h"

static struct schedule_work work;

static double larger(double a, double b) {
    return a > b ? a : b;
}

static double walk_us(enum overlap_kind kind, uint32_t layers) {
    double waited;
    work.layers = layers;
    return overlap_schedule(overlap_of(kind), &work, &waited);
}

/* Of one layer in the middle of many. */
static double layer_us(enum overlap_kind kind) {
    return (walk_us(kind, 60) - walk_us(kind, 20)) / 40;
}

static void fill(struct schedule_micro_batch micro_batch, struct schedule_layer experts) {
    memset(&work, 0, sizeof work);
    for (int size = 0; size < SCHEDULE_SIZES; size++) {
        work.micro_batches[size] = micro_batch;
        for (int i = 0; i < LIMIT_LAYERS; i++)
            work.experts[size][i] = experts;
    }
}

TEST(sequential_layers_add_up) {
    fill((struct schedule_micro_batch){10, 20, 5, 0, 0, 0}, (struct schedule_layer){40, 100, 200});
    assert_true(fabs(layer_us(OVERLAP_SEQUENTIAL) - (10 + 20 + larger(5, 100) + 40 + 200)) < 1e-9);
}

/* T = max(shared + attention_0, dispatch) + mlp + max(attention_1, combine), twice a layer. */
TEST(decode_is_the_published_five_stage_form) {
    static const double transfers[][2] = {{84, 143}, {192, 369}, {10, 20}, {10, 400}, {300, 20}};
    for (int i = 0; i < 5; i++) {
        double dispatch = transfers[i][0], combine = transfers[i][1];
        fill((struct schedule_micro_batch){52, 204, 26, 0, 0, 0},
             (struct schedule_layer){85, dispatch, combine});
        double half = larger(26 + 52, dispatch) + 85 + larger(204, combine);
        assert_true(fabs(layer_us(OVERLAP_DECODE_FIVE_STAGE) - 2 * half) < 1e-6);
    }
}

/* Where computing bounds, both lanes' computing and nothing else. */
TEST(prefill_hides_all_communication_under_enough_work) {
    fill((struct schedule_micro_batch){3000, 5593, 738, 0, 0, 0},
         (struct schedule_layer){7814, 4316, 7846});
    assert_true(fabs(layer_us(OVERLAP_PREFILL_DUAL_BATCH) - 2 * (8593 + 738 + 7814)) < 1e-6);
    fill((struct schedule_micro_batch){3000, 5593, 738, 0, 0, 0},
         (struct schedule_layer){7814, 4316, 12000});
    assert_true(layer_us(OVERLAP_PREFILL_DUAL_BATCH) > 2 * (8593 + 738 + 7814) + 1000);
}

TEST(dense_layers_send_nothing) {
    fill((struct schedule_micro_batch){10, 20, 5, 7, 0, 0}, (struct schedule_layer){40, 100, 200});
    double waited;
    work.layers = work.dense_layers = 3;
    assert_true(overlap_schedule(overlap_of(OVERLAP_SEQUENTIAL), &work, &waited) == 3 * 37);
    assert_true(waited == 0);
}

TEST(the_link_bounds_a_step_of_many_micro_batches) {
    fill((struct schedule_micro_batch){1, 1, 1, 0, 0, 0}, (struct schedule_layer){1, 100, 200});
    assert_true(fabs(layer_us(OVERLAP_QUAD_BATCH) - 4 * 300) < 5);
}

/* Few layers stand for many: their pace is that of a walk of all. */
TEST(a_few_walked_layers_have_the_pace_of_all) {
    fill((struct schedule_micro_batch){300, 500, 70, 90, 0, 0},
         (struct schedule_layer){600, 400, 800});
    double twelve = walk_us(OVERLAP_QUAD_BATCH, 12), sixty = walk_us(OVERLAP_QUAD_BATCH, 60);
    double computed = 4 * (300 + 500 + 70 + 600);
    assert_true(twelve > 12 * computed && twelve < 12 * computed * 1.15);
    assert_true(sixty > 60 * computed && sixty < 60 * computed * 1.03);
}
