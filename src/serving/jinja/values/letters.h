/* SPDX-License-Identifier: Apache-2.0
 * Upper and lower case of texts, as Python's str has them. What a character becomes has the
 * character's origin.
 */
#pragma once

#include "serving/jinja/values/jinja_machine.h"

enum letters_change {
    LETTERS_UPPER,
    LETTERS_LOWER,
    LETTERS_CAPITALIZE, /* the first character in title case, the others lower */
    LETTERS_TITLE       /* so each word's */
};

/* Adds the part [start, end) changed, as if it were the whole text. */
bool letters_add(struct text_builder *builder, const struct value_text *text, size_t start,
                 size_t end, enum letters_change change) MUST_USE;

/* The whole text changed; markup stays so. */
bool letters_change(struct jinja_machine *machine, const struct value_text *text,
                    enum letters_change change, struct value *out) MUST_USE;
