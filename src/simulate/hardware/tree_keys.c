/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/hardware/tree_keys.h"

#include <math.h>

#include "base/check.h"
#include "base/format.h"
#include "base/nearest.h"

#define COUNT_MAX 4294967295.0
#define LARGE_MAX 9007199254740992.0 /* larger whole numbers are not all exact as double */

static const char *const notes[] = {"about", "note", "source"};

struct tree_place tree_keys_below(const struct tree_place *place, const char *key) {
    struct tree_place below = {.file = place->file, .error = place->error};
    format_text(below.path, sizeof below.path, "%s%s%s", place->path, place->path[0] ? "." : "",
                key);
    return below;
}

struct tree_place tree_keys_element(const struct tree_place *place, size_t index) {
    struct tree_place below = {.file = place->file, .error = place->error};
    format_text(below.path, sizeof below.path, "%s[%zu]", place->path, index);
    return below;
}

enum status tree_keys_refuse(const struct tree_place *place, const char *format, ...) {
    char text[320];
    va_list arguments;
    va_start(arguments, format);
    format_va(text, sizeof text, format, arguments);
    va_end(arguments);
    return error_set(place->error, STATUS_INVALID, "%.100s: %s%s%s", place->file, place->path,
                     place->path[0] ? ": " : "", text);
}

const struct tree *tree_keys_plain(const struct tree *value) {
    if (!value || tree_kind(value) != TREE_OBJECT) return value;
    const struct tree *inner = tree_member(value, "value");
    return inner ? inner : value;
}

static enum status wrong_kind(const struct tree_place *place, const char *expected,
                              const struct tree *value) {
    return tree_keys_refuse(place, "expected %s, found %s", expected, tree_name(value));
}

static enum status tree_keys_read_number(const struct tree_place *place, const struct tree_key *key,
                                         const struct tree *value, double *out) {
    bool whole = key->kind == KEY_COUNT || key->kind == KEY_LARGE;
    bool open = key->minimum == 0 && key->maximum == 0;
    double most = key->kind == KEY_COUNT ? COUNT_MAX : whole ? LARGE_MAX : 1e18, number;
    if (!tree_get_number(value, &number))
        return wrong_kind(place, whole ? "a whole number" : "a number", value);
    if (whole && number != floor(number))
        return tree_keys_refuse(place, "expected a whole number, found %.15g", number);
    double low = open ? 0 : key->minimum, high = open ? most : key->maximum;
    if (!(number >= low && number <= high))
        return tree_keys_refuse(place, "expected %.15g to %.15g, found %.15g", low, high, number);
    *out = number;
    return STATUS_OK;
}

static enum status tree_keys_read_choice(const struct tree_place *place, const struct tree_key *key,
                                         struct bytes text, uint32_t *out) {
    const char *at = key->choices;
    for (uint32_t place_of = 0; *at; place_of++) {
        const char *end = strchr(at, '|');
        size_t bytes = end ? (size_t)(end - at) : strlen(at);
        if (bytes_equal(text, (struct bytes){at, bytes})) {
            *out = place_of;
            return STATUS_OK;
        }
        at += bytes + (end ? 1 : 0);
    }
    return tree_keys_refuse(place, "expected one of %s, found '%.*s'", key->choices,
                            (int)(text.count < 60 ? text.count : 60), text.data);
}

static enum status tree_keys_read_text(const struct tree_place *place, const struct tree_key *key,
                                       const struct tree *value, void *out) {
    struct bytes text;
    if (!tree_get_string(value, &text)) return wrong_kind(place, "a string", value);
    if (key->kind == KEY_CHOICE) return tree_keys_read_choice(place, key, text, out);
    if (text.count >= TREE_TEXT_BYTES || memchr(text.data, 0, text.count))
        return tree_keys_refuse(place, "expected at most %d bytes of text", TREE_TEXT_BYTES - 1);
    memcpy(out, text.data, text.count);
    ((char *)out)[text.count] = 0;
    return STATUS_OK;
}

static enum status tree_keys_read_value(const struct tree_place *place, const struct tree_key *key,
                                        const struct tree *value, void *out) {
    double number = 0;
    if (key->kind == KEY_TEXT || key->kind == KEY_CHOICE)
        return tree_keys_read_text(place, key, value, out);
    if (key->kind == KEY_FLAG)
        return tree_get_bool(value, out) ? STATUS_OK : wrong_kind(place, "true or false", value);
    if (key->kind == KEY_TIME && key->maximum == 0) {
        struct tree_key years = *key;
        years.maximum = 1e9;
        return tree_keys_read_value(place, &years, value, out);
    }
    enum status status = tree_keys_read_number(place, key, value, &number);
    if (status) return status;
    if (key->kind == KEY_COUNT)
        *(uint32_t *)out = (uint32_t)number;
    else if (key->kind == KEY_LARGE)
        *(uint64_t *)out = (uint64_t)number;
    else if (key->kind == KEY_TIME)
        *(int64_t *)out = (int64_t)llround(number * 1e9);
    else
        *(double *)out = number;
    return STATUS_OK;
}

static const struct tree_key *tree_keys_find_key(struct bytes name, const struct tree_key *keys,
                                                 size_t key_count) {
    for (size_t i = 0; i < key_count; i++)
        if (bytes_equal(name, bytes_of(keys[i].name))) return &keys[i];
    return NULL;
}

static bool is_note(struct bytes name) {
    for (size_t i = 0; i < ARRAY_COUNT(notes); i++)
        if (bytes_equal(name, bytes_of(notes[i]))) return true;
    return false;
}

static enum status unknown_key(const struct tree_place *place, struct bytes name,
                               const struct tree_key *keys, size_t key_count) {
    struct nearest nearest = nearest_begin(name);
    char known[240] = "";
    size_t used = 0;
    for (size_t i = 0; i < key_count; i++) {
        nearest_try(&nearest, keys[i].name);
        used += format_text(known + used, sizeof known - used, "%s%s", i ? ", " : "", keys[i].name);
    }
    int shown = (int)(name.count < 60 ? name.count : 60);
    if (nearest.name)
        return tree_keys_refuse(place, "unknown key '%.*s'; did you mean %s?", shown, name.data,
                                nearest.name);
    return tree_keys_refuse(place, "unknown key '%.*s'; there are: %s", shown, name.data, known);
}

enum status tree_keys_read(const struct tree_place *place, const struct tree *object,
                           const struct tree_key *keys, size_t key_count, void *out) {
    struct tree_cursor cursor = {0};
    struct bytes name;
    const struct tree *value;
    if (object && tree_kind(object) != TREE_OBJECT) return wrong_kind(place, "an object", object);
    while (object && tree_next_member(object, &cursor, &name, &value)) {
        const struct tree_key *key = tree_keys_find_key(name, keys, key_count);
        if (!key && is_note(name)) continue;
        if (!key) return unknown_key(place, name, keys, key_count);
        if (key->kind == KEY_OTHER) continue;
        struct tree_place below = tree_keys_below(place, key->name);
        enum status status =
            tree_keys_read_value(&below, key, tree_keys_plain(value), (char *)out + key->offset);
        if (status) return status;
    }
    for (size_t i = 0; i < key_count; i++)
        if (keys[i].needed && !(object && tree_member(object, keys[i].name)))
            return tree_keys_refuse(place, "the key %s is missing", keys[i].name);
    return STATUS_OK;
}

enum status tree_keys_read_member(const struct tree_place *place, const struct tree *object,
                                  const char *key, const struct tree_key *keys, size_t key_count,
                                  void *out) {
    struct tree_place below = tree_keys_below(place, key);
    return tree_keys_read(&below, tree_member(object, key), keys, key_count, out);
}
