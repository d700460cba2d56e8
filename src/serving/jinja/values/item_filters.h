/* SPDX-License-Identifier: Apache-2.0
 * Jinja's filters of lists and other iterables. Those that Python writes as generators make each
 * item when it is asked for, and complain no sooner.
 */
#pragma once

#include "serving/jinja/values/jinja_machine.h"

/* NULL: there is none. */
const struct routine *item_filters_find(struct bytes name);
