/* SPDX-License-Identifier: Apache-2.0
 * The methods of Python's str, and the additional ones of Markup.
 */
#pragma once

#include "serving/jinja/values/jinja_machine.h"

/* Returns NULL if there is no such method. */
const struct routine *text_methods_find(struct bytes name);
