/* SPDX-License-Identifier: Apache-2.0
 * Protects what a unit is told in the place of a dead rank's host of KV pages: each question that
 * is open gets one answer, that nothing came of it, for the same request, page and rank; what was
 * answered, wants no answer, or is answered with its step gets none.
 */
#include "contract/record_kv.h"
#include "host/transfer/kv_asked.h"
#include "test_case.h"

enum { RANK = 3 };

static void note(struct kv_asked *asked, enum record_kind kind, uint64_t request, uint32_t value) {
    union {
        struct record_kv kv;
        struct record_kv_push push;
        struct record_kv_load load;
        struct record_kv_put keep;
        struct record_kv_expect expect;
        struct record_kv_find find;
        char bytes[1024];
    } record = {.kv = {.request = {.low = request}, .rank = RANK}};
    if (kind == RECORD_KV_PUSH) record.push.first = value;
    if (kind == RECORD_KV_LOAD) record.load.in_step = value;
    if (kind == RECORD_KV_PUT) record.keep.last_page = value;
    if (kind == RECORD_KV_PUT) record.keep.block_count = 4;
    record_set_head(&record, kind);
    kv_asked_note(asked, &record.kv.record);
}

static void end(struct kv_asked *asked, enum record_kind kind, uint64_t request, uint32_t page) {
    union kv_answer answer = {.kept = {.request = {.low = request}, .rank = RANK}};
    if (kind == RECORD_KV_STORED) answer.kept.last_page = page;
    record_set_head(&answer, kind);
    kv_asked_end(asked, &answer.record);
}

/* The next answer is of that kind, about that request, and valid. */
static union kv_answer deny(struct kv_asked *asked, enum record_kind kind, uint64_t request) {
    union kv_answer answer;
    assert_true(kv_asked_deny(asked, &answer));
    assert_true(record_valid(&answer, answer.record.bytes));
    assert_int_equal(answer.record.kind, kind);
    assert_int_equal(record_request(&answer.record).low, request);
    assert_int_equal(record_kv_rank(&answer.record), RANK);
    return answer;
}

static void assert_none(struct kv_asked *asked) {
    union kv_answer answer;
    assert_false(kv_asked_deny(asked, &answer));
    kv_asked_free(asked);
}

TEST(each_question_has_its_answer) {
    struct kv_asked asked = {.count = 0};
    note(&asked, RECORD_KV_EXPECT, 1, 0);
    assert_false(deny(&asked, RECORD_KV_DONE, 1).done.arrived);
    note(&asked, RECORD_KV_PUSH, 2, 1);
    assert_false(deny(&asked, RECORD_KV_DONE, 2).done.arrived);
    note(&asked, RECORD_KV_FIND, 3, 0);
    assert_int_equal(deny(&asked, RECORD_KV_FOUND, 3).found.blocks, 0);
    note(&asked, RECORD_KV_LOAD, 4, 0);
    assert_int_equal(deny(&asked, RECORD_KV_LOADED, 4).loaded.end.blocks, 0);
    note(&asked, RECORD_KV_PARK, 5, 0);
    assert_int_equal(deny(&asked, RECORD_KV_LOADED, 5).loaded.end.blocks, 0);
    note(&asked, RECORD_KV_PUT, 0, 17);
    union kv_answer kept = deny(&asked, RECORD_KV_STORED, 0);
    assert_true(kept.kept.last_page == 17 && kept.kept.dropped == 4 && kept.kept.writable);
    assert_none(&asked);
}

TEST(what_is_answered_otherwise_is_not_answered_twice) {
    struct kv_asked asked = {.count = 0};
    note(&asked, RECORD_KV_PUSH, 1, 0);   /* the first one stands for all */
    note(&asked, RECORD_KV_LOAD, 2, 1);   /* with its step */
    note(&asked, RECORD_KV_CANCEL, 3, 0); /* with what it cancels */
    assert_none(&asked);
}

TEST(what_was_answered_is_not_open) {
    struct kv_asked asked = {.count = 0};
    for (uint32_t i = 0; i < 100; i++) {
        note(&asked, RECORD_KV_FIND, i, 0);
        note(&asked, RECORD_KV_EXPECT, i, 0);
        note(&asked, RECORD_KV_PUT, 0, i);
    }
    note(&asked, RECORD_KV_FIND, 50, 0); /* twice the same: each has an answer */
    for (uint32_t i = 0; i < 100; i++) {
        if (i != 30) end(&asked, RECORD_KV_FOUND, i, 0);
        if (i != 40) end(&asked, RECORD_KV_STORED, 0, i);
        end(&asked, RECORD_KV_DONE, i, 0);
        end(&asked, RECORD_KV_LOADED, i, 0); /* nobody asked */
    }
    uint32_t finds = 0, keeps = 0;
    union kv_answer answer;
    assert_int_equal(asked.count, 3);
    while (kv_asked_deny(&asked, &answer)) {
        bool find = answer.record.kind == RECORD_KV_FOUND;
        finds += find && (answer.found.request.low == 30 || answer.found.request.low == 50);
        keeps += !find && answer.kept.last_page == 40;
    }
    assert_true(finds == 2 && keeps == 1);
    assert_none(&asked);
}
