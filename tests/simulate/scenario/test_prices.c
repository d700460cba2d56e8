/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/scenario/prices.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static char memory[1 << 16];
static struct error error;

static enum status read_text(const char *text, struct prices *prices) {
    struct arena arena;
    const struct tree *tree;
    struct scenario_place place = {.file = "file", .path = "prices", .error = &error};
    arena_over(&arena, memory, sizeof memory);
    assert_int_equal(tree_parse(&arena, bytes_of(text), "text", &tree, &error), STATUS_OK);
    return prices_read(&place, tree, prices);
}

static const char list[] = "{\"currency\":\"USD\",\"node_hour\":16,\"input_hit\":0.14,"
                           "\"input_miss\":0.55,\"output\":2.19,\"periods\":[{\"from_hour\":16.5,"
                           "\"to_hour\":0.5,\"output\":0.55}]}";

/* 342e9 hits, 266e9 misses and 168e9 answers' tokens: DeepSeek's theoretical income of a day. */
static void a_published_day_has_its_published_income(void **state) {
    (void)state;
    struct prices prices;
    assert_int_equal(read_text(list, &prices), STATUS_OK);
    double income = prices_income(&prices.tokens, 342e9, 266e9, 168e9);
    assert_true(fabs(income / 562027 - 1) < 0.002);
}

static void a_period_may_go_over_midnight(void **state) {
    (void)state;
    struct prices prices;
    assert_int_equal(read_text(list, &prices), STATUS_OK);
    static const double off[] = {16.5, 23, 24, 0.2, 24.2}, peak[] = {0.5, 12, 16.4, 40};
    for (int i = 0; i < 5; i++) {
        assert_true(prices_at(&prices, off[i]).output == 0.55);
        assert_true(prices_at(&prices, off[i]).input_hit == 0.14); /* what it does not say */
    }
    for (int i = 0; i < 4; i++)
        assert_true(prices_at(&prices, peak[i]).output == 2.19);
}

static void a_missing_price_is_named(void **state) {
    (void)state;
    struct prices prices;
    assert_int_equal(read_text("{\"currency\":\"USD\",\"node_hour\":1}", &prices), STATUS_INVALID);
    assert_non_null(strstr(error.text, "prices: the key input_hit is missing"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_published_day_has_its_published_income),
        cmocka_unit_test(a_period_may_go_over_midnight),
        cmocka_unit_test(a_missing_price_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
