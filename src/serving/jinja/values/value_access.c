/* SPDX-License-Identifier: Apache-2.0
 * Attributes, items, slices and iteration of values, as in Jinja's sandbox.
 */
#include "base/format.h"
#include "base/utf8.h"
#include "serving/jinja/values/jinja_machine.h"

/* ---- attributes ---- */

/* Finds an attribute that is neither a method nor an internal of Python. *found is false if there
 * is none. */
static bool plain_attribute(struct jinja_machine *machine, const struct value *object,
                            const struct value *name, struct value *out, bool *found) {
    struct value *member;
    *found = true;
    switch (object->kind) {
    case VALUE_NAMESPACE:
        if (!value_dict_find(machine, object->dict, name, &member)) return false;
        *found = member != NULL;
        if (member) *out = *member;
        return true;
    case VALUE_LOOP:
        return value_loop_attribute(machine, object, name->text, out, found);
    default:
        *found = false;
        return true;
    }
}

/* Python's getattr() in the sandbox. */
static bool find_attribute(struct jinja_machine *machine, const struct value *object,
                           const struct value *name, struct value *out, bool *found) {
    const struct value_text *text = name->text;
    *found = true;
    if (object->kind == VALUE_UNDEFINED) return value_complain(machine, object);
    if (object->kind == VALUE_MACRO || object->kind == VALUE_RANGE)
        return machine_fail(machine, "an attribute of a %s is not supported",
                            value_type_name(object));
    const struct routine *routine = methods_find(object->kind, value_text_bytes(text));
    if (routine && routine->unsafe) return value_make_undefined(machine, routine->refused, out);
    if (routine) {
        struct value_method *method = machine_take(machine, sizeof *method);
        if (!method) return false;
        *method = (struct value_method){routine, *object};
        *out = (struct value){.kind = VALUE_METHOD, .method = method};
        return true;
    }
    return plain_attribute(machine, object, name, out, found);
}

/* ---- items ---- */

/* Converts an index of a character to an offset in bytes. */
static size_t offset_of(const struct value_text *text, size_t index) {
    size_t at = 0;
    if (text->length == text->count) return index;
    for (; index; index--) {
        unsigned bytes;
        utf8_read(text->data + at, &bytes);
        at += bytes;
    }
    return at;
}

static bool text_item(struct jinja_machine *machine, const struct value_text *text, int64_t index,
                      struct value *out) {
    if (!machine_spend(machine, text->length == text->count ? 1 : (uint64_t)index / 8 + 1))
        return false;
    size_t start = offset_of(text, (size_t)index);
    unsigned bytes;
    utf8_read(text->data + start, &bytes);
    return value_make_part(machine, text, start, bytes, out);
}

/* Python's object[key]. *found is false if Python raises TypeError or LookupError. */
static bool find_item(struct jinja_machine *machine, const struct value *object,
                      const struct value *key, struct value *out, bool *found) {
    struct value *member;
    int64_t count, index;
    *found = false;
    switch (object->kind) {
    case VALUE_UNDEFINED:
        return value_complain(machine, object);
    case VALUE_DICT:
        if (!value_is_hashable(key)) return true;
        if (!value_dict_find(machine, object->dict, key, &member)) return false;
        *found = member != NULL;
        if (member) *out = *member;
        return true;
    case VALUE_TEXT:
        count = object->text->length;
        break;
    case VALUE_LIST:
    case VALUE_TUPLE:
        count = object->list->count;
        break;
    case VALUE_RANGE:
        count = object->range->count;
        break;
    default:
        return true;
    }
    if (!value_is_whole(key)) return true;
    index = value_whole(key);
    if (index < 0) index += count;
    if (index < 0 || index >= count) return true;
    *found = true;
    if (object->kind == VALUE_TEXT) return text_item(machine, object->text, index, out);
    if (object->kind == VALUE_RANGE)
        *out = value_integer(object->range->start + index * object->range->step);
    else
        *out = object->list->items[index];
    return true;
}

bool value_access_get_item(struct jinja_machine *machine, const struct value *object,
                           const struct value *key, struct value *out) {
    bool found;
    if (!find_item(machine, object, key, out, &found)) return false;
    if (found) return true;
    if (key->kind == VALUE_TEXT && !find_attribute(machine, object, key, out, &found)) return false;
    return found || value_make_undefined_part(machine, object, key, out);
}

bool value_access_get_attribute(struct jinja_machine *machine, const struct value *object,
                                const struct value *name, struct value *out) {
    bool found;
    if (!find_attribute(machine, object, name, out, &found)) return false;
    if (found) return true;
    if (!find_item(machine, object, name, out, &found)) return false;
    return found || value_make_undefined_part(machine, object, name, out);
}

/* ---- slices ---- */

struct slice {
    int64_t start, step, count;
};

static bool bound(struct jinja_machine *machine, const struct value *value, int64_t length,
                  int64_t low, int64_t high, int64_t usual, int64_t *out) {
    *out = usual;
    if (value->kind == VALUE_NONE) return true;
    if (!value_is_whole(value))
        return machine_fail(machine, "slice indices must be integers or None or have an "
                                     "__index__ method");
    int64_t place = value_whole(value);
    if (place < 0) place = place < -length ? low : place + length;
    *out = place < low ? low : place > high ? high : place;
    return true;
}

static bool slice_of(struct jinja_machine *machine, int64_t length, const struct value *start,
                     const struct value *stop, const struct value *step, struct slice *out) {
    int64_t from, to, by = 1;
    if (step->kind != VALUE_NONE) {
        if (!value_is_whole(step))
            return machine_fail(machine, "slice indices must be integers or None or have an "
                                         "__index__ method");
        by = value_whole(step);
        if (by == 0) return machine_fail(machine, "slice step cannot be zero");
        if (by < -INT64_MAX) by = -INT64_MAX;
    }
    int64_t low = by < 0 ? -1 : 0, high = by < 0 ? length - 1 : length;
    if (!bound(machine, start, length, low, high, by < 0 ? high : low, &from) ||
        !bound(machine, stop, length, low, high, by < 0 ? low : high, &to))
        return false;
    int64_t distance = by < 0 ? from - to : to - from, size = by < 0 ? -by : by;
    *out = (struct slice){from, by, distance <= 0 ? 0 : (distance - 1) / size + 1};
    return true;
}

static bool slice_text(struct jinja_machine *machine, const struct value_text *text,
                       struct slice slice, struct value *out) {
    if (slice.count == 0) return value_make_part(machine, text, 0, 0, out);
    if (!machine_spend(machine, text->length == text->count ? 1 : 1 + text->count / 8))
        return false;
    if (slice.step == 1) {
        size_t start = offset_of(text, (size_t)slice.start);
        struct value_text rest = {
            .data = text->data + start,
            .count = (uint32_t)(text->count - start),
            .length = text->length - (uint32_t)slice.start,
        };
        return value_make_part(machine, text, start, offset_of(&rest, (size_t)slice.count), out);
    }
    struct text_builder builder;
    struct value item;
    text_builder_open(&builder, machine);
    for (int64_t i = 0; i < slice.count; i++)
        if (!text_item(machine, text, slice.start + i * slice.step, &item) ||
            !text_builder_add_text(&builder, item.text))
            return false;
    return text_builder_finish(&builder, text->markup, out);
}

bool value_access_slice(struct jinja_machine *machine, const struct value *object,
                        const struct value *start, const struct value *stop,
                        const struct value *step, struct value *out) {
    struct slice slice;
    int64_t length;
    if (object->kind == VALUE_UNDEFINED) return value_complain(machine, object);
    if (object->kind == VALUE_DICT)
        return machine_fail(machine, "a slice of a dict is not supported");
    if (object->kind != VALUE_TEXT && object->kind != VALUE_LIST && object->kind != VALUE_TUPLE)
        return machine_fail(machine, "'%s' object is not subscriptable", value_type_name(object));
    if (!value_length(machine, object, &length) ||
        !slice_of(machine, length, start, stop, step, &slice))
        return false;
    if (object->kind == VALUE_TEXT) return slice_text(machine, object->text, slice, out);
    if (!value_make_list(machine, object->kind, (size_t)slice.count, out)) return false;
    for (int64_t i = 0; i < slice.count; i++)
        out->list->items[i] = object->list->items[slice.start + i * slice.step];
    out->list->count = (uint32_t)slice.count;
    return true;
}

/* ---- iteration ---- */

bool value_access_iteration_open(struct jinja_machine *machine, const struct value *subject,
                                 struct iteration *out) {
    if (!value_is_iterable(subject) || subject->kind == VALUE_LOOP)
        return machine_fail(machine, "'%s' object is not iterable", value_type_name(subject));
    *out = (struct iteration){.subject = *subject};
    return true;
}

static bool next_character(struct jinja_machine *machine, struct iteration *iteration,
                           struct value *out) {
    const struct value_text *text = iteration->subject.text;
    unsigned bytes;
    utf8_read(text->data + iteration->place, &bytes);
    if (!value_make_part(machine, text, (size_t)iteration->place, bytes, out)) return false;
    out->text->markup = false;
    iteration->place += bytes;
    return true;
}

static bool next_of_view(struct jinja_machine *machine, const struct value *view, uint64_t place,
                         struct value *out) {
    const struct value_pair *pair = &view->dict->pairs[place];
    *out = view->detail == VALUE_VIEW_VALUES ? pair->value : pair->key;
    if (view->detail != VALUE_VIEW_ITEMS) return true;
    if (!value_make_list(machine, VALUE_TUPLE, 2, out)) return false;
    out->list->items[0] = pair->key;
    out->list->items[1] = pair->value;
    out->list->count = 2;
    return true;
}

bool value_access_iteration_next(struct jinja_machine *machine, struct iteration *iteration,
                                 struct value *out, bool *more) {
    const struct value *subject = &iteration->subject;
    uint64_t place = iteration->place;
    if (!machine_spend(machine, 1)) return false;
    *more = true;
    switch (subject->kind) {
    case VALUE_TEXT:
        if (place < subject->text->count) return next_character(machine, iteration, out);
        break;
    case VALUE_LIST:
    case VALUE_TUPLE:
        if (place >= subject->list->count) break;
        *out = subject->list->items[iteration->place++];
        return true;
    case VALUE_DICT:
        if (place >= subject->dict->count) break;
        *out = subject->dict->pairs[iteration->place++].key;
        return true;
    case VALUE_VIEW:
        if (place >= subject->dict->count) break;
        return next_of_view(machine, subject, iteration->place++, out);
    case VALUE_RANGE:
        if (place >= (uint64_t)subject->range->count) break;
        *out = value_integer(subject->range->start + (int64_t)place * subject->range->step);
        iteration->place++;
        return true;
    case VALUE_GENERATOR:
        if (subject->generator->ended) break;
        if (!jinja_machine_enter(machine) ||
            !subject->generator->next(machine, subject->generator, out, more))
            return false;
        machine_leave(machine);
        subject->generator->ended = !*more;
        return true;
    default:
        break;
    }
    *more = false;
    return true;
}

bool value_access_items(struct jinja_machine *machine, const struct value *value, bool may_share,
                        struct value_list **out) {
    struct iteration iteration;
    struct value list, item;
    uint32_t capacity = 0;
    bool more;
    bool is_list = value->kind == VALUE_LIST || value->kind == VALUE_TUPLE;
    if (is_list && may_share) {
        *out = value->list;
        return true;
    }
    if (is_list) capacity = value->list->count;
    if (!value_access_iteration_open(machine, value, &iteration) ||
        !value_make_list(machine, VALUE_LIST, capacity, &list))
        return false;
    for (;;) {
        if (!value_access_iteration_next(machine, &iteration, &item, &more)) return false;
        if (!more) break;
        if (!value_list_push(machine, list.list, &capacity, item)) return false;
    }
    *out = list.list;
    return true;
}
