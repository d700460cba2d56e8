/* SPDX-License-Identifier: Apache-2.0 */
#include "host/request_turns.h"

#include <stdlib.h>

#include "base/check.h"
#include "serving/policy/share_turns.h"

struct large_request {
    struct large_request *next;
    struct record_queue record; /* of one */
    struct connection_id connection;
    uint64_t client, turn;
};

/* The last turn of the client's requests (0: none waits), and their bytes. */
static uint64_t last_turn(const struct request_turns *turns, uint64_t client, size_t *bytes_out) {
    uint64_t last = 0;
    *bytes_out = 0;
    if (client == REQUEST_TURNS_NOBODY) return 0;
    for (const struct large_request *one = turns->first; one; one = one->next) {
        if (one->client != client) continue;
        last = one->turn; /* his turns stand one behind the other */
        *bytes_out += one->record.bytes;
    }
    return last;
}

enum status request_turns_put(struct request_turns *turns, uint64_t client,
                              const struct record_client_request *request) {
    size_t bytes = request->record.bytes, client_bytes;
    uint64_t before = last_turn(turns, client, &client_bytes);
    if (!share_turns_admits(bytes, client_bytes, turns->bytes_max - turns->bytes))
        return STATUS_FULL;
    struct large_request *one = calloc(1, sizeof *one);
    check(one != NULL);
    record_queue_force(&one->record, &request->record);
    one->connection = request->connection;
    one->client = client;
    one->turn = share_turns_turn(turns->now, before, bytes);
    if (turns->last)
        turns->last->next = one;
    else
        turns->first = one;
    turns->last = one;
    turns->bytes += bytes;
    return STATUS_OK;
}

/* Takes out the one behind `before`; NULL: the first. */
static struct large_request *take_out(struct request_turns *turns, struct large_request *before) {
    struct large_request **place = before ? &before->next : &turns->first, *one = *place;
    *place = one->next;
    if (turns->last == one) turns->last = before;
    turns->bytes -= one->record.bytes;
    return one;
}

void request_turns_give(struct request_turns *turns, struct record_queue *to) {
    struct large_request *before = NULL, *next = turns->first;
    check(next != NULL);
    for (struct large_request *one = next; one->next; one = one->next)
        if (one->next->turn < next->turn) before = one, next = one->next;
    take_out(turns, before);
    turns->now = next->turn;
    record_queue_move(&next->record, to);
    free(next);
}

static void drop(struct request_turns *turns, struct large_request *before) {
    struct large_request *one = take_out(turns, before);
    record_queue_clear(&one->record);
    free(one);
}

bool request_turns_drop(struct request_turns *turns, struct connection_id connection) {
    struct large_request *before = NULL;
    for (struct large_request *one = turns->first; one; before = one, one = one->next) {
        if (one->connection.value != connection.value) continue;
        drop(turns, before);
        return true;
    }
    return false;
}

void request_turns_clear(struct request_turns *turns) {
    while (turns->first)
        drop(turns, NULL);
}
