/* SPDX-License-Identifier: Apache-2.0
 * Markup, as Python's markupsafe has it: a text that is taken for HTML, so that what joins it is
 * escaped first. An escaped character keeps the origin of the character.
 */
#pragma once

#include "serving/jinja/values/jinja_machine.h"

/* Adds markup_value_escape(value). */
bool markup_add(struct text_builder *builder, const struct value *value) MUST_USE;

/* A text for a place in `whole`: escaped when that is markup and the text is not. */
bool markup_fit(struct jinja_machine *machine, const struct value_text *whole,
                const struct value_text *text, const struct value_text **out) MUST_USE;
