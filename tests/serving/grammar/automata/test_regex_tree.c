/* SPDX-License-Identifier: Apache-2.0
 * Protects which patterns are taken, what they are read as where readers might differ, and that
 * what is not taken is refused with its reason and its place.
 */
#include "automata.h"
#include "serving/grammar/automata/regex_tree.h"

static void refuses(enum regex_syntax syntax, const char *pattern, enum status status,
                    const char *reason) {
    struct regex regex;
    struct error error = {""};
    enum status found = regex_tree_parse(test_work(), bytes_of(pattern), syntax, &regex, &error);
    if (found != status || !strstr(error.text, reason))
        fail_msg("%s: %s, \"%s\"", pattern, status_name(found), error.text);
}

TEST(it_refuses_what_is_no_pattern) {
    static const char *const cases[][2] = {
        {"(", "( without ) at byte 1"},
        {"a)", ") without ( at byte 1"},
        {"[a", "[ without ]"},
        {"[b-a]", "runs down"},
        {"*a", "a quantifier of nothing at byte 1"},
        {"a**", "a quantifier of nothing"},
        {"^*", "cannot be"},
        {"a{2,1}", "cannot be"},
        {"\\", "a backslash"},
        {"\\x1", "without its digits"},
        {"\\u{110000}", "without its digits"},
        {"\\c1", "\\c without a letter"},
        {"\\A", "an unknown escape"},
        {"\\pL", "\\p without {"},
        {"(?<n", "(?< without >"},
        {"a\xFF", "invalid UTF-8 at byte 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refuses(REGEX_ECMA, cases[i][0], STATUS_INVALID, cases[i][1]);
}

TEST(it_says_what_no_automaton_holds) {
    refuses(REGEX_ECMA, "(a)\\1", STATUS_UNSUPPORTED, "a back reference");
    refuses(REGEX_ECMA, "(?<n>a)\\k<n>", STATUS_UNSUPPORTED, "a back reference");
    refuses(REGEX_ECMA, "(?<=a)b", STATUS_UNSUPPORTED, "looking behind");
    refuses(REGEX_ECMA, "(?<!a)b", STATUS_UNSUPPORTED, "looking behind");
    refuses(REGEX_ECMA, "(?i)b", STATUS_UNSUPPORTED, "a group's flag");
    refuses(REGEX_ECMA, "\\p{Script=Greek}", STATUS_UNSUPPORTED, "general category");
    char deep[256];
    memset(deep, '(', 101);
    memset(deep + 101, ')', 101);
    deep[202] = '\0';
    refuses(REGEX_ECMA, deep, STATUS_UNSUPPORTED, "100 groups");
}

/* Pairs of patterns that mean the same, and a text that tells a wrong reading. */
TEST(it_reads_what_validators_agree_on) {
    static const char *const cases[][3] = {
        {"^\\-\\_\\/\\@$", "^-_/@$", "-_/@"},
        {"^a{$", "^a\\{$", "a{"},
        {"^a{x}$", "^a\\{x\\}$", "a{x}"},
        {"^]}$", "^\\]\\}$", "]}"},
        {"^[\\w-.]+$", "^(?:\\w|-|\\.)+$", "a-."},
        {"^[a-\\d]+$", "^[a\\-0-9]+$", "a-5"},
        {"^[\\d-a-z]+$", "^[0-9az\\-]+$", "5-az"}, /* the dash behind a set begins no range */
        {"^[\\d--a]+$", "^[0-9a\\-]+$", "5-a"},
        {"^[a-\\d-z]+$", "^[0-9az\\-]+$", "5-az"},
        {"^[\\p{Nd}-.-~]+$", "^(?:\\p{Nd}|[.~\\-])+$", "5.-~"},
        {"^[-a]$", "^[a-]$", "-"},
        {"^[^\\d]$", "^\\D$", "x"},
        {"^[\\b]$", "^\\x08$", "\b"},
        {"^\\cJ$", "^\\n$", "\n"},
        {"^\\ud83d\\ude00$", "^\\u{1F600}$", "\xF0\x9F\x98\x80"},
        {"^(?<name>a)$", "^(a)$", "a"},
        {"^a{2,3}?$", "^a{2,3}$", "aaa"},
        {"^[[:alpha:]]$", "^[:\\[alph]\\]$", "a]"},
        {"^(a|)$", "^a?$", ""},
        {"^[^]$", "^[\\s\\S]$", "\n"},
        {"^\\t\\v\\f\\r$", "^\\u0009\\u000b\\u000c\\u000d$", "\t\v\f\r"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct automaton_work *work = test_work();
        const struct automaton *a = test_pattern(work, cases[i][0]), *b, *rest = NULL;
        b = test_pattern(work, cases[i][1]);
        if (!test_label(a, cases[i][2])) fail_msg("%s lacks its text", cases[i][0]);
        assert_int_equal(automaton_combine(work, AUTOMATON_WITHOUT, a, b, &rest), STATUS_OK);
        if (rest->start) fail_msg("%s has more than %s", cases[i][0], cases[i][1]);
        assert_int_equal(automaton_combine(work, AUTOMATON_WITHOUT, b, a, &rest), STATUS_OK);
        if (rest->start) fail_msg("%s has less than %s", cases[i][0], cases[i][1]);
    }
}

TEST(it_has_no_text_in_an_empty_class) {
    assert_int_equal(test_pattern(test_work(), "[]")->start, 0);
}

/* Whole expressions: Rust's and Python's \d and \w are Unicode's. */
TEST(it_reads_expressions_of_whole_texts) {
    static const struct {
        const char *pattern, *text;
        bool in;
    } cases[] = {
        {"\\d+", "12", true},         {"\\d+", "a12", false},     {"\\d", "\xE0\xA7\xAA", true},
        {"\\w+", "\xC3\xA9_1", true}, {"\\W", "\xC3\xA9", false}, {"\\W", "-", true},
        {"\\A.\\z", "\r", true},      {"a|bc", "bc", true},       {"\\pL", "x", true},
        {"[]a]+", "]a", true},        {"(?P<n>x)y", "xy", true},  {"\\s", "\xC2\x85", true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct automaton *automaton = NULL;
        struct error error;
        assert_int_equal(
            automaton_of_regex(test_work(), bytes_of(cases[i].pattern), &automaton, &error),
            STATUS_OK);
        if (test_label(automaton, cases[i].text) != cases[i].in)
            fail_msg("%s and %s", cases[i].pattern, cases[i].text);
    }
}
