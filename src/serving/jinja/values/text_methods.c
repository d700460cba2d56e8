/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/jinja/values/text_methods.h"

#include "base/check.h"
#include "base/utf8.h"
#include "serving/jinja/values/letters.h"
#include "serving/jinja/values/markup.h"
#include "serving/jinja/values/pieces.h"
#include "serving/jinja/values/routine.h"
#include "serving/jinja/values/text_fill.h"

/* ---- case ---- */

static bool change(struct jinja_machine *machine, const struct call *call, struct value *out);

static const struct routine change_rows[] = {
    [LETTERS_UPPER] = {.name = "upper", .run = change},
    [LETTERS_LOWER] = {.name = "lower", .run = change},
    [LETTERS_CAPITALIZE] = {.name = "capitalize", .run = change},
    [LETTERS_TITLE] = {.name = "title", .run = change},
};

static bool change(struct jinja_machine *machine, const struct call *call, struct value *out) {
    return letters_change(machine, call->subject.text,
                          (enum letters_change)(call->routine - change_rows), out);
}

/* ---- searching ---- */

/* find, rfind */
static bool find(struct jinja_machine *machine, const struct call *call, struct value *out) {
    const struct value_text *text = call->subject.text, *needle;
    bool last = call->routine->name[0] == 'r';
    if (!routine_text(machine, call, 0, NULL, &needle) || !machine_spend(machine, text->count / 64))
        return false;
    size_t found = last ? pieces_find_last(machine, text, 0, text->count, needle)
                        : pieces_find(text, 0, text->count, needle);
    if (machine->status != STATUS_OK) return false;
    *out = value_integer(found == PIECES_NONE ? -1 : (int64_t)pieces_character(text, found));
    return true;
}

static bool has_at_end(const struct value_text *text, const struct value_text *part, bool first) {
    if (part->count > text->count) return false;
    const char *at = text->data + (first ? 0 : text->count - part->count);
    return part->count == 0 || memcmp(at, part->data, part->count) == 0;
}

/* startswith, endswith */
static bool has_end(struct jinja_machine *machine, const struct call *call, struct value *out) {
    const struct value *part = &call->arguments[0];
    bool first = call->routine->name[0] == 's', found = false;
    const struct value_text *text = call->subject.text;
    bool several = part->kind == VALUE_TUPLE;
    uint32_t parts = several ? part->list->count : 1;
    for (uint32_t i = 0; i < parts && !found; i++) {
        const struct value *each = several ? &part->list->items[i] : part;
        if (each->kind != VALUE_TEXT)
            return machine_fail(machine, "%s first arg must be str or a tuple of str, not %s",
                                call->routine->name, value_type_name(each));
        found = has_at_end(text, each->text, first);
    }
    return routine_answer(out, found);
}

/* ---- stripping and splitting ---- */

/* strip, lstrip, rstrip */
static bool text_methods_strip(struct jinja_machine *machine, const struct call *call,
                               struct value *out) {
    const struct value_text *text = call->subject.text, *set = NULL;
    size_t start = 0, end = text->count;
    char side = call->routine->name[0];
    if (routine_reported(call, 0) && !routine_text(machine, call, 0, NULL, &set)) return false;
    pieces_strip(text, set, side != 'r', side != 'l', &start, &end);
    return machine_spend(machine, (text->count - (end - start)) / 16) &&
           value_make_part(machine, text, start, end - start, out);
}

/* split, rsplit */
static bool text_methods_split(struct jinja_machine *machine, const struct call *call,
                               struct value *out) {
    const struct value_text *mark = NULL;
    int64_t most;
    if (routine_reported(call, 0) && !routine_text(machine, call, 0, NULL, &mark)) return false;
    return routine_integer(machine, call, 1, -1, &most) &&
           pieces_split(machine, call->subject.text, mark, most, call->routine->name[0] == 'r',
                        out);
}

static bool splitlines(struct jinja_machine *machine, const struct call *call, struct value *out) {
    bool keep;
    return routine_switch(machine, call, 0, &keep) &&
           pieces_lines(machine, call->subject.text, keep, out);
}

/* removeprefix, removesuffix */
static bool remove_end(struct jinja_machine *machine, const struct call *call, struct value *out) {
    const struct value_text *text = call->subject.text, *part;
    bool first = call->routine->name[6] == 'p';
    if (!routine_text(machine, call, 0, NULL, &part)) return false;
    size_t cut = has_at_end(text, part, first) ? part->count : 0;
    return value_make_part(machine, text, first ? cut : 0, text->count - cut, out);
}

/* ---- joining and formatting ---- */

static bool text_methods_join(struct jinja_machine *machine, const struct call *call,
                              struct value *out) {
    const struct value_text *mark = call->subject.text;
    struct text_builder builder;
    struct iteration iteration;
    struct value item;
    bool more = true;
    text_builder_open(&builder, machine);
    if (!value_access_iteration_open(machine, &call->arguments[0], &iteration)) return false;
    for (uint64_t i = 0;; i++) {
        if (!machine_spend(machine, 1) ||
            !value_access_iteration_next(machine, &iteration, &item, &more))
            return false;
        if (!more) break;
        if (i && !text_builder_add_text(&builder, mark)) return false;
        if (mark->markup) {
            if (!markup_add(&builder, &item)) return false;
        } else if (item.kind != VALUE_TEXT) {
            return machine_fail(machine, "sequence item %llu: expected str instance, %s found",
                                (unsigned long long)i, value_type_name(&item));
        } else if (!text_builder_add_text(&builder, item.text)) {
            return false;
        }
    }
    return text_builder_finish(&builder, mark->markup, out);
}

static bool text_methods_replace(struct jinja_machine *machine, const struct call *call,
                                 struct value *out) {
    const struct value_text *text = call->subject.text, *old, *fresh;
    int64_t most;
    return routine_text(machine, call, 0, NULL, &old) &&
           routine_text(machine, call, 1, NULL, &fresh) &&
           routine_integer(machine, call, 2, -1, &most) &&
           markup_fit(machine, text, fresh, &fresh) &&
           pieces_replace(machine, text, old, fresh, most, text->markup, out);
}

static bool text_methods_format(struct jinja_machine *machine, const struct call *call,
                                struct value *out) {
    return text_fill_braces(machine, call->subject.text, call, out);
}

#define REFUSED(method)                                                                            \
    { .name = method, .refused = "the method " method "() of str is not supported" }

static const struct routine rows[] = {
    {.name = "strip", .run = text_methods_strip, .parameters = {"chars"}, .nameless = true},
    {.name = "split", .run = text_methods_split, .parameters = {"sep", "maxsplit"}},
    {.name = "startswith", .run = has_end, .parameters = {"sub"}, .required = 1, .nameless = true},
    {.name = "endswith", .run = has_end, .parameters = {"sub"}, .required = 1, .nameless = true},
    {.name = "replace",
     .run = text_methods_replace,
     .parameters = {"old", "new", "count"},
     .required = 2,
     .nameless = true},
    {.name = "rstrip", .run = text_methods_strip, .parameters = {"chars"}, .nameless = true},
    {.name = "lstrip", .run = text_methods_strip, .parameters = {"chars"}, .nameless = true},
    {.name = "find", .run = find, .parameters = {"sub"}, .required = 1, .nameless = true},
    {.name = "join",
     .run = text_methods_join,
     .parameters = {"iterable"},
     .required = 1,
     .nameless = true},
    {.name = "format", .run = text_methods_format, .rest = true, .named = true},
    {.name = "rsplit", .run = text_methods_split, .parameters = {"sep", "maxsplit"}},
    {.name = "rfind", .run = find, .parameters = {"sub"}, .required = 1, .nameless = true},
    {.name = "splitlines", .run = splitlines, .parameters = {"keepends"}},
    {.name = "removeprefix",
     .run = remove_end,
     .parameters = {"prefix"},
     .required = 1,
     .nameless = true},
    {.name = "removesuffix",
     .run = remove_end,
     .parameters = {"suffix"},
     .required = 1,
     .nameless = true},
};

static const struct routine refused_rows[] = {
    REFUSED("casefold"),    REFUSED("center"),       REFUSED("count"),      REFUSED("encode"),
    REFUSED("escape"),      REFUSED("expandtabs"),   REFUSED("format_map"), REFUSED("index"),
    REFUSED("isalnum"),     REFUSED("isalpha"),      REFUSED("isascii"),    REFUSED("isdecimal"),
    REFUSED("isdigit"),     REFUSED("isidentifier"), REFUSED("islower"),    REFUSED("isnumeric"),
    REFUSED("isprintable"), REFUSED("isspace"),      REFUSED("istitle"),    REFUSED("isupper"),
    REFUSED("ljust"),       REFUSED("maketrans"),    REFUSED("partition"),  REFUSED("rindex"),
    REFUSED("rjust"),       REFUSED("rpartition"),   REFUSED("striptags"),  REFUSED("swapcase"),
    REFUSED("translate"),   REFUSED("unescape"),     REFUSED("zfill")};

const struct routine *text_methods_find(struct bytes name) {
    const struct routine *row = routine_find(rows, ARRAY_COUNT(rows), name);
    if (!row) row = routine_find(change_rows, ARRAY_COUNT(change_rows), name);
    return row ? row : routine_find(refused_rows, ARRAY_COUNT(refused_rows), name);
}
