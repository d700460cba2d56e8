/* SPDX-License-Identifier: Apache-2.0
 * pprint.pformat(value): as repr(), with dicts in the order of their keys, and broken into lines of
 * 80 characters where it is longer.
 */
#ifndef SERVING_JINJA_PRETTY_H
#define SERVING_JINJA_PRETTY_H

#include "serving/jinja/jinja_machine.h"

bool pretty_add(struct text_builder *builder, const struct value *value) MUST_USE;

#endif
