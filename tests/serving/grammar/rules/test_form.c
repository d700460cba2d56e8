/* SPDX-License-Identifier: Apache-2.0
 * Protects what forms mean, and that what is none is refused by its keyword.
 */
#include "form_cases.h"
#include "test_case.h"

TEST(a_schema_alone_is_a_json_text) {
    const char *form = "{\"schema\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":"
                       "\"integer\"},\"b\":{}},\"additionalProperties\":false},\"in_order\":true}";
    takes(form, "\n{\"a\":1,\"b\":[]}");
    takes(form, "{\"b\":2}");
    breaks(form, "{\"b\":2,\"a\":1}");
    breaks(form, " {");
    breaks(form, "\n\n");
    breaks(form, "{} ");
}

TEST(regexes_choices_and_texts_match_as_a_whole) {
    takes("{\"regex\":\"^a+|b$\"}", "aa");
    takes("{\"regex\":\"^a+|b$\"}", "b");
    goes_on("{\"regex\":\"[0-9]{3}-[0-9]\"}", "123-");
    breaks("{\"regex\":\"[0-9]{3}-[0-9]\"}", "x");
    takes("{\"choice\":[\"yes\",\"no\",\"n\xC3\xB6\"]}", "n\xC3\xB6");
    takes("{\"choice\":[\"yes\",\"no\"]}", "no");
    breaks("{\"choice\":[\"yes\",\"no\"]}", "nox");
    takes("{\"text\":\"a\\u0001\xF0\x9F\x98\x80\"}", "a\x01\xF0\x9F\x98\x80");
    takes("{\"text\":\"\"}", "");
    goes_on("{\"text\":\"ab\"}", "a");
}

TEST(an_added_token_comes_as_that_token_alone) {
    const char *form = "{\"sequence\":[{\"token\":\"<call>\"},{\"text\":\"f\"},{\"token\":"
                       "\"</call>\"}]}";
    struct form_case one;
    takes(form, "<call>f</call>");
    breaks(form, "<");
    breaks(form, "</call>");
    breaks("{\"text\":\"<call>\"}", "<call>");
    form_run(&one, "{\"text\":\"<call>\"}");
    struct grammar_position at =
        matcher_push(one.matcher, matcher_begin(one.matcher), BYTES_LITERAL("<call>"));
    assert_true(at.number && matcher_may_end(one.matcher, at));
}

TEST(a_token_that_must_come_is_forced) {
    struct form_case one;
    uint32_t token = 0;
    form_run(&one, "{\"sequence\":[{\"regex\":\"a*b\"},{\"token\":\"</call>\"},{\"repeat\":"
                   "{\"token\":\"<call>\"}}]}");
    assert_false(matcher_forced_token(one.matcher, form_push(&one, "a"), &token));
    assert_true(matcher_forced_token(one.matcher, form_push(&one, "ab"), &token));
    assert_int_equal(token, CALLED);
    assert_false(matcher_forced_token(one.matcher, form_push(&one, "ab</call>"), &token));
    form_run(&one, "{\"any\":[{\"token\":\"<call>\"},{\"token\":\"</call>\"}]}");
    assert_false(matcher_forced_token(one.matcher, form_push(&one, ""), &token));
    form_run(&one, "{\"sequence\":[{\"schema\":{\"type\":\"integer\"}},{\"token\":\"<call>\"}]}");
    assert_false(matcher_forced_token(one.matcher, form_push(&one, "1"), &token));
}

TEST(values_stand_in_sequences_without_blanks) {
    const char *form = "{\"sequence\":[{\"text\":\"x=\"},{\"schema\":{\"type\":\"number\"}},"
                       "{\"text\":\"5!\"}]}";
    const char *call = "{\"sequence\":[{\"token\":\"<call>\"},{\"schema\":{\"type\":\"object\"}},"
                       "{\"token\":\"</call>\"}]}";
    takes(form, "x=15!");
    takes(form, "x=-1.25e+75!");
    goes_on(form, "x=155");
    breaks(form, "x= ");
    breaks(form, "x=1 ");
    takes(call, "<call>{\"a\": {}}</call>");
    breaks(call, "<call> ");
    breaks(call, "<call>{} ");
    takes("{\"sequence\":[{\"schema\":{\"type\":\"integer\"}},{\"token\":\"<call>\"}]}",
          "12<call>");
    takes("{\"sequence\":[{\"schema\":true},{\"schema\":true}]}", "1[]");
}

TEST(values_of_several_schemas_stand_side_by_side) {
    const char *tools =
        "{\"repeat\":{\"any\":[{\"sequence\":[{\"text\":\"f\"},{\"schema\":{\"type\":\"object\","
        "\"properties\":{\"a\":{\"enum\":[1]},\"u\":{\"type\":\"array\",\"items\":{\"enum\":[\"x\","
        "\"y\"]},\"uniqueItems\":true}},\"required\":[\"a\"],\"additionalProperties\":false}}]},"
        "{\"sequence\":[{\"text\":\"g\"},{\"schema\":{\"type\":\"object\",\"properties\":{\"b\":{"
        "\"type\":\"array\",\"prefixItems\":[{\"const\":\"q\"}],\"items\":false},\"c\":{}},"
        "\"dependentRequired\":{\"b\":[\"c\"]},\"additionalProperties\":false}}]}]},\"least\":1,"
        "\"most\":2}";
    takes(tools, "f{\"a\":1}");
    takes(tools, "f{\"a\":1,\"u\":[\"x\",\"y\"]}g{\"b\":[\"q\"],\"c\":0}");
    takes(tools, "g{\"c\":1}g{}");
    breaks(tools, "f{\"a\":1,\"u\":[\"x\",\"x\"");
    breaks(tools, "f{}");
    breaks(tools, "g{\"b\":[\"q\"]}");
    breaks(tools, "g{}g{}g");
    breaks(tools, "g{\"a");
}

TEST(repetitions_keep_their_bounds) {
    static char text[6000];
    const char *many = "{\"repeat\":{\"sequence\":[{\"schema\":{\"type\":\"boolean\"}},{\"text\":"
                       "\",\"}]},\"least\":1000,\"most\":10000}";
    struct form_case one;
    takes("{\"repeat\":{\"choice\":[\"a\",\"bb\"]},\"least\":2,\"most\":3}", "abb");
    goes_on("{\"repeat\":{\"choice\":[\"a\",\"bb\"]},\"least\":2,\"most\":3}", "bb");
    breaks("{\"repeat\":{\"choice\":[\"a\",\"bb\"]},\"least\":2,\"most\":3}", "aaaa");
    takes("{\"repeat\":{\"text\":\"\"},\"least\":100000}", "");
    form_run(&one, many);
    for (size_t i = 0; i < 1000; i++)
        memcpy(text + 5 * i, "true,", 5);
    struct grammar_position at = matcher_begin(one.matcher);
    for (size_t i = 0; i < 1000; i++) {
        assert_false(matcher_may_end(one.matcher, at));
        at = matcher_push(one.matcher, at, BYTES_LITERAL("true,"));
        assert_true(matcher_compact(one.matcher, &at));
    }
    assert_true(matcher_may_end(one.matcher, at));
    form_refuses("{\"repeat\":{\"text\":\"ab\"},\"least\":1000000}", STATUS_TOO_LARGE,
                 "the form: ");
    form_refuses("{\"repeat\":{\"repeat\":{\"repeat\":{\"text\":\"ab\"},\"most\":9000},\"most\":"
                 "9000},\"least\":900000}",
                 STATUS_TOO_LARGE, "the form: ");
}

TEST(large_repetitions_of_repetitions_are_calls) {
    const char *form = "{\"repeat\":{\"repeat\":{\"repeat\":{\"text\":\"ab\"},\"least\":90,"
                       "\"most\":90},\"least\":90,\"most\":90},\"least\":1,\"most\":900}";
    struct form_case one;
    form_run(&one, form);
    struct grammar_position at = matcher_begin(one.matcher);
    for (uint32_t i = 0; i < 8100; i++) {
        assert_false(matcher_may_end(one.matcher, at));
        at = matcher_push(one.matcher, at, BYTES_LITERAL("ab"));
        assert_true(matcher_compact(one.matcher, &at));
    }
    assert_true(matcher_may_end(one.matcher, at));
}

TEST(what_is_no_form_is_refused_by_its_keyword) {
    form_refuses("[]", STATUS_INVALID, "a form must be an object, is an array");
    form_refuses("{}", STATUS_INVALID, "a form has one keyword");
    form_refuses("{\"schema\":true,\"text\":\"a\"}", STATUS_INVALID,
                 "a form has one keyword, found schema and text");
    form_refuses("{\"sentence\":true}", STATUS_INVALID, "sentence: is not a keyword of a form");
    form_refuses("{\"schema\":{\"type\":1}}", STATUS_INVALID, "#/type: ");
    form_refuses("{\"schema\":{\"not\":{\"minLength\":3}},\"in_order\":1}", STATUS_INVALID,
                 "in_order: expected true or false");
    form_refuses("{\"regex\":\"(\"}", STATUS_INVALID, "regex: ( without ) at byte 1");
    form_refuses("{\"regex\":\"[]\"}", STATUS_INVALID, "regex: no text matches");
    form_refuses("{\"regex\":\"(a)\\\\1\"}", STATUS_UNSUPPORTED, "regex: a back reference");
    form_refuses("{\"regex\":\"a.{60}|.*b.{60}\"}", STATUS_TOO_LARGE, "regex: ");
    form_refuses("{\"choice\":[]}", STATUS_INVALID, "choice: expected a list of strings");
    form_refuses("{\"choice\":[1]}", STATUS_INVALID, "choice: expected a string, found an integer");
    form_refuses("{\"any\":[]}", STATUS_INVALID, "any: expected a list of forms");
    form_refuses("{\"sequence\":{}}", STATUS_INVALID, "sequence: expected a list of forms");
    form_refuses("{\"repeat\":{\"text\":\"a\"},\"least\":2,\"most\":1}", STATUS_INVALID, "most: ");
    form_refuses("{\"repeat\":{\"text\":\"a\"},\"least\":-1}", STATUS_INVALID, "least: expected");
    form_refuses("{\"token\":\"<none>\"}", STATUS_INVALID,
                 "token: the tokenizer has no added token '<none>'");
    form_refuses("{\"token\":\"a\"}", STATUS_INVALID, "token: the tokenizer has no added token");
}

TEST(a_form_that_is_nested_too_deep_is_refused) {
    static char text[8000];
    size_t count = 0;
    for (uint32_t i = 0; i < 300; i++)
        count += (size_t)snprintf(text + count, sizeof text - count, "{\"sequence\":[");
    count += (size_t)snprintf(text + count, sizeof text - count, "{\"text\":\"a\"}");
    for (uint32_t i = 0; i < 300; i++)
        count += (size_t)snprintf(text + count, sizeof text - count, "]}");
    form_refuses(text, STATUS_TOO_LARGE, "sequence: forms are nested more than 256 deep");
}
