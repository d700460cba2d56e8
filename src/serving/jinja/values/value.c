/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/jinja/values/value.h"

#include <math.h>

#include "base/format.h"
#include "base/utf8.h"
#include "serving/jinja/values/jinja_machine.h"

/* ---- values made before a rendering ---- */

bool value_of_text(struct arena *arena, struct bytes text, enum value_origin origin,
                   struct value *out) {
    if (text.count > UINT32_MAX / 4) return false;
    struct value_text *made = arena_take(arena, sizeof *made);
    if (!made) return false;
    *made = (struct value_text){
        .data = text.count ? text.data : "",
        .count = (uint32_t)text.count,
        .length = (uint32_t)utf8_count(text),
        .origin = (uint8_t)origin,
    };
    *out = (struct value){.kind = VALUE_TEXT, .text = made};
    return true;
}

static bool value_list_of(struct arena *arena, size_t count, struct value *out) {
    if (count > UINT32_MAX / sizeof(struct value)) return false;
    struct value_list *list = arena_take(arena, sizeof *list + count * sizeof(struct value));
    if (!list) return false;
    *list = (struct value_list){.items = (struct value *)(list + 1), .count = (uint32_t)count};
    *out = (struct value){.kind = VALUE_LIST, .list = list};
    return true;
}

static bool dict_of(struct arena *arena, size_t count, struct value *out) {
    if (count > UINT32_MAX / sizeof(struct value_pair)) return false;
    struct value_dict *dict = arena_take(arena, sizeof *dict + count * sizeof(struct value_pair));
    if (!dict) return false;
    *dict = (struct value_dict){.pairs = (struct value_pair *)(dict + 1),
                                .count = (uint32_t)count,
                                .capacity = (uint32_t)count};
    *out = (struct value){.kind = VALUE_DICT, .dict = dict};
    return true;
}

bool value_of_items(struct arena *arena, const struct value *items, size_t count,
                    struct value *out) {
    if (!value_list_of(arena, count, out)) return false;
    if (count) memcpy(out->list->items, items, count * sizeof *items);
    return true;
}

bool value_of_pairs(struct arena *arena, const struct value_pair *pairs, size_t count,
                    struct value *out) {
    if (!dict_of(arena, count, out)) return false;
    if (count) memcpy(out->dict->pairs, pairs, count * sizeof *pairs);
    return true;
}

static struct value value_number_of(const struct tree *tree) {
    struct value value = {.kind = VALUE_INTEGER};
    struct bytes spelling = {NULL, 0};
    if (!tree_get_integer(tree, &value.integer)) {
        value = value_real(0);
        if (tree_get_spelling(tree, &spelling))
            value.real = *spelling.data == '-' ? -INFINITY : INFINITY;
        (void)tree_get_number(tree, &value.real);
    }
    if (tree_get_spelling(tree, &spelling) && spelling.count <= UINT32_MAX) {
        value.spelling = spelling.data;
        value.detail = (uint32_t)spelling.count;
    }
    return value;
}

static bool value_of_node(struct arena *arena, const struct tree *tree, unsigned depth,
                          struct value *out);

static bool object_of(struct arena *arena, const struct tree *tree, unsigned depth,
                      struct value *out) {
    struct tree_cursor cursor = {NULL};
    struct bytes key;
    const struct tree *member;
    size_t count = 0;
    while (tree_next_member(tree, &cursor, &key, &member))
        count++;
    if (!dict_of(arena, count, out)) return false;
    cursor = (struct tree_cursor){NULL};
    for (struct value_pair *pair = out->dict->pairs; tree_next_member(tree, &cursor, &key, &member);
         pair++)
        if (!value_of_text(arena, key, VALUE_DATA, &pair->key) ||
            !value_of_node(arena, member, depth + 1, &pair->value))
            return false;
    return true;
}

static bool value_of_node(struct arena *arena, const struct tree *tree, unsigned depth,
                          struct value *out) {
    struct bytes text = {"", 0};
    *out = value_none();
    if (depth > VALUE_DEPTH_MAX) return false;
    switch (tree_kind(tree)) {
    case TREE_OBJECT:
        return object_of(arena, tree, depth, out);
    case TREE_ARRAY:
        if (!value_list_of(arena, tree_count(tree), out)) return false;
        for (uint32_t i = 0; i < out->list->count; i++)
            if (!value_of_node(arena, tree_at(tree, i), depth + 1, &out->list->items[i]))
                return false;
        return true;
    case TREE_STRING:
        (void)tree_get_string(tree, &text);
        return value_of_text(arena, text, VALUE_DATA, out);
    case TREE_INTEGER:
    case TREE_REAL:
        *out = value_number_of(tree);
        return true;
    case TREE_TRUE:
    case TREE_FALSE:
        *out = value_bool(tree_kind(tree) == TREE_TRUE);
        return true;
    case TREE_NULL:
        break;
    }
    return true;
}

bool value_of_tree(struct arena *arena, const struct tree *tree, struct value *out) {
    return value_of_node(arena, tree, 0, out);
}

/* ---- values made in a rendering ---- */

bool value_make_text(struct jinja_machine *machine, const char *data, size_t count,
                     enum value_origin origin, struct value *out) {
    struct text_builder builder;
    text_builder_open(&builder, machine);
    return text_builder_add(&builder, data, count, origin) &&
           text_builder_finish(&builder, false, out);
}

bool value_make_literal(struct jinja_machine *machine, const char *text, struct value *out) {
    return value_make_text(machine, text, strlen(text), VALUE_TRUSTED, out);
}

bool value_make_part(struct jinja_machine *machine, const struct value_text *text, size_t start,
                     size_t count, struct value *out) {
    struct value_text *part = machine_take(machine, sizeof *part);
    if (!part || !machine_spend(machine, count / 64)) return false;
    *part = (struct value_text){
        .data = text->data + start,
        .marks = text->marks && count ? text->marks + start : NULL,
        .count = (uint32_t)count,
        .origin = count ? text->origin : VALUE_TRUSTED,
        .markup = text->markup,
    };
    part->length = text->count == text->length
                       ? part->count
                       : (uint32_t)utf8_count((struct bytes){part->data, count});
    *out = (struct value){.kind = VALUE_TEXT, .text = part};
    return true;
}

bool value_make_list(struct jinja_machine *machine, enum value_kind kind, size_t capacity,
                     struct value *out) {
    if (!machine_spend(machine, capacity)) return false;
    if (capacity > UINT32_MAX / sizeof(struct value))
        return machine_exceed(machine, "items in a list");
    struct value_list *list = machine_take(machine, sizeof *list + capacity * sizeof(struct value));
    if (!list) return false;
    *list = (struct value_list){.items = (struct value *)(list + 1)};
    *out = (struct value){.kind = kind, .list = list};
    return true;
}

bool value_list_push(struct jinja_machine *machine, struct value_list *list, uint32_t *capacity,
                     struct value item) {
    if (list->count >= *capacity) {
        uint32_t wanted = *capacity < 4 ? 8 : *capacity;
        if (wanted > UINT32_MAX / sizeof item / 2) return machine_exceed(machine, "items");
        wanted = *capacity < 4 ? 8 : 2 * wanted;
        struct value *items = machine_take(machine, wanted * sizeof *items);
        if (!items || !machine_spend(machine, wanted)) return false;
        if (list->count) memcpy(items, list->items, list->count * sizeof *items);
        list->items = items;
        *capacity = wanted;
    }
    list->items[list->count++] = item;
    return true;
}

bool value_make_undefined(struct jinja_machine *machine, const char *message, struct value *out) {
    size_t count = strlen(message);
    struct value_undefined *undefined = machine_take(machine, sizeof *undefined + count + 1);
    if (!undefined) return false;
    char *copy = (char *)(undefined + 1);
    memcpy(copy, message, count + 1);
    *undefined = (struct value_undefined){.message = copy};
    *out = (struct value){.kind = VALUE_UNDEFINED, .undefined = undefined};
    return true;
}

bool value_make_undefined_part(struct jinja_machine *machine, const struct value *object,
                               const struct value *name, struct value *out) {
    struct value_undefined *undefined = machine_take(machine, sizeof *undefined);
    if (!undefined) return false;
    *undefined = (struct value_undefined){.object = *object, .name = *name};
    *out = (struct value){.kind = VALUE_UNDEFINED, .undefined = undefined};
    return true;
}

bool value_make_generator(struct jinja_machine *machine, const struct value_generator *generator,
                          struct value *out) {
    struct value_generator *made = machine_take(machine, sizeof *made);
    if (!made) return false;
    *made = *generator;
    *out = (struct value){.kind = VALUE_GENERATOR, .generator = made};
    return true;
}

/* ---- dicts ---- */

#define LINEAR_MAX 8 /* a dict with at most this many pairs has no index */

bool value_make_dict(struct jinja_machine *machine, struct value *out) {
    struct value_dict *dict = machine_take(machine, sizeof *dict);
    if (!dict) return false;
    *dict = (struct value_dict){.pairs = NULL};
    *out = (struct value){.kind = VALUE_DICT, .dict = dict};
    return true;
}

/* The next slot of an index. It counts as work, because a client may have chosen colliding keys. */
static bool next_place(struct jinja_machine *machine, const struct value_dict *dict, uint32_t *at) {
    *at = (*at + 1) & (dict->index_count - 1);
    return machine_spend(machine, 1);
}

/* The hash of a key, which is a text or an integer. */
static uint64_t key_hash(const struct value *key) {
    if (key->kind != VALUE_TEXT)
        return value_compare_text_hash((const char *)&key->integer, sizeof key->integer);
    struct value_text *text = key->text;
    if (!text->hash) text->hash = value_compare_text_hash(text->data, text->count);
    return text->hash;
}

static bool key_equal(const struct value *a, const struct value *b) {
    if (a->kind != b->kind) return false;
    return a->kind == VALUE_TEXT ? value_text_equal(a->text, b->text) : a->integer == b->integer;
}

/* The work of hashing a key, in steps. */
static uint64_t key_steps(const struct value *key) {
    return key->kind == VALUE_TEXT ? key->text->count / 64 : 0;
}

/* Inserts pair number `place` into the dict's index. */
static bool index_pair(struct jinja_machine *machine, struct value_dict *dict, uint32_t place) {
    const struct value *key = &dict->pairs[place].key;
    uint32_t at = (uint32_t)key_hash(key) & (dict->index_count - 1);
    if (!machine_spend(machine, key_steps(key))) return false;
    while (dict->index[at])
        if (!next_place(machine, dict, &at)) return false;
    dict->index[at] = place + 1;
    return true;
}

static bool dict_index(struct jinja_machine *machine, struct value_dict *dict) {
    uint32_t count = 16;
    while (count < 2 * dict->capacity || count < 2 * dict->count)
        count *= 2;
    uint32_t *index = machine_take(machine, count * sizeof *index);
    if (!index || !machine_spend(machine, count / 8 + dict->count)) return false;
    memset(index, 0, count * sizeof *index);
    dict->index = index;
    dict->index_count = count;
    for (uint32_t i = dict->count; i-- > 0;) /* if keys of a tree repeat, the last one is found */
        if (!index_pair(machine, dict, i)) return false;
    return true;
}

bool value_dict_find(struct jinja_machine *machine, const struct value_dict *dict,
                     const struct value *key, struct value **found) {
    struct value whole;
    *found = NULL;
    if (key->kind != VALUE_TEXT) {
        if (key->kind == VALUE_REAL)
            return machine_fail(machine, "a float as a key of a dict is not supported");
        if (!value_is_hashable(key))
            return machine_fail(machine, "unhashable type: '%s'", value_type_name(key));
        if (!value_is_whole(key)) return true;
        whole = value_integer(value_whole(key)); /* True equals 1 */
        key = &whole;
    }
    if (dict->count <= LINEAR_MAX) {
        for (uint32_t i = dict->count; i-- > 0 && !*found;)
            if (key_equal(&dict->pairs[i].key, key)) *found = &dict->pairs[i].value;
        return true;
    }
    if (!machine_spend(machine, key_steps(key))) return false;
    if (!dict->index && !dict_index(machine, (struct value_dict *)dict)) return false;
    uint32_t at = (uint32_t)key_hash(key) & (dict->index_count - 1);
    while (dict->index[at]) {
        struct value_pair *pair = &dict->pairs[dict->index[at] - 1];
        if (key_equal(&pair->key, key)) {
            *found = &pair->value;
            return true;
        }
        if (!next_place(machine, dict, &at)) return false;
    }
    return true;
}

bool value_dict_set(struct jinja_machine *machine, struct value_dict *dict, struct value key,
                    struct value value) {
    struct value *found;
    if (key.kind != VALUE_TEXT && key.kind != VALUE_INTEGER)
        return machine_fail(machine, "a dict's key that is neither str nor int is not supported");
    if (!value_dict_find(machine, dict, &key, &found)) return false;
    if (found) {
        *found = value;
        return true;
    }
    if (dict->count >= dict->capacity) {
        if (dict->count > UINT32_MAX / sizeof *dict->pairs / 4)
            return machine_exceed(machine, "items in a dict");
        uint32_t capacity = dict->count ? 2 * dict->count : 4;
        struct value_pair *pairs = machine_take(machine, capacity * sizeof *pairs);
        if (!pairs || !machine_spend(machine, capacity)) return false;
        if (dict->count) memcpy(pairs, dict->pairs, dict->count * sizeof *pairs);
        dict->pairs = pairs;
        dict->capacity = capacity;
        dict->index = NULL;
    }
    dict->pairs[dict->count++] = (struct value_pair){key, value};
    return !dict->index || index_pair(machine, dict, dict->count - 1);
}

/* ---- properties of values ---- */

const char *value_type_name(const struct value *value) {
    static const char *const names[VALUE_KIND_COUNT] = {
        [VALUE_MISSING] = "Undefined",
        [VALUE_UNDEFINED] = "Undefined",
        [VALUE_NONE] = "NoneType",
        [VALUE_BOOL] = "bool",
        [VALUE_INTEGER] = "int",
        [VALUE_REAL] = "float",
        [VALUE_TEXT] = "str",
        [VALUE_LIST] = "list",
        [VALUE_TUPLE] = "tuple",
        [VALUE_DICT] = "dict",
        [VALUE_RANGE] = "range",
        [VALUE_VIEW] = "dict_keys",
        [VALUE_NAMESPACE] = "Namespace",
        [VALUE_GENERATOR] = "generator",
        [VALUE_FUNCTION] = "function",
        [VALUE_METHOD] = "builtin_function_or_method",
        [VALUE_MACRO] = "Macro",
        [VALUE_LOOP] = "LoopContext",
    };
    if (value->kind == VALUE_TEXT && value->text->markup) return "Markup";
    if (value->kind == VALUE_VIEW && value->detail == VALUE_VIEW_VALUES) return "dict_values";
    if (value->kind == VALUE_VIEW && value->detail == VALUE_VIEW_ITEMS) return "dict_items";
    return names[value->kind];
}

bool value_truth(const struct value *value) {
    switch (value->kind) {
    case VALUE_MISSING:
    case VALUE_UNDEFINED:
    case VALUE_NONE:
        return false;
    case VALUE_BOOL:
        return value->truth;
    case VALUE_INTEGER:
        return value->integer != 0;
    case VALUE_REAL:
        return value->real != 0;
    case VALUE_TEXT:
        return value->text->count != 0;
    case VALUE_LIST:
    case VALUE_TUPLE:
        return value->list->count != 0;
    case VALUE_DICT:
    case VALUE_VIEW:
        return value->dict->count != 0;
    case VALUE_RANGE:
        return value->range->count != 0;
    default:
        return true;
    }
}

bool value_length(struct jinja_machine *machine, const struct value *value, int64_t *out) {
    switch (value->kind) {
    case VALUE_MISSING:
    case VALUE_UNDEFINED:
        *out = 0;
        return true;
    case VALUE_TEXT:
        *out = value->text->length;
        return true;
    case VALUE_LIST:
    case VALUE_TUPLE:
        *out = value->list->count;
        return true;
    case VALUE_DICT:
    case VALUE_VIEW:
        *out = value->dict->count;
        return true;
    case VALUE_RANGE:
        *out = value->range->count;
        return true;
    case VALUE_LOOP:
        return value_loop_length(machine, value->loop, out);
    default:
        return machine_fail(machine, "object of type '%s' has no len()", value_type_name(value));
    }
}

/* The description of an object in messages, as Jinja's object_type_repr. */
static void value_describe(const struct value *object, char *out, size_t out_bytes) {
    if (object->kind == VALUE_NONE)
        format_text(out, out_bytes, "None");
    else
        format_text(out, out_bytes, "%s object", value_type_name(object));
}

void value_note_complaint(struct jinja_machine *machine, const struct value *value) {
    const struct value_undefined *undefined = value->undefined;
    char object[64];
    struct text_builder name;
    if (value->kind != VALUE_UNDEFINED || !undefined) {
        jinja_machine_note_failure(machine, "the value is undefined");
        return;
    }
    if (undefined->message) {
        jinja_machine_note_failure(machine, "%s", undefined->message);
        return;
    }
    text_builder_open(&name, machine);
    if (!value_print_add_repr(&name, &undefined->name)) return;
    int count = (int)(name.count > 200 ? 200 : name.count);
    value_describe(&undefined->object, object, sizeof object);
    if (undefined->object.kind == VALUE_MISSING)
        jinja_machine_note_failure(machine, "%.*s is undefined", count, name.data);
    else if (undefined->name.kind == VALUE_TEXT)
        jinja_machine_note_failure(machine, "'%s' has no attribute %.*s", object, count, name.data);
    else
        jinja_machine_note_failure(machine, "%s has no element %.*s", object, count, name.data);
}

bool value_is_callable(const struct value *value) {
    return value->kind == VALUE_FUNCTION || value->kind == VALUE_METHOD ||
           value->kind == VALUE_MACRO || value->kind == VALUE_UNDEFINED;
}

bool value_is_iterable(const struct value *value) {
    switch (value->kind) {
    case VALUE_MISSING:
    case VALUE_UNDEFINED:
    case VALUE_TEXT:
    case VALUE_LIST:
    case VALUE_TUPLE:
    case VALUE_DICT:
    case VALUE_VIEW:
    case VALUE_RANGE:
    case VALUE_GENERATOR:
    case VALUE_LOOP:
        return true;
    default:
        return false;
    }
}
