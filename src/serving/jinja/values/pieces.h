/* SPDX-License-Identifier: Apache-2.0
 * Searches and splits texts. Offsets here are in bytes, those of templates in characters. A piece
 * shares the bytes and origins of the whole text, and is a Markup if that is one.
 */
#pragma once

#include "serving/jinja/values/jinja_machine.h"

/* Converts an offset from bytes to characters. */
size_t pieces_character(const struct value_text *text, size_t offset);

#define PIECES_NONE SIZE_MAX

/* The offset of the first or last occurrence of the needle in [start, end), or PIECES_NONE.
 * pieces_find_last also returns PIECES_NONE after it has recorded that steps ran out. */
size_t pieces_find(const struct value_text *text, size_t start, size_t end,
                   const struct value_text *needle);
size_t pieces_find_last(struct jinja_machine *machine, const struct value_text *text, size_t start,
                        size_t end, const struct value_text *needle);

/* Returns the character that ends at offset *at, and moves *at to its start. */
uint32_t pieces_before(const struct value_text *text, size_t *at);

/* Strips the characters of `set` (NULL: white space) from the selected ends. [*start, *end) is the
 * rest. */
void pieces_strip(const struct value_text *text, const struct value_text *set, bool left,
                  bool right, size_t *start, size_t *end);

/* str.split or str.rsplit at `mark` (NULL: white space), at most `most` times (negative: no
 * limit). */
bool pieces_split(struct jinja_machine *machine, const struct value_text *text,
                  const struct value_text *mark, int64_t most, bool from_right,
                  struct value *out) MUST_USE;

/* str.splitlines */
bool pieces_lines(struct jinja_machine *machine, const struct value_text *text, bool keep_ends,
                  struct value *out) MUST_USE;

/* str.replace of at most `most` occurrences (negative: all). */
bool pieces_replace(struct jinja_machine *machine, const struct value_text *text,
                    const struct value_text *old, const struct value_text *fresh, int64_t most,
                    bool markup, struct value *out) MUST_USE;
