/* SPDX-License-Identifier: Apache-2.0
 * Characters that HTML writes by name or by code, as Python's html.unescape() reads them.
 */
#ifndef SERVING_JINJA_ENTITIES_H
#define SERVING_JINJA_ENTITIES_H

#include "base/bytes.h"

/* The characters that the longest beginning of `text` (what follows the '&') names, and how many of
 * its bytes do; NULL: none does. */
const char *entities_find(struct bytes text, size_t *used);

/* The UTF-8 of "&#code;", and its bytes: none for a code that stands for nothing. */
size_t entities_of_code(uint32_t code, char out[4]);

#endif
