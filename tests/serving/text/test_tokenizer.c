/* SPDX-License-Identifier: Apache-2.0
 * Protects the tokenizer as a whole on the embedded model's file and on small made-up ones: what
 * goes in comes out again, added tokens come first, limits and short buffers are statuses, long
 * words take no quadratic time, and what a file asks for in vain is refused by name.
 */
#include <time.h>

#include "base/utf8.h"
#include "support.h"

static struct tokenizer *tiny;
static struct tokenizer_scratch *scratch;
static uint32_t ids[TEST_TEXT_BYTES_MAX];
static char out[TEST_TEXT_BYTES_MAX];

static size_t encode(struct tokenizer *tokenizer, struct bytes text, bool special) {
    size_t count = 0;
    assert_int_equal(tokenizer_encode(tokenizer, scratch, text,
                                      special ? plain_text_nowhere : plain_text_everywhere, ids,
                                      ARRAY_COUNT(ids), &count),
                     STATUS_OK);
    return count;
}

static void gives(struct tokenizer *tokenizer, struct bytes text, bool special,
                  const uint32_t *expected, size_t count) {
    assert_int_equal(encode(tokenizer, text, special), count);
    assert_memory_equal(ids, expected, count * sizeof *ids);
}

#define GIVES(tokenizer, text, special, ...)                                                       \
    gives(tokenizer, BYTES_LITERAL(text), special, (const uint32_t[]){__VA_ARGS__},                \
          ARRAY_COUNT(((const uint32_t[]){__VA_ARGS__})))

static struct tokenizer *small(struct test_parts parts) {
    return test_tokenizer(test_json(parts), "small.json");
}

/* decode(encode(x)) == x, with and without added tokens, U+0000 included. */
TEST(it_gives_back_what_it_got) {
    static char text[8192];
    uint64_t random = 3;
    for (int round = 0; round < 3000; round++) {
        size_t bytes = test_random_text(&random, test_random(&random) % 120, text);
        if (round % 4 == 0) {
            static const char more[] = "<think>\0<｜User｜>x";
            memcpy(text + bytes, more, sizeof more);
            bytes += sizeof more;
        }
        size_t count = encode(tiny, (struct bytes){text, bytes}, round % 2), got = 0;
        assert_int_equal(tokenizer_decode(tiny, ids, count, false, out, sizeof out, &got),
                         STATUS_OK);
        assert_int_equal(got, bytes);
        assert_memory_equal(out, text, bytes);
    }
}

/* No merge goes beyond a token, so encoding each side of an added token alone is the same. */
TEST(it_cuts_at_added_tokens) {
    uint32_t think = 0, end = 0, before[64];
    assert_true(tokenizer_find(tiny, BYTES_LITERAL("<think>"), &think));
    assert_true(tokenizer_find(tiny, BYTES_LITERAL("</think>"), &end));
    assert_true(tokenizer_token_is_added(tiny, think) && !tokenizer_token_is_special(tiny, think));
    size_t count = encode(tiny, BYTES_LITERAL("What is"), true);
    memcpy(before, ids, count * sizeof *ids);
    size_t all = encode(tiny, BYTES_LITERAL("What is<think></think>What is"), true);
    assert_int_equal(all, 2 * count + 2);
    assert_memory_equal(ids, before, count * sizeof *ids);
    assert_int_equal(ids[count], think);
    assert_int_equal(ids[count + 1], end);
    assert_memory_equal(ids + count + 2, before, count * sizeof *ids);
    encode(tiny, BYTES_LITERAL("<think>"), false);
    assert_int_not_equal(ids[0], think);
}

/* Leftmost, then longest; verbatim tokens before the others. */
TEST(it_finds_added_tokens) {
    struct tokenizer *t = small((struct test_parts){
        .added = "{\"id\":300,\"content\":\"<a>\"},{\"id\":301,\"content\":\"<a><b>\"},"
                 "{\"id\":302,\"content\":\"b><\",\"normalized\":true},"
                 "{\"id\":303,\"content\":\"\",\"normalized\":true}"});
    GIVES(t, "<a><b>", true, 301);
    GIVES(t, "<a><c", true, 300, '<', 'c');
    GIVES(t, "<b><a>", true, '<', 'b', '>', 300);
    GIVES(t, "<b><a", true, '<', 302, 'a');
    GIVES(t, "<a>", false, '<', 'a', '>');
    tokenizer_close(t);
}

static size_t encode_plain(struct tokenizer *t, struct bytes text, const struct text_span *spans,
                           size_t span_count) {
    size_t count = 0;
    assert_int_equal(tokenizer_encode(t, scratch, text, (struct plain_text){spans, span_count}, ids,
                                      ARRAY_COUNT(ids), &count),
                     STATUS_OK);
    return count;
}

#define PLAIN(text, start, end, ...)                                                               \
    do {                                                                                           \
        const uint32_t expected[] = {__VA_ARGS__};                                                 \
        const struct text_span span = {start, end};                                                \
        assert_int_equal(encode_plain(t, BYTES_LITERAL(text), &span, 1), ARRAY_COUNT(expected));   \
        assert_memory_equal(ids, expected, sizeof expected);                                       \
    } while (0)

/* A byte of a plain part neither completes a token nor hides one that is there without it. */
TEST(it_recognizes_no_added_token_in_plain_parts) {
    struct tokenizer *t = small((struct test_parts){
        .vocab = ",\"xy\":256",
        .merges = "\"x y\"",
        .added = "{\"id\":300,\"content\":\"<a>\"},{\"id\":301,\"content\":\"<a><b>\"},"
                 "{\"id\":302,\"content\":\"[n]\",\"normalized\":true}"});
    PLAIN("<a><a><a>", 3, 6, 300, '<', 'a', '>', 300);
    PLAIN("<a>[n]<a>[n]", 3, 9, 300, '[', 'n', ']', '<', 'a', '>', 302);
    PLAIN("<a><b>", 3, 6, 300, '<', 'b', '>'); /* the shorter one, as if nothing followed */
    PLAIN("<a>", 0, 1, '<', 'a', '>');
    PLAIN("<a>", 2, 3, '<', 'a', '>');
    PLAIN("<a>", 1, 2, '<', 'a', '>');
    PLAIN("xyxy", 1, 3, 256, 256); /* words are cut and merged as ever */
    PLAIN("<a>", 0, 1000, '<', 'a', '>');
    const struct text_span two[2] = {{0, 3}, {3, 6}};
    assert_int_equal(encode_plain(t, BYTES_LITERAL("<a><a><a>"), two, 2), 7);
    assert_int_equal(ids[6], 300);
    size_t count;
    assert_int_equal(tokenizer_encode(t, scratch, BYTES_LITERAL("a\xFFz"),
                                      (struct plain_text){two, 2}, ids, 9, &count),
                     STATUS_INVALID);
    tokenizer_close(t);
}

/* Random parts of texts without added tokens: the ids are those of the text. */
TEST(plain_parts_change_no_other_token) {
    static char text[8192];
    static uint32_t whole[8192];
    uint64_t random = 8;
    for (int round = 0; round < 2000; round++) {
        size_t bytes = test_random_text(&random, test_random(&random) % 90, text);
        size_t count = encode(tiny, (struct bytes){text, bytes}, true), span_count = 0;
        struct text_span spans[8];
        memcpy(whole, ids, count * sizeof *ids);
        for (uint32_t at = 0; span_count < 8 && at < bytes; span_count++) {
            uint32_t start = at + (uint32_t)(test_random(&random) % 9);
            at = start + 1 + (uint32_t)(test_random(&random) % 9);
            spans[span_count] = (struct text_span){start, at};
        }
        assert_int_equal(encode_plain(tiny, (struct bytes){text, bytes}, spans, span_count), count);
        assert_memory_equal(ids, whole, count * sizeof *ids);
    }
}

TEST(it_repairs_invalid_text) {
    struct tokenizer *t = small((struct test_parts){0});
    GIVES(t, "a\xE4\xB8z", true, 'a', 0xEF, 0xBF, 0xBD, 'z');
    GIVES(t, "\xFF", false, 0xEF, 0xBF, 0xBD);
    tokenizer_close(t);
}

TEST(it_obeys_ignore_merges) {
    static const char vocab[] = ",\"ab\":256,\"bc\":257,\"abc\":258", merges[] = "\"b c\",\"a b\"";
    struct tokenizer *merging = small((struct test_parts){.vocab = vocab, .merges = merges});
    GIVES(merging, "abc", true, 'a', 257);
    struct tokenizer *whole = small(
        (struct test_parts){.vocab = vocab, .merges = merges, .model = ",\"ignore_merges\":true"});
    GIVES(whole, "abc", true, 258);
    GIVES(merging, "abc", true, 'a', 257); /* the scratch keeps nothing of another tokenizer */
    tokenizer_close(merging);
    tokenizer_close(whole);
}

TEST(it_says_how_much_room_it_needs) {
    struct bytes text = BYTES_LITERAL("<think>one two three</think>");
    uint32_t few[4];
    size_t all = encode(tiny, text, true), count = 0, bytes = 0;
    assert_true(all > 4);
    assert_int_equal(tokenizer_encode(tiny, scratch, text, plain_text_nowhere, few, 4, &count),
                     STATUS_FULL);
    assert_int_equal(count, all);
    assert_memory_equal(few, ids, sizeof few);
    assert_int_equal(tokenizer_decode(tiny, ids, all, false, out, 7, &bytes), STATUS_FULL);
    assert_int_equal(bytes, text.count);
    assert_int_equal(tokenizer_decode(tiny, ids, all, false, out, bytes, &bytes), STATUS_OK);
}

TEST(it_refuses_more_than_its_scratch) {
    struct tokenizer_scratch *tight =
        tokenizer_scratch_create(test_arena(tokenizer_scratch_bytes(100)), 100);
    size_t count = 0;
    memset(out, 'x', 101);
    assert_int_equal(tokenizer_encode(tiny, tight, (struct bytes){out, 101}, plain_text_nowhere,
                                      ids, 200, &count),
                     STATUS_TOO_LARGE);
    assert_int_equal(tokenizer_encode(tiny, tight, (struct bytes){out, 100}, plain_text_nowhere,
                                      ids, 200, &count),
                     STATUS_OK);
    memset(out, 0xFF, 34); /* 102 bytes once repaired */
    assert_int_equal(tokenizer_encode(tiny, tight, (struct bytes){out, 34}, plain_text_nowhere, ids,
                                      200, &count),
                     STATUS_TOO_LARGE);
    assert_null(tokenizer_scratch_create(test_arena(1 << 20), 1 << 20));
}

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

/* Words of a megabyte: a quadratic step anywhere would take minutes. */
TEST(it_takes_long_words) {
    static const char *const units[] = {"a", " ",   "\n",  "1",    "!",  "中",
                                        "é", " \t", "<｜", "\r\n", "zq", "\xCC\x81"};
    for (size_t i = 0; i < ARRAY_COUNT(units); i++) {
        size_t unit = strlen(units[i]), bytes = 0, got = 0;
        char *text = malloc(1 << 20);
        assert_non_null(text);
        for (; bytes + unit <= 1 << 20; bytes += unit)
            memcpy(text + bytes, units[i], unit);
        double start = now();
        size_t count = encode(tiny, (struct bytes){text, bytes}, true);
        double seconds = now() - start;
        if (seconds > 20) fail_msg("'%s' took %.1f s", units[i], seconds);
        assert_int_equal(tokenizer_decode(tiny, ids, count, false, out, sizeof out, &got),
                         STATUS_OK);
        assert_int_equal(got, bytes);
        assert_memory_equal(out, text, bytes);
        free(text);
    }
}

/* What is said of a text before it is encoded holds for it, and is no idle word: the tightest of
 * texts, one long token again and again, has exactly as many tokens as the bound says, or nearly.
 */
TEST(it_bounds_the_count_from_below) {
    static char text[8192];
    uint64_t random = 5;
    for (int round = 0; round < 3000; round++) {
        size_t bytes = test_random_text(&random, test_random(&random) % 200, text);
        if (round % 3 == 0) /* a long run of one of its bytes, where tokens are long */
            for (size_t end = bytes + 300; bytes < end; bytes++)
                text[bytes] = " -=a0\n"[round % 6];
        struct bytes whole = {text, bytes};
        size_t count = encode(tiny, whole, round % 2), least = tokenizer_count_min(tiny, whole);
        if (least > count) fail_msg("at least %zu, but there are %zu", least, count);
        assert_int_equal(least == 0, bytes == 0);
    }
    size_t bytes = 0;
    while (bytes < 4000) {
        memcpy(text + bytes, " instrumentality", 16);
        bytes += 16;
    }
    size_t count = encode(tiny, (struct bytes){text, bytes}, true);
    assert_int_equal(count, bytes / 16);
    assert_true(tokenizer_count_min(tiny, (struct bytes){text, bytes}) > count / 2);
    assert_true(tokenizer_count_min(tiny, BYTES_LITERAL("<｜begin▁of▁sentence｜>")) == 1);
}

/* An added token whose text is longer than the bytes it is decoded to counts as the text. */
TEST(bounds_count_added_texts) {
    struct tokenizer *tokenizer = small((struct test_parts){
        .vocab = ",\"ĠĠĠĠ\":256", .added = "{\"id\":256,\"content\":\"ĠĠĠĠ\"}"});
    struct bytes text = BYTES_LITERAL("ĠĠĠĠĠĠĠĠ");
    assert_int_equal(encode(tokenizer, text, true), 2);
    assert_true(tokenizer_count_min(tokenizer, text) <= 2);
}

/* Encoding within a limit is encoding, until the limit is sure to be passed. */
TEST(it_stops_at_its_limit) {
    static char text[8192];
    static uint32_t within[8192];
    uint64_t random = 6;
    for (int round = 0; round < 2000; round++) {
        size_t bytes = test_random_text(&random, 1 + test_random(&random) % 200, text), got = 0;
        if (round % 4 == 0) {
            memcpy(text + bytes, "<think><｜User｜>", 17);
            bytes += 17;
        }
        if (round % 5 == 0)
            for (size_t end = bytes + 100; bytes < end; bytes++)
                text[bytes] = 'x'; /* one long word */
        struct bytes whole = {text, bytes};
        size_t count = encode(tiny, whole, true), limit = test_random(&random) % (count + 3);
        enum status status =
            tokenizer_encode_within(tiny, scratch, whole, plain_text_nowhere, within, limit, &got);
        if (count <= limit) {
            assert_int_equal(status, STATUS_OK);
            assert_int_equal(got, count);
            assert_memory_equal(within, ids, count * sizeof *ids);
        } else {
            assert_int_equal(status, STATUS_FULL);
            assert_true(got > limit && got <= count);
        }
    }
}

TEST(it_skips_special_tokens_only) {
    const uint32_t some[] = {0, 4083, 'a', 1, 999999};
    size_t count = 0;
    assert_int_equal(tokenizer_decode(tiny, some, 5, true, out, sizeof out, &count), STATUS_OK);
    struct bytes text = {out, count};
    assert_true(bytes_start_with(text, BYTES_LITERAL("<｜Assistant｜>")));
    assert_null(memmem(out, count, "sentence", 8));
    assert_int_equal(tokenizer_decode(tiny, some, 5, false, out, sizeof out, &count), STATUS_OK);
    assert_true(
        bytes_start_with((struct bytes){out, count}, BYTES_LITERAL("<｜begin▁of▁sentence｜>")));
    assert_int_equal(tokenizer_vocab_count(tiny), 4096);
}

TEST(it_refuses_what_it_cannot_do) {
    static const struct {
        struct test_parts parts;
        const char *says;
    } cases[] = {
        {{.root = ",\"normalizer\":{\"type\":\"NFC\"}"}, "normalizer of type 'NFC'"},
        {{.root = ",\"post_processor\":{\"type\":\"BertProcessing\"}"},
         "post_processor of type 'BertProcessing'"},
        {{.root = ",\"decoder2\":1", .model = ",\"byte_fallback\":true"}, "model.byte_fallback"},
        {{.model = ",\"dropout\":0.1"}, "model.dropout"},
        {{.model = ",\"end_of_word_suffix\":\"</w>\""}, "model.end_of_word_suffix"},
        {{.added = "{\"id\":300,\"content\":\"<a>\",\"lstrip\":true}"}, "'<a>' asks for lstrip"},
        {{.pre_tokenizer = "{\"type\":\"BertPreTokenizer\"}"}, "ByteLevel must be the last"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct tokenizer *tokenizer = NULL;
        struct error error = {""};
        assert_int_equal(tokenizer_open(test_arena(1 << 20), test_arena(1 << 21),
                                        test_json(cases[i].parts), "t.json", &tokenizer, &error),
                         STATUS_UNSUPPORTED);
        if (!strstr(error.text, cases[i].says)) fail_msg("case %zu says: %s", i, error.text);
        assert_null(tokenizer);
    }
}

TEST(it_refuses_what_is_no_tokenizer) {
    static const char *const texts[] = {
        "",
        "{",
        "[]",
        "{}",
        "7",
        "{\"model\":{\"type\":\"BPE\"},\"decoder\":{\"type\":\"ByteLevel\"}}",
        "{\"model\":{\"type\":\"BPE\",\"vocab\":[],\"merges\":[]},\"decoder\":{\"type\":"
        "\"ByteLevel\"}}",
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]},\"decoder\":{\"type\":"
        "\"ByteLevel\"}}",
        "{\"model\":{\"type\":\"Unigram\"},\"decoder\":{\"type\":\"ByteLevel\"}}"};
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        struct tokenizer *tokenizer = NULL;
        struct error error = {""};
        assert_int_not_equal(tokenizer_open(test_arena(1 << 20), test_arena(1 << 20),
                                            bytes_of(texts[i]), "t.json", &tokenizer, &error),
                             STATUS_OK);
        assert_non_null(strstr(error.text, "t.json: "));
    }
}

/* Too little memory for either arena is a status, whatever the amount. */
TEST(it_survives_short_memory) {
    struct bytes json = test_json((struct test_parts){.vocab = ",\"ab\":256", .merges = "\"a b\""});
    size_t tries = 0;
    for (size_t bytes = 0; bytes < 1 << 17; bytes += 1 + bytes / 7, tries++) {
        struct tokenizer *tokenizer = NULL;
        struct error error;
        struct arena *short_arena = test_arena(bytes + 1);
        enum status status =
            tokenizer_open(short_arena, test_arena(1 << 20), json, "t.json", &tokenizer, &error);
        assert_true(status == STATUS_OK || status == STATUS_NO_MEMORY);
        if (!status) tokenizer_close(tokenizer);
        status =
            tokenizer_open(test_arena(1 << 20), short_arena, json, "t.json", &tokenizer, &error);
        assert_true(status == STATUS_OK || status == STATUS_NO_MEMORY);
        if (!status) tokenizer_close(tokenizer);
    }
    assert_true(tries > 50);
}

static int open_group(void **state) {
    (void)state;
    tiny = test_tokenizer(test_file("models/tiny-r1/tokenizer.json"), "tokenizer.json");
    scratch = test_scratch();
    return 0;
}

TEST_GROUP(open_group, NULL)
