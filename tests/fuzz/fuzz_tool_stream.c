/* SPDX-License-Identifier: Apache-2.0
 * Any output of a model, after a byte that chooses the format: the pieces come in order and are
 * the same however the text is split, nothing of them is lost, and they grow no more than is said.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../serving/text/tool_support.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_BYTES_MAX 2000

static const struct tool tools[] = {
    {{"get", 3}, 1, (const struct bytes[]){{"city", 4}}},
    {{"put", 3}, 0, NULL},
};

/* Pushes the text in pieces of 1 to `step` characters. */
static void run(const struct tool_set *set, struct bytes text, size_t step,
                struct tool_seen *seen) {
    static struct tool_parser parser;
    size_t length = 1, in = 0;
    tool_parser_open(&parser, set);
    seen_open(seen);
    while (in < text.count) {
        size_t end = in, bytes = 0;
        for (size_t left = length; left > 0 && end < text.count; left--) {
            check(utf8_next((struct bytes){text.data + end, text.count - end}, &bytes) ==
                  UTF8_WHOLE);
            end += bytes;
        }
        tool_parser_push(&parser, (struct bytes){text.data + in, end - in}, seen_take, seen);
        in = end;
        check(seen->piece_bytes <= TOOL_GROWTH_MAX * in);
        length = length < step ? length + 1 : 1;
    }
    tool_parser_finish(&parser, seen_take, seen);
    check(parser.held_count == 0 && seen->piece_bytes <= TOOL_GROWTH_MAX * text.count);
    seen_end_call(seen);
}

/* Of those formats alone whose calls cannot have their arguments before the name. */
static bool law_holds(enum tool_format format, struct bytes text, const struct tool_seen *seen) {
    bool reorders = format == TOOL_FORMAT_HERMES || format == TOOL_FORMAT_LLAMA ||
                    format == TOOL_FORMAT_MISTRAL;
    if (seen->calls > 0 && (reorders || seen->piece_bytes >= LAW_BYTES_MAX)) return true;
    return tool_nothing_lost(format, text, seen);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char room[3 * INPUT_BYTES_MAX];
    static struct tool_seen whole, pieces;
    if (size == 0 || size > INPUT_BYTES_MAX) return 0;
    struct tool_set set = {(enum tool_format)(data[0] % TOOL_FORMAT_COUNT), 2, tools};
    struct bytes text = {room, 0};
    check(!utf8_repair((struct bytes){(const char *)data + 1, size - 1}, room, sizeof room,
                       &text.count));
    if (text.count >= LAW_BYTES_MAX) return 0;
    run(&set, text, SIZE_MAX, &whole);
    for (size_t step = 1; step < 6; step += 2) {
        run(&set, text, step, &pieces);
        check(!strcmp(whole.text, pieces.text));
    }
    check(law_holds(set.format, text, &whole));
    return 0;
}
