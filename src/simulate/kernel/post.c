/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/kernel/post.h"

#include <string.h>

#include "base/check.h"
#include "contract/record_unit.h"

#define GAP_LEAST ((size_t)16 << 10) /* shorter gaps are kept */

bool post_open(struct post *post, struct arena *arena, size_t capacity) {
    *post = (struct post){.memory = arena_take(arena, capacity), .capacity = capacity};
    post_clear(post);
    return post->memory != NULL;
}

void post_clear(struct post *post) {
    post->head = post->tail = 0;
    post->last_ns = INT64_MIN;
}

struct record *post_put(struct post *post, int64_t due_ns, uint32_t connection, size_t bytes) {
    size_t all = offsetof(struct post_message, record) + bytes, at = 0;
    const struct post_message *other;
    if (post->tail + all > post->capacity) return NULL;
    if (due_ns >= post->last_ns) at = post->tail - post->head;
    while ((other = post_at(post, at)) && other->due_ns <= due_ns)
        at += other->bytes;
    char *place = post->memory + post->head + at;
    memmove(place + all, place, post->tail - post->head - at);
    post->tail += all;
    if (due_ns > post->last_ns) post->last_ns = due_ns;
    struct post_message *message = (struct post_message *)(void *)place;
    message->due_ns = due_ns;
    message->bytes = (uint32_t)all;
    message->connection = connection;
    return &message->record;
}

void post_send(struct post *post, int64_t due_ns, uint32_t connection,
               const struct record *record) {
    struct record *copy = post_put(post, due_ns, connection, record->bytes);
    check(copy);
    memcpy(copy, record, record->bytes);
}

void post_send_link(struct post *post, int64_t due_ns, uint32_t connection, enum record_kind kind) {
    const struct record_unit_link link = {.record = record_head(kind, sizeof link),
                                          .unit = {connection}};
    post_send(post, due_ns, connection, &link.record);
}

void post_send_from_unit(struct post *post, int64_t due_ns, uint32_t connection,
                         const struct record *record) {
    size_t bytes = sizeof(struct record_envelope) + record->bytes;
    struct record_envelope *envelope =
        (struct record_envelope *)(void *)post_put(post, due_ns, connection, bytes);
    check(envelope);
    *envelope = (struct record_envelope){.record = record_head(RECORD_FROM_UNIT, bytes),
                                         .unit = {connection},
                                         .inner_bytes = record->bytes};
    memcpy(envelope_inner(envelope), record, record->bytes);
}

void post_drop(struct post *post, size_t at) {
    size_t bytes = post_at(post, at)->bytes, left = post->tail - post->head - bytes;
    char *first = post->memory + post->head;
    if (at == 0)
        post->head += bytes;
    else
        memmove(first + at, first + at + bytes, left - at);
    if (at > 0) post->tail -= bytes;
    if (left == 0) {
        post_clear(post);
    } else if (post->head >= GAP_LEAST && post->head >= left) {
        memmove(post->memory, post->memory + post->head, left);
        post->head = 0;
        post->tail = left;
    }
}

void post_lose(struct post *post, uint32_t connection, int64_t after_ns) {
    size_t at = 0;
    for (const struct post_message *message; (message = post_at(post, at));) {
        if (message->connection == connection && message->due_ns > after_ns)
            post_drop(post, at);
        else
            at += message->bytes;
    }
}
