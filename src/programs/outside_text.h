/* SPDX-License-Identifier: Apache-2.0
 * Texts out of a file that anybody may have written, such as names of accounts, in the forms in which
 * commands print them (base/format.h). Memory that runs out ends the process.
 */
#pragma once

#include "command/json_print.h"

/* For a terminal, and as a cell of CSV; the caller frees it. */
char *outside_text_visible(const char *text);
char *outside_text_cell(const char *text);

/* The same as a JSON string; what is no UTF-8 becomes U+FFFD. */
void outside_text_json(struct json_print *print, const char *name, const char *text);
