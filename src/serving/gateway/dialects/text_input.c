/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/dialects/text_input.h"

enum state {
    BEFORE, /* expects '{' */
    OPEN,   /* expects the key's '"' */
    KEY,
    COLON,
    VALUE, /* expects the text's '"' */
    TEXT,
    ESCAPE, /* after a '\' in the text */
    HEX,    /* after "\u" and up to three digits */
    CLOSE,  /* expects '}' */
    WHOLE,
    BROKEN
};

struct input_walk {
    enum state state;
    size_t key_count;           /* bytes of the key so far */
    char escape[6];             /* the unfinished escape, such as "\u12" */
    size_t escape_count;        /* bytes of the escape */
    struct json_writer *writer; /* NULL: no output */
};

static const char key[] = "input\"";

static void put(const struct input_walk *walk, const char *text, size_t count) {
    if (walk->writer) json_writer_bytes(walk->writer, (struct bytes){text, count});
}

static void text_input_put_escaped(const struct input_walk *walk, const char *text, size_t count) {
    if (walk->writer) json_writer_escaped(walk->writer, (struct bytes){text, count});
}

static bool text_input_is_space(char byte) {
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

static bool text_input_is_hex(char byte) {
    return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'f') ||
           (byte >= 'A' && byte <= 'F');
}

/* Expects `mark`, which spaces may precede. */
static void text_input_expect(struct input_walk *walk, char byte, char mark, enum state then) {
    if (byte == mark)
        walk->state = then;
    else if (!text_input_is_space(byte))
        walk->state = BROKEN;
}

static void end_escape(struct input_walk *walk, bool is_one) {
    if (is_one)
        put(walk, walk->escape, walk->escape_count);
    else /* the model meant a literal '\' */
        text_input_put_escaped(walk, walk->escape, walk->escape_count);
    walk->escape_count = 0;
    walk->state = TEXT;
}

/* Copies the inside of the string to the output. Escapes bytes that JSON forbids in strings but
 * models write nevertheless. */
static void text_input_take_text(struct input_walk *walk, char byte) {
    if (byte == '"') {
        walk->state = CLOSE;
    } else if (byte == '\\') {
        walk->state = ESCAPE;
        walk->escape[walk->escape_count++] = byte;
    } else if ((unsigned char)byte < ' ') {
        text_input_put_escaped(walk, &byte, 1);
    } else {
        put(walk, &byte, 1);
    }
}

static void text_input_take_escape(struct input_walk *walk, char byte) {
    walk->escape[walk->escape_count++] = byte;
    if (walk->state == ESCAPE && byte == 'u')
        walk->state = HEX;
    else if (walk->state == ESCAPE)
        end_escape(walk, byte && strchr("\"\\/bfnrt", byte));
    else if (!text_input_is_hex(byte))
        end_escape(walk, false);
    else if (walk->escape_count == sizeof walk->escape)
        end_escape(walk, true);
}

static void text_input_take(struct input_walk *walk, char byte) {
    switch (walk->state) {
    case BEFORE:
        text_input_expect(walk, byte, '{', OPEN);
        return;
    case OPEN:
        text_input_expect(walk, byte, '"', KEY);
        return;
    case KEY:
        if (byte != key[walk->key_count++])
            walk->state = BROKEN;
        else if (walk->key_count == sizeof key - 1)
            walk->state = COLON;
        return;
    case COLON:
        text_input_expect(walk, byte, ':', VALUE);
        return;
    case VALUE:
        text_input_expect(walk, byte, '"', TEXT);
        return;
    case TEXT:
        text_input_take_text(walk, byte);
        return;
    case ESCAPE:
    case HEX:
        text_input_take_escape(walk, byte);
        return;
    case CLOSE:
        text_input_expect(walk, byte, '}', WHOLE);
        return;
    case WHOLE:
        if (!text_input_is_space(byte)) walk->state = BROKEN;
        return;
    case BROKEN:
        return;
    }
}

static bool take_piece(void *context, struct bytes piece) {
    struct input_walk *walk = context;
    for (size_t i = 0; i < piece.count; i++)
        text_input_take(walk, piece.data[i]);
    return walk->state != BROKEN;
}

void text_input_write(const struct answer_text *arguments, struct json_writer *writer) {
    struct input_walk shape = {.state = BEFORE}, said = {.state = BEFORE, .writer = writer};
    bool fits = answer_text_walk(arguments, take_piece, &shape) && shape.state >= TEXT;
    if (fits)
        (void)answer_text_walk(arguments, take_piece, &said);
    else
        answer_text_write(arguments, 0, arguments->count, true, writer);
}
