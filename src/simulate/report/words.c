/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/report/words.h"

#include <math.h>

#include "base/format.h"
#include "base/real.h"

void words_number(struct json_writer *writer, double value) {
    char digits[REAL_TEXT_BYTES];
    if (!isfinite(value)) {
        json_writer_text(writer, "null");
    } else if (value == floor(value) && fabs(value) < 1e15) {
        json_writer_integer(writer, (int64_t)value);
    } else {
        json_writer_bytes(writer, (struct bytes){digits, real_write(value, digits)});
    }
}

static void words_write_name(struct json_writer *writer, bool first, const char *name) {
    if (!first) json_writer_text(writer, ",");
    json_writer_string(writer, bytes_of(name));
    json_writer_text(writer, ":");
}

void words_member(struct json_writer *writer, bool first, const char *name, double value) {
    words_write_name(writer, first, name);
    words_number(writer, value);
}

void words_member_text(struct json_writer *writer, bool first, const char *name,
                       struct bytes value) {
    words_write_name(writer, first, name);
    json_writer_string(writer, value);
}

void words_short(double value, char out[WORDS_SHORT_BYTES]) {
    static const struct {
        double one;
        const char *name;
    } steps[] = {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}, {1, ""}};
    double size = fabs(value);
    if (!isfinite(value)) {
        format_text(out, WORDS_SHORT_BYTES, "-");
        return;
    }
    if (size < 1) {
        format_text(out, WORDS_SHORT_BYTES, "%.3g", value);
        return;
    }
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        double scaled = value / steps[i].one, shown = fabs(scaled);
        if (shown < 0.99995 || (steps[i].one == 1e3 && size < 9999.5)) continue;
        int digits = shown < 9.9995 ? 2 : shown < 99.995 ? 1 : 0;
        format_text(out, WORDS_SHORT_BYTES, "%.*f%s", digits, scaled, steps[i].name);
        return;
    }
    format_text(out, WORDS_SHORT_BYTES, "%.3g", value);
}

void words_html(struct json_writer *writer, struct bytes text) {
    for (size_t i = 0; i < text.count; i++) {
        char c = text.data[i];
        if (c == '<')
            json_writer_text(writer, "&lt;");
        else if (c == '>')
            json_writer_text(writer, "&gt;");
        else if (c == '&')
            json_writer_text(writer, "&amp;");
        else if (c == '"')
            json_writer_text(writer, "&quot;");
        else
            json_writer_bytes(writer, (struct bytes){&c, 1});
    }
}
