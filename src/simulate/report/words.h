/* SPDX-License-Identifier: Apache-2.0
 * Numbers and members in texts that a run writes: JSON with the digits that mean a number and no
 * more, and numbers as people read them.
 */
#ifndef SIMULATE_REPORT_WORDS_H
#define SIMULATE_REPORT_WORDS_H

#include "base/json_writer.h"

/* A JSON number; null for what is none (infinite, NaN). */
void words_number(struct json_writer *writer, double value);

/* ,"name": and a number; the comma unless `first`. */
void words_member(struct json_writer *writer, bool first, const char *name, double value);
void words_member_text(struct json_writer *writer, bool first, const char *name,
                       struct bytes value);

/* Formatted text. */
void words_format(struct json_writer *writer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Three or four digits and a unit's step: "14.8k", "0.027", "1.94M". */
#define WORDS_SHORT_BYTES 24
void words_short(double value, char out[WORDS_SHORT_BYTES]);

/* The text with < > & " as HTML has them. */
void words_html(struct json_writer *writer, struct bytes text);

#endif
