/* SPDX-License-Identifier: Apache-2.0
 * A hint for a mistyped name: which of the known names was probably meant.
 *
 *     struct nearest nearest = nearest_begin(word);
 *     for (size_t i = 0; i < count; i++)
 *         nearest_try(&nearest, names[i]);
 *     if (nearest.name) ... "did you mean"
 */
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H

#include "base/bytes.h"

#define NEAREST_NAME_BYTES_MAX 63 /* of a known name; a longer word has no near one */

struct nearest {
    struct bytes word;
    const char *name; /* the nearest so far, of equals the first; NULL: none is near */
    size_t limit;     /* edits that are too many: those to `name`, or to any name at all */
};

/* The word is borrowed. */
struct nearest nearest_begin(struct bytes word);
void nearest_try(struct nearest *nearest, const char *name);

/* Letters to insert, delete or replace to make `b` of `a` (Levenshtein 1965), each of at most
 * NEAREST_NAME_BYTES_MAX bytes. */
size_t nearest_edits(struct bytes a, struct bytes b);

#endif
