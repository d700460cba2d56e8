/* SPDX-License-Identifier: Apache-2.0
 * Protects the exchange of one rank of many without the others: each slot gets as many rows as even
 * choices of equal ranks bring, or as many as asked for; every row has a token's bytes, and every
 * token's pair a row's result.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compute/exchange/exchange.h"

#define TOKENS 5
#define PER_TOKEN 2
#define SLOTS 3
#define BYTES 16

static const struct placement placement = {
    .layers = 1, .experts = 8, .ranks = 4, .slots_per_rank = SLOTS};
static const uint32_t experts[TOKENS * PER_TOKEN] = {0, 1, 0, 1, 0, 1, 0, 1, 6, 7};

static struct exchange *opened(uint32_t rows_max) {
    const struct exchange_options options = {.tokens_max = TOKENS,
                                             .experts = 8,
                                             .experts_per_token = PER_TOKEN,
                                             .placement = &placement,
                                             .dispatch_bytes = BYTES,
                                             .combine_bytes = BYTES};
    struct exchange *exchange;
    struct error error;
    assert_int_equal(exchange_open_echo(&options, rows_max, &exchange, &error), STATUS_OK);
    assert_true(exchange_carries(exchange));
    return exchange;
}

/* One pass; each row's result is its token's first byte. */
static void pass(struct exchange *exchange, const uint32_t wanted[SLOTS]) {
    char activations[TOKENS * BYTES];
    struct exchange_received received;
    struct exchange_returned returned;
    uint32_t row = 0;
    for (int i = 0; i < TOKENS * BYTES; i++)
        activations[i] = (char)(i / BYTES);
    exchange_dispatch_begin(exchange, 0, experts, NULL, TOKENS, activations);
    exchange_dispatch_finish(exchange, &received);
    assert_int_equal(received.group_count, SLOTS);
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        assert_int_equal(received.groups[slot].slot, slot);
        assert_int_equal(received.groups[slot].first_row, row);
        assert_int_equal(received.groups[slot].row_count, wanted[slot]);
        row += wanted[slot];
    }
    assert_int_equal(received.row_count, row);
    for (uint32_t i = 0; i < row; i++) {
        assert_true(received.row_token[i] < TOKENS);
        const char *data = received.token_data[received.row_token[i]];
        assert_int_equal(data[0], received.row_token[i]);
        memset(exchange_result(exchange, i), data[0], BYTES);
    }
    exchange_combine_begin(exchange, 0, row);
    exchange_combine_finish(exchange, &returned);
    for (uint32_t pair = 0; pair < TOKENS * PER_TOKEN; pair++) {
        assert_true(returned.token_rows[pair] < row);
        assert_true(returned.results[(size_t)returned.token_rows[pair] * BYTES] < TOKENS);
    }
}

static void rows_come_evenly_or_as_asked(void **state) {
    struct exchange *exchange = opened(SLOTS * 7);
    pass(exchange, (const uint32_t[]){4, 3, 3});
    exchange_echo_rows(exchange, 7);
    pass(exchange, (const uint32_t[]){7, 7, 7});
    exchange_echo_rows(exchange, 1); /* fewer rows than tokens */
    pass(exchange, (const uint32_t[]){1, 1, 1});
    exchange_echo_rows(exchange, 0);
    pass(exchange, (const uint32_t[]){4, 3, 3});
    assert_int_equal(exchange_counts(exchange).pairs, 10 + 21 + 3 + 10);
    exchange_close(exchange);
}

static void without_tokens_nothing_comes(void **state) {
    struct exchange *exchange = opened(0);
    struct exchange_received received;
    struct exchange_returned returned;
    exchange_dispatch_begin(exchange, 0, experts, NULL, 0, NULL);
    exchange_dispatch_finish(exchange, &received);
    assert_int_equal(received.row_count, 0);
    assert_int_equal(received.group_count, 0);
    exchange_combine_finish(exchange, &returned);
    exchange_close(exchange);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_come_evenly_or_as_asked),
                                       cmocka_unit_test(without_tokens_nothing_comes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
