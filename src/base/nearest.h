/* SPDX-License-Identifier: Apache-2.0
 * A hint for a mistyped name: the known name that is most similar.
 *
 *     struct nearest nearest = nearest_begin(word);
 *     for (size_t i = 0; i < count; i++)
 *         nearest_try(&nearest, names[i]);
 *     if (nearest.name) ... "did you mean"
 */
#pragma once

#include "base/bytes.h"

#define NEAREST_NAME_BYTES_MAX 63 /* limit of a known name; a longer word has no similar name */

struct nearest {
    struct bytes word;
    /* the most similar name so far, the first among equals; NULL: none is similar */
    const char *name;
    size_t limit; /* a name needs fewer edits than this to be chosen */
};

/* `word` is borrowed. */
struct nearest nearest_begin(struct bytes word);
void nearest_try(struct nearest *nearest, const char *name);

/* The number of insertions, deletions and replacements that turn `a` into `b` (Levenshtein 1965).
 * Both have at most NEAREST_NAME_BYTES_MAX bytes. */
size_t nearest_edits(struct bytes a, struct bytes b);
