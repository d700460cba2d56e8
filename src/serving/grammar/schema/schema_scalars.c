/* SPDX-License-Identifier: Apache-2.0
 * The keywords of numbers and strings: minimum, maximum, multipleOf, lengths, pattern and format.
 */
#include "base/format.h"
#include "serving/grammar/automata/number_set.h"
#include "serving/grammar/automata/text_format.h"
#include "serving/grammar/schema/schema_keywords.h"
#include "serving/grammar/schema/value_set.h"

#define COUNTED_FAR 256 /* characters; a larger maxLength needs the smaller DFA of a format */

static enum status schema_scalars_read_decimal(struct schema_reader *reader,
                                               const struct tree *value, struct decimal *out) {
    struct bytes text;
    enum status status = schema_constant_read_number_text(reader, value, &text);
    if (status) return status;
    if (number_set_decimal_read(text, out))
        return state_error(reader->state, STATUS_UNSUPPORTED, "the number %.*s has too many digits",
                           (int)text.count, text.data);
    return STATUS_OK;
}

/* Reads a bound. `exclusive` is a boolean in draft 4, and a separate bound in later drafts. */
static enum status read_bound(struct schema_reader *reader, const char *keyword,
                              const char *exclusive, int order, bool *has_out, bool *excluded_out,
                              struct decimal *bound_out) {
    const struct tree *value = schema_reader_keyword(reader, exclusive);
    enum status status = STATUS_OK;
    bool strict = false;
    if (value && !tree_get_bool(value, &strict) && reader->draft >= DRAFT_6) {
        status = schema_scalars_read_decimal(reader, value, bound_out);
        if (status) return status;
        *has_out = *excluded_out = true;
    }
    value = schema_reader_keyword(reader, keyword);
    if (!value) return STATUS_OK;
    struct decimal bound;
    status = schema_scalars_read_decimal(reader, value, &bound);
    if (status) return status;
    if (*has_out && number_set_decimal_compare(&bound, bound_out) * order <= 0) return STATUS_OK;
    *bound_out = bound;
    *has_out = true;
    *excluded_out = strict;
    return STATUS_OK;
}

static enum status read_numbers(struct schema_reader *reader, bool whole) {
    struct schema_state *state = reader->state;
    struct number_set set = {.whole = whole};
    enum status status = read_bound(reader, "maximum", "exclusiveMaximum", -1, &set.has_max,
                                    &set.max_excluded, &set.max);
    if (!status)
        status = read_bound(reader, "minimum", "exclusiveMinimum", 1, &set.has_min,
                            &set.min_excluded, &set.min);
    const struct tree *multiple = schema_reader_keyword(reader, "multipleOf");
    if (!status && multiple) {
        set.has_multiple = true;
        status = schema_scalars_read_decimal(reader, multiple, &set.multiple);
        bool zero = !status && set.multiple.digits[0] == 0;
        if (!status && (zero || set.multiple.negative))
            return state_error(state, STATUS_INVALID, "must be above 0");
    }
    if (status || (!whole && !set.has_min && !set.has_max && !multiple)) return status;
    if (!multiple) state->keyword = set.has_min ? "minimum" : "maximum";
    const struct automaton *automaton;
    struct value_set numbers = state->value_any;
    status = number_set_automaton_of_numbers(&state->work, &set, &automaton);
    if (status == STATUS_UNSUPPORTED)
        return state_error(state, status, "has too many remainders to keep apart");
    if (!status) status = language_of_automaton(&state->languages, automaton, &numbers.number);
    if (!status && whole && reader->draft == DRAFT_4) { /* draft 4: 1.0 is not an integer */
        uint32_t plain;
        struct error error;
        status = automaton_of_regex(&state->work, BYTES_LITERAL("-?(0|[1-9][0-9]*)"), &automaton,
                                    &error);
        if (!status) status = language_of_automaton(&state->languages, automaton, &plain);
        if (!status)
            status =
                schema_state_combine(state, AUTOMATON_AND, numbers.number, plain, &numbers.number);
    }
    if (status) return state_failed(state, status);
    return value_set_and(state, &reader->set, &numbers, &reader->set);
}

static enum status keep_strings(struct schema_reader *reader, uint32_t language) {
    struct schema_state *state = reader->state;
    return schema_state_combine(state, AUTOMATON_AND, reader->set.string, language,
                                &reader->set.string);
}

/* Adds the name of an unknown format to the list, unless it is in it. */
static enum status note_ignored(struct schema_state *state, struct bytes name) {
    struct bytes all = state->ignored;
    for (size_t at = 0; at + name.count <= all.count; at++)
        if (memcmp(all.data + at, name.data, name.count) == 0 &&
            (at == 0 || all.data[at - 1] == ' ') &&
            (at + name.count == all.count || all.data[at + name.count] == ','))
            return STATUS_OK;
    if (all.count + name.count > 1024) return STATUS_OK;
    char *text = arena_take(state->arena, all.count + name.count + 3);
    if (!text) return state_failed(state, STATUS_NO_MEMORY);
    size_t used =
        format_text(text, all.count + name.count + 3, "%.*s%s%.*s", (int)all.count,
                    all.count ? all.data : "", all.count ? ", " : "", (int)name.count, name.data);
    state->ignored = (struct bytes){text, used};
    return STATUS_OK;
}

/* Reads "format". text_format.h explains `brief`. */
static enum status read_format(struct schema_reader *reader, bool brief) {
    struct schema_state *state = reader->state;
    const struct tree *value = schema_reader_keyword(reader, "format");
    struct bytes name;
    if (!tree_get_string(value, &name)) return STATUS_OK;
    switch (text_format_find(name)) {
    case TEXT_FORMAT_UNKNOWN:
        return note_ignored(state, name);
    case TEXT_FORMAT_UNSUPPORTED:
        return state_error(state, STATUS_UNSUPPORTED, "cannot hold the format \"%.*s\"",
                           (int)(name.count < 60 ? name.count : 60), name.data);
    case TEXT_FORMAT_SUPPORTED:
        break;
    }
    uint32_t language;
    enum status status = schema_state_format(state, name, brief, &language);
    reader->set.incomplete |= text_format_is_incomplete(name, brief);
    return status ? status : keep_strings(reader, language);
}

static enum status read_strings(struct schema_reader *reader) {
    struct schema_state *state = reader->state;
    uint32_t min = 0, max = UINT32_MAX, language;
    enum status status = schema_reader_count(reader, "minLength", &min);
    if (!status) status = schema_reader_count(reader, "maxLength", &max);
    if (!status) status = read_format(reader, max > COUNTED_FAR && max != UINT32_MAX);
    const struct tree *value = status ? NULL : schema_reader_keyword(reader, "pattern");
    struct bytes pattern;
    if (!status && value && reader->set.string != LANGUAGE_NONE) {
        if (!tree_get_string(value, &pattern)) return read_wrong_kind(reader, value, "a string");
        uint32_t held;
        status = schema_state_pattern(state, pattern, &held);
        if (!status) status = keep_strings(reader, held);
    }
    if (status || (min == 0 && max == UINT32_MAX)) return status;
    state->keyword = tree_member(reader->tree, "maxLength") ? "maxLength" : "minLength";
    status = language_of_lengths(&state->languages, min, max, &language);
    if (!status)
        status = schema_state_combine(state, AUTOMATON_AND, reader->set.string, language,
                                      &reader->set.string);
    return status ? state_failed(state, status) : STATUS_OK;
}

/* True if `type` allows integers but no other numbers. */
static bool says_whole(const struct tree *type) {
    struct bytes name;
    if (tree_get_string(type, &name)) return bytes_equal(name, BYTES_LITERAL("integer"));
    bool whole = false;
    for (size_t i = 0; i < tree_count(type); i++) {
        if (!tree_get_string(tree_at(type, i), &name)) continue;
        if (bytes_equal(name, BYTES_LITERAL("number"))) return false;
        whole |= bytes_equal(name, BYTES_LITERAL("integer"));
    }
    return whole;
}

enum status schema_scalars_read_scalars(struct schema_reader *reader) {
    enum status status = STATUS_OK;
    if (reader->set.number != LANGUAGE_NONE)
        status = read_numbers(reader, says_whole(tree_member(reader->tree, "type")));
    if (!status && reader->set.string != LANGUAGE_NONE) status = read_strings(reader);
    return status;
}
