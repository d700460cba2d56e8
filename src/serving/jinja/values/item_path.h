/* SPDX-License-Identifier: Apache-2.0
 * Resolves the filters' argument `attribute`: "a.b.0" is item["a"]["b"][0]. Also sorts by it.
 */
#pragma once

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

/* The items of any iterable in the order of their keys. Equal keys keep their order, also if it is
 * reversed. */
bool item_path_sort(struct jinja_machine *machine, const struct value *value,
                    const struct item_path *path, bool reversed, struct value *out) MUST_USE;
