/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/jinja/values/item_filters.h"

#include "base/check.h"
#include "serving/jinja/values/item_path.h"
#include "serving/jinja/values/pieces.h"
#include "serving/jinja/values/routine.h"

/* ---- first, last, length ---- */

static bool item_filters_length(struct jinja_machine *machine, const struct call *call,
                                struct value *out) {
    int64_t count;
    if (!value_length(machine, &call->subject, &count)) return false;
    *out = value_integer(count);
    return true;
}

static bool first(struct jinja_machine *machine, const struct call *call, struct value *out) {
    struct iteration iteration;
    bool more = true;
    if (!value_access_iteration_open(machine, &call->subject, &iteration) ||
        !value_access_iteration_next(machine, &iteration, out, &more))
        return false;
    return more || value_make_undefined(machine, "No first item, sequence was empty.", out);
}

static bool is_reversible(const struct value *value) {
    switch (value->kind) {
    case VALUE_TEXT:
    case VALUE_LIST:
    case VALUE_TUPLE:
    case VALUE_DICT:
    case VALUE_VIEW:
    case VALUE_RANGE:
    case VALUE_UNDEFINED:
        return true;
    default:
        return false;
    }
}

static bool item_filters_last(struct jinja_machine *machine, const struct call *call,
                              struct value *out) {
    const struct value *subject = &call->subject;
    if (!is_reversible(subject)) return routine_refuse(machine, subject, "is not reversible");
    if (subject->kind == VALUE_TEXT && subject->text->count > 0) {
        size_t at = subject->text->count;
        (void)pieces_before(subject->text, &at);
        return value_make_part(machine, subject->text, at, subject->text->count - at, out);
    }
    struct value_list *list;
    if (!value_access_items(machine, subject, true, &list)) return false;
    if (list->count == 0)
        return value_make_undefined(machine, "No last item, sequence was empty.", out);
    *out = list->items[list->count - 1];
    return true;
}

static bool list(struct jinja_machine *machine, const struct call *call, struct value *out) {
    *out = (struct value){.kind = VALUE_LIST};
    return value_access_items(machine, &call->subject, false, &out->list);
}

static bool item_filters_join(struct jinja_machine *machine, const struct call *call,
                              struct value *out) {
    const struct value_text *mark = NULL;
    struct item_path path;
    struct iteration iteration;
    struct value item;
    struct text_builder builder;
    bool more = true;
    if (routine_given(call, 0) && !routine_plain(machine, &call->arguments[0], &mark)) return false;
    if (!item_path_open(machine, &call->arguments[1], &path) ||
        !value_access_iteration_open(machine, &call->subject, &iteration))
        return false;
    text_builder_open(&builder, machine);
    for (bool begun = false;; begun = true) {
        if (!machine_spend(machine, 1) ||
            !value_access_iteration_next(machine, &iteration, &item, &more))
            return false;
        if (!more) return text_builder_finish(&builder, false, out);
        if ((begun && mark && !text_builder_add_text(&builder, mark)) ||
            !item_path_follow(machine, &path, &item, &item) ||
            !value_print_add_value(&builder, &item))
            return false;
    }
}

/* ---- order ---- */

static bool item_filters_sort(struct jinja_machine *machine, const struct call *call,
                              struct value *out) {
    const struct value *by = &call->arguments[2];
    struct item_path path;
    bool reversed;
    if (by->kind == VALUE_TEXT && memchr(by->text->data, ',', by->text->count))
        return machine_fail(machine, "the filter sort by several attributes is not supported");
    if (!routine_switch(machine, call, 0, &reversed) || !item_path_open(machine, by, &path))
        return false;
    path.folded = !routine_flag(call, 1, false);
    return item_path_sort(machine, &call->subject, &path, reversed, out);
}

static bool dictsort(struct jinja_machine *machine, const struct call *call, struct value *out) {
    if (routine_given(call, 0) || routine_given(call, 1) || routine_given(call, 2))
        return machine_fail(machine, "arguments of the filter dictsort are not supported");
    struct value first_of_pair = value_integer(0), pairs = call->subject;
    struct item_path path;
    if (pairs.kind != VALUE_DICT)
        return routine_refuse(machine, &pairs, "has no attribute 'items'");
    pairs.kind = VALUE_VIEW;
    pairs.detail = VALUE_VIEW_ITEMS;
    if (!item_path_open(machine, &first_of_pair, &path)) return false;
    path.folded = true;
    return item_path_sort(machine, &pairs, &path, false, out);
}

/* min, max */
static bool extreme(struct jinja_machine *machine, const struct call *call, struct value *out) {
    struct item_path path;
    struct iteration iteration;
    struct value item, key, best_key;
    bool more = true, begun = false, better;
    enum node_operation operation =
        call->routine->name[1] == 'a' ? OPERATION_GREATER : OPERATION_LESS;
    if (!item_path_open(machine, &call->arguments[1], &path) ||
        !value_access_iteration_open(machine, &call->subject, &iteration))
        return false;
    path.folded = !routine_flag(call, 0, false);
    for (;; begun = true) {
        if (!machine_spend(machine, 1) ||
            !value_access_iteration_next(machine, &iteration, &item, &more))
            return false;
        if (!more) break;
        if (!item_path_follow(machine, &path, &item, &key)) return false;
        if (begun && !value_compare(machine, operation, &key, &best_key, &better)) return false;
        if (begun && !better) continue;
        best_key = key;
        *out = item;
    }
    return begun || value_make_undefined(machine, "No aggregated item, sequence was empty.", out);
}

static bool next_in_list(struct jinja_machine *machine, struct value_generator *generator,
                         struct value *out, bool *more) {
    return value_access_iteration_next(machine, &generator->source, out, more);
}

bool item_filters_once(struct jinja_machine *machine, struct value_list *list, struct value *out) {
    struct value_generator generator = {.next = next_in_list};
    generator.source.subject = (struct value){.kind = VALUE_LIST, .list = list};
    return value_make_generator(machine, &generator, out);
}

/* reverse: a text for a text, a generator for values that Python's reversed() accepts, else a
 * list. */
static bool reverse(struct jinja_machine *machine, const struct call *call, struct value *out) {
    const struct value *subject = &call->subject;
    if (subject->kind == VALUE_TEXT) {
        const struct value_text *text = subject->text;
        struct text_builder builder;
        text_builder_open(&builder, machine);
        if (!machine_spend(machine, text->count / 4)) return false;
        for (size_t end = text->count, at = end; at > 0; end = at) {
            (void)pieces_before(text, &at);
            if (!text_builder_add_part(&builder, text, at, end - at)) return false;
        }
        return text_builder_finish(&builder, text->markup, out);
    }
    struct value_list *items;
    if (!value_access_items(machine, subject, false, &items)) return false;
    for (uint32_t i = 0, j = items->count; i + 1 < j; i++) {
        struct value kept = items->items[i];
        items->items[i] = items->items[--j];
        items->items[j] = kept;
    }
    *out = (struct value){.kind = VALUE_LIST, .list = items};
    return !is_reversible(subject) || item_filters_once(machine, items, out);
}

/* ---- generators ---- */

static bool items(struct jinja_machine *machine, const struct call *call, struct value *out) {
    struct value pairs = call->subject;
    struct value_list *list;
    if (pairs.kind != VALUE_DICT && pairs.kind != VALUE_UNDEFINED)
        return machine_fail(machine, "Can only get item pairs from a mapping.");
    if (pairs.kind == VALUE_DICT) {
        pairs.kind = VALUE_VIEW;
        pairs.detail = VALUE_VIEW_ITEMS;
    }
    return value_access_items(machine, &pairs, true, &list) &&
           item_filters_once(machine, list, out);
}

static bool unique(struct jinja_machine *machine, const struct call *call, struct value *out) {
    struct item_path path;
    struct value_list *list;
    struct value kept, keys, key;
    uint32_t capacity = 8, key_capacity = 8;
    bool found;
    if (!item_path_open(machine, &call->arguments[1], &path) ||
        !value_access_items(machine, &call->subject, true, &list) ||
        !value_make_list(machine, VALUE_LIST, key_capacity, &keys) ||
        !value_make_list(machine, VALUE_LIST, capacity, &kept))
        return false;
    path.folded = !routine_flag(call, 0, false);
    for (uint32_t i = 0; i < list->count; i++) {
        if (!machine_spend(machine, 1) ||
            !item_path_follow(machine, &path, &list->items[i], &key) ||
            !value_compare_contains(machine, &keys, &key, &found))
            return false;
        if (!value_is_hashable(&key))
            return machine_fail(machine, "unhashable type: '%s'", value_type_name(&key));
        if (!found && (!value_list_push(machine, keys.list, &key_capacity, key) ||
                       !value_list_push(machine, kept.list, &capacity, list->items[i])))
            return false;
    }
    return item_filters_once(machine, kept.list, out);
}

static const struct routine rows[] = {
    {.name = "length", .run = item_filters_length, .nameless = true},
    {.name = "count", .run = item_filters_length, .nameless = true},
    {.name = "first", .run = first},
    {.name = "last", .run = item_filters_last},
    {.name = "join", .run = item_filters_join, .parameters = {"d", "attribute"}},
    {.name = "list", .run = list},
    {.name = "items", .run = items},
    {.name = "dictsort", .run = dictsort, .parameters = {"case_sensitive", "by", "reverse"}},
    {.name = "sort",
     .run = item_filters_sort,
     .parameters = {"reverse", "case_sensitive", "attribute"}},
    {.name = "unique", .run = unique, .parameters = {"case_sensitive", "attribute"}},
    {.name = "min", .run = extreme, .parameters = {"case_sensitive", "attribute"}},
    {.name = "max", .run = extreme, .parameters = {"case_sensitive", "attribute"}},
    {.name = "reverse", .run = reverse},
};

const struct routine *item_filters_find(struct bytes name) {
    return routine_find(rows, ARRAY_COUNT(rows), name);
}
