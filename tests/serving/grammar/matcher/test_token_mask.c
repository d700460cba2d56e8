/* SPDX-License-Identifier: Apache-2.0
 * A mask holds exactly the tokens that can be pushed, and no position is a dead end.
 */
#include "matcher_cases.h"

static const char *const schemas[] = {
    "true",
    "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\"},\"ab\":{\"type\":\"integer\"}"
    "},"
    "\"required\":[\"a\"]}",
    "{\"type\":\"object\",\"properties\":{\"a\":{\"enum\":[\"a\",\"abc\",1]},\"b\":{\"type\":"
    "\"array\","
    "\"items\":{\"type\":\"number\",\"minimum\":-3,\"maximum\":120}}},"
    "\"required\":[\"b\"],\"additionalProperties\":false}",
    "{\"type\":\"string\",\"minLength\":2,\"maxLength\":5}",
    "{\"type\":\"string\",\"pattern\":\"^[a-c\\u00e9]+the .$\"}",
    "{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"uniqueItems\":true,\"maxItems\":4}",
    "{\"type\":\"array\",\"items\":{\"enum\":[\"a\",\"ab\",\"the "
    "\"]},\"uniqueItems\":true,\"minItems\":2}",
    "{\"type\":\"array\",\"items\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":30},"
    "\"uniqueItems\":true}",
    "{\"anyOf\":[{\"type\":\"object\",\"properties\":{\"a\":{\"const\":1}},\"required\":[\"a\"]},"
    "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\"}},\"required\":[\"a\",\"b\"]}]"
    "}",
    "{\"type\":\"object\",\"minProperties\":2,\"maxProperties\":3,"
    "\"patternProperties\":{\"^a\":{\"type\":\"null\"}},\"additionalProperties\":{\"type\":"
    "\"boolean\"}}",
    "{\"$ref\":\"#/$defs/n\",\"$defs\":{\"n\":{\"type\":\"object\",\"properties\":{\"a\":"
    "{\"anyOf\":[{\"$ref\":\"#/$defs/n\"},{\"type\":\"null\"}]}},\"required\":[\"a\"]}}}",
    "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"boolean\"}"
    ","
    "\"ab\":{}},\"dependentRequired\":{\"a\":[\"b\"]},\"maxProperties\":2}"};

static uint32_t draw(uint64_t *random, uint32_t count) {
    *random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*random >> 33) % count;
}

/* The next token of a text at random; false: there is none, and it ends. */
static bool draw_token(struct matcher_case *one, uint64_t *random, struct grammar_position at,
                       const char *text, uint32_t *token) {
    uint64_t mask[16] = {0};
    uint32_t seen = 0;
    matcher_mask(one->matcher, at, mask);
    for (uint32_t t = 0; t < one->trie->token_count; t++)
        if (mask[t / 64] >> t % 64 & 1 && draw(random, ++seen) == 0) *token = t;
    if (seen == 0 && !matcher_may_end(one->matcher, at)) fail_msg("'%s' is a dead end", text);
    return seen > 0;
}

static void walk_at_random(const char *schema, uint64_t seed) {
    struct matcher_case one;
    uint64_t random = seed * 2 + 1;
    char text[1024];
    size_t count = 0;
    uint32_t token = 0;
    case_open(&one, schema);
    struct grammar_position at = matcher_begin(one.matcher);
    for (uint32_t i = 0; i < 40; i++) {
        text[count] = 0;
        compare_masks(&one, at, text);
        if (!draw_token(&one, &random, at, text, &token)) break;
        at = matcher_push_token(one.matcher, at, token);
        assert_true(at.number != 0);
        memcpy(text + count, one.trie->tokens[token].data, one.trie->tokens[token].count);
        count += one.trie->tokens[token].count;
        assert_true(matcher_compact(one.matcher, &at));
    }
}

TEST(masks_hold_what_can_be_pushed_and_no_place_is_a_dead_end) {
    for (size_t i = 0; i < ARRAY_COUNT(schemas); i++)
        for (uint64_t seed = 0; seed < 12; seed++)
            walk_at_random(schemas[i], seed);
}
