/* SPDX-License-Identifier: Apache-2.0
 * Prints untrusted text from files, such as account names, safely (base/format.h). If memory runs
 * out, the process ends.
 */
#pragma once

#include "command/json_print.h"

/* Text for a terminal or a CSV cell. The caller frees it. */
char *outside_text_visible(const char *text);
char *outside_text_cell(const char *text);

/* Prints a JSON string. Invalid UTF-8 becomes U+FFFD. */
void outside_text_json(struct json_print *print, const char *name, const char *text);
