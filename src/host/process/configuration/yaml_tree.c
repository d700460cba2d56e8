/* SPDX-License-Identifier: Apache-2.0
 * Builds the tree from libyaml's events. Only values within mappings and sequences cause recursion,
 * and its depth is limited.
 */
#include "host/process/configuration/yaml_tree.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/file.h"
#include "base/real.h"

struct yaml_reading {
    yaml_parser_t parser;
    yaml_event_t event; /* the current one */
    struct arena *arena;
    const char *name;
    bool words; /* every scalar is a string; an empty text has no root */
    struct error *error;
};

static enum status refuse(const struct yaml_reading *reading, const char *what, struct bytes text) {
    return error_set(reading->error, STATUS_INVALID, "%.200s, line %zu: %s%s%.*s", reading->name,
                     reading->event.start_mark.line + 1, what, text.count ? ": " : "",
                     (int)(text.count < 80 ? text.count : 80), text.count ? text.data : "");
}

static enum status yaml_tree_lack_memory(const struct yaml_reading *reading) {
    return error_set(reading->error, STATUS_NO_MEMORY, "%.200s: not enough memory for its values",
                     reading->name);
}

/* Replaces the current event by the next one. */
static enum status yaml_tree_advance(struct yaml_reading *reading) {
    yaml_event_delete(&reading->event);
    if (yaml_parser_parse(&reading->parser, &reading->event)) return STATUS_OK;
    const yaml_parser_t *parser = &reading->parser;
    if (parser->error == YAML_MEMORY_ERROR) return yaml_tree_lack_memory(reading);
    return error_set(reading->error, STATUS_INVALID, "%.200s, line %zu: not valid YAML: %s",
                     reading->name, parser->problem_mark.line + 1,
                     parser->problem ? parser->problem : "it does not end");
}

/* ---- scalars ---- */

static bool yaml_tree_is_one_of(struct bytes text, const char *const *words) {
    for (; *words; words++)
        if (bytes_equal(text, bytes_of(*words))) return true;
    return false;
}

/* The base of an integer, and the length of its prefix. */
static int yaml_tree_base_of(struct bytes text, size_t *skipped_out) {
    bool marked = text.count > 2 && text.data[0] == '0';
    *skipped_out = marked && (text.data[1] == 'o' || text.data[1] == 'x') ? 2 : 0;
    if (!*skipped_out) return 10;
    return text.data[1] == 'o' ? 8 : 16;
}

static int yaml_tree_digit_of(char letter) {
    if (letter >= '0' && letter <= '9') return letter - '0';
    if (letter >= 'a' && letter <= 'f') return letter - 'a' + 10;
    if (letter >= 'A' && letter <= 'F') return letter - 'A' + 10;
    return 16;
}

/* Returns false if the text is no integer of 64 bits. */
static bool read_integer(struct bytes text, int64_t *out) {
    size_t at;
    int base = yaml_tree_base_of(text, &at);
    bool negative = at == 0 && text.count && text.data[0] == '-';
    int64_t value = 0;
    if (at == 0 && text.count && (negative || text.data[0] == '+')) at = 1;
    if (at == text.count) return false;
    for (; at < text.count; at++) {
        int digit = yaml_tree_digit_of(text.data[at]);
        if (digit >= base || __builtin_mul_overflow(value, base, &value) ||
            __builtin_add_overflow(value, digit, &value))
            return false;
    }
    *out = negative ? -value : value;
    return true;
}

static enum status yaml_tree_read_plain(struct yaml_reading *reading, struct bytes text,
                                        const struct tree **value_out) {
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const truths[] = {"true", "True", "TRUE", NULL};
    static const char *const lies[] = {"false", "False", "FALSE", NULL};
    static const char *const endless[] = {".inf",  ".Inf",  ".INF",  "-.inf", "-.Inf",
                                          "-.INF", "+.inf", "+.Inf", "+.INF", ".nan",
                                          ".NaN",  ".NAN",  NULL};
    int64_t integer;
    double real;
    if (yaml_tree_is_one_of(text, endless))
        return refuse(reading, "expected a finite number", text);
    if (yaml_tree_is_one_of(text, nulls)) {
        *value_out = tree_make_null();
    } else if (yaml_tree_is_one_of(text, truths) || yaml_tree_is_one_of(text, lies)) {
        *value_out = tree_make_bool(yaml_tree_is_one_of(text, truths));
    } else if ((*value_out = tree_make_number(reading->arena, text))) {
        return STATUS_OK;
    } else if (read_integer(text, &integer)) {
        *value_out = tree_make_integer(reading->arena, integer);
    } else if (real_read(text, &real)) {
        if (isinf(real)) return refuse(reading, "expected a smaller number", text);
        *value_out = tree_make_real(reading->arena, real);
    } else {
        *value_out = tree_make_string(reading->arena, text);
    }
    return *value_out ? STATUS_OK : yaml_tree_lack_memory(reading);
}

static struct bytes yaml_tree_text_of(const yaml_event_t *event) {
    return (struct bytes){(const char *)event->data.scalar.value, event->data.scalar.length};
}

static enum status read_scalar(struct yaml_reading *reading, const struct tree **value_out) {
    struct bytes text = yaml_tree_text_of(&reading->event);
    if (reading->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE && !reading->words)
        return yaml_tree_read_plain(reading, text, value_out);
    *value_out = tree_make_string(reading->arena, text);
    return *value_out ? STATUS_OK : yaml_tree_lack_memory(reading);
}

/* ---- mappings and sequences ---- */

static enum status yaml_tree_read_value(struct yaml_reading *reading, uint32_t depth,
                                        const struct tree **value_out);

/* Copies a key to the arena. */
static enum status yaml_tree_read_key(struct yaml_reading *reading, const struct tree *object,
                                      const char **key_out) {
    if (reading->event.type != YAML_SCALAR_EVENT)
        return refuse(reading, "expected a text as the key", (struct bytes){NULL, 0});
    struct bytes text = yaml_tree_text_of(&reading->event);
    if (reading->event.data.scalar.anchor || reading->event.data.scalar.tag)
        return refuse(reading, "anchors and tags are not read", text);
    if (text.count && memchr(text.data, 0, text.count))
        return refuse(reading, "expected a key without a zero byte", (struct bytes){NULL, 0});
    struct bytes key = arena_copy(reading->arena, text);
    if (!key.data) return yaml_tree_lack_memory(reading);
    if (tree_member(object, key.data)) return refuse(reading, "the key stands here twice", text);
    *key_out = key.data;
    return STATUS_OK;
}

static enum status read_mapping(struct yaml_reading *reading, uint32_t depth,
                                const struct tree **value_out) {
    struct tree *object = tree_make_object(reading->arena);
    const struct tree *value;
    const char *key;
    enum status status = object ? yaml_tree_advance(reading) : yaml_tree_lack_memory(reading);
    while (!status && reading->event.type != YAML_MAPPING_END_EVENT) {
        status = yaml_tree_read_key(reading, object, &key);
        if (!status) status = yaml_tree_advance(reading);
        if (!status) status = yaml_tree_read_value(reading, depth, &value);
        if (!status && !tree_set(reading->arena, object, key, value))
            status = yaml_tree_lack_memory(reading);
        if (!status) status = yaml_tree_advance(reading);
    }
    *value_out = object;
    return status;
}

static enum status yaml_tree_read_sequence(struct yaml_reading *reading, uint32_t depth,
                                           const struct tree **value_out) {
    struct tree *array = tree_make_array(reading->arena);
    const struct tree *value;
    enum status status = array ? yaml_tree_advance(reading) : yaml_tree_lack_memory(reading);
    while (!status && reading->event.type != YAML_SEQUENCE_END_EVENT) {
        status = yaml_tree_read_value(reading, depth, &value);
        if (!status && !tree_append(reading->arena, array, value))
            status = yaml_tree_lack_memory(reading);
        if (!status) status = yaml_tree_advance(reading);
    }
    *value_out = array;
    return status;
}

/* Parses the value that begins with the current event, up to its last event. */
static enum status yaml_tree_read_value(struct yaml_reading *reading, uint32_t depth,
                                        const struct tree **value_out) {
    const yaml_event_t *event = &reading->event;
    const struct bytes none = {NULL, 0};
    if (depth == YAML_TREE_DEPTH_MAX)
        return error_set(reading->error, STATUS_TOO_LARGE, "%.200s, line %zu: more than %d levels",
                         reading->name, event->start_mark.line + 1, YAML_TREE_DEPTH_MAX);
    if (event->type == YAML_ALIAS_EVENT) return refuse(reading, "aliases are not read", none);
    if (event->type == YAML_SCALAR_EVENT) {
        if (event->data.scalar.anchor || event->data.scalar.tag)
            return refuse(reading, "anchors and tags are not read", yaml_tree_text_of(event));
        return read_scalar(reading, value_out);
    }
    if (event->type == YAML_MAPPING_START_EVENT) {
        if (event->data.mapping_start.anchor || event->data.mapping_start.tag)
            return refuse(reading, "anchors and tags are not read", none);
        return read_mapping(reading, depth + 1, value_out);
    }
    if (event->type == YAML_SEQUENCE_START_EVENT) {
        if (event->data.sequence_start.anchor || event->data.sequence_start.tag)
            return refuse(reading, "anchors and tags are not read", none);
        return yaml_tree_read_sequence(reading, depth + 1, value_out);
    }
    return refuse(reading, "expected a value", none);
}

/* Parses one document and the end of the text. */
static enum status read_document(struct yaml_reading *reading, const struct tree **root_out) {
    enum status status = yaml_tree_advance(reading); /* start of the stream */
    if (!status) status = yaml_tree_advance(reading);
    if (!status && reading->event.type == YAML_STREAM_END_EVENT && reading->words) return STATUS_OK;
    if (!status && reading->event.type == YAML_STREAM_END_EVENT)
        return refuse(reading, "there is nothing in it", (struct bytes){NULL, 0});
    if (!status) status = yaml_tree_advance(reading);
    if (!status) status = yaml_tree_read_value(reading, 0, root_out);
    if (!status) status = yaml_tree_advance(reading); /* end of the document */
    if (!status) status = yaml_tree_advance(reading);
    if (!status && reading->event.type != YAML_STREAM_END_EVENT)
        return refuse(reading, "expected one document", (struct bytes){NULL, 0});
    return status;
}

static enum status yaml_tree_parse_each(struct arena *arena, struct bytes text, const char *name,
                                        bool words, const struct tree **root_out,
                                        struct error *error) {
    struct yaml_reading reading = {.arena = arena, .name = name, .words = words, .error = error};
    const struct tree *root = NULL;
    if (text.count > YAML_TREE_BYTES_MAX)
        return error_set(error, STATUS_TOO_LARGE, "%.200s: more than %zu MiB of YAML", name,
                         YAML_TREE_BYTES_MAX >> 20);
    if (!yaml_parser_initialize(&reading.parser)) return yaml_tree_lack_memory(&reading);
    yaml_parser_set_input_string(&reading.parser,
                                 (const unsigned char *)(text.data ? text.data : ""), text.count);
    yaml_parser_set_encoding(&reading.parser, YAML_UTF8_ENCODING);
    enum status status = read_document(&reading, &root);
    yaml_event_delete(&reading.event);
    yaml_parser_delete(&reading.parser);
    if (!status) *root_out = root;
    return status;
}

enum status yaml_tree_parse(struct arena *arena, struct bytes text, const char *name,
                            const struct tree **root_out, struct error *error) {
    return yaml_tree_parse_each(arena, text, name, false, root_out, error);
}

enum status yaml_tree_parse_words(struct arena *arena, struct bytes text, const char *name,
                                  const struct tree **root_out, struct error *error) {
    return yaml_tree_parse_each(arena, text, name, true, root_out, error);
}

enum status yaml_tree_read(struct arena *arena, const char *path, const struct tree **root_out,
                           struct error *error) {
    struct bytes text;
    enum status status = file_take(path, YAML_TREE_BYTES_MAX, &text, error);
    if (status) return status;
    status = yaml_tree_parse(arena, text, path, root_out, error);
    free((void *)(uintptr_t)text.data);
    return status;
}
