/* SPDX-License-Identifier: Apache-2.0
 * Numbers and members in the results of a run. JSON numbers have exactly the digits that determine
 * the value; numbers for readers are rounded.
 */
#pragma once

#include "base/json_writer.h"

/* Writes a JSON number; null for infinity and NaN. */
void words_number(struct json_writer *writer, double value);

/* Write ,"name": and a number or text, without the comma if `first`. */
void words_member(struct json_writer *writer, bool first, const char *name, double value);
void words_member_text(struct json_writer *writer, bool first, const char *name,
                       struct bytes value);

/* part / whole; 0 if whole is 0. */
static inline double words_ratio(double part, double whole) {
    return whole > 0 ? part / whole : 0;
}

/* Formats a value with three or four digits and a metric suffix: "14.8k", "0.027", "1.94M". */
#define WORDS_SHORT_BYTES 24
void words_short(double value, char out[WORDS_SHORT_BYTES]);

/* Writes the text with < > & " escaped for HTML. */
void words_html(struct json_writer *writer, struct bytes text);
