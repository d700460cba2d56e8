/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/report/words.h"

#include <math.h>

#include "test_case.h"

static char text[256];

static const char *number_of(double value) {
    struct json_writer writer = {.out = text, .room = sizeof text - 1};
    words_number(&writer, value);
    text[writer.count] = 0;
    return text;
}

static const char *short_of(double value) {
    words_short(value, text);
    return text;
}

/* JSON knows neither infinity nor NaN; what is none would make the whole text unreadable. */
TEST(numbers_are_json) {
    assert_string_equal(number_of(3), "3");
    assert_string_equal(number_of(-0.5), "-0.5");
    assert_string_equal(number_of(INFINITY), "null");
    assert_string_equal(number_of(NAN), "null");
}

TEST(numbers_for_people_are_short) {
    assert_string_equal(short_of(0), "0");
    assert_string_equal(short_of(0.02734), "0.0273");
    assert_string_equal(short_of(4713), "4713");
    assert_string_equal(short_of(14812), "14.8k");
    assert_string_equal(short_of(1.944e6), "1.94M");
    assert_string_equal(short_of(-14812), "-14.8k");
}

/* A scenario's name or a source's text may hold anything. */
TEST(html_is_escaped) {
    struct json_writer writer = {.out = text, .room = sizeof text - 1};
    words_html(&writer, BYTES_LITERAL("<a href=\"x\">&"));
    text[writer.count] = 0;
    assert_string_equal(text, "&lt;a href=&quot;x&quot;&gt;&amp;");
}
