/* SPDX-License-Identifier: Apache-2.0
 * Protects unions and differences of sets of arrays.
 */
#include "schema_cases.h"

TEST(an_array_fulfils_both_of_two_schemas) {
    holds("{\"allOf\":[{\"minItems\":1},{\"items\":{\"type\":\"integer\"},\"maxItems\":2}]}",
          "[[1],[1,2],\"x\"]", "[[],[1,2,3],[\"a\"]]");
}

TEST(an_array_that_may_not_be_breaks_its_length_or_an_item) {
    holds("{\"not\":{\"type\":\"array\",\"maxItems\":2,\"items\":{\"type\":\"string\"}}}",
          "[[1],[\"a\",1],[\"a\",\"b\",\"c\"],1]", "[[],[\"a\",\"b\"]]");
}

TEST(arrays_of_items_that_differ_need_no_counting) {
    holds("{\"oneOf\":[{\"type\":\"array\",\"items\":{\"type\":\"string\"}},{\"type\":\"array\","
          "\"items\":{\"type\":\"integer\"}}]}",
          "[[\"a\"],[1,2]]", "[[],[\"a\",1]]");
}

TEST(two_countings_of_one_array_are_refused) {
    refuses("{\"type\":\"array\",\"allOf\":[{\"contains\":{\"const\":1}},{\"contains\":{\"const\":"
            "2}}]}",
            STATUS_UNSUPPORTED, "#/allOf: cannot hold two contains");
}
