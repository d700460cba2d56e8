/* SPDX-License-Identifier: Apache-2.0
 * What a load generator reads from outside: a stream of events comes out the same whole and byte by
 * byte, events are understood or refused, traces are read in order or refused with one line.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "bench/load_answer.h"
#include "bench/load_events.h"
#include "simulate/load/load_trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct received {
    char *text; /* events with a terminator each */
    size_t count, room;
};

static void take(void *context, struct bytes data) {
    struct received *received = context;
    static char scratch[1 << 18];
    struct load_answer answer;
    struct error error = {""};
    if (load_answer_read(data, scratch, sizeof scratch, &answer, &error))
        check(error.text[0] && !strchr(error.text, '\n'));
    else
        check(!answer.done || data.count == 6);
    check(data.count + 1 <= received->room - received->count);
    memcpy(received->text + received->count, data.data, data.count);
    received->count += data.count;
    received->text[received->count++] = 0;
}

static void receive(struct bytes text, size_t step, struct received *received) {
    struct load_events events = {0};
    received->room = 2 * text.count + 2;
    received->text = malloc(received->room);
    check(received->text);
    for (size_t at = 0; at < text.count; at += step) {
        size_t left = text.count - at;
        struct bytes piece = {text.data + at, left < step ? left : step};
        check(load_events_push(&events, piece, take, received) == STATUS_OK);
    }
    load_events_free(&events);
}

static void read_trace(struct bytes text) {
    struct load_trace trace;
    struct error error = {""};
    size_t bytes = load_trace_bytes(text);
    char *memory = malloc(bytes);
    struct arena arena;
    check(memory);
    arena_over(&arena, memory, bytes);
    enum status status = load_trace_read(&arena, text, "trace", &trace, &error);
    check(status != STATUS_NO_MEMORY);
    if (status) {
        check(error.text[0] && !strchr(error.text, '\n'));
        free(memory);
        return;
    }
    check(trace.count > 0);
    for (size_t i = 0; i < trace.count; i++) {
        const struct load_trace_row *row = &trace.rows[i];
        check(row->arrival >= (i ? trace.rows[i - 1].arrival : 0));
        check(row->prompt_tokens >= 1 && row->prompt_tokens <= LOAD_TRACE_TOKENS_MAX);
        check(row->output_tokens >= 1 && row->output_tokens <= LOAD_TRACE_TOKENS_MAX);
        check(row->block_index + row->block_count <= trace.block_count);
    }
    free(memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1); /* so that reading beyond is seen */
    check(text);
    memcpy(text, data, size);
    struct bytes whole = {text, size};
    struct received a = {.count = 0}, b = {.count = 0};
    receive(whole, size ? size : 1, &a);
    receive(whole, 1, &b);
    check(a.count == b.count && memcmp(a.text, b.text, a.count) == 0);
    read_trace(whole);
    free(a.text);
    free(b.text);
    free(text);
    return 0;
}
