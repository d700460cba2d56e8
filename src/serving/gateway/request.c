/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/request.h"

#include "base/check.h"
#include "serving/gateway/dispatch.h"

/* One request whatever its attempt: only the last one is found. */
static struct map_key key_of_id(struct request_id id) {
    return (struct map_key){id.high, id.low, 0};
}

static struct map_key key_of_connection(struct connection_id connection) {
    return (struct map_key){0, connection.value, 0};
}

uint32_t request_slot(const struct gateway *gateway, const struct request *request) {
    return (uint32_t)(request - gateway->requests);
}

static struct request *claim_slot(struct gateway *gateway, struct request_id id) {
    uint32_t free_count = gateway->options.requests_max - gateway->held_count;
    uint32_t slot = gateway->free_slots[free_count - 1];
    struct request *request = &gateway->requests[slot];
    check(request->state == REQUEST_FREE);
    while (map_find(&gateway->by_id, key_of_id(id)) != MAP_NONE)
        id.low++;
    request->id = id;
    request->unit = request->prefill = request->avoided_unit = FLEET_NONE;
    request->account = ACCOUNT_NONE;
    map_add(&gateway->by_id, key_of_id(id), slot);
    gateway->held_count++;
    return request;
}

struct request *request_claim(struct gateway *gateway, const struct record_client_request *record,
                              uint32_t choice_count) {
    check(choice_count >= 1 && choice_count <= LIMIT_CHOICES);
    if (gateway->options.requests_max - gateway->held_count < choice_count) return NULL;
    struct request *leader = NULL;
    for (uint32_t i = 0; i < choice_count; i++) {
        struct request *request = claim_slot(
            gateway, (struct request_id){.high = record->random[0], .low = record->random[1]});
        if (i == 0) leader = request;
        request->leader = leader;
        request->index = i;
        request->connection = record->connection;
        leader->choices[i] = request;
    }
    leader->choice_count = choice_count;
    map_add(&gateway->by_connection, key_of_connection(record->connection),
            request_slot(gateway, leader));
    return leader;
}

void request_forget_connection(struct gateway *gateway, struct request *leader) {
    if (leader->client_gone) return;
    map_remove(&gateway->by_connection, key_of_connection(leader->connection));
    leader->client_gone = true;
    gateway->wake_ns[request_slot(gateway, leader)] = MACHINE_NEVER; /* nobody is kept alive */
}

static void release_slot(struct gateway *gateway, struct request *request) {
    uint32_t slot = request_slot(gateway, request);
    check(request->unit == FLEET_NONE && request->prefill == FLEET_NONE);
    dispatch_remove(gateway, request);
    map_remove(&gateway->by_id, key_of_id(request->id));
    arena_clear(&request->arena);
    texts_forget(&gateway->texts, &request->waiting_text);
    struct arena arena = request->arena, text = request->waiting_text.arena;
    *request = (struct request){.arena = arena, .waiting_text = {.arena = text}};
    gateway->wake_ns[slot] = MACHINE_NEVER;
    gateway->held_count--;
    gateway->free_slots[gateway->options.requests_max - gateway->held_count - 1] = slot;
}

void request_release(struct gateway *gateway, struct request *leader) {
    check(leader->leader == leader);
    request_forget_connection(gateway, leader);
    accounts_release(&gateway->accounts, leader->account, leader->choice_count);
    for (uint32_t i = leader->choice_count; i-- > 0;)
        release_slot(gateway, leader->choices[i]);
}

struct request *request_find(struct gateway *gateway, struct request_id id) {
    uint32_t slot = map_find(&gateway->by_id, key_of_id(id));
    if (slot == MAP_NONE || gateway->requests[slot].id.attempt != id.attempt) return NULL;
    return &gateway->requests[slot];
}

struct request *request_of_connection(struct gateway *gateway, struct connection_id connection) {
    uint32_t slot = map_find(&gateway->by_connection, key_of_connection(connection));
    return slot == MAP_NONE ? NULL : &gateway->requests[slot];
}
