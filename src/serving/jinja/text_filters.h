/* SPDX-License-Identifier: Apache-2.0
 * Jinja's filters that make texts of texts.
 */
#ifndef SERVING_JINJA_TEXT_FILTERS_H
#define SERVING_JINJA_TEXT_FILTERS_H

#include "serving/jinja/jinja_machine.h"

/* NULL: there is none. */
const struct routine *text_filters_find(struct bytes name);

#endif
