/* SPDX-License-Identifier: Apache-2.0
 * Protects keywords of numbers and strings.
 */

#include "base/check.h"
#include "schema_cases.h"

TEST(bounds_hold_in_the_forms_of_all_drafts) {
    holds("{\"minimum\":1,\"exclusiveMaximum\":3}", "[1,2.9,\"x\"]", "[0,3]");
    holds("{\"$schema\":\"http://json-schema.org/draft-04/"
          "schema#\",\"minimum\":1,\"exclusiveMinimum\":true}",
          "[2]", "[1]");
}

TEST(integers_and_multiples_are_held) {
    holds("{\"type\":\"integer\",\"multipleOf\":3}", "[9,-3,0]", "[1,1.5]");
    holds("{\"multipleOf\":0.01}", "[0.07]", "[0.075]");
}

TEST(draft_4_spells_integers_without_a_fraction) {
    rejects("{\"$schema\":\"http://json-schema.org/draft-04/schema#\",\"type\":\"integer\"}",
            "1.0");
    judges("{\"type\":\"integer\"}", "1.0");
}

/* Whoever judges a text takes every way to write a whole number; no answer is written so. */
TEST(integers_are_written_as_digits_alone) {
    static const char *const whole[] = {
        "{\"type\":\"integer\"}",
        "{\"type\":[\"integer\",\"null\"]}",
        "{\"type\":\"integer\",\"minimum\":1}",
        "{\"type\":\"integer\",\"maximum\":90,\"minimum\":-5}",
        "{\"type\":\"integer\",\"multipleOf\":3}",
        "{\"type\":\"integer\",\"not\":{\"const\":4}}",
        "{\"type\":\"number\",\"multipleOf\":1}",
        "{\"anyOf\":[{\"type\":\"integer\"},{\"const\":3.0}]}",
        "{\"allOf\":[{\"type\":\"number\"},{\"type\":\"integer\"}]}",
        "{\"const\":3.0}",
        "{\"const\":3}",
        "{\"enum\":[3.0,1,\"a\"]}",
    };
    for (size_t i = 0; i < ARRAY_COUNT(whole); i++) {
        accepts(whole[i], "3");
        rejects(whole[i], "3.0");
        rejects(whole[i], "3e0");
        rejects(whole[i], "3E+0");
    }
    judges("{\"type\":\"integer\"}", "6084064.8860e8860");
    holds("{\"type\":\"integer\"}", "[-12]", "[6084064.8860e8860,-0]");
    holds("{\"type\":\"array\",\"items\":{\"type\":\"integer\"}}", "[[0,10]]", "[[1.0]]");
    rejects("{\"properties\":{\"a\":{\"type\":\"integer\"}}}", "{\"a\":1e3}");
    holds("{\"not\":{\"type\":\"integer\"}}", "[1.5]", "[1.0,10.5e1]");
    accepts("{\"type\":\"number\"}", "3.0");
    accepts("{\"const\":1.5}", "1.5");
}

/* A reader's double must hold what an answer says. */
TEST(no_number_of_an_answer_is_infinite) {
    static const char *const free[] = {"{}", "{\"type\":\"number\"}", "{\"minimum\":0}",
                                       "{\"type\":\"number\",\"not\":{\"const\":7}}"};
    for (size_t i = 0; i < ARRAY_COUNT(free); i++) {
        rejects(free[i], "1e308");
        rejects(free[i], "1e0400");
        rejects(free[i], "2.5e+999");
        rejects(free[i], "12e307");
        judges("{}", "1e308");
        accepts(free[i], "2.50");
    }
    holds("{}", "[9.99e307,1e+05,0e-7,-1.5E-300,12.5e3]", "[]");
}

/* A bound may have any size; its digits count. */
TEST(bounds_beyond_64_bits_are_held) {
    static const char large[] = "{\"type\":\"integer\",\"maximum\":18446744073709551616}";
    holds(large, "[18446744073709551616]", "[18446744073709551617]");
    accepts("{\"multipleOf\":1e-2}", "0.07");
    holds("{\"enum\":[36893488147419103232]}", "[36893488147419103232]", "[36893488147419103233]");
    refuses("{\"properties\":{\"a\":{\"maximum\":1e999}}}", STATUS_UNSUPPORTED,
            "#/properties/a/maximum: the number 1e999 has too many digits");
    refuses("{\"multipleOf\":18446744073709551616}", STATUS_UNSUPPORTED, "#/multipleOf: ");
}

/* What is left out of a format must not come in by its contrary. */
TEST(formats_that_are_held_in_part_are_not_taken_away) {
    static const char *const texts[] = {
        "{\"not\":{\"format\":\"hostname\"}}",
        "{\"not\":{\"type\":\"string\",\"format\":\"hostname\"},\"minLength\":1}",
        "{\"not\":{\"format\":\"idn-email\"}}",
        "{\"not\":{\"format\":\"uri\",\"maxLength\":300}}",
        "{\"not\":{\"anyOf\":[{\"type\":\"null\"},{\"format\":\"email\",\"maxLength\":300}]}}",
    };
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++)
        refuses(texts[i], STATUS_UNSUPPORTED,
                "#/not: cannot take away a format that is held in part");
    refuses("{\"oneOf\":[{\"format\":\"hostname\"},{\"format\":\"ipv6\"}]}", STATUS_UNSUPPORTED,
            "#/oneOf: cannot take away");
    rejects("{\"not\":{\"format\":\"uri\"}}", "\"http://[::1]/\"");
    accepts("{\"type\":\"integer\",\"not\":{\"format\":\"hostname\",\"type\":\"string\"}}", "1");
    accepts("{\"not\":{\"type\":\"string\",\"not\":{\"type\":\"string\"},\"format\":\"hostname\"}}",
            "1");
}

TEST(lengths_count_characters) {
    holds("{\"minLength\":1,\"maxLength\":2}", "[\"\\u00e4\\u00f6\",1]", "[\"\",\"abc\"]");
    holds("{\"maxLength\":0}", "[\"\"]", "[\"a\"]");
}

TEST(patterns_are_found_anywhere_and_together_with_lengths) {
    holds("{\"pattern\":\"b\",\"maxLength\":3}", "[\"abc\"]", "[\"abcd\",\"ac\"]");
}

TEST(formats_of_the_drafts_bind_and_others_are_named) {
    holds("{\"format\":\"date\"}", "[\"2024-02-29\"]", "[\"2024-13-01\"]");
    struct schema_case one = {0};
    assert_int_equal(case_compile(&one, "{\"format\":\"mood\",\"items\":{\"format\":\"tone\"}}"),
                     STATUS_OK);
    assert_true(bytes_equal(one.ignored, bytes_of("mood, tone")));
}

/* As pydantic describes an HttpUrl, and others what a browser takes. */
TEST(an_address_may_be_counted_as_far_as_browsers_go) {
    static const char url[] =
        "{\"format\":\"uri\",\"maxLength\":2083,\"minLength\":1,\"type\":\"string\"}";
    static char text[2100];
    int count = snprintf(text, sizeof text, "\"https://a.example/%02066d\"", 0);
    assert_int_equal(count, 2083 + 2 + 1);
    rejects(url, text);
    memcpy(text + count - 2, "\"", 2);
    accepts(url, text);
    accepts(url, "\"https://a.example/b?c=d#e\"");
    rejects(url, "\"a.example\"");
    accepts("{\"format\":\"uri\",\"maxLength\":100}", "\"http://[::1]/\"");
}

TEST(what_cannot_bind_is_not_looked_at) {
    accepts("{\"type\":\"integer\",\"pattern\":\"(a)\\\\1\"}", "1");
}

TEST(wrong_keywords_are_named) {
    refuses("{\"properties\":{\"a\":{\"minLength\":\"1\"}}}", STATUS_INVALID,
            "#/properties/a/minLength: must be a number, is a string");
    refuses("{\"multipleOf\":0}", STATUS_INVALID, "#/multipleOf: must be above 0");
    refuses("{\"type\":\"string\",\"pattern\":\"(\"}", STATUS_INVALID, "#/pattern: ");
}
