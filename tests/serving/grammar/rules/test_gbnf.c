/* SPDX-License-Identifier: Apache-2.0
 * GBNF means what llama.cpp's page on it says; what is none is refused with its line and rule.
 */
#include "form_cases.h"
#include "test_case.h"

TEST(literals_classes_and_escapes_are_characters) {
    takes("root ::= \"a\\x41\\u00e9\\U0001F600\\t\\n\\\"\\\\\"",
          "aA\xC3\xA9\xF0\x9F\x98\x80\t\n\"\\");
    takes("root ::= [a-c] [^a-c\\n] [\xE3\x81\x81-\xE3\x82\x9F] [-x] [a-] .",
          "bz\xE3\x81\x82--\xC3\xB6");
    breaks("root ::= [a-c] [^a-c\\n]", "ab");
    breaks("root ::= [a-c] [^a-c\\n]", "a\n");
    takes("root ::= \"\"", "");
    takes("root ::= [\\]\\[^]+", "][^");
    goes_on("root ::= .", "\xC3");
}

TEST(alternatives_groups_and_repetitions_go_together) {
    const char *grammar =
        "root ::= (\"a\" | \"b\" \"c\")+ \"d\"? ([0-9]{2}){1,2} \"e\"{0,1} \"f\"{2,}";
    takes(grammar, "abca12ff");
    takes(grammar, "bcd1234efff");
    goes_on(grammar, "a12f");
    breaks(grammar, "d");
    breaks(grammar, "a123456");
    takes("root ::= \"a\"? *", "aaa");
    takes("root ::= | \"x\"", "");
    takes("root ::= (\"ab\" | \"abab\" )* \"abc\"", "abababc");
}

TEST(rules_go_over_lines_and_comments_say_nothing) {
    const char *grammar = "# a list\n\nroot ::= ( # of items\n   \"- \" item\n)+\n\r\n"
                          "item ::= [^\\n?]+ end |\n  \"?\" end # or not known\nend ::= \"\\n\"?";
    takes(grammar, "- x");
    takes(grammar, "- ?\n- yes");
    breaks(grammar, "-x");
}

static const char arithmetic[] = "root  ::= (expr \"=\" ws term \"\\n\")+\n"
                                 "expr  ::= term ([-+*/] term)*\n"
                                 "term  ::= ident | num | \"(\" ws expr \")\" ws\n"
                                 "ident ::= [a-z] [a-z0-9_]* ws\n"
                                 "num   ::= [0-9]+ ws\n"
                                 "ws    ::= [ \\t\\n]*\n";

static const char json[] =
    "root ::= object\n"
    "value ::= object | array | string | number | (\"true\" | \"false\" | \"null\") ws\n"
    "object ::= \"{\" ws ( string \":\" ws value (\",\" ws string \":\" ws value)* )? \"}\" ws\n"
    "array ::= \"[\" ws ( value (\",\" ws value)* )? \"]\" ws\n"
    "string ::= \"\\\"\" ( [^\"\\\\\\x7F\\x00-\\x1F] | \"\\\\\" ([\"\\\\/bfnrt] | \"u\" "
    "[0-9a-fA-F]{4}) "
    ")* \"\\\"\" ws\n"
    "number ::= (\"-\"? ([0-9] | [1-9] [0-9]{0,15})) (\".\" [0-9]+)? ([eE] [-+]? [0-9]+)? ws\n"
    "ws ::= | \" \" | \"\\n\" [ \\t]{0,20}\n";

static const char chess[] =
    "root ::= \"1. \" move \" \" move \"\\n\" ([1-9] [0-9]? \". \" move \" \" "
    "move \"\\n\")+\n"
    "move ::= (pawn | piece | castle) [+#]?\n"
    "piece ::= [NBKQR] [a-h]? [1-8]? \"x\"? [a-h] [1-8]\n"
    "pawn ::= ([a-h] \"x\")? [a-h] [1-8] (\"=\" [NBKQR])?\n"
    "castle ::= \"O-O\" \"-O\"?\n";

TEST(grammars_as_people_write_them_work) {
    takes(arithmetic, "(a1 +22)*(b)=x\n3=4\n");
    goes_on(arithmetic, "((1)");
    breaks(arithmetic, "(1))");
    breaks(arithmetic, "1=\n=");
    takes(json, "{\"a\": [1, -2.5e3, {}, \"\\u00e9\"],\n    \"b\":null}");
    goes_on(json, "{\"a\": [[{\"b\":[");
    breaks(json, "{\"a\": 1]");
    breaks(json, "[");
    takes(chess, "1. e4 e5\n2. Nf3 Nc6\n3. O-O-O bxc8=Q#\n");
    goes_on(chess, "1. e4 e5\n");
    breaks(chess, "1. e9");
}

TEST(what_recurs_goes_as_deep_as_the_text) {
    const char *pairs = "root ::= \"a\" root \"b\" | \"a\" root \"c\" | \"\"";
    const char *list = "root ::= \"a\" root | \"b\" tail\ntail ::= \"a\" root |";
    struct form_case one;
    takes(pairs, "aaaaaaaaaaaabcbcbcbcbcbc");
    breaks(pairs, "aabbc");
    form_run(&one, list);
    struct grammar_position at = form_push(&one, "aaa"), third = at;
    for (uint32_t i = 0; i < 50000; i++)
        at = matcher_push(one.matcher, at, BYTES_LITERAL("a"));
    assert_int_equal(at.number, third.number); /* what comes last needs no depth */
}

TEST(what_no_text_fulfils_is_cut_off) {
    const char *grammar = "root ::= \"a\" endless | \"ab\" | [] \"c\"\nendless ::= \"b\" endless";
    takes(grammar, "ab");
    breaks(grammar, "abb");
    breaks(grammar, "c");
    form_refuses("root ::= \"a\" root", STATUS_INVALID,
                 "gbnf: line 1: rule root: no text fulfils it");
}

TEST(tokens_stand_for_themselves) {
    const char *grammar = "root ::= <call> [a-z]* <[257]> !<call>";
    takes(grammar, "<call>ab</call>x");
    breaks(grammar, "<call>ab</call><call>");
    breaks(grammar, "<");
    takes("root ::= !<[97]>* \"a\"", "bc\xFF"
                                     "a");
    form_refuses("root ::= <nothing>", STATUS_INVALID,
                 "gbnf: line 1: rule root: the tokenizer has no token <nothing>");
    form_refuses("root ::= <[1000]>", STATUS_INVALID,
                 "gbnf: line 1: rule root: the tokenizer has no token <[1000]>");
}

TEST(rules_that_begin_with_themselves_are_refused) {
    form_refuses("root ::= expr\n\nexpr ::= expr \"+\" [0-9] | [0-9]", STATUS_INVALID,
                 "gbnf: line 3: rule expr: begins with itself (left recursion)");
    form_refuses("root ::= a\na ::= [x]? b \"y\" | \"z\"\nb ::= a", STATUS_INVALID, "gbnf: line ");
    form_refuses("root ::= (root \"a\"){5,} | \"b\"", STATUS_INVALID,
                 "gbnf: line 1: rule root: begins");
    takes("root ::= \"x\" | \"(\" root \")\" root", "(x)x");
}

TEST(what_is_no_grammar_is_refused_with_its_line_and_rule) {
    static char deep[500];
    form_refuses("item ::= \"a\"", STATUS_INVALID, "gbnf: line 1: the grammar has no rule root");
    form_refuses("root ::= x\n", STATUS_INVALID, "gbnf: line 1: rule x: is used, but not written");
    form_refuses("root ::= \"a\"\nroot ::= \"b\"", STATUS_INVALID,
                 "gbnf: line 2: rule root: is written twice");
    form_refuses("root ::= \"a\nroot", STATUS_INVALID,
                 "gbnf: line 1: rule root: a literal or a class without its end");
    form_refuses("root ::= [z-a]", STATUS_INVALID,
                 "gbnf: line 1: rule root: a range that runs down");
    form_refuses("root ::= \"\\q\"", STATUS_INVALID, "gbnf: line 1: rule root: an unknown escape");
    form_refuses("root ::= \"\\uD800\"", STATUS_INVALID, "gbnf: line 1: rule root: an escape of");
    form_refuses("root ::= \"\\x4\"", STATUS_INVALID, "gbnf: line 1: rule root: \\x has 2 digits");
    form_refuses("root ::= (\"a\"\n\n| \"b\"", STATUS_INVALID,
                 "gbnf: line 3: rule root: ( without )");
    form_refuses("root ::= \"a\")", STATUS_INVALID, "gbnf: line 1: rule root: something unknown");
    form_refuses("root ::= \"a\"{2,1}", STATUS_INVALID, "gbnf: line 1: rule root: a repetition is");
    form_refuses("root ::= *", STATUS_INVALID, "gbnf: line 1: rule root: something unknown");
    form_refuses("root = \"a\"", STATUS_INVALID, "gbnf: line 1: rule root: expected ::=");
    form_refuses("::= \"a\"", STATUS_INVALID, "gbnf: line 1: expected a rule");
    form_refuses("root ::= <call", STATUS_INVALID, "gbnf: line 1: rule root: < without >");
    form_refuses("root ::= [a]{3000} [b]{900000}", STATUS_TOO_LARGE, "gbnf: line 1: rule root: ");
    memset(deep, '(', sizeof deep - 1);
    memcpy(deep, "root ::= ", 9);
    form_refuses(deep, STATUS_TOO_LARGE, "gbnf: line 1: rule root: more than 100 groups");
}
