/* SPDX-License-Identifier: Apache-2.0
 * Wrapping of long lines, as Python's textwrap does it for the filter wordwrap: existing spaces
 * stay, but not at a line's ends.
 */
#ifndef SERVING_JINJA_WRAP_H
#define SERVING_JINJA_WRAP_H

#include "serving/jinja/jinja_machine.h"

struct wrap_style {
    int64_t width; /* > 0 */
    bool break_long_words;
    bool cut_at_hyphens;           /* words may end at a hyphen */
    bool break_at_hyphens;         /* a word too long is rather broken at a hyphen */
    const struct value_text *mark; /* between lines */
};

/* Adds one line of the text, [start, end) in bytes, as several. */
bool wrap_add(struct text_builder *builder, const struct value_text *text, size_t start, size_t end,
              const struct wrap_style *style) MUST_USE;

#endif
