/* SPDX-License-Identifier: Apache-2.0
 * Jinja's filters from text to text.
 */
#pragma once

#include "serving/jinja/values/jinja_machine.h"

/* Returns NULL if there is no such filter. */
const struct routine *text_filters_find(struct bytes name);

/* The indentation from the argument at `place`: a text, or a number of spaces (`usual` if absent).
 * Fails if the number is above `most`. */
bool text_filters_indent(struct jinja_machine *machine, const struct call *call, uint32_t place,
                         int64_t usual, int64_t most, const struct value_text **out) MUST_USE;
