/* SPDX-License-Identifier: Apache-2.0
 * Protects folded ids: texts fold as in the release's code (tests/golden/ops_v41.json), a golden
 * checkpoint's tokenizer gives its folded ids, tokens that are no text stay apart, and files that
 * are no tokenizer are refused by name.
 */
#include <stdlib.h>
#include <string.h>

#include "test_case.h"

#include "../../golden/golden.h"
#include "base/check.h"
#include "compute/weights/engram_fold.h"

TEST(texts_fold_as_published) {
    const struct tree *cases = tree_member(golden_read(golden_home(), "ops_v41.json"), "fold_text");
    assert_true(tree_count(cases) > 0);
    for (size_t i = 0; i < tree_count(cases); i++) {
        struct bytes text = {0}, folded = {0};
        char out[4096];
        assert_true(tree_get_string(tree_member(tree_at(cases, i), "text"), &text));
        assert_true(tree_get_string(tree_member(tree_at(cases, i), "folded"), &folded));
        assert_true(text.count * ENGRAM_FOLD_GROWTH <= sizeof out);
        const struct bytes found = {out, engram_fold_text(text, out)};
        if (!bytes_equal(found, folded))
            fail_msg("'%.*s' folds to '%.*s', expected '%.*s'", (int)text.count, text.data,
                     (int)found.count, found.data, (int)folded.count, folded.data);
    }
}

TEST(a_checkpoints_tokenizer) {
    static uint32_t expected[GOLDEN_LIST_MAX];
    char directory[1024];
    struct engram_fold fold;
    struct error error = {""};
    snprintf(directory, sizeof directory, "%s/v41-bf16-base", golden_home());
    const struct tree *of = tree_member(golden_read(directory, "golden.json"), "engram");
    const uint32_t vocab = golden_ids(tree_member(of, "folded_ids"), expected, GOLDEN_LIST_MAX);
    int64_t folded = 0;
    assert_true(tree_get_integer(tree_member(of, "folded_size"), &folded));
    if (engram_fold_open(directory, vocab, &fold, &error)) fail_msg("%s", error.text);
    assert_int_equal(fold.folded, folded);
    assert_memory_equal(fold.ids, expected, vocab * sizeof *expected);
    engram_fold_close(&fold);
}

static struct engram_fold folds_of(const char *text, uint32_t vocab) {
    struct engram_fold fold;
    struct error error = {""};
    if (engram_fold_read(bytes_of(text), "f.json", vocab, &fold, &error))
        fail_msg("%s", error.text);
    return fold;
}

TEST(ids_number_keys_by_their_first_token) {
    struct engram_fold fold =
        folds_of("{\"model\":{\"vocab\":{\"B\":0,\"a\":1,\"\\u0120b\":2,\"A\":3,\"\\u00c3\":4,"
                 "\"\\u00e3\":5,\"far\":9}},\"added_tokens\":[{\"id\":6,\"content\":\"b \"}]}",
                 8);
    const uint32_t expected[] = {0, 1, 0, 1, 2, 3, 0, 4}; /* 4 and 5 are halves of characters */
    assert_int_equal(fold.folded, 5);
    assert_memory_equal(fold.ids, expected, sizeof expected);
    engram_fold_close(&fold);
}

TEST(other_files_are_refused) {
    static const char *const texts[] = {"", "[]", "{\"model\":{\"vocab\":[]}}",
                                        "{\"model\":{\"vocab\":{\"a\":-1}}}",
                                        "{\"model\":{\"vocab\":{\"a\":\"x\"}}}"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct engram_fold fold;
        struct error error = {""};
        assert_int_equal(engram_fold_read(bytes_of(texts[i]), "f.json", 4, &fold, &error),
                         STATUS_INVALID);
        assert_int_equal(strncmp(error.text, "f.json:", 7), 0);
    }
}
