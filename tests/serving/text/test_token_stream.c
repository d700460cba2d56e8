/* SPDX-License-Identifier: Apache-2.0
 * Protects what a reader sees of an answer: never half a character, the same text however the
 * tokens fall, stop strings found across tokens and cut off, reasoning parted from content, and
 * tool calls read out of the content alone.
 */
#include "serving/text/token_stream.h"
#include "support.h"
#include "tool_support.h"

static struct tokenizer *tiny; /* its first 256 byte tokens let any bytes be pushed */
static uint32_t byte_ids[256];
static uint32_t eos;

struct gathered {
    char reasoning[8192], content[8192];
    size_t reasoning_bytes, content_bytes;
    size_t pieces;
};

static void gather(void *context, enum token_stream_part part, struct bytes text) {
    struct gathered *all = context;
    assert_true(text.count > 0);
    assert_int_equal(utf8_valid_prefix(text), text.count);
    all->pieces++;
    if (part == TOKEN_STREAM_REASONING) {
        memcpy(all->reasoning + all->reasoning_bytes, text.data, text.count);
        all->reasoning_bytes += text.count;
    } else {
        memcpy(all->content + all->content_bytes, text.data, text.count);
        all->content_bytes += text.count;
    }
}

/* The token of a tag that the text begins with, if it is to be one. */
static const char *const tags[] = {"<think>", "</think>"};

static size_t tag_at(struct bytes text, uint32_t *token) {
    for (size_t i = 0; i < ARRAY_COUNT(tags); i++) {
        struct bytes tag = bytes_of(tags[i]);
        if (!bytes_start_with(text, tag)) continue;
        assert_true(tokenizer_find(tiny, tag, token));
        return tag.count;
    }
    return 0;
}

/* Pushes `text` byte by byte, its tags as tokens. */
static bool run(struct bytes text, const struct stop_strings *stops, enum token_stream_mode mode,
                struct gathered *all) {
    struct token_stream stream;
    *all = (struct gathered){.pieces = 0};
    token_stream_open(&stream, tiny, stops, mode, NULL);
    while (text.count) {
        uint32_t token;
        size_t count = tag_at(text, &token);
        if (!count) token = byte_ids[(uint8_t)text.data[0]];
        if (!count) count = 1;
        text = (struct bytes){text.data + count, text.count - count};
        if (token_stream_push(&stream, token, gather, all)) break;
    }
    token_stream_finish(&stream, gather, all);
    return stream.stopped;
}

static void shows(const char *text, enum token_stream_mode mode, const char *reasoning,
                  const char *content) {
    struct gathered all;
    assert_false(run(bytes_of(text), NULL, mode, &all));
    all.reasoning[all.reasoning_bytes] = all.content[all.content_bytes] = '\0';
    if (strcmp(all.reasoning, reasoning) || strcmp(all.content, content))
        fail_msg("'%s' mode %d shows '%s' and '%s'", text, mode, all.reasoning, all.content);
}

TEST(it_parts_reasoning_from_content) {
    const enum token_stream_mode plain = TOKEN_STREAM_PLAIN, may = TOKEN_STREAM_MAY_THINK,
                                 in = TOKEN_STREAM_IN_REASONING, goes_on = TOKEN_STREAM_GOES_ON,
                                 behind = TOKEN_STREAM_BEHIND_TOOL,
                                 begins = TOKEN_STREAM_IN_CONTENT;
    shows("<think>\na</think>b\n", plain, "", "<think>\na</think>b\n");
    shows("<think>\n straw\n\nb\n</think>\n\nThe\n\nend\n", may, " straw\n\nb", "The\n\nend\n");
    shows("\n straw\n</think>\n\nThe end", in, " straw", "The end");
    shows("\n</think>\n\n", in, "", "");
    shows("</think>x", in, "", "x");
    shows("a</thin</think>b</think>", in, "a</thin", "b");
    shows("a<</think>b", in, "a<", "b");
    shows("a\n</x\n\n</think>b", in, "a\n</x", "b");
    shows("still thinking\n\n", in, "still thinking", "");
    shows("still thinking\n</thi", in, "still thinking\n</thi", "");
    shows("\nno tag", may, "", "\nno tag");
    shows("<thin", may, "", "<thin");
    shows("<thing>", may, "", "<thing>");
    /* thoughts open and close at any place; what closes none is dropped */
    for (int i = 0; i < 2; i++) {
        enum token_stream_mode mode = i ? behind : goes_on;
        shows("<think>\nb\n</think>\n\nc", mode, "b", "c");
        shows("a<think>\nb\n</think>\n\nc", mode, "b", "a\n\nc");
        shows("a\n</think>\n\nc", mode, "", "a\n\n\nc");
        shows("\n</think>c</think>", mode, "", "\nc");
        shows("</think>\n\nc", mode, "", "c");
        shows("a<think>b</think>c<think>d</think>e", mode, "bd", "ace");
        shows("\n<think>b</think>c", mode, "b", "c");
        shows("a<think>b", mode, "b", "a");
        shows("a<thin", mode, "", "a<thin");
    }
    /* elsewhere only what an answer begins with; an answer may write about tags */
    for (int i = 0; i < 2; i++) {
        enum token_stream_mode mode = i ? may : begins;
        shows("<think>\nb\n</think>\n\nc", mode, "b", "c");
        shows("\n\n<think>b</think>\nc", mode, "b", "c");
        shows("\n<thing>", mode, "", "\n<thing>");
        shows("\n</think>c", mode, "", "\nc");
        shows("a<think>b</think>c</think>d", mode, "", "a<think>b</think>cd");
        shows("<think>a</think>b<think>c</think>d", mode, "a", "b<think>c</think>d");
        shows("a</think>b", mode, "", "ab");
    }
    shows("a</think>b<think>c</think>d", in, "a", "b<think>c</think>d");
    shows("<think><think></think>", may, "<think>", "");
    shows("", may, "", "");
    shows("", in, "", "");
    /* more newlines than are held back are put out, the last ones not */
    shows("a\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n</think>b", in, "a\n\n", "b");
}

/* The same characters, but of ordinary tokens, are nobody's tags. */
TEST(spelled_tags_are_text) {
    static const char text[] = "a<think>b</think>c";
    for (enum token_stream_mode mode = 0; mode < TOKEN_STREAM_MODE_COUNT; mode++) {
        struct token_stream stream;
        struct gathered all = {.pieces = 0};
        bool reasons = mode == TOKEN_STREAM_IN_REASONING;
        token_stream_open(&stream, tiny, NULL, mode, NULL);
        for (const char *at = text; *at; at++)
            token_stream_push(&stream, byte_ids[(uint8_t)*at], gather, &all);
        token_stream_finish(&stream, gather, &all);
        assert_int_equal(reasons ? all.reasoning_bytes : all.content_bytes, sizeof text - 1);
        assert_memory_equal(reasons ? all.reasoning : all.content, text, sizeof text - 1);
    }
}

#define CUT_TEXT "a<think>b</think>c"
#define CUT_BYTES (sizeof CUT_TEXT - 1)
#define CUT_TOKENS 256u /* the first token of more bytes than one */

/* Each run of bytes of CUT_TEXT is a token; tags are no added ones. cut_ids[from][to] */
static uint32_t cut_ids[CUT_BYTES][CUT_BYTES + 1];

static struct tokenizer *cut_tokenizer(void) {
    static char vocab[32768];
    size_t count = 0;
    uint32_t next = CUT_TOKENS;
    for (size_t from = 0; from < CUT_BYTES; from++)
        for (size_t to = from + 1; to <= CUT_BYTES; to++) {
            struct bytes known = {CUT_TEXT + from, to - from};
            uint32_t id = (uint8_t)known.data[0];
            for (size_t i = 0; i < from && known.count > 1; i++)
                for (size_t n = 0; i + n <= from && id < CUT_TOKENS; n++)
                    if (n == known.count && !memcmp(CUT_TEXT + i, known.data, n))
                        id = cut_ids[i][i + n];
            if (known.count > 1 && id < CUT_TOKENS) {
                id = next++;
                count += (size_t)snprintf(vocab + count, sizeof vocab - count, ",\"%.*s\":%u",
                                          (int)known.count, known.data, id);
            }
            cut_ids[from][to] = id;
        }
    return test_tokenizer(test_json((struct test_parts){.vocab = vocab}), "tokenizer.json");
}

/* Pushes the text, cut behind each byte that has its bit in `cuts`. */
static void shows_cut(const struct tokenizer *tokenizer, const struct stop_strings *stops,
                      uint32_t cuts) {
    struct token_stream stream;
    struct gathered all = {.pieces = 0};
    token_stream_open(&stream, tokenizer, stops, TOKEN_STREAM_GOES_ON, NULL);
    for (size_t from = 0, to = 1; to <= CUT_BYTES; to++) {
        if (to < CUT_BYTES && !(cuts >> (to - 1) & 1)) continue;
        token_stream_push(&stream, cut_ids[from][to], gather, &all);
        from = to;
    }
    token_stream_finish(&stream, gather, &all);
    if (all.reasoning_bytes != 1 || all.content_bytes != 2 || all.reasoning[0] != 'b' ||
        memcmp(all.content, "ac", 2) != 0)
        fail_msg("cuts %x show '%.*s' and '%.*s'", cuts, (int)all.reasoning_bytes, all.reasoning,
                 (int)all.content_bytes, all.content);
}

/* Where the tokenizer has no tokens for them the characters are tags, however they are cut. */
TEST(every_cut_of_spelled_tags_shows_the_same) {
    struct tokenizer *tokenizer = cut_tokenizer();
    struct stop_strings stops = {.count = 0};
    assert_int_equal(token_stream_stop_strings_add(&stops, BYTES_LITERAL("</thought"), NULL),
                     STATUS_OK);
    for (uint32_t cuts = 0; cuts < 1u << (CUT_BYTES - 1); cuts++)
        shows_cut(tokenizer, cuts % 2 ? &stops : NULL, cuts);
}

/* A tag in a call's arguments is a part of them. */
TEST(tags_in_calls_are_arguments) {
    static const struct tool_set set = {.format = TOOL_FORMAT_HERMES};
    static const char text[] =
        "a<tool_call>{\"name\": \"f\", \"arguments\": {\"x\": \"<think>y</think>\"}}</tool_call>";
    struct token_stream stream;
    static struct tool_seen seen;
    struct bytes rest = bytes_of(text);
    seen_open(&seen);
    token_stream_open(&stream, tiny, NULL, TOKEN_STREAM_GOES_ON, &set);
    while (rest.count) {
        uint32_t token;
        size_t count = tag_at(rest, &token);
        if (!count) token = byte_ids[(uint8_t)rest.data[0]];
        if (!count) count = 1;
        rest = (struct bytes){rest.data + count, rest.count - count};
        token_stream_push(&stream, token, seen_take, &seen);
    }
    token_stream_finish(&stream, seen_take, &seen);
    seen_end_call(&seen);
    assert_string_equal(seen.text, "a«f({\"x\": \"<think>y</think>\"})»");
}

TEST(it_counts_reasoning_tokens) {
    struct token_stream stream;
    struct gathered all = {.pieces = 0};
    uint32_t think = 0, end = 0;
    assert_true(tokenizer_find(tiny, BYTES_LITERAL("<think>"), &think));
    assert_true(tokenizer_find(tiny, BYTES_LITERAL("</think>"), &end));
    const uint32_t tokens[] = {think, byte_ids['a'], byte_ids['b'], end, byte_ids['c'], eos};
    token_stream_open(&stream, tiny, NULL, TOKEN_STREAM_MAY_THINK, NULL);
    for (size_t i = 0; i < ARRAY_COUNT(tokens); i++)
        assert_false(token_stream_push(&stream, tokens[i], gather, &all));
    token_stream_finish(&stream, gather, &all);
    assert_int_equal(stream.reasoning_tokens, 4);
    assert_int_equal(all.reasoning_bytes, 2);
    assert_int_equal(all.content_bytes, 1); /* the end of sentence is not shown */
}

static struct stop_strings stops_of(const char *const *texts) {
    struct stop_strings stops = {.count = 0};
    for (; *texts; texts++)
        assert_int_equal(token_stream_stop_strings_add(&stops, bytes_of(*texts), NULL), STATUS_OK);
    return stops;
}

static void stops_at(const char *text, const char *const *texts, const char *expected,
                     bool stopped) {
    struct gathered all;
    struct stop_strings stops = stops_of(texts);
    assert_int_equal(run(bytes_of(text), &stops, TOKEN_STREAM_PLAIN, &all), stopped);
    all.content[all.content_bytes] = '\0';
    assert_string_equal(all.content, expected);
}

#define STOPS(...) ((const char *const[]){__VA_ARGS__, NULL})

TEST(it_stops_at_strings) {
    stops_at("one two three", STOPS("two"), "one ", true);
    stops_at("one tw", STOPS("two"), "one tw", false);
    stops_at("ttwo", STOPS("two"), "t", true);
    stops_at("aabaabaaac", STOPS("aabaaac"), "aab", true); /* overlaps itself */
    stops_at("abcd", STOPS("bcde", "c"), "ab", true);      /* the first to be whole */
    stops_at("abcd", STOPS("d", "bcd"), "a", true);        /* the longest of those */
    stops_at("x中z文y", STOPS("文"), "x中z", true);
    stops_at("x中z丮y", STOPS("丯"), "x中z丮y", false); /* two bytes of three alike */
    stops_at("\n\nUser:", STOPS("User:", "\n\nUser"), "", true);
}

/* Text is put out as soon as it cannot become a stop string any more. */
TEST(it_holds_back_no_more_than_it_must) {
    struct stop_strings stops = stops_of(STOPS("two"));
    struct token_stream stream;
    struct gathered all = {.pieces = 0};
    static const char text[] = "at twin";
    static const size_t seen[] = {1, 1, 3, 3, 3, 6, 7};
    token_stream_open(&stream, tiny, &stops, TOKEN_STREAM_PLAIN, NULL);
    for (size_t i = 0; i < sizeof text - 1; i++) {
        token_stream_push(&stream, byte_ids[(uint8_t)text[i]], gather, &all);
        assert_int_equal(all.content_bytes, seen[i]);
    }
}

TEST(it_finds_stops_in_reasoning) {
    struct gathered all;
    struct stop_strings stops = stops_of(STOPS("</think>"));
    assert_true(run(BYTES_LITERAL("so\n</think>\n\nyes"), &stops, TOKEN_STREAM_IN_REASONING, &all));
    assert_int_equal(all.reasoning_bytes, 2);
    assert_int_equal(all.content_bytes, 0);
}

/* Pushes `text`, in which each '^', '$' and '@' is the token that opens, closes, and begins what is
 * bound; the stop strings are "ab", "$x" and "b@". The last one's mark is special and has no
 * text. */
static void bound_shows(const char *text, struct token_stream_bound bound, const char *reasoning,
                        const char *content) {
    static const char *const names[] = {"<think>", "</think>",
                                        "<\xef\xbd\x9c\xe2\x96\x81pad\xe2\x96\x81\xef\xbd\x9c>"};
    static const char *const stop_texts[] = {"ab", "</think>x", "b@"};
    uint32_t marks[3];
    struct stop_strings stops = {0};
    struct token_stream stream;
    struct gathered all = {.pieces = 0};
    for (size_t i = 0; i < 3; i++) {
        assert_true(tokenizer_find(tiny, bytes_of(names[i]), &marks[i]));
        assert_int_equal(token_stream_stop_strings_add(&stops, bytes_of(stop_texts[i]), NULL),
                         STATUS_OK);
    }
    bound.opens = bound.opens ? marks[0] : TOKEN_STREAM_NO_TOKEN;
    bound.behind = bound.behind ? marks[1] : TOKEN_STREAM_NO_TOKEN;
    bound.at = bound.at ? marks[2] : TOKEN_STREAM_NO_TOKEN;
    enum token_stream_mode mode = TOKEN_STREAM_PLAIN;
    if (bound.behind != TOKEN_STREAM_NO_TOKEN)
        mode = bound.opens == TOKEN_STREAM_NO_TOKEN ? TOKEN_STREAM_IN_REASONING
                                                    : TOKEN_STREAM_MAY_THINK;
    token_stream_open(&stream, tiny, &stops, mode, NULL);
    token_stream_bind(&stream, &bound);
    for (const char *at = text; *at; at++) {
        const char *mark = strchr("^$@", *at);
        uint32_t token = mark ? marks[mark - "^$@"] : byte_ids[(uint8_t)*at];
        if (token_stream_push(&stream, token, gather, &all)) break;
    }
    token_stream_finish(&stream, gather, &all);
    all.reasoning[all.reasoning_bytes] = all.content[all.content_bytes] = '\0';
    if (strcmp(all.reasoning, reasoning) || strcmp(all.content, content))
        fail_msg("'%s' shows '%s' and '%s'", text, all.reasoning, all.content);
}

TEST(stop_strings_do_not_cut_what_is_bound) {
    struct token_stream_bound at_once = {0}, behind = {0, 1, 0}, opens = {1, 1, 0}, at = {0, 0, 1},
                              both = {0, 1, 1}, all = {1, 1, 1};
    bound_shows("cabd", at_once, "", "cabd");
    bound_shows("cabd$e", behind, "c", "");
    bound_shows("cd$eabf", behind, "cd", "eabf");
    bound_shows("cda$bf", behind, "cda", "bf"); /* what was held back is text */
    bound_shows("c$xabf", behind, "c", "xabf");
    bound_shows("^cd$eabf", opens, "cd", "eabf");
    bound_shows("^cabd$e", opens, "c", "");
    bound_shows("cabd", opens, "", "cabd"); /* it does not think */
    bound_shows("cabd@ab", at, "", "c");
    bound_shows("ca@babd", at, "", "cababd");
    bound_shows("cb@dab", at, "", "cbdab");
    bound_shows("c@d$cabd", both, "cd", "c"); /* `at` counts behind the reasoning alone */
    bound_shows("c$d@cabd", both, "c", "dcabd");
    bound_shows("^c$dab@cabd", all, "c", "d");
    bound_shows("d@cabd", all, "", "dcabd");
    bound_shows("dab@cabd", all, "", "d");
}

TEST(it_refuses_bad_stop_strings) {
    static char long_text[LIMIT_STOP_STRING_BYTES + 1];
    struct stop_strings stops = {.count = 0};
    struct error error;
    memset(long_text, 'x', sizeof long_text);
    assert_int_equal(token_stream_stop_strings_add(&stops, BYTES_LITERAL(""), &error),
                     STATUS_INVALID);
    assert_int_equal(token_stream_stop_strings_add(&stops, BYTES_LITERAL("\xE4\xB8"), &error),
                     STATUS_INVALID);
    assert_int_equal(
        token_stream_stop_strings_add(&stops, (struct bytes){long_text, sizeof long_text}, &error),
        STATUS_TOO_LARGE);
    for (int i = 0; i < LIMIT_STOP_STRINGS; i++)
        assert_int_equal(token_stream_stop_strings_add(
                             &stops, (struct bytes){long_text, LIMIT_STOP_STRING_BYTES}, &error),
                         STATUS_OK);
    assert_int_equal(token_stream_stop_strings_add(&stops, BYTES_LITERAL("x"), &error),
                     STATUS_TOO_LARGE);
    stops_at("yxx", STOPS("xxx"), "yxx", false);
}

/* Random bytes (characters, halves of them, tags, newlines) against the plain definition: decode,
 * cut at the stop string that is whole first. */
TEST(it_equals_decoding_at_once) {
    static const char *const parts[] = {"中",       "\xE4\xB8", "a", "ab",       "\n",
                                        "\xF0\x9F", "é",        "<", "</think>", "<think>",
                                        "aab",      "\xFF",     " ", "b"};
    static const char *const choices[] = {"aa", "ab\n", "中a", "b", "aabaa", "\n\n", "é<"};
    uint64_t random = 11;
    for (int round = 0; round < 20000; round++) {
        char text[256], decoded[1024];
        uint32_t ids[256];
        size_t bytes = 0, count = 0, stop_count = test_random(&random) % 4;
        for (size_t i = test_random(&random) % 30; i > 0; i--) {
            const char *part = parts[test_random(&random) % ARRAY_COUNT(parts)];
            memcpy(text + bytes, part, strlen(part));
            bytes += strlen(part);
        }
        for (size_t i = 0; i < bytes; i++)
            ids[i] = byte_ids[(uint8_t)text[i]];
        struct stop_strings stops = {.count = 0};
        for (size_t i = 0; i < stop_count; i++)
            assert_int_equal(
                token_stream_stop_strings_add(
                    &stops, bytes_of(choices[test_random(&random) % ARRAY_COUNT(choices)]), NULL),
                STATUS_OK);
        assert_int_equal(tokenizer_decode(tiny, ids, bytes, true, decoded, sizeof decoded, &count),
                         STATUS_OK);
        bool stopped = false;
        for (size_t end = 1; end <= count && !stopped; end++) {
            size_t longest = 0;
            for (size_t i = 0; i < stop_count; i++) {
                size_t length = stops.strings[i].bytes;
                if (length <= end && length > longest &&
                    !memcmp(decoded + end - length, stops.strings[i].text, length))
                    longest = length;
            }
            if (longest == 0) continue;
            count = end - longest;
            stopped = true;
        }
        struct gathered all;
        assert_int_equal(run((struct bytes){text, bytes}, &stops, TOKEN_STREAM_PLAIN, &all),
                         stopped);
        assert_int_equal(all.content_bytes, count);
        assert_memory_equal(all.content, decoded, count);
    }
}

/* One text, tokenized in different ways but for its tags, in every mode, shows the same. */
TEST(it_does_not_depend_on_the_tokens) {
    struct tokenizer_scratch *scratch = test_scratch();
    struct stop_strings stops = stops_of(STOPS("and then", "\n\n\n"));
    uint64_t random = 5;
    for (int round = 0; round < 3000; round++) {
        static char text[4096];
        uint32_t ids[4096];
        size_t count = 0, bytes = 0;
        if (round % 2) bytes += (size_t)sprintf(text, "<think>\nA thought. ");
        bytes += test_random_text(&random, test_random(&random) % 200, text + bytes);
        bytes += (size_t)sprintf(text + bytes, "\n</think>\n\nan answer%s",
                                 round % 3 ? "" : " and then");
        bytes += test_random_text(&random, test_random(&random) % 50, text + bytes);
        enum token_stream_mode mode = (enum token_stream_mode)(round % TOKEN_STREAM_MODE_COUNT);
        struct gathered expected, got = {.pieces = 0};
        bool stopped = run((struct bytes){text, bytes}, &stops, mode, &expected);
        assert_int_equal(tokenizer_encode(tiny, scratch, (struct bytes){text, bytes},
                                          plain_text_nowhere, ids, ARRAY_COUNT(ids), &count),
                         STATUS_OK);
        struct token_stream stream;
        token_stream_open(&stream, tiny, &stops, mode, NULL);
        for (size_t i = 0; i < count; i++) {
            size_t before = got.reasoning_bytes + got.content_bytes;
            token_stream_push(&stream, ids[i], gather, &got);
            assert_true(got.reasoning_bytes + got.content_bytes - before <=
                        TOKEN_STREAM_HELD_MAX +
                            TOKEN_STREAM_GROWTH_MAX * tokenizer_token_bytes(tiny, ids[i]).count);
        }
        token_stream_finish(&stream, gather, &got);
        assert_int_equal(stream.stopped, stopped);
        assert_int_equal(got.content_bytes, expected.content_bytes);
        assert_memory_equal(got.content, expected.content, got.content_bytes);
        assert_int_equal(got.reasoning_bytes, expected.reasoning_bytes);
        assert_memory_equal(got.reasoning, expected.reasoning, got.reasoning_bytes);
    }
}

/* ---- with tools ---- */

#define KIMI_ID(i) (300u + (i))

static const char *const kimi_specials[] = {
    "<|tool_calls_section_begin|>", "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>", "<|tool_call_end|>",
    "<|tool_calls_section_end|>",   "<|im_end|>",
};

/* The byte tokens, and Kimi's special ones. */
static struct tokenizer *kimi_tokenizer(void) {
    static char added[1024];
    size_t count = 0;
    for (unsigned i = 0; i < ARRAY_COUNT(kimi_specials); i++)
        count += (size_t)snprintf(added + count, sizeof added - count,
                                  "%s{\"id\":%u,\"content\":\"%s\",\"special\":true}", i ? "," : "",
                                  KIMI_ID(i), kimi_specials[i]);
    return test_tokenizer(test_json((struct test_parts){.added = added}), "tokenizer.json");
}

static const struct tool_set kimi_tools = {.format = TOOL_FORMAT_KIMI};

/* Pushes text, whose bytes '0' to '5' stand for the special tokens. */
static void push_kimi(struct token_stream *stream, const char *text, struct tool_seen *seen) {
    for (; *text; text++) {
        uint32_t token = *text >= '0' && *text <= '5' ? KIMI_ID((uint32_t)(*text - '0'))
                                                      : (uint32_t)(uint8_t)*text;
        if (token_stream_push(stream, token, seen_take, seen)) break;
    }
    token_stream_finish(stream, seen_take, seen);
    seen_end_call(seen);
}

static void kimi_shows(const char *text, enum token_stream_mode mode, const char *stop,
                       const struct tool_set *tools, const char *expected) {
    static struct tokenizer *tokenizer;
    static struct tool_seen seen;
    struct token_stream stream;
    if (!tokenizer) tokenizer = kimi_tokenizer();
    struct stop_strings stops = {.count = 0};
    if (stop)
        assert_int_equal(token_stream_stop_strings_add(&stops, bytes_of(stop), NULL), STATUS_OK);
    seen_open(&seen);
    token_stream_open(&stream, tokenizer, stop ? &stops : NULL, mode, tools);
    push_kimi(&stream, text, &seen);
    assert_string_equal(seen.text, expected);
}

TEST(it_reads_calls_out_of_the_content_alone) {
    const struct tool_set *tools = &kimi_tools;
    kimi_shows("hm\n</think>\n\nSo.01functions.get:a2{\"a\":\"b\"}34\n5", TOKEN_STREAM_IN_REASONING,
               NULL, tools, "hmSo.«functions.get:a#get:a({\"a\":\"b\"})»");
    kimi_shows("01a2{}34</think>01b2{}34", TOKEN_STREAM_IN_REASONING, NULL, tools,
               "<|tool_calls_section_begin|><|tool_call_begin|>a<|tool_call_argument_begin|>{}"
               "<|tool_call_end|><|tool_calls_section_end|>«b#b({})»");
    kimi_shows("01a2{}34", TOKEN_STREAM_PLAIN, NULL, NULL, "a{}");
    kimi_shows("0 5no", TOKEN_STREAM_MAY_THINK, NULL, tools, "<|tool_calls_section_begin|> no");
}

TEST(it_puts_all_out_when_a_stop_string_ends_it) {
    const struct tool_set *tools = &kimi_tools;
    kimi_shows("x1a2{\"b\": STOP}3", TOKEN_STREAM_PLAIN, "STOP", tools, "x«a#a({\"b\":)»");
    kimi_shows("x\n1abSTOP2{}3", TOKEN_STREAM_PLAIN, "STOP", tools, "x\n<|tool_call_begin|>ab");
    kimi_shows("x\n</thSTOP", TOKEN_STREAM_IN_REASONING, "STOP", tools, "x\n</th");
}

/* The special token has no text, and the same characters of other tokens have. */
TEST(a_special_token_stops_it_where_a_stop_string_is_its_text) {
    const struct tool_set *tools = &kimi_tools;
    kimi_shows("ab5cd", TOKEN_STREAM_PLAIN, "<|im_end|>", NULL, "ab");
    kimi_shows("ab5cd", TOKEN_STREAM_PLAIN, "im_end", NULL, "abcd");
    kimi_shows("ab<|im_end|>cd", TOKEN_STREAM_PLAIN, "<|im_end|>", NULL, "ab");
    kimi_shows("ab<|im5cd", TOKEN_STREAM_PLAIN, "<|im_end|>", NULL, "ab<|im");
    kimi_shows("ab\xE4"
               "5cd",
               TOKEN_STREAM_PLAIN, "<|im_end|>", NULL, "ab\xEF\xBF\xBD");
    kimi_shows("ab0cd", TOKEN_STREAM_PLAIN, kimi_specials[0], NULL, "ab");
    kimi_shows("x01a2{}345y", TOKEN_STREAM_PLAIN, "<|im_end|>", tools, "x«a#a({})»");
    kimi_shows("hm5</think>yes", TOKEN_STREAM_IN_REASONING, "<|im_end|>", tools, "hm");
}

TEST(it_says_which_stop_string_a_special_token_was) {
    struct stop_strings stops = stops_of(STOPS("no", "<｜end▁of▁sentence｜>", "never"));
    struct gathered all = {.pieces = 0};
    struct token_stream stream;
    token_stream_open(&stream, tiny, &stops, TOKEN_STREAM_PLAIN, NULL);
    assert_false(token_stream_push(&stream, byte_ids['n'], gather, &all));
    assert_true(token_stream_push(&stream, eos, gather, &all));
    assert_int_equal(stream.stopped_by, 1);
    assert_int_equal(all.content_bytes, 1); /* "n" was held back */
    struct token_stream_bound at_once = {TOKEN_STREAM_NO_TOKEN, TOKEN_STREAM_NO_TOKEN,
                                         TOKEN_STREAM_NO_TOKEN};
    token_stream_open(&stream, tiny, &stops, TOKEN_STREAM_PLAIN, NULL);
    token_stream_bind(&stream, &at_once);
    assert_false(token_stream_push(&stream, eos, gather, &all));
}

struct counted {
    size_t bytes;
};

static void count_bytes(void *context, enum token_stream_part part, struct bytes text) {
    ((struct counted *)context)->bytes += text.count;
}

/* Marks, halves of them, control bytes and halves of characters, in every format. */
TEST(it_puts_out_no_more_than_it_says) {
    static const char *const texts[] = {
        "\x01\x01\x01\x01", "\xE4", "中\xFF", "\n\n",    "<", "get", "{\"name\":\"get\",",
        "\"arguments\":{",  "}",    "\"",     "</think>"};
    uint64_t random = 29;
    for (int round = 0; round < 4000; round++) {
        enum tool_format format = (enum tool_format)(round % TOOL_FORMAT_COUNT);
        struct tool_set set = {.format = format};
        struct stop_strings stops = stops_of(STOPS("and then"));
        struct token_stream stream;
        struct counted counted = {0};
        size_t in = 0, before = 0;
        token_stream_open(&stream, tiny, &stops,
                          (enum token_stream_mode)(test_random(&random) % TOKEN_STREAM_MODE_COUNT),
                          &set);
        for (size_t left = test_random(&random) % 60; left > 0; left--) {
            const char *const *syntax = tool_syntax[format];
            size_t count = 0;
            while (syntax[count])
                count++;
            const char *text = test_random(&random) % 2
                                   ? syntax[test_random(&random) % count]
                                   : texts[test_random(&random) % ARRAY_COUNT(texts)];
            for (; *text; text++) {
                token_stream_push(&stream, byte_ids[(uint8_t)*text], count_bytes, &counted);
                in++;
                assert_true(counted.bytes <= TOKEN_STREAM_GROWTH_MAX * in);
                assert_true(counted.bytes - before <=
                            TOKEN_STREAM_HELD_MAX + TOKEN_STREAM_GROWTH_MAX);
                before = counted.bytes;
            }
        }
        token_stream_finish(&stream, count_bytes, &counted);
        assert_true(counted.bytes - before <= TOKEN_STREAM_HELD_MAX);
    }
}

static int open_group(void **state) {
    (void)state;
    tiny = test_tokenizer(test_file("models/tiny-r1/tokenizer.json"), "tokenizer.json");
    for (int byte = 0; byte < 256; byte++) {
        char text = (char)byte;
        check(tokenizer_find(tiny, (struct bytes){&text, 1}, &byte_ids[byte]));
    }
    check(tokenizer_find(tiny, BYTES_LITERAL("<｜end▁of▁sentence｜>"), &eos));
    return 0;
}

TEST_GROUP(open_group, NULL)
