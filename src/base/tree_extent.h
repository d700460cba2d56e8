/* SPDX-License-Identifier: Apache-2.0
 * How large a JSON text's tree will be, from one pass over its bytes that keeps nothing: what has
 * too many parts is refused before it is parsed, which takes time by the part (a key some 0.2 us,
 * a real number 0.4, an integer 0.07), not by the byte alone. Of JSON the counts are exact; of
 * other text they are at least those of what a parser reads before it finds that out.
 */
#ifndef BASE_TREE_EXTENT_H
#define BASE_TREE_EXTENT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/bytes.h"

enum tree_part {
    TREE_PART_DEPTH,    /* arrays and objects one inside the other */
    TREE_PART_KEYS,     /* of all objects */
    TREE_PART_INTEGERS, /* of at most 20 characters */
    TREE_PART_VALUES,   /* all others */
    TREE_PART_COUNT     /* none of them */
};

struct tree_extent {
    size_t counts[TREE_PART_COUNT];
};

/* "keys", for messages. */
const char *tree_extent_part_name(enum tree_part part);

/* The first part of which the text has more than `most`, where the pass then ends; else
 * TREE_PART_COUNT. *extent_out: what was counted. */
enum tree_part tree_extent_measure(struct bytes text, const struct tree_extent *most,
                                   struct tree_extent *extent_out);

#endif
