/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/policy/fair_queue.h"

uint64_t fair_queue_turn(uint64_t now, uint64_t before, size_t bytes) {
    return (before > now ? before : now) + bytes;
}

uint64_t fair_queue_after(uint64_t now, size_t bytes, uint32_t clients_max) {
    return now + bytes / clients_max + 1; /* at least 1, so that virtual time advances */
}

#define WORK_UNITS 65536 /* units of work per token, at a weight of 1 and low priority */

uint64_t fair_queue_work(uint64_t tokens, uint32_t weight, enum account_priority priority) {
    static const uint32_t times[ACCOUNT_PRIORITY_COUNT] = {
        [ACCOUNT_LOW] = 1, [ACCOUNT_NORMAL] = 4, [ACCOUNT_HIGH] = 16};
    return tokens * WORK_UNITS / ((uint64_t)weight * times[priority]) + 1;
}

bool fair_queue_admits(size_t bytes, size_t client_bytes, size_t free_bytes) {
    return bytes <= free_bytes / 2 && client_bytes <= free_bytes / 2 - bytes;
}

static bool fair_queue_is_before(const struct fair_queue_item *items, uint32_t one,
                                 uint32_t other) {
    if (other == FAIR_QUEUE_NONE) return true;
    if (items[one].turn != items[other].turn) return items[one].turn < items[other].turn;
    return items[one].serial < items[other].serial;
}

uint32_t fair_queue_next(const struct fair_queue_item *items, uint32_t count,
                         struct fair_queue_client *clients, uint32_t client_count,
                         uint64_t *turn_out) {
    uint32_t chosen = FAIR_QUEUE_NONE;
    for (uint32_t i = 0; i < client_count; i++)
        clients[i].next = FAIR_QUEUE_NONE;
    for (uint32_t i = 0; i < count; i++) {
        struct fair_queue_client *client = &clients[items[i].client];
        if (fair_queue_is_before(items, i, client->next)) client->next = i;
    }
    for (uint32_t i = 0; i < client_count; i++) {
        uint32_t next = clients[i].next;
        if (next == FAIR_QUEUE_NONE) continue;
        uint64_t turn = fair_queue_turn(clients[i].start, 0, items[next].bytes);
        bool is_first = chosen == FAIR_QUEUE_NONE || turn < *turn_out ||
                        (turn == *turn_out && items[next].serial < items[chosen].serial);
        if (is_first) chosen = next, *turn_out = turn;
    }
    return chosen;
}

uint32_t fair_queue_dropped(const struct fair_queue_item *items, uint32_t count,
                            const struct fair_queue_client *clients, uint32_t client_count,
                            uint32_t newcomer, size_t bytes) {
    uint32_t most = newcomer, dropped = FAIR_QUEUE_NONE;
    size_t most_bytes = clients[newcomer].bytes + bytes;
    for (uint32_t i = 0; i < client_count; i++)
        if (clients[i].bytes > most_bytes) most = i, most_bytes = clients[i].bytes;
    if (most == newcomer) return FAIR_QUEUE_NONE;
    for (uint32_t i = 0; i < count; i++)
        if (items[i].client == most &&
            (dropped == FAIR_QUEUE_NONE || fair_queue_is_before(items, dropped, i)))
            dropped = i;
    return dropped;
}
