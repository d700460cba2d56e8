/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/api/answer_calls.h"

#include "base/check.h"

bool answer_calls_add(struct answer_calls *calls, struct arena *arena, struct bytes id,
                      struct bytes name, size_t content_at) {
    struct answer_call *call = arena_take_zeroed(arena, sizeof *call);
    struct bytes own_id = arena_copy(arena, id), own_name = arena_copy(arena, name);
    if (!call || !own_id.data || !own_name.data) return false;
    *call = (struct answer_call){.id = own_id, .name = own_name, .content_at = content_at};
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
