/* SPDX-License-Identifier: Apache-2.0
 * The size of a JSON text's tree, from one pass over its bytes without allocation. A text with too
 * many parts is rejected before it is parsed: parsing takes time per part (about 0.2 us for a key,
 * 0.4 us for a real, 0.07 us for an integer), not only per byte. For JSON the counts are exact. For
 * other text they are at least the counts of the part that a parser would read before its error.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/bytes.h"

enum tree_part {
    TREE_PART_DEPTH,    /* nesting depth of arrays and objects */
    TREE_PART_KEYS,     /* keys of all objects */
    TREE_PART_INTEGERS, /* integers of at most 20 characters */
    TREE_PART_VALUES,   /* all other values */
    TREE_PART_COUNT     /* the number of parts; as a result: no limit was exceeded */
};

struct tree_extent {
    size_t counts[TREE_PART_COUNT];
};

/* "keys", for messages. */
const char *tree_extent_part_name(enum tree_part part);

/* Counts until a part exceeds its limit in `most`, and returns that part; else TREE_PART_COUNT. The
 * counts are written to extent_out. */
enum tree_part tree_extent_measure(struct bytes text, const struct tree_extent *most,
                                   struct tree_extent *extent_out);
