/* SPDX-License-Identifier: Apache-2.0
 * The methods of Python's str, and those that Markup adds.
 */
#ifndef SERVING_JINJA_VALUES_TEXT_METHODS_H
#define SERVING_JINJA_VALUES_TEXT_METHODS_H

#include "serving/jinja/values/jinja_machine.h"

/* NULL: there is none. */
const struct routine *text_methods_find(struct bytes name);

#endif
