/* SPDX-License-Identifier: Apache-2.0 */
#include "host/process/log/log_line.h"

#include <stdio.h>

#include "base/check.h"
#include "base/hash.h"

#define END_ROOM 64 /* reserved for the end of a line: the pid, a brace */
#define NS_PER_S 1000000000
#define DECIMALS_MAX 9

/* va_list may be an array type, and a function cannot take the address of such a parameter. */
struct log_arguments {
    va_list list;
};

struct log_field {
    struct bytes name;
    bool is_text;
    struct bytes text;
    char digits[48];
};

const char *log_line_level_name(enum log_level level) {
    static const char *const names[LOG_LEVEL_COUNT] = {"error", "warning", "info", "debug"};
    return names[level];
}

/* ---- parts ---- */

static void put_digits(char *out, uint64_t value, int count) {
    for (int i = count; i-- > 0; value /= 10)
        out[i] = (char)('0' + value % 10);
}

/* Converts days to a date, as in "chrono-Compatible Low-Level Date Algorithms" (H. Hinnant). */
static void put_time(struct json_writer *writer, int64_t unix_ns) {
    char text[] = "0000-00-00T00:00:00.000Z";
    uint64_t ms = (uint64_t)unix_ns / 1000000, seconds = ms / 1000, in_day = seconds % 86400;
    uint64_t days = seconds / 86400 + 719468, era = days / 146097, of_era = days % 146097;
    uint64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    uint64_t of_year = of_era - (365 * year + year / 4 - year / 100);
    uint64_t month = (5 * of_year + 2) / 153, day = of_year - (153 * month + 2) / 5 + 1;
    month = month < 10 ? month + 3 : month - 9;
    put_digits(text, year + era * 400 + (month <= 2), 4);
    put_digits(text + 5, month, 2);
    put_digits(text + 8, day, 2);
    put_digits(text + 11, in_day / 3600, 2);
    put_digits(text + 14, in_day / 60 % 60, 2);
    put_digits(text + 17, in_day % 60, 2);
    put_digits(text + 20, ms % 1000, 3);
    json_writer_bytes(writer, BYTES_LITERAL(text));
}

/* The start of the fields, after the message. */
static const char *find_fields(const char *format) {
    const char *word = format;
    for (const char *at = format; *at; at++) {
        if (*at == ' ') word = at;
        if (*at == '=') return word;
    }
    return format + strlen(format);
}

static void begin(struct log_line *line, const struct log_head *head, struct bytes message) {
    struct json_writer *writer = &line->writer;
    bool json = head->form == LOG_JSON;
    *writer = (struct json_writer){line->text, LOG_LINE_BYTES - END_ROOM, 0};
    line->named_count = 0;
    line->reports_pid = false;
    line->message_bytes = (uint32_t)message.count;
    if (json) json_writer_text(writer, "{\"ts\":\"");
    put_time(writer, head->unix_ns);
    json_writer_text(writer, json ? "\",\"level\":\"" : " ");
    json_writer_text(writer, log_line_level_name(head->level));
    json_writer_text(writer, json ? "\",\"subject\":\"" : " ");
    json_writer_text(writer, head->subject);
    json_writer_text(writer, json ? "\",\"message\":\"" : "  ");
    json_writer_bytes(writer, message);
    if (json) json_writer_text(writer, "\"");
}

static void put_field(struct log_line *line, enum log_form form, const struct log_field *field);

static void end(struct log_line *line, const struct log_head *head) {
    struct json_writer *writer = &line->writer;
    writer->room = LOG_LINE_BYTES;
    if (head->pid && !line->reports_pid) {
        json_writer_text(writer, head->form == LOG_JSON ? ",\"pid\":" : " pid=");
        json_writer_integer(writer, head->pid);
    }
    json_writer_text(writer, head->form == LOG_JSON ? "}\n" : "\n");
    check(json_writer_fits(writer));
}

/* ---- values ---- */

/* Replaces bytes that a terminal or a JSON parser could misinterpret. */
static size_t make_plain(struct bytes text, char out[LOG_VALUE_BYTES]) {
    size_t count = text.count < LOG_VALUE_BYTES ? text.count : LOG_VALUE_BYTES;
    for (size_t i = 0; i < count; i++)
        out[i] = (unsigned char)text.data[i] < 0x80 ? text.data[i] : '?';
    if (count < text.count) memcpy(out + count - 3, "...", 3);
    return count;
}

static bool is_bare(struct bytes text) {
    for (size_t i = 0; i < text.count; i++)
        if (text.data[i] <= ' ' || text.data[i] == '"' || text.data[i] == '=' ||
            text.data[i] == '\\' || text.data[i] == 0x7F)
            return false;
    return true;
}

static void log_line_put_text(struct json_writer *writer, enum log_form form, struct bytes text) {
    char plain[LOG_VALUE_BYTES];
    struct bytes value = {plain, make_plain(text, plain)};
    if (form == LOG_TEXT && is_bare(value))
        json_writer_bytes(writer, value);
    else
        json_writer_string(writer, value);
}

/* True if this field names an object, so lines with different values are of different kinds. */
static bool is_naming(struct bytes name) {
    static const char *const names[] = {"unit",  "rank", "account",   "status",
                                        "limit", "job",  "connection"};
    for (size_t i = 0; i < ARRAY_COUNT(names); i++)
        if (bytes_equal(name, bytes_of(names[i]))) return true;
    return false;
}

/* Writes a field; one that does not fit is left out completely. */
static void put_field(struct log_line *line, enum log_form form, const struct log_field *field) {
    struct json_writer *writer = &line->writer;
    size_t start = writer->count;
    json_writer_text(writer, form == LOG_JSON ? ",\"" : " ");
    json_writer_bytes(writer, field->name);
    json_writer_text(writer, form == LOG_JSON ? "\":" : "=");
    if (field->is_text)
        log_line_put_text(writer, form, field->text);
    else
        json_writer_bytes(writer, field->text);
    if (!json_writer_fits(writer)) writer->count = start;
    if (writer->count == start) return;
    line->reports_pid |= bytes_equal(field->name, BYTES_LITERAL("pid"));
    if (!is_naming(field->name)) return;
    line->key = hash_bytes(line->key, field->text.data, field->text.count);
    size_t bytes = writer->count - start;
    if (line->named_count + bytes > LOG_NAMED_BYTES) return;
    memcpy(line->named + line->named_count, line->text + start, bytes);
    line->named_count += (uint32_t)bytes;
}

static void set_digits(struct log_field *field, bool negative, uint64_t whole, uint64_t part,
                       int decimals) {
    struct json_writer writer = {field->digits, sizeof field->digits, 0};
    if (negative) json_writer_text(&writer, "-");
    json_writer_unsigned(&writer, whole);
    if (decimals) {
        json_writer_text(&writer, ".");
        put_digits(field->digits + writer.count, part, decimals);
        writer.count += (size_t)decimals;
    }
    field->text = (struct bytes){field->digits, writer.count};
}

/* Takes a number; NaN and very large numbers are left out. */
static bool log_line_take_number(struct log_field *field, double value, int decimals) {
    uint64_t scale = 1;
    bool negative = value < 0;
    if (negative) value = -value;
    for (int i = 0; i < decimals; i++)
        scale *= 10;
    if (!(value < 9e18 / (double)scale)) return false;
    uint64_t scaled = (uint64_t)(value * (double)scale + 0.5);
    set_digits(field, negative && scaled, scaled / scale, scaled % scale, decimals);
    return true;
}

static bool log_line_take_text(struct log_field *field, const char *text, int bytes) {
    field->is_text = true;
    if (!text) return false;
    field->text = (struct bytes){text, bytes < 0 ? strnlen(text, LOG_VALUE_BYTES + 1)
                                                 : strnlen(text, (size_t)bytes)};
    return field->text.count > 0;
}

static void set_signed(struct log_field *field, int64_t value) {
    set_digits(field, value < 0, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, 0, 0);
}

/* Takes the value for a field's '%'. Returns false if there is nothing to print. *end_out NULL: the
 * format is unknown, and so are all further arguments. */
static bool log_line_take_value(const char *at, struct log_arguments *arguments,
                                struct log_field *field, const char **end_out) {
    int bytes = -1, decimals = 6, wide = 0;
    if (at[0] == '.' && at[1] == '*') {
        bytes = va_arg(arguments->list, int);
        at += 2;
    } else if (at[0] == '.' && at[1] >= '0' && at[1] <= '0' + DECIMALS_MAX) {
        decimals = at[1] - '0';
        at += 2;
    }
    for (; *at == 'l' || *at == 'z'; at++)
        wide++;
    *end_out = at + 1;
    switch (*at) {
    case 's':
        return log_line_take_text(field, va_arg(arguments->list, const char *), bytes);
    case 'f':
        return log_line_take_number(field, va_arg(arguments->list, double), decimals);
    case 'u':
        set_digits(field, false,
                   wide ? va_arg(arguments->list, uint64_t) : va_arg(arguments->list, unsigned), 0,
                   0);
        return true;
    case 'd':
        set_signed(field, wide ? va_arg(arguments->list, int64_t) : va_arg(arguments->list, int));
        return true;
    default:
        *end_out = NULL;
        return false;
    }
}

static void put_fields(struct log_line *line, enum log_form form, const char *at,
                       struct log_arguments *arguments) {
    while (at && *at == ' ') {
        struct log_field field = {.is_text = false};
        const char *equals = strchr(at, '=');
        if (!equals || equals[1] != '%') return;
        field.name = (struct bytes){at + 1, (size_t)(equals - at - 1)};
        if (log_line_take_value(equals + 2, arguments, &field, &at)) put_field(line, form, &field);
    }
}

/* ---- lines ---- */

void log_line_make(struct log_line *line, const struct log_head *head, const char *format,
                   va_list arguments) {
    struct log_arguments own;
    const char *fields = find_fields(format);
    const struct bytes message = {format, (size_t)(fields - format)};
    begin(line, head, message);
    line->key = hash_bytes((uint64_t)head->level, head->subject, strlen(head->subject));
    line->key = hash_bytes(line->key, message.data, message.count);
    va_copy(own.list, arguments);
    put_fields(line, head->form, fields, &own);
    va_end(own.list);
    end(line, head);
}

void log_line_make_more(struct log_line *line, const struct log_head *head, struct bytes message,
                        struct bytes named, uint64_t more, double seconds) {
    struct log_field count = {.name = BYTES_LITERAL("more")};
    struct log_field time = {.name = BYTES_LITERAL("seconds")};
    begin(line, head, message);
    json_writer_bytes(&line->writer, named);
    set_digits(&count, false, more, 0, 0);
    put_field(line, head->form, &count);
    if (seconds > 0 && log_line_take_number(&time, seconds, 1)) put_field(line, head->form, &time);
    end(line, head);
}
