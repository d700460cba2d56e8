/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/jinja/item_filters.h"

#include "base/check.h"
#include "serving/jinja/item_path.h"
#include "serving/jinja/pieces.h"
#include "serving/jinja/routine.h"

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
    jinja_machine_text_builder_open(&builder, machine);
    for (bool begun = false;; begun = true) {
        if (!machine_spend(machine, 1) ||
            !value_access_iteration_next(machine, &iteration, &item, &more))
            return false;
        if (!more) return jinja_machine_text_builder_finish(&builder, false, out);
        if ((begun && mark && !jinja_machine_text_builder_add_text(&builder, mark)) ||
            !item_path_follow(machine, &path, &item, &item) ||
            !value_print_text_builder_add_value(&builder, &item))
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
    struct item_path *paths;
    struct item_keyed *items;
    uint32_t path_count, count;
    bool reversed;
    if (!routine_switch(machine, call, 0, &reversed) ||
        !item_path_open_several(machine, &call->arguments[2], &paths, &path_count))
        return false;
    for (uint32_t i = 0; i < path_count; i++)
        paths[i].folded = !routine_flag(call, 1, false);
    return item_path_keyed(machine, &call->subject, paths, path_count, &items, &count) &&
           item_path_sort(machine, items, count, (struct item_order){path_count, true, reversed}) &&
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
    return item_path_keyed(machine, &pairs, &path, 1, &items, &count) &&
           item_path_sort(machine, items, count, (struct item_order){1, false, reversed}) &&
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

static bool next_from_end(struct jinja_machine *machine, struct value_generator *generator,
                          struct value *out, bool *more) {
    struct value_list *list = generator->state;
    (void)machine;
    *more = list->count > 0;
    if (*more) *out = list->items[--list->count];
    return true;
}

/* A text backwards; the items of what Python can go through backwards, one by one; a list of the
 * others. */
static bool reverse(struct jinja_machine *machine, const struct call *call, struct value *out) {
    const struct value *subject = &call->subject;
    if (subject->kind == VALUE_TEXT) {
        const struct value_text *text = subject->text;
        struct text_builder builder;
        jinja_machine_text_builder_open(&builder, machine);
        if (!machine_spend(machine, text->count / 4)) return false;
        for (size_t end = text->count, at = end; at > 0; end = at) {
            (void)pieces_before(text, &at);
            if (!jinja_machine_text_builder_add_part(&builder, text, at, end - at)) return false;
        }
        return jinja_machine_text_builder_finish(&builder, text->markup, out);
    }
    struct value_list *items;
    if (!value_access_items(machine, subject, false, &items)) return false;
    if (is_reversible(subject))
        return value_make_generator(
            machine, &(struct value_generator){.next = next_from_end, .state = items}, out);
    for (uint32_t i = 0, j = items->count; i + 1 < j; i++) {
        struct value kept = items->items[i];
        items->items[i] = items->items[--j];
        items->items[j] = kept;
    }
    *out = (struct value){.kind = VALUE_LIST, .list = items};
    return true;
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
    if (!item_path_keyed(machine, &call->subject, &path, 1, &items, &count) ||
        !item_path_sort(machine, items, count, (struct item_order){1, false, false}) ||
        !value_make_list(machine, VALUE_LIST, capacity, out))
        return false;
    path.folded = false;
    for (uint32_t start = 0, end; start < count; start = end) {
        bool equal = true;
        struct value group;
        for (end = start + 1; end < count; end++) {
            if (!value_compare_equal(machine, &items[start].keys[0], &items[end].keys[0], &equal))
                return false;
            if (!equal) break;
        }
        if (!add_group(machine, items + start, end - start, &path, &group) ||
            !value_list_push(machine, out->list, &capacity, group))
            return false;
    }
    return true;
}

/* ---- generators ---- */

/* A filter's call, which its generator outlives, and how far that is. */
struct kept {
    struct call call;
    bool begun, ended;
    struct item_path path;
    const struct routine *routine; /* what is done to each item; NULL: nothing */
    const struct value *rest;      /* its arguments */
    uint32_t rest_count;
    uint32_t capacity; /* of the list under way */
    int64_t place;     /* slices so far */
    struct value_list *items;
    struct value_dict *seen;
};

typedef bool (*next_item)(struct jinja_machine *machine, struct value_generator *generator,
                          struct value *out, bool *more);

static bool make_lazy(struct jinja_machine *machine, const struct call *call, next_item next,
                      struct value *out) {
    struct kept *kept = machine_take(machine, sizeof *kept);
    struct value *rest = machine_take(machine, call->rest_count * sizeof *rest + 1);
    struct named_value *named = machine_take(machine, call->named_count * sizeof *named + 1);
    if (!kept || !rest || !named) return false;
    *kept = (struct kept){.call = *call};
    for (uint32_t i = 0; i < call->rest_count; i++)
        rest[i] = call->rest[i];
    for (uint32_t i = 0; i < call->named_count; i++)
        named[i] = call->named[i];
    kept->call.rest = rest;
    kept->call.named = named;
    return value_make_generator(machine, &(struct value_generator){.next = next, .state = kept},
                                out);
}

/* The end of a generator. */
static bool end(struct kept *kept, bool *more) {
    kept->ended = true;
    *more = false;
    return true;
}

/* Opens the subject once; *empty: there is nothing to walk over, as `if value:` finds. */
static bool begin(struct jinja_machine *machine, struct value_generator *generator, bool *empty) {
    struct kept *kept = generator->state;
    *empty = kept->ended;
    if (kept->begun || kept->ended) return true;
    kept->begun = true;
    *empty = !value_truth(&kept->call.subject);
    return *empty || value_access_iteration_open(machine, &kept->call.subject, &generator->source);
}

static bool new_list(struct jinja_machine *machine, struct kept *kept) {
    struct value list;
    kept->capacity = 8;
    if (!value_make_list(machine, VALUE_LIST, kept->capacity, &list)) return false;
    kept->items = list.list;
    return true;
}

/* Fills the last batch, and it is the end. */
static bool end_batches(struct jinja_machine *machine, struct kept *kept, struct value *out,
                        bool *more) {
    struct value wanted = kept->call.arguments[0], count = value_integer(kept->items->count);
    bool less = false;
    (void)end(kept, more);
    if (kept->items->count == 0) return true;
    if (routine_reported(&kept->call, 1) && !value_compare(machine, "<", &count, &wanted, &less))
        return false;
    if (less && !value_is_whole(&wanted))
        return machine_fail(machine, "can't multiply sequence by non-int of type '%s'",
                            value_type_name(&wanted));
    while (less && kept->items->count < value_whole(&wanted))
        if (!machine_spend(machine, 1) ||
            !value_list_push(machine, kept->items, &kept->capacity, kept->call.arguments[1]))
            return false;
    *out = (struct value){.kind = VALUE_LIST, .list = kept->items};
    return *more = true;
}

static bool next_batch(struct jinja_machine *machine, struct value_generator *generator,
                       struct value *out, bool *more) {
    struct kept *kept = generator->state;
    struct value item;
    if (kept->ended) return end(kept, more);
    if (!kept->begun &&
        !(new_list(machine, kept) &&
          value_access_iteration_open(machine, &kept->call.subject, &generator->source)))
        return false;
    kept->begun = true;
    for (bool full = false; !full;) {
        if (!machine_spend(machine, 1) ||
            !value_access_iteration_next(machine, &generator->source, &item, more))
            return false;
        if (!*more) return end_batches(machine, kept, out, more);
        struct value count = value_integer(kept->items->count);
        if (!value_compare_equal(machine, &count, &kept->call.arguments[0], &full)) return false;
        *out = (struct value){.kind = VALUE_LIST, .list = kept->items};
        if ((full && !new_list(machine, kept)) ||
            !value_list_push(machine, kept->items, &kept->capacity, item))
            return false;
    }
    return true;
}

static bool batch(struct jinja_machine *machine, const struct call *call, struct value *out) {
    return make_lazy(machine, call, next_batch, out);
}

static bool next_slice(struct jinja_machine *machine, struct value_generator *generator,
                       struct value *out, bool *more) {
    struct kept *kept = generator->state;
    int64_t slices;
    if (!kept->begun && !value_access_items(machine, &kept->call.subject, true, &kept->items))
        return false;
    kept->begun = true;
    if (!routine_integer(machine, &kept->call, 0, 0, &slices)) return false;
    if (slices == 0) return machine_fail(machine, "integer division or modulo by zero");
    int64_t place = kept->place++, count = kept->items->count;
    if (place >= slices) return end(kept, more);
    int64_t each = count / slices, extra = count % slices;
    int64_t start = place * each + (place < extra ? place : extra);
    int64_t size = each + (place < extra);
    if (!machine_spend(machine, 1 + (uint64_t)size) ||
        !value_make_list(machine, VALUE_LIST, (size_t)size + 1, out))
        return false;
    for (int64_t i = 0; i < size; i++)
        out->list->items[i] = kept->items->items[start + i];
    out->list->count = (uint32_t)size;
    if (routine_reported(&kept->call, 1) && place >= extra)
        out->list->items[out->list->count++] = kept->call.arguments[1];
    return *more = true;
}

static bool slice(struct jinja_machine *machine, const struct call *call, struct value *out) {
    return make_lazy(machine, call, next_slice, out);
}

static bool next_pair(struct jinja_machine *machine, struct value_generator *generator,
                      struct value *out, bool *more) {
    struct kept *kept = generator->state;
    struct value subject = kept->call.subject;
    if (subject.kind == VALUE_UNDEFINED) return end(kept, more);
    if (subject.kind != VALUE_DICT)
        return machine_fail(machine, "Can only get item pairs from a mapping.");
    subject.kind = VALUE_VIEW;
    subject.detail = VALUE_VIEW_ITEMS;
    if (!kept->begun && !value_access_iteration_open(machine, &subject, &generator->source))
        return false;
    kept->begun = true;
    return value_access_iteration_next(machine, &generator->source, out, more);
}

static bool items(struct jinja_machine *machine, const struct call *call, struct value *out) {
    return make_lazy(machine, call, next_pair, out);
}

static bool next_unique(struct jinja_machine *machine, struct value_generator *generator,
                        struct value *out, bool *more) {
    struct kept *kept = generator->state;
    struct value key, dict, *found = NULL;
    if (!kept->begun) {
        if (!item_path_open(machine, &kept->call.arguments[1], &kept->path) ||
            !value_make_dict(machine, &dict) ||
            !value_access_iteration_open(machine, &kept->call.subject, &generator->source))
            return false;
        kept->path.folded = !routine_flag(&kept->call, 0, false);
        kept->seen = dict.dict;
        kept->begun = true;
    }
    do {
        if (!machine_spend(machine, 1) ||
            !value_access_iteration_next(machine, &generator->source, out, more))
            return false;
        if (!*more) return true;
        if (!item_path_follow(machine, &kept->path, out, &key) ||
            !value_dict_find(machine, kept->seen, &key, &found))
            return false;
    } while (found);
    return value_dict_set(machine, kept->seen, key, value_none());
}

static bool unique(struct jinja_machine *machine, const struct call *call, struct value *out) {
    return make_lazy(machine, call, next_unique, out);
}

/* The row that an argument names: a filter's for map, a test's for select. */
static bool item_filters_find_named(struct jinja_machine *machine, struct kept *kept,
                                    uint32_t which, bool test) {
    const struct value *name = &kept->call.rest[which];
    struct bytes text = {NULL, 0};
    if (name->kind == VALUE_TEXT) text = value_text_bytes(name->text);
    kept->routine = text.count == 0 ? NULL : test ? tests_find(text) : filters_find(text);
    if (!kept->routine)
        return machine_fail(machine, "No %s named '%.*s'.", test ? "test" : "filter",
                            (int)(text.count < 80 ? text.count : 80), text.data ? text.data : "");
    kept->rest = kept->call.rest + which + 1;
    kept->rest_count = kept->call.rest_count - which - 1;
    return true;
}

static bool prepare_map(struct jinja_machine *machine, struct kept *kept) {
    const struct call *call = &kept->call;
    const struct value *attribute = NULL, *otherwise = NULL;
    const struct named_value *other = NULL;
    for (uint32_t i = 0; i < call->named_count; i++) {
        if (item_filters_is_word(&call->named[i].name, "attribute"))
            attribute = &call->named[i].value;
        else if (item_filters_is_word(&call->named[i].name, "default"))
            otherwise = &call->named[i].value;
        else
            other = &call->named[i];
    }
    if (call->rest_count > 0) return item_filters_find_named(machine, kept, 0, false);
    if (!attribute) return machine_fail(machine, "map requires a filter argument");
    if (other)
        return machine_fail(machine, "Unexpected keyword argument '%.*s'",
                            (int)(other->name.text->count < 80 ? other->name.text->count : 80),
                            other->name.text->data);
    if (!item_path_open(machine, attribute, &kept->path)) return false;
    if (otherwise && otherwise->kind != VALUE_NONE) kept->path.otherwise = otherwise;
    return true;
}

static bool run_routine(struct jinja_machine *machine, const struct kept *kept,
                        const struct value *item, struct value *out) {
    return routine_call(machine, kept->routine, item, kept->rest, kept->rest_count,
                        kept->call.named, kept->call.named_count, out);
}

static bool next_mapped(struct jinja_machine *machine, struct value_generator *generator,
                        struct value *out, bool *more) {
    struct kept *kept = generator->state;
    struct value item;
    bool begun = kept->begun, empty;
    if (!begin(machine, generator, &empty)) return false;
    if (empty) return end(kept, more);
    if (!begun && !prepare_map(machine, kept)) return false;
    if (!machine_spend(machine, 1) ||
        !value_access_iteration_next(machine, &generator->source, &item, more))
        return false;
    if (!*more) return true;
    return kept->routine ? run_routine(machine, kept, &item, out)
                         : item_path_follow(machine, &kept->path, &item, out);
}

static bool item_filters_map(struct jinja_machine *machine, const struct call *call,
                             struct value *out) {
    return make_lazy(machine, call, next_mapped, out);
}

static bool prepare_select(struct jinja_machine *machine, struct kept *kept, bool by_attribute) {
    if (by_attribute) {
        if (kept->call.rest_count == 0)
            return machine_fail(machine, "Missing parameter for attribute name");
        if (!item_path_open(machine, &kept->call.rest[0], &kept->path)) return false;
    }
    return kept->call.rest_count == by_attribute ||
           item_filters_find_named(machine, kept, by_attribute, true);
}

/* select, reject, selectattr, rejectattr */
static bool next_selected(struct jinja_machine *machine, struct value_generator *generator,
                          struct value *out, bool *more) {
    struct kept *kept = generator->state;
    const char *name = kept->call.routine->name;
    bool wanted = name[0] == 's', by_attribute = name[6] != '\0', begun = kept->begun, empty;
    if (!begin(machine, generator, &empty)) return false;
    if (empty) return end(kept, more);
    if (!begun && !prepare_select(machine, kept, by_attribute)) return false;
    for (;;) {
        struct value subject, answer;
        if (!machine_spend(machine, 1) ||
            !value_access_iteration_next(machine, &generator->source, out, more))
            return false;
        if (!*more) return true;
        if (!item_path_follow(machine, &kept->path, out, &subject)) return false;
        answer = subject;
        if (kept->routine && !run_routine(machine, kept, &subject, &answer)) return false;
        if (value_truth(&answer) == wanted) return true;
    }
}

static bool select(struct jinja_machine *machine, const struct call *call, struct value *out) {
    return make_lazy(machine, call, next_selected, out);
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
