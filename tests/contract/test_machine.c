/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/machine.h"
#include "contract/record_client.h"
#include "contract/record_unit.h"
#include "test_case.h"

/* Records stand aligned one behind the other and come out in order; a full outbox is left alone. */
TEST(an_outbox_gives_back_what_was_put) {
    static _Alignas(8) char memory[128];
    struct outbox outbox = {.memory = memory, .capacity = sizeof memory};
    memset(memory, 0xAA, sizeof memory);
    assert_null(machine_outbox_next(&outbox, NULL));
    struct record_cancel *cancel =
        machine_outbox_put(&outbox, RECORD_CANCEL, &(struct record_cancel){.request.low = 5});
    struct record_stream_data *data = machine_outbox_put(
        &outbox, RECORD_STREAM_DATA, &(struct record_stream_data){.data_bytes = 3});
    assert_non_null(cancel);
    assert_non_null(data);
    assert_int_equal(cancel->request.low, 5);
    assert_int_equal(cancel->request.high, 0);
    assert_memory_equal(stream_data(data), "\0\0\0", 3);
    assert_int_equal(data->record.bytes, sizeof *data + 8);
    assert_int_equal(outbox_room(&outbox), 128 - outbox.used);
    uint32_t used = outbox.used;
    struct record_stream_data much = {.data_bytes = 128 - used};
    assert_null(machine_outbox_put(&outbox, RECORD_STREAM_DATA, &much));
    assert_int_equal(outbox.used, used);

    const struct record *first = machine_outbox_next(&outbox, NULL);
    assert_ptr_equal(first, cancel);
    assert_int_equal(first->kind, RECORD_CANCEL);
    const struct record *second = machine_outbox_next(&outbox, first);
    assert_ptr_equal(second, data);
    assert_null(machine_outbox_next(&outbox, second));
    machine_outbox_clear(&outbox);
    assert_null(machine_outbox_next(&outbox, NULL));
}

/* Records are equal bytes where they are equal: what no element covers is zero, whatever the memory
 * held before. */
TEST(a_bare_record_has_zeros_between_its_tails) {
    static _Alignas(8) char memory[2048];
    const struct record_tokens fixed = {.request.low = 5, .token_count = 3, .logprobs_each = 1};
    struct outbox bare = {.memory = memory, .capacity = sizeof memory / 2};
    struct outbox zeroed = {.memory = memory + sizeof memory / 2, .capacity = sizeof memory / 2};
    memset(memory, 0xAA, sizeof memory);
    struct record_tokens *records[] = {machine_outbox_put_bare(&bare, RECORD_TOKENS, &fixed),
                                       machine_outbox_put(&zeroed, RECORD_TOKENS, &fixed)};
    for (int i = 0; i < 2; i++)
        for (uint32_t token = 0; token < 3; token++) {
            tokens_chosen(records[i])[token] = token;
            tokens_logprobs(records[i])[token] = (struct token_logprob){token, -1};
        }
    assert_int_equal(bare.used, zeroed.used);
    assert_memory_equal(records[0], records[1], bare.used);
    assert_true(record_valid(records[0], records[0]->record.bytes));
    struct record_tokens much = {.token_count = sizeof memory};
    uint32_t used = bare.used;
    assert_null(machine_outbox_put_bare(&bare, RECORD_TOKENS, &much));
    assert_int_equal(bare.used, used);
}

TEST(a_record_may_be_written_where_it_stays) {
    static _Alignas(8) char memory[64];
    struct outbox outbox = {.memory = memory, .capacity = sizeof memory};
    size_t bytes = record_bytes(RECORD_CANCEL, NULL);
    struct record_cancel *cancel = machine_outbox_put_head(&outbox, RECORD_CANCEL, bytes);
    assert_non_null(cancel);
    cancel->request = (struct request_id){.low = 7};
    assert_true(record_valid(cancel, bytes));
    assert_ptr_equal(machine_outbox_next(&outbox, NULL), cancel);
    assert_int_equal(outbox.used, bytes);
    assert_null(machine_outbox_put_head(&outbox, RECORD_CANCEL, sizeof memory));
    assert_int_equal(outbox.used, bytes);
}

static enum status full_while_used(void *self, const struct record *record, int64_t now_ns) {
    struct outbox *outbox = self;
    if (outbox->used) return STATUS_FULL;
    assert_non_null(machine_outbox_put(outbox, (enum record_kind)record->kind, record));
    return STATUS_OK;
}

TEST(a_full_machine_takes_a_record_when_its_outbox_is_empty) {
    static _Alignas(8) char memory[64];
    struct outbox outbox = {.memory = memory, .capacity = sizeof memory};
    const struct machine machine = {.self = &outbox, .outbox = &outbox, .receive = full_while_used};
    struct record_cancel cancel = {.request = {.low = 7}};
    record_set_head(&cancel, RECORD_CANCEL);
    assert_true(machine_pass(&machine, &cancel.record, 1));
    assert_false(machine_pass(&machine, &cancel.record, 1));
    machine_outbox_clear(&outbox);
    assert_true(machine_pass(&machine, &cancel.record, 1));
    assert_int_equal(outbox.used, cancel.record.bytes);
}
