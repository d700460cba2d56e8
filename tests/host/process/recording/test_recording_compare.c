/* SPDX-License-Identifier: Apache-2.0
 * Protects what a replay says: records agree byte for byte, names of KV blocks up to naming, and a
 * difference is told by its place in the record's form.
 */
#include "host/process/recording/recording_compare.h"

#include "contract/machine.h"
#include "contract/record_unit.h"
#include "test_case.h"

static _Alignas(8) char memory[1 << 14];
static struct outbox box = {.memory = memory, .capacity = sizeof memory};
static struct recording_names *names;
static struct error difference;

static int open_all(void **state) {
    (void)state;
    machine_outbox_clear(&box);
    names = recording_compare_names_open();
    return 0;
}

static int close_all(void **state) {
    (void)state;
    recording_compare_names_close(names);
    return 0;
}

static struct record_tokens *make_tokens(uint32_t second) {
    struct record_tokens *record =
        machine_outbox_put_envelope(&box, RECORD_FROM_UNIT, (struct unit_id){1}, RECORD_TOKENS,
                                    &(struct record_tokens){.token_count = 2});
    tokens_chosen(record)[0] = 7;
    tokens_chosen(record)[1] = second;
    return record;
}

static const struct record *outer(struct record_tokens *record) {
    return (const struct record *)(void *)((char *)record - record_fixed_bytes(RECORD_FROM_UNIT));
}

TEST_AROUND(equal_records_agree, open_all, close_all) {
    struct record_tokens *a = make_tokens(8), *b = make_tokens(8);
    assert_true(recording_compare(names, outer(a), outer(b), &difference));
}

TEST_AROUND(a_difference_is_reported_by_its_place, open_all, close_all) {
    struct record_tokens *a = make_tokens(8), *b = make_tokens(9);
    assert_false(recording_compare(names, outer(a), outer(b), &difference));
    assert_string_equal(difference.text, "in the TOKENS that it carries, element 1 of its tail 0 "
                                         "differs: its byte 0 is 9, not 8");
    b->first_output_position = 3;
    assert_false(recording_compare(names, &a->record, &b->record, &difference));
    assert_string_equal(difference.text, "bytes 32 to 35 of its fields are 3, not 0");
    assert_false(recording_compare(names, outer(a), &b->record, &difference));
    assert_string_equal(difference.text, "it is a TOKENS");
}

static const struct record *make_find(uint32_t first, uint32_t second) {
    struct record_kv_find *find =
        machine_outbox_put(&box, RECORD_KV_FIND, &(struct record_kv_find){.key_count = 2});
    memset(&kv_find_keys(find)[0], (int)first, sizeof(struct block_key));
    memset(&kv_find_keys(find)[1], (int)second, sizeof(struct block_key));
    return (const struct record *)find;
}

TEST_AROUND(names_of_blocks_agree_up_to_naming, open_all, close_all) {
    assert_true(recording_compare(names, make_find(1, 2), make_find(5, 6), &difference));
    assert_true(recording_compare(names, make_find(2, 3), make_find(6, 7), &difference));
    assert_false(recording_compare(names, make_find(1, 2), make_find(6, 5), &difference));
    assert_string_equal(difference.text, "element 0 of its tail 0 names another KV block");
    assert_false(recording_compare(names, make_find(1, 9), make_find(5, 7), &difference));
    assert_string_equal(difference.text, "element 1 of its tail 0 names another KV block");
}

TEST_AROUND(many_names_are_remembered, open_all, close_all) {
    _Alignas(8) char one[128], two[128];
    for (int round = 0; round < 2; round++)
        for (uint64_t i = 0; i < 5000; i++) {
            struct outbox a = {.memory = one, .capacity = sizeof one};
            struct outbox b = {.memory = two, .capacity = sizeof two};
            struct record_kv_find fixed = {.key_count = 1};
            struct record_kv_find *recorded = machine_outbox_put(&a, RECORD_KV_FIND, &fixed);
            struct record_kv_find *found = machine_outbox_put(&b, RECORD_KV_FIND, &fixed);
            memcpy(kv_find_keys(recorded), &(uint64_t){i}, sizeof i);
            memcpy(kv_find_keys(found), &(uint64_t){i * 31 + 7}, sizeof i);
            assert_true(recording_compare(names, (const struct record *)recorded,
                                          (const struct record *)found, &difference));
        }
}
