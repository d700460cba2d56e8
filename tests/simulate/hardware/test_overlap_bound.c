/* SPDX-License-Identifier: Apache-2.0
 * Protects the bound on schedules of two lanes: cases that can be worked out by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "simulate/hardware/overlap_bound.h"

#define LAYERS 40

static struct schedule_work work;

static void fill(struct schedule_micro_batch micro_batch, struct schedule_layer experts,
                 uint32_t expert_batches) {
    memset(&work, 0, sizeof work);
    work.layers = LAYERS;
    work.expert_batches = expert_batches;
    for (int size = 0; size < SCHEDULE_SIZES; size++) {
        work.micro_batches[size] = micro_batch;
        for (int i = 0; i < LIMIT_LAYERS; i++)
            work.experts[size][i] = experts;
    }
}

static double best_us(void) {
    struct overlap_bound bound;
    overlap_bound_find(&work, &bound);
    return bound.us;
}

static double table_us(enum overlap_kind kind) {
    double waited;
    return overlap_schedule(overlap_of(kind), &work, &waited);
}

static bool is_near(double value, double expected, double slack) {
    return value >= expected - 1e-6 && value <= expected + slack;
}

/* Nothing travels: both lanes' work and no more. */
static void without_communication_it_is_the_work(void **state) {
    (void)state;
    fill(
        (struct schedule_micro_batch){
            .attention_0 = 10, .attention_1 = 20, .shared = 5, .send = 1, .sum = 2},
        (struct schedule_layer){.mlp = 40}, 1);
    assert_true(fabs(overlap_bound_computed(&work, 2) - 2 * LAYERS * 78) < 1e-6);
    assert_true(fabs(best_us() - 2 * LAYERS * 78) < 1e-6);
}

/* Attention and MLP of 50 each. A lane's dispatch and combine of 40 each are covered by the other's
 * attention and MLP; at either end a layer's transfers are not. */
static void even_stages_hide_everything(void **state) {
    (void)state;
    fill((struct schedule_micro_batch){.attention_1 = 50},
         (struct schedule_layer){.mlp = 50, .dispatch = 40, .combine = 40}, 1);
    assert_true(is_near(best_us(), 2 * LAYERS * 100, 90));
    assert_true(is_near(table_us(OVERLAP_PREFILL_DUAL_BATCH), 2 * LAYERS * 100, 90));
}

/* Attention is one piece of 90 and MLP 10. Over a lane's combine of 60 can only be the other lane's
 * attention; nothing is left then for its dispatch of 20: 2 * 20 are exposed. */
static void attention_in_one_piece_leaves_a_transfer_exposed(void **state) {
    (void)state;
    fill((struct schedule_micro_batch){.attention_1 = 90},
         (struct schedule_layer){.mlp = 10, .dispatch = 20, .combine = 60}, 1);
    assert_true(overlap_bound_sent(&work, 2) == LAYERS * 160);
    assert_true(is_near(best_us(), LAYERS * (2 * 100 + 2 * 20), 200));
}

/* A combine of 80 is not covered by the other's attention of 50, nor by its own and the other's MLP
 * behind a dispatch, unless it leaves while its own MLP of 50 runs. */
static void waves_begin_a_combine_early(void **state) {
    (void)state;
    struct schedule_micro_batch micro_batch = {.attention_1 = 50};
    struct schedule_layer experts = {.mlp = 50, .dispatch = 10, .combine = 80};
    fill(micro_batch, experts, 1);
    double whole = best_us(), dual = table_us(OVERLAP_PREFILL_DUAL_BATCH);
    fill(micro_batch, experts, 4);
    double expert_batches = best_us(), dual_waves = table_us(OVERLAP_PREFILL_DUAL_BATCH);
    assert_true(expert_batches < whole * 0.95 && dual_waves < dual * 0.95);
    assert_true(expert_batches >= LAYERS * 200 && expert_batches <= dual_waves && whole <= dual);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_communication_it_is_the_work),
        cmocka_unit_test(even_stages_hide_everything),
        cmocka_unit_test(attention_in_one_piece_leaves_a_transfer_exposed),
        cmocka_unit_test(waves_begin_a_combine_early),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
