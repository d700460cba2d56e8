/* SPDX-License-Identifier: Apache-2.0
 * Protects that a pattern's automaton finds what a plain search through the pattern's tree, back
 * and forth, finds: over random patterns with anchors, word edges and lookaheads ahead, and random
 * texts. And that patterns of real schemas stay small, and hostile ones are given up.
 */
#include "automata.h"
#include "serving/grammar/automata/regex_tree.h"

/* ---- the slow reference ---- */

struct goal { /* nodes that must still match, the nearest first */
    const struct goal *next;
    uint32_t node;
    uint32_t times;   /* of a REPEAT: rounds done */
    uint32_t entered; /* of a REPEAT: where its round began, plus 1 */
};

static const struct regex *regex;
static const char *subject;
static size_t subject_count;
static uint64_t effort;

static bool match(const struct goal *goals, size_t at);

static bool is_word(size_t at) {
    char c = at < subject_count ? subject[at] : ' ';
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || c == '_' || (c >= 'a' && c <= 'z');
}

static bool match_repeat(const struct goal *goal, size_t at) {
    const struct regex_node *node = &regex->nodes[goal->node];
    if (goal->entered == at + 1 && goal->times > node->min) return false; /* an empty round */
    if (goal->times < node->max) {
        struct goal again = *goal;
        again.times++;
        again.entered = (uint32_t)at + 1;
        struct goal body = {.next = &again, .node = node->first};
        if (match(&body, at)) return true;
    }
    return goal->times >= node->min && match(goal->next, at);
}

static bool match_sequence(const struct goal *goal, const uint32_t *links, uint32_t count,
                           size_t at) {
    struct goal parts[64];
    const struct goal *next = goal->next;
    assert_true(count <= 64);
    for (uint32_t i = count; i-- > 0;) {
        parts[i] = (struct goal){.next = next, .node = links[i]};
        next = &parts[i];
    }
    return match(next, at);
}

/* Whether the text from `at` on begins with what the goals need; without goals: yes. */
static bool match(const struct goal *goals, size_t at) {
    if (!goals) return true;
    const struct regex_node *node = &regex->nodes[goals->node];
    struct goal alone = {.node = node->first};
    effort++;
    if (effort > 2000000) return false;
    switch (node->kind) {
    case REGEX_SET:
        for (uint32_t i = 0; at < subject_count && i < node->count; i++) {
            const struct code_range *range = &regex->ranges[node->first + i];
            if (range->first <= (uint8_t)subject[at] && (uint8_t)subject[at] <= range->last)
                return match(goals->next, at + 1);
        }
        return false;
    case REGEX_SEQUENCE:
        return match_sequence(goals, regex->links + node->first, node->count, at);
    case REGEX_ALTERNATE:
        for (uint32_t i = 0; i < node->count; i++) {
            struct goal way = {.next = goals->next, .node = regex->links[node->first + i]};
            if (match(&way, at)) return true;
        }
        return false;
    case REGEX_REPEAT:
        return match_repeat(goals, at);
    case REGEX_BEGIN:
        return at == 0 && match(goals->next, at);
    case REGEX_END:
        return at == subject_count && match(goals->next, at);
    case REGEX_WORD_EDGE:
        return ((at > 0 && is_word(at - 1)) != is_word(at)) != node->negative &&
               match(goals->next, at);
    case REGEX_LOOKAHEAD:
        return match(&alone, at) != node->negative && match(goals->next, at);
    }
    return false;
}

static bool search(const char *text) {
    struct goal root = {.node = regex->root};
    subject = text;
    subject_count = strlen(text);
    effort = 0;
    for (size_t at = 0; at <= subject_count; at++)
        if (match(&root, at)) return true;
    return false;
}

/* ---- random patterns ---- */

static void write_pattern(uint64_t *random, int depth, char *out, size_t room) {
    static const char *const atoms[] = {"a",  "b",  "[ab]", "[^a]", ".",   "_",   "-", "\\w",
                                        "ab", "a?", "^",    "$",    "\\b", "\\B", "",  "\\W"};
    static const char *const opens[] = {"(", "(?:", "(?=", "(?!", "(", "(?:"};
    static const char *const counts[] = {"*", "+", "?", "{2}", "{0,2}", "{1,}", "{2,3}", "*?", ""};
    size_t used = strlen(out);
    if (depth == 0 || room - used < 64) {
        strcat(out, atoms[test_random(random) % 16]);
        return;
    }
    switch (test_random(random) % 4) {
    case 0:
        write_pattern(random, depth - 1, out, room);
        strcat(out, "|");
        write_pattern(random, depth - 1, out, room);
        return;
    case 1:
        strcat(out, opens[test_random(random) % 6]);
        write_pattern(random, depth - 1, out, room);
        strcat(out, ")");
        strcat(out, counts[test_random(random) % 9]);
        return;
    default:
        write_pattern(random, depth - 1, out, room);
        write_pattern(random, depth - 1, out, room);
    }
}

TEST(it_finds_what_a_plain_search_finds) {
    static struct arena trees;
    static char memory[1 << 20];
    uint64_t random = 1;
    int found = 0, absent = 0;
    for (int round = 0; round < 3000; round++) {
        char pattern[1024] = "", text[12];
        struct regex tree;
        struct automaton_work *work = test_work(), tree_work;
        const struct automaton *automaton = NULL;
        write_pattern(&random, 2 + round % 4, pattern, sizeof pattern);
        arena_over(&trees, memory, sizeof memory);
        tree_work = (struct automaton_work){&trees, &trees, TEST_STATES_MAX, TEST_STEPS_MAX};
        if (regex_tree_parse(&tree_work, bytes_of(pattern), REGEX_ECMA, &tree, NULL)) continue;
        regex = &tree;
        work->states_max = 20000;
        work->steps_left = 5000000;
        enum status status = automaton_of_pattern(work, bytes_of(pattern), &automaton, NULL);
        if (status == STATUS_TOO_LARGE) continue;
        assert_int_equal(status, STATUS_OK);
        for (int i = 0; i < 40; i++) {
            size_t count = test_random(&random) % 10;
            for (size_t j = 0; j < count; j++)
                text[j] = "aabb_-"[test_random(&random) % 6];
            text[count] = '\0';
            bool expected = search(text);
            if (effort > 2000000) continue;
            found += expected;
            absent += !expected;
            if (test_label(automaton, text) != expected)
                fail_msg("%s in %s: expected %d", pattern, text, expected);
        }
    }
    assert_true(found > 5000 && absent > 5000);
}

TEST(it_minds_anchors_and_looks_wherever_they_stand) {
    static const struct {
        const char *pattern, *text;
        bool in;
    } cases[] = {
        {"^(?!mode).*$", "modx", true},
        {"^(?!mode).*$", "model", false},
        {"^((?!no).)*$", "yes", true},
        {"^((?!no).)*$", "snow", false},
        {"(?:^|,)a(?:,|$)", "b,a", true},
        {"(?:^|,)a(?:,|$)", "ba", false},
        {"a$b", "ab", false},
        {"^(?!^lucene\\.|builtin\\.).*", "lucene.x", false},
        {"^(?!^lucene\\.|builtin\\.).*", "xbuiltin.", true},
        {"\\bfoo\\b", "a foo.", true},
        {"\\bfoo\\b", "afoo", false},
        {"\\bfoo\\b", "foo\xC3\xA9", true},
        {"^\\B$", "", true},
        {"^(?=.*a)(?=.*b)(?!.*c)", "xbxa", true},
        {"^(?=.*a)(?=.*b)(?!.*c)", "xbxac", false},
        {"^.$", "\xF0\x9F\x98\x80", true},
        {"^[^a]$", "\xE4\xB8\xAD", true},
        {"^.$", "\xE2\x80\xA8", false},
        {"^\\p{L}+$", "\xC3\xA9\xE4\xB8\xAD", true},
        {"^\\p{L}+$", "a1", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (test_label(test_pattern(test_work(), cases[i].pattern), cases[i].text) != cases[i].in)
            fail_msg("%s and %s", cases[i].pattern, cases[i].text);
}

TEST(it_keeps_patterns_of_schemas_small) {
    static const struct {
        const char *pattern;
        uint32_t states_max;
        uint64_t steps_max;
    } cases[] = {
        {"^[A-Fa-f\\d]{24}$", 26, 10000},
        {"", 10, 10000},
        {"[a-zA-Z0-9_-]{162}", 200, 800000},
        {"^.{1,255}$", 2600, 1000000},
        {"^(?:\\S+\\s+){0,199}\\S+$", 6000, 3000000},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct automaton_work *work = test_work();
        assert_true(test_pattern(work, cases[i].pattern)->state_count <= cases[i].states_max);
        assert_true(TEST_STEPS_MAX - work->steps_left <= cases[i].steps_max);
    }
}

TEST(it_gives_hostile_patterns_up) {
    static const char *const cases[] = {"(a|b)*a(a|b){30}", "((a{1000}){1000}){1000}",
                                        "((){1000}){1000}", "^(?:(?=.*a.{9})(?=.*b.{8}).)*$"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct automaton_work *work = test_work();
        const struct automaton *automaton = NULL;
        struct error error = {""};
        work->steps_left = 1000000;
        work->states_max = 10000;
        enum status status = automaton_of_pattern(work, bytes_of(cases[i]), &automaton, &error);
        if (status != STATUS_TOO_LARGE) fail_msg("%s: %s", cases[i], status_name(status));
        assert_string_equal(error.text, "the pattern's automaton is too large");
    }
}
