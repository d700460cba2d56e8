/* SPDX-License-Identifier: Apache-2.0
 * Protects the pre-tokenizer: words as the tokenizers library cuts them, pass after pass, for the
 * kinds of steps that DeepSeek's tokenizers use; clear refusal of the others.
 */
#include "serving/text/splitter.h"
#include "support.h"
#include "test_case.h"

#define SEQUENCE(steps) "{\"type\":\"Sequence\",\"pretokenizers\":[" steps "]}"
#define SPLIT(form, pattern)                                                                       \
    "{\"type\":\"Split\",\"pattern\":{\"" form "\":\"" pattern "\"},\"behavior\":\"Isolated\"},"

static char joined[4096]; /* words, with | between them */

static bool join(void *context, struct bytes word) {
    assert_true(word.count > 0);
    snprintf(joined + strlen(joined), sizeof joined - strlen(joined), "%s%.*s",
             joined[0] ? "|" : "", (int)word.count, word.data);
    return true;
}

static void splits(const char *pre_tokenizer, const char *text, const char *expected) {
    struct splitter splitter;
    struct error error;
    struct arena *arena = test_arena(4 << 20);
    if (splitter_open(arena, test_tree(bytes_of(pre_tokenizer)), "t", &splitter, &error))
        fail_msg("%s", error.text);
    joined[0] = '\0';
    assert_true(
        splitter_split(&splitter, pattern_scratch_create(arena), bytes_of(text), join, NULL));
    assert_string_equal(joined, expected);
    splitter_close(&splitter);
}

TEST(it_cuts_pass_after_pass) {
    splits(TEST_SPLIT_NOTHING, "any text", "any text");
    splits(SEQUENCE(SPLIT("Regex", "\\\\p{N}{1,3}") TEST_SPLIT_NOTHING), "a12345b6",
           "a|123|45|b|6");
    /* the second pass sees a piece's end where the first one cut */
    splits(SEQUENCE(SPLIT("Regex", "[0-9]") SPLIT("Regex", "\\\\s+(?!\\\\S)|\\\\s+")
                        TEST_SPLIT_NOTHING),
           "a   1   b", "a|   |1|  | |b");
    splits(SEQUENCE(SPLIT("String", ".") TEST_SPLIT_NOTHING), "a.b..", "a|.|b|.|.");
    splits(SEQUENCE(SPLIT("String", "") TEST_SPLIT_NOTHING), "ab", "ab");
}

/* Empty matches cut too, but not where the previous match has just ended. */
TEST(it_cuts_at_empty_matches) {
    splits(SEQUENCE(SPLIT("Regex", "x*") TEST_SPLIT_NOTHING), "aéb", "a|é|b");
    splits(SEQUENCE(SPLIT("Regex", "x*") TEST_SPLIT_NOTHING), "axxb", "a|xx|b");
    splits(SEQUENCE(SPLIT("Regex", "(?=b)") TEST_SPLIT_NOTHING), "abab", "a|ba|b");
}

TEST(it_cuts_digits_apart) {
    splits(SEQUENCE("{\"type\":\"Digits\",\"individual_digits\":true}," TEST_SPLIT_NOTHING),
           "a12½b", "a|1|2|½|b");
    splits(SEQUENCE("{\"type\":\"Digits\",\"individual_digits\":false}," TEST_SPLIT_NOTHING),
           "a12½b", "a|12½|b");
}

/* Unicode classes, and line ends as the library's engine has them. */
TEST(it_speaks_the_dialect) {
    splits(SEQUENCE(SPLIT("Regex", "\\\\s") TEST_SPLIT_NOTHING),
           "a\u3000b\xC2\x85"
           "c\uFEFFd",
           "a|\u3000|b|\xC2\x85|c\uFEFFd");
    splits(SEQUENCE(SPLIT("Regex", "a$") TEST_SPLIT_NOTHING), "ba\nca", "b|a|\nc|a");
    splits(SEQUENCE(SPLIT("Regex", "\\\\w+") TEST_SPLIT_NOTHING), "été-über", "été|-|über");
}

TEST(it_has_byte_levels_own_pattern) {
    splits("{\"type\":\"ByteLevel\",\"add_prefix_space\":false}", "I'll go  to 12 \n",
           "I|'ll| go| | to| 12| \n");
}

TEST(what_it_cannot_do_is_refused) {
    static const struct {
        const char *pre_tokenizer, *says;
    } cases[] = {
        {"null", "a step has no type"},
        {"{\"type\":\"Whitespace\"}", "ByteLevel must be the last"},
        {SEQUENCE(""), "Sequence '[]'"},
        {SEQUENCE("{\"type\":\"Metaspace\"}," TEST_SPLIT_NOTHING), "step 'Metaspace'"},
        {SEQUENCE(TEST_SPLIT_NOTHING "," TEST_SPLIT_NOTHING), "ByteLevel must be the last"},
        {"{\"type\":\"ByteLevel\",\"add_prefix_space\":true}", "add_prefix_space"},
        {SEQUENCE("{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},\"behavior\":\"Removed\"}"
                  "," TEST_SPLIT_NOTHING),
         "behavior 'Removed'"},
        {SEQUENCE("{\"type\":\"Split\",\"behavior\":\"Isolated\"}," TEST_SPLIT_NOTHING),
         "neither a Regex nor a String"},
        {SEQUENCE(SPLIT("Regex", "(a") TEST_SPLIT_NOTHING), "at byte 2"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct splitter splitter;
        struct error error = {""};
        assert_int_not_equal(splitter_open(test_arena(1 << 20),
                                           test_tree(bytes_of(cases[i].pre_tokenizer)), "t",
                                           &splitter, &error),
                             STATUS_OK);
        if (!strstr(error.text, cases[i].says)) fail_msg("case %zu says: %s", i, error.text);
    }
}
