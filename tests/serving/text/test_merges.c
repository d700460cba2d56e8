/* SPDX-License-Identifier: Apache-2.0
 * Protects the order of merging: on random vocabularies and words of all lengths, both ways of
 * merging (scan and tournament) give what the definition gives, applied literally.
 */
#include "serving/text/merges.h"
#include "support.h"
#include "test_case.h"

#define MERGES 120
#define WORD_BYTES_MAX 400

/* A random vocabulary over {a, b, c}: each merge joins two tokens that are there already. */
struct sample {
    uint32_t count; /* tokens beyond the 256 bytes = merges */
    char texts[MERGES][64];
    uint32_t left[MERGES], right[MERGES]; /* ids */
    struct vocabulary vocabulary;
    struct merges merges;
};

static const char *text_of(const struct sample *sample, uint32_t id) {
    static const char letters[][2] = {"a", "b", "c"};
    return id < 256 ? letters[id - 'a'] : sample->texts[id - 256];
}

static bool is_new(const struct sample *sample, const char *text) {
    for (uint32_t i = 0; i < sample->count; i++)
        if (!strcmp(sample->texts[i], text)) return false;
    return true;
}

static void sample_make(struct sample *sample, uint64_t *random, bool arrays) {
    static char vocab[65536], merges[65536];
    size_t vocab_bytes = 0, merges_bytes = 0;
    memset(sample, 0, sizeof *sample);
    while (sample->count < MERGES) {
        uint32_t sides[2];
        for (int i = 0; i < 2; i++) {
            uint32_t pick = (uint32_t)(test_random(random) % (3 + sample->count));
            sides[i] = pick < 3 ? 'a' + pick : 256 + pick - 3;
        }
        char text[128];
        snprintf(text, sizeof text, "%s%s", text_of(sample, sides[0]), text_of(sample, sides[1]));
        if (strlen(text) > 60 || !is_new(sample, text)) continue;
        vocab_bytes +=
            (size_t)sprintf(vocab + vocab_bytes, ",\"%s\":%u", text, 256 + sample->count);
        merges_bytes += (size_t)sprintf(
            merges + merges_bytes, arrays ? "%s[\"%s\",\"%s\"]" : "%s\"%s %s\"",
            sample->count ? "," : "", text_of(sample, sides[0]), text_of(sample, sides[1]));
        sample->left[sample->count] = sides[0];
        sample->right[sample->count] = sides[1];
        strcpy(sample->texts[sample->count++], text);
    }
    const struct tree *model = tree_member(
        test_tree(test_json((struct test_parts){.vocab = vocab, .merges = merges})), "model");
    struct arena *arena = test_arena(1 << 20);
    struct error error;
    assert_int_equal(
        vocabulary_read(arena, tree_member(model, "vocab"), NULL, "t", &sample->vocabulary, &error),
        STATUS_OK);
    assert_int_equal(merges_read(arena, test_arena(1 << 16), tree_member(model, "merges"),
                                 &sample->vocabulary, "t", &sample->merges, &error),
                     STATUS_OK);
}

/* The definition: the leftmost of the pairs of lowest rank, until there is none. */
static size_t merge_literally(const struct sample *sample, const char *word, size_t count,
                              uint32_t *ids) {
    for (size_t i = 0; i < count; i++)
        ids[i] = (uint8_t)word[i];
    for (;;) {
        uint32_t best_rank = MERGES;
        size_t best = 0;
        for (size_t i = 0; i + 1 < count; i++)
            for (uint32_t rank = 0; rank < best_rank; rank++)
                if (ids[i] == sample->left[rank] && ids[i + 1] == sample->right[rank]) {
                    best_rank = rank;
                    best = i;
                }
        if (best_rank == MERGES) return count;
        ids[best] = 256 + best_rank;
        count--;
        memmove(ids + best + 1, ids + best + 2, (count - best - 1) * sizeof *ids);
    }
}

TEST(it_merges_by_rank_then_place) {
    static struct sample sample;
    struct merges_scratch scratch;
    uint64_t random = 7;
    assert_true(merges_scratch_open(&scratch, test_arena(1 << 16), WORD_BYTES_MAX));
    for (int round = 0; round < 12; round++) {
        sample_make(&sample, &random, round % 2);
        for (int trial = 0; trial < 150; trial++) {
            char word[WORD_BYTES_MAX];
            uint32_t expected[WORD_BYTES_MAX];
            size_t limit = trial % 3 ? 60 : WORD_BYTES_MAX;
            size_t count = 1 + test_random(&random) % limit;
            uint32_t letters = 1 + (uint32_t)(test_random(&random) % 3);
            for (size_t i = 0; i < count; i++)
                word[i] = (char)('a' + test_random(&random) % letters);
            size_t wanted = merge_literally(&sample, word, count, expected);
            size_t got = merges_apply(&sample.merges, &scratch, (struct bytes){word, count});
            assert_int_equal(got, wanted);
            assert_memory_equal(scratch.ids, expected, got * sizeof *expected);
        }
    }
}

static void refuses(struct test_parts parts, const char *says) {
    struct vocabulary vocabulary;
    struct merges merges;
    struct error error = {""};
    const struct tree *model = tree_member(test_tree(test_json(parts)), "model");
    struct arena *arena = test_arena(1 << 20);
    assert_int_equal(
        vocabulary_read(arena, tree_member(model, "vocab"), NULL, "t", &vocabulary, &error),
        STATUS_OK);
    assert_int_not_equal(merges_read(arena, test_arena(1 << 16), tree_member(model, "merges"),
                                     &vocabulary, "t", &merges, &error),
                         STATUS_OK);
    if (!strstr(error.text, says)) fail_msg("says: %s", error.text);
}

TEST(it_refuses_what_it_cannot_do) {
    refuses((struct test_parts){.merges = "\"a b\""}, "'a' + 'b'");
    refuses((struct test_parts){.merges = "\"ab\""}, "merges[0]: expected two tokens");
    refuses((struct test_parts){.merges = "\"a b c\""}, "merges[0]: expected two tokens");
    refuses((struct test_parts){.merges = "[\"a\"]"}, "merges[0]: expected two tokens");
    refuses((struct test_parts){.merges = "7"}, "merges[0]: expected two tokens");
    refuses((struct test_parts){.vocab = ",\"ab\":256", .merges = "\"a b\",\"ab \""}, "merges[1]");
}

TEST(it_refuses_a_vocabulary_without_all_bytes) {
    struct vocabulary vocabulary;
    struct merges merges;
    struct error error;
    struct arena *arena = test_arena(1 << 20);
    assert_int_equal(vocabulary_read(arena, test_tree(BYTES_LITERAL("{\"a\":0}")), NULL, "t",
                                     &vocabulary, &error),
                     STATUS_OK);
    assert_int_equal(merges_read(arena, test_arena(1 << 16), test_tree(BYTES_LITERAL("[]")),
                                 &vocabulary, "t", &merges, &error),
                     STATUS_UNSUPPORTED);
    assert_non_null(strstr(error.text, "byte 0x00"));
}

/* ---- derived merges ---- */

/* Merges the leftmost of the pairs that make the token of the lowest id, until none makes one. */
static size_t merge_lowest(const struct vocabulary *vocabulary, struct bytes word, uint32_t *ids) {
    size_t ends[WORD_BYTES_MAX], count = word.count;
    for (size_t i = 0; i < count; i++)
        ends[i] = i + 1;
    for (;;) {
        uint32_t lowest = VOCABULARY_NONE;
        size_t best = 0;
        for (size_t i = 0; i + 1 < count; i++) {
            size_t start = i ? ends[i - 1] : 0;
            struct bytes both = {word.data + start, ends[i + 1] - start};
            uint32_t id = vocabulary_find(vocabulary, both);
            if (id < lowest) lowest = id, best = i;
        }
        if (lowest == VOCABULARY_NONE) break;
        memmove(ends + best, ends + best + 1, (--count - best) * sizeof *ends);
    }
    for (size_t i = 0; i < count; i++) {
        size_t start = i ? ends[i - 1] : 0;
        ids[i] = vocabulary_find(vocabulary, (struct bytes){word.data + start, ends[i] - start});
    }
    return count;
}

/* Tokens of random letters, so that many can be made in several ways, and some in none. */
static uint32_t random_tokens(uint64_t *random, struct bytes *tokens, char (*texts)[8]) {
    uint32_t count = 256;
    for (unsigned byte = 0; byte < 256; byte++) {
        texts[byte][0] = (char)byte;
        tokens[byte] = (struct bytes){texts[byte], 1};
    }
    while (count < 256 + MERGES) {
        size_t bytes = 2 + test_random(random) % 5;
        for (size_t i = 0; i < bytes; i++)
            texts[count][i] = (char)('a' + test_random(random) % 2);
        tokens[count] = (struct bytes){texts[count], bytes};
        uint32_t same = 256;
        while (same < count && !bytes_equal(tokens[same], tokens[count]))
            same++;
        count += same == count;
        if (count >= 256 + 90) break; /* there are 124 in all */
    }
    return count;
}

TEST(derived_merges_take_the_lowest_token_leftmost) {
    static struct bytes tokens[256 + MERGES];
    static char texts[256 + MERGES][8], word[WORD_BYTES_MAX];
    uint64_t random = 29;
    for (int round = 0; round < 40; round++) {
        struct arena *arena = test_arena(1 << 20);
        struct vocabulary vocabulary;
        struct merges merges;
        struct merges_scratch scratch;
        struct error error;
        uint32_t count = random_tokens(&random, tokens, texts), ids[WORD_BYTES_MAX];
        assert_int_equal(
            vocabulary_read_ranked(arena, tokens, count, NULL, "t", &vocabulary, &error),
            STATUS_OK);
        assert_int_equal(
            merges_derive(arena, test_arena(1 << 16), &vocabulary, count, "t", &merges, &error),
            STATUS_OK);
        assert_true(merges_scratch_open(&scratch, arena, WORD_BYTES_MAX));
        for (int words = 0; words < 100; words++) {
            size_t bytes = 1 + test_random(&random) % (words % 2 ? 12 : WORD_BYTES_MAX);
            for (size_t i = 0; i < bytes; i++)
                word[i] = (char)('a' + (test_random(&random) % 9 + 1) / 5);
            size_t expected = merge_lowest(&vocabulary, (struct bytes){word, bytes}, ids);
            size_t found = merges_apply(&merges, &scratch, (struct bytes){word, bytes});
            assert_int_equal(found, expected);
            assert_memory_equal(scratch.ids, ids, found * sizeof *ids);
        }
    }
}
