/* SPDX-License-Identifier: Apache-2.0
 * Resolves the argument `attribute` of filters: "a.b.0" means item["a"]["b"][0]. Also sorts by it.
 */
#pragma once

#include "serving/jinja/values/jinja_machine.h"

struct item_path {
    struct value *parts;
    uint32_t part_count;           /* 0: the item itself */
    const struct value *otherwise; /* replaces an undefined part; NULL: no replacement */
    bool folded;                   /* convert texts to lower case, to ignore case */
};

/* Parses `attribute`. None and VALUE_MISSING select the item itself. */
bool item_path_open(struct jinja_machine *machine, const struct value *attribute,
                    struct item_path *out) MUST_USE;

bool item_path_follow(struct jinja_machine *machine, const struct item_path *path,
                      const struct value *item, struct value *out) MUST_USE;

/* Returns a list of the items of any iterable, sorted by their keys. The sort is stable, also if
 * reversed. */
bool item_path_sort(struct jinja_machine *machine, const struct value *value,
                    const struct item_path *path, bool reversed, struct value *out) MUST_USE;
