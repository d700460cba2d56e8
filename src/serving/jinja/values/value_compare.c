/* SPDX-License-Identifier: Apache-2.0
 * Equality, order and containment of values, as in Python.
 */
#include <math.h>

#include "base/hash.h"
#include "serving/jinja/values/jinja_machine.h"

uint64_t value_compare_text_hash(const char *data, size_t count) {
    uint64_t hash = hash_bytes(0, data, count);
    return hash ? hash : 1;
}

/* ---- equality ---- */

static bool lists_equal(struct jinja_machine *machine, const struct value_list *a,
                        const struct value_list *b, bool *out) {
    *out = false;
    if (a->count != b->count) return true;
    *out = true;
    if (a == b) return true;
    if (!jinja_machine_enter(machine) || !machine_spend(machine, a->count)) return false;
    for (uint32_t i = 0; i < a->count && *out; i++)
        if (!value_compare_equal(machine, &a->items[i], &b->items[i], out)) return false;
    machine_leave(machine);
    return true;
}

static bool dicts_equal(struct jinja_machine *machine, const struct value_dict *a,
                        const struct value_dict *b, bool *out) {
    struct value *other;
    *out = false;
    if (a->count != b->count) return true;
    *out = true;
    if (a == b) return true;
    if (!jinja_machine_enter(machine) || !machine_spend(machine, a->count)) return false;
    for (uint32_t i = 0; i < a->count && *out; i++) {
        if (!value_dict_find(machine, b, &a->pairs[i].key, &other)) return false;
        *out = other != NULL;
        if (other && !value_compare_equal(machine, &a->pairs[i].value, other, out)) return false;
    }
    machine_leave(machine);
    return true;
}

static bool ranges_equal(const struct value_range *a, const struct value_range *b) {
    return a->count == b->count && (a->count == 0 || a->start == b->start) &&
           (a->count < 2 || a->step == b->step);
}

/* Returns -1, 0 or 1, or 2 if one is a NaN. A long double represents every 64-bit integer. */
static int compare_numbers(const struct value *a, const struct value *b) {
    if (value_is_whole(a) && value_is_whole(b)) {
        int64_t x = value_whole(a), y = value_whole(b);
        return x < y ? -1 : x > y;
    }
    long double x = a->kind == VALUE_REAL ? a->real : value_whole(a);
    long double y = b->kind == VALUE_REAL ? b->real : value_whole(b);
    return isnan(x) || isnan(y) ? 2 : x < y ? -1 : x > y;
}

bool value_compare_equal(struct jinja_machine *machine, const struct value *a,
                         const struct value *b, bool *out) {
    if (value_is_number(a) && value_is_number(b)) {
        *out = compare_numbers(a, b) == 0;
        return true;
    }
    *out = false;
    if (a->kind != b->kind) return true;
    switch (a->kind) {
    case VALUE_MISSING:
    case VALUE_UNDEFINED:
    case VALUE_NONE:
        *out = true;
        return true;
    case VALUE_TEXT:
        *out = value_text_equal(a->text, b->text);
        return a->text->count != b->text->count || machine_spend(machine, a->text->count / 64);
    case VALUE_LIST:
    case VALUE_TUPLE:
        return lists_equal(machine, a->list, b->list, out);
    case VALUE_DICT:
        return dicts_equal(machine, a->dict, b->dict, out);
    case VALUE_RANGE:
        *out = ranges_equal(a->range, b->range);
        return true;
    case VALUE_METHOD:
        *out = a->method->routine == b->method->routine &&
               a->method->subject.kind == b->method->subject.kind &&
               a->method->subject.list == b->method->subject.list;
        return true;
    default:
        *out = a->list == b->list && a->detail == b->detail;
        return true;
    }
}

/* ---- order ---- */

/* `order` is -1, 0 or 1, or 2 for unordered values, for which every comparison is false. */
static bool value_compare_holds(enum node_operation operation, int order) {
    switch (operation) {
    case OPERATION_LESS:
        return order < 0;
    case OPERATION_LESS_EQUAL:
        return order <= 0;
    case OPERATION_GREATER:
        return order == 1;
    default:
        return order == 0 || order == 1;
    }
}

static int compare_texts(const struct value_text *a, const struct value_text *b) {
    uint32_t count = a->count < b->count ? a->count : b->count;
    int order = count ? memcmp(a->data, b->data, count) : 0;
    if (order == 0) return a->count < b->count ? -1 : a->count > b->count;
    return order < 0 ? -1 : 1;
}

static bool value_compare_order(struct jinja_machine *machine, enum node_operation operation,
                                const struct value *a, const struct value *b, bool *out) {
    static const char *const operators[] = {[OPERATION_LESS] = "<",
                                            [OPERATION_LESS_EQUAL] = "<=",
                                            [OPERATION_GREATER] = ">",
                                            [OPERATION_GREATER_EQUAL] = ">="};
    if (value_is_number(a) && value_is_number(b)) {
        *out = value_compare_holds(operation, compare_numbers(a, b));
        return true;
    }
    if (a->kind == VALUE_TEXT && b->kind == VALUE_TEXT) {
        *out = value_compare_holds(operation, compare_texts(a->text, b->text));
        return machine_spend(machine, a->text->count / 64);
    }
    if (a->kind == b->kind && (a->kind == VALUE_LIST || a->kind == VALUE_TUPLE))
        return machine_fail(machine, "an order of lists is not supported");
    if (a->kind == VALUE_UNDEFINED) return value_complain(machine, a);
    if (b->kind == VALUE_UNDEFINED) return value_complain(machine, b);
    return machine_fail(machine, "'%s' not supported between instances of '%s' and '%s'",
                        operators[operation], value_type_name(a), value_type_name(b));
}

bool value_compare(struct jinja_machine *machine, enum node_operation operation,
                   const struct value *a, const struct value *b, bool *out) {
    bool negated = operation == OPERATION_UNEQUAL || operation == OPERATION_NOT_IN;
    bool contains = operation == OPERATION_IN || operation == OPERATION_NOT_IN;
    if (!negated && !contains && operation != OPERATION_EQUAL)
        return value_compare_order(machine, operation, a, b, out);
    if (!(contains ? value_compare_contains(machine, b, a, out)
                   : value_compare_equal(machine, a, b, out)))
        return false;
    *out = *out != negated;
    return true;
}

/* ---- in ---- */

static bool text_contains(struct jinja_machine *machine, const struct value_text *text,
                          const struct value *item, bool *out) {
    if (item->kind != VALUE_TEXT)
        return machine_fail(machine, "'in <string>' requires string as left operand, not %s",
                            value_type_name(item));
    if (!machine_spend(machine, text->count / 16)) return false;
    *out = bytes_contain(value_text_bytes(text), value_text_bytes(item->text));
    return true;
}

bool value_compare_contains(struct jinja_machine *machine, const struct value *container,
                            const struct value *item, bool *out) {
    struct value *found, candidate;
    struct iteration iteration;
    bool more;
    switch (container->kind) {
    case VALUE_TEXT:
        return text_contains(machine, container->text, item, out);
    case VALUE_DICT:
    case VALUE_VIEW:
        if (container->kind == VALUE_VIEW && container->detail != VALUE_VIEW_KEYS) break;
        if (!value_dict_find(machine, container->dict, item, &found)) return false;
        *out = found != NULL;
        return true;
    default:
        break;
    }
    if (!value_is_iterable(container))
        return machine_fail(machine, "argument of type '%s' is not iterable",
                            value_type_name(container));
    if (!value_access_iteration_open(machine, container, &iteration)) return false;
    *out = false;
    while (!*out) {
        if (!value_access_iteration_next(machine, &iteration, &candidate, &more)) return false;
        if (!more) break;
        if (!value_compare_equal(machine, &candidate, item, out)) return false;
    }
    return true;
}
