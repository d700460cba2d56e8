/* SPDX-License-Identifier: Apache-2.0
 * Protects the way from characters to bytes: a set's state leads to the end by the UTF-8 of its
 * characters, each of them, and by nothing else.
 */
#include "automata.h"
#include "serving/grammar/automata/regex_nfa.h"

static uint32_t follow(const struct regex_nfa *nfa, uint32_t state, uint8_t byte) {
    const struct nfa_state *from = &nfa->states[state];
    for (uint32_t i = 0; from->kind == REGEX_BYTES && i < from->count; i++) {
        const struct nfa_edge *edge = &nfa->edges[from->first + i];
        if (edge->first <= byte && byte <= edge->last) return edge->to;
    }
    return UINT32_MAX;
}

static bool spells(const struct regex_nfa *nfa, uint32_t state, uint32_t end, uint32_t c) {
    uint8_t text[4] = {(uint8_t)c};
    size_t count = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = count - 1; count > 1 && i > 0; i--, c >>= 6)
        text[i] = (uint8_t)(0x80 | (c & 0x3F));
    if (count > 1) text[0] = (uint8_t)((0xF00 >> count & 0xFF) | c);
    for (size_t i = 0; i < count && state != UINT32_MAX; i++)
        state = follow(nfa, state, text[i]);
    return state == end;
}

static void check_set(const struct code_range *ranges, size_t count) {
    struct regex_nfa nfa = {.work = test_work()};
    uint32_t end = 0, start = 0;
    assert_int_equal(regex_nfa_add_state(&nfa, (struct nfa_state){.kind = REGEX_ACCEPT}, &end),
                     STATUS_OK);
    assert_int_equal(regex_nfa_add_set(&nfa, ranges, count, end, &start), STATUS_OK);
    size_t at = 0;
    for (uint32_t c = 0; c <= CODE_POINT_MAX; c++) {
        while (at < count && ranges[at].last < c)
            at++;
        bool in = at < count && ranges[at].first <= c && (c < 0xD800 || c > 0xDFFF);
        if (spells(&nfa, start, end, c) != in) fail_msg("U+%04X: %d", c, !in);
    }
    assert_false(spells(&nfa, start, end, 0x110000));
}

TEST(it_spells_each_character_of_a_set) {
    static const struct code_range all[] = {{0, CODE_POINT_MAX}};
    static const struct code_range some[] = {
        {'a', 'c'},       {0x7F, 0x80},      {0x7FE, 0x801},     {0x1234, 0x2345},
        {0xD7FF, 0xE000}, {0xFFFE, 0x10001}, {0x12345, 0xABCDE}, {0x10FFFF, 0x10FFFF}};
    static const struct code_range surrogates[] = {{0xD800, 0xDFFF}};
    check_set(all, 1);
    check_set(some, sizeof some / sizeof *some);
    check_set(surrogates, 1);
}

TEST(it_spells_sets_drawn_at_random) {
    uint64_t random = 1;
    for (int round = 0; round < 3; round++) {
        struct code_range ranges[64];
        uint32_t at = 0;
        size_t count = 0;
        while (count < 64 && at < CODE_POINT_MAX - 60000) {
            uint32_t gap = 1u << test_random(&random) % 15, size = 1u << test_random(&random) % 15;
            ranges[count].first = at + 1 + test_random(&random) % gap;
            ranges[count].last = ranges[count].first + test_random(&random) % size;
            at = ranges[count++].last + 1;
        }
        check_set(ranges, count);
    }
}

TEST(it_knows_what_begins_where_the_text_does) {
    static const struct {
        const char *pattern;
        bool anchored;
    } cases[] = {{"^a", true},    {"a", false},        {"^a|^b", true}, {"^a|b", false},
                 {"(^a)b", true}, {"(?:^a|^)c", true}, {"", false},     {"(^a)?b", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct regex regex;
        assert_int_equal(
            regex_tree_parse(test_work(), bytes_of(cases[i].pattern), REGEX_ECMA, &regex, NULL),
            STATUS_OK);
        assert_int_equal(regex_nfa_is_anchored(&regex, regex.root), cases[i].anchored);
    }
}
