/* SPDX-License-Identifier: Apache-2.0
 * What becomes of rules: which are called, which stand in the place of their calls, and what may
 * come before and behind them.
 */
#include "form_cases.h"
#include "serving/grammar/rules/grammar_program.h"
#include "test_case.h"

static const struct grammar_program *program_of(const char *grammar) {
    static struct form_case one;
    form_run(&one, grammar);
    return one.program;
}

TEST(small_rules_without_recursion_stand_in_the_place_of_their_calls) {
    assert_int_equal(program_of("root ::= a a\na ::= b | \"c\" b\nb ::= [0-9]+")->rule_count, 1);
    const struct grammar_program *program =
        program_of("root ::= \"<\" list \">\"\nlist ::= item (\",\" item)*\n"
                   "item ::= word | \"(\" list \")\"\nword ::= [a-z]+");
    assert_int_equal(program->rule_count, 3); /* root, list and item */
    assert_false(program->has_tokens);
}

TEST(what_comes_often_is_called_where_copies_would_be_too_large) {
    assert_int_equal(program_of("root ::= (\"ab\" [0-9]){9}")->rule_count, 1);
    assert_int_equal(program_of("root ::= (\"ab\" [0-9]){2000}")->rule_count, 2);
}

TEST(it_is_known_what_rules_begin_with_and_what_follows_them) {
    const struct grammar_program *program =
        program_of("root ::= item \"!\"\nitem ::= [ab] | \"(\" item (\",\" item)* \")\"");
    const struct grammar_rule *item = &program->rules[1];
    for (uint32_t byte = 0; byte < 256; byte++) {
        assert_int_equal(byte_set_has(&item->begins, (uint8_t)byte),
                         byte == 'a' || byte == 'b' || byte == '(');
        assert_int_equal(byte_set_has(&item->follows, (uint8_t)byte),
                         byte == '!' || byte == ',' || byte == ')');
    }
    assert_true(item->last != 0 && !item->begins_with_token);
    assert_true(program_of("root ::= <call>")->rules[0].begins_with_token);
}

TEST(no_symbol_can_be_spelt_by_a_text) {
    struct form_case one;
    form_run(&one, "root ::= \"x\" | \"(\" root \")\" | <call>");
    struct grammar_position at = matcher_begin(one.matcher);
    for (uint32_t lead = 0x80; lead < 256; lead++)
        assert_false(matcher_push_token(one.matcher, at, lead).number);
}

TEST(hostile_grammars_cost_bounded_work) {
    static char text[1 << 16];
    size_t used = (size_t)snprintf(text, sizeof text, "root ::= r0\n");
    for (int i = 0; i < 300; i++) /* each is twice the one before */
        used +=
            (size_t)snprintf(text + used, sizeof text - used, "r%d ::= r%d r%d\n", i, i + 1, i + 1);
    snprintf(text + used, sizeof text - used, "r300 ::= \"a\"");
    goes_on(text, "aaaa");
    form_refuses("root ::= [ab]* \"a\" [ab]{40} \"c\"", STATUS_TOO_LARGE,
                 "gbnf: line 1: rule root: ");
}

TEST(many_readings_side_by_side_are_bounded) {
    static char text[1 << 16];
    size_t used = (size_t)snprintf(text, sizeof text, "root ::= l0 | r0\n");
    struct form_case one;
    for (int i = 0; i < 100; i++)
        used +=
            (size_t)snprintf(text + used, sizeof text - used,
                             "l%d ::= l%d \"x\" | r%d \"y\" | \"(\" root\nr%d ::= l%d \"z\" | r%d "
                             "\"w\" | \"(\" root\n",
                             i, i + 1, i + 1, i, i + 1, i + 1);
    snprintf(text + used, sizeof text - used, "l100 ::= \"a\" root?\nr100 ::= \"a\" root?");
    form_run(&one, text);
    struct grammar_position at = matcher_begin(one.matcher);
    at = matcher_push(one.matcher, at, BYTES_LITERAL("a"));
    assert_true(at.number);
}
