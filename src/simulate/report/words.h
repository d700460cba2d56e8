/* SPDX-License-Identifier: Apache-2.0
 * Numbers and members in the output of a run: JSON with the digits that determine a number and no
 * more, and numbers for people.
 */
#pragma once

#include "base/json_writer.h"

/* A JSON number; null for infinity and NaN. */
void words_number(struct json_writer *writer, double value);

/* Writes ,"name": and a number, without the comma if `first`. */
void words_member(struct json_writer *writer, bool first, const char *name, double value);
void words_member_text(struct json_writer *writer, bool first, const char *name,
                       struct bytes value);

/* 0 if there is no whole. */
static inline double words_ratio(double part, double whole) {
    return whole > 0 ? part / whole : 0;
}

/* Three or four digits and a unit's step: "14.8k", "0.027", "1.94M". */
#define WORDS_SHORT_BYTES 24
void words_short(double value, char out[WORDS_SHORT_BYTES]);

/* Writes the text with < > & " escaped for HTML. */
void words_html(struct json_writer *writer, struct bytes text);
