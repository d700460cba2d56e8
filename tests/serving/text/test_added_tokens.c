/* SPDX-License-Identifier: Apache-2.0
 * Protects added tokens in raw text: leftmost first, then the longest, each group by itself; and
 * the refusal of what is not supported.
 */
#include "serving/text/added_tokens.h"
#include "support.h"
#include "test_case.h"

static struct added_tokens added;
static struct error error;

static enum status reads(const char *list) {
    return added_tokens_read(test_arena(1 << 20), list ? test_tree(bytes_of(list)) : NULL, "t.json",
                             &added, &error);
}

static void open_three(void) {
    assert_int_equal(reads("[{\"id\":1,\"content\":\"<a>\"},{\"id\":2,\"content\":\"<a><b>\"},"
                           "{\"id\":3,\"content\":\"b><\",\"normalized\":true},"
                           "{\"id\":4,\"content\":\"\"}]"),
                     STATUS_OK);
}

/* id 0: nothing from there on. */
static void finds(const char *text, enum added_group group, size_t from, uint32_t id, size_t start,
                  size_t end) {
    struct added_match match = {0};
    assert_int_equal(added_tokens_find(&added, group, bytes_of(text), from, &match), id > 0);
    assert_int_equal(match.id, id);
    assert_int_equal(match.start, start);
    assert_int_equal(match.end, end);
}

TEST(the_leftmost_and_then_the_longest_is_found) {
    open_three();
    finds("x<a><b>", ADDED_VERBATIM, 0, 2, 1, 7);
    finds("x<a><c>", ADDED_VERBATIM, 0, 1, 1, 4);
    finds("<b><a", ADDED_VERBATIM, 0, 0, 0, 0);
    finds("<a><a><b>", ADDED_VERBATIM, 1, 2, 3, 9);
    finds("", ADDED_VERBATIM, 0, 0, 0, 0);
}

TEST(each_group_is_found_by_itself) {
    open_three();
    finds("<a><b><", ADDED_NORMALIZED, 0, 3, 4, 7);
    finds("b><", ADDED_VERBATIM, 0, 0, 0, 0);
}

TEST(a_whole_text_is_a_token_or_is_not) {
    uint32_t id = 0;
    open_three();
    assert_true(added_tokens_exact(&added, BYTES_LITERAL("<a><b>"), &id) && id == 2);
    assert_true(added_tokens_exact(&added, BYTES_LITERAL("b><"), &id) && id == 3);
    assert_false(added_tokens_exact(&added, BYTES_LITERAL("<a><"), &id));
    assert_false(added_tokens_exact(&added, BYTES_LITERAL(""), &id));
}

TEST(without_a_list_nothing_is_found) {
    assert_int_equal(reads(NULL), STATUS_OK);
    finds("<a>", ADDED_VERBATIM, 0, 0, 0, 0);
}

TEST(what_is_not_supported_is_named) {
    static const struct {
        const char *list, *says;
        enum status status;
    } cases[] = {
        {"[{\"id\":1,\"content\":\"<a>\",\"lstrip\":true}]", "'<a>' asks for lstrip",
         STATUS_UNSUPPORTED},
        {"[{\"id\":1,\"content\":\"<a>\",\"rstrip\":true}]", "rstrip", STATUS_UNSUPPORTED},
        {"[{\"id\":1,\"content\":\"<a>\",\"single_word\":true}]", "single_word",
         STATUS_UNSUPPORTED},
        {"[{\"id\":1,\"content\":\"a\"},{\"id\":2}]", "added_tokens[1]", STATUS_INVALID},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        assert_int_equal(reads(cases[i].list), cases[i].status);
        if (!strstr(error.text, cases[i].says)) fail_msg("case %zu says: %s", i, error.text);
    }
}
