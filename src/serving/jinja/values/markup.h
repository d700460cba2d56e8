/* SPDX-License-Identifier: Apache-2.0
 * Markup of Python's markupsafe: a text that counts as HTML. A text that is joined with it is
 * escaped first. An escape sequence has the origin of the escaped character.
 */
#pragma once

#include "serving/jinja/values/jinja_machine.h"

/* Appends markup_value_escape(value). */
bool markup_add(struct text_builder *builder, const struct value *value) MUST_USE;

/* Returns the text to insert into `whole`: escaped if `whole` is a Markup and `text` is not. */
bool markup_fit(struct jinja_machine *machine, const struct value_text *whole,
                const struct value_text *text, const struct value_text **out) MUST_USE;
