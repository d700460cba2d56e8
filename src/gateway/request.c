/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/request.h"

#include "base/check.h"

static struct map_key key_of_id(struct request_id id) {
    return (struct map_key){id.high, id.low, id.attempt};
}

static struct map_key key_of_connection(struct connection_id connection) {
    return (struct map_key){0, connection.value, 0};
}

uint32_t request_slot(const struct gateway *gateway, const struct request *request) {
    return (uint32_t)(request - gateway->requests);
}

struct request *request_claim(struct gateway *gateway, const struct record_client_request *record) {
    uint32_t free_count = gateway->options.requests_max - gateway->held_count;
    if (free_count == 0) return NULL;
    uint32_t slot = gateway->free_slots[free_count - 1];
    struct request *request = &gateway->requests[slot];
    check(request->state == REQUEST_FREE);
    struct request_id id = {.high = record->random[0], .low = record->random[1]};
    while (map_find(&gateway->by_id, key_of_id(id)) != MAP_NONE)
        id.low++;
    request->answer.id = id;
    request->connection = record->connection;
    map_add(&gateway->by_id, key_of_id(id), slot);
    map_add(&gateway->by_connection, key_of_connection(record->connection), slot);
    gateway->held_count++;
    return request;
}

void request_forget_connection(struct gateway *gateway, struct request *request) {
    if (request->client_gone) return;
    map_remove(&gateway->by_connection, key_of_connection(request->connection));
    request->client_gone = true;
}

void request_release(struct gateway *gateway, struct request *request) {
    uint32_t slot = request_slot(gateway, request);
    request_forget_connection(gateway, request);
    map_remove(&gateway->by_id, key_of_id(request->answer.id));
    arena_clear(&request->arena);
    struct arena arena = request->arena;
    *request = (struct request){.arena = arena};
    gateway->wake_ns[slot] = MACHINE_NEVER;
    gateway->held_count--;
    gateway->free_slots[gateway->options.requests_max - gateway->held_count - 1] = slot;
}

struct request *request_find(struct gateway *gateway, struct request_id id) {
    uint32_t slot = map_find(&gateway->by_id, key_of_id(id));
    return slot == MAP_NONE ? NULL : &gateway->requests[slot];
}

struct request *request_of_connection(struct gateway *gateway, struct connection_id connection) {
    uint32_t slot = map_find(&gateway->by_connection, key_of_connection(connection));
    return slot == MAP_NONE ? NULL : &gateway->requests[slot];
}
