/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/simulator/simulator_transfer.h"

#include "test_case.h"

/* ---- two units of two ranks; a block takes 1 us, of ten layers ---- */

enum { FROM, TO, UNITS };

struct reported {
    uint32_t transfer;
    enum simulator_side side;
    int64_t due_ns;
    uint64_t stamp;
};

struct links {
    struct simulator_transfers transfers;
    struct simulator_nic nics[UNITS];
    int64_t free_ns[UNITS][SIMULATOR_SIDES][2], cut_ns[UNITS * UNITS];
    struct reported reported[16];
    uint32_t reported_count;
    _Alignas(16) char memory[16384];
};

static void receive(void *context, uint32_t transfer, enum simulator_side side, int64_t due_ns,
                    uint64_t stamp) {
    struct links *links = context;
    links->reported[links->reported_count++] = (struct reported){transfer, side, due_ns, stamp};
}

static void open_links(struct links *links) {
    struct arena arena;
    memset(links, 0, sizeof *links);
    arena_over(&arena, links->memory, sizeof links->memory);
    assert_true(simulator_transfer_open(&links->transfers, &arena, 8));
    for (uint32_t unit = 0; unit < UNITS; unit++)
        for (int side = 0; side < SIMULATOR_SIDES; side++) {
            links->nics[unit].ns_each[side] = 1;
            links->nics[unit].free_ns[side] = links->free_ns[unit][side];
        }
    links->transfers.nics = links->nics;
    links->transfers.cut_ns = links->cut_ns;
    links->transfers.unit_count = UNITS;
    links->transfers.block_bytes = 1000;
    links->transfers.layers = 10;
    links->transfers.latency_ns = 10;
    links->transfers.notice_ns = 100000;
    links->transfers.context = links;
    links->transfers.due = receive;
}

static void expect(struct links *links, uint64_t number, uint32_t rank) {
    struct record_kv_expect record = {
        .request = {.low = number}, .rank = rank, .grant = {number, 1}, .page_count = 4};
    simulator_transfer_expect(&links->transfers, TO, &record, 0);
}

static void push(struct links *links, uint64_t number, uint32_t pages, uint32_t making, bool last,
                 int64_t step_ns, int64_t now_ns) {
    struct record_kv_push record = {.request = {.low = number},
                                    .route = {.grant = {number, 1}},
                                    .page_count = pages,
                                    .making_count = making,
                                    .last = last};
    simulator_transfer_push(&links->transfers, FROM, &record, false, step_ns, now_ns);
}

static struct record_kv_done take(struct links *links, uint32_t index, uint32_t unit) {
    struct record_kv_done done;
    uint32_t whose;
    const struct reported *reported = &links->reported[index];
    assert_true(simulator_transfer_end(&links->transfers, reported->transfer, reported->side,
                                       reported->stamp, &whose, &done));
    assert_int_equal(whose, unit);
    return done;
}

/* ---- cases ---- */

TEST(blocks_that_stand_take_their_time) {
    static struct links links;
    open_links(&links);
    expect(&links, 1, 0);
    push(&links, 1, 4, 0, true, 0, 100);
    assert_int_equal(links.reported_count, 2);
    assert_int_equal(links.reported[0].side, SIMULATOR_IN);
    assert_int_equal(links.reported[0].due_ns, 100 + 4000 + 10);
    assert_int_equal(links.reported[1].due_ns, 100 + 4000 + 20);
    assert_int_equal(take(&links, 0, TO).arrived, 1);
    assert_int_equal(take(&links, 1, FROM).arrived, 1);
    assert_int_equal(simulator_transfer_open_count(&links.transfers), 0);
}

TEST(a_steps_last_layer_is_left_behind_it) {
    static struct links links;
    open_links(&links);
    expect(&links, 1, 0);
    push(&links, 1, 4, 4, false, 50000, 0);
    push(&links, 1, 0, 0, true, 0, 50000);
    assert_int_equal(links.reported[0].due_ns, 50000 + 4000 / 10 + 10);
}

TEST(one_link_carries_one_thing_after_the_other) {
    static struct links links;
    open_links(&links);
    expect(&links, 1, 0);
    expect(&links, 2, 1); /* to another rank, but from the same */
    push(&links, 1, 4, 0, true, 0, 0);
    push(&links, 2, 4, 0, true, 0, 0);
    assert_int_equal(links.reported[2].due_ns, 8000 + 10);
}

TEST(whoever_cancels_is_reported_at_once_and_the_other_later) {
    static struct links links;
    struct record_kv_cancel cancel = {.request = {.low = 1}};
    open_links(&links);
    expect(&links, 1, 0);
    push(&links, 1, 4, 0, true, 0, 0); /* it would arrive */
    simulator_transfer_cancel(&links.transfers, TO, &cancel, 1000);
    assert_int_equal(links.reported_count, 4);
    assert_int_equal(links.reported[2].due_ns, 1000);
    assert_int_equal(links.reported[3].due_ns, 1010);
    assert_int_equal(take(&links, 2, TO).arrived, 0);
    assert_int_equal(take(&links, 3, FROM).arrived, 0);
    struct record_kv_done done;
    uint32_t whose;
    assert_false(simulator_transfer_end(&links.transfers, links.reported[0].transfer, SIMULATOR_IN,
                                        links.reported[0].stamp, &whose, &done)); /* the arrival */
}

TEST(nobody_sends_to_whom_nobody_expects) {
    static struct links links;
    open_links(&links);
    push(&links, 7, 4, 0, false, 0, 0);
    assert_int_equal(links.reported_count, 1);
    assert_int_equal(take(&links, 0, FROM).arrived, 0);
    assert_int_equal(simulator_transfer_open_count(&links.transfers), 0);
}

TEST(a_dead_units_partner_is_reported) {
    static struct links links;
    open_links(&links);
    expect(&links, 1, 0);
    push(&links, 1, 4, 0, false, 0, 0);
    simulator_transfer_lose(&links.transfers, FROM, 500, 1000);
    assert_int_equal(links.reported_count, 1);
    assert_int_equal(links.reported[0].due_ns, 1500);
    assert_int_equal(take(&links, 0, TO).arrived, 0);
    assert_int_equal(simulator_transfer_open_count(&links.transfers), 0);
}

TEST(a_cut_network_is_noticed_by_both_in_the_end) {
    static struct links links;
    open_links(&links);
    simulator_transfer_cut(&links.transfers, FROM, TO, 5000, 0);
    expect(&links, 1, 0);
    push(&links, 1, 4, 0, true, 0, 1000);
    assert_int_equal(links.reported_count, 2);
    assert_int_equal(take(&links, 0, TO).arrived, 0);
    assert_int_equal(take(&links, 1, FROM).arrived, 0);
    assert_int_equal(links.reported[0].due_ns, 101000);
    expect(&links, 2, 0);
    push(&links, 2, 4, 0, true, 0, 5000); /* it has healed */
    assert_int_equal(take(&links, 2, TO).arrived, 1);
}
