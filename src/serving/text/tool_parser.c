/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/text/tool_parser.h"

#include "base/check.h"
#include "base/json_writer.h"

/* One pass over the held text. */
struct tool_pass {
    struct tool_parser *parser;
    token_stream_sink *sink;
    void *context;
    bool finishes;               /* the content ends */
    bool ends;                   /* the text is complete, as far as the step can see */
    bool waits;                  /* a step needs more text */
    enum token_stream_part part; /* part of the following text */
    struct bytes run;            /* collected text to output unchanged */
};

#define MARKS_MAX 4

/* The marks that end calls of a format and separate their parts; NULL: none. */
struct tool_marks {
    /* end of a sequence of calls; only with place.in_section */
    const char *section_ends[MARKS_MAX];
    const char *call_end;          /* RAW, PAIRS */
    const char *fence;             /* RAW: may precede call_end */
    const char *others[MARKS_MAX]; /* RAW: each ends a call, and is parsed again */
    const char *key_start, *key_end, *value_start, *value_end; /* PAIRS */
    /* PAIRS: a newline after value_start and one before value_end belong to the marks */
    bool lines;
};

static const struct tool_marks marks_of[TOOL_FORMAT_COUNT] = {
    [TOOL_FORMAT_DEEPSEEK_V3] = {.section_ends = {"<｜tool▁calls▁end｜>"},
                                 .call_end = "<｜tool▁call▁end｜>",
                                 .fence = "```",
                                 .others = {"<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>"}},
    [TOOL_FORMAT_DEEPSEEK_V31] = {.section_ends = {"<｜tool▁calls▁end｜>"},
                                  .call_end = "<｜tool▁call▁end｜>",
                                  .others = {"<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>"}},
    [TOOL_FORMAT_DEEPSEEK_V32] = {.section_ends = {"</｜DSML｜function_calls>",
                                                   "</｜DSML｜tool_calls>"},
                                  .call_end = "</｜DSML｜invoke>",
                                  .key_start = "<｜DSML｜parameter name=\"",
                                  .key_end = "\"",
                                  .value_end = "</｜DSML｜parameter>"},
    [TOOL_FORMAT_HERMES] = {.section_ends = {"</tool_call>"},
                            .call_end = "</function>",
                            .key_start = "<parameter=",
                            .key_end = ">",
                            .value_end = "</parameter>",
                            .lines = true},
    [TOOL_FORMAT_KIMI] = {.section_ends = {"<|tool_calls_section_end|>",
                                           "<|tool_call_section_end|>"},
                          .call_end = "<|tool_call_end|>",
                          .others = {"<|tool_calls_section_end|>", "<|tool_call_section_end|>",
                                     "<|tool_call_begin|>"}},
    [TOOL_FORMAT_GLM] = {.call_end = "</tool_call>",
                         .key_start = "<arg_key>",
                         .key_end = "</arg_key>",
                         .value_start = "<arg_value>",
                         .value_end = "</arg_value>"},
    [TOOL_FORMAT_LLAMA] = {.call_end = NULL},
    [TOOL_FORMAT_MISTRAL] = {.section_ends = {"]"}},
};

static const struct tool_marks *marks(const struct tool_pass *pass) {
    return &marks_of[pass->parser->set->format];
}

/* ---- output ---- */

static void tool_parser_flush(struct tool_pass *pass) {
    if (pass->run.count > 0) pass->sink(pass->context, pass->part, pass->run);
    pass->run.count = 0;
}

/* Outputs held text. */
static void put(struct tool_pass *pass, enum token_stream_part part, struct bytes text) {
    bool goes_on =
        pass->run.count > 0 && part == pass->part && pass->run.data + pass->run.count == text.data;
    if (!goes_on) {
        tool_parser_flush(pass);
        pass->run = (struct bytes){text.data, 0};
    }
    pass->part = part;
    pass->run.count += text.count;
}

/* Outputs generated arguments. */
static void put_made(struct tool_pass *pass, const char *text) {
    tool_parser_flush(pass);
    pass->sink(pass->context, TOKEN_STREAM_ARGUMENTS, bytes_of(text));
}

#define ESCAPED_AT_ONCE 64

static void tool_parser_put_escaped(struct tool_pass *pass, struct bytes text) {
    tool_parser_flush(pass);
    while (text.count > 0) {
        char escaped[6 * ESCAPED_AT_ONCE];
        struct json_writer writer = {.out = escaped, .room = sizeof escaped};
        size_t count = text.count < ESCAPED_AT_ONCE ? text.count : ESCAPED_AT_ONCE;
        while (count < text.count && ((unsigned char)text.data[count] & 0xC0) == 0x80)
            count--;
        json_writer_escaped(&writer, (struct bytes){text.data, count});
        pass->sink(pass->context, TOKEN_STREAM_ARGUMENTS, (struct bytes){escaped, writer.count});
        text = (struct bytes){text.data + count, text.count - count};
    }
}

static void tool_parser_go_to(struct tool_pass *pass, enum tool_state state) {
    pass->parser->state = (uint8_t)state;
}

static void open_call(struct tool_pass *pass, const struct tool_head *head) {
    struct tool_parser *parser = pass->parser;
    tool_parser_flush(pass);
    if (head->id.count > 0) pass->sink(pass->context, TOKEN_STREAM_CALL_ID, head->id);
    pass->sink(pass->context, TOKEN_STREAM_CALL, head->name);
    put(pass, TOKEN_STREAM_ARGUMENTS, head->arguments);
    parser->tool = tool_format_set_find(parser->set, head->name);
    parser->argued = head->arguments.count > 0;
    parser->in_section = head->in_section;
    parser->object = head->object;
    tool_parser_go_to(pass, head->next);
}

static void end_call(struct tool_pass *pass) {
    struct tool_parser *parser = pass->parser;
    if (!parser->argued) put_made(pass, "{}");
    parser->place = (struct tool_place){.after_call = true, .in_section = parser->in_section};
    tool_parser_go_to(pass, TOOL_STATE_CONTENT);
}

/* Ends a broken call. The following text is content. */
static void break_call(struct tool_pass *pass) {
    pass->parser->place = (struct tool_place){.starts = false};
    tool_parser_go_to(pass, TOOL_STATE_CONTENT);
}

/* ---- the steps ---- */

/* Each step examines the start of `text`, which is not empty, and returns the number of bytes
 * consumed. If it is 0, the step waits or has changed the state. */

static struct tool_cursor cursor_over(const struct tool_pass *pass, struct bytes text) {
    return (struct tool_cursor){.text = text, .ends = pass->ends};
}

static bool takes_one_of(struct tool_cursor *cursor, const char *const list[MARKS_MAX]) {
    for (size_t i = 0; i < MARKS_MAX && list[i]; i++)
        if (tool_cursor_takes(cursor, list[i])) return true;
    return false;
}

/* The number of bytes, at least one, before the next that may begin something else than text. */
static size_t plain_run(struct bytes text) {
    size_t count = 1;
    while (count < text.count && !strchr("\n<[{,;] \t\r`", text.data[count]))
        count++;
    return count;
}

static size_t tool_parser_take_content(struct tool_pass *pass, struct bytes text) {
    struct tool_place *place = &pass->parser->place;
    struct tool_cursor cursor = cursor_over(pass, text);
    tool_cursor_space(&cursor);
    if (place->after_call && cursor.at > 0) return cursor.at;
    bool blank = cursor.at > 0;
    if (place->in_section && takes_one_of(&cursor, marks(pass)->section_ends)) {
        place->in_section = false;
        return cursor.at;
    }
    struct tool_head head;
    enum tool_found found =
        tool_head_find(pass->parser->set->format, *place, text, pass->ends, &head);
    pass->waits = found == TOOL_FOUND_CUT || (place->in_section && cursor.found == TOOL_FOUND_CUT);
    if (pass->waits) return 0;
    if (found == TOOL_FOUND_YES) {
        open_call(pass, &head);
        return head.count;
    }
    size_t count = blank ? 1 : plain_run(text);
    *place = (struct tool_place){.starts = place->starts && blank};
    put(pass, TOKEN_STREAM_CONTENT, (struct bytes){text.data, count});
    return count;
}

/* Consumes the end of a call with raw arguments, and the whitespace before it. */
static bool takes_raw_end(const struct tool_pass *pass, struct tool_cursor *cursor) {
    const struct tool_marks *all = marks(pass);
    tool_cursor_space(cursor);
    if (all->fence && tool_cursor_takes(cursor, all->fence)) tool_cursor_space(cursor);
    if (pass->finishes && cursor->at == cursor->text.count) return true;
    if (tool_cursor_takes(cursor, all->call_end)) return true;
    size_t at = cursor->at;
    if (!takes_one_of(cursor, all->others)) return false;
    cursor->at = at;
    return true;
}

static size_t take_raw(struct tool_pass *pass, struct bytes text) {
    struct tool_cursor cursor = cursor_over(pass, text);
    if (takes_raw_end(pass, &cursor)) {
        if (pass->finishes && cursor.at == text.count)
            break_call(pass);
        else
            end_call(pass);
        return cursor.at;
    }
    pass->waits = cursor.found == TOOL_FOUND_CUT;
    if (pass->waits) return 0;
    if (!pass->parser->argued && tool_cursor_is_space(text.data[0])) return 1;
    size_t count = plain_run(text);
    put(pass, TOKEN_STREAM_ARGUMENTS, (struct bytes){text.data, count});
    pass->parser->argued = true;
    return count;
}

/* Consumes text between members only together with the next value or the object's end, because
 * until then it may break the call. */
static size_t take_object(struct tool_pass *pass, struct bytes text) {
    struct tool_parser *parser = pass->parser;
    struct call_object object = parser->object;
    size_t taken = 0;
    for (size_t i = 0; i < text.count; i++) {
        enum call_member member;
        if (!call_object_next(&object, text.data[i], &member)) {
            break_call(pass);
            return taken;
        }
        bool whole = call_object_is_whole(&object);
        if (member == CALL_MEMBER_NONE && !whole) continue;
        taken = i + 1;
        parser->object = object;
        if (member == CALL_MEMBER_ARGUMENTS) {
            put(pass, TOKEN_STREAM_ARGUMENTS, (struct bytes){text.data + i, 1});
            parser->argued = true;
        }
        if (!whole) continue;
        end_call(pass);
        return taken;
    }
    pass->waits = taken < text.count && !pass->ends;
    if (taken < text.count && pass->ends) break_call(pass);
    return taken;
}

static size_t take_pairs(struct tool_pass *pass, struct bytes text) {
    const struct tool_marks *all = marks(pass);
    struct tool_parser *parser = pass->parser;
    struct tool_cursor cursor = cursor_over(pass, text);
    tool_cursor_space(&cursor);
    if (tool_cursor_takes(&cursor, all->call_end)) {
        if (parser->argued) put_made(pass, "}");
        end_call(pass);
        return cursor.at;
    }
    tool_cursor_wants(&cursor, all->key_start);
    struct bytes key = tool_cursor_until(&cursor, all->key_end);
    bool is_string = tool_format_takes_string(parser->tool, key);
    if (all->value_start) {
        tool_cursor_space(&cursor);
        tool_cursor_wants(&cursor, all->value_start);
    } else if (parser->set->format == TOOL_FORMAT_DEEPSEEK_V32) {
        bool said = tool_cursor_takes(&cursor, " string=\"true\"");
        is_string = said || (!tool_cursor_takes(&cursor, " string=\"false\"") && is_string);
        tool_cursor_wants(&cursor, ">");
    }
    pass->waits = cursor.found == TOOL_FOUND_CUT;
    if (pass->waits) return 0;
    if (cursor.found) {
        break_call(pass);
        return 0;
    }
    put_made(pass, parser->argued ? ",\"" : "{\"");
    tool_parser_put_escaped(pass, key);
    put_made(pass, is_string ? "\":\"" : "\":");
    parser->argued = true;
    parser->drops_newline = all->lines;
    tool_parser_go_to(pass, is_string ? TOOL_STATE_STRING : TOOL_STATE_UNDECIDED);
    return cursor.at;
}

static bool takes_value_end(const struct tool_pass *pass, struct tool_cursor *cursor) {
    size_t at = cursor->at;
    if (marks(pass)->lines) (void)tool_cursor_takes(cursor, "\n");
    if (tool_cursor_takes(cursor, marks(pass)->value_end)) return true;
    cursor->at = at;
    return false;
}

/* Reads more of a value until it is certain whether it is JSON. */
static void decide(struct tool_pass *pass, struct bytes text) {
    struct json_scanner scanner = {.tolerant = false};
    struct tool_cursor cursor = cursor_over(pass, text);
    bool ended = false, fits = true;
    while (cursor.at < text.count && cursor.at < TOOL_VALUE_HELD_MAX && fits && !ended) {
        ended = takes_value_end(pass, &cursor);
        pass->waits = cursor.found == TOOL_FOUND_CUT;
        if (pass->waits) return;
        if (!ended) fits = json_scanner_next(&scanner, text.data[cursor.at++]);
    }
    pass->waits =
        fits && !ended && cursor.at == text.count && cursor.at < TOOL_VALUE_HELD_MAX && !pass->ends;
    if (pass->waits) return;
    if (ended) fits = json_scanner_is_whole(&scanner);
    if (!fits) put_made(pass, "\"");
    tool_parser_go_to(pass, fits ? TOOL_STATE_JSON : TOOL_STATE_STRING);
}

static size_t tool_parser_take_value(struct tool_pass *pass, struct bytes text) {
    bool is_string = pass->parser->state == TOOL_STATE_STRING;
    struct tool_cursor cursor = cursor_over(pass, text);
    if (takes_value_end(pass, &cursor)) {
        if (is_string) put_made(pass, "\"");
        tool_parser_go_to(pass, TOOL_STATE_PAIRS);
        return cursor.at;
    }
    pass->waits = cursor.found == TOOL_FOUND_CUT;
    if (pass->waits) return 0;
    size_t count = 1;
    while (count < text.count && text.data[count] != '<' && text.data[count] != '\n')
        count++;
    if (is_string)
        tool_parser_put_escaped(pass, (struct bytes){text.data, count});
    else
        put(pass, TOKEN_STREAM_ARGUMENTS, (struct bytes){text.data, count});
    return count;
}

static size_t tool_parser_take(struct tool_pass *pass, struct bytes text) {
    struct tool_parser *parser = pass->parser;
    switch ((enum tool_state)parser->state) {
    case TOOL_STATE_RAW:
        return take_raw(pass, text);
    case TOOL_STATE_OBJECT:
        return take_object(pass, text);
    case TOOL_STATE_PAIRS:
        return take_pairs(pass, text);
    case TOOL_STATE_UNDECIDED:
    case TOOL_STATE_JSON:
    case TOOL_STATE_STRING: {
        bool drops = parser->drops_newline && text.data[0] == '\n';
        parser->drops_newline = false;
        if (drops) return 1;
        if (parser->state != TOOL_STATE_UNDECIDED) return tool_parser_take_value(pass, text);
        decide(pass, text);
        return 0;
    }
    case TOOL_STATE_CONTENT:
    case TOOL_STATE_COUNT:
        break;
    }
    return tool_parser_take_content(pass, text);
}

/* ---- public functions ---- */

/* Consumes held text as far as possible. `full`: no more text can be held. */
static void take_held(struct tool_pass *pass, bool full) {
    struct tool_parser *parser = pass->parser;
    uint32_t at = 0;
    pass->waits = false;
    while (at < parser->held_count && !pass->waits) {
        pass->ends = pass->finishes || (full && at == 0);
        at += (uint32_t)tool_parser_take(
            pass, (struct bytes){parser->held + at, parser->held_count - at});
    }
    tool_parser_flush(pass);
    check(at > 0 || !full);
    parser->held_count -= at;
    memmove(parser->held, parser->held + at, parser->held_count);
}

void tool_parser_open(struct tool_parser *parser, const struct tool_set *set) {
    *parser = (struct tool_parser){.set = set, .place = {.starts = true}};
}

void tool_parser_push(struct tool_parser *parser, struct bytes text, token_stream_sink *sink,
                      void *context) {
    struct tool_pass pass = {.parser = parser, .sink = sink, .context = context};
    while (text.count > 0) {
        size_t count = sizeof parser->held - parser->held_count;
        if (count > text.count) count = text.count;
        while (count > 0 && count < text.count && ((unsigned char)text.data[count] & 0xC0) == 0x80)
            count--;
        memcpy(parser->held + parser->held_count, text.data, count);
        parser->held_count += (uint32_t)count;
        text = (struct bytes){text.data + count, text.count - count};
        take_held(&pass, count == 0);
    }
}

bool tool_parser_in_call(const struct tool_parser *parser) {
    return parser->state != TOOL_STATE_CONTENT;
}

void tool_parser_finish(struct tool_parser *parser, token_stream_sink *sink, void *context) {
    struct tool_pass pass = {.parser = parser, .sink = sink, .context = context, .finishes = true};
    take_held(&pass, false);
}
