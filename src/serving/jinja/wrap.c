/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/jinja/wrap.h"

#include "serving/jinja/markup.h"
#include "serving/jinja/unicode.h"

/* A line's characters and where they begin; what is cut off a chunk stays in it. */
struct wrap {
    struct jinja_machine *machine;
    const struct wrap_style *style;
    const struct value_text *text;
    uint32_t *characters; /* [count] */
    uint32_t *offsets;    /* [count + 1] bytes */
    size_t count;
    uint32_t *chunks; /* [chunk_count + 1] where each begins, in characters */
    size_t chunk_count;
};

static bool is_blank(uint32_t c) { /* where words end */
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_word(uint32_t c) {
    return c == '_' || (unicode_properties(c) & UNICODE_ALNUM);
}

static bool is_letter(uint32_t c) { /* or an underscore */
    return is_word(c) && !(unicode_properties(c) & UNICODE_DECIMAL);
}

static bool is_word_end(uint32_t c) { /* before a dash */
    return is_word(c) || c == '!' || c == '"' || c == '\'' || c == '&' || c == '.' || c == ',' ||
           c == '?';
}

static bool letter_at(const struct wrap *wrap, size_t at) {
    return at < wrap->count && is_letter(wrap->characters[at]);
}

static bool hyphen_at(const struct wrap *wrap, size_t at) {
    return at < wrap->count && wrap->characters[at] == '-';
}

/* Two or more dashes between words: how many; 0: none stand here. */
static size_t dashes_at(const struct wrap *wrap, size_t at) {
    size_t end = at;
    if (at == 0 || !is_word_end(wrap->characters[at - 1])) return 0;
    while (hyphen_at(wrap, end))
        end++;
    return end - at >= 2 && end < wrap->count && is_word(wrap->characters[end]) ? end - at : 0;
}

/* Whether a word may be cut behind the hyphen at a place: two letters, or a letter and another
 * hyphen and a letter, on its left; two letters on its right. */
static bool cut_behind(const struct wrap *wrap, size_t at) {
    if (!hyphen_at(wrap, at) || at < 2 || !letter_at(wrap, at - 1)) return false;
    bool left =
        letter_at(wrap, at - 2) || (at >= 3 && hyphen_at(wrap, at - 2) && letter_at(wrap, at - 3));
    size_t next = at + 2 + hyphen_at(wrap, at + 2);
    return left && letter_at(wrap, at + 1) && letter_at(wrap, next);
}

/* Where the chunk that begins at a place ends. */
static size_t chunk_end(const struct wrap *wrap, size_t at) {
    size_t end = at;
    if (is_blank(wrap->characters[at])) {
        while (end < wrap->count && is_blank(wrap->characters[end]))
            end++;
        return end;
    }
    size_t dashes = wrap->style->cut_at_hyphens ? dashes_at(wrap, at) : 0;
    if (dashes) return at + dashes;
    for (end = at + 1; end < wrap->count && !is_blank(wrap->characters[end]); end++) {
        if (!wrap->style->cut_at_hyphens) continue;
        if (cut_behind(wrap, end)) return end + 1;
        if (dashes_at(wrap, end)) return end;
    }
    return end;
}

static bool wrap_open(struct wrap *wrap, size_t start, size_t end) {
    struct jinja_machine *machine = wrap->machine;
    const char *data = wrap->text->data;
    size_t room = end - start + 1;
    if (!machine_spend(machine, room / 4) ||
        !(wrap->characters = machine_take(machine, room * sizeof *wrap->characters)) ||
        !(wrap->offsets = machine_take(machine, room * sizeof *wrap->offsets)) ||
        !(wrap->chunks = machine_take(machine, room * sizeof *wrap->chunks)))
        return false;
    for (size_t at = start; at < end;) {
        unsigned bytes;
        wrap->characters[wrap->count] = unicode_read(data + at, &bytes);
        wrap->offsets[wrap->count++] = (uint32_t)at;
        at += bytes;
    }
    wrap->offsets[wrap->count] = (uint32_t)end;
    for (size_t at = 0; at < wrap->count;) {
        wrap->chunks[wrap->chunk_count++] = (uint32_t)at;
        at = chunk_end(wrap, at);
    }
    wrap->chunks[wrap->chunk_count] = (uint32_t)wrap->count;
    return true;
}

static bool is_space(const struct wrap *wrap, size_t start, size_t end) {
    for (; start < end; start++)
        if (!(unicode_properties(wrap->characters[start]) & UNICODE_SPACE)) return false;
    return true;
}

/* Where to break a word that begins at a place, of which `room` characters fit. */
static size_t break_at(const struct wrap *wrap, size_t start, size_t end, size_t room) {
    if (start + room >= end) return end;
    if (!wrap->style->break_at_hyphens) return start + room;
    for (size_t at = start + room; at-- > start + 1;) {
        if (!hyphen_at(wrap, at)) continue;
        for (size_t before = start; before < at; before++)
            if (!hyphen_at(wrap, before)) return at + 1;
        break;
    }
    return start + room;
}

/* The next line: characters [start, *end), of which the last chunk begins at *last. */
static void fill_line(struct wrap *wrap, size_t *chunk, size_t start, size_t *end, size_t *last) {
    size_t width = (size_t)wrap->style->width;
    *end = *last = start;
    while (*chunk < wrap->chunk_count && wrap->chunks[*chunk + 1] - start <= width) {
        *last = wrap->chunks[*chunk] > start ? wrap->chunks[*chunk] : start;
        *end = wrap->chunks[++*chunk];
    }
    if (*chunk == wrap->chunk_count || wrap->chunks[*chunk + 1] - *end <= width) return;
    size_t first = *end; /* a word that fits no line begins or goes on here */
    if (wrap->style->break_long_words) {
        *last = first;
        *end = break_at(wrap, first, wrap->chunks[*chunk + 1], width - (first - start));
        if (*end == wrap->chunks[*chunk + 1]) ++*chunk;
    } else if (first == start) {
        *end = wrap->chunks[++*chunk];
    }
}

/* Markup between the lines has them escaped. */
static bool add_part(const struct wrap *wrap, struct text_builder *builder, size_t start,
                     size_t end) {
    struct value part;
    if (!wrap->style->mark->markup)
        return text_builder_add_part(builder, wrap->text, start, end - start);
    return make_part(wrap->machine, wrap->text, start, end - start, &part) &&
           markup_add_escaped(builder, part.text);
}

bool wrap_add(struct text_builder *builder, const struct value_text *text, size_t start, size_t end,
              const struct wrap_style *style) {
    struct wrap wrap = {.machine = builder->machine, .style = style, .text = text};
    if (!wrap_open(&wrap, start, end)) return false;
    bool lines = false;
    for (size_t chunk = 0, at = 0; chunk < wrap.chunk_count;) {
        if (lines && is_space(&wrap, at, wrap.chunks[chunk + 1])) {
            at = wrap.chunks[++chunk];
            if (chunk == wrap.chunk_count) break;
        }
        size_t line_end, last, line_start = at;
        fill_line(&wrap, &chunk, line_start, &line_end, &last);
        at = line_end;
        size_t shown = line_end > line_start && is_space(&wrap, last, line_end) ? last : line_end;
        if (shown == line_start) continue;
        if (!machine_spend(builder->machine, 1) ||
            (lines && !text_builder_add_text(builder, style->mark)) ||
            !add_part(&wrap, builder, wrap.offsets[line_start], wrap.offsets[shown]))
            return false;
        lines = true;
    }
    return true;
}
