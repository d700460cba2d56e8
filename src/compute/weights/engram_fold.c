/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/weights/engram_fold.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/byte_level.h"
#include "base/file.h"
#include "base/format.h"
#include "base/tree.h"
#include "base/unicode.h"
#include "base/unicode_base.h"
#include "base/utf8.h"

#define FILE_BYTES_MAX ((size_t)256 << 20)
#define TEXT_BYTES_MAX 4096 /* of a token */

/* ---- folding ---- */

static bool is_blank(uint32_t character) {
    return character == ' ' || character == '\t' || character == '\r' || character == '\n';
}

/* White space as Rust has it: Python also counts four separators of ASCII. */
static bool is_space(uint32_t character) {
    return unicode_is_space(character) && (character < 0x1C || character > 0x1F);
}

/* Decomposes a text, drops marks, makes letters small and runs of blanks one space. */
static size_t simplify(struct bytes text, char *out) {
    size_t used = 0;
    bool blank = false;
    for (size_t at = 0; at < text.count;) {
        uint32_t parts[UNICODE_BASE_LONGEST], lower[3];
        unsigned bytes;
        const uint32_t character = utf8_read(text.data + at, &bytes);
        const unsigned count = unicode_base_of(character, parts);
        at += bytes;
        for (unsigned i = 0; i < count; i++) {
            const bool now = is_blank(parts[i]);
            if (now && blank) continue;
            blank = now;
            const unsigned letters = unicode_map(now ? ' ' : parts[i], UNICODE_TO_LOWER, lower);
            for (unsigned k = 0; k < letters; k++)
                used += utf8_write(lower[k], out + used);
        }
    }
    return used;
}

/* The start of the last character. */
static size_t last_character(const char *text, size_t count) {
    do
        count--;
    while (count > 0 && ((uint8_t)text[count] & 0xC0) == 0x80);
    return count;
}

size_t engram_fold_text(struct bytes text, char *out) {
    size_t count = simplify(text, out), first = 0;
    unsigned bytes;
    if (count == 1 && out[0] == ' ') return count;
    while (first < count && is_space(utf8_read(out + first, &bytes)))
        first += bytes;
    while (count > first && is_space(utf8_read(out + last_character(out, count), &bytes)))
        count = last_character(out, count);
    if (first == count) {
        memcpy(out, text.data, text.count);
        return text.count;
    }
    memmove(out, out + first, count - first);
    return count - first;
}

/* ---- the vocabulary ---- */

/* The text of a token. Returns false if its bytes are no text. */
static bool token_text(struct bytes token, bool special, char *out, size_t *count_out) {
    *count_out = token.count;
    if (special)
        memcpy(out, token.data, token.count);
    else if (!byte_level_decode(token, out, count_out))
        return false;
    const struct bytes text = {out, *count_out};
    return utf8_valid_prefix(text) == text.count &&
           !memmem(out, text.count, UTF8_REPLACEMENT, UTF8_REPLACEMENT_BYTES);
}

struct fold_key {
    const char *data; /* in the arena */
    uint32_t count, id;
};

struct fold_reader {
    struct arena arena;
    struct fold_key *keys; /* [vocab] */
    uint32_t vocab;
    const char *name;
    struct error *error;
};

static enum status take_token(struct fold_reader *reader, struct bytes token, bool special,
                              const struct tree *id_value) {
    static const size_t longest = TEXT_BYTES_MAX;
    char text[TEXT_BYTES_MAX], folded[TEXT_BYTES_MAX * ENGRAM_FOLD_GROWTH];
    int64_t id;
    size_t count = 0;
    if (!tree_get_integer(id_value, &id) || id < 0)
        return error_set(reader->error, STATUS_INVALID, "%s: expected an id for each token",
                         reader->name);
    if (id >= reader->vocab) return STATUS_OK; /* the model has no such token */
    if (token.count > longest)
        return error_set(reader->error, STATUS_TOO_LARGE,
                         "%s: token %lld has %zu bytes, expected at most %zu", reader->name,
                         (long long)id, token.count, longest);
    struct bytes key = token;
    if (token_text(token, special, text, &count)) {
        key.data = folded;
        key.count = engram_fold_text((struct bytes){text, count}, folded);
    }
    key = arena_copy(&reader->arena, key);
    if (!key.data)
        return error_set(reader->error, STATUS_NO_MEMORY, "%s: not enough memory", reader->name);
    reader->keys[id] = (struct fold_key){key.data, (uint32_t)key.count, (uint32_t)id};
    return STATUS_OK;
}

static int compare_keys(const void *left, const void *right) {
    const struct fold_key *a = left, *b = right;
    const uint32_t count = a->count < b->count ? a->count : b->count;
    int order = count ? memcmp(a->data, b->data, count) : 0;
    if (!order) order = a->count < b->count ? -1 : a->count > b->count;
    return order ? order : a->id < b->id ? -1 : 1;
}

/* Gives each key the number of its first id. Ids without a token have the empty key. */
static void number_keys(struct fold_reader *reader, struct engram_fold *fold) {
    qsort(reader->keys, reader->vocab, sizeof *reader->keys, compare_keys);
    for (uint32_t i = 0, first = 0; i < reader->vocab; i++) {
        const struct fold_key *a = &reader->keys[i], *b = i ? a - 1 : a;
        const bool same =
            i && a->count == b->count && (a->count == 0 || memcmp(a->data, b->data, a->count) == 0);
        if (!same) first = a->id;
        fold->ids[a->id] = first;
    }
    fold->folded = 0;
    for (uint32_t id = 0; id < reader->vocab; id++)
        fold->ids[id] = fold->ids[id] == id ? fold->folded++ : fold->ids[fold->ids[id]];
}

static enum status read_tokens(struct fold_reader *reader, const struct tree *root) {
    const struct tree *model = tree_member(root, "model"), *words = tree_member(model, "vocab");
    const struct tree *added = tree_member(root, "added_tokens"), *id;
    struct tree_cursor cursor = {0};
    struct bytes token;
    enum status status = STATUS_OK;
    if (!words || tree_kind(words) != TREE_OBJECT)
        return error_set(reader->error, STATUS_INVALID,
                         "%s: expected model.vocab, an object with an id for each token",
                         reader->name);
    for (uint32_t i = 0; i < reader->vocab; i++)
        reader->keys[i].id = i;
    while (status == STATUS_OK && tree_next_member(words, &cursor, &token, &id))
        status = take_token(reader, token, false, id);
    for (size_t i = 0; status == STATUS_OK && i < tree_count(added); i++)
        if (tree_get_string(tree_member(tree_at(added, i), "content"), &token))
            status = take_token(reader, token, true, tree_member(tree_at(added, i), "id"));
    return status;
}

enum status engram_fold_read(struct bytes text, const char *name, uint32_t vocab,
                             struct engram_fold *fold_out, struct error *error) {
    const size_t bytes = 96 * text.count + ((size_t)1 << 20);
    struct fold_reader reader = {.vocab = vocab, .name = name, .error = error};
    struct engram_fold fold = {.ids = calloc(vocab, sizeof *fold.ids)};
    const struct tree *root;
    void *memory = malloc(bytes);
    reader.keys = calloc(vocab, sizeof *reader.keys);
    enum status status = STATUS_OK;
    if (!memory || !reader.keys || !fold.ids)
        status = error_set(error, STATUS_NO_MEMORY, "%s: not enough memory", name);
    if (status == STATUS_OK) arena_over(&reader.arena, memory, bytes);
    if (status == STATUS_OK) status = tree_parse(&reader.arena, text, name, &root, error);
    if (status == STATUS_OK) status = read_tokens(&reader, root);
    if (status == STATUS_OK) number_keys(&reader, &fold);
    free(memory);
    free(reader.keys);
    if (status == STATUS_OK)
        *fold_out = fold;
    else
        free(fold.ids);
    return status;
}

enum status engram_fold_open(const char *directory, uint32_t vocab, struct engram_fold *fold_out,
                             struct error *error) {
    char path[4096];
    struct bytes text;
    if (format_text(path, sizeof path, "%s/tokenizer.json", directory) >= sizeof path)
        return error_set(error, STATUS_INVALID, "%s: the path is too long", directory);
    enum status status = file_take(path, FILE_BYTES_MAX, &text, error);
    if (status != STATUS_OK) return status;
    status = engram_fold_read(text, path, vocab, fold_out, error);
    free((void *)(uintptr_t)text.data);
    return status;
}

void engram_fold_close(struct engram_fold *fold) {
    free(fold->ids);
    *fold = (struct engram_fold){0};
}
