/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

/* Table 3-7 of the Unicode standard: the allowed second bytes depend on the first byte. */
static bool lead_of(uint8_t lead, size_t *bytes, uint8_t *low, uint8_t *high) {
    *low = 0x80;
    *high = 0xBF;
    if (lead >= 0xC2 && lead <= 0xDF) {
        *bytes = 2;
    } else if (lead >= 0xE0 && lead <= 0xEF) {
        *bytes = 3;
        if (lead == 0xE0) *low = 0xA0;  /* else overlong */
        if (lead == 0xED) *high = 0x9F; /* else a surrogate */
    } else if (lead >= 0xF0 && lead <= 0xF4) {
        *bytes = 4;
        if (lead == 0xF0) *low = 0x90;  /* else overlong */
        if (lead == 0xF4) *high = 0x8F; /* else beyond U+10FFFF */
    } else {
        return false;
    }
    return true;
}

enum utf8_kind utf8_next(struct bytes text, size_t *bytes_out) {
    const uint8_t *data = (const uint8_t *)text.data;
    size_t wanted;
    uint8_t low, high;
    *bytes_out = 1;
    if (data[0] < 0x80) return UTF8_WHOLE;
    if (!lead_of(data[0], &wanted, &low, &high)) return UTF8_INVALID;
    for (size_t i = 1; i < wanted; i++) {
        *bytes_out = i;
        if (i == text.count) return UTF8_CUT;
        if (data[i] < low || data[i] > high) return UTF8_INVALID;
        low = 0x80;
        high = 0xBF;
    }
    *bytes_out = wanted;
    return UTF8_WHOLE;
}

size_t utf8_count(struct bytes text) {
    size_t count = 0;
    for (size_t i = 0; i < text.count; i++)
        count += ((uint8_t)text.data[i] & 0xC0) != 0x80;
    return count;
}

size_t utf8_valid_prefix(struct bytes text) {
    size_t at = 0;
    while (at < text.count) {
        uint64_t word;
        if (text.count - at >= sizeof word) {
            memcpy(&word, text.data + at, sizeof word);
            if (!(word & 0x8080808080808080u)) { /* eight ASCII characters */
                at += sizeof word;
                continue;
            }
        }
        size_t bytes;
        if (utf8_next((struct bytes){text.data + at, text.count - at}, &bytes) != UTF8_WHOLE) break;
        at += bytes;
    }
    return at;
}

/* Appends as much as fits; *count also counts the rest. */
static void utf8_append(char *out, size_t capacity, size_t *count, const char *from, size_t bytes) {
    if (*count < capacity) {
        size_t room = capacity - *count;
        memcpy(out + *count, from, bytes < room ? bytes : room);
    }
    *count += bytes;
}

enum status utf8_repair(struct bytes text, char *out, size_t capacity, size_t *count_out) {
    size_t count = 0;
    while (text.count > 0) {
        size_t bytes = utf8_valid_prefix(text);
        utf8_append(out, capacity, &count, text.data, bytes);
        text = (struct bytes){text.data + bytes, text.count - bytes};
        if (text.count == 0) break;
        utf8_next(text, &bytes);
        utf8_append(out, capacity, &count, UTF8_REPLACEMENT, UTF8_REPLACEMENT_BYTES);
        text = (struct bytes){text.data + bytes, text.count - bytes};
    }
    *count_out = count;
    return count <= capacity ? STATUS_OK : STATUS_FULL;
}

void utf8_write_repaired(struct json_writer *writer, struct bytes text) {
    json_writer_text(writer, "\"");
    while (text.count) {
        size_t count;
        bool whole = utf8_next(text, &count) == UTF8_WHOLE;
        json_writer_escaped(writer, whole ? (struct bytes){text.data, count}
                                          : BYTES_LITERAL(UTF8_REPLACEMENT));
        text = (struct bytes){text.data + count, text.count - count};
    }
    json_writer_text(writer, "\"");
}

static const struct bytes replacement = {UTF8_REPLACEMENT, UTF8_REPLACEMENT_BYTES};

/* Adds bytes of `piece` to the pending ones until they form a character or cannot form one; returns
 * the number consumed. A byte that makes a character invalid starts the next one. */
static size_t complete_pending(struct utf8_joiner *joiner, struct bytes piece, utf8_sink *sink,
                               void *context) {
    for (size_t i = 0; i < piece.count; i++) {
        size_t bytes;
        joiner->pending[joiner->pending_count] = piece.data[i];
        struct bytes pending = {joiner->pending, joiner->pending_count + 1};
        enum utf8_kind kind = utf8_next(pending, &bytes);
        if (kind == UTF8_CUT) {
            joiner->pending_count++;
            continue;
        }
        joiner->pending_count = 0;
        sink(context, kind == UTF8_WHOLE ? pending : replacement);
        return kind == UTF8_WHOLE ? i + 1 : i;
    }
    return piece.count;
}

void utf8_join(struct utf8_joiner *joiner, struct bytes piece, utf8_sink *sink, void *context) {
    while (piece.count > 0) {
        size_t bytes;
        if (joiner->pending_count > 0) {
            bytes = complete_pending(joiner, piece, sink, context);
        } else if ((bytes = utf8_valid_prefix(piece)) > 0) {
            sink(context, (struct bytes){piece.data, bytes});
        } else if (utf8_next(piece, &bytes) == UTF8_CUT) {
            memcpy(joiner->pending, piece.data, bytes);
            joiner->pending_count = (uint32_t)bytes;
        } else {
            sink(context, replacement);
        }
        piece = (struct bytes){piece.data + bytes, piece.count - bytes};
    }
}

void utf8_join_end(struct utf8_joiner *joiner, utf8_sink *sink, void *context) {
    if (joiner->pending_count > 0) sink(context, replacement);
    joiner->pending_count = 0;
}
