/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/api/answer_calls.h"

#include "base/check.h"
#include "base/format.h"
#include "base/random.h"
#include "serving/text/json_scanner.h"

void answer_calls_make_id(const char *prefix, uint32_t digits, struct request_id request,
                          uint32_t choice, uint32_t call, char out[ANSWER_CALLS_ID_BYTES]) {
    uint64_t name = request.high ^ (request.low << 32 | request.low >> 32);
    uint32_t key[2] = {(uint32_t)name, (uint32_t)(name >> 32)}, drawn[4];
    uint32_t counter[4] = {choice, call, (uint32_t)request.low, (uint32_t)request.high};
    char hex[25];
    random_philox(counter, key, drawn);
    format_text(hex, sizeof hex, "%08x%08x%08x", drawn[0], drawn[1], drawn[2]);
    check(digits < sizeof hex);
    hex[digits] = 0;
    format_text(out, ANSWER_CALLS_ID_BYTES, "%s%s", prefix, hex);
}

bool answer_calls_add(struct answer_calls *calls, struct arena *arena, struct bytes id,
                      struct bytes name, size_t text_at, uint32_t token_at) {
    struct answer_call *call = arena_take_zeroed(arena, sizeof *call);
    struct bytes own_id = arena_copy(arena, id), own_name = arena_copy(arena, name);
    if (!call || !own_id.data || !own_name.data) return false;
    *call = (struct answer_call){
        .id = own_id, .name = own_name, .text_at = text_at, .token_at = token_at};
    if (calls->last)
        calls->last->next = call;
    else
        calls->first = call;
    calls->last = call;
    calls->count++;
    calls->escaped_count += json_writer_escaped_count(id) + json_writer_escaped_count(name);
    return true;
}

bool answer_calls_add_arguments(struct answer_calls *calls, struct arena *arena,
                                struct bytes piece) {
    check(calls->last);
    calls->escaped_count += json_writer_escaped_count(piece);
    return answer_text_add(&calls->last->arguments, arena, piece);
}

/* ---- arguments as an object ---- */

struct scan {
    struct json_scanner scanner;
    char first; /* the first byte that is not a space; 0: none yet */
};

static bool scan_piece(void *context, struct bytes piece) {
    struct scan *scan = context;
    for (size_t i = 0; i < piece.count; i++) {
        char byte = piece.data[i];
        if (!scan->first && byte > ' ') scan->first = byte;
        if (!json_scanner_next(&scan->scanner, byte)) return false;
    }
    return true;
}

static bool is_object(const struct answer_text *text) {
    struct scan scan = {.first = 0};
    return answer_text_walk(text, scan_piece, &scan) && scan.first == '{' &&
           json_scanner_is_whole(&scan.scanner);
}

void answer_calls_write_object(struct json_writer *writer, const struct answer_text *arguments) {
    bool valid = is_object(arguments);
    if (arguments->count == 0) {
        json_writer_text(writer, "{}");
        return;
    }
    if (!valid) json_writer_text(writer, "{\"INVALID_JSON\":\"");
    answer_text_write(arguments, 0, arguments->count, !valid, writer);
    if (!valid) json_writer_text(writer, "\"}");
}
