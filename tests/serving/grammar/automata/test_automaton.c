/* SPDX-License-Identifier: Apache-2.0
 * Protects that lists of texts and lengths become exactly those texts, and that members are counted
 * and found again one by one, in order.
 */
#include "automata.h"

TEST(it_holds_the_texts_of_a_list_alone) {
    static const struct bytes texts[] = {{"", 0}, {"ab", 2}, {"abc", 3}, {"\xC3\xA9", 2}, {"b", 1}};
    const struct automaton *automaton = NULL;
    assert_int_equal(automaton_of_texts(test_work(), texts, 5, &automaton), STATUS_OK);
    assert_int_equal(test_label(automaton, ""), 1);
    assert_int_equal(test_label(automaton, "ab"), 2);
    assert_int_equal(test_label(automaton, "abc"), 3);
    assert_int_equal(test_label(automaton, "\xC3\xA9"), 4);
    assert_int_equal(test_label(automaton, "b"), 5);
    assert_int_equal(test_label(automaton, "a"), 0);
    assert_int_equal(test_label(automaton, "abcd"), 0);
    assert_int_equal(test_label(automaton, "\xC3"), 0);
}

TEST(it_holds_no_text_of_an_empty_list) {
    const struct automaton *automaton = NULL;
    assert_int_equal(automaton_of_texts(test_work(), NULL, 0, &automaton), STATUS_OK);
    assert_int_equal(automaton->start, 0);
    assert_int_equal(automaton_member_count(automaton), 0);
}

static size_t put_character(uint32_t c, char *out) {
    if (c < 0x80) out[0] = (char)c;
    if (c < 0x80) return 1;
    size_t count = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = count - 1; i > 0; i--, c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3F));
    out[0] = (char)((0xF00 >> count & 0xFF) | c);
    return count;
}

TEST(it_counts_characters_and_no_bytes) {
    const struct automaton *one = NULL, *few = NULL, *many = NULL;
    struct automaton_work *work = test_work();
    assert_int_equal(automaton_of_lengths(work, 1, 1, &one), STATUS_OK);
    assert_int_equal(automaton_of_lengths(work, 2, 3, &few), STATUS_OK);
    assert_int_equal(automaton_of_lengths(work, 2, UINT32_MAX, &many), STATUS_OK);
    for (uint32_t c = 0; c <= 0x10FFFF; c++) {
        char text[4];
        struct bytes bytes = {text, put_character(c, text)};
        assert_int_equal(automaton_accepts(one, bytes, NULL), c < 0xD800 || c > 0xDFFF);
    }
    assert_false(automaton_accepts(one, BYTES_LITERAL("\xC0\x80"), NULL));
    assert_false(automaton_accepts(one, BYTES_LITERAL("\xF4\x90\x80\x80"), NULL));
    assert_int_equal(test_label(few, "\xC3\xA9"), 0);
    assert_int_equal(test_label(few, "\xC3\xA9\xC3\xA9"), 1);
    assert_int_equal(test_label(few, "abc"), 1);
    assert_int_equal(test_label(few, "abcd"), 0);
    assert_int_equal(test_label(many, "a"), 0);
    assert_int_equal(test_label(many, "abcdefghij"), 1);
}

TEST(it_has_no_text_between_crossed_lengths) {
    const struct automaton *automaton = NULL;
    assert_int_equal(automaton_of_lengths(test_work(), 3, 2, &automaton), STATUS_OK);
    assert_int_equal(automaton->start, 0);
}

TEST(it_finds_each_member_in_the_order_of_bytes) {
    const struct automaton *automaton = test_pattern(test_work(), "^(a|ab?c|[x-z]{0,2}|\\u00e9)$");
    char text[8], before[8] = "";
    size_t count = 0;
    uint64_t members = automaton_member_count(automaton);
    assert_int_equal(members, 1 + 3 + 9 + 3 + 1);
    for (uint64_t i = 0; i < members; i++) {
        assert_true(automaton_member(automaton, i, text, sizeof text - 1, &count));
        text[count] = '\0';
        assert_int_equal(test_label(automaton, text), 1);
        if (i) assert_true(strcmp(before, text) < 0);
        memcpy(before, text, sizeof before);
    }
    assert_true(automaton_member(automaton, 1, text, 1, &count));
    assert_false(automaton_member(automaton, 2, text, 1, &count));
}

TEST(it_knows_what_has_no_end) {
    struct automaton_work *work = test_work();
    assert_true(automaton_member_count(test_pattern(work, "^ab*$")) == UINT64_MAX);
    assert_true(automaton_member_count(test_pattern(work, "^[a-p]{40}$")) == UINT64_MAX);
    assert_true(automaton_member_count(test_pattern(work, "^[a-p]{15}$")) == (uint64_t)1 << 60);
}
