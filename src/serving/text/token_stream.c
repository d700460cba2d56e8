/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/text/token_stream.h"

#include "base/check.h"

#define OPENING_TAG "<think>"
#define CLOSING_TAG "</think>"

/* The byte at which the think stage looks for a tag. The last two do not occur in UTF-8. */
#define TAG_SPELLED '<'  /* the tokenizer has no tokens for tags: the characters are tags */
#define TAG_TOKEN '\xFE' /* replaces the '<' of a tag that is a token */
#define TAG_NONE '\xFF'

/* The position of the think stage in the answer. */
enum stream_place {
    PLACE_START,          /* no content yet */
    PLACE_REASONING_HEAD, /* newlines are dropped */
    PLACE_REASONING,      /* newlines are held back: they may be trailing ones */
    PLACE_CONTENT_HEAD,   /* newlines are dropped */
    PLACE_CONTENT,
    PLACE_COUNT
};

/* The token that an answer with a constraint waits for. */
enum bound_waits {
    BOUND_NEVER, /* none: there is no constraint, or it already applies */
    BOUND_OPENS, /* the first token, which determines whether `behind` counts */
    BOUND_BEHIND,
    BOUND_AT
};

struct output {
    struct token_stream *stream;
    token_stream_sink *sink;
    void *context;
};

/* ---- stop strings ---- */

enum status token_stream_stop_strings_add(struct stop_strings *stops, struct bytes text,
                                          struct error *error) {
    if (text.count == 0) return error_set(error, STATUS_INVALID, "a stop string is empty");
    if (text.count > LIMIT_STOP_STRING_BYTES)
        return error_set(error, STATUS_TOO_LARGE,
                         "a stop string has %zu bytes, expected at most %d", text.count,
                         LIMIT_STOP_STRING_BYTES);
    if (stops->count == LIMIT_STOP_STRINGS)
        return error_set(error, STATUS_TOO_LARGE, "more than %d stop strings", LIMIT_STOP_STRINGS);
    if (utf8_valid_prefix(text) < text.count)
        return error_set(error, STATUS_INVALID, "a stop string is not valid UTF-8");
    struct stop_string *stop = &stops->strings[stops->count++];
    stop->bytes = (uint32_t)text.count;
    memcpy(stop->text, text.data, text.count);
    stop->border[0] = 0;
    for (uint32_t i = 1, k = 0; i < stop->bytes; i++) {
        while (k > 0 && stop->text[i] != stop->text[k])
            k = stop->border[k - 1];
        if (stop->text[i] == stop->text[k]) k++;
        stop->border[i] = (uint8_t)k;
    }
    return STATUS_OK;
}

/* Advances every automaton by one byte. Returns the length of the longest stop string that ends
 * here, with its index in stopped_by. *hold_out is the length of the longest prefix of a stop
 * string that ends here. */
static uint32_t stops_advance(struct token_stream *stream, char byte, uint32_t *hold_out) {
    uint32_t ended = 0, hold = 0;
    for (uint32_t i = 0; i < stream->stops->count; i++) {
        const struct stop_string *stop = &stream->stops->strings[i];
        uint32_t progress = stream->stop_progress[i];
        while (progress > 0 && stop->text[progress] != byte)
            progress = stop->border[progress - 1];
        if (stop->text[progress] == byte) progress++;
        stream->stop_progress[i] = (uint16_t)progress;
        if (progress == stop->bytes && progress > ended) {
            ended = progress;
            stream->stopped_by = i;
        }
        if (progress > hold) hold = progress;
    }
    *hold_out = hold;
    return ended;
}

/* ---- the think stage ---- */

static void put(struct output *output, struct bytes text) {
    struct token_stream *stream = output->stream;
    bool content = stream->place >= PLACE_CONTENT_HEAD;
    if (text.count == 0) return;
    stream->has_content |= content;
    if (content && stream->calls.set)
        tool_parser_push(&stream->calls, text, output->sink, output->context);
    else
        output->sink(output->context, content ? TOKEN_STREAM_CONTENT : TOKEN_STREAM_REASONING,
                     text);
}

static const char *token_stream_tag_of(const struct token_stream *stream) {
    return stream->tag_closes ? CLOSING_TAG : OPENING_TAG;
}

/* Returns true if the byte continues a tag. */
static bool follow_tag(struct token_stream *stream, char byte) {
    uint32_t at = stream->tag_progress;
    if (at == 1) stream->tag_closes = byte == '/';
    if (byte != (at ? token_stream_tag_of(stream)[at] : stream->tag_mark)) return false;
    stream->tag_progress++;
    return true;
}

static bool tag_is_whole(const struct token_stream *stream) {
    return stream->tag_progress > 1 && token_stream_tag_of(stream)[stream->tag_progress] == '\0';
}

/* Outputs the held text, which is not a tag. */
static void put_held_tag(struct output *output) {
    static const char newlines[TOKEN_STREAM_NEWLINES_MAX + 1] = "\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n";
    struct token_stream *stream = output->stream;
    put(output, (struct bytes){newlines, stream->newline_count});
    put(output, (struct bytes){token_stream_tag_of(stream), stream->tag_progress});
    stream->newline_count = 0;
    stream->tag_progress = 0;
}

/* Consumes a complete tag and enters the next place. */
static void go_behind_tag(struct token_stream *stream, enum stream_place next) {
    stream->tag_progress = 0;
    stream->newline_count = 0;
    stream->place = (uint8_t)next;
}

/* Each of the following functions consumes bytes from the start of `text` and returns their number.
 * It is at least one unless the place changes. */

static size_t take_start(struct output *output, struct bytes text) {
    struct token_stream *stream = output->stream;
    bool newline = text.data[0] == '\n' && stream->tag_progress == 0;
    if (newline && stream->newline_count < TOKEN_STREAM_NEWLINES_MAX) {
        stream->newline_count++;
        return 1;
    }
    if (!follow_tag(stream, text.data[0])) {
        stream->place = PLACE_CONTENT;
        put_held_tag(output);
        return 0;
    }
    if (!tag_is_whole(stream)) return 1;
    if (stream->tag_closes && stream->newline_count) { /* these are content */
        stream->place = PLACE_CONTENT;
        stream->tag_progress = 0;
        put_held_tag(output);
        return 1;
    }
    go_behind_tag(stream, stream->tag_closes ? PLACE_CONTENT_HEAD : PLACE_REASONING_HEAD);
    return 1;
}

static size_t token_stream_take_head(struct output *output, struct bytes text,
                                     enum stream_place next) {
    size_t count = 0;
    while (count < text.count && text.data[count] == '\n')
        count++;
    if (count < text.count) output->stream->place = (uint8_t)next;
    return count;
}

/* The number of bytes before a byte at which a tag may begin, or before an earlier `other`. */
static size_t count_plain(const struct token_stream *stream, struct bytes text, char other) {
    size_t count = 1;
    while (count < text.count && text.data[count] != stream->tag_mark && text.data[count] != other)
        count++;
    return count;
}

static size_t take_reasoning(struct output *output, struct bytes text) {
    struct token_stream *stream = output->stream;
    char byte = text.data[0];
    if (follow_tag(stream, byte)) {
        if (tag_is_whole(stream) && stream->tag_closes)
            go_behind_tag(stream, stream->has_content ? PLACE_CONTENT : PLACE_CONTENT_HEAD);
        else if (tag_is_whole(stream))
            put_held_tag(output); /* reasoning is already open */
        return 1;
    }
    if (stream->tag_progress > 0) {
        put_held_tag(output);
        return 0;
    }
    if (byte == '\n') {
        if (stream->newline_count == TOKEN_STREAM_NEWLINES_MAX)
            put(output, (struct bytes){"\n", 1});
        else
            stream->newline_count++;
        return 1;
    }
    put_held_tag(output);
    size_t count = count_plain(stream, text, '\n');
    put(output, (struct bytes){text.data, count});
    return count;
}

/* Handles a tag in the content. */
static void meet_tag(struct output *output) {
    struct token_stream *stream = output->stream;
    bool quoted = stream->tag_closes ? stream->in_quote : !stream->opens_anywhere;
    stream->in_quote = quoted && !stream->tag_closes;
    if (quoted)
        put_held_tag(output);
    else
        go_behind_tag(stream, stream->tag_closes ? PLACE_CONTENT : PLACE_REASONING_HEAD);
}

/* Passes the arguments of a call unchanged. */
static size_t token_stream_take_content(struct output *output, struct bytes text) {
    struct token_stream *stream = output->stream;
    bool in_call = stream->calls.set && tool_parser_in_call(&stream->calls);
    if (in_call && stream->tag_progress == 0 && text.data[0] == stream->tag_mark) {
        put(output, (struct bytes){OPENING_TAG, 1});
        return 1;
    }
    if (follow_tag(stream, text.data[0])) {
        if (tag_is_whole(stream)) meet_tag(output);
        return 1;
    }
    if (stream->tag_progress > 0) {
        put_held_tag(output);
        return 0;
    }
    size_t count = count_plain(stream, text, stream->tag_mark);
    put(output, (struct bytes){text.data, count});
    return count;
}

static void think(struct output *output, struct bytes text) {
    while (text.count > 0) {
        size_t taken = text.count;
        switch ((enum stream_place)output->stream->place) {
        case PLACE_START:
            taken = take_start(output, text);
            break;
        case PLACE_REASONING_HEAD:
            taken = token_stream_take_head(output, text, PLACE_REASONING);
            break;
        case PLACE_REASONING:
            taken = take_reasoning(output, text);
            break;
        case PLACE_CONTENT_HEAD:
            taken = token_stream_take_head(output, text, PLACE_CONTENT);
            break;
        case PLACE_CONTENT:
        case PLACE_COUNT:
            taken = token_stream_take_content(output, text);
            break;
        }
        text = (struct bytes){text.data + taken, text.count - taken};
    }
}

/* Outputs what the think stage and later stages hold back, at the end of the answer. */
static void think_to_the_end(struct output *output) {
    struct token_stream *stream = output->stream;
    bool starts = stream->place == PLACE_START;
    if (starts) stream->place = PLACE_CONTENT;
    if (starts || stream->tag_progress > 0) put_held_tag(output);
    if (stream->calls.set) tool_parser_finish(&stream->calls, output->sink, output->context);
}

/* ---- the stop stage ---- */

/* Passes on the held text except its last `keep` bytes. These are the start of a stop string, so
 * the split never falls inside a character. */
static void token_stream_release(struct output *output, uint32_t keep) {
    struct token_stream *stream = output->stream;
    uint32_t count = stream->held_bytes - keep;
    think(output, (struct bytes){stream->held, count});
    memmove(stream->held, stream->held + count, keep);
    stream->held_bytes = keep;
}

/* Ends the answer, because the held text ends with a stop string of `bytes` bytes. */
static void stop_here(struct output *output, uint32_t bytes) {
    struct token_stream *stream = output->stream;
    token_stream_release(output, bytes);
    stream->held_bytes = 0;
    stream->stopped = true;
    think_to_the_end(output);
}

/* Receives whole characters and tags. */
static void token_stream_watch(void *context, struct bytes text) {
    struct output *output = context;
    struct token_stream *stream = output->stream;
    if (!stream->stops || stream->stops->count == 0) {
        think(output, text);
        return;
    }
    uint32_t hold = stream->held_bytes; /* all that is held between calls */
    for (size_t at = 0; at < text.count && !stream->stopped;) {
        size_t bytes = 1;
        bool tag = text.data[at] == TAG_TOKEN;
        check(tag ||
              utf8_next((struct bytes){text.data + at, text.count - at}, &bytes) == UTF8_WHOLE);
        if (stream->held_bytes + bytes > sizeof stream->held) token_stream_release(output, hold);
        for (size_t end = at + bytes; at < end; at++) {
            stream->held[stream->held_bytes++] = text.data[at];
            uint32_t ended = stops_advance(stream, tag ? OPENING_TAG[0] : text.data[at], &hold);
            if (ended == 0) continue;
            stop_here(output, ended);
            return;
        }
    }
    token_stream_release(output, hold);
}

/* ---- the start of the constraint ---- */

/* Begins the constrained part, in which stop strings do not apply and tags are text. Outputs all
 * held text. */
static void bind_here(struct output *output) {
    token_stream_release(output, 0);
    output->stream->tag_mark = TAG_NONE;
    output->stream->stops = NULL;
    output->stream->bound_waits = BOUND_NEVER;
}

/* From now on the answer waits only for `at`, if that is given. */
static void wait_for_at(struct output *output) {
    if (output->stream->bound.at == TOKEN_STREAM_NO_TOKEN)
        bind_here(output);
    else
        output->stream->bound_waits = BOUND_AT;
}

static void follow_before(struct output *output, uint32_t token) {
    struct token_stream *stream = output->stream;
    if (stream->bound_waits == BOUND_OPENS) {
        if (token == stream->bound.opens)
            stream->bound_waits = BOUND_BEHIND;
        else
            wait_for_at(output);
    }
    if (stream->bound_waits == BOUND_AT && token == stream->bound.at) bind_here(output);
}

static void follow_behind(struct output *output, uint32_t token) {
    const struct token_stream *stream = output->stream;
    if (!stream->stopped && stream->bound_waits == BOUND_BEHIND && token == stream->bound.behind)
        wait_for_at(output);
}

/* ---- public functions ---- */

void token_stream_open(struct token_stream *stream, const struct tokenizer *tokenizer,
                       const struct stop_strings *stops, enum token_stream_mode mode,
                       const struct tool_set *tools) {
    static const enum stream_place places[TOKEN_STREAM_MODE_COUNT] = {
        [TOKEN_STREAM_PLAIN] = PLACE_CONTENT,
        [TOKEN_STREAM_IN_CONTENT] = PLACE_START,
        [TOKEN_STREAM_GOES_ON] = PLACE_START,
        [TOKEN_STREAM_MAY_THINK] = PLACE_START,
        [TOKEN_STREAM_BEHIND_TOOL] = PLACE_START,
        [TOKEN_STREAM_IN_REASONING] = PLACE_REASONING_HEAD,
    };
    *stream = (struct token_stream){
        .tokenizer = tokenizer, .stops = stops, .mode = mode, .place = (uint8_t)places[mode]};
    bool tokens = tokenizer_find_added(tokenizer, BYTES_LITERAL(OPENING_TAG), &stream->opening) &&
                  tokenizer_find_added(tokenizer, BYTES_LITERAL(CLOSING_TAG), &stream->closing);
    stream->tag_mark = tokens ? TAG_TOKEN : TAG_SPELLED;
    if (mode == TOKEN_STREAM_PLAIN) stream->tag_mark = TAG_NONE;
    stream->opens_anywhere = mode == TOKEN_STREAM_GOES_ON || mode == TOKEN_STREAM_BEHIND_TOOL;
    if (tools) tool_parser_open(&stream->calls, tools);
    stream->calling = TOKEN_STREAM_NO_TOKEN;
    if (tools && tools->format == TOOL_FORMAT_KIMI)
        (void)tokenizer_find_added(tokenizer, BYTES_LITERAL("<|tool_calls_section_begin|>"),
                                   &stream->calling);
}

void token_stream_bind(struct token_stream *stream, const struct token_stream_bound *bound) {
    struct output output = {.stream = stream};
    stream->bound = *bound;
    check(stream->held_bytes == 0); /* no text was pushed yet */
    if (bound->behind == TOKEN_STREAM_NO_TOKEN)
        wait_for_at(&output);
    else
        stream->bound_waits = bound->opens == TOKEN_STREAM_NO_TOKEN ? BOUND_BEHIND : BOUND_OPENS;
}

/* True if a special token has no text, because it is not in a mark of the format of calls. */
static bool is_hidden(const struct token_stream *stream, uint32_t token, struct bytes text) {
    return tokenizer_token_is_special(stream->tokenizer, token) &&
           !(stream->calls.set && tool_format_has_mark(stream->calls.set->format, text));
}

/* Ends the answer if a stop string equals the text of a special token without text. */
static void push_hidden(struct output *output, struct bytes text) {
    struct token_stream *stream = output->stream;
    for (uint32_t i = 0; stream->stops && i < stream->stops->count; i++) {
        const struct stop_string *stop = &stream->stops->strings[i];
        if (!bytes_equal((struct bytes){stop->text, stop->bytes}, text)) continue;
        utf8_join_end(&stream->joiner, token_stream_watch, output);
        if (stream->stopped) return;
        stream->stopped_by = i;
        stop_here(output, 0);
        return;
    }
}

static bool in_reasoning(const struct token_stream *stream) {
    return stream->place == PLACE_REASONING_HEAD || stream->place == PLACE_REASONING;
}

/* The text of a tag token, with its mark. It is empty if the token is not a tag. */
static struct bytes tag_of_token(const struct token_stream *stream, uint32_t token) {
    static const char opening[] = "\xFEthink>", closing[] = "\xFE/think>";
    if (stream->tag_mark != TAG_TOKEN) return (struct bytes){"", 0};
    if (token == stream->opening) return (struct bytes){opening, sizeof opening - 1};
    if (token == stream->closing) return (struct bytes){closing, sizeof closing - 1};
    return (struct bytes){"", 0};
}

static void token_stream_push_text(struct output *output, uint32_t token) {
    struct token_stream *stream = output->stream;
    if (token == stream->calling && in_reasoning(stream) && stream->tag_mark == TAG_TOKEN)
        token_stream_push_text(output, stream->closing);
    if (stream->stopped) return;
    struct bytes tag = tag_of_token(stream, token);
    struct bytes text = tokenizer_token_bytes(stream->tokenizer, token);
    if (tag.count) {
        utf8_join_end(&stream->joiner, token_stream_watch, output);
        if (!stream->stopped) token_stream_watch(output, tag);
    } else if (is_hidden(stream, token, text)) {
        push_hidden(output, text);
    } else {
        utf8_join(&stream->joiner, text, token_stream_watch, output);
    }
}

bool token_stream_push(struct token_stream *stream, uint32_t token, token_stream_sink *sink,
                       void *context) {
    if (stream->stopped) return true;
    struct output output = {stream, sink, context};
    bool reasoning = in_reasoning(stream);
    follow_before(&output, token);
    token_stream_push_text(&output, token);
    follow_behind(&output, token);
    if (reasoning || in_reasoning(stream)) stream->reasoning_tokens++;
    return stream->stopped;
}

void token_stream_finish(struct token_stream *stream, token_stream_sink *sink, void *context) {
    if (stream->stopped) return;
    struct output output = {stream, sink, context};
    utf8_join_end(&stream->joiner, token_stream_watch, &output);
    if (stream->stopped) return;
    token_stream_release(&output, 0);
    think_to_the_end(&output);
}
