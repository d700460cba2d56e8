/* SPDX-License-Identifier: Apache-2.0
 * Trees of rules: equal symbols are one, texts are their characters, and what comes often can be
 * called.
 */
#include "automata.h"
#include "serving/grammar/rules/grammar_builder.h"

TEST(equal_symbols_are_one) {
    struct grammar_builder builder;
    uint32_t a, b, c;
    grammar_builder_open(&builder, test_work());
    assert_false(grammar_builder_symbol(&builder, RULE_TOKEN, 7, &a));
    assert_false(grammar_builder_symbol(&builder, RULE_OTHER_TOKEN, 7, &b));
    assert_false(grammar_builder_symbol(&builder, RULE_TOKEN, 7, &c));
    assert_int_equal(builder.symbol_count, 2);
    assert_int_equal(builder.tree.ranges[builder.tree.nodes[a].first].first,
                     builder.tree.ranges[builder.tree.nodes[c].first].first);
    assert_int_equal(builder.tree.ranges[builder.tree.nodes[b].first].first, RULE_SYMBOL_FIRST + 1);
}

TEST(a_text_is_the_sequence_of_its_characters) {
    static const uint32_t expected[] = {'a', 0xE9, 0x20AC, 0x1F600};
    struct grammar_builder builder;
    uint32_t node;
    grammar_builder_open(&builder, test_work());
    assert_false(grammar_builder_text(
        &builder, BYTES_LITERAL("a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"), &node));
    assert_int_equal(builder.tree.nodes[node].kind, REGEX_SEQUENCE);
    assert_int_equal(builder.tree.nodes[node].count, 4);
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t each = builder.tree.links[builder.tree.nodes[node].first + i];
        assert_int_equal(builder.tree.ranges[builder.tree.nodes[each].first].first, expected[i]);
    }
}

TEST(what_comes_often_becomes_a_rule) {
    struct grammar_builder builder;
    uint32_t text, few, many;
    grammar_builder_open(&builder, test_work());
    assert_false(grammar_builder_text(&builder, BYTES_LITERAL("ab"), &text));
    assert_false(grammar_builder_repeat(&builder, text, 0, REGEX_UNBOUNDED, &few));
    assert_int_equal(builder.rule_count, 0);
    assert_false(grammar_builder_repeat(&builder, text, 0, 9, &many));
    assert_int_equal(builder.rule_count, 1);
    assert_int_equal(builder.rules[0].body, text);
    assert_int_equal(rule_of_node(&builder, builder.tree.nodes[many].first), 0);
}
