/* SPDX-License-Identifier: Apache-2.0
 * Encoding has three nested stages. Added tokens split the text into segments, the splitter splits
 * a segment into words, and merging turns a word into tokens. Each stage passes its pieces on
 * without storing them. Words repeat, so a scratch has a direct-mapped cache of the tokens of short
 * words. The cache affects only the speed.
 */
#include "serving/text/tokenizer.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/utf8.h"
#include "serving/text/added_tokens.h"
#include "serving/text/merges.h"
#include "serving/text/splitter.h"
#include "serving/text/tiktoken.h"

#define CACHE_ENTRIES 32768
#define CACHE_WORD_BYTES 30
#define CACHE_IDS 8

struct tokenizer {
    struct vocabulary vocabulary;
    struct merges merges;
    struct added_tokens added;
    struct splitter splitter;
    struct prompt_frame frame;
    bool ignore_merges;         /* a word that is a token is not merged */
    bool cuts;                  /* into the pieces of tiktoken_piece */
    uint64_t identity;          /* identifies the file: cache entries of other files are invalid */
    uint32_t longest_with[256]; /* bytes of the longest token that contains this byte */
};

struct cache_entry {
    uint8_t bytes; /* 0: free */
    uint8_t id_count;
    char word[CACHE_WORD_BYTES];
    uint32_t ids[CACHE_IDS];
};

_Static_assert(sizeof(struct cache_entry) == 64, "an entry is a cache line");

struct tokenizer_scratch {
    size_t text_bytes_max;
    struct pattern_scratch *pattern;
    struct merges_scratch merges;
    char *repaired; /* [text_bytes_max] text with invalid parts replaced */
    uint64_t identity;
    struct cache_entry *cache; /* [CACHE_ENTRIES] */
};

/* ---- opening ---- */

static bool absent(const struct tree *value) {
    return !value || tree_is_null(value);
}

static bool has_type(const struct tree *value, const char *type) {
    struct bytes text = {"", 0};
    return tree_get_string(tree_member(value, "type"), &text) && bytes_equal(text, bytes_of(type));
}

static enum status tokenizer_unsupported(const struct tree *value, const char *what,
                                         const char *expected, const char *name,
                                         struct error *error) {
    struct bytes type = {"?", 1};
    (void)tree_get_string(tree_member(value, "type"), &type);
    return error_set(error, STATUS_UNSUPPORTED,
                     "%s: %s of type '%.*s' is not supported, expected %s", name, what,
                     (int)(type.count < 64 ? type.count : 64), type.data, expected);
}

/* Checks that the parts around the model are those of plain byte-level BPE. Truncation and padding
 * are left to the callers, as in transformers. */
static enum status check_parts(const struct tree *root, const char *name, struct error *error) {
    const struct tree *normalizer = tree_member(root, "normalizer");
    bool empty =
        has_type(normalizer, "Sequence") && tree_count(tree_member(normalizer, "normalizers")) == 0;
    if (!absent(normalizer) && !empty)
        return tokenizer_unsupported(normalizer, "normalizer", "none or an empty Sequence", name,
                                     error);
    const struct tree *decoder = tree_member(root, "decoder");
    if (!has_type(decoder, "ByteLevel"))
        return tokenizer_unsupported(decoder, "decoder", "ByteLevel", name, error);
    const struct tree *model = tree_member(root, "model");
    if (!has_type(model, "BPE")) return tokenizer_unsupported(model, "model", "BPE", name, error);
    return STATUS_OK;
}

static enum status check_model(const struct tree *model, const char *name, struct error *error) {
    static const char *const refused[] = {"byte_fallback", "dropout", "continuing_subword_prefix",
                                          "end_of_word_suffix"};
    for (size_t i = 0; i < ARRAY_COUNT(refused); i++) {
        const struct tree *value = tree_member(model, refused[i]);
        struct bytes text;
        double number;
        bool flag = true;
        bool off = absent(value) || (tree_get_bool(value, &flag) && !flag) ||
                   (tree_get_string(value, &text) && text.count == 0) ||
                   (tree_get_number(value, &number) && number == 0);
        if (!off)
            return error_set(error, STATUS_UNSUPPORTED, "%s: model.%s is not supported", name,
                             refused[i]);
    }
    if (!tree_member(model, "vocab") || tree_kind(tree_member(model, "vocab")) != TREE_OBJECT)
        return error_set(error, STATUS_INVALID, "%s: model.vocab is not an object", name);
    if (!tree_member(model, "merges") || tree_kind(tree_member(model, "merges")) != TREE_ARRAY)
        return error_set(error, STATUS_INVALID, "%s: model.merges is not an array", name);
    return STATUS_OK;
}

static void note_length(struct tokenizer *tokenizer, struct bytes token) {
    for (size_t i = 0; i < token.count; i++) {
        uint32_t *longest = &tokenizer->longest_with[(uint8_t)token.data[i]];
        if (token.count > *longest) *longest = (uint32_t)token.count;
    }
}

/* Includes texts of added tokens, which may differ from their decoded bytes. */
static void note_lengths(struct tokenizer *tokenizer, const struct tree *added) {
    struct bytes content;
    for (uint32_t id = 0; id < tokenizer->vocabulary.count; id++)
        note_length(tokenizer, vocabulary_bytes(&tokenizer->vocabulary, id));
    for (size_t i = 0; i < tree_count(added); i++)
        if (tree_get_string(tree_member(tree_at(added, i), "content"), &content))
            note_length(tokenizer, content);
}

enum status tokenizer_open(struct arena *arena, struct arena *scratch, struct bytes json,
                           const char *name, struct tokenizer **out, struct error *error) {
    const struct tree *root = NULL;
    struct tokenizer *tokenizer = arena_take_zeroed(arena, sizeof *tokenizer);
    if (!tokenizer) return error_set(error, STATUS_NO_MEMORY, "%s: no memory", name);
    enum status status = tree_parse(scratch, json, name, &root, error);
    if (status) return status;
    if (tree_kind(root) != TREE_OBJECT)
        return error_set(error, STATUS_INVALID, "%s: is %s, expected an object", name,
                         tree_name(root));
    const struct tree *model = tree_member(root, "model"),
                      *added = tree_member(root, "added_tokens");
    status = check_parts(root, name, error);
    if (!status)
        status =
            prompt_frame_read(tree_member(root, "post_processor"), name, &tokenizer->frame, error);
    if (!status) status = check_model(model, name, error);
    if (!status)
        status = vocabulary_read(arena, tree_member(model, "vocab"), added, name,
                                 &tokenizer->vocabulary, error);
    if (!status)
        status = merges_read(arena, scratch, tree_member(model, "merges"), &tokenizer->vocabulary,
                             name, &tokenizer->merges, error);
    if (!status) status = added_tokens_read(arena, added, name, &tokenizer->added, error);
    if (!status)
        status = splitter_open(arena, tree_member(root, "pre_tokenizer"), name,
                               &tokenizer->splitter, error);
    if (status) return status;
    (void)tree_get_bool(tree_member(model, "ignore_merges"), &tokenizer->ignore_merges);
    note_lengths(tokenizer, added);
    tokenizer->identity = hash_bytes(0, json.data, json.count);
    *out = tokenizer;
    return STATUS_OK;
}

/* Reads the files into the parts of the tokenizer, with added tokens in the form of
 * tokenizer.json. */
static enum status read_tiktoken(struct arena *arena, struct arena *scratch,
                                 const struct tiktoken_files *files, struct tokenizer *tokenizer,
                                 const struct tree **added, struct error *error) {
    const struct tree *config = NULL;
    const struct bytes *tokens = NULL;
    uint32_t count = 0;
    enum status status = tiktoken_read(scratch, files->model, files->name, &tokens, &count, error);
    if (!status && files->config.data)
        status = tree_parse(scratch, files->config, files->config_name, &config, error);
    if (!status)
        status = tiktoken_read_added(scratch, config, count, files->config_name, added, error);
    if (!status)
        status = vocabulary_read_ranked(arena, tokens, count, *added, files->name,
                                        &tokenizer->vocabulary, error);
    if (!status)
        status = merges_derive(arena, scratch, &tokenizer->vocabulary, count, files->name,
                               &tokenizer->merges, error);
    return status;
}

enum status tokenizer_open_tiktoken(struct arena *arena, struct arena *scratch,
                                    struct tiktoken_files files, struct tokenizer **out,
                                    struct error *error) {
    const struct tree *added = NULL;
    struct tokenizer *tokenizer = arena_take_zeroed(arena, sizeof *tokenizer);
    if (!tokenizer) return error_set(error, STATUS_NO_MEMORY, "%s: no memory", files.name);
    enum status status = read_tiktoken(arena, scratch, &files, tokenizer, &added, error);
    if (!status)
        status = added_tokens_read(arena, added, files.config_name, &tokenizer->added, error);
    if (!status)
        status =
            splitter_open_pattern(arena, tiktoken_pattern, files.name, &tokenizer->splitter, error);
    if (status) return status;
    tokenizer->ignore_merges = tokenizer->cuts = true;
    note_lengths(tokenizer, added);
    uint64_t identity = hash_bytes(0, files.config.data, files.config.count);
    tokenizer->identity = hash_bytes(identity, files.model.data, files.model.count);
    *out = tokenizer;
    return STATUS_OK;
}

void tokenizer_close(struct tokenizer *tokenizer) {
    splitter_close(&tokenizer->splitter);
}

/* Tables for LIMIT_VOCAB ids and the patterns do not depend on the file's length. The rest is at
 * most a few words per six bytes of JSON. Most of it is never touched. */
size_t tokenizer_arena_bytes(size_t json_bytes) {
    return ((size_t)16 << 20) + 10 * json_bytes;
}

size_t tokenizer_open_scratch_bytes(size_t json_bytes) {
    return ((size_t)1 << 20) + 24 * json_bytes;
}

/* A line of n bytes has at most n tokens' bytes and merges, of which the table has at most three
 * slots each. Most of it is never touched. */
size_t tokenizer_tiktoken_arena_bytes(const struct tiktoken_files *files) {
    return ((size_t)16 << 20) + 40 * files->model.count + 20 * files->config.count;
}

size_t tokenizer_tiktoken_scratch_bytes(const struct tiktoken_files *files) {
    return ((size_t)1 << 20) + 32 * files->model.count + 64 * files->config.count;
}

/* ---- tokens ---- */

uint32_t tokenizer_vocab_count(const struct tokenizer *tokenizer) {
    return tokenizer->vocabulary.count;
}

struct bytes tokenizer_token_bytes(const struct tokenizer *tokenizer, uint32_t id) {
    return vocabulary_bytes(&tokenizer->vocabulary, id);
}

bool tokenizer_token_is_special(const struct tokenizer *tokenizer, uint32_t id) {
    return vocabulary_is(&tokenizer->vocabulary, id, VOCABULARY_SPECIAL);
}

bool tokenizer_token_is_added(const struct tokenizer *tokenizer, uint32_t id) {
    return vocabulary_is(&tokenizer->vocabulary, id, VOCABULARY_ADDED);
}

const struct prompt_frame *tokenizer_frame(const struct tokenizer *tokenizer) {
    return &tokenizer->frame;
}

bool tokenizer_find(const struct tokenizer *tokenizer, struct bytes content, uint32_t *id_out) {
    if (added_tokens_exact(&tokenizer->added, content, id_out)) return true;
    uint32_t id = vocabulary_find(&tokenizer->vocabulary, content);
    if (id == VOCABULARY_NONE) return false;
    *id_out = id;
    return true;
}

bool tokenizer_find_added(const struct tokenizer *tokenizer, struct bytes content,
                          uint32_t *id_out) {
    return added_tokens_exact(&tokenizer->added, content, id_out);
}

/* ---- encoding ---- */

size_t tokenizer_scratch_bytes(size_t text_bytes_max) {
    return CACHE_ENTRIES * sizeof(struct cache_entry) + ((size_t)512 << 10) + 21 * text_bytes_max;
}

struct tokenizer_scratch *tokenizer_scratch_create(struct arena *arena, size_t text_bytes_max) {
    struct tokenizer_scratch *scratch = arena_take_zeroed(arena, sizeof *scratch);
    if (!scratch) return NULL;
    scratch->text_bytes_max = text_bytes_max;
    scratch->pattern = pattern_scratch_create(arena);
    scratch->repaired = arena_take(arena, text_bytes_max);
    scratch->cache = arena_take_zeroed(arena, CACHE_ENTRIES * sizeof *scratch->cache);
    bool complete = scratch->pattern && scratch->repaired && scratch->cache &&
                    merges_scratch_open(&scratch->merges, arena, text_bytes_max);
    return complete ? scratch : NULL;
}

const struct plain_text plain_text_nowhere = {NULL, 0};
const struct plain_text plain_text_everywhere = {&(const struct text_span){0, UINT32_MAX}, 1};

struct encoding {
    const struct tokenizer *tokenizer;
    struct tokenizer_scratch *scratch;
    const char *text; /* the whole text: plain spans are offsets from here */
    struct plain_text plain;
    uint32_t *ids;
    size_t capacity, count;
    const char *end; /* end of the text; NULL: count all ids, also beyond the capacity */
    bool stopped;    /* more ids than the capacity are certain; `count` is a lower bound */
};

/* Each byte counts as 1 / (length of the longest token that contains it), so the bytes of a token
 * count as at most one. */
size_t tokenizer_count_min(const struct tokenizer *tokenizer, struct bytes text) {
    /* four counters, so that repeated bytes do not wait for each other */
    size_t seen[4][256] = {{0}}, i = 0;
    for (; i + 4 <= text.count; i += 4)
        for (size_t k = 0; k < 4; k++)
            seen[k][(uint8_t)text.data[i + k]]++;
    for (; i < text.count; i++)
        seen[0][(uint8_t)text.data[i]]++;
    double parts = 0;
    for (size_t byte = 0; byte < 256; byte++) {
        size_t count = seen[0][byte] + seen[1][byte] + seen[2][byte] + seen[3][byte];
        if (count) parts += (double)count / tokenizer->longest_with[byte];
    }
    parts *= 1 - 1e-9; /* compensate rounding: never above the exact value */
    size_t whole = (size_t)parts;
    return (double)whole < parts ? whole + 1 : whole;
}

static void put(struct encoding *encoding, const uint32_t *ids, size_t count) {
    for (size_t i = 0; i < count && encoding->count + i < encoding->capacity; i++)
        encoding->ids[encoding->count + i] = ids[i];
    encoding->count += count;
}

static struct cache_entry *cache_place(struct tokenizer_scratch *scratch, struct bytes word) {
    return &scratch->cache[hash_bytes(0, word.data, word.count) % CACHE_ENTRIES];
}

/* Returns false if the text from `piece` on cannot fit. Counting the bytes of a long piece takes
 * far less time than merging them. */
static bool may_fit(struct encoding *encoding, struct bytes piece) {
    if (!encoding->end) return true;
    size_t least = piece.count > CACHE_WORD_BYTES ? tokenizer_count_min(encoding->tokenizer, piece)
                                                  : piece.count > 0;
    if (encoding->count + least <= encoding->capacity) return true;
    struct bytes rest = {piece.data, (size_t)(encoding->end - piece.data)};
    encoding->count += tokenizer_count_min(encoding->tokenizer, rest);
    encoding->stopped = true;
    return false;
}

static bool put_word(void *context, struct bytes word) {
    struct encoding *encoding = context;
    if (!may_fit(encoding, word)) return false;
    const struct tokenizer *tokenizer = encoding->tokenizer;
    struct merges_scratch *merging = &encoding->scratch->merges;
    struct cache_entry *entry = NULL;
    if (word.count <= CACHE_WORD_BYTES) {
        entry = cache_place(encoding->scratch, word);
        if (entry->bytes == word.count && !memcmp(entry->word, word.data, word.count)) {
            put(encoding, entry->ids, entry->id_count);
            return true;
        }
    }
    uint32_t whole =
        tokenizer->ignore_merges ? vocabulary_find(&tokenizer->vocabulary, word) : VOCABULARY_NONE;
    const uint32_t *ids = &whole;
    size_t count = 1;
    if (whole == VOCABULARY_NONE) {
        count = merges_apply(&tokenizer->merges, merging, word);
        ids = merging->ids;
    }
    put(encoding, ids, count);
    if (entry && count <= CACHE_IDS) {
        entry->bytes = (uint8_t)word.count;
        entry->id_count = (uint8_t)count;
        memcpy(entry->word, word.data, word.count);
        memcpy(entry->ids, ids, count * sizeof *ids);
    }
    return true;
}

static bool encode_segment(struct encoding *encoding, struct bytes text) {
    uint32_t window = TIKTOKEN_WINDOW;
    while (text.count > 0) {
        struct bytes piece = text;
        if (encoding->tokenizer->cuts) piece.count = tiktoken_piece(text, &window);
        if (!splitter_split(&encoding->tokenizer->splitter, encoding->scratch->pattern, piece,
                            put_word, encoding))
            return false;
        text = (struct bytes){text.data + piece.count, text.count - piece.count};
    }
    return true;
}

/* The first plain span that ends after `at`. */
static size_t span_behind(const struct plain_text *plain, size_t at) {
    size_t low = 0, high = plain->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (plain->spans[middle].end > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* The first added token at or after `from`. Each part of the text that is not plain is searched
 * separately, so that bytes of a plain part neither complete a token nor hide a shorter one. */
static bool tokenizer_find_added_each(const struct encoding *encoding, enum added_group group,
                                      struct bytes text, size_t from, struct added_match *out) {
    const struct plain_text *plain = &encoding->plain;
    size_t base = (size_t)(text.data - encoding->text);
    for (size_t i = span_behind(plain, base + from); from < text.count; i++) {
        size_t start = i < plain->count ? plain->spans[i].start : SIZE_MAX;
        size_t end = start < base + text.count ? start : base + text.count;
        if (end > base + from &&
            added_tokens_find(&encoding->tokenizer->added, group,
                              (struct bytes){text.data, end - base}, from, out))
            return true;
        if (end == base + text.count) return false;
        if (plain->spans[i].end > base + from) from = plain->spans[i].end - base;
    }
    return false;
}

/* Splits the text at the added tokens of one group after the other. */
static bool encode_around(struct encoding *encoding, struct bytes text, int group) {
    if (group == ADDED_GROUP_COUNT) return encode_segment(encoding, text);
    struct added_match match = {0};
    size_t done = 0;
    while (tokenizer_find_added_each(encoding, (enum added_group)group, text, done, &match)) {
        struct bytes before = {text.data + done, match.start - done};
        if (!encode_around(encoding, before, group + 1)) return false;
        if (!may_fit(encoding, (struct bytes){text.data + match.start, 1})) return false;
        put(encoding, &match.id, 1);
        done = match.end;
    }
    return encode_around(encoding, (struct bytes){text.data + done, text.count - done}, group + 1);
}

static enum status tokenizer_encode_each(const struct tokenizer *tokenizer,
                                         struct tokenizer_scratch *scratch, struct bytes text,
                                         struct plain_text plain, bool within, uint32_t *ids,
                                         size_t capacity, size_t *count_out) {
    size_t repaired = text.count;
    bool everywhere = plain.count == 1 && plain.spans->start == 0 && plain.spans->end >= text.count;
    if (utf8_valid_prefix(text) < text.count) {
        if (plain.count > 0 && !everywhere) return STATUS_INVALID;
        if (utf8_repair(text, scratch->repaired, scratch->text_bytes_max, &repaired))
            return STATUS_TOO_LARGE;
        text = (struct bytes){scratch->repaired, repaired};
    }
    if (text.count > scratch->text_bytes_max) return STATUS_TOO_LARGE;
    if (scratch->identity != tokenizer->identity) {
        memset(scratch->cache, 0, CACHE_ENTRIES * sizeof *scratch->cache);
        scratch->identity = tokenizer->identity;
    }
    struct encoding encoding = {.tokenizer = tokenizer,
                                .scratch = scratch,
                                .text = text.data,
                                .plain = plain,
                                .ids = ids,
                                .capacity = capacity,
                                .end = within ? text.data + text.count : NULL};
    bool whole = encode_around(&encoding, text, everywhere ? ADDED_GROUP_COUNT : 0);
    if (!whole && !encoding.stopped) return STATUS_TOO_LARGE;
    *count_out = encoding.count;
    return encoding.count <= capacity ? STATUS_OK : STATUS_FULL;
}

enum status tokenizer_encode(const struct tokenizer *tokenizer, struct tokenizer_scratch *scratch,
                             struct bytes text, struct plain_text plain, uint32_t *ids,
                             size_t capacity, size_t *count_out) {
    return tokenizer_encode_each(tokenizer, scratch, text, plain, false, ids, capacity, count_out);
}

enum status tokenizer_encode_within(const struct tokenizer *tokenizer,
                                    struct tokenizer_scratch *scratch, struct bytes text,
                                    struct plain_text plain, uint32_t *ids, size_t capacity,
                                    size_t *count_out) {
    return tokenizer_encode_each(tokenizer, scratch, text, plain, true, ids, capacity, count_out);
}

/* ---- decoding ---- */

struct decoding {
    char *out;
    size_t capacity, count;
};

static void tokenizer_put_text(void *context, struct bytes text) {
    struct decoding *decoding = context;
    if (decoding->count <= decoding->capacity && text.count <= decoding->capacity - decoding->count)
        memcpy(decoding->out + decoding->count, text.data, text.count);
    decoding->count += text.count;
}

enum status tokenizer_decode(const struct tokenizer *tokenizer, const uint32_t *ids,
                             size_t id_count, bool skip_special, char *out, size_t capacity,
                             size_t *count_out) {
    struct decoding decoding = {out, capacity, 0};
    struct utf8_joiner joiner = {0};
    for (size_t i = 0; i < id_count; i++) {
        if (skip_special && tokenizer_token_is_special(tokenizer, ids[i])) continue;
        utf8_join(&joiner, tokenizer_token_bytes(tokenizer, ids[i]), tokenizer_put_text, &decoding);
    }
    utf8_join_end(&joiner, tokenizer_put_text, &decoding);
    *count_out = decoding.count;
    return decoding.count <= capacity ? STATUS_OK : STATUS_FULL;
}
