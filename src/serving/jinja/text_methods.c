/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/jinja/text_methods.h"

#include "base/check.h"
#include "base/unicode.h"
#include "base/utf8.h"
#include "serving/jinja/braces.h"
#include "serving/jinja/letters.h"
#include "serving/jinja/markup.h"
#include "serving/jinja/pieces.h"
#include "serving/jinja/routine.h"

static const struct value_text space = {
    .data = " ", .count = 1, .length = 1, .origin = VALUE_TRUSTED};

/* ---- case and kinds of characters ---- */

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

/* isalnum, isalpha, isdigit, islower, isspace, isupper */
static bool text_methods_ask(struct jinja_machine *machine, const struct call *call,
                             struct value *out) {
    const struct value_text *text = call->subject.text;
    const char *what = call->routine->name + 2;
    if (!machine_spend(machine, text->count / 16)) return false;
    bool upper = what[0] == 'u', of_case = upper || what[0] == 'l';
    return routine_answer(out, of_case ? letters_are_of_case(text, upper)
                                       : letters_are(text, what[0] == 's'   ? unicode_is_space
                                                           : what[0] == 'd' ? unicode_is_digit
                                                           : what[2] == 'n' ? unicode_is_alnum
                                                                            : unicode_is_alpha));
}

/* ---- searching ---- */

/* The part that the two last arguments choose, in bytes. */
static bool text_methods_read_range(struct jinja_machine *machine, const struct call *call,
                                    size_t *start, size_t *end, bool *exists) {
    int64_t from, to;
    if (!routine_end(machine, call, 1, 0, &from) || !routine_end(machine, call, 2, INT64_MAX, &to))
        return false;
    *exists = pieces_range(call->subject.text, from, to, start, end);
    return machine_spend(machine, call->subject.text->count / 64);
}

/* find, rfind, index, rindex */
static bool find(struct jinja_machine *machine, const struct call *call, struct value *out) {
    const struct value_text *text = call->subject.text, *needle;
    bool exists, last = call->routine->name[0] == 'r';
    size_t start, end, found = PIECES_NONE;
    if (!routine_text(machine, call, 0, NULL, &needle) ||
        !text_methods_read_range(machine, call, &start, &end, &exists))
        return false;
    if (exists)
        found = last ? pieces_find_last(machine, text, start, end, needle)
                     : pieces_find(text, start, end, needle);
    if (machine->status != STATUS_OK) return false;
    if (found == PIECES_NONE && !strstr(call->routine->name, "find"))
        return machine_fail(machine, "substring not found");
    *out = value_integer(found == PIECES_NONE ? -1 : (int64_t)pieces_character(text, found));
    return true;
}

static bool text_methods_count(struct jinja_machine *machine, const struct call *call,
                               struct value *out) {
    const struct value_text *text = call->subject.text, *needle;
    bool exists;
    size_t start, end;
    int64_t found = 0;
    if (!routine_text(machine, call, 0, NULL, &needle) ||
        !text_methods_read_range(machine, call, &start, &end, &exists))
        return false;
    if (exists && needle->count == 0)
        found = (int64_t)utf8_count((struct bytes){text->data + start, end - start}) + 1;
    while (exists && needle->count > 0) {
        start = pieces_find(text, start, end, needle);
        if (start == PIECES_NONE) break;
        start += needle->count;
        found++;
    }
    *out = value_integer(found);
    return true;
}

static bool has_at_end(const struct value_text *text, size_t start, size_t end,
                       const struct value_text *part, bool first) {
    if (part->count > end - start) return false;
    const char *at = text->data + (first ? start : end - part->count);
    return part->count == 0 || memcmp(at, part->data, part->count) == 0;
}

/* startswith, endswith */
static bool has_end(struct jinja_machine *machine, const struct call *call, struct value *out) {
    const struct value *part = &call->arguments[0];
    bool exists, first = call->routine->name[0] == 's', found = false;
    size_t start, end;
    if (!text_methods_read_range(machine, call, &start, &end, &exists)) return false;
    bool several = part->kind == VALUE_TUPLE;
    uint32_t parts = several ? part->list->count : 1;
    for (uint32_t i = 0; i < parts && !found; i++) {
        const struct value *each = several ? &part->list->items[i] : part;
        if (each->kind != VALUE_TEXT)
            return machine_fail(machine, "%s first arg must be str or a tuple of str, not %s",
                                call->routine->name, value_type_name(each));
        found = exists && has_at_end(call->subject.text, start, end, each->text, first);
    }
    return routine_answer(out, found);
}

/* ---- cutting ---- */

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

/* partition, rpartition */
static bool partition(struct jinja_machine *machine, const struct call *call, struct value *out) {
    const struct value_text *text = call->subject.text, *mark;
    bool last = call->routine->name[0] == 'r';
    if (!routine_text(machine, call, 0, NULL, &mark)) return false;
    if (mark->count == 0) return machine_fail(machine, "empty separator");
    if (!machine_spend(machine, text->count / 64)) return false;
    size_t at = last ? pieces_find_last(machine, text, 0, text->count, mark)
                     : pieces_find(text, 0, text->count, mark);
    if (machine->status != STATUS_OK) return false;
    size_t behind = at + mark->count;
    if (at == PIECES_NONE) at = behind = last ? 0 : text->count;
    if (!value_make_list(machine, VALUE_TUPLE, 3, out)) return false;
    struct value *items = out->list->items;
    out->list->count = 3;
    return value_make_part(machine, text, 0, at, &items[0]) &&
           value_make_part(machine, text, at, behind - at, &items[1]) &&
           value_make_part(machine, text, behind, text->count - behind, &items[2]);
}

/* removeprefix, removesuffix */
static bool remove_end(struct jinja_machine *machine, const struct call *call, struct value *out) {
    const struct value_text *text = call->subject.text, *part;
    bool first = call->routine->name[6] == 'p';
    if (!routine_text(machine, call, 0, NULL, &part)) return false;
    size_t cut = has_at_end(text, 0, text->count, part, first) ? part->count : 0;
    return value_make_part(machine, text, first ? cut : 0, text->count - cut, out);
}

/* ---- joining, filling ---- */

static bool text_methods_join(struct jinja_machine *machine, const struct call *call,
                              struct value *out) {
    const struct value_text *mark = call->subject.text;
    struct text_builder builder;
    struct iteration iteration;
    struct value item;
    bool more = true;
    jinja_machine_text_builder_open(&builder, machine);
    if (!value_access_iteration_open(machine, &call->arguments[0], &iteration)) return false;
    for (uint64_t i = 0;; i++) {
        if (!machine_spend(machine, 1) ||
            !value_access_iteration_next(machine, &iteration, &item, &more))
            return false;
        if (!more) break;
        if (i && !jinja_machine_text_builder_add_text(&builder, mark)) return false;
        if (mark->markup) {
            if (!markup_add(&builder, &item)) return false;
        } else if (item.kind != VALUE_TEXT) {
            return machine_fail(machine, "sequence item %llu: expected str instance, %s found",
                                (unsigned long long)i, value_type_name(&item));
        } else if (!jinja_machine_text_builder_add_text(&builder, item.text)) {
            return false;
        }
    }
    return jinja_machine_text_builder_finish(&builder, mark->markup, out);
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

/* center, ljust, rjust */
static bool justify(struct jinja_machine *machine, const struct call *call, struct value *out) {
    const struct value_text *text = call->subject.text, *fill;
    struct text_builder builder;
    int64_t width, left;
    char side = call->routine->name[0];
    if (!routine_integer(machine, call, 0, 0, &width) ||
        !routine_text(machine, call, 1, &space, &fill) || !markup_fit(machine, text, fill, &fill))
        return false;
    if (fill->length != 1)
        return machine_fail(machine, "The fill character must be exactly one character long");
    int64_t padding = width > text->length ? width - text->length : 0;
    left = side == 'l' ? 0 : side == 'r' ? padding : padding / 2 + (padding & width & 1);
    jinja_machine_text_builder_open(&builder, machine);
    return pieces_fill(&builder, fill, left) &&
           jinja_machine_text_builder_add_text(&builder, text) &&
           pieces_fill(&builder, fill, padding - left) &&
           jinja_machine_text_builder_finish(&builder, text->markup, out);
}

static bool zfill(struct jinja_machine *machine, const struct call *call, struct value *out) {
    static const struct value_text zero = {.data = "0", .count = 1, .length = 1};
    const struct value_text *text = call->subject.text;
    struct text_builder builder;
    int64_t width;
    if (!routine_integer(machine, call, 0, 0, &width)) return false;
    size_t sign = text->count && (text->data[0] == '+' || text->data[0] == '-');
    jinja_machine_text_builder_open(&builder, machine);
    return jinja_machine_text_builder_add_part(&builder, text, 0, sign) &&
           pieces_fill(&builder, &zero, width > text->length ? width - text->length : 0) &&
           jinja_machine_text_builder_add_part(&builder, text, sign, text->count - sign) &&
           jinja_machine_text_builder_finish(&builder, text->markup, out);
}

static bool expandtabs(struct jinja_machine *machine, const struct call *call, struct value *out) {
    const struct value_text *text = call->subject.text;
    struct text_builder builder;
    int64_t stop, column = 0;
    size_t start = 0;
    if (!routine_integer(machine, call, 0, 8, &stop) || !machine_spend(machine, text->count / 16))
        return false;
    jinja_machine_text_builder_open(&builder, machine);
    for (size_t at = 0; at < text->count; at++) {
        char c = text->data[at];
        if (c == '\t') {
            int64_t gap = stop > 0 ? stop - column % stop : 0;
            column += gap;
            if (!jinja_machine_text_builder_add_part(&builder, text, start, at - start) ||
                !pieces_fill(&builder, &space, gap))
                return false;
            start = at + 1;
        } else if (c == '\n' || c == '\r') {
            column = 0;
        } else {
            column += ((uint8_t)c & 0xC0) != 0x80;
        }
    }
    return jinja_machine_text_builder_add_part(&builder, text, start, text->count - start) &&
           jinja_machine_text_builder_finish(&builder, text->markup, out);
}

static bool text_methods_format(struct jinja_machine *machine, const struct call *call,
                                struct value *out) {
    return braces_format(machine, call->subject.text,
                         &(struct braces_values){.values = call->rest,
                                                 .value_count = call->rest_count,
                                                 .named = call->named,
                                                 .named_count = call->named_count},
                         out);
}

static bool format_map(struct jinja_machine *machine, const struct call *call, struct value *out) {
    return braces_format(machine, call->subject.text,
                         &(struct braces_values){.mapping = &call->arguments[0]}, out);
}

/* ---- of Markup alone ---- */

static bool check_markup(struct jinja_machine *machine, const struct call *call) {
    if (call->subject.text->markup) return true;
    return machine_fail(machine, "'str object' has no attribute '%s'", call->routine->name);
}

static bool text_methods_escape(struct jinja_machine *machine, const struct call *call,
                                struct value *out) {
    return check_markup(machine, call) && markup_value_escape(machine, &call->arguments[0], out);
}

#define SEARCH                                                                                     \
    { "sub", "start", "end" }

static const struct routine rows[] = {
    {.name = "strip", .run = text_methods_strip, .parameters = {"chars"}, .nameless = true},
    {.name = "split", .run = text_methods_split, .parameters = {"sep", "maxsplit"}},
    {.name = "startswith", .run = has_end, .parameters = SEARCH, .required = 1, .nameless = true},
    {.name = "endswith", .run = has_end, .parameters = SEARCH, .required = 1, .nameless = true},
    {.name = "replace",
     .run = text_methods_replace,
     .parameters = {"old", "new", "count"},
     .required = 2,
     .nameless = true},
    {.name = "rstrip", .run = text_methods_strip, .parameters = {"chars"}, .nameless = true},
    {.name = "lstrip", .run = text_methods_strip, .parameters = {"chars"}, .nameless = true},
    {.name = "find", .run = find, .parameters = SEARCH, .required = 1, .nameless = true},
    {.name = "join",
     .run = text_methods_join,
     .parameters = {"iterable"},
     .required = 1,
     .nameless = true},
    {.name = "format", .run = text_methods_format, .rest = true, .named = true},
    {.name = "rsplit", .run = text_methods_split, .parameters = {"sep", "maxsplit"}},
    {.name = "rfind", .run = find, .parameters = SEARCH, .required = 1, .nameless = true},
    {.name = "count",
     .run = text_methods_count,
     .parameters = SEARCH,
     .required = 1,
     .nameless = true},
    {.name = "index", .run = find, .parameters = SEARCH, .required = 1, .nameless = true},
    {.name = "rindex", .run = find, .parameters = SEARCH, .required = 1, .nameless = true},
    {.name = "splitlines", .run = splitlines, .parameters = {"keepends"}},
    {.name = "partition", .run = partition, .parameters = {"sep"}, .required = 1, .nameless = true},
    {.name = "rpartition",
     .run = partition,
     .parameters = {"sep"},
     .required = 1,
     .nameless = true},
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
    {.name = "center",
     .run = justify,
     .parameters = {"width", "fillchar"},
     .required = 1,
     .nameless = true},
    {.name = "ljust",
     .run = justify,
     .parameters = {"width", "fillchar"},
     .required = 1,
     .nameless = true},
    {.name = "rjust",
     .run = justify,
     .parameters = {"width", "fillchar"},
     .required = 1,
     .nameless = true},
    {.name = "zfill", .run = zfill, .parameters = {"width"}, .required = 1, .nameless = true},
    {.name = "expandtabs", .run = expandtabs, .parameters = {"tabsize"}},
    {.name = "format_map",
     .run = format_map,
     .parameters = {"mapping"},
     .required = 1,
     .nameless = true},
    {.name = "escape",
     .run = text_methods_escape,
     .parameters = {"s"},
     .required = 1,
     .nameless = true},
    {.name = "isalnum", .run = text_methods_ask},
    {.name = "isalpha", .run = text_methods_ask},
    {.name = "isdigit", .run = text_methods_ask},
    {.name = "islower", .run = text_methods_ask},
    {.name = "isspace", .run = text_methods_ask},
    {.name = "isupper", .run = text_methods_ask},
    {.name = "isascii", .refused = "str.isascii() is not supported"},
    {.name = "isdecimal", .refused = "str.isdecimal() is not supported: isdigit() is"},
    {.name = "isidentifier", .refused = "str.isidentifier() is not supported"},
    {.name = "isnumeric", .refused = "str.isnumeric() is not supported: isdigit() is"},
    {.name = "isprintable", .refused = "str.isprintable() is not supported"},
    {.name = "istitle", .refused = "str.istitle() is not supported"},
    {.name = "swapcase", .refused = "str.swapcase() is not supported"},
    {.name = "casefold", .refused = "str.casefold() is not supported: lower() is"},
    {.name = "striptags", .refused = "the method striptags is not supported: it is for web pages"},
    {.name = "unescape", .refused = "the method unescape is not supported: it is for web pages"},
    {.name = "encode", .refused = "str.encode() is not supported: templates write text"},
    {.name = "translate", .refused = "str.translate() is not supported"},
    {.name = "maketrans", .refused = "str.maketrans() is not supported"},
};

const struct routine *text_methods_find(struct bytes name) {
    const struct routine *row = routine_find(rows, ARRAY_COUNT(rows), name);
    return row ? row : routine_find(change_rows, ARRAY_COUNT(change_rows), name);
}
