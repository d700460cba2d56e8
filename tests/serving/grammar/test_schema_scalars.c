/* SPDX-License-Identifier: Apache-2.0
 * Protects keywords of numbers and strings.
 */
#include <stdio.h>

#include "schema_cases.h"

static void bounds_hold_in_the_forms_of_all_drafts(void **state) {
    accepts("{\"minimum\":1,\"exclusiveMaximum\":3}", "1");
    accepts("{\"minimum\":1,\"exclusiveMaximum\":3}", "2.9");
    accepts("{\"minimum\":1,\"exclusiveMaximum\":3}", "\"x\"");
    rejects("{\"minimum\":1,\"exclusiveMaximum\":3}", "0");
    rejects("{\"minimum\":1,\"exclusiveMaximum\":3}", "3");
    rejects("{\"$schema\":\"http://json-schema.org/draft-04/"
            "schema#\",\"minimum\":1,\"exclusiveMinimum\":true}",
            "1");
    accepts("{\"$schema\":\"http://json-schema.org/draft-04/"
            "schema#\",\"minimum\":1,\"exclusiveMinimum\":true}",
            "2");
}

static void integers_and_multiples_are_held(void **state) {
    accepts("{\"type\":\"integer\",\"multipleOf\":3}", "9");
    accepts("{\"type\":\"integer\",\"multipleOf\":3}", "-3");
    accepts("{\"type\":\"integer\",\"multipleOf\":3}", "0");
    rejects("{\"type\":\"integer\",\"multipleOf\":3}", "1");
    rejects("{\"type\":\"integer\",\"multipleOf\":3}", "1.5");
    accepts("{\"multipleOf\":0.01}", "0.07");
    rejects("{\"multipleOf\":0.01}", "0.075");
}

static void draft_4_spells_integers_without_a_fraction(void **state) {
    rejects("{\"$schema\":\"http://json-schema.org/draft-04/schema#\",\"type\":\"integer\"}",
            "1.0");
    accepts("{\"type\":\"integer\"}", "1.0");
}

static void lengths_count_characters(void **state) {
    accepts("{\"minLength\":1,\"maxLength\":2}", "\"\\u00e4\\u00f6\"");
    accepts("{\"minLength\":1,\"maxLength\":2}", "1");
    rejects("{\"minLength\":1,\"maxLength\":2}", "\"\"");
    rejects("{\"minLength\":1,\"maxLength\":2}", "\"abc\"");
    accepts("{\"maxLength\":0}", "\"\"");
    rejects("{\"maxLength\":0}", "\"a\"");
}

static void patterns_are_found_anywhere_and_together_with_lengths(void **state) {
    accepts("{\"pattern\":\"b\",\"maxLength\":3}", "\"abc\"");
    rejects("{\"pattern\":\"b\",\"maxLength\":3}", "\"abcd\"");
    rejects("{\"pattern\":\"b\",\"maxLength\":3}", "\"ac\"");
}

static void formats_of_the_drafts_bind_and_others_are_named(void **state) {
    accepts("{\"format\":\"date\"}", "\"2024-02-29\"");
    rejects("{\"format\":\"date\"}", "\"2024-13-01\"");
    struct schema_case one = {0};
    assert_int_equal(case_compile(&one, "{\"format\":\"mood\",\"items\":{\"format\":\"tone\"}}"),
                     STATUS_OK);
    assert_true(bytes_equal(one.ignored, bytes_of("mood, tone")));
}

/* As pydantic describes an HttpUrl, and others what a browser takes. */
static void an_address_may_be_counted_as_far_as_browsers_go(void **state) {
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

static void what_cannot_bind_is_not_looked_at(void **state) {
    accepts("{\"type\":\"integer\",\"pattern\":\"(a)\\\\1\"}", "1");
}

static void wrong_keywords_are_named(void **state) {
    refuses("{\"properties\":{\"a\":{\"minLength\":\"1\"}}}", STATUS_INVALID,
            "#/properties/a/minLength: must be a number, is a string");
    refuses("{\"multipleOf\":0}", STATUS_INVALID, "#/multipleOf: must be above 0");
    refuses("{\"type\":\"string\",\"pattern\":\"(\"}", STATUS_INVALID, "#/pattern: ");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounds_hold_in_the_forms_of_all_drafts),
        cmocka_unit_test(integers_and_multiples_are_held),
        cmocka_unit_test(draft_4_spells_integers_without_a_fraction),
        cmocka_unit_test(lengths_count_characters),
        cmocka_unit_test(patterns_are_found_anywhere_and_together_with_lengths),
        cmocka_unit_test(formats_of_the_drafts_bind_and_others_are_named),
        cmocka_unit_test(an_address_may_be_counted_as_far_as_browsers_go),
        cmocka_unit_test(what_cannot_bind_is_not_looked_at),
        cmocka_unit_test(wrong_keywords_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
