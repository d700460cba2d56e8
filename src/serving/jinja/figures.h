/* SPDX-License-Identifier: Apache-2.0
 * Python's language of formats, which format() and the fields of str.format() understand:
 *     [[fill]align][sign][z][#][0][width][, or _][.precision][type]
 * and numbers written by it. What surrounds a number or a text (fill, width) is the caller's to
 * write. Sources: "Format Specification Mini-Language" of Python's documentation.
 */
#ifndef SERVING_JINJA_FIGURES_H
#define SERVING_JINJA_FIGURES_H

#include "base/bytes.h"

struct figures_format {
    uint32_t fill; /* a character */
    char align;    /* '<' '>' '=' '^'; 0: by the kind of value */
    char sign;     /* '+' '-' ' '; 0: none given */
    bool not_negative_zero, alternate;
    bool zero;     /* the 0 before the width was given */
    char grouping; /* ',' '_'; 0: none */
    char type;     /* 0: none */
    int width;     /* -1: none */
    int precision; /* -1: none */
};

#define FIGURES_WIDTH_MAX 1000000
#define FIGURES_PRECISION_MAX 1000
#define FIGURES_BYTES 2048

/* NULL, or why the text is no format. Valid UTF-8. `align` is what the kind of value has by itself:
 * '<' or '>'. */
const char *figures_read(struct bytes text, char align, struct figures_format *out);

/* The number with its sign, digits, marks of groups and exponent, and the zeros of a width that is
 * filled with zeros, so far as they fit; `prefix` is how many bytes of sign and "0x" come first.
 * NULL, or why not. Type 'c' is the caller's. */
const char *figures_of_integer(int64_t value, const struct figures_format *format,
                               char out[FIGURES_BYTES], size_t *count, size_t *prefix);
const char *figures_of_real(double value, const struct figures_format *format,
                            char out[FIGURES_BYTES], size_t *count, size_t *prefix);

#endif
