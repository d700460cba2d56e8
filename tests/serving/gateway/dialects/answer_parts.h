/* SPDX-License-Identifier: Apache-2.0
 * An answer in parts, for the test of a dialect's words: kept whole as the gateway keeps it, cut
 * into the pieces of a stream, and the events of such a stream.
 */
#pragma once

#include "base/check.h"
#include "base/tree.h"
#include "serving/gateway/api/api_answer.h"
#include "test_case.h"

struct part { /* of an answer, in order */
    enum token_stream_part part;
    const char *text;
};

static _Alignas(16) char memory[1 << 20];
static struct arena arena;
static struct answer_text text;
static struct answer_calls calls;
static struct token_list tokens;

static inline void forget_answer(void) {
    arena_over(&arena, memory, sizeof memory);
    text = (struct answer_text){0};
    calls = (struct answer_calls){0};
    tokens = (struct token_list){0};
}

/* `id`: of a call. */
static inline void keep(enum token_stream_part part, struct bytes piece, struct bytes id) {
    if (part == TOKEN_STREAM_CALL) {
        text.run_ended = true;
        assert_true(answer_calls_add(&calls, &arena, id, piece, text.count, tokens.count));
    } else if (part == TOKEN_STREAM_ARGUMENTS) {
        assert_true(answer_calls_add_arguments(&calls, &arena, piece));
    } else {
        assert_true(answer_text_add_part(&text, &arena, part, tokens.count, piece));
    }
}

/* Says the parts in order, texts in pieces of at most `most` bytes or one character. Calls have the
 * ids `prefix` and their number. */
static inline void say_parts(const struct part *list, size_t count, const char *prefix, size_t most,
                             void (*say)(void *context, const struct api_piece *piece),
                             void *context) {
    uint32_t call = 0;
    char id[16];
    for (size_t i = 0; i < count; i++) {
        struct bytes rest = bytes_of(list[i].text);
        struct api_piece piece = {.part = list[i].part, .text = rest};
        if (piece.part == TOKEN_STREAM_CALL) {
            (void)snprintf(id, sizeof id, "%s%u", prefix, call++);
            piece.call_id = bytes_of(id);
            say(context, &piece);
            continue;
        }
        while (rest.count) {
            size_t cut = rest.count < most ? rest.count : most;
            while (cut < rest.count && ((uint8_t)rest.data[cut] & 0xC0) == 0x80)
                cut++;
            piece.text = (struct bytes){rest.data, cut};
            say(context, &piece);
            rest = (struct bytes){rest.data + cut, rest.count - cut};
        }
    }
}

static inline void keep_piece(void *context, const struct api_piece *piece) {
    keep(piece->part, piece->text, piece->call_id);
}

static inline void keep_parts(const struct part *list, size_t count, const char *prefix) {
    forget_answer();
    say_parts(list, count, prefix, SIZE_MAX, keep_piece, NULL);
}

/* Takes each event of a stream: its name and its data. */
static inline void walk_events(const char *stream,
                               void (*take)(struct bytes name, struct bytes data)) {
    while (*stream) {
        const char *name = stream + strlen("event: "), *line = strstr(stream, "\ndata: ");
        assert_true(strncmp(stream, "event: ", 7) == 0 && line);
        const char *data = line + strlen("\ndata: "), *end = strstr(data, "\n\n");
        assert_non_null(end);
        take((struct bytes){name, (size_t)(line - name)},
             (struct bytes){data, (size_t)(end - data)});
        stream = end + 2;
    }
}
