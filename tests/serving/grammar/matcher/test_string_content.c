/* SPDX-License-Identifier: Apache-2.0
 * What may stand between the quotes of a string: escapes count as what they say.
 */
#include "matcher_cases.h"

#define TWO "{\"type\":\"string\",\"minLength\":2,\"maxLength\":2}"

TEST(characters_are_counted_however_they_are_written) {
    lets_through(TWO, "\"a\\u00e9\"");
    lets_through(TWO, "\"\\ud83d\\ude00\xF0\x9F\x98\x80\"");
    lets_through(TWO, "\"\\n\\\\\"");
    stops_before_last(TWO, "\"ab\\");
    stops_before_last(TWO, "\"ab\xC3");
    stops_before_last(TWO, "\"a\"");
}

TEST(what_is_no_text_is_not_let_through) {
    stops_before_last("{\"type\":\"string\"}", "\"\xC0");
    stops_before_last("{\"type\":\"string\"}", "\"\xED\xA0");
    stops_before_last("{\"type\":\"string\"}", "\"\xF4\x90");
    stops_before_last("{\"type\":\"string\"}", "\"\x1F");
    stops_before_last("{\"type\":\"string\"}", "\"\\x");
    stops_before_last("{\"type\":\"string\"}", "\"\\ud83dx");
    stops_before_last("{\"type\":\"string\"}", "\"\\udc");
    stops_before_last("{\"type\":\"string\"}", "\"\\ud83d\\u0");
}

TEST(an_escape_begins_only_where_it_can_be_finished) {
    const char *digits = "{\"type\":\"string\",\"pattern\":\"^[0-9]{2}$\"}";
    lets_through(digits, "\"\\u00319\"");
    stops_before_last(digits, "\"\\n");
    stops_before_last(digits, "\"\\u01");
    stops_before_last(digits, "\"\\u004");
    stops_before_last(digits, "\"12\\");
    stops_before_last("{\"type\":\"string\",\"pattern\":\"^\\ud83d\\ude00$\"}", "\"\\ud83c");
    lets_through("{\"type\":\"string\",\"pattern\":\"^\\ud83d\\ude00$\"}", "\"\\ud83d\\ude00\"");
}

TEST(a_key_is_the_same_however_it_is_written) {
    const char *one = "{\"properties\":{\"a\":{\"type\":\"null\"}},\"additionalProperties\":false}";
    lets_through(one, "{\"\\u0061\":null}");
    stops(one, "{\"\\u0061\":1");
    stops_before_last(one, "{\"a\":null,");
    stops_before_last(one, "{\"\\u007");
}
