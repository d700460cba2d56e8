/* SPDX-License-Identifier: Apache-2.0
 * Protects what the matcher computes of a program before it runs.
 */
#include "matcher_cases.h"

#include "serving/grammar/matcher/grammar.h"

TEST(equal_leaves_are_one) {
    struct matcher_case one;
    case_open(&one, "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\"},\"b\":"
                    "{\"type\":[\"string\",\"null\"]}},\"additionalProperties\":false}");
    assert_int_equal(one.grammar->leaf_count, 2); /* all strings, and the keys */
}
