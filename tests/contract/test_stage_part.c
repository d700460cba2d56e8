/* SPDX-License-Identifier: Apache-2.0
 * Protects the names of stages' parts: tables of measured times are read by them.
 */
#include "contract/stage_part.h"

#include "test_case.h"

TEST(names_differ_and_stages_ascend) {
    for (int i = 0; i < STAGE_PART_COUNT; i++) {
        enum stage_part part = (enum stage_part)i;
        assert_true(strlen(stage_part_name(part)) > 0);
        assert_null(strpbrk(stage_part_name(part), ", \n#"));
        for (int k = 0; k < i; k++) {
            assert_string_not_equal(stage_part_name(part), stage_part_name((enum stage_part)k));
            assert_true(stage_part_of((enum stage_part)k) <= stage_part_of(part));
        }
    }
    assert_string_equal(stage_part_name(PART_CORE), "core");
    assert_int_equal(stage_part_of(PART_CORE), STAGE_ATTENTION_1);
}

TEST(each_part_runs_for_tokens_or_for_experts) {
    for (int i = 0; i < STAGE_PART_COUNT; i++) {
        enum stage_part part = (enum stage_part)i;
        bool tokens = stage_part_is_in(part, STAGE_PHASE_DECODE) ||
                      stage_part_is_in(part, STAGE_PHASE_PROMPT);
        assert_true(tokens != stage_part_is_in(part, STAGE_PHASE_EXPERTS));
        bool index = part >= PART_INDEX_KEYS && part <= PART_INDEX_CHOICE;
        assert_int_equal(stage_part_is_optional(part), part == PART_DENSE || index);
    }
    assert_false(stage_part_is_in(PART_CORE, STAGE_PHASE_PROMPT));
    assert_false(stage_part_is_in(PART_CORE_PROMPT, STAGE_PHASE_DECODE));
    assert_true(stage_part_is_of_context(PART_CORE) && stage_part_is_of_context(PART_CORE_PROMPT));
    assert_true(stage_part_is_of_context(PART_INDEX_SCORE));
    assert_false(stage_part_is_of_context(PART_QUERY));
}
