/* SPDX-License-Identifier: Apache-2.0
 * What units say of KV blocks' travels, done between two ranks: whole prompts arrive byte for byte,
 * in one push or in many; each transfer that was begun ends with exactly one KV_DONE at each side,
 * also when it is cancelled or nobody listens; and what is said too late is left out.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <event2/event.h>

#include "contract/machine.h"
#include "host/kv_carrier.h"
#include "kv_ranks.h"

enum { PAGES = 16, TOKENS = 64 * 4 + 10, BLOCKS = 5 };

struct side {
    struct rank rank;
    struct kv_carrier *carrier;
    uint32_t done, arrived, blocks;
    struct request_id last;
};

struct pair {
    struct event_base *base;
    struct side from, to;
};

static void say(void *context, const struct record *record) {
    struct side *side = context;
    const struct record_kv_done *done = (const void *)record;
    assert_true(record_valid(record, record->bytes));
    side->done++;
    side->arrived += done->arrived;
    side->blocks = done->blocks;
    side->last = done->request;
}

static void open_side(struct side *side, struct event_base *base) {
    struct error error;
    rank_prepare(&side->rank, KV_ELEMENT_BF16, 72, 3, PAGES);
    rank_start(&side->rank);
    struct kv_carrier_options options = {.transport = side->rank.transport,
                                         .pages = &side->rank.pages,
                                         .transfer_ns_max = PATIENCE,
                                         .context = side,
                                         .say = say};
    assert_int_equal(kv_carrier_open(&options, base, &side->carrier, &error), STATUS_OK);
}

static void pair_open(struct pair *pair) {
    *pair = (struct pair){.base = event_base_new()};
    open_side(&pair->from, pair->base);
    open_side(&pair->to, pair->base);
}

static void pair_close(struct pair *pair) {
    kv_carrier_close(pair->from.carrier);
    kv_carrier_close(pair->to.carrier);
    rank_end(&pair->from.rank);
    rank_end(&pair->to.rank);
    event_base_free(pair->base);
}

static void run_until(struct pair *pair, uint32_t from_done, uint32_t to_done) {
    int64_t began_ns = clock_now_ns();
    while (pair->from.done < from_done || pair->to.done < to_done) {
        assert_true(clock_now_ns() - began_ns < PATIENCE);
        event_base_loop(pair->base, EVLOOP_ONCE);
    }
    assert_int_equal(pair->from.done, from_done);
    assert_int_equal(pair->to.done, to_done);
}

static _Alignas(8) char memory[4096];
static struct outbox records = {.memory = memory, .capacity = sizeof memory};

static void *make(enum record_kind kind, size_t bytes) {
    outbox_clear(&records);
    return outbox_put(&records, kind, bytes);
}

static void expect(struct pair *pair, uint64_t number, uint32_t first_block) {
    uint32_t count = BLOCKS - first_block;
    struct record_kv_expect *record = make(RECORD_KV_EXPECT, kv_expect_bytes(count));
    record->request.low = record->ticket[0] = number;
    record->first_block = first_block;
    record->token_count = TOKENS;
    record->page_count = count;
    for (uint32_t i = 0; i < count; i++)
        ((struct page_id *)record_tail_at(record, sizeof *record))[i].index = 9 + i;
    assert_true(record_valid(&record->record, record->record.bytes));
    kv_carrier_take(pair->to.carrier, &record->record);
}

/* Blocks [first, end) stand in pages 2 + block. */
static void push(struct pair *pair, uint64_t number, uint32_t first, uint32_t end, bool begins,
                 const char *address) {
    struct record_kv_push *record = make(RECORD_KV_PUSH, kv_push_bytes(end - first));
    record->request.low = record->route.ticket[0] = number;
    strncpy(record->route.address, address, KV_ADDRESS_BYTES - 1);
    record->first_block = first;
    record->token_count = end * 64 < TOKENS ? end * 64 : TOKENS;
    record->page_count = end - first;
    record->first = begins;
    record->last = end == BLOCKS;
    for (uint32_t block = first; block < end; block++) {
        ((struct page_id *)record_tail_at(record, sizeof *record))[block - first].index = 2 + block;
        for (uint32_t slice = 0; slice < 3; slice++)
            fill_slice(&pair->from.rank, 2 + block, number, block, slice);
    }
    kv_carrier_take(pair->from.carrier, &record->record);
}

static void cancel(struct side *side, uint64_t number) {
    struct record_kv_cancel *record = make(RECORD_KV_CANCEL, sizeof *record);
    record->request.low = number;
    kv_carrier_take(side->carrier, &record->record);
}

static void assert_there(struct pair *pair, uint64_t number, uint32_t first_block, uint32_t end) {
    for (uint32_t block = first_block; block < end; block++)
        for (uint32_t slice = 0; slice < 3; slice++) {
            uint32_t rows = block + 1 < BLOCKS ? 64 : TOKENS % 64, page = 9 + block - first_block;
            assert_true(slice_is(&pair->to.rank, page, number, block, slice, rows, 0));
            assert_int_equal(kv_pages_header(&pair->to.rank.pages, page)->token_count, rows);
        }
}

static void assert_arrived(struct pair *pair, uint64_t number, uint32_t first_block) {
    assert_int_equal(pair->to.blocks, BLOCKS - first_block);
    assert_int_equal(pair->from.blocks, 0);
    assert_there(pair, number, first_block, BLOCKS);
}

static void prompts_arrive(void **state) {
    (void)state;
    struct pair pair;
    pair_open(&pair);
    const char *address = kv_transport_address(pair.to.rank.transport);
    expect(&pair, 1, 0);
    push(&pair, 1, 0, 2, true, address);
    push(&pair, 1, 2, 4, false, address);
    push(&pair, 1, 4, 5, false, address);
    run_until(&pair, 1, 1);
    assert_int_equal(pair.to.arrived, 1);
    assert_int_equal(pair.from.arrived, 1);
    assert_arrived(&pair, 1, 0);
    memset(pair.to.rank.pages.memory, 0, pair.to.rank.pages.page_bytes * PAGES);
    expect(&pair, 2, 3); /* it has the first three */
    push(&pair, 2, 3, 5, true, address);
    run_until(&pair, 2, 2);
    assert_int_equal(pair.to.arrived, 2);
    assert_arrived(&pair, 2, 3);
    assert_int_equal(kv_carrier_count(pair.from.carrier) + kv_carrier_count(pair.to.carrier), 0);
    pair_close(&pair);
}

static bool slices_came(struct pair *pair, uint64_t count) {
    struct kv_transport_state state;
    kv_transport_look(pair->to.rank.transport, &state);
    return state.counts.slices[TRANSFER_ACCEPT] >= count &&
           state.slice_bytes[TRANSFER_IN] >= count * 64 * pair->to.rank.pages.row_bytes;
}

/* The sender goes, or is given up, with two blocks of five there: they count. */
static void what_arrived_before_the_end_counts(void **state) {
    (void)state;
    for (int way = 0; way < 2; way++) {
        struct pair pair;
        pair_open(&pair);
        expect(&pair, 1, 0);
        push(&pair, 1, 0, 2, true, kv_transport_address(pair.to.rank.transport));
        int64_t began_ns = clock_now_ns();
        while (!slices_came(&pair, 2 * 3)) {
            assert_true(clock_now_ns() - began_ns < PATIENCE);
            event_base_loop(pair.base, EVLOOP_NONBLOCK);
        }
        cancel(way ? &pair.to : &pair.from, 1);
        run_until(&pair, 1, 1);
        assert_int_equal(pair.to.arrived, 0);
        assert_int_equal(pair.to.blocks, 2);
        assert_there(&pair, 1, 0, 2);
        pair_close(&pair);
    }
}

static void what_is_cancelled_ends_once_at_both(void **state) {
    (void)state;
    struct pair pair;
    pair_open(&pair);
    const char *address = kv_transport_address(pair.to.rank.transport);
    for (uint64_t number = 1; number <= 8; number++) {
        expect(&pair, number, 0);
        push(&pair, number, 0, 2, true, address);
        if (number % 2) cancel(&pair.from, number);
        if (number % 4 < 2) cancel(&pair.to, number);
        if (number % 4 == 2) push(&pair, number, 2, 5, false, address);
        run_until(&pair, (uint32_t)number, (uint32_t)number);
        push(&pair, number, 2, 5, false, address); /* too late */
        cancel(&pair.from, number);
        cancel(&pair.to, number);
    }
    assert_int_equal(pair.to.arrived, 2);
    assert_int_equal(kv_carrier_count(pair.from.carrier) + kv_carrier_count(pair.to.carrier), 0);
    pair_close(&pair);
}

static void nobody_there_is_told(void **state) {
    (void)state;
    struct pair pair;
    pair_open(&pair);
    push(&pair, 1, 0, 5, true, "127.0.0.1:1");
    run_until(&pair, 1, 0);
    push(&pair, 2, 0, 5, true, "no address");
    run_until(&pair, 2, 0);
    assert_int_equal(pair.from.arrived, 0);
    pair_close(&pair);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompts_arrive),
        cmocka_unit_test(what_arrived_before_the_end_counts),
        cmocka_unit_test(what_is_cancelled_ends_once_at_both),
        cmocka_unit_test(nobody_there_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
