/* SPDX-License-Identifier: Apache-2.0
 * Places and pieces of texts: characters to bytes, searching, and cutting into lists. Places are
 * bytes here; what templates say is in characters. Pieces share the bytes of the whole, its origins
 * and its markup.
 */
#pragma once

#include "serving/jinja/values/jinja_machine.h"

/* How many characters lie before a byte. */
size_t pieces_character(const struct value_text *text, size_t offset);

#define PIECES_NONE SIZE_MAX

/* The first or the last place in [start, end) of the text where the needle lies, wholly inside. */
size_t pieces_find(const struct value_text *text, size_t start, size_t end,
                   const struct value_text *needle);
size_t pieces_find_last(struct jinja_machine *machine, const struct value_text *text, size_t start,
                        size_t end, const struct value_text *needle);

/* The character that ends before a byte; *at moves to its beginning. */
uint32_t pieces_before(const struct value_text *text, size_t *at);

/* Strips the characters of `set` (NULL: white space) from both ends; the rest is [*start, *end). */
void pieces_strip(const struct value_text *text, const struct value_text *set, bool left,
                  bool right, size_t *start, size_t *end);

/* str.split, str.rsplit: `mark` NULL: at white space; at most `most` cuts, any number if negative.
 */
bool pieces_split(struct jinja_machine *machine, const struct value_text *text,
                  const struct value_text *mark, int64_t most, bool from_right,
                  struct value *out) MUST_USE;

/* str.splitlines */
bool pieces_lines(struct jinja_machine *machine, const struct value_text *text, bool keep_ends,
                  struct value *out) MUST_USE;

/* str.replace; `most` negative: all. */
bool pieces_replace(struct jinja_machine *machine, const struct value_text *text,
                    const struct value_text *old, const struct value_text *fresh, int64_t most,
                    bool markup, struct value *out) MUST_USE;
