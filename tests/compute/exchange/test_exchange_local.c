/* SPDX-License-Identifier: Apache-2.0
 * Protects the order of the exchange: groups by ascending expert, tokens ascending within a group,
 * and each token's rows by ascending expert id, which is the order of summation for any number of
 * ranks. Also where a group of that order ends.
 */
#include "test_case.h"

#include "compute/exchange/exchange.h"

TEST(rows_stand_by_expert_and_find_their_way_back) {
    static const uint32_t experts[4][2] = {{0, 5}, {2, 5}, {0, 2}, {5, 6}};
    const struct exchange_options options = {.tokens_max = 8, .experts = 7, .experts_per_token = 2};
    struct exchange *exchange;
    struct exchange_received received;
    struct exchange_returned returned;
    struct error error;
    assert_int_equal(exchange_open_local(&options, &exchange, &error), STATUS_OK);
    for (int again = 0; again < 2; again++) {
        exchange_dispatch_begin(exchange, 0, experts[0], NULL, 4, NULL);
        exchange_dispatch_finish(exchange, &received);
        assert_int_equal(received.row_count, 8);
        assert_int_equal(received.group_count, 4);
        uint32_t row = 0, previous = 0;
        for (uint32_t g = 0; g < received.group_count; g++) {
            const struct exchange_group *group = &received.groups[g];
            assert_true(g == 0 || group->slot > previous);
            previous = group->slot;
            assert_int_equal(group->first_row, row);
            for (uint32_t i = 0; i < group->row_count; i++, row++) {
                uint32_t token = received.row_token[row];
                assert_true(experts[token][0] == group->slot || experts[token][1] == group->slot);
                if (i) assert_true(token > received.row_token[row - 1]);
            }
        }
        assert_int_equal(row, 8);
        exchange_combine_begin(exchange, 0, 3);
        exchange_combine_begin(exchange, 3, 5);
        exchange_combine_finish(exchange, &returned);
        for (uint32_t token = 0; token < 4; token++)
            for (uint32_t k = 0; k < 2; k++)
                assert_int_equal(received.row_token[returned.token_rows[token * 2 + k]], token);
        assert_true(returned.token_rows[0] < returned.token_rows[1]);
    }
    exchange_close(exchange);
}

TEST(a_group_ends_where_the_next_expert_is_of_another) {
    static const uint32_t experts[] = {0, 3, 4, 11, 12, 13, 15};
    assert_int_equal(exchange_group_run(experts, 7, 4), 2);
    assert_int_equal(exchange_group_run(experts + 2, 5, 4), 1);
    assert_int_equal(exchange_group_run(experts + 3, 4, 4), 1);
    assert_int_equal(exchange_group_run(experts + 4, 3, 4), 3);
    assert_int_equal(exchange_group_run(experts + 4, 2, 4), 2); /* a token's last experts */
    assert_int_equal(exchange_group_run(experts, 7, 16), 7);    /* a model without groups has one */
}
