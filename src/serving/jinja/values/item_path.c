/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/jinja/values/item_path.h"

#include "serving/jinja/values/letters.h"
#include "serving/jinja/values/pieces.h"

static const struct value_text dot = {.data = ".", .count = 1, .length = 1};

/* "0" and its like are numbers. */
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

bool item_path_keyed(struct jinja_machine *machine, const struct value *value,
                     const struct item_path *path, struct item_keyed **out, uint32_t *count_out) {
    struct value_list *list;
    if (!value_access_items(machine, value, true, &list)) return false;
    struct item_keyed *items = machine_take(machine, list->count * sizeof *items + 1);
    if (!items) return false;
    for (uint32_t i = 0; i < list->count; i++) {
        items[i].item = list->items[i];
        if (!machine_spend(machine, 1) ||
            !item_path_follow(machine, path, &items[i].item, &items[i].key))
            return false;
    }
    *out = items;
    *count_out = list->count;
    return true;
}

/* Python compares what the filter sort orders as lists of one key: equal keys need no order. */
static bool item_path_is_less(struct jinja_machine *machine, const struct item_keyed *a,
                              const struct item_keyed *b, struct item_order order, bool *out) {
    bool equal = false;
    *out = false;
    if (!machine_spend(machine, 1) ||
        (order.listed && !value_compare_equal(machine, &a->key, &b->key, &equal)))
        return false;
    return equal || value_compare_less(machine, &a->key, &b->key, out);
}

static bool item_path_merge(struct jinja_machine *machine, struct item_keyed *from,
                            struct item_keyed *to, uint32_t start, uint32_t middle, uint32_t end,
                            struct item_order order) {
    uint32_t left = start, right = middle;
    for (uint32_t at = start; at < end; at++) {
        bool from_right = left == middle;
        if (!from_right && right < end &&
            !(order.reverse
                  ? item_path_is_less(machine, &from[left], &from[right], order, &from_right)
                  : item_path_is_less(machine, &from[right], &from[left], order, &from_right)))
            return false;
        to[at] = from[from_right ? right++ : left++];
    }
    return true;
}

bool item_path_sort(struct jinja_machine *machine, struct item_keyed *items, uint32_t count,
                    struct item_order order) {
    struct item_keyed *other = machine_take(machine, count * sizeof *other + 1);
    struct item_keyed *from = items, *to = other;
    if (!other) return false;
    for (uint32_t width = 1; width < count; width *= 2) {
        for (uint32_t start = 0; start < count; start += 2 * width) {
            uint32_t middle = count - start < width ? count : start + width;
            uint32_t end = count - start < 2 * width ? count : start + 2 * width;
            if (!item_path_merge(machine, from, to, start, middle, end, order)) return false;
        }
        struct item_keyed *kept = from;
        from = to;
        to = kept;
    }
    if (from != items) memcpy(items, from, count * sizeof *items);
    return true;
}
