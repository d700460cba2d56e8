/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/text/splitter.h"

#include "base/format.h"

/* The pattern of ByteLevel (use_regex), which is GPT-2's. */
#define GPT2_PATTERN                                                                               \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

struct splitter_reader {
    struct arena *arena;
    const char *name; /* name of the file */
    struct splitter *out;
    struct error *error;
};

static enum status add_pass(struct splitter_reader *reader, struct bytes pattern, bool literal) {
    struct splitter *out = reader->out;
    if (out->pass_count == SPLITTER_PASSES_MAX)
        return error_set(reader->error, STATUS_UNSUPPORTED,
                         "%s: pre_tokenizer: more than %d patterns", reader->name,
                         SPLITTER_PASSES_MAX);
    char label[256];
    format_text(label, sizeof label, "%s: pre_tokenizer", reader->name);
    enum status status = pattern_open(reader->arena, pattern, literal, label,
                                      &out->passes[out->pass_count], reader->error);
    if (!status) out->pass_count++;
    return status;
}

static enum status splitter_unsupported(struct splitter_reader *reader, const char *what,
                                        struct bytes value) {
    return error_set(reader->error, STATUS_UNSUPPORTED,
                     "%s: pre_tokenizer: %s '%.*s' is not supported", reader->name, what,
                     (int)(value.count < 64 ? value.count : 64), value.data);
}

static enum status read_split(struct splitter_reader *reader, const struct tree *step) {
    struct bytes behavior = {"", 0}, pattern;
    (void)tree_get_string(tree_member(step, "behavior"), &behavior);
    if (!bytes_equal(behavior, BYTES_LITERAL("Isolated")))
        return splitter_unsupported(reader, "Split with behavior", behavior);
    const struct tree *form = tree_member(step, "pattern");
    if (tree_get_string(tree_member(form, "Regex"), &pattern))
        return add_pass(reader, pattern, false);
    if (tree_get_string(tree_member(form, "String"), &pattern)) {
        /* An empty string never matches in the library, but everywhere as a pattern. */
        return pattern.count ? add_pass(reader, pattern, true) : STATUS_OK;
    }
    return error_set(reader->error, STATUS_INVALID,
                     "%s: pre_tokenizer: Split has neither a Regex nor a String pattern",
                     reader->name);
}

static enum status read_byte_level(struct splitter_reader *reader, const struct tree *step) {
    bool prefix_space = true, use_regex = true; /* the library's defaults */
    (void)tree_get_bool(tree_member(step, "add_prefix_space"), &prefix_space);
    (void)tree_get_bool(tree_member(step, "use_regex"), &use_regex);
    if (prefix_space)
        return splitter_unsupported(reader, "ByteLevel with", BYTES_LITERAL("add_prefix_space"));
    return use_regex ? add_pass(reader, BYTES_LITERAL(GPT2_PATTERN), false) : STATUS_OK;
}

static enum status splitter_read_step(struct splitter_reader *reader, const struct tree *step,
                                      bool last) {
    struct bytes type = {"", 0};
    if (!tree_get_string(tree_member(step, "type"), &type))
        return error_set(reader->error, STATUS_INVALID, "%s: pre_tokenizer: a step has no type",
                         reader->name);
    if (bytes_equal(type, BYTES_LITERAL("ByteLevel")) != last)
        return error_set(reader->error, STATUS_UNSUPPORTED,
                         "%s: pre_tokenizer: ByteLevel must be the last step, and only the last",
                         reader->name);
    if (last) return read_byte_level(reader, step);
    if (bytes_equal(type, BYTES_LITERAL("Split"))) return read_split(reader, step);
    if (bytes_equal(type, BYTES_LITERAL("Digits"))) {
        bool individual = false;
        (void)tree_get_bool(tree_member(step, "individual_digits"), &individual);
        return add_pass(reader, individual ? BYTES_LITERAL("\\p{N}") : BYTES_LITERAL("\\p{N}+"),
                        false);
    }
    return splitter_unsupported(reader, "step", type);
}

enum status splitter_open(struct arena *arena, const struct tree *pre_tokenizer, const char *name,
                          struct splitter *out, struct error *error) {
    struct splitter splitter = {0};
    struct splitter_reader reader = {arena, name, &splitter, error};
    struct bytes type = {"", 0};
    enum status status = STATUS_OK;
    (void)tree_get_string(tree_member(pre_tokenizer, "type"), &type);
    if (bytes_equal(type, BYTES_LITERAL("Sequence"))) {
        const struct tree *steps = tree_member(pre_tokenizer, "pretokenizers");
        size_t count = tree_count(steps);
        if (count == 0) status = splitter_unsupported(&reader, "Sequence", BYTES_LITERAL("[]"));
        for (size_t i = 0; i < count && !status; i++)
            status = splitter_read_step(&reader, tree_at(steps, i), i + 1 == count);
    } else {
        status = splitter_read_step(&reader, pre_tokenizer, true);
    }
    if (status) {
        splitter_close(&splitter);
        return status;
    }
    *out = splitter;
    return STATUS_OK;
}

enum status splitter_open_pattern(struct arena *arena, struct bytes pattern, const char *name,
                                  struct splitter *out, struct error *error) {
    struct splitter_reader reader = {arena, name, out, error};
    *out = (struct splitter){0};
    return add_pass(&reader, pattern, false);
}

void splitter_close(struct splitter *splitter) {
    for (uint32_t i = 0; i < splitter->pass_count; i++)
        pattern_close(splitter->passes[i]);
    splitter->pass_count = 0;
}

struct cutting {
    const struct splitter *splitter;
    struct pattern_scratch *scratch;
    splitter_sink *sink;
    void *context;
};

static size_t character_end(struct bytes text, size_t at) {
    do
        at++;
    while (at < text.count && ((uint8_t)text.data[at] & 0xC0) == 0x80);
    return at;
}

/* The progress of a pass in a piece. */
struct progress {
    size_t done; /* text before this is split; end of the last match, if any */
    size_t from; /* start of the search for the next match */
    bool had_match;
};

/* Finds the next match. As in the library's regex engine, an empty match does not count if it
 * touches the end of the previous one. */
static enum pattern_result next_match(const struct cutting *cutting, uint32_t pass,
                                      struct bytes piece, const struct progress *progress,
                                      size_t *start, size_t *end) {
    const struct pattern *pattern = cutting->splitter->passes[pass];
    enum pattern_result result =
        pattern_find(pattern, cutting->scratch, piece, progress->from, start, end);
    bool touches = progress->had_match && *start == *end && *end == progress->done;
    if (result != PATTERN_FOUND || !touches) return result;
    if (*end == piece.count) return PATTERN_ABSENT;
    return pattern_find(pattern, cutting->scratch, piece, character_end(piece, *end), start, end);
}

/* The recursion depth is bounded by the number of passes. */
static bool splitter_cut(const struct cutting *cutting, uint32_t pass, struct bytes piece) {
    if (piece.count == 0) return true;
    if (pass == cutting->splitter->pass_count) return cutting->sink(cutting->context, piece);
    struct progress at = {0};
    while (at.from <= piece.count) {
        size_t start = 0, end = 0;
        enum pattern_result result = next_match(cutting, pass, piece, &at, &start, &end);
        if (result == PATTERN_ABSENT) break;
        if (result == PATTERN_GAVE_UP || start < at.done) return false;
        if (!splitter_cut(cutting, pass + 1,
                          (struct bytes){piece.data + at.done, start - at.done}) ||
            !splitter_cut(cutting, pass + 1, (struct bytes){piece.data + start, end - start}))
            return false;
        at = (struct progress){end, end > start ? end : character_end(piece, end), true};
    }
    return splitter_cut(cutting, pass + 1,
                        (struct bytes){piece.data + at.done, piece.count - at.done});
}

bool splitter_split(const struct splitter *splitter, struct pattern_scratch *scratch,
                    struct bytes text, splitter_sink *sink, void *context) {
    struct cutting cutting = {splitter, scratch, sink, context};
    return splitter_cut(&cutting, 0, text);
}
