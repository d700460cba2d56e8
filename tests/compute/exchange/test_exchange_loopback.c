/* SPDX-License-Identifier: Apache-2.0
 * Protects the exchange of one rank of many without the others. Each slot gets as many rows as even
 * choices of equal ranks would send, or as many as set. Every row has a token's bytes, and every
 * pair of a token has a row's result. Over a slow link a transfer takes the time of the bytes that
 * ranks would send.
 */
#include "test_case.h"

#include "compute/exchange/exchange.h"

#define TOKENS 5
#define PER_TOKEN 2
#define SLOTS 3
#define BYTES 16

static struct placement placement;
static const uint32_t experts[TOKENS * PER_TOKEN] = {0, 1, 0, 1, 0, 1, 0, 1, 6, 7};

static int open_placement(void **state) {
    struct error error;
    assert_int_equal(placement_open(&placement, 1, 8, 4, SLOTS, &error), STATUS_OK);
    placement_spread(&placement, 0); /* rank 0 has 0, 4 and 1; rank 1 has 1, 5 and 2 */
    assert_int_equal(placement_index(&placement, &error), STATUS_OK);
    return 0;
}

static int close_placement(void **state) {
    placement_close(&placement);
    return 0;
}

static struct exchange *opened_with(uint32_t rows_max, uint32_t group_experts,
                                    struct exchange_link *link) {
    const struct exchange_options options = {.tokens_max = TOKENS,
                                             .experts = 8,
                                             .experts_per_token = PER_TOKEN,
                                             .placement = &placement,
                                             .dispatch_bytes = BYTES,
                                             .combine_bytes = 2 * BYTES,
                                             .group_experts = group_experts,
                                             .link = link};
    struct exchange *exchange;
    struct error error;
    assert_int_equal(exchange_open_loopback(&options, rows_max, &exchange, &error), STATUS_OK);
    assert_true(exchange_moves_rows(exchange));
    return exchange;
}

static struct exchange *opened(uint32_t rows_max) {
    return opened_with(rows_max, 0, NULL);
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
        assert_true(returned.results[(size_t)returned.token_rows[pair] * 2 * BYTES] < TOKENS);
    }
}

TEST(rows_come_evenly_or_as_asked) {
    struct exchange *exchange = opened(SLOTS * 7);
    pass(exchange, (const uint32_t[]){4, 3, 3});
    exchange_loopback_rows(exchange, 7);
    pass(exchange, (const uint32_t[]){7, 7, 7});
    exchange_loopback_rows(exchange, 1); /* fewer rows than tokens */
    pass(exchange, (const uint32_t[]){1, 1, 1});
    exchange_loopback_rows(exchange, 0);
    pass(exchange, (const uint32_t[]){4, 3, 3});
    assert_int_equal(exchange_counts(exchange).pairs, 10 + 21 + 3 + 10);
    exchange_close(exchange);
}

TEST(without_tokens_nothing_comes) {
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

/* A dispatch and a combine of one token, in nanoseconds of a link of one byte a nanosecond. */
static void expect_times(const uint32_t *token_experts, uint32_t group_experts, int64_t dispatch_ns,
                         int64_t combine_ns) {
    const int64_t latency_ns = 1000;
    struct exchange_link link = {.ns_per_byte = 1, .latency_ns = latency_ns};
    struct exchange *exchange = opened_with(0, group_experts, &link);
    char activations[BYTES] = {0};
    struct exchange_received received;
    struct exchange_returned returned;
    exchange_dispatch_begin(exchange, 0, token_experts, NULL, 1, activations);
    exchange_dispatch_finish(exchange, &received);
    assert_int_equal(exchange_last_transfer(exchange).link_ns,
                     dispatch_ns ? dispatch_ns + latency_ns : 0);
    exchange_combine_begin(exchange, 0, 1); /* in two waves */
    exchange_combine_begin(exchange, 1, received.row_count - 1);
    exchange_combine_finish(exchange, &returned);
    assert_int_equal(exchange_last_transfer(exchange).link_ns,
                     combine_ns ? combine_ns + latency_ns : 0);
    assert_int_equal(exchange_last_transfer(exchange).bytes_sent, combine_ns); /* of both waves */
    assert_int_equal(exchange_counts(exchange).bytes_sent, dispatch_ns + combine_ns);
    exchange_close(exchange);
}

TEST(a_slow_link_takes_the_time_of_what_would_travel) {
    expect_times((const uint32_t[]){0, 4}, 0, 0, 0); /* both are the rank's own */
    expect_times((const uint32_t[]){0, 5}, 0, BYTES, 2 * BYTES);
    expect_times((const uint32_t[]){5, 6}, 0, 2 * BYTES, 4 * BYTES);
    expect_times((const uint32_t[]){2, 5}, 0, BYTES, 4 * BYTES); /* one rank has both */
    expect_times((const uint32_t[]){2, 5}, 8, BYTES, 2 * BYTES); /* and sums them */
    expect_times((const uint32_t[]){2, 5}, 4, BYTES, 4 * BYTES); /* of two groups */
    expect_times((const uint32_t[]){5, 6}, 8, 2 * BYTES, 4 * BYTES);
}

TEST_GROUP(open_placement, close_placement)
