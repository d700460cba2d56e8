/* SPDX-License-Identifier: Apache-2.0
 * The methods of Python's str, and those that Markup adds.
 */
#pragma once

#include "serving/jinja/values/jinja_machine.h"

/* NULL: there is none. */
const struct routine *text_methods_find(struct bytes name);
