/* SPDX-License-Identifier: Apache-2.0
 * Case conversion of texts, as in Python's str. The converted characters have the origin of the
 * original character.
 */
#pragma once

#include "serving/jinja/values/jinja_machine.h"

enum letters_change {
    LETTERS_UPPER,
    LETTERS_LOWER,
    LETTERS_CAPITALIZE, /* first character in title case, the rest in lower case */
    LETTERS_TITLE       /* the same for each word */
};

/* Converts the part [start, end) as if it were the whole text, and appends it. */
bool letters_add(struct text_builder *builder, const struct value_text *text, size_t start,
                 size_t end, enum letters_change change) MUST_USE;

/* Converts the whole text. A Markup remains a Markup. */
bool letters_change(struct jinja_machine *machine, const struct value_text *text,
                    enum letters_change change, struct value *out) MUST_USE;
