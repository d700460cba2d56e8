/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/text/tiktoken.h"

#include "base/check.h"
#include "base/format.h"
#include "base/unicode.h"
#include "base/utf8.h"

/* ---- the pattern ---- */

/* Moonshot writes \s, [A&&[^\p{Han}]] and \p{Han} for the regex engine of Rust. Its \s is the
 * property White_Space, and its \p{Han} the property Script. PCRE2 has no && in classes. The
 * categories that A lacks, negated together with the script, are the same class. */
#define BLANK "\\t-\\r\\x{85}\\p{Z}"
#define UPPER "[^\\p{Ll}\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}\\p{sc:Han}]"
#define LOWER "[^\\p{Lu}\\p{Lt}\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}\\p{sc:Han}]"
#define SUFFIX "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
#define PATTERN                                                                                    \
    "\\p{sc:Han}+"                                                                                 \
    "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" SUFFIX "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER \
    "*" SUFFIX "|\\p{N}{1,3}"                                                                      \
    "| ?[^" BLANK "\\p{L}\\p{N}]+[\\r\\n]*"                                                        \
    "|[" BLANK "]*[\\r\\n]+"                                                                       \
    "|[" BLANK "]+(?![^" BLANK "])"                                                                \
    "|[" BLANK "]+"

const struct bytes tiktoken_pattern = {PATTERN, sizeof PATTERN - 1};

/* ---- pieces ---- */

size_t tiktoken_piece(struct bytes text, uint32_t *window) {
    bool blank = false;
    uint32_t run = 0;
    size_t at = 0;
    if (text.count <= TIKTOKEN_RUN && text.count < *window) return text.count;
    while (at<text.count && * window> 0) {
        unsigned bytes;
        bool was_blank = blank;
        blank = unicode_is_space(utf8_read(text.data + at, &bytes));
        run = blank == was_blank ? run + 1 : 1;
        if (run > TIKTOKEN_RUN) return at;
        at += bytes;
        --*window;
    }
    if (*window == 0) *window = TIKTOKEN_WINDOW;
    return at;
}

/* ---- ranks ---- */

/* The value of a base64 digit, or -1. */
static int digit_of(char letter) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = letter ? strchr(digits, letter) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* Decodes base64 with its padding (RFC 4648). Returns false if the text is not exactly that. */
static bool tiktoken_decode(struct bytes text, char *out, size_t *count_out) {
    size_t padding = 0, count = 0;
    if (text.count == 0 || text.count % 4) return false;
    while (padding < 2 && text.data[text.count - 1 - padding] == '=')
        padding++;
    for (size_t i = 0; i < text.count; i += 4) {
        size_t digits = i + 4 == text.count ? 4 - padding : 4;
        uint32_t word = 0;
        for (size_t k = 0; k < 4; k++) {
            int digit = k < digits ? digit_of(text.data[i + k]) : 0;
            if (digit < 0) return false;
            word = word << 6 | (uint32_t)digit;
        }
        if (digits < 4 && word & ((1u << 8 * (4 - digits)) - 1)) return false;
        for (size_t k = 0; k + 1 < digits; k++)
            out[count++] = (char)(word >> (16 - 8 * k));
    }
    *count_out = count;
    return true;
}

/* A decimal number without a sign and without zeros in front. */
static bool tiktoken_read_number(struct bytes text, uint32_t *out) {
    uint64_t value = 0;
    if (text.count == 0 || text.count > 9 || (text.count > 1 && text.data[0] == '0')) return false;
    for (size_t i = 0; i < text.count; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') return false;
        value = 10 * value + (uint64_t)(text.data[i] - '0');
    }
    *out = (uint32_t)value;
    return true;
}

static enum status read_line(struct bytes line, uint32_t number, const char *name,
                             struct arena *scratch, struct bytes *out, struct error *error) {
    const char *space = memchr(line.data, ' ', line.count);
    struct bytes token = {line.data, space ? (size_t)(space - line.data) : line.count};
    struct bytes digits = {space ? space + 1 : "", space ? line.count - token.count - 1 : 0};
    uint32_t rank = 0;
    size_t count = 0;
    int shown = (int)(line.count < 64 ? line.count : 64);
    if (token.count / 4 > TIKTOKEN_TOKEN_BYTES_MAX / 3)
        return error_set(error, STATUS_TOO_LARGE,
                         "%s:%u: a token of %zu bytes of base64, expected at most %u bytes", name,
                         number + 1, token.count, TIKTOKEN_TOKEN_BYTES_MAX);
    char *bytes = arena_take(scratch, token.count + 1);
    if (!bytes) return error_set(error, STATUS_NO_MEMORY, "%s: no memory for its tokens", name);
    if (!tiktoken_decode(token, bytes, &count))
        return error_set(error, STATUS_INVALID,
                         "%s:%u: expected a token in base64, a space and its rank, found '%.*s'",
                         name, number + 1, shown, line.data);
    if (!tiktoken_read_number(digits, &rank) || rank != number)
        return error_set(error, STATUS_INVALID,
                         "%s:%u: expected rank %u behind the token, as ranks are in order, found "
                         "'%.*s'",
                         name, number + 1, number, shown, line.data);
    *out = (struct bytes){bytes, count};
    return STATUS_OK;
}

static size_t tiktoken_count_lines(struct bytes text) {
    size_t count = text.count && text.data[text.count - 1] != '\n';
    for (size_t i = 0; i < text.count; i++)
        count += text.data[i] == '\n';
    return count;
}

enum status tiktoken_read(struct arena *scratch, struct bytes text, const char *name,
                          const struct bytes **tokens_out, uint32_t *count_out,
                          struct error *error) {
    size_t count = tiktoken_count_lines(text), at = 0;
    if (count == 0)
        return error_set(error, STATUS_INVALID, "%s: expected a line for each token, found none",
                         name);
    if (count > LIMIT_VOCAB - TIKTOKEN_RESERVED)
        return error_set(error, STATUS_TOO_LARGE, "%s: %zu tokens, expected at most %d", name,
                         count, LIMIT_VOCAB - TIKTOKEN_RESERVED);
    struct bytes *tokens = arena_take(scratch, count * sizeof *tokens);
    if (!tokens) return error_set(error, STATUS_NO_MEMORY, "%s: no memory for its tokens", name);
    for (uint32_t i = 0; i < count; i++) {
        const char *end = memchr(text.data + at, '\n', text.count - at);
        struct bytes line = {text.data + at,
                             end ? (size_t)(end - text.data) - at : text.count - at};
        at += line.count + 1;
        if (line.count && line.data[line.count - 1] == '\r') line.count--;
        enum status status = read_line(line, i, name, scratch, &tokens[i], error);
        if (status) return status;
    }
    *tokens_out = tokens;
    *count_out = (uint32_t)count;
    return STATUS_OK;
}

/* ---- special tokens ---- */

/* Adds a copy of an entry of added_tokens_decoder, with its id. */
static bool tiktoken_add_entry(struct arena *scratch, struct tree *list, const struct tree *entry,
                               struct bytes content, uint32_t id) {
    static const char *const flags[] = {"special", "lstrip", "rstrip", "single_word"};
    struct tree *token = tree_make_object(scratch);
    bool done = token && tree_append(scratch, list, token) &&
                tree_set(scratch, token, "id", tree_make_integer(scratch, id)) &&
                tree_set(scratch, token, "content", tree_make_string(scratch, content));
    for (size_t i = 0; done && i < ARRAY_COUNT(flags); i++) {
        const struct tree *flag = tree_member(entry, flags[i]);
        if (flag) done = tree_set(scratch, token, flags[i], flag);
    }
    return done;
}

/* Adds the tokens that have names. Sets named[i] for id `count` + i. */
static enum status tiktoken_add_named(struct arena *scratch, const struct tree *decoder,
                                      uint32_t count, const char *name, struct tree *list,
                                      bool named[TIKTOKEN_RESERVED], struct error *error) {
    struct tree_cursor cursor = {NULL};
    struct bytes key, content;
    const struct tree *entry;
    uint32_t id = 0;
    while (tree_next_member(decoder, &cursor, &key, &entry)) {
        int shown = (int)(key.count < 64 ? key.count : 64);
        if (!tiktoken_read_number(key, &id))
            return error_set(error, STATUS_INVALID,
                             "%s: added_tokens_decoder: expected ids as keys, found '%.*s'", name,
                             shown, key.data);
        if (!tree_get_string(tree_member(entry, "content"), &content))
            return error_set(error, STATUS_INVALID,
                             "%s: added_tokens_decoder: %u has no string \"content\"", name, id);
        if (!tiktoken_add_entry(scratch, list, entry, content, id))
            return error_set(error, STATUS_NO_MEMORY, "%s: no memory for its tokens", name);
        if (id >= count && id - count < TIKTOKEN_RESERVED) named[id - count] = true;
    }
    return STATUS_OK;
}

enum status tiktoken_read_added(struct arena *scratch, const struct tree *config, uint32_t count,
                                const char *config_name, const struct tree **out,
                                struct error *error) {
    bool named[TIKTOKEN_RESERVED] = {false};
    const struct tree *decoder = tree_member(config, "added_tokens_decoder");
    struct tree *list = tree_make_array(scratch);
    if (decoder && !tree_is_null(decoder) && tree_kind(decoder) != TREE_OBJECT)
        return error_set(error, STATUS_INVALID,
                         "%s: added_tokens_decoder is %s, expected an object", config_name,
                         tree_name(decoder));
    enum status status =
        list ? tiktoken_add_named(scratch, decoder, count, config_name, list, named, error)
             : STATUS_OK;
    bool fits = list;
    for (uint32_t i = 0; fits && !status && i < TIKTOKEN_RESERVED; i++) {
        char text[48];
        if (named[i]) continue;
        format_text(text, sizeof text, "<|reserved_token_%u|>", count + i);
        fits = tiktoken_add_entry(scratch, list, NULL, bytes_of(text), count + i);
    }
    if (!fits) return error_set(error, STATUS_NO_MEMORY, "%s: no memory", config_name);
    if (!status) *out = list;
    return status;
}
