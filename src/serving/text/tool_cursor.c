/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/text/tool_cursor.h"

bool tool_cursor_is_space(char byte) {
    return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r';
}

static bool is_name_byte(char byte) {
    return (unsigned char)byte > ' ' && byte != 0x7F && !strchr("\"<>[]{}\\", byte);
}

static struct bytes rest_of(const struct tool_cursor *cursor) {
    return (struct bytes){cursor->text.data + cursor->at, cursor->text.count - cursor->at};
}

bool tool_cursor_at_end(struct tool_cursor *cursor) {
    if (cursor->found || cursor->at < cursor->text.count) return false;
    if (!cursor->ends) cursor->found = TOOL_FOUND_CUT;
    return true;
}

bool tool_cursor_sees(struct tool_cursor *cursor, const char *mark) {
    if (cursor->found) return false;
    struct bytes rest = rest_of(cursor), wanted = bytes_of(mark);
    if (bytes_start_with(rest, wanted)) return true;
    if (!cursor->ends && bytes_start_with(wanted, rest)) cursor->found = TOOL_FOUND_CUT;
    return false;
}

bool tool_cursor_takes(struct tool_cursor *cursor, const char *mark) {
    if (!tool_cursor_sees(cursor, mark)) return false;
    cursor->at += strlen(mark);
    return true;
}

void tool_cursor_wants(struct tool_cursor *cursor, const char *mark) {
    if (!tool_cursor_takes(cursor, mark) && !cursor->found) cursor->found = TOOL_FOUND_NO;
}

void tool_cursor_space(struct tool_cursor *cursor) {
    while (!cursor->found && cursor->at < cursor->text.count &&
           tool_cursor_is_space(cursor->text.data[cursor->at]))
        cursor->at++;
}

struct bytes tool_cursor_name(struct tool_cursor *cursor) {
    struct bytes rest = rest_of(cursor);
    size_t count = 0;
    if (cursor->found) return (struct bytes){rest.data, 0};
    while (count < rest.count && count <= TOOL_NAME_BYTES_MAX && is_name_byte(rest.data[count]))
        count++;
    if (count > TOOL_NAME_BYTES_MAX || (count == 0 && rest.count > 0))
        cursor->found = TOOL_FOUND_NO;
    else if (count == rest.count)
        cursor->found = cursor->ends ? TOOL_FOUND_NO : TOOL_FOUND_CUT;
    cursor->at += count;
    return (struct bytes){rest.data, count};
}

struct bytes tool_cursor_until(struct tool_cursor *cursor, const char *mark) {
    const char *start = rest_of(cursor).data;
    while (!cursor->found) {
        size_t count = (size_t)(cursor->text.data + cursor->at - start);
        if (tool_cursor_takes(cursor, mark)) return (struct bytes){start, count};
        if (cursor->found) break;
        if (cursor->at == cursor->text.count || count == TOOL_NAME_BYTES_MAX)
            cursor->found = TOOL_FOUND_NO;
        cursor->at++;
    }
    return (struct bytes){start, 0};
}

bool tool_cursor_is_name(struct bytes text) {
    for (size_t i = 0; i < text.count; i++)
        if (!is_name_byte(text.data[i])) return false;
    return text.count > 0 && text.count <= TOOL_NAME_BYTES_MAX;
}
