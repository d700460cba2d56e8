/* SPDX-License-Identifier: Apache-2.0
 * text.format(...), as Jinja's sandbox has it: fields look up attributes and items as expressions
 * of templates do.
 */
#ifndef SERVING_JINJA_BRACES_H
#define SERVING_JINJA_BRACES_H

#include "serving/jinja/jinja_machine.h"

/* The values for "{}" and "{0}", and those for "{name}"; `mapping` NULL, or the argument of
 * format_map, which replaces both. */
struct braces_values {
    const struct value *values;
    uint32_t value_count, named_count;
    const struct named_value *named;
    const struct value *mapping;
};

/* Markup stays markup, and what comes in is escaped for it. */
bool braces_format(struct jinja_machine *machine, const struct value_text *format,
                   const struct braces_values *values, struct value *out) MUST_USE;

#endif
