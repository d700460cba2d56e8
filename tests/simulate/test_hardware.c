/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/hardware.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

/* The published anchors: 16,384 tokens of 4K prompts take a rank 2.090 s (the profile's 7,839
 * tokens/s); 88 requests of 4,989 tokens at 20 to 22 tokens/s each, 14.8k tokens/s a node. */
static void steps_take_as_long_as_was_published(void **state) {
    (void)state;
    struct hardware_prefill_rank prefill = {.tokens = 16384, .attended = 16384ull * 2048};
    assert_float_equal(hardware_prefill_ns(NULL, &prefill, 1) * 1e-9, 2.090, 0.03);
    struct hardware_decode_rank decode = {.requests = 88, .context = 88 * 4989};
    double step_s = hardware_decode_ns(NULL, &decode, 1) * 1e-9;
    assert_float_equal(88 * 8 / step_s, 14800, 600);
    assert_float_equal(1 / step_s, 21, 1);
}

/* One rank with more work holds up all of them, whoever it is. */
static void the_costliest_rank_is_the_step(void **state) {
    (void)state;
    struct hardware_prefill_rank even[2] = {{1024, 1 << 20, 0}, {1024, 1 << 20, 0}};
    struct hardware_prefill_rank odd[2] = {{1024, 1 << 25, 0}, {1024, 1 << 20, 0}};
    struct hardware_prefill_rank turned[2] = {{1024, 1 << 20, 0}, {1024, 1 << 25, 0}};
    assert_true(hardware_prefill_ns(NULL, odd, 2) > hardware_prefill_ns(NULL, even, 2));
    assert_float_equal(hardware_prefill_ns(NULL, odd, 2), hardware_prefill_ns(NULL, turned, 2), 0);
    struct hardware_decode_rank equal[2] = {{88, 400000}, {88, 400000}};
    struct hardware_decode_rank deep[2] = {{88, 800000}, {88, 0}};
    struct hardware_decode_rank wide[2] = {{160, 400000}, {16, 400000}};
    assert_true(hardware_decode_ns(NULL, deep, 2) > hardware_decode_ns(NULL, equal, 2));
    assert_true(hardware_decode_ns(NULL, wide, 2) > hardware_decode_ns(NULL, equal, 2));
}

static void costs_are_known(void **state) {
    (void)state;
    struct hardware_costs costs = hardware_costs_of_rank(NULL);
    assert_true(costs.token_ns > 0 && costs.attended_ns > 0 && costs.read_ns > 0);
    assert_true(costs.request_ns > 0 && costs.context_ns > 0);
}

/* Each part takes `us` for however many tokens, and the core so much at any context. */
static struct stage_table *table_of(double us) {
    struct stage_table *table = calloc(1, sizeof *table);
    assert_non_null(table);
    table->experts = 2;
    for (int phase = 0; phase < STAGE_TABLE_PHASE_COUNT; phase++)
        for (int part = 0; part < STAGE_PART_COUNT; part++) {
            bool experts = part >= PART_EXPERT_INPUT && part <= PART_EXPERT_RESULT;
            if (part == PART_DENSE || experts != (phase == STAGE_TABLE_EXPERTS)) continue;
            if (phase == STAGE_TABLE_PROMPT && part >= PART_ABSORB_QUERY &&
                part <= PART_ABSORB_VALUE)
                continue;
            if (phase == STAGE_TABLE_DECODE && part == PART_CORE_PROMPT) continue;
            table->grids[phase][part] = (struct stage_grid){
                .tokens = {2, {1, 4096}}, .context = {1, {0}}, .us = {{us}, {us}}};
        }
    return table;
}

/* A machine so slow that nothing waits for the network: 61 layers, two micro-batches, of 5 parts
 * before the core, 9 of attention and gate (7 of a prompt's), 1 that sends, 3 of the shared expert,
 * 5 of the routed ones, 3 that sum. */
static void a_table_takes_the_place(void **state) {
    (void)state;
    struct stage_table *table = table_of(1000);
    struct hardware_decode_rank decode = {.requests = 32, .context = 32 * 500};
    assert_float_equal(hardware_decode_ns(table, &decode, 1),
                       2 * 61 * (5 + 9 + 1 + 3 + 5 + 3) * 1e6, 1);
    struct hardware_prefill_rank prefill = {.tokens = 64, .attended = 32 * 33};
    double attention = 5 + 7 + 1 + 3, layer = (attention + 3) + attention + 5 + (5 + 3);
    assert_float_equal(hardware_prefill_ns(table, &prefill, 1), 61 * layer * 1e6, 1);
    free(table);
}

/* Twice the positions, twice the core's time; several prompts cost what each of them costs. */
static void a_table_knows_context(void **state) {
    (void)state;
    struct stage_table *table = table_of(1);
    struct stage_grid *core = &table->grids[STAGE_TABLE_DECODE][PART_CORE];
    *core = (struct stage_grid){
        .tokens = {2, {1, 64}}, .context = {2, {0, 4096}}, .us = {{10, 1000}, {640, 64000}}};
    struct hardware_decode_rank rank = {64, 64 * 2048}, deeper = {64, 64 * 4096};
    double step = hardware_decode_ns(table, &rank, 1), more = hardware_decode_ns(table, &deeper, 1);
    double half = 640 + (64000 - 640) / 2.0, of_32 = 31 / 63.0;
    double low = 10 + (1000 - 10) / 2.0;
    assert_float_equal(more - step,
                       2 * 61 * 1e3 * ((1000 + of_32 * 63000) - (low + of_32 * (half - low))), 10);
    struct stage_grid *prompt = &table->grids[STAGE_TABLE_PROMPT][PART_CORE_PROMPT];
    *prompt =
        (struct stage_grid){.tokens = {2, {64, 1024}}, .context = {1, {0}}, .us = {{1e6}, {2e7}}};
    struct hardware_prefill_rank one = {.tokens = 2048, .attended = 1024ull * 1025};
    struct hardware_prefill_rank many = {.tokens = 2048, .attended = 2048 / 64 * 64ull * 65 / 2};
    double of_one = hardware_prefill_ns(table, &one, 1);
    double of_many = hardware_prefill_ns(table, &many, 1);
    assert_float_equal(of_one - of_many, 61 * 1e3 * 2 * (2e7 - 16 * 1e6), 1e6);
    /* two chunks of 512 behind 2,048 cost twice one of them */
    *prompt = (struct stage_grid){
        .tokens = {2, {64, 1024}}, .context = {2, {0, 4096}}, .us = {{1e6, 3e6}, {2e7, 5e7}}};
    double chunk = 512.0 * 2048 + 512 * 513 / 2, share = (512 - 64) / 960.0;
    struct hardware_prefill_rank none = {.tokens = 1024};
    struct hardware_prefill_rank two = {1024, (uint64_t)(2 * chunk), 2 * 2048};
    double at_2048 = 2e6 + share * (3.5e7 - 2e6);
    assert_float_equal(hardware_prefill_ns(table, &two, 1) - hardware_prefill_ns(table, &none, 1),
                       61 * 1e3 * 2 * at_2048, 1e8); /* `none` waits for the network */
    struct hardware_costs costs = hardware_costs_of_rank(table);
    assert_true(costs.attended_ns > 0 && costs.read_ns > 0);
    assert_true(costs.token_ns > 0 && costs.request_ns >= 0 && costs.context_ns > 0);
    free(table);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_take_as_long_as_was_published),
        cmocka_unit_test(the_costliest_rank_is_the_step),
        cmocka_unit_test(costs_are_known),
        cmocka_unit_test(a_table_takes_the_place),
        cmocka_unit_test(a_table_knows_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
