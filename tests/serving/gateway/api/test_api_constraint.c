/* SPDX-License-Identifier: Apache-2.0
 * Protects the fields that bind an answer's text: each of the APIs' ways to ask becomes exactly one
 * form, a schema's members keep their order, fields that differ are refused by both names, and what
 * asks for nothing binds nothing.
 */
#include "serving/gateway/api/api_constraint.h"

#include "base/check.h"
#include "bodies.h"
#include "test_case.h"

#define SCHEMA "{\"type\":\"object\",\"properties\":{\"b\":{\"const\":1.5},\"a\":{}}}"
#define IN_STRING "\"{\\\"type\\\": \\\"object\\\", \\\"a\\\": 1}\""

static struct bodies bodies;

static void expect(const char *members, const char *form, const char *field) {
    const struct api_constraint *constraint = &bodies.request.constraint;
    if (!bytes_equal(constraint->form, bytes_of(form)))
        fail_msg("%s: %.*s", members, (int)constraint->form.count,
                 constraint->form.count ? constraint->form.data : "");
    assert_int_equal(constraint->at.count, 0);
    if (field)
        assert_string_equal(constraint->field, field);
    else
        assert_null(constraint->field);
}

static const struct {
    const char *members, *form, *field;
} asked[] = {
    /* OpenAI's, DeepSeek's */
    {"\"response_format\":{\"type\":\"text\"}", "", NULL},
    {"\"response_format\":{\"type\":\"json_object\"}", "{\"schema\":{\"type\":\"object\"}}",
     "response_format"},
    {"\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"n\",\"schema\":"
     " {\"type\": \"object\", \"properties\": {\"b\":{\"const\":1.5}, \"a\":{}}}}}",
     "{\"schema\":" SCHEMA "}", "response_format"},
    {"\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"n\",\"strict\":"
     "true,"
     "\"schema\":true}}",
     "{\"schema\":true}", "response_format"},
    {"\"strict_order\":true,\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{"
     "\"schema\":" SCHEMA "}}",
     "{\"schema\":" SCHEMA ",\"in_order\":true}", "response_format"},
    {"\"strict_order\":true", "", NULL},
    /* llama.cpp's */
    {"\"response_format\":{\"type\":\"json_object\",\"schema\":" SCHEMA "}",
     "{\"schema\":" SCHEMA "}", "response_format"},
    {"\"response_format\":{\"type\":\"json_schema\",\"schema\":" SCHEMA "}",
     "{\"schema\":" SCHEMA "}", "response_format"},
    {"\"json_schema\":" SCHEMA, "{\"schema\":" SCHEMA "}", "json_schema"},
    {"\"json_schema\":{}", "{\"schema\":{}}", "json_schema"},
    {"\"grammar\":\"root ::= \\\"a\\\"\\n\"", "{\"gbnf\":\"root ::= \\\"a\\\"\\n\"}", "grammar"},
    {"\"grammar\":\"\"", "", NULL},
    {"\"grammar\":\"\",\"grammar_lazy\":false,\"grammar_triggers\":[],\"preserved_tokens\":[]", "",
     NULL},
    /* vLLM's */
    {"\"guided_json\":" SCHEMA, "{\"schema\":" SCHEMA "}", "guided_json"},
    {"\"guided_json\":" IN_STRING, "{\"schema\":{\"type\":\"object\",\"a\":1}}", "guided_json"},
    {"\"guided_regex\":\"[a-z]+\\\\.\",\"guided_decoding_backend\":\"xgrammar\"",
     "{\"regex\":\"[a-z]+\\\\.\"}", "guided_regex"},
    {"\"guided_choice\":[\"yes\",\"n\\\"o\"]", "{\"choice\":[\"yes\",\"n\\\"o\"]}",
     "guided_choice"},
    {"\"guided_grammar\":\"root ::= [a]\"", "{\"gbnf\":\"root ::= [a]\"}", "guided_grammar"},
    {"\"guided_choice\":null,\"guided_regex\":\"\",\"guided_json\":null", "", NULL},
    {"\"structured_outputs\":{\"json\":" SCHEMA ",\"regex\":null,\"disable_fallback\":true}",
     "{\"schema\":" SCHEMA "}", "structured_outputs.json"},
    {"\"structured_outputs\":{\"json\":" IN_STRING "}",
     "{\"schema\":{\"type\":\"object\",\"a\":1}}", "structured_outputs.json"},
    {"\"structured_outputs\":{\"json_object\":true}", "{\"schema\":{\"type\":\"object\"}}",
     "structured_outputs.json_object"},
    {"\"structured_outputs\":{\"regex\":\"a|b\"}", "{\"regex\":\"a|b\"}",
     "structured_outputs.regex"},
    {"\"structured_outputs\":{\"choice\":[\"a\"]}", "{\"choice\":[\"a\"]}",
     "structured_outputs.choice"},
    {"\"structured_outputs\":{\"grammar\":\"root ::= [a]\"}", "{\"gbnf\":\"root ::= [a]\"}",
     "structured_outputs.grammar"},
    {"\"structured_outputs\":{\"json_object\":false,\"whitespace_pattern\":null}", "", NULL},
    /* SGLang's */
    {"\"json_schema\":" IN_STRING, "{\"schema\":{\"type\":\"object\",\"a\":1}}", "json_schema"},
    {"\"regex\":\"a|b\"", "{\"regex\":\"a|b\"}", "regex"},
    {"\"ebnf\":\"root ::= [a]\"", "{\"gbnf\":\"root ::= [a]\"}", "ebnf"},
    /* twice the same */
    {"\"response_format\":{\"type\":\"json_object\"},\"structured_outputs\":{\"json_object\":true}",
     "{\"schema\":{\"type\":\"object\"}}", "structured_outputs.json_object"},
    {"\"response_format\":{\"type\":\"text\"},\"regex\":\"a\",\"guided_regex\":\"a\"",
     "{\"regex\":\"a\"}", "regex"},
};

TEST(each_way_to_ask_becomes_its_form) {
    bodies_open(&bodies);
    for (size_t i = 0; i < ARRAY_COUNT(asked); i++) {
        if (!bodies_chat(&bodies, asked[i].members)) fail_msg("%s", bodies.error.message);
        expect(asked[i].members, asked[i].form, asked[i].field);
        if (!bodies_completion(&bodies, asked[i].members)) fail_msg("%s", bodies.error.message);
        expect(asked[i].members, asked[i].form, asked[i].field);
        assert_int_equal(bodies.request.warning.count, 0);
    }
}

static const struct {
    const char *members;
    uint32_t status;
    const char *param, *code;
} refused[] = {
    {"\"response_format\":\"json_object\"", 400, "response_format", "invalid_type"},
    {"\"response_format\":{}", 400, "response_format", "invalid_type"},
    {"\"response_format\":{\"type\":\"structural_tag\",\"structures\":[]}", 400, "response_format",
     "unsupported_parameter"},
    {"\"response_format\":{\"type\":\"json_schema\"}", 400, "response_format", "invalid_type"},
    {"\"response_format\":{\"type\":\"json_schema\",\"json_schema\":[]}", 400, "response_format",
     "invalid_type"},
    {"\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"n\"}}", 400,
     "response_format", "invalid_type"},
    {"\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":\"{}\"}}", 400,
     "response_format", "invalid_type"},
    {"\"strict_order\":1", 400, "strict_order", "invalid_type"},
    {"\"json_schema\":\"\"", 400, "json_schema", "invalid_json"},
    {"\"json_schema\":[]", 400, "json_schema", "invalid_type"},
    {"\"guided_json\":\"{\"", 400, "guided_json", "invalid_json"},
    {"\"guided_json\":\"[1]\"", 400, "guided_json", "invalid_type"},
    {"\"guided_json\":\"\\\"{}\\\"\"", 400, "guided_json", "invalid_type"},
    {"\"guided_regex\":{}", 400, "guided_regex", "invalid_type"},
    {"\"guided_choice\":\"a\"", 400, "guided_choice", "invalid_type"},
    {"\"guided_choice\":[]", 400, "guided_choice", "invalid_value"},
    {"\"guided_choice\":[\"a\",1]", 400, "guided_choice", "invalid_type"},
    {"\"guided_grammar\":1", 400, "guided_grammar", "invalid_type"},
    {"\"guided_whitespace_pattern\":\" *\"", 400, "guided_whitespace_pattern",
     "unsupported_parameter"},
    {"\"structured_outputs\":[]", 400, "structured_outputs", "invalid_type"},
    {"\"structured_outputs\":{\"json_object\":1}", 400, "structured_outputs.json_object",
     "invalid_type"},
    {"\"structured_outputs\":{\"structural_tag\":\"{}\"}", 400, "structured_outputs.structural_tag",
     "unsupported_parameter"},
    {"\"structured_outputs\":{\"json\":{},\"whitespace_pattern\":\" *\"}", 400,
     "structured_outputs.whitespace_pattern", "unsupported_parameter"},
    {"\"structured_outputs\":{\"json\":{},\"regex\":\"a\"}", 400, "structured_outputs.regex",
     "invalid_value"},
    {"\"response_format\":{\"type\":\"json_object\"},\"guided_json\":{}", 400, "guided_json",
     "invalid_value"},
    {"\"regex\":\"a\",\"ebnf\":\"root ::= [a]\"", 400, "ebnf", "invalid_value"},
    {"\"json_schema\":{},\"grammar\":\"root ::= [a]\"", 400, "grammar", "invalid_value"},
    {"\"structural_tag\":\"{}\"", 400, "structural_tag", "unsupported_parameter"},
    {"\"grammar\":\"root ::= [a]\",\"grammar_lazy\":true", 400, "grammar_lazy",
     "unsupported_parameter"},
    {"\"grammar_triggers\":[{\"value\":\"x\"}]", 400, "grammar_triggers", "unsupported_parameter"},
};

TEST(each_mistake_is_named) {
    bodies_open(&bodies);
    for (size_t i = 0; i < ARRAY_COUNT(refused); i++) {
        if (bodies_chat(&bodies, refused[i].members)) fail_msg("accepted: %s", refused[i].members);
        bodies_refused(&bodies, refused[i].status, refused[i].param, refused[i].code);
        assert_false(bodies_completion(&bodies, refused[i].members));
    }
}

TEST(two_that_differ_are_both_named) {
    bodies_open(&bodies);
    assert_false(bodies_chat(&bodies, "\"guided_regex\":\"a\",\"guided_choice\":[\"a\"]"));
    assert_string_equal(bodies.error.message,
                        "'guided_regex' and 'guided_choice' say different things about what the "
                        "answer has to be.");
}

TEST(a_schema_in_a_string_has_the_limits_of_a_body) {
    static char members[4096];
    size_t at = 0;
    bodies_open(&bodies);
    at += (size_t)(stpcpy(members, "\"guided_json\":\"") - members);
    for (size_t i = 0; i <= LIMIT_BODY_DEPTH; i++)
        members[at++] = '[';
    for (size_t i = 0; i <= LIMIT_BODY_DEPTH; i++)
        members[at++] = ']';
    members[at++] = '"';
    members[at] = 0;
    assert_false(bodies_chat(&bodies, members));
    bodies_refused(&bodies, 413, "guided_json", "request_too_large");
}
