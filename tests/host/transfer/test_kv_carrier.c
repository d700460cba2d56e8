/* SPDX-License-Identifier: Apache-2.0
 * What units say of KV blocks' travels, done between two ranks: whole prompts arrive byte for byte,
 * in one push or in many; each transfer that was begun ends with exactly one KV_DONE at each side,
 * also when it is cancelled or nobody listens; and what is said too late is left out. Blocks that a
 * step is making leave layer by layer behind an engine that writes them, never before, and count
 * only when all have been named after it.
 */
#include <pthread.h>
#include <unistd.h>

#include <event2/event.h>

#include "contract/machine.h"
#include "contract/record_kv.h"
#include "host/transfer/kv_carrier.h"
#include "test_case.h"
#include "transport_ranks.h"

enum { PAGES = 16, TOKENS = 64 * 4 + 10, BLOCKS = 5, SLICES = 3 };

struct side {
    struct rank rank;
    struct kv_carrier *carrier;
    struct step_progress *progress;
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
    rank_prepare(&side->rank, KV_ELEMENT_BF16, 72, SLICES, PAGES);
    rank_start(&side->rank);
    assert_int_equal(step_progress_open(&side->progress, &error), STATUS_OK);
    struct kv_carrier_options options = {.transport = side->rank.transport,
                                         .pages = &side->rank.pages,
                                         .progress = side->progress,
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
    step_progress_close(pair->from.progress);
    step_progress_close(pair->to.progress);
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

static void *make(enum record_kind kind, const void *fixed) {
    machine_outbox_clear(&records);
    return machine_outbox_put(&records, kind, fixed);
}

static void expect(struct pair *pair, uint64_t number, uint32_t first_block) {
    uint32_t count = BLOCKS - first_block;
    struct record_kv_expect *record =
        make(RECORD_KV_EXPECT, &(struct record_kv_expect){.page_count = count});
    record->request.low = record->grant[0] = number;
    record->first_block = first_block;
    record->token_count = TOKENS;
    for (uint32_t i = 0; i < count; i++)
        kv_expect_pages(record)[i].index = 9 + i;
    assert_true(record_valid(&record->record, record->record.bytes));
    kv_carrier_take(pair->to.carrier, &record->record);
}

/* Blocks [first, end) lie in pages 2 + block. */
static struct record_kv_push *name(uint64_t number, uint32_t first, uint32_t end, bool begins,
                                   const char *address) {
    struct record_kv_push *record =
        make(RECORD_KV_PUSH, &(struct record_kv_push){.page_count = end - first});
    record->request.low = record->route.grant[0] = number;
    strncpy(record->route.address, address, KV_ADDRESS_BYTES - 1);
    record->first_block = first;
    record->token_count = end * 64 < TOKENS ? end * 64 : TOKENS;
    record->first = begins;
    for (uint32_t block = first; block < end; block++)
        kv_push_pages(record)[block - first].index = 2 + block;
    return record;
}

static void take(struct pair *pair, const struct record_kv_push *record) {
    assert_true(record_valid(&record->record, record->record.bytes));
    kv_carrier_take(pair->from.carrier, &record->record);
}

static void write_slice(struct pair *pair, uint64_t number, uint32_t first, uint32_t end,
                        uint32_t slice) {
    for (uint32_t block = first; block < end; block++)
        fill_slice(&pair->from.rank, 2 + block, number, block, slice);
}

/* They stand. */
static void push(struct pair *pair, uint64_t number, uint32_t first, uint32_t end, bool begins,
                 const char *address) {
    struct record_kv_push *record = name(number, first, end, begins, address);
    record->last = end == BLOCKS;
    for (uint32_t slice = 0; slice < SLICES; slice++)
        write_slice(pair, number, first, end, slice);
    take(pair, record);
}

/* They, but the first `standing`, are made by the step. */
static void push_making(struct pair *pair, uint64_t number, uint32_t first, uint32_t end,
                        uint32_t standing, uint64_t step, bool begins) {
    const char *address = kv_transport_address(pair->to.rank.transport);
    struct record_kv_push *record = name(number, first, end, begins, address);
    record->making_count = end - first - standing;
    record->step = step;
    take(pair, record);
}

static void cancel(struct side *side, uint64_t number) {
    struct record_kv_cancel *record = make(RECORD_KV_CANCEL, NULL);
    record->request.low = number;
    kv_carrier_take(side->carrier, &record->record);
}

static void assert_there(struct pair *pair, uint64_t number, uint32_t first_block, uint32_t end) {
    for (uint32_t block = first_block; block < end; block++)
        for (uint32_t slice = 0; slice < SLICES; slice++) {
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

TEST(whole_prompts_arrive_in_one_push_or_many) {
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
    kv_transport_get_state(pair->to.rank.transport, &state);
    return state.counts.slices[TRANSFER_ACCEPT] >= count &&
           state.slice_bytes[TRANSFER_IN] >= count * 64 * pair->to.rank.pages.row_bytes;
}

/* The sender goes, or is given up, with two blocks of five there: they count. */
TEST(what_arrived_before_the_end_counts) {
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

TEST(what_is_cancelled_ends_once_at_both) {
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

TEST(nobody_there_is_reported) {
    struct pair pair;
    pair_open(&pair);
    push(&pair, 1, 0, 5, true, "127.0.0.1:1");
    run_until(&pair, 1, 0);
    push(&pair, 2, 0, 5, true, "no address");
    run_until(&pair, 2, 0);
    assert_int_equal(pair.from.arrived, 0);
    pair_close(&pair);
}

/* The engine's thread: it writes blocks [first, end), a slice at a time, and says so. */
struct maker {
    struct pair *pair;
    uint64_t number, step;
    uint32_t first, end;
    uint32_t slices; /* then it stops */
    uint32_t pause_us;
};

static void *make_blocks(void *context) {
    struct maker *maker = context;
    struct model_follower follower = step_progress_follower(maker->pair->from.progress);
    for (uint32_t slice = 0; slice < maker->slices; slice++) {
        usleep(maker->pause_us);
        write_slice(maker->pair, maker->number, maker->first, maker->end, slice);
        follower.written(follower.context, maker->step, slice + 1);
    }
    return NULL;
}

static uint32_t layers_there(struct pair *pair, uint64_t number) {
    uint32_t layers = 0;
    struct transfer_grant grant = {.high = number};
    kv_transport_layers(pair->to.rank.transport, grant, &layers);
    return layers;
}

/* As long as the step has not written a layer, no layer is there; and then, without another word
 * from the unit, all are. */
TEST(blocks_leave_while_they_are_made) {
    struct pair pair;
    pair_open(&pair);
    struct model_follower engine = step_progress_follower(pair.from.progress);
    expect(&pair, 1, 0);
    memset(pair.from.rank.pages.memory, 0xEE, pair.from.rank.pages.page_bytes * PAGES);
    write_slice(&pair, 1, 0, 1, 0);
    write_slice(&pair, 1, 0, 1, 1);
    write_slice(&pair, 1, 0, 1, 2); /* a block that stands already */
    push_making(&pair, 1, 0, 5, 1, 7, true);
    engine.written(engine.context, 6, 2); /* another step's */
    for (uint32_t slice = 0; slice < SLICES; slice++) {
        assert_true(layers_there(&pair, 1) <= slice);
        write_slice(&pair, 1, 1, 5, slice);
        engine.written(engine.context, 7, slice + 1);
        while (layers_there(&pair, 1) <= slice) {
            event_base_loop(pair.base, EVLOOP_NONBLOCK);
            usleep(100);
        }
    }
    assert_int_equal(pair.to.done, 0); /* nobody has said that the step was done */
    struct record_kv_push *last = name(1, 5, 5, false, "");
    last->last = 1;
    last->token_count = TOKENS;
    take(&pair, last);
    run_until(&pair, 1, 1);
    assert_int_equal(pair.to.arrived, 1);
    assert_arrived(&pair, 1, 0);
    pair_close(&pair);
}

/* Chunks of which some are over before the carrier looks, and some are not followed to their end:
 * the bytes are the engine's last, whoever is faster. */
TEST(whoever_is_faster_the_bytes_are_right) {
    struct pair pair;
    pair_open(&pair);
    for (uint64_t number = 1; number <= 40; number++) {
        memset(pair.from.rank.pages.memory, 0xEE, pair.from.rank.pages.page_bytes * PAGES);
        expect(&pair, number, 0);
        for (uint32_t first = 0; first < BLOCKS; first += 2) {
            uint32_t end = first + 2 < BLOCKS ? first + 2 : BLOCKS;
            struct maker maker = {&pair, number, 3 * number + first / 2,     first,
                                  end,   SLICES, (uint32_t)(number % 4 * 50)};
            pthread_t thread;
            assert_int_equal(pthread_create(&thread, NULL, make_blocks, &maker), 0);
            push_making(&pair, number, first, end, 0, maker.step, first == 0);
            for (uint32_t i = 0; i < number % 5; i++)
                event_base_loop(pair.base, EVLOOP_NONBLOCK);
            pthread_join(thread, NULL);
        }
        struct record_kv_push *last = name(number, BLOCKS, BLOCKS, false, "");
        last->last = 1;
        last->token_count = TOKENS;
        take(&pair, last);
        run_until(&pair, (uint32_t)number, (uint32_t)number);
        assert_int_equal(pair.to.arrived, number);
        assert_arrived(&pair, number, 0);
    }
    pair_close(&pair);
}

/* The request is cancelled in mid-step: one end, and blocks count only if all was written. */
TEST(what_is_not_written_never_counts) {
    struct pair pair;
    pair_open(&pair);
    for (uint64_t number = 1; number <= 12; number++) {
        expect(&pair, number, 0);
        struct maker maker = {&pair, number, number, 0, 5, (uint32_t)(number % 4), 100};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, make_blocks, &maker), 0);
        push_making(&pair, number, 0, 5, 0, number, true);
        event_base_loop(pair.base, EVLOOP_NONBLOCK);
        if (number % 2) pthread_join(thread, NULL);
        cancel(&pair.from, number);
        run_until(&pair, (uint32_t)number, (uint32_t)number);
        if (number % 2 == 0) pthread_join(thread, NULL);
        assert_true(maker.slices == SLICES || pair.to.blocks == 0);
        assert_there(&pair, number, 0, pair.to.blocks);
    }
    assert_int_equal(pair.to.arrived + pair.from.arrived, 0);
    assert_int_equal(kv_carrier_count(pair.from.carrier) + kv_carrier_count(pair.to.carrier), 0);
    pair_close(&pair);
}

/* A step that fails has written nothing; that a later one writes must not be taken for its end. */
TEST(a_failed_step_sends_nothing) {
    struct pair pair;
    pair_open(&pair);
    struct model_follower engine = step_progress_follower(pair.from.progress);
    expect(&pair, 1, 0);
    push_making(&pair, 1, 0, 5, 0, 8, true);
    for (uint64_t step = 9; step < 12; step++) {
        engine.written(engine.context, step, SLICES);
        event_base_loop(pair.base, EVLOOP_NONBLOCK);
    }
    cancel(&pair.from, 1);
    run_until(&pair, 1, 1);
    assert_int_equal(rank_state(&pair.from.rank).slice_bytes[TRANSFER_OUT], 0);
    assert_int_equal(pair.to.arrived + pair.to.blocks, 0);
    pair_close(&pair);
}
