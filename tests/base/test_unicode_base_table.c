/* SPDX-License-Identifier: Apache-2.0
 * Protects what the search in the tables relies on: rows ascend and do not overlap, and texts lie
 * one after the other. */
#include "base/unicode_base_table.h"

#include "test_case.h"

TEST(runs_ascend_without_overlap) {
    uint32_t end = 0;
    for (uint32_t i = 0; i < UNICODE_BASE_RUNS; i++) {
        const uint32_t first = unicode_base_runs[i][0] & 0x1FFFFF;
        const uint32_t count = unicode_base_runs[i][0] >> 21 & 0x3FF;
        assert_true(count > 0 && (i == 0 || first >= end));
        end = first + 1;
    }
}

TEST(texts_follow_one_another) {
    for (uint32_t i = 0; i < UNICODE_BASE_SEVERAL; i++) {
        assert_true(unicode_base_several[i][0] < unicode_base_several[i + 1][0]);
        assert_true(unicode_base_several[i][1] <= unicode_base_several[i + 1][1]);
        assert_true(unicode_base_several[i + 1][1] - unicode_base_several[i][1] <=
                    UNICODE_BASE_LONGEST);
    }
    assert_int_equal(unicode_base_several[UNICODE_BASE_SEVERAL][1], UNICODE_BASE_TEXT);
}
