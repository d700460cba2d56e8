/* SPDX-License-Identifier: Apache-2.0
 * Protects equality with the library tiktoken on a made-up vocabulary with Moonshot's pattern, the
 * names of special tokens, and the refusal of files that are not in order.
 */
#include "serving/text/tiktoken.h"
#include "support.h"

#define GOLDENS "tests/serving/text/goldens/"

static struct error error;

static enum status opens(struct bytes model, struct bytes config, struct tokenizer **out) {
    struct tiktoken_files files = {model, config, "t.model", "c.json"};
    struct arena *scratch = test_arena(tokenizer_tiktoken_scratch_bytes(&files));
    memset(&error, 0, sizeof error);
    enum status status = tokenizer_open_tiktoken(test_arena(tokenizer_tiktoken_arena_bytes(&files)),
                                                 scratch, files, out, &error);
    free(scratch->start);
    free(scratch);
    return status;
}

static struct tokenizer *golden_tokenizer(void) {
    static struct tokenizer *tokenizer;
    if (!tokenizer && opens(test_file(GOLDENS "tiktoken.model"),
                            test_file(GOLDENS "tiktoken_config.json"), &tokenizer))
        fail_msg("%s", error.text);
    return tokenizer;
}

static void encodes(struct bytes text, bool special, const struct tree *expected, size_t number) {
    static struct tokenizer_scratch *scratch;
    static uint32_t ids[65536];
    size_t count = 0, wanted = 0;
    if (!scratch) scratch = test_scratch();
    assert_int_equal(tokenizer_encode(golden_tokenizer(), scratch, text,
                                      special ? plain_text_nowhere : plain_text_everywhere, ids,
                                      ARRAY_COUNT(ids), &count),
                     STATUS_OK);
    uint32_t *wanted_ids = test_ids(expected, &wanted);
    if (count != wanted || memcmp(ids, wanted_ids, count * sizeof *ids))
        fail_msg("line %zu: '%.*s' gives other ids", number, (int)text.count, text.data);
    char decoded[4096];
    size_t bytes = 0;
    assert_int_equal(
        tokenizer_decode(golden_tokenizer(), ids, count, false, decoded, sizeof decoded, &bytes),
        STATUS_OK);
    assert_true(bytes_equal((struct bytes){decoded, bytes}, text));
}

TEST(it_encodes_as_the_library) {
    struct bytes rest = test_file(GOLDENS "tiktoken.jsonl");
    const struct tree *line;
    size_t number = 0;
    while ((line = test_line(&rest))) {
        number++;
        const struct tree *expected = tree_member(line, "ids");
        const struct tree *plain = tree_member(line, "ids_noparse");
        encodes(test_string(line, "text"), true, expected, number);
        encodes(test_string(line, "text"), false, plain ? plain : expected, number);
    }
    assert_int_equal(number, 576);
}

/* The pieces of a text of so many characters, one byte each: blanks where `blanks` is set. */
static void has_pieces(size_t words, size_t blanks, size_t more, const size_t *expected) {
    size_t count = words + blanks + more;
    char *text = malloc(count);
    uint32_t window = TIKTOKEN_WINDOW;
    memset(text, 'a', count);
    memset(text + words, ' ', blanks);
    for (struct bytes rest = {text, count}; rest.count > 0; expected++) {
        size_t piece = tiktoken_piece(rest, &window);
        assert_int_equal(piece, *expected);
        rest = (struct bytes){rest.data + piece, rest.count - piece};
    }
    assert_int_equal(*expected, 0);
    free(text);
}

TEST(long_texts_are_cut_as_moonshots_program_cuts_them) {
    has_pieces(25000, 0, 0, (const size_t[]){25000, 0});
    has_pieces(25001, 0, 0, (const size_t[]){25000, 1, 0});
    has_pieces(60000, 1, 25001, (const size_t[]){25000, 25000, 35001, 1, 0});
    has_pieces(10, 25001, 10, (const size_t[]){25010, 11, 0});
    static char text[1200008];
    struct bytes rest = {text, 0};
    uint32_t window = TIKTOKEN_WINDOW;
    for (size_t i = 0; i < 400002; i++) { /* of three bytes, or a blank */
        memcpy(text + rest.count, i % 4 ? "中" : " ", i % 4 ? 3 : 1);
        rest.count += i % 4 ? 3 : 1;
    }
    size_t piece = tiktoken_piece(rest, &window);
    assert_int_equal(piece, 1000000);
    rest = (struct bytes){rest.data + piece, rest.count - piece};
    assert_int_equal(tiktoken_piece(rest, &window), 4);
}

TEST(a_cut_ends_a_word) {
    static char text[25001];
    static uint32_t ids[25001], last;
    size_t count = 0, one = 0;
    struct tokenizer_scratch *scratch = test_scratch();
    memset(text, 'a', sizeof text);
    assert_int_equal(tokenizer_encode(golden_tokenizer(), scratch,
                                      (struct bytes){text, sizeof text}, plain_text_everywhere, ids,
                                      ARRAY_COUNT(ids), &count),
                     STATUS_OK);
    assert_int_equal(tokenizer_encode(golden_tokenizer(), scratch, BYTES_LITERAL("a"),
                                      plain_text_everywhere, &last, 1, &one),
                     STATUS_OK);
    assert_int_equal(ids[count - 1], last);
    assert_int_equal(tokenizer_encode(golden_tokenizer(), scratch,
                                      (struct bytes){text, sizeof text - 1}, plain_text_everywhere,
                                      ids, ARRAY_COUNT(ids), &one),
                     STATUS_OK);
    assert_int_equal(one + 1, count);
}

TEST(it_knows_special_tokens_and_their_names) {
    const struct tokenizer *tokenizer = golden_tokenizer();
    uint32_t id = 0;
    assert_int_equal(tokenizer_vocab_count(tokenizer), 1110 + TIKTOKEN_RESERVED);
    assert_true(tokenizer_find_added(tokenizer, BYTES_LITERAL("<|im_end|>"), &id));
    assert_int_equal(id, 1112);
    assert_true(tokenizer_token_is_special(tokenizer, id));
    assert_true(tokenizer_find_added(tokenizer, BYTES_LITERAL("</think>"), &id));
    assert_int_equal(id, 1133);
    assert_false(tokenizer_token_is_special(tokenizer, id));
    assert_true(tokenizer_find_added(tokenizer, BYTES_LITERAL("<|reserved_token_1115|>"), &id));
    assert_int_equal(id, 1115);
    assert_false(tokenizer_find_added(tokenizer, BYTES_LITERAL("<|reserved_token_1110|>"), &id));
    const struct prompt_frame *frame = tokenizer_frame(tokenizer);
    assert_int_equal(frame->front_count + frame->back_count, 0);
}

/* The 256 byte tokens in order, and more lines. */
static struct bytes model_of(const char *more) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    static char text[65536];
    size_t count = 0;
    for (unsigned byte = 0; byte < 256; byte++)
        count += (size_t)snprintf(text + count, sizeof text - count, "%c%c== %u\n",
                                  digits[byte >> 2], digits[(byte & 3) << 4], byte);
    count += (size_t)snprintf(text + count, sizeof text - count, "%s", more);
    return (struct bytes){text, count};
}

static void refuses(struct bytes model, const char *config, enum status status,
                    const char *message) {
    struct tokenizer *tokenizer = NULL;
    assert_int_equal(opens(model, config ? bytes_of(config) : (struct bytes){NULL, 0}, &tokenizer),
                     status);
    assert_null(tokenizer);
    if (!strstr(error.text, message)) fail_msg("says '%s', not '%s'", error.text, message);
}

TEST(it_refuses_lines_that_are_not_in_order) {
    static const struct {
        const char *more;
        enum status status;
        const char *message;
    } cases[] = {
        {"YWI= 257\n", STATUS_INVALID, "t.model:257: expected rank 256 behind the token"},
        {"YWI= 255\n", STATUS_INVALID, "expected rank 256"},
        {"YWI= 0256\n", STATUS_INVALID, "expected rank 256"},
        {"YWI= +256\n", STATUS_INVALID, "expected rank 256"},
        {"YWI= 99999999999\n", STATUS_INVALID, "expected rank 256"},
        {"YWI=256\n", STATUS_INVALID, "t.model:257: expected a token in base64, a space and"},
        {"YWI=\n", STATUS_INVALID, "expected rank 256"},
        {"\n", STATUS_INVALID, "t.model:257: expected a token in base64"},
        {" 256\n", STATUS_INVALID, "expected a token in base64"},
        {"YW 256\n", STATUS_INVALID, "found 'YW 256'"},
        {"Y=== 256\n", STATUS_INVALID, "expected a token in base64"},
        {"YWJ= 256\n", STATUS_INVALID, "expected a token in base64"}, /* bits behind the end */
        {"YW-= 256\n", STATUS_INVALID, "expected a token in base64"},
        {"YWI=YWI= 256\n", STATUS_INVALID, "expected a token in base64"},
        {"YWI= 256\nYWI= 257\n", STATUS_INVALID, "the tokens 256 and 257 have the same bytes"},
        {"YQ== 256\n", STATUS_INVALID, "the tokens 97 and 256 have the same bytes"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
        refuses(model_of(cases[i].more), NULL, cases[i].status, cases[i].message);
    refuses(BYTES_LITERAL(""), NULL, STATUS_INVALID, "t.model: expected a line for each token");
    refuses(BYTES_LITERAL("YQ== 0\n"), NULL, STATUS_UNSUPPORTED, "no token for byte 0x00");
}

TEST(it_takes_tokens_up_to_their_limit) {
    static char line[2048];
    struct tokenizer *tokenizer = NULL;
    memset(line, 'Y', 1364);
    strcpy(line + 1364, " 256");
    assert_int_equal(opens(model_of(line), (struct bytes){NULL, 0}, &tokenizer), STATUS_OK);
    assert_int_equal(tokenizer_token_bytes(tokenizer, 256).count, TIKTOKEN_TOKEN_BYTES_MAX);
    memset(line, 'Y', 1368);
    strcpy(line + 1368, " 256");
    refuses(model_of(line), NULL, STATUS_TOO_LARGE, "t.model:257: a token of 1368 bytes of base64");
    size_t count = LIMIT_VOCAB - TIKTOKEN_RESERVED + 1;
    char *lines = malloc(count);
    memset(lines, '\n', count);
    refuses((struct bytes){lines, count}, NULL, STATUS_TOO_LARGE, "tokens, expected at most");
    free(lines);
}

TEST(it_takes_lines_with_either_end) {
    struct tokenizer *tokenizer = NULL;
    assert_int_equal(opens(model_of("YWI= 256\r\nYWJj 257"), (struct bytes){NULL, 0}, &tokenizer),
                     STATUS_OK);
    struct bytes token = tokenizer_token_bytes(tokenizer, 257);
    assert_true(bytes_equal(token, BYTES_LITERAL("abc")));
}

#define DECODER(members) "{\"added_tokens_decoder\":{" members "}}"

TEST(it_refuses_special_tokens_that_are_not_in_order) {
    static const struct {
        const char *config;
        enum status status;
        const char *message;
    } cases[] = {
        {"[", STATUS_INVALID, "c.json"},
        {"{\"added_tokens_decoder\":[]}", STATUS_INVALID,
         "c.json: added_tokens_decoder is an array, expected an object"},
        {DECODER("\"x\":{\"content\":\"a\"}"), STATUS_INVALID, "expected ids as keys, found 'x'"},
        {DECODER("\"-1\":{\"content\":\"a\"}"), STATUS_INVALID, "found '-1'"},
        {DECODER("\"256\":{}"), STATUS_INVALID, "256 has no string \"content\""},
        {DECODER("\"256\":7"), STATUS_INVALID, "256 has no string \"content\""},
        {DECODER("\"97\":{\"content\":\"<x>\"}"), STATUS_INVALID, "belongs to another token"},
        {DECODER("\"9999999\":{\"content\":\"<x>\"}"), STATUS_TOO_LARGE, "has id 9999999"},
        {DECODER("\"256\":{\"content\":\"<x>\",\"lstrip\":true}"), STATUS_UNSUPPORTED, "lstrip"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
        refuses(model_of(""), cases[i].config, cases[i].status, cases[i].message);
}

/* A name is the token's text, also where byte-level vocabularies spell other bytes with it. */
TEST(names_spell_nothing) {
    struct tokenizer *tokenizer = NULL;
    assert_int_equal(
        opens(model_of(""), BYTES_LITERAL(DECODER("\"256\":{\"content\":\"Ġé\"}")), &tokenizer),
        STATUS_OK);
    assert_true(bytes_equal(tokenizer_token_bytes(tokenizer, 256), bytes_of("Ġé")));
}

TEST(it_says_when_memory_is_short) {
    struct tiktoken_files files = {model_of(""), {NULL, 0}, "t.model", "c.json"};
    for (size_t bytes = 64; bytes <= 65536; bytes *= 4) {
        struct tokenizer *tokenizer = NULL;
        assert_int_equal(tokenizer_open_tiktoken(test_arena(bytes), test_arena(1 << 20), files,
                                                 &tokenizer, &error),
                         STATUS_NO_MEMORY);
        enum status status = tokenizer_open_tiktoken(test_arena(1 << 22), test_arena(bytes / 4),
                                                     files, &tokenizer, &error);
        assert_int_equal(status, STATUS_NO_MEMORY);
    }
}
