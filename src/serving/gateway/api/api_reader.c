/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/api/api_reader.h"

#include "base/format.h"

struct api_place api_reader_place_of(const char *list, size_t index, const char *rest) {
    struct api_place place;
    format_text(place.text, sizeof place.text, "%s[%zu]%s", list, index, rest);
    return place;
}

/* ---- refusals ---- */

bool api_reader_wrong_type(struct api_reader *reader, const char *param, const char *expected,
                           const struct tree *found) {
    return api_error_set(reader->error, 400, param, "invalid_type", "'%s' must be %s, found %s.",
                         param, expected, tree_name(found));
}

bool api_reader_wrong_number(struct api_reader *reader, const char *param, const char *expected,
                             const struct tree *found) {
    char text[TREE_BRIEF_BYTES];
    if (!tree_is_beyond(found)) return api_reader_wrong_type(reader, param, expected, found);
    return api_error_set(reader->error, 422, param, "out_of_range",
                         "'%s' is %s, which is beyond 64 bits; it must be %s.", param,
                         tree_brief(found, text), expected);
}

bool api_reader_missing(struct api_reader *reader, const char *param) {
    return api_error_set(reader->error, 400, param, "missing_required_parameter",
                         "'%s' is missing.", param);
}

bool api_reader_unsupported(struct api_reader *reader, const char *param, const char *why) {
    return api_error_set(reader->error, 400, param, "unsupported_parameter", "'%s': %s", param,
                         why);
}

bool api_reader_no_memory(struct api_reader *reader) {
    return api_error_set(reader->error, 413, NULL, "request_too_large",
                         "The request has too many parts to be read. Send a smaller one.");
}

bool api_reader_needs(struct api_reader *reader, const char *place, const char *what) {
    return api_error_set(reader->error, 400, place, "invalid_type", "'%s' needs %s.", place, what);
}

bool api_reader_refuse_type(struct api_reader *reader, const char *place,
                            const struct tree *object) {
    struct bytes type = {"", 0};
    if (tree_kind(object) != TREE_OBJECT)
        return api_reader_wrong_type(reader, place, "an object", object);
    if (!tree_get_string(tree_member(object, "type"), &type))
        return api_reader_needs(reader, place, "a 'type'");
    return api_error_set(reader->error, 400, place, "unsupported_parameter",
                         "'%s': the type '%.*s' is not supported here.", place,
                         type.count < 50 ? (int)type.count : 50, type.data);
}

/* ---- values ---- */

const struct tree *api_reader_given(const struct tree *object, const char *name) {
    const struct tree *value = tree_member(object, name);
    return value && !tree_is_null(value) ? value : NULL;
}

const struct tree *api_reader_string(const struct tree *object, const char *name) {
    struct bytes text;
    const struct tree *value = tree_member(object, name);
    return tree_get_string(value, &text) ? value : NULL;
}

bool api_reader_flag(struct api_reader *reader, const struct tree *object, const char *name,
                     bool *out) {
    const struct tree *value = api_reader_given(object, name);
    if (!value || tree_get_bool(value, out)) return true;
    return api_reader_wrong_type(reader, name, "a boolean", value);
}

bool api_reader_text(struct api_reader *reader, const struct tree *object, const char *name,
                     struct bytes *out) {
    const struct tree *value = api_reader_given(object, name);
    if (!value || tree_get_string(value, out)) return true;
    return api_reader_wrong_type(reader, name, "a string", value);
}

bool api_reader_number(struct api_reader *reader, const struct tree *object, const char *name,
                       double low, double high, float *out) {
    const struct tree *value = api_reader_given(object, name);
    double number;
    if (!value) return true;
    if (!tree_get_number(value, &number))
        return api_reader_wrong_number(reader, name, "a number", value);
    if (!(number >= low && number <= high))
        return api_error_set(reader->error, 422, name, "out_of_range",
                             "'%s' is %g, must be between %g and %g.", name, number, low, high);
    *out = (float)number;
    return true;
}

bool api_reader_integer(struct api_reader *reader, const struct tree *object, const char *name,
                        int64_t low, int64_t high, uint32_t *out) {
    const struct tree *value = api_reader_given(object, name);
    int64_t number;
    if (!value) return true;
    if (!tree_get_integer(value, &number))
        return api_reader_wrong_number(reader, name, "an integer", value);
    if (number < low || number > high)
        return api_error_set(reader->error, 422, name, "out_of_range",
                             "'%s' is %lld, must be between %lld and %lld.", name,
                             (long long)number, (long long)low, (long long)high);
    *out = (uint32_t)number;
    return true;
}

bool api_reader_token(struct api_reader *reader, const char *name, const char *expected,
                      const struct tree *array, size_t index, uint32_t *out) {
    const struct tree *value = tree_at(array, index);
    int64_t id = -1;
    char text[TREE_BRIEF_BYTES];
    if (tree_kind(value) != TREE_INTEGER)
        return api_reader_wrong_type(reader, name, expected, value);
    if (!tree_get_integer(value, &id) || id < 0 || id >= LIMIT_VOCAB)
        return api_error_set(reader->error, 422, name, "out_of_range",
                             "'%s[%zu]' is %s, which is no token id.", name, index,
                             tree_brief(value, text));
    *out = (uint32_t)id;
    return true;
}

bool api_reader_is(const struct tree *value, const char *expected) {
    struct bytes text;
    return value && tree_get_string(value, &text) && bytes_equal(text, bytes_of(expected));
}

bool api_reader_is_type(const struct tree *object, const char *type) {
    return api_reader_is(tree_member(object, "type"), type);
}

bool api_reader_has_word(const char *words, struct bytes word) {
    while (words && *words) {
        size_t count = strcspn(words, " ");
        if (bytes_equal((struct bytes){words, count}, word)) return true;
        words += count + strspn(words + count, " ");
    }
    return false;
}

bool api_reader_is_one_of(const struct tree *value, const char *words) {
    struct bytes text;
    double number;
    bool flag;
    char written[32];
    if (tree_get_string(value, &text)) return api_reader_has_word(words, text);
    if (tree_get_bool(value, &flag))
        return api_reader_has_word(words, bytes_of(flag ? "true" : "false"));
    if (!tree_get_number(value, &number)) return false;
    return api_reader_has_word(
        words, (struct bytes){written, format_text(written, sizeof written, "%g", number)});
}

bool api_reader_is_neutral(const struct tree *value, const char *words) {
    struct tree_cursor cursor = {0};
    struct bytes text;
    const struct tree *member;
    double number;
    switch (tree_kind(value)) {
    case TREE_NULL:
    case TREE_FALSE:
        return true;
    case TREE_ARRAY:
        return tree_count(value) == 0;
    case TREE_OBJECT:
        return !tree_next_member(value, &cursor, &text, &member);
    case TREE_STRING:
    case TREE_INTEGER:
    case TREE_REAL:
    case TREE_TRUE:
        break;
    }
    bool nothing = (tree_get_string(value, &text) && text.count == 0) ||
                   (tree_get_number(value, &number) && number == 0);
    return nothing || api_reader_is_one_of(value, words);
}
