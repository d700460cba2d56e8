/* SPDX-License-Identifier: Apache-2.0
 * Protects the reading of a vocabulary: bytes behind spelled and unspelled tokens, gaps, flags, and
 * the refusal of everything that would give an id two meanings.
 */
#include "serving/text/vocabulary.h"
#include "support.h"
#include "test_case.h"

static struct vocabulary vocabulary;
static struct error error;

static enum status reads(const char *vocab, const char *added) {
    memset(&error, 0, sizeof error);
    return vocabulary_read(test_arena(1 << 20), test_tree(bytes_of(vocab)),
                           added ? test_tree(bytes_of(added)) : NULL, "t.json", &vocabulary,
                           &error);
}

static void has(uint32_t id, const char *bytes, size_t count) {
    struct bytes got = vocabulary_bytes(&vocabulary, id);
    assert_int_equal(got.count, count);
    assert_memory_equal(got.data, bytes, count);
}

/* The table of bytes has 256 different characters and each comes back. */
TEST(it_spells_every_byte) {
    const struct tree *root = test_tree(test_json((struct test_parts){0}));
    assert_int_equal(vocabulary_read(test_arena(1 << 20),
                                     tree_member(tree_member(root, "model"), "vocab"), NULL,
                                     "t.json", &vocabulary, &error),
                     STATUS_OK);
    for (uint32_t byte = 0; byte < 256; byte++) {
        char text = (char)byte;
        has(byte, &text, 1);
        assert_int_equal(vocabulary_find(&vocabulary, (struct bytes){&text, 1}), byte);
    }
}

TEST(it_knows_kinds_and_gaps) {
    assert_int_equal(reads("{\"Ġa\":1,\"<｜x｜>\":4}",
                           "[{\"id\":4,\"content\":\"<｜x｜>\",\"special\":true},"
                           "{\"id\":6,\"content\":\"<y>\",\"special\":false}]"),
                     STATUS_OK);
    assert_int_equal(vocabulary.count, 7);
    has(1, " a", 2);
    has(4, "<｜x｜>", strlen("<｜x｜>"));
    has(6, "<y>", 3);
    has(0, "", 0);
    has(1000000, "", 0);
    assert_true(vocabulary_is(&vocabulary, 4, VOCABULARY_SPECIAL));
    assert_true(vocabulary_is(&vocabulary, 6, VOCABULARY_ADDED));
    assert_false(vocabulary_is(&vocabulary, 6, VOCABULARY_SPECIAL));
    assert_false(vocabulary_is(&vocabulary, 1, VOCABULARY_ADDED));
    assert_false(vocabulary_is(&vocabulary, 1000000, VOCABULARY_USED));
    assert_int_equal(vocabulary_find(&vocabulary, BYTES_LITERAL("<y>")), VOCABULARY_NONE);
    assert_int_equal(vocabulary_find(&vocabulary, BYTES_LITERAL(" a")), 1);
}

TEST(an_id_with_two_meanings_is_refused) {
    static const struct {
        const char *vocab, *added;
        enum status status;
        const char *says;
    } cases[] = {
        {"{\"a\":1,\"b\":1}", NULL, STATUS_INVALID, "two tokens have id 1"},
        {"{\"a\":-1}", NULL, STATUS_TOO_LARGE, "'a' has id -1"},
        {"{\"a\":1048576}", NULL, STATUS_TOO_LARGE, "1048576"},
        {"{\"a\":\"1\"}", NULL, STATUS_INVALID, "a string, expected an integer"},
        {"{\"a\":1}", "[{\"id\":1,\"content\":\"b\"}]", STATUS_INVALID, "belongs to another"},
        {"{\"a\":1}", "[{\"id\":2,\"content\":\"a\"}]", STATUS_INVALID, "belongs to another"},
        {"{\"a\":1}", "[{\"id\":2}]", STATUS_INVALID, "added_tokens[0]"},
        {"{\"a\":1}", "[7]", STATUS_INVALID, "added_tokens[0]"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        assert_int_equal(reads(cases[i].vocab, cases[i].added), cases[i].status);
        if (!strstr(error.text, cases[i].says)) fail_msg("case %zu says: %s", i, error.text);
    }
}

TEST(it_takes_tokens_as_bytes) {
    static const struct bytes tokens[] = {{"a", 1}, {"\xFF\x00", 2}, {"Ġ", 2}};
    const struct tree *added = test_tree(BYTES_LITERAL("[{\"id\":4,\"content\":\"Ġx\"}]"));
    struct arena *arena = test_arena(1 << 20);
    assert_int_equal(
        vocabulary_read_ranked(arena, tokens, 3, added, "t.model", &vocabulary, &error), STATUS_OK);
    assert_int_equal(vocabulary.count, 5);
    has(1, "\xFF\x00", 2);
    has(2, "Ġ", 2);
    has(4, "Ġx", 3);
    assert_int_equal(vocabulary_find(&vocabulary, tokens[1]), 1);
    assert_int_equal(vocabulary_find(&vocabulary, BYTES_LITERAL("Ġx")), VOCABULARY_NONE);
    assert_true(vocabulary_is(&vocabulary, 4, VOCABULARY_ADDED));
    assert_false(vocabulary_is(&vocabulary, 3, VOCABULARY_USED));
    static const struct bytes twice[] = {{"a", 1}, {"b", 1}, {"a", 1}};
    assert_int_equal(vocabulary_read_ranked(arena, twice, 3, NULL, "t.model", &vocabulary, &error),
                     STATUS_INVALID);
    assert_non_null(strstr(error.text, "t.model: the tokens 0 and 2 have the same bytes"));
}
