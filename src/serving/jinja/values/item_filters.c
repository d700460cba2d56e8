/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/jinja/values/item_filters.h"

#include "base/check.h"
#include "serving/jinja/values/item_path.h"
#include "serving/jinja/values/pieces.h"
#include "serving/jinja/values/routine.h"

/* ---- the ends, the length, the sum ---- */

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

static bool sum(struct jinja_machine *machine, const struct call *call, struct value *out) {
    struct item_path path;
    struct iteration iteration;
    struct value item, total = routine_given(call, 1) ? call->arguments[1] : value_integer(0);
    bool more = true;
    if (total.kind == VALUE_TEXT)
        return machine_fail(machine, "sum() can't sum strings [use ''.join(seq) instead]");
    if (!item_path_open(machine, &call->arguments[0], &path) ||
        !value_access_iteration_open(machine, &call->subject, &iteration))
        return false;
    for (;;) {
        if (!machine_spend(machine, 1) ||
            !value_access_iteration_next(machine, &iteration, &item, &more))
            return false;
        if (!more) break;
        struct value before = total;
        if (!item_path_follow(machine, &path, &item, &item) ||
            !value_operate_arithmetic(machine, "+", &before, &item, &total))
            return false;
    }
    *out = total;
    return true;
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

static bool to_list(struct jinja_machine *machine, const struct item_keyed *items, uint32_t count,
                    struct value *out) {
    if (!value_make_list(machine, VALUE_LIST, count, out)) return false;
    for (uint32_t i = 0; i < count; i++)
        out->list->items[i] = items[i].item;
    out->list->count = count;
    return true;
}

static bool item_filters_sort(struct jinja_machine *machine, const struct call *call,
                              struct value *out) {
    struct item_path path;
    struct item_keyed *items;
    const struct value *by = &call->arguments[2];
    uint32_t count;
    bool reversed;
    if (by->kind == VALUE_TEXT && memchr(by->text->data, ',', by->text->count))
        return machine_fail(machine, "the filter sort by several attributes is not supported");
    if (!routine_switch(machine, call, 0, &reversed) || !item_path_open(machine, by, &path))
        return false;
    path.folded = !routine_flag(call, 1, false);
    return item_path_keyed(machine, &call->subject, &path, &items, &count) &&
           item_path_sort(machine, items, count, (struct item_order){true, reversed}) &&
           to_list(machine, items, count, out);
}

static bool item_filters_is_word(const struct value *value, const char *word) {
    return value->kind == VALUE_TEXT && bytes_equal(value_text_bytes(value->text), bytes_of(word));
}

static bool dictsort(struct jinja_machine *machine, const struct call *call, struct value *out) {
    const struct value *by = &call->arguments[1];
    struct value which = value_integer(0), pairs = call->subject;
    struct item_path path;
    struct item_keyed *items;
    uint32_t count;
    bool reversed;
    if (!routine_switch(machine, call, 2, &reversed)) return false;
    if (item_filters_is_word(by, "value"))
        which = value_integer(1);
    else if (by->kind != VALUE_MISSING && !item_filters_is_word(by, "key"))
        return machine_fail(machine, "You can only sort by either \"key\" or \"value\"");
    if (pairs.kind != VALUE_DICT)
        return routine_refuse(machine, &pairs, "has no attribute 'items'");
    pairs.kind = VALUE_VIEW;
    pairs.detail = VALUE_VIEW_ITEMS;
    if (!item_path_open(machine, &which, &path)) return false;
    path.folded = !routine_flag(call, 0, false);
    return item_path_keyed(machine, &pairs, &path, &items, &count) &&
           item_path_sort(machine, items, count, (struct item_order){false, reversed}) &&
           to_list(machine, items, count, out);
}

/* min, max */
static bool extreme(struct jinja_machine *machine, const struct call *call, struct value *out) {
    struct item_path path;
    struct iteration iteration;
    struct value item, key, best_key;
    bool more = true, begun = false, better;
    const char *operator= call->routine->name[1] == 'a' ? ">" : "<";
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
        if (begun && !value_compare(machine, operator, & key, &best_key, &better)) return false;
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

/* The items of a list, which Python makes one by one: they can be walked over once. */
static bool once(struct jinja_machine *machine, struct value_list *list, struct value *out) {
    struct value_generator generator = {.next = next_in_list};
    generator.source.subject = (struct value){.kind = VALUE_LIST, .list = list};
    return value_make_generator(machine, &generator, out);
}

/* A text backwards; the items of what Python can go through backwards, one by one; a list of the
 * others. */
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
    return !is_reversible(subject) || once(machine, items, out);
}

/* ---- groups ---- */

static bool add_group(struct jinja_machine *machine, const struct item_keyed *items, uint32_t count,
                      const struct item_path *path, struct value *out) {
    struct value members;
    if (!to_list(machine, items, count, &members) || !value_make_list(machine, VALUE_TUPLE, 2, out))
        return false;
    out->list->count = 2;
    out->list->group = true;
    out->list->items[1] = members;
    return item_path_follow(machine, path, &items[0].item, &out->list->items[0]);
}

static bool groupby(struct jinja_machine *machine, const struct call *call, struct value *out) {
    struct item_path path;
    struct item_keyed *items;
    uint32_t count, capacity = 8;
    if (!item_path_open(machine, &call->arguments[0], &path)) return false;
    if (routine_reported(call, 1)) path.otherwise = &call->arguments[1];
    path.folded = !routine_flag(call, 2, false);
    if (!item_path_keyed(machine, &call->subject, &path, &items, &count) ||
        !item_path_sort(machine, items, count, (struct item_order){false, false}) ||
        !value_make_list(machine, VALUE_LIST, capacity, out))
        return false;
    path.folded = false;
    for (uint32_t start = 0, end; start < count; start = end) {
        bool equal = true;
        struct value group;
        for (end = start + 1; end < count; end++) {
            if (!value_compare_equal(machine, &items[start].key, &items[end].key, &equal))
                return false;
            if (!equal) break;
        }
        if (!add_group(machine, items + start, end - start, &path, &group) ||
            !value_list_push(machine, out->list, &capacity, group))
            return false;
    }
    return true;
}

/* ---- items that are made one by one in Python ---- */

static bool batch(struct jinja_machine *machine, const struct call *call, struct value *out) {
    struct value_list *items;
    struct value all, part = {.kind = VALUE_NONE};
    int64_t size;
    uint32_t capacity = 8;
    if (!value_access_items(machine, &call->subject, true, &items) ||
        !routine_integer(machine, call, 0, 0, &size) ||
        !value_make_list(machine, VALUE_LIST, capacity, &all))
        return false;
    if (size < 1) return machine_fail(machine, "a batch of less than one item is not supported");
    for (uint32_t i = 0; i < items->count; i++) {
        if (i % size == 0 &&
            (!value_make_list(machine, VALUE_LIST,
                              (size_t)(size < items->count ? size : items->count), &part) ||
             !value_list_push(machine, all.list, &capacity, part)))
            return false;
        part.list->items[part.list->count++] = items->items[i];
    }
    uint32_t room = items->count;
    while (items->count && routine_reported(call, 1) && part.list->count < size)
        if (!machine_spend(machine, 1) ||
            !value_list_push(machine, part.list, &room, call->arguments[1]))
            return false;
    return once(machine, all.list, out);
}

static bool slice(struct jinja_machine *machine, const struct call *call, struct value *out) {
    struct value_list *items;
    struct value all, part;
    int64_t slices, start = 0;
    uint32_t capacity = 8;
    if (!value_access_items(machine, &call->subject, true, &items) ||
        !routine_integer(machine, call, 0, 0, &slices) ||
        !value_make_list(machine, VALUE_LIST, capacity, &all))
        return false;
    if (slices == 0) return machine_fail(machine, "integer division or modulo by zero");
    for (int64_t place = 0; place < slices; place++) {
        int64_t size = items->count / slices + (place < items->count % slices);
        if (!machine_spend(machine, 1) ||
            !value_make_list(machine, VALUE_LIST, (size_t)size + 1, &part) ||
            !value_list_push(machine, all.list, &capacity, part))
            return false;
        if (size) memcpy(part.list->items, items->items + start, (size_t)size * sizeof part);
        part.list->count = (uint32_t)size;
        if (routine_reported(call, 1) && place >= items->count % slices)
            part.list->items[part.list->count++] = call->arguments[1];
        start += size;
    }
    return once(machine, all.list, out);
}

static bool items(struct jinja_machine *machine, const struct call *call, struct value *out) {
    struct value pairs = call->subject;
    struct value_list *list;
    if (pairs.kind != VALUE_DICT && pairs.kind != VALUE_UNDEFINED)
        return machine_fail(machine, "Can only get item pairs from a mapping.");
    if (pairs.kind == VALUE_DICT) {
        pairs.kind = VALUE_VIEW;
        pairs.detail = VALUE_VIEW_ITEMS;
    }
    return value_access_items(machine, &pairs, true, &list) && once(machine, list, out);
}

static bool unique(struct jinja_machine *machine, const struct call *call, struct value *out) {
    struct item_path path;
    struct value_list *list;
    struct value kept, seen, key, *found;
    uint32_t capacity = 8;
    if (!item_path_open(machine, &call->arguments[1], &path) ||
        !value_access_items(machine, &call->subject, true, &list) ||
        !value_make_dict(machine, &seen) || !value_make_list(machine, VALUE_LIST, capacity, &kept))
        return false;
    path.folded = !routine_flag(call, 0, false);
    for (uint32_t i = 0; i < list->count; i++) {
        if (!machine_spend(machine, 1) ||
            !item_path_follow(machine, &path, &list->items[i], &key) ||
            !value_dict_find(machine, seen.dict, &key, &found))
            return false;
        if (!found && (!value_dict_set(machine, seen.dict, key, value_none()) ||
                       !value_list_push(machine, kept.list, &capacity, list->items[i])))
            return false;
    }
    return once(machine, kept.list, out);
}

/* The items, as `if value:` finds them: nothing is none. */
static bool items_or_none(struct jinja_machine *machine, const struct value *value,
                          struct value_list **out) {
    struct value nothing;
    if (value_truth(value)) return value_access_items(machine, value, true, out);
    if (!value_make_list(machine, VALUE_LIST, 0, &nothing)) return false;
    *out = nothing.list;
    return true;
}

/* The operation of map and select on each item: the named routine and its further arguments. */
struct step {
    const struct call *call;
    struct item_path path;
    const struct routine *routine; /* NULL: none */
    uint32_t first;                /* of its arguments */
};

static bool step_find(struct jinja_machine *machine, struct step *step, uint32_t which, bool test) {
    const struct value *name = &step->call->rest[which];
    struct bytes text = {"", 0};
    if (name->kind == VALUE_TEXT) text = value_text_bytes(name->text);
    step->routine = text.count == 0 ? NULL : test ? tests_find(text) : filters_find(text);
    step->first = which + 1;
    return step->routine || machine_fail(machine, "No %s named '%.*s'.", test ? "test" : "filter",
                                         (int)(text.count < 80 ? text.count : 80), text.data);
}

static bool step_run(struct jinja_machine *machine, const struct step *step,
                     const struct value *item, struct value *out) {
    struct value subject;
    const struct call *call = step->call;
    if (!machine_spend(machine, 1) || !item_path_follow(machine, &step->path, item, &subject))
        return false;
    *out = subject;
    return !step->routine ||
           routine_call(machine, step->routine, &subject, call->rest + step->first,
                        call->rest_count - step->first, call->named, call->named_count, out);
}

static bool step_of_map(struct jinja_machine *machine, const struct call *call, struct step *out) {
    const struct value *attribute = NULL;
    *out = (struct step){.call = call};
    if (call->rest_count > 0) return step_find(machine, out, 0, false);
    for (uint32_t i = 0; i < call->named_count; i++)
        if (item_filters_is_word(&call->named[i].name, "attribute"))
            attribute = &call->named[i].value;
    if (!attribute) return machine_fail(machine, "map requires a filter argument");
    if (!item_path_open(machine, attribute, &out->path)) return false;
    for (uint32_t i = 0; i < call->named_count; i++) {
        const struct named_value *other = &call->named[i];
        if (item_filters_is_word(&other->name, "default"))
            out->path.otherwise = other->value.kind == VALUE_NONE ? NULL : &other->value;
        else if (&other->value != attribute)
            return machine_fail(machine, "Unexpected keyword argument '%.*s'",
                                (int)(other->name.text->count < 80 ? other->name.text->count : 80),
                                other->name.text->data);
    }
    return true;
}

static bool item_filters_map(struct jinja_machine *machine, const struct call *call,
                             struct value *out) {
    struct step step;
    struct value_list *list;
    struct value mapped;
    if (!items_or_none(machine, &call->subject, &list)) return false;
    if (list->count == 0) return once(machine, list, out);
    if (!step_of_map(machine, call, &step) ||
        !value_make_list(machine, VALUE_LIST, list->count, &mapped))
        return false;
    for (uint32_t i = 0; i < list->count; i++)
        if (!step_run(machine, &step, &list->items[i], &mapped.list->items[mapped.list->count++]))
            return false;
    return once(machine, mapped.list, out);
}

/* select, reject, selectattr, rejectattr */
static bool select(struct jinja_machine *machine, const struct call *call, struct value *out) {
    const char *name = call->routine->name;
    bool wanted = name[0] == 's', by_attribute = name[6] != '\0';
    struct step step = {.call = call};
    struct value_list *list;
    struct value kept, answer;
    uint32_t capacity = 8;
    if (!items_or_none(machine, &call->subject, &list)) return false;
    if (list->count == 0) return once(machine, list, out);
    if (by_attribute && call->rest_count == 0)
        return machine_fail(machine, "Missing parameter for attribute name");
    if ((by_attribute && !item_path_open(machine, &call->rest[0], &step.path)) ||
        (call->rest_count > by_attribute && !step_find(machine, &step, by_attribute, true)) ||
        !value_make_list(machine, VALUE_LIST, capacity, &kept))
        return false;
    for (uint32_t i = 0; i < list->count; i++)
        if (!step_run(machine, &step, &list->items[i], &answer) ||
            (value_truth(&answer) == wanted &&
             !value_list_push(machine, kept.list, &capacity, list->items[i])))
            return false;
    return once(machine, kept.list, out);
}

static const struct routine rows[] = {
    {.name = "length", .run = item_filters_length, .nameless = true},
    {.name = "count", .run = item_filters_length, .nameless = true},
    {.name = "first", .run = first},
    {.name = "last", .run = item_filters_last},
    {.name = "join", .run = item_filters_join, .parameters = {"d", "attribute"}},
    {.name = "list", .run = list},
    {.name = "map", .run = item_filters_map, .rest = true, .named = true},
    {.name = "select", .run = select, .rest = true, .named = true},
    {.name = "reject", .run = select, .rest = true, .named = true},
    {.name = "selectattr", .run = select, .rest = true, .named = true},
    {.name = "rejectattr", .run = select, .rest = true, .named = true},
    {.name = "items", .run = items},
    {.name = "dictsort", .run = dictsort, .parameters = {"case_sensitive", "by", "reverse"}},
    {.name = "sort",
     .run = item_filters_sort,
     .parameters = {"reverse", "case_sensitive", "attribute"}},
    {.name = "unique", .run = unique, .parameters = {"case_sensitive", "attribute"}},
    {.name = "min", .run = extreme, .parameters = {"case_sensitive", "attribute"}},
    {.name = "max", .run = extreme, .parameters = {"case_sensitive", "attribute"}},
    {.name = "reverse", .run = reverse},
    {.name = "sum", .run = sum, .parameters = {"attribute", "start"}},
    {.name = "batch", .run = batch, .parameters = {"linecount", "fill_with"}, .required = 1},
    {.name = "slice", .run = slice, .parameters = {"slices", "fill_with"}, .required = 1},
    {.name = "groupby",
     .run = groupby,
     .parameters = {"attribute", "default", "case_sensitive"},
     .required = 1},
    {.name = "random",
     .refused = "the filter random is not supported: a prompt must be the same each time"},
};

const struct routine *item_filters_find(struct bytes name) {
    return routine_find(rows, ARRAY_COUNT(rows), name);
}
