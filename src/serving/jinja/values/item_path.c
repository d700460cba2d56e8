/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/jinja/values/item_path.h"

#include "serving/jinja/values/letters.h"
#include "serving/jinja/values/pieces.h"

static const struct value_text dot = {.data = ".", .count = 1, .length = 1};

/* Converts a part that consists of digits to an integer. */
static bool item_path_part_of(struct jinja_machine *machine, struct value *part) {
    int64_t number = 0;
    const struct value_text *text = part->text;
    if (text->count == 0) return true;
    for (uint32_t i = 0; i < text->count; i++) {
        char c = text->data[i];
        if (c < '0' || c > '9') return true;
        if (number > (INT64_MAX - 9) / 10)
            return machine_fail(machine, "the number in an attribute is too large");
        number = number * 10 + (c - '0');
    }
    *part = value_integer(number);
    return true;
}

bool item_path_open(struct jinja_machine *machine, const struct value *attribute,
                    struct item_path *out) {
    struct value parts;
    *out = (struct item_path){0};
    if (attribute->kind == VALUE_NONE || attribute->kind == VALUE_MISSING) return true;
    if (attribute->kind != VALUE_TEXT) {
        out->parts = machine_take(machine, sizeof *out->parts);
        if (!out->parts) return false;
        out->parts[0] = *attribute;
        out->part_count = 1;
        return true;
    }
    if (!pieces_split(machine, attribute->text, &dot, -1, false, &parts)) return false;
    out->parts = parts.list->items;
    out->part_count = parts.list->count;
    for (uint32_t i = 0; i < out->part_count; i++)
        if (!item_path_part_of(machine, &out->parts[i])) return false;
    return true;
}

bool item_path_follow(struct jinja_machine *machine, const struct item_path *path,
                      const struct value *item, struct value *out) {
    struct value here = *item, next;
    for (uint32_t i = 0; i < path->part_count; i++) {
        if (!value_access_get_item(machine, &here, &path->parts[i], &next)) return false;
        here = next;
        if (path->otherwise && here.kind == VALUE_UNDEFINED) here = *path->otherwise;
    }
    *out = here;
    if (!path->folded || here.kind != VALUE_TEXT) return true;
    return letters_change(machine, here.text, LETTERS_LOWER, out);
}

/* True if `a` must precede `b`. Python compares lists with one key, so equal keys are never
 * compared by order. */
static bool item_path_precedes(struct jinja_machine *machine, const struct value *a,
                               const struct value *b, bool reversed, bool *out) {
    bool equal = false;
    *out = false;
    if (!machine_spend(machine, 1) || !value_compare_equal(machine, a, b, &equal)) return false;
    return equal ||
           value_compare(machine, reversed ? OPERATION_GREATER : OPERATION_LESS, a, b, out);
}

bool item_path_sort(struct jinja_machine *machine, const struct value *value,
                    const struct item_path *path, bool reversed, struct value *out) {
    struct value_list *list;
    if (!value_access_items(machine, value, true, &list) ||
        !value_make_list(machine, VALUE_LIST, list->count, out))
        return false;
    struct value *items = out->list->items, key;
    struct value *keys = machine_take(machine, list->count * sizeof *keys + 1);
    if (!keys) return false;
    for (uint32_t i = 0; i < list->count; i++) {
        uint32_t low = 0, high = i; /* the item's position is in [low, high] */
        if (!item_path_follow(machine, path, &list->items[i], &key)) return false;
        while (low < high) {
            uint32_t middle = low + (high - low) / 2;
            bool before;
            if (!item_path_precedes(machine, &key, &keys[middle], reversed, &before)) return false;
            if (before)
                high = middle;
            else
                low = middle + 1;
        }
        if (!machine_spend(machine, 1 + (i - low) / 16)) return false;
        memmove(items + low + 1, items + low, (i - low) * sizeof *items);
        memmove(keys + low + 1, keys + low, (i - low) * sizeof *keys);
        items[low] = list->items[i];
        keys[low] = key;
    }
    out->list->count = list->count;
    return true;
}
