/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/text/tool_head.h"

static void refuse(struct tool_cursor *cursor) {
    if (!cursor->found) cursor->found = TOOL_FOUND_NO;
}

static void find_deepseek(struct tool_cursor *cursor, bool fenced, struct tool_head *head) {
    if (tool_cursor_takes(cursor, "<｜tool▁calls▁begin｜>")) tool_cursor_space(cursor);
    tool_cursor_wants(cursor, "<｜tool▁call▁begin｜>");
    if (fenced) tool_cursor_wants(cursor, "function<｜tool▁sep｜>");
    head->name = tool_cursor_name(cursor);
    if (fenced) {
        tool_cursor_space(cursor);
        (void)tool_cursor_takes(cursor, "```json");
    } else {
        tool_cursor_wants(cursor, "<｜tool▁sep｜>");
    }
    head->next = TOOL_STATE_RAW;
    head->in_section = true;
}

static void find_dsml(struct tool_cursor *cursor, struct tool_head *head) {
    if (tool_cursor_takes(cursor, "<｜DSML｜function_calls>") ||
        tool_cursor_takes(cursor, "<｜DSML｜tool_calls>"))
        tool_cursor_space(cursor);
    tool_cursor_wants(cursor, "<｜DSML｜invoke name=\"");
    head->name = tool_cursor_name(cursor);
    tool_cursor_wants(cursor, "\">");
    head->next = TOOL_STATE_PAIRS;
    head->in_section = true;
}

/* The name in the id "functions.NAME:INDEX". Any other id is the name itself. */
static struct bytes name_in_id(struct bytes id) {
    static const struct bytes prefix = {"functions.", sizeof "functions." - 1};
    size_t digits = 0;
    if (bytes_start_with(id, prefix))
        id = (struct bytes){id.data + prefix.count, id.count - prefix.count};
    while (digits < id.count && id.data[id.count - 1 - digits] >= '0' &&
           id.data[id.count - 1 - digits] <= '9')
        digits++;
    if (digits > 0 && digits < id.count && id.data[id.count - 1 - digits] == ':')
        id.count -= digits + 1;
    return id;
}

static void find_kimi(struct tool_cursor *cursor, struct tool_head *head) {
    if (tool_cursor_takes(cursor, "<|tool_calls_section_begin|>") ||
        tool_cursor_takes(cursor, "<|tool_call_section_begin|>"))
        tool_cursor_space(cursor);
    tool_cursor_wants(cursor, "<|tool_call_begin|>");
    tool_cursor_space(cursor);
    head->id = tool_cursor_name(cursor);
    head->name = name_in_id(head->id);
    tool_cursor_space(cursor);
    tool_cursor_wants(cursor, "<|tool_call_argument_begin|>");
    if (head->name.count == 0) refuse(cursor);
    head->next = TOOL_STATE_RAW;
    head->in_section = true;
}

static void find_glm(struct tool_cursor *cursor, struct tool_head *head) {
    tool_cursor_wants(cursor, "<tool_call>");
    tool_cursor_space(cursor);
    head->name = tool_cursor_name(cursor);
    tool_cursor_space(cursor);
    if (!tool_cursor_sees(cursor, "<arg_key>") && !tool_cursor_sees(cursor, "</tool_call>"))
        refuse(cursor);
    head->next = TOOL_STATE_PAIRS;
}

static void grow(struct bytes *slice, const char *byte) {
    if (slice->count == 0) slice->data = byte;
    slice->count++;
}

/* The inside of a JSON string, without quotes. It is empty if the text is not a string. */
static struct bytes unquoted(struct bytes text) {
    if (text.count < 2 || text.data[0] != '"') return (struct bytes){"", 0};
    return (struct bytes){text.data + 1, text.count - 2};
}

/* Parses an object up to its name and, if no mark has announced a call, up to its arguments. */
static void find_object(struct tool_cursor *cursor, bool until_arguments, struct tool_head *head) {
    bool named = false;
    head->next = TOOL_STATE_OBJECT;
    head->object.scanner.tolerant = true;
    while (!named || (until_arguments && head->arguments.count == 0)) {
        if (tool_cursor_at_end(cursor)) refuse(cursor);
        if (cursor->found) return;
        enum call_member member;
        const char *byte = &cursor->text.data[cursor->at++];
        if (!call_object_next(&head->object, *byte, &member) ||
            call_object_is_whole(&head->object)) {
            refuse(cursor);
            return;
        }
        if (member == CALL_MEMBER_ID) grow(&head->id, byte);
        if (member == CALL_MEMBER_ARGUMENTS) grow(&head->arguments, byte);
        if (member != CALL_MEMBER_NAME) continue;
        grow(&head->name, byte);
        named = head->object.member == CALL_MEMBER_NONE;
    }
    head->name = unquoted(head->name);
    if (!tool_cursor_is_name(head->name)) refuse(cursor);
    head->id = unquoted(head->id);
    if (!tool_cursor_is_name(head->id)) head->id.count = 0;
}

static void find_hermes(struct tool_cursor *cursor, struct tool_head *head) {
    bool tagged = tool_cursor_takes(cursor, "<tool_call>");
    if (tagged) tool_cursor_space(cursor);
    head->in_section = tagged;
    if (tagged && tool_cursor_sees(cursor, "{")) {
        find_object(cursor, false, head);
        return;
    }
    tool_cursor_wants(cursor, "<function=");
    head->name = tool_cursor_name(cursor);
    tool_cursor_wants(cursor, ">");
    head->next = TOOL_STATE_PAIRS;
}

static void find_llama(struct tool_cursor *cursor, struct tool_place place,
                       struct tool_head *head) {
    bool may = tool_cursor_takes(cursor, "<|python_tag|>") || place.starts || place.after_call;
    if (place.after_call && tool_cursor_takes(cursor, ";")) tool_cursor_space(cursor);
    if (!may) refuse(cursor);
    if (tool_cursor_sees(cursor, "{"))
        find_object(cursor, true, head);
    else
        refuse(cursor);
}

static void find_mistral(struct tool_cursor *cursor, struct tool_place place,
                         struct tool_head *head) {
    bool goes_on = place.in_section && tool_cursor_takes(cursor, ",");
    if (!goes_on) tool_cursor_wants(cursor, "[TOOL_CALLS]");
    tool_cursor_space(cursor);
    if (goes_on || tool_cursor_takes(cursor, "[")) {
        head->in_section = true;
        tool_cursor_space(cursor);
        find_object(cursor, false, head);
        return;
    }
    head->name = tool_cursor_name(cursor);
    if (tool_cursor_takes(cursor, "[CALL_ID]")) head->id = tool_cursor_name(cursor);
    if (tool_cursor_takes(cursor, "[ARGS]")) tool_cursor_space(cursor);
    if (!tool_cursor_sees(cursor, "{")) refuse(cursor);
    head->next = TOOL_STATE_OBJECT;
    head->object = (struct call_object){.scanner = {.tolerant = true}, .is_arguments = true};
}

enum tool_found tool_head_find(enum tool_format format, struct tool_place place, struct bytes text,
                               bool ends, struct tool_head *out) {
    struct tool_cursor cursor = {.text = text, .ends = ends};
    struct tool_head head = {.count = 0};
    while (cursor.at < text.count && cursor.at < TOOL_NEWLINES_MAX && text.data[cursor.at] == '\n')
        cursor.at++;
    switch (format) {
    case TOOL_FORMAT_DEEPSEEK_V3:
    case TOOL_FORMAT_DEEPSEEK_V31:
        find_deepseek(&cursor, format == TOOL_FORMAT_DEEPSEEK_V3, &head);
        break;
    case TOOL_FORMAT_DEEPSEEK_V32:
        find_dsml(&cursor, &head);
        break;
    case TOOL_FORMAT_HERMES:
        find_hermes(&cursor, &head);
        break;
    case TOOL_FORMAT_KIMI:
        find_kimi(&cursor, &head);
        break;
    case TOOL_FORMAT_GLM:
        find_glm(&cursor, &head);
        break;
    case TOOL_FORMAT_LLAMA:
        find_llama(&cursor, place, &head);
        break;
    case TOOL_FORMAT_MISTRAL:
    case TOOL_FORMAT_COUNT:
        find_mistral(&cursor, place, &head);
        break;
    }
    head.count = cursor.at;
    if (!cursor.found) *out = head;
    return cursor.found;
}
