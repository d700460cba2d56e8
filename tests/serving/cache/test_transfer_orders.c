/* SPDX-License-Identifier: Apache-2.0
 * Protects what is ordered of KV transfers: no slice of a block leaves before it stands or is
 * written, each leaves once, an order is finished once, and its end touches no other order.
 */

#include "contract/machine.h"
#include "serving/cache/transfer_orders.h"
#include "test_case.h"

enum { ORDERS = 3, PAGES = 6, SLICES = 2, STEP = 7 };

static struct page_id pages[ORDERS][PAGES];
static struct transfer_order places[ORDERS];
static struct transfer_orders orders;
static _Alignas(8) char memory[1024];
static struct outbox box = {.memory = memory, .capacity = sizeof memory};

static int open_orders(void **state) {
    memset(places, 0, sizeof places);
    orders = (struct transfer_orders){.orders = places, .capacity = ORDERS, .slice_count = SLICES};
    for (uint32_t i = 0; i < ORDERS; i++) {
        places[i].pages = pages[i];
        places[i].page_capacity = PAGES;
    }
    return 0;
}

static void *make(enum record_kind kind, const void *fixed) {
    machine_outbox_clear(&box);
    return machine_outbox_put(&box, kind, fixed);
}

/* Blocks [first, end) of the request lie in pages 10 * request + block; the last `making` of them
 * are written by STEP. */
static struct transfer_order *push(uint64_t request, uint32_t first, uint32_t end, uint32_t making,
                                   bool last) {
    struct record_kv_push *record =
        make(RECORD_KV_PUSH, &(struct record_kv_push){.page_count = end - first});
    struct page_id *named = kv_push_pages(record);
    record->request.low = record->route.grant[0] = request;
    record->first_block = first;
    record->token_count = end * 64;
    record->making_count = making;
    record->step = making ? STEP : 0;
    record->last = last;
    for (uint32_t block = first; block < end; block++)
        named[block - first].index = (uint32_t)(10 * request) + block;
    struct transfer_order *order = transfer_orders_find(&orders, record->request);
    if (!order) order = transfer_orders_begin(&orders, &record->record);
    transfer_orders_push(order, record);
    return order;
}

/* Hands over all that can leave, and asserts that it is these "block.slice" in this order. */
static void assert_leave(struct transfer_order *order, uint32_t written, const char *expected) {
    char found[128] = "";
    uint32_t block, slice;
    while (transfer_orders_next(order, written, &block, &slice)) {
        char text[] = {' ', (char)('0' + block), '.', (char)('0' + slice), 0};
        strcat(found, text);
        transfer_orders_advance(order);
    }
    assert_string_equal(found, expected);
}

TEST_AROUND(standing_blocks_leave_at_once_and_the_others_as_they_are_written, open_orders, NULL) {
    struct transfer_order *order = push(1, 0, 3, 2, false);
    assert_leave(order, 0, " 0.0 0.1");
    assert_true(transfer_orders_waits(order));
    assert_leave(order, 1, " 1.0 2.0");
    assert_leave(order, 1, "");
    assert_leave(order, 2, " 1.1 2.1");
    assert_false(transfer_orders_waits(order));
}

/* The transport was full in the middle of a slice, or nobody followed the step. */
TEST_AROUND(what_a_step_made_leaves_behind_it_where_it_was_left, open_orders, NULL) {
    struct transfer_order *order = push(1, 0, 2, 2, false);
    uint32_t block, slice;
    assert_true(transfer_orders_next(order, 1, &block, &slice));
    transfer_orders_advance(order);
    push(1, 2, 4, 1, false);
    assert_leave(order, 0, " 1.0 0.1 1.1 2.0 2.1");
    push(1, 4, 4, 0, true);
    assert_leave(order, 0, " 3.0 3.1");
}

TEST_AROUND(an_order_is_finished_once_when_all_is_named_and_has_left, open_orders, NULL) {
    struct transfer_order *order = push(1, 0, 1, 1, false);
    assert_leave(order, 2, " 0.0 0.1");
    assert_false(transfer_orders_finish(order)); /* more may be named */
    push(1, 1, 2, 0, true);
    assert_false(transfer_orders_finish(order)); /* block 1 has not left */
    assert_leave(order, 0, " 1.0 1.1");
    assert_true(transfer_orders_finish(order));
    assert_false(transfer_orders_finish(order));
}

TEST_AROUND(an_end_is_reported_and_leaves_other_orders_as_they_are, open_orders, NULL) {
    push(1, 0, 2, 0, false);
    push(2, 0, 3, 0, false);
    struct transfer_order *order = push(3, 0, 1, 0, false);
    assert_leave(order, 0, " 0.0 0.1");
    struct record_kv_done done = transfer_orders_end(
        &orders, transfer_orders_find(&orders, (struct request_id){.low = 1}), true, 0);
    assert_true(record_valid(&done, sizeof done));
    assert_int_equal(done.request.low, 1);
    assert_int_equal(done.arrived, 1);
    assert_null(transfer_orders_find(&orders, done.request));
    push(4, 0, 6, 0, false);
    order = push(3, 1, 2, 0, true);
    assert_leave(order, 0, " 1.0 1.1");
    assert_int_equal(orders.count, ORDERS);
    for (uint32_t i = 0; i < orders.count; i++)
        for (uint32_t block = 0; block < places[i].block_count; block++)
            assert_int_equal(places[i].pages[block].index, 10 * places[i].request.low + block);
}

/* The first block is the request's third; the last one is cut short. */
TEST_AROUND(expected_blocks_have_their_pages_and_rows, open_orders, NULL) {
    struct record_kv_expect *record =
        make(RECORD_KV_EXPECT, &(struct record_kv_expect){.page_count = 2});
    struct page_id *named = kv_expect_pages(record);
    struct transfer_block blocks[2];
    record->grant[1] = 5;
    record->first_block = 2;
    record->token_count = 3 * 64 + 10;
    named[0].index = 8;
    named[1].index = 3;
    struct transfer_order *order = transfer_orders_begin(&orders, &record->record);
    transfer_orders_expect(order, record, blocks);
    assert_int_equal(blocks[0].page.index, 8);
    assert_int_equal(blocks[0].row_count, 64);
    assert_int_equal(blocks[1].page.index, 3);
    assert_int_equal(blocks[1].row_count, 10);
    assert_int_equal(blocks[1].slice_count, SLICES);
    assert_false(transfer_orders_waits(order)); /* for no step: others write them */
}

/* A unit may send to itself: both orders have one ticket. */
TEST_AROUND(a_grant_names_one_order_of_each_side, open_orders, NULL) {
    struct record_kv_expect *record =
        make(RECORD_KV_EXPECT, &(struct record_kv_expect){.page_count = 1});
    record->request.low = 9;
    record->grant[0] = 1;
    transfer_orders_begin(&orders, &record->record);
    push(1, 0, 1, 0, false);
    struct transfer_ended ended = {.grant = {.high = 1}, .side = TRANSFER_IN};
    assert_int_equal(transfer_orders_ended(&orders, &ended)->request.low, 9);
    ended.side = TRANSFER_OUT;
    assert_int_equal(transfer_orders_ended(&orders, &ended)->request.low, 1);
    ended.grant.low = 1;
    assert_null(transfer_orders_ended(&orders, &ended));
}
