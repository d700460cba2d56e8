/* SPDX-License-Identifier: Apache-2.0
 * Resolves the filters' argument `attribute`: "a.b.0" is item["a"]["b"][0]. Also makes keys from
 * it, by which filters sort, group and compare.
 */
#ifndef SERVING_JINJA_VALUES_ITEM_PATH_H
#define SERVING_JINJA_VALUES_ITEM_PATH_H

#include "serving/jinja/values/jinja_machine.h"

struct item_path {
    struct value *parts;
    uint32_t part_count;           /* 0: the item itself */
    const struct value *otherwise; /* what replaces an undefined one on the way; NULL: nothing */
    bool folded;                   /* texts in lower case, as "ignore case" is done */
};

/* None and a missing value lead to the item itself. */
bool item_path_open(struct jinja_machine *machine, const struct value *attribute,
                    struct item_path *out) MUST_USE;

bool item_path_follow(struct jinja_machine *machine, const struct item_path *path,
                      const struct value *item, struct value *out) MUST_USE;

/* An item and the key that it is sorted by. */
struct item_keyed {
    struct value item, key;
};

/* The items of any iterable with their keys. */
bool item_path_keyed(struct jinja_machine *machine, const struct value *value,
                     const struct item_path *path, struct item_keyed **out,
                     uint32_t *count_out) MUST_USE;

/* Sorts so that what is equal keeps its order, also in reverse. `listed`: keys that are equal need no
 * order of their own. */
struct item_order {
    bool listed, reverse;
};
bool item_path_sort(struct jinja_machine *machine, struct item_keyed *items, uint32_t count,
                    struct item_order order) MUST_USE;

#endif
