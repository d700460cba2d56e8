/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/kernel/simulator_post.h"

#include <string.h>

#include "base/check.h"

#define SPAN_FIRST ((size_t)16 << 10)
#define HEAD_BYTES offsetof(struct simulator_message, record) /* of a message */

bool simulator_post_open(struct simulator_post *post, struct arena *arena, size_t capacity) {
    capacity = capacity / 16 * 16;
    *post = (struct simulator_post){.capacity = capacity,
                                    .span = capacity < SPAN_FIRST ? capacity : SPAN_FIRST};
    post->memory = arena_take(arena, post->capacity);
    return post->memory != NULL;
}

void simulator_post_clear(struct simulator_post *post) {
    post->head = post->tail = post->count = 0;
    post->wrapped = false;
}

static struct simulator_message *at(const struct simulator_post *post, size_t place) {
    return (struct simulator_message *)(void *)(post->memory + place);
}

/* Makes the ring twice as long, or longer, so that it has `bytes` after the tail. Returns false if
 * the capacity is too small. */
static bool grow(struct simulator_post *post, size_t bytes) {
    size_t tail = post->wrapped ? post->end + post->tail : post->tail;
    if (tail + bytes > post->capacity) return false;
    do
        post->span *= 2;
    while (post->span < tail + bytes);
    if (post->span > post->capacity) post->span = post->capacity;
    if (post->wrapped) memcpy(post->memory + post->end, post->memory, post->tail);
    post->tail = tail;
    post->wrapped = false;
    return true;
}

static void wrap(struct simulator_post *post) {
    post->end = post->tail;
    post->tail = 0;
    post->wrapped = true;
}

struct record *simulator_post_put(struct simulator_post *post, int64_t due_ns, uint32_t connection,
                                  size_t bytes) {
    size_t all = HEAD_BYTES + bytes;
    size_t end = post->wrapped ? post->head : post->span;
    if (post->tail + all > end) {
        if (!post->wrapped && all <= post->head)
            wrap(post);
        else if (!grow(post, all))
            return NULL;
    }
    struct simulator_message *message = at(post, post->tail);
    message->due_ns = due_ns;
    message->bytes = (uint32_t)all;
    message->connection = connection;
    post->tail += all;
    post->count++;
    return &message->record;
}

const struct simulator_message *simulator_post_first(const struct simulator_post *post) {
    return post->count ? at(post, post->head) : NULL;
}

const struct simulator_message *simulator_post_behind(const struct simulator_post *post,
                                                      const struct simulator_message *message) {
    size_t place = (size_t)((const char *)message - post->memory) + message->bytes;
    if (place == post->tail) return NULL;
    if (post->wrapped && place == post->end) place = 0;
    return at(post, place);
}

void simulator_post_drop(struct simulator_post *post) {
    check(post->count > 0);
    post->head += at(post, post->head)->bytes;
    if (--post->count == 0) {
        simulator_post_clear(post);
    } else if (post->wrapped && post->head == post->end) {
        post->head = 0;
        post->wrapped = false;
    }
}
