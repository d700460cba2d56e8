/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/api/api_body.h"

#include "base/check.h"
#include "base/format.h"
#include "serving/gateway/api/api_field.h"
#include "serving/gateway/api/api_inner.h"
#include "serving/gateway/api/dialect.h"

/* ---- reading ---- */

static bool read_tree(struct api_reader *reader, const struct api_field *field,
                      const struct tree *value, const struct tree **out) {
    bool array = field->kind == API_KIND_ARRAY;
    if (tree_kind(value) != (array ? TREE_ARRAY : TREE_OBJECT))
        return api_reader_wrong_type(reader, field->name, array ? "an array" : "an object", value);
    *out = value;
    return true;
}

static bool api_body_read_field(struct api_reader *reader, const struct api_field *field,
                                const struct tree *value, struct api_request *out) {
    void *member = (char *)out + field->offset;
    if (field->read) return field->read(reader, value, out);
    switch (field->kind) {
    case API_KIND_FLAG:
        return api_reader_flag(reader, reader->root, field->name, member);
    case API_KIND_NUMBER:
        return api_reader_number(reader, reader->root, field->name, field->low, field->high,
                                 member);
    case API_KIND_INTEGER:
        return api_reader_integer(reader, reader->root, field->name, (int64_t)field->low,
                                  (int64_t)field->high, member);
    case API_KIND_TEXT:
        return api_reader_text(reader, reader->root, field->name, member);
    case API_KIND_ARRAY:
    case API_KIND_OBJECT:
        return read_tree(reader, field, value, member);
    case API_KIND_ANY:
        break;
    }
    check(!"a field that is read has a kind or a reader");
    return false;
}

static bool api_body_read_all(struct api_reader *reader, struct api_request *out) {
    const struct api_field *field;
    for (size_t i = 0; (field = api_field_at(i)); i++) {
        if (!(field->dialects >> reader->dialect->number & 1)) continue;
        const struct tree *value = api_reader_given(reader->root, field->name);
        if (!value) continue;
        if (field->use == API_FIELD_READ && !api_body_read_field(reader, field, value, out))
            return false;
        bool fine = field->only ? api_reader_is_one_of(value, field->only)
                                : api_reader_is_neutral(value, field->fine);
        if (field->use == API_FIELD_REFUSED && !fine)
            return api_reader_unsupported(reader, field->name, field->words);
    }
    return true;
}

/* ---- unknown fields ---- */

/* The most bytes of a name in the warning. The rest is cut, and bytes that are not visible ASCII
 * become '?'. */
#define NAME_BYTES_MAX 40

static void api_body_write_name(struct json_writer *writer, struct bytes name) {
    for (size_t i = 0; i < name.count && i < NAME_BYTES_MAX; i++) {
        bool plain = name.data[i] > ' ' && name.data[i] < 0x7F && name.data[i] != ',';
        json_writer_bytes(writer, (struct bytes){plain ? &name.data[i] : "?", 1});
    }
    if (name.count == 0) json_writer_text(writer, "''");
    if (name.count > NAME_BYTES_MAX) json_writer_text(writer, "...");
}

struct naming { /* the names listed in the warning */
    struct api_reader *reader;
    struct json_writer writer;
    bool failed;
};

/* False: no more names can be added, for lack of space or memory. */
static bool name_unknown(void *context, const char *place, struct bytes name) {
    struct naming *naming = context;
    struct json_writer *writer = &naming->writer;
    if (!writer->out) writer->out = arena_take(naming->reader->arena, API_WARNING_BYTES_MAX);
    naming->failed = !writer->out;
    if (naming->failed) return false;
    if (writer->count + strlen(place) + NAME_BYTES_MAX + 16 > writer->room) {
        json_writer_text(writer, ", ...");
        return false;
    }
    json_writer_text(writer, writer->count ? ", " : "unknown fields: ");
    json_writer_text(writer, place);
    if (*place) json_writer_text(writer, ".");
    api_body_write_name(writer, name);
    return true;
}

/* Lists unknown fields of the top level, then of nested objects. */
static bool warn_of_unknown(struct api_reader *reader, struct api_request *out) {
    struct naming naming = {.reader = reader, .writer = {.room = API_WARNING_BYTES_MAX}};
    struct tree_cursor cursor = {0};
    struct bytes name;
    const struct tree *value;
    bool goes_on = true;
    while (goes_on && tree_next_member(reader->root, &cursor, &name, &value))
        if (!api_field_find(reader->dialect, name)) goes_on = name_unknown(&naming, "", name);
    if (goes_on) api_inner_find_unknown(reader, name_unknown, &naming);
    if (naming.failed) return api_reader_no_memory(reader);
    check(json_writer_fits(&naming.writer));
    out->warning = (struct bytes){naming.writer.out, naming.writer.count};
    return true;
}

bool api_body_read(struct api_reader *reader, struct api_request *out) {
    return api_body_read_all(reader, out) && warn_of_unknown(reader, out);
}

bool api_body_warn(struct api_reader *reader, struct api_request *out, const char *place,
                   const char *what) {
    char *text = arena_take(reader->arena, API_WARNING_BYTES_MAX);
    if (!text) return api_reader_no_memory(reader);
    struct bytes before = out->warning;
    size_t count = format_text(text, API_WARNING_BYTES_MAX, "%.*s%s%s %s", (int)before.count,
                               before.data, before.count ? "; " : "", place, what);
    if (count < API_WARNING_BYTES_MAX) out->warning = (struct bytes){text, count};
    return true;
}
