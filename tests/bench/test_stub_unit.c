/* SPDX-License-Identifier: Apache-2.0
 * Protects the unit without an engine that a gateway is measured with: what it says comes at the
 * speed that it is told, in order, and ends as it was asked for.
 */
#include "bench/stub_unit.h"

#include "base/check.h"
#include "contract/record_unit.h"
#include "test_case.h"

#include "../keep.h"

static struct machine machine;
static struct stub_shared *shared;

static struct request_id id_of(uint64_t number) {
    return (struct request_id){.high = 7, .low = number};
}

static void submit(uint32_t seed, uint32_t tokens_max) {
    static _Alignas(8) char memory[4096];
    struct outbox box = {.memory = memory, .capacity = sizeof memory};
    struct record_submit *record = machine_outbox_put(
        &box, RECORD_SUBMIT,
        &(struct record_submit){
            .request = id_of(seed), .prompt_count = 3, .new_tokens_max = tokens_max});
    check(record);
    record->sampling.seed = seed;
    assert_int_equal(machine.receive(machine.self, &record->record, 0), STATUS_OK);
}

/* What it says of that request until then, a step each 2 ms; *end_out: why it ended, or COUNT. */
static uint32_t receive(uint32_t seed, int64_t from_ns, int64_t until_ns, uint32_t *end_out) {
    uint32_t reported = 0;
    *end_out = FINISH_REASON_COUNT;
    for (int64_t now = from_ns; now < until_ns; now += 2000000) {
        machine.step(machine.self, now);
        for (const struct record *r = NULL; (r = machine_outbox_next(machine.outbox, r));) {
            if (r->kind == RECORD_FINISHED && record_request(r).low == seed)
                *end_out = ((const struct record_finished *)r)->reason;
            if (r->kind != RECORD_TOKENS || record_request(r).low != seed) continue;
            reported += ((const struct record_tokens *)r)->token_count;
        }
        machine_outbox_clear(machine.outbox);
    }
    return reported;
}

static void open_stub(double tokens_each) {
    shared = stub_unit_shared_take();
    assert_non_null(shared);
    atomic_store(&shared->tokens_each, tokens_each);
    struct stub *stub =
        test_keep(stub_unit_open(&(struct stub_options){.vocab = 9, .token = 4, .shared = shared}));
    machine = stub_unit_machine(stub);
}

TEST(it_speaks_at_the_speed_that_it_is_reported) {
    uint32_t end;
    open_stub(100);
    submit(5, 1000);
    uint32_t reported = receive(5, 0, 2000000000, &end);
    assert_in_range(reported, 198, 201);
    assert_int_equal(end, FINISH_REASON_COUNT);
    assert_int_equal(atomic_load(&shared->said), reported);
    atomic_store(&shared->tokens_each, 10);
    assert_in_range(receive(5, 2000000000, 4000000000, &end), 19, 22);
}

TEST(an_answer_ends_at_its_length_or_when_it_is_cancelled) {
    uint32_t end;
    open_stub(100);
    submit(1, 7);
    assert_int_equal(receive(1, 0, 1000000000, &end), 7);
    assert_int_equal(end, FINISH_LENGTH);
    submit(2, 1000);
    struct record_cancel cancel = {record_head(RECORD_CANCEL, sizeof cancel), id_of(2)};
    assert_int_equal(machine.receive(machine.self, &cancel.record, 0), STATUS_OK);
    assert_int_equal(receive(2, 1000000000, 1100000000, &end), 0);
    assert_int_equal(end, FINISH_CANCELLED);
}

TEST(it_waits_for_a_client_that_is_behind) {
    uint32_t end;
    open_stub(1000);
    submit(3, 1000);
    atomic_store(&shared->said, STUB_AHEAD);
    assert_int_equal(receive(3, 0, 100000000, &end), 0);
    atomic_store(&shared->received, 10);
    assert_int_equal(receive(3, 100000000, 1000000000, &end), 10);
}

/* Carried or not, it is valid, and its ranks' parts add up. */
TEST(what_it_says_of_itself_holds_for_all_its_ranks) {
    static _Alignas(8) char memory[4096];
    const struct stub_shape shape = {9, 3, 100, 10, 2000000, "n1", {7}};
    struct unit_id from = {4};
    for (int envelope = 0; envelope < 2; envelope++) {
        struct outbox box = {.memory = memory, .capacity = sizeof memory};
        stub_unit_say_hello(&box, &shape, envelope ? &from : NULL);
        stub_unit_say_load(&box, &shape, 11, envelope ? &from : NULL);
        const struct record *hello = machine_outbox_next(&box, NULL),
                            *load = machine_outbox_next(&box, hello);
        assert_true(record_valid(hello, hello->bytes) && record_valid(load, load->bytes));
        if (envelope) load = envelope_inner((const struct record_envelope *)load);
        struct record_unit_load *reported = (struct record_unit_load *)(uintptr_t)load;
        assert_int_equal(load->kind, RECORD_UNIT_LOAD);
        assert_int_equal(reported->pages_free, 300);
        assert_int_equal(load_ranks(reported)[0].requests_running, 5);
        assert_int_equal(load_ranks(reported)[2].requests_running, 3);
    }
}
