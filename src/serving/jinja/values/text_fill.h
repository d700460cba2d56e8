/* SPDX-License-Identifier: Apache-2.0
 * Puts values into a format: text % values, and text.format(values). The plain forms, which templates
 * use; others are refused by name. What comes from the format and from the values keeps its origin.
 */
#pragma once

#include "serving/jinja/values/jinja_machine.h"

/* %s, %d and %%. `values` is a tuple of them, or the only one. */
bool text_fill_percent(struct jinja_machine *machine, const struct value_text *format,
                       const struct value *values, struct value *out) MUST_USE;

/* {}, {0}, {name}, {{ and }} with the arguments of the call. */
bool text_fill_braces(struct jinja_machine *machine, const struct value_text *format,
                      const struct call *call, struct value *out) MUST_USE;
