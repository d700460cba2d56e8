/* SPDX-License-Identifier: Apache-2.0
 * Protects the sums of expert results: the orders' names, and that a group's sum
 * has the same bits whether it is made of its results or came as a row, in F32 and BF16.
 */
#include "compute/model/expert_sum.h"

#include "test_case.h"

#include "base/random.h"

#define N 200

TEST(each_order_is_found_by_its_name_and_no_other) {
    struct error error;
    static const char *const names[EXPERT_SUM_COUNT] = {"experts", "groups"};
    enum expert_sum found = EXPERT_SUM_COUNT;
    for (int order = 0; order < EXPERT_SUM_COUNT; order++) {
        assert_int_equal(expert_sum_named(names[order], &found, &error), STATUS_OK);
        assert_int_equal(found, order);
    }
    assert_int_equal(expert_sum_named("nodes", &found, &error), STATUS_INVALID);
    assert_non_null(strstr(error.text, "'nodes': expected experts or groups"));
}

static float draw(uint32_t row, uint32_t i) {
    return (float)random_uniform(7, row, i) * 2 - 1;
}

/* Of three results: summed at home after another group's, or summed elsewhere and added as a
 * row. */
static void check_form(const struct kernels *kernels, enum row_mla_mode form) {
    static float values[N], home[N], away[N], sum[N], room[N];
    static float memory[4][N];
    static const float weights[] = {0.41f, -0.07f, 1.3f};
    const char *rows[] = {(char *)memory[0], (char *)memory[1], (char *)memory[2]};
    const char *travelled = (char *)memory[3];
    for (uint32_t row = 0; row < 3; row++) {
        for (uint32_t i = 0; i < N; i++)
            values[i] = draw(row, i);
        exchange_rows_pack(kernels, form, values, N, (char *)memory[row]);
    }
    for (uint32_t i = 0; i < N; i++)
        home[i] = away[i] = i % 7 ? draw(9, i) : 0;
    expert_sum_add(kernels, form, home, rows, weights, 3, N, room);
    memset(sum, 0, sizeof sum);
    expert_sum_add(kernels, form, sum, rows, weights, 3, N, room);
    exchange_rows_pack(kernels, form, sum, N, (char *)memory[3]);
    expert_sum_add(kernels, form, away, &travelled, (const float[]){1}, 1, N, room);
    assert_memory_equal(home, away, sizeof home);
    memset(home, 0, sizeof home); /* one result of a group, multiplied here or there */
    memset(away, 0, sizeof away);
    expert_sum_add(kernels, form, home, rows, weights, 1, N, room);
    exchange_rows_pack(kernels, form, home, N, (char *)memory[3]);
    expert_sum_add(kernels, form, away, &travelled, (const float[]){1}, 1, N, room);
    assert_memory_equal(home, away, sizeof home);
}

TEST(a_sum_that_travelled_has_the_bits_of_one_made_at_home) {
    struct error error;
    for (int level = 0; level < KERNEL_LEVEL_COUNT; level++) {
        const struct kernels *kernels;
        if (!kernels_has((enum kernel_level)level)) continue;
        assert_int_equal(kernels_select((enum kernel_level)level, &kernels, &error), STATUS_OK);
        check_form(kernels, ROW_F32);
        check_form(kernels, ROW_BF16);
    }
}
