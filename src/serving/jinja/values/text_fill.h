/* SPDX-License-Identifier: Apache-2.0
 * String formatting: text % values and text.format(values). Only the simple forms that templates
 * use are supported; others fail with an error that names them. Every byte keeps its origin.
 */
#pragma once

#include "serving/jinja/values/jinja_machine.h"

/* Supports %s, %d and %%. `values` is a tuple, or a single value. */
bool text_fill_percent(struct jinja_machine *machine, const struct value_text *format,
                       const struct value *values, struct value *out) MUST_USE;

/* Supports {}, {0}, {name}, {{ and }}, with the arguments of the call. */
bool text_fill_braces(struct jinja_machine *machine, const struct value_text *format,
                      const struct call *call, struct value *out) MUST_USE;
