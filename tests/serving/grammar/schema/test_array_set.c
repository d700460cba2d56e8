/* SPDX-License-Identifier: Apache-2.0
 * Protects unions and differences of sets of arrays.
 */
#include "schema_cases.h"

static void an_array_fulfils_both_of_two_schemas(void **state) {
    holds("{\"allOf\":[{\"minItems\":1},{\"items\":{\"type\":\"integer\"},\"maxItems\":2}]}",
          "[[1],[1,2],\"x\"]", "[[],[1,2,3],[\"a\"]]");
}

static void an_array_that_may_not_be_breaks_its_length_or_an_item(void **state) {
    holds("{\"not\":{\"type\":\"array\",\"maxItems\":2,\"items\":{\"type\":\"string\"}}}",
          "[[1],[\"a\",1],[\"a\",\"b\",\"c\"],1]", "[[],[\"a\",\"b\"]]");
}

static void arrays_of_items_that_differ_need_no_counting(void **state) {
    holds("{\"oneOf\":[{\"type\":\"array\",\"items\":{\"type\":\"string\"}},{\"type\":\"array\","
          "\"items\":{\"type\":\"integer\"}}]}",
          "[[\"a\"],[1,2]]", "[[],[\"a\",1]]");
}

static void two_countings_of_one_array_are_refused(void **state) {
    refuses("{\"type\":\"array\",\"allOf\":[{\"contains\":{\"const\":1}},{\"contains\":{\"const\":"
            "2}}]}",
            STATUS_UNSUPPORTED, "#/allOf: cannot hold two contains");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_array_fulfils_both_of_two_schemas),
        cmocka_unit_test(an_array_that_may_not_be_breaks_its_length_or_an_item),
        cmocka_unit_test(arrays_of_items_that_differ_need_no_counting),
        cmocka_unit_test(two_countings_of_one_array_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
