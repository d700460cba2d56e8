/* SPDX-License-Identifier: Apache-2.0 */
#include "host/request_turns.h"

#include <stdlib.h>

#include "base/check.h"

#define CAPACITY_MIN 64

struct turns_request {
    struct record_queue record; /* contains the request's record */
    struct connection_id connection;
};

static void grow(struct request_turns *turns) {
    uint32_t capacity = turns->capacity ? 2 * turns->capacity : CAPACITY_MIN;
    turns->items = realloc(turns->items, capacity * sizeof *turns->items);
    turns->requests = realloc(turns->requests, capacity * sizeof *turns->requests);
    turns->clients = realloc(turns->clients, capacity * sizeof *turns->clients);
    turns->client_ids = realloc(turns->client_ids, capacity * sizeof *turns->client_ids);
    check(turns->items && turns->requests && turns->clients && turns->client_ids);
    turns->capacity = capacity; /* limited by bytes_max / bytes_least */
}

/* Finds or adds a client. There is room for one more client than for requests. */
static uint32_t find_client(struct request_turns *turns, uint64_t id) {
    for (uint32_t i = 0; i < turns->client_count; i++)
        if (turns->client_ids[i] == id) return i;
    turns->client_ids[turns->client_count] = id;
    turns->clients[turns->client_count] = (struct fair_queue_client){.start = turns->now};
    return turns->client_count++;
}

/* Removes a client without requests by moving the last client to its index. */
static void forget_client(struct request_turns *turns, uint32_t client) {
    uint32_t last = --turns->client_count;
    if (client == last) return;
    turns->clients[client] = turns->clients[last];
    turns->client_ids[client] = turns->client_ids[last];
    for (uint32_t i = 0; i < turns->count; i++)
        if (turns->items[i].client == last) turns->items[i].client = client;
}

/* Removes an item by moving the last item to its index. */
static void request_turns_take_out(struct request_turns *turns, uint32_t item) {
    uint32_t client = turns->items[item].client, last = --turns->count;
    turns->clients[client].bytes -= turns->items[item].bytes;
    turns->bytes -= turns->items[item].bytes;
    turns->items[item] = turns->items[last];
    turns->requests[item] = turns->requests[last];
    if (turns->clients[client].bytes == 0) forget_client(turns, client);
}

static void request_turns_drop_each(struct request_turns *turns, uint32_t item) {
    record_queue_clear(&turns->requests[item].record);
    request_turns_take_out(turns, item);
}

static void request_turns_append(struct request_turns *turns, uint32_t client, size_t bytes,
                                 const struct record_client_request *request) {
    struct turns_request *waiting = &turns->requests[turns->count];
    *waiting = (struct turns_request){.connection = request->connection};
    record_queue_force(&waiting->record, &request->record);
    uint64_t turn = fair_queue_turn(turns->clients[client].now, 0, bytes);
    turns->items[turns->count++] = (struct fair_queue_item){client, turn, ++turns->serial, bytes};
    turns->clients[client].bytes += bytes;
    turns->bytes += bytes;
}

enum status request_turns_put(struct request_turns *turns, uint64_t client_id,
                              const struct record_client_request *request,
                              struct connection_id *dropped_out) {
    size_t bytes = request->record.bytes;
    if (bytes < turns->bytes_least) bytes = turns->bytes_least;
    dropped_out->value = 0;
    if (turns->client_count == turns->capacity || turns->count == turns->capacity) grow(turns);
    uint32_t client = find_client(turns, client_id);
    if (bytes <= turns->bytes_max - turns->bytes) {
        request_turns_append(turns, client, bytes, request);
        return STATUS_OK;
    }
    uint32_t dropped = fair_queue_dropped(turns->items, turns->count, turns->clients,
                                          turns->client_count, client, bytes);
    if (turns->clients[client].bytes == 0) forget_client(turns, client);
    if (dropped == FAIR_QUEUE_NONE) return STATUS_FULL;
    *dropped_out = turns->requests[dropped].connection;
    request_turns_drop_each(turns, dropped);
    return STATUS_FULL;
}

static uint32_t request_turns_find_next(struct request_turns *turns, uint64_t *turn_out) {
    uint32_t next =
        fair_queue_next(turns->items, turns->count, turns->clients, turns->client_count, turn_out);
    check(next != FAIR_QUEUE_NONE);
    return next;
}

struct connection_id request_turns_next(struct request_turns *turns) {
    uint64_t turn;
    return turns->requests[request_turns_find_next(turns, &turn)].connection;
}

void request_turns_give(struct request_turns *turns, struct record_queue *to) {
    uint64_t turn;
    uint32_t next = request_turns_find_next(turns, &turn);
    struct fair_queue_client *client = &turns->clients[turns->items[next].client];
    turns->now = client->start = turn;
    client->now = turns->items[next].turn;
    record_queue_move(&turns->requests[next].record, to);
    request_turns_take_out(turns, next);
}

bool request_turns_drop(struct request_turns *turns, struct connection_id connection) {
    for (uint32_t i = 0; i < turns->count; i++) {
        if (turns->requests[i].connection.value != connection.value) continue;
        request_turns_drop_each(turns, i);
        return true;
    }
    return false;
}

void request_turns_clear(struct request_turns *turns) {
    while (turns->count)
        request_turns_drop_each(turns, turns->count - 1);
    free(turns->items);
    free(turns->requests);
    free(turns->clients);
    free(turns->client_ids);
    *turns =
        (struct request_turns){.bytes_max = turns->bytes_max, .bytes_least = turns->bytes_least};
}
