/* SPDX-License-Identifier: Apache-2.0
 * The methods of values other than texts, and which kind has which. What would change a list or a
 * dict is named here to be refused as the sandbox refuses it.
 */
#include "base/check.h"
#include "serving/jinja/routine.h"
#include "serving/jinja/text_methods.h"

#define UNSAFE(type, method)                                                                       \
    {                                                                                              \
        .name = method,                                                                            \
        .refused = "access to attribute '" method "' of '" type "' object is unsafe."              \
    }

/* ---- lists, tuples, ranges ---- */

/* index: of a list or a tuple in [start, stop), as slices have it */
static bool list_index(struct jinja_machine *machine, const struct call *call, struct value *out) {
    const struct value_list *list = call->subject.list;
    int64_t start, stop, count = list->count;
    if (!routine_integer(machine, call, 1, 0, &start) ||
        !routine_integer(machine, call, 2, INT64_MAX, &stop))
        return false;
    if (start < 0) start = start + count < 0 ? 0 : start + count;
    if (stop < 0) stop += count;
    for (int64_t i = start; i < stop && i < count; i++) {
        bool equal;
        if (!machine_spend(machine, 1) ||
            !value_compare_equal(machine, &list->items[i], &call->arguments[0], &equal))
            return false;
        *out = value_integer(i);
        if (equal) return true;
    }
    return machine_fail(machine, "ValueError: the item is not in the %s",
                        value_type_name(&call->subject));
}

static bool list_count(struct jinja_machine *machine, const struct call *call, struct value *out) {
    const struct value_list *list = call->subject.list;
    int64_t found = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        bool equal;
        if (!machine_spend(machine, 1) ||
            !value_compare_equal(machine, &list->items[i], &call->arguments[0], &equal))
            return false;
        found += equal;
    }
    *out = value_integer(found);
    return true;
}

static bool list_copy(struct jinja_machine *machine, const struct call *call, struct value *out) {
    *out = (struct value){.kind = VALUE_LIST};
    return value_access_items(machine, &call->subject, false, &out->list);
}

static bool range_index(struct jinja_machine *machine, const struct call *call, struct value *out) {
    const struct value_range *range = call->subject.range;
    const struct value *item = &call->arguments[0];
    bool has;
    if (!value_compare_contains(machine, &call->subject, item, &has)) return false;
    if (!has) return machine_fail(machine, "ValueError: the item is not in range");
    int64_t number = value_is_whole(item) ? value_whole(item) : (int64_t)value_number(item);
    *out = value_integer((number - range->start) / range->step);
    return true;
}

static bool range_count(struct jinja_machine *machine, const struct call *call, struct value *out) {
    bool has;
    if (!value_compare_contains(machine, &call->subject, &call->arguments[0], &has)) return false;
    *out = value_integer(has);
    return true;
}

/* ---- dicts ---- */

static bool dict_get(struct jinja_machine *machine, const struct call *call, struct value *out) {
    struct value *found = NULL;
    if (!value_dict_find(machine, call->subject.dict, &call->arguments[0], &found)) return false;
    *out = found ? *found : routine_given(call, 1) ? call->arguments[1] : value_none();
    return true;
}

/* keys, values, items */
static bool dict_view(struct jinja_machine *machine, const struct call *call, struct value *out) {
    (void)machine;
    char name = call->routine->name[0];
    *out = (struct value){.kind = VALUE_VIEW,
                          .detail = name == 'k'   ? VALUE_VIEW_KEYS
                                    : name == 'v' ? VALUE_VIEW_VALUES
                                                  : VALUE_VIEW_ITEMS,
                          .dict = call->subject.dict};
    return true;
}

static bool dict_copy(struct jinja_machine *machine, const struct call *call, struct value *out) {
    const struct value_dict *dict = call->subject.dict;
    if (!value_make_dict(machine, out)) return false;
    for (uint32_t i = 0; i < dict->count; i++)
        if (!machine_spend(machine, 1) ||
            !value_dict_set(machine, out->dict, dict->pairs[i].key, dict->pairs[i].value))
            return false;
    return true;
}

/* ---- numbers ---- */

static uint64_t magnitude(const struct value *number) {
    int64_t whole = value_whole(number);
    return whole < 0 ? 0 - (uint64_t)whole : (uint64_t)whole;
}

static bool bit_length(struct jinja_machine *machine, const struct call *call, struct value *out) {
    (void)machine;
    int64_t bits = 0;
    for (uint64_t left = magnitude(&call->subject); left > 0; left >>= 1)
        bits++;
    *out = value_integer(bits);
    return true;
}

static bool bit_count(struct jinja_machine *machine, const struct call *call, struct value *out) {
    (void)machine;
    int64_t bits = 0;
    for (uint64_t left = magnitude(&call->subject); left > 0; left &= left - 1)
        bits++;
    *out = value_integer(bits);
    return true;
}

static bool conjugate(struct jinja_machine *machine, const struct call *call, struct value *out) {
    (void)machine;
    *out = call->subject.kind == VALUE_BOOL ? value_integer(call->subject.truth) : call->subject;
    return true;
}

static bool as_integer_ratio(struct jinja_machine *machine, const struct call *call,
                             struct value *out) {
    if (!value_make_list(machine, VALUE_TUPLE, 2, out)) return false;
    out->list->items[0] = value_integer(value_whole(&call->subject));
    out->list->items[1] = value_integer(1);
    out->list->count = 2;
    return true;
}

static bool is_integer(struct jinja_machine *machine, const struct call *call, struct value *out) {
    (void)machine;
    double real = call->subject.real;
    /* A real number of 2^53 or more has no fraction. */
    bool large = real >= 9007199254740992.0 || real <= -9007199254740992.0;
    bool finite = real - real == 0;
    return routine_answer(out, finite && (large || (double)(int64_t)real == real));
}

/* ---- cyclers ---- */

static bool cycler_next(struct jinja_machine *machine, const struct call *call, struct value *out) {
    (void)machine;
    struct value_cycler *cycler = call->subject.cycler;
    *out = cycler->items[cycler->place];
    cycler->place = (cycler->place + 1) % cycler->count;
    return true;
}

static bool cycler_reset(struct jinja_machine *machine, const struct call *call,
                         struct value *out) {
    (void)machine;
    call->subject.cycler->place = 0;
    *out = value_none();
    return true;
}

static const struct routine list_rows[] = {
    {.name = "index",
     .run = list_index,
     .parameters = {"value", "start", "stop"},
     .required = 1,
     .nameless = true},
    {.name = "count", .run = list_count, .parameters = {"value"}, .required = 1, .nameless = true},
    {.name = "copy", .run = list_copy},
    UNSAFE("list", "append"),
    UNSAFE("list", "clear"),
    UNSAFE("list", "extend"),
    UNSAFE("list", "insert"),
    UNSAFE("list", "pop"),
    UNSAFE("list", "remove"),
    UNSAFE("list", "reverse"),
    UNSAFE("list", "sort"),
};

#define TUPLE_ROWS 2 /* the first ones of a list's */

static const struct routine range_rows[] = {
    {.name = "index", .run = range_index, .parameters = {"value"}, .required = 1, .nameless = true},
    {.name = "count", .run = range_count, .parameters = {"value"}, .required = 1, .nameless = true},
};

static const struct routine dict_rows[] = {
    {.name = "get",
     .run = dict_get,
     .parameters = {"key", "default"},
     .required = 1,
     .nameless = true},
    {.name = "items", .run = dict_view},
    {.name = "keys", .run = dict_view},
    {.name = "values", .run = dict_view},
    {.name = "copy", .run = dict_copy},
    {.name = "fromkeys", .refused = "dict.fromkeys() is not supported"},
    UNSAFE("dict", "clear"),
    UNSAFE("dict", "pop"),
    UNSAFE("dict", "popitem"),
    UNSAFE("dict", "setdefault"),
    UNSAFE("dict", "update"),
};

static const struct routine integer_rows[] = {
    {.name = "bit_length", .run = bit_length},
    {.name = "bit_count", .run = bit_count},
    {.name = "conjugate", .run = conjugate},
    {.name = "as_integer_ratio", .run = as_integer_ratio},
    {.name = "to_bytes", .refused = "int.to_bytes() is not supported: templates write text"},
    {.name = "from_bytes", .refused = "int.from_bytes() is not supported"},
};

static const struct routine real_rows[] = {
    {.name = "is_integer", .run = is_integer},
    {.name = "conjugate", .run = conjugate},
    {.name = "as_integer_ratio", .refused = "float.as_integer_ratio() is not supported"},
    {.name = "hex", .refused = "float.hex() is not supported"},
    {.name = "fromhex", .refused = "float.fromhex() is not supported"},
};

static const struct routine cycler_rows[] = {
    {.name = "next", .run = cycler_next},
    {.name = "reset", .run = cycler_reset},
};

const struct routine *methods_find(enum value_kind kind, struct bytes name) {
    switch (kind) {
    case VALUE_TEXT:
        return text_methods_find(name);
    case VALUE_LIST:
        return routine_find(list_rows, ARRAY_COUNT(list_rows), name);
    case VALUE_TUPLE:
        return routine_find(list_rows, TUPLE_ROWS, name);
    case VALUE_RANGE:
        return routine_find(range_rows, ARRAY_COUNT(range_rows), name);
    case VALUE_DICT:
        return routine_find(dict_rows, ARRAY_COUNT(dict_rows), name);
    case VALUE_BOOL:
    case VALUE_INTEGER:
        return routine_find(integer_rows, ARRAY_COUNT(integer_rows), name);
    case VALUE_REAL:
        return routine_find(real_rows, ARRAY_COUNT(real_rows), name);
    case VALUE_CYCLER:
        return routine_find(cycler_rows, ARRAY_COUNT(cycler_rows), name);
    default:
        return NULL;
    }
}
