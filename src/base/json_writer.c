/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_writer.h"

#include <stdarg.h>

#include "base/check.h"
#include "base/format.h"

void json_writer_bytes(struct json_writer *writer, struct bytes text) {
    if (writer->count < writer->room && text.count) {
        size_t left = writer->room - writer->count;
        memcpy(writer->out + writer->count, text.data, text.count < left ? text.count : left);
    }
    writer->count += text.count;
}

void json_writer_text(struct json_writer *writer, const char *text) {
    json_writer_bytes(writer, bytes_of(text));
}

static bool must_escape(unsigned char byte) {
    return byte < 0x20 || byte == '"' || byte == '\\' || byte == 0x7F;
}

/* Writes the escape of one byte to out[6] and returns its length. */
static size_t escape_byte(unsigned char byte, char *out) {
    static const char digits[] = "0123456789abcdef";
    char short_form = byte == '"' || byte == '\\' ? (char)byte
                      : byte == '\n'              ? 'n'
                      : byte == '\r'              ? 'r'
                      : byte == '\t'              ? 't'
                                                  : 0;
    out[0] = '\\';
    if (short_form) {
        out[1] = short_form;
        return 2;
    }
    out[1] = 'u';
    out[2] = out[3] = '0';
    out[4] = digits[byte >> 4];
    out[5] = digits[byte & 15];
    return 6;
}

void json_writer_escaped(struct json_writer *writer, struct bytes text) {
    if (text.count == 0) return;
    size_t plain = 0; /* start of a run of bytes that need no escape */
    for (size_t i = 0; i < text.count; i++) {
        unsigned char byte = (unsigned char)text.data[i];
        if (!must_escape(byte)) continue;
        char escape[6];
        size_t length = escape_byte(byte, escape);
        json_writer_bytes(writer, (struct bytes){text.data + plain, i - plain});
        json_writer_bytes(writer, (struct bytes){escape, length});
        plain = i + 1;
    }
    json_writer_bytes(writer, (struct bytes){text.data + plain, text.count - plain});
}

size_t json_writer_escaped_count(struct bytes text) {
    struct json_writer counter = {0};
    json_writer_escaped(&counter, text);
    return counter.count;
}

void json_writer_string(struct json_writer *writer, struct bytes text) {
    json_writer_text(writer, "\"");
    json_writer_escaped(writer, text);
    json_writer_text(writer, "\"");
}

void json_writer_unsigned(struct json_writer *writer, uint64_t value) {
    char digits[20];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    json_writer_bytes(writer, (struct bytes){digits + at, sizeof digits - at});
}

void json_writer_integer(struct json_writer *writer, int64_t value) {
    if (value < 0) json_writer_text(writer, "-");
    json_writer_unsigned(writer, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

/* Prints a number with any other directive, or a string with a width. */
static void print_formatted(struct json_writer *writer, struct bytes directive,
                            va_list *arguments) {
    char format[16], text[1024], kind = directive.data[directive.count - 1];
    check(directive.count < sizeof format);
    memcpy(format, directive.data, directive.count);
    format[directive.count] = 0;
    bool is_long = strpbrk(format, "lz");
    if (kind == 's')
        format_text(text, sizeof text, format, va_arg(*arguments, const char *));
    else if (strchr("efg", kind))
        format_text(text, sizeof text, format, va_arg(*arguments, double));
    else if (is_long)
        format_text(text, sizeof text, format, va_arg(*arguments, long));
    else
        format_text(text, sizeof text, format, va_arg(*arguments, int));
    json_writer_text(writer, text);
}

/* Prints an unsigned integer, padded with zeros to the width. */
static void print_unsigned(struct json_writer *writer, uint64_t value, uint32_t base,
                           uint32_t width) {
    char text[32];
    size_t at = sizeof text;
    for (; value || width || at == sizeof text; value /= base, width -= width > 0)
        text[--at] = "0123456789abcdef"[value % base];
    json_writer_bytes(writer, (struct bytes){text + at, sizeof text - at});
}

/* Prints the directives that stream events use, such as %u %lu %ld %x %016lx, without format_text.
 * Returns false for other directives. */
static bool print_plain_number(struct json_writer *writer, struct bytes directive,
                               va_list *arguments) {
    char kind = directive.data[directive.count - 1];
    uint32_t width = 0;
    size_t at = 1;
    if (directive.data[at] == '0')
        for (; directive.data[at] >= '0' && directive.data[at] <= '9'; at++)
            width = 10 * width + (uint32_t)(directive.data[at] - '0');
    bool is_long = directive.data[at] == 'l' || directive.data[at] == 'z';
    if (at + is_long + 1 != directive.count || width > 20) return false;
    if (kind == 'd' && is_long && width == 0)
        json_writer_integer(writer, va_arg(*arguments, long));
    else if (kind == 'u' || kind == 'x')
        print_unsigned(
            writer, is_long ? va_arg(*arguments, unsigned long) : va_arg(*arguments, unsigned int),
            kind == 'x' ? 16 : 10, width);
    else
        return false;
    return true;
}

/* Prints a value and returns the end of its directive. */
static const char *print_value(struct json_writer *writer, const char *directive,
                               va_list *arguments) {
    if (directive[1] == '%') {
        json_writer_text(writer, "%");
        return directive + 2;
    }
    if (directive[1] == 's') {
        json_writer_text(writer, va_arg(*arguments, const char *));
        return directive + 2;
    }
    const char *end = directive + 1;
    while (!strchr("sudxefg", *end))
        end++;
    struct bytes text = {directive, (size_t)(++end - directive)};
    if (bytes_equal(text, BYTES_LITERAL("%.*s"))) {
        size_t count = (size_t)va_arg(*arguments, int);
        json_writer_escaped(writer, (struct bytes){va_arg(*arguments, const char *), count});
    } else if (!print_plain_number(writer, text, arguments)) {
        print_formatted(writer, text, arguments);
    }
    return end;
}

void json_writer_print_va(struct json_writer *writer, const char *format, va_list *arguments) {
    for (const char *directive; (directive = strchr(format, '%'));) {
        json_writer_bytes(writer, (struct bytes){format, (size_t)(directive - format)});
        format = print_value(writer, directive, arguments);
    }
    json_writer_text(writer, format);
}

void json_writer_print(struct json_writer *writer, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    json_writer_print_va(writer, format, &arguments);
    va_end(arguments);
}
