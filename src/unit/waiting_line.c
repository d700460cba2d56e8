/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/waiting_line.h"

#include "base/check.h"

#include <string.h>

#define BYTES_MAX ((size_t)256 << 20) /* touched when used */

/* For each request the longest SUBMIT there is and its keys, up to a bound. */
static size_t pool_bytes(const struct unit_options *options, uint32_t capacity) {
    size_t keys = options->context_tokens_max / KV_BLOCK_TOKENS * sizeof(struct block_key);
    size_t longest = round_up(
        submit_bytes(options->context_tokens_max, 2 * LIMIT_STOP_TOKENS, LIMIT_LOGIT_BIASES) +
            keys + 32,
        POOL_CHUNK_BYTES);
    size_t bytes = capacity * longest;
    if (bytes > BYTES_MAX) bytes = BYTES_MAX > longest ? BYTES_MAX : longest;
    return round_up(bytes, POOL_CHUNK_BYTES) + POOL_CHUNK_BYTES;
}

size_t waiting_line_bytes(const struct unit_options *options, uint32_t capacity) {
    return pool_bytes(options, capacity) +
           capacity * (sizeof(struct waiting_request) + sizeof(uint32_t)) + 64;
}

enum status waiting_line_open(struct waiting_line *line, struct arena *arena,
                              const struct unit_options *options, uint32_t capacity) {
    size_t bytes = pool_bytes(options, capacity);
    void *memory = arena_take(arena, bytes);
    line->requests = arena_take_zeroed(arena, capacity * sizeof *line->requests);
    line->order = arena_take(arena, capacity * sizeof *line->order);
    if (!memory || !line->requests || !line->order) return STATUS_NO_MEMORY;
    line->capacity = capacity;
    line->count = 0;
    pool_open(&line->pool, memory, bytes);
    for (uint32_t i = 0; i < capacity; i++) {
        line->order[i] = i;
        arena_open(&line->requests[i].arena, &line->pool);
    }
    return STATUS_OK;
}

bool waiting_line_add(struct waiting_line *line, const struct record_submit *submit,
                      const struct block_key *keys, uint32_t key_count, int64_t turn,
                      int64_t now_ns) {
    if (line->count == line->capacity) return false;
    uint32_t slot = line->order[line->count], place = line->count;
    struct waiting_request *request = &line->requests[slot];
    struct block_key *copies =
        arena_take(&request->arena, key_count * sizeof *keys + submit->record.bytes);
    if (!copies) {
        arena_clear(&request->arena);
        return false;
    }
    memcpy(copies, keys, key_count * sizeof *keys);
    memcpy(copies + key_count, submit, submit->record.bytes);
    request->submit = (struct record_submit *)(copies + key_count);
    request->keys = copies;
    request->key_count = key_count;
    request->turn = turn;
    request->arrived_ns = now_ns;
    request->reason = UINT32_MAX;
    for (; place > 0 && waiting_line_at(line, place - 1)->submit->priority < submit->priority;
         place--)
        line->order[place] = line->order[place - 1];
    line->order[place] = slot;
    line->count++;
    return true;
}

struct waiting_request *waiting_line_at(const struct waiting_line *line, uint32_t place) {
    check(place < line->capacity);
    return &line->requests[line->order[place]];
}

uint32_t waiting_line_find(const struct waiting_line *line, struct request_id id) {
    uint32_t place = 0;
    while (place < line->count &&
           !request_id_equal(waiting_line_at(line, place)->submit->request, id))
        place++;
    check(place < line->count);
    return place;
}

void waiting_line_remove(struct waiting_line *line, uint32_t place) {
    check(place < line->count);
    uint32_t slot = line->order[place];
    arena_clear(&line->requests[slot].arena);
    line->count--;
    memmove(line->order + place, line->order + place + 1,
            (line->count - place) * sizeof *line->order);
    line->order[line->count] = slot;
}
