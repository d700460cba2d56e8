/* SPDX-License-Identifier: Apache-2.0
 * Jinja's filters for lists and other iterables. Filters that are generators in Python compute each
 * item, and report its errors, only when the item is requested.
 */
#pragma once

#include "serving/jinja/values/jinja_machine.h"

/* Returns the items of a list as a generator, which can be iterated only once, as in Python. */
bool item_filters_once(struct jinja_machine *machine, struct value_list *list, struct value *out);

/* Returns NULL if there is no such filter. */
const struct routine *item_filters_find(struct bytes name);
