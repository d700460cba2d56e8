/* SPDX-License-Identifier: Apache-2.0
 * text % values, as Python's str has it.
 */
#ifndef SERVING_JINJA_PERCENT_H
#define SERVING_JINJA_PERCENT_H

#include "serving/jinja/jinja_machine.h"

/* `values` is a tuple of them, a dict for "%(name)s", or the only one. Markup stays markup, and
 * what comes in is escaped for it. */
bool percent_format(struct jinja_machine *machine, const struct value_text *format,
                    const struct value *values, struct value *out) MUST_USE;

#endif
