/* SPDX-License-Identifier: Apache-2.0
 * Protects what is asked of a KV storage and of carriers of KV blocks, and what they tell: a rank
 * that is one, counts that agree with their blocks.
 */
#include "records.h"
#include "test_case.h"

/* Whoever routes KV records looks for the rank at one place. */
TEST(kv_records_name_their_rank) {
    int count = 0;
    for (size_t i = 0; i < good_records_count; i++) {
        struct record_kv *record = good_records[i]();
        if (!record_is_kv(&record->record)) continue;
        count++;
        record->rank = LIMIT_RANKS - 1;
        assert_true(record_valid(record, record->record.bytes));
        assert_int_equal(record_kv_rank(&record->record), LIMIT_RANKS - 1);
        record->rank = LIMIT_RANKS;
        assert_invalid(record);
        record->rank = 0;
        record->request.reserved = 1;
        assert_invalid(record);
    }
    assert_int_equal(count, RECORD_KV_HELLO - RECORD_KV_EXPECT + 1);
}

/* What is asked of a KV storage, and told by it. */
TEST(storage_is_checked) {
    struct record_kv_found *found = good_found();
    found->host_blocks = 3;
    assert_invalid(found);
    struct record_kv_load *load = good_kv_load();
    load->slot = LIMIT_UNIT_REQUESTS;
    assert_invalid(load);
    load = good_kv_load();
    load->in_step = 2;
    assert_invalid(load);
    struct record_kv_loaded *loaded = good_kv_loaded();
    loaded->end.ns = -1;
    assert_invalid(loaded);
    loaded = good_kv_loaded();
    loaded->end.host_blocks = 2;
    assert_invalid(loaded);
    struct record_kv_park *park = good_kv_park();
    park->slot = LIMIT_UNIT_REQUESTS;
    assert_invalid(park);
    struct record_kv_put *keep = good_keep();
    keep->block_count = 2;
    assert_invalid(keep);
    struct record_kv_stored *kept = good_kept();
    kept->writable = 2;
    assert_invalid(kept);
}

TEST(transfers_agree_with_their_blocks) {
    struct record_kv_expect *expect = good_expect();
    expect->token_count = KV_BLOCK_TOKENS;
    assert_invalid(expect);
    struct record_kv_push *push = good_push();
    push->first_block = UINT32_MAX;
    assert_invalid(push);
    push = good_push();
    push->making_count = 2; /* of one */
    push->step = 5;
    push->last = 0;
    assert_invalid(push);
    push->making_count = 1;
    assert_true(record_valid(&push->record, push->record.bytes));
    push->step = 0; /* by no step */
    assert_invalid(push);
    push->step = 5;
    push->last = 1; /* all are to stand */
    assert_invalid(push);
}
