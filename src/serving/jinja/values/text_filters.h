/* SPDX-License-Identifier: Apache-2.0
 * Jinja's filters that make texts of texts.
 */
#pragma once

#include "serving/jinja/values/jinja_machine.h"

/* NULL: there is none. */
const struct routine *text_filters_find(struct bytes name);

/* The indentation from a call's argument at `place`: a text, or so many spaces (`usual` if it is
 * absent). Fails beyond `most`. */
bool text_filters_indent(struct jinja_machine *machine, const struct call *call, uint32_t place,
                         int64_t usual, int64_t most, const struct value_text **out) MUST_USE;
