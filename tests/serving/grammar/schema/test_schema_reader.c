/* SPDX-License-Identifier: Apache-2.0
 * Protects the counts of keywords, and the sorting of names.
 */
#include "schema_cases.h"
#include "serving/grammar/schema/schema_reader.h"

TEST(words_are_sorted_and_each_remains_once) {
    uint32_t words[] = {7, 3, 7, 0, 3, 9};
    static const uint32_t sorted[] = {0, 3, 7, 9};
    assert_int_equal(schema_reader_sort(words, 6), 4);
    assert_memory_equal(words, sorted, sizeof sorted);
    assert_int_equal(schema_reader_sort(words, 0), 0);
}

TEST(a_count_beyond_all_counts_is_none) {
    accepts("{\"maxItems\":1e12}", "[1,2]");
    refuses("{\"maxItems\":1.5}", STATUS_INVALID, "#/maxItems: must be a whole number");
}
