/* SPDX-License-Identifier: Apache-2.0
 * Protects equality with the tokenizers library on DeepSeek-V3's tokenizer: 3,000 texts in 40
 * scripts and styles, 300 decodings of random ids, and the chats, which were made with that
 * library.
 */
#define TEST_OWN_MAIN
#include "support.h"

static struct tokenizer *tokenizer;
static struct tokenizer_scratch *scratch;
static uint32_t ids[65536];
static char text_out[65536];

static void encodes(struct bytes text, bool special, const struct tree *expected, size_t line) {
    size_t count = 0, wanted = 0;
    assert_int_equal(tokenizer_encode(tokenizer, scratch, text,
                                      special ? plain_text_nowhere : plain_text_everywhere, ids,
                                      ARRAY_COUNT(ids), &count),
                     STATUS_OK);
    uint32_t *wanted_ids = test_ids(expected, &wanted);
    if (count != wanted || memcmp(ids, wanted_ids, count * sizeof *ids))
        fail_msg("line %zu: '%.*s' gives other ids", line, (int)text.count, text.data);
    free(wanted_ids);
}

TEST(it_encodes_as_the_library) {
    struct bytes rest = test_file("tests/serving/text/goldens/golden_visible.jsonl");
    const struct tree *line;
    size_t number = 0;
    while ((line = test_line(&rest))) {
        number++;
        const struct tree *expected = tree_member(line, "ids");
        const struct tree *plain = tree_member(line, "ids_noparse");
        encodes(test_string(line, "text"), true, expected, number);
        encodes(test_string(line, "text"), false, plain ? plain : expected, number);
    }
    assert_int_equal(number, 3000);
}

static void decodes(const struct tree *line, bool skip_special, const char *key, size_t number) {
    size_t id_count = 0, count = 0;
    uint32_t *given = test_ids(tree_member(line, "ids"), &id_count);
    struct bytes expected = test_string(line, key);
    assert_int_equal(tokenizer_decode(tokenizer, given, id_count, skip_special, text_out,
                                      sizeof text_out, &count),
                     STATUS_OK);
    if (!bytes_equal((struct bytes){text_out, count}, expected))
        fail_msg("line %zu, %s: another text", number, key);
    free(given);
}

TEST(it_decodes_as_the_library) {
    struct bytes rest = test_file("tests/serving/text/goldens/decode_visible.jsonl");
    const struct tree *line;
    size_t number = 0;
    while ((line = test_line(&rest))) {
        number++;
        decodes(line, false, "text", number);
        decodes(line, true, "text_skip_special", number);
    }
    assert_int_equal(number, 300);
}

TEST(it_encodes_chats) {
    const struct tree *chats = test_tree(test_file("tests/serving/text/goldens/chat_visible.json"));
    assert_int_equal(tree_count(chats), 34);
    for (size_t i = 0; i < tree_count(chats); i++)
        encodes(test_string(tree_at(chats, i), "text"), true, tree_member(tree_at(chats, i), "ids"),
                i);
}

TEST(it_knows_its_tokens) {
    uint32_t id = 0;
    assert_int_equal(tokenizer_vocab_count(tokenizer), 128815);
    assert_true(tokenizer_find(tokenizer, BYTES_LITERAL("<｜end▁of▁sentence｜>"), &id));
    assert_int_equal(id, 1);
    assert_true(tokenizer_token_is_special(tokenizer, 1));
    assert_true(tokenizer_find(tokenizer, BYTES_LITERAL("<｜Assistant｜>"), &id));
    assert_int_equal(id, 128804);
    assert_true(tokenizer_token_is_added(tokenizer, id));
    assert_false(tokenizer_token_is_special(tokenizer, id));
    assert_false(tokenizer_find(tokenizer, BYTES_LITERAL("<|Assistant|>"), &id));
    for (id = 0; id < 128815; id++)
        assert_true(tokenizer_token_bytes(tokenizer, id).count > 0);
    assert_int_equal(tokenizer_token_bytes(tokenizer, 129279).count, 0);
}

int main(void) {
    struct bytes json;
    if (!test_v3_file("tokenizer.json", &json)) {
        printf("1..0 # SKIP DeepSeek-V3's tokenizer is not installed; ./dev test installs it\n");
        return 0;
    }
    tokenizer = test_tokenizer(json, "tokenizer.json");
    scratch = test_scratch();
    return test_cases_run();
}
