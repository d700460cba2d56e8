/* SPDX-License-Identifier: Apache-2.0 */
#include "host/process/connection_eviction.h"

#include <string.h>

#define NS_PER_SECOND ((int64_t)1000000000)

static const uint8_t mapped_prefix[12] = {[10] = 0xFF, [11] = 0xFF};

static uint64_t connection_eviction_number_of(const uint8_t *bytes, size_t count) {
    uint64_t number = 0;
    for (size_t i = 0; i < count; i++)
        number = number << 8 | bytes[i];
    return number;
}

/* IPv4 addresses map to 0:0:ffff::/64 .. , which IPv6 does not use. */
uint64_t connection_eviction_network(const uint8_t *address, size_t count) {
    const uint64_t four = (uint64_t)0xFFFF << 32;
    if (count == 4) return four | connection_eviction_number_of(address, 4);
    if (memcmp(address, mapped_prefix, sizeof mapped_prefix) == 0)
        return four | connection_eviction_number_of(address + 12, 4);
    return connection_eviction_number_of(address, 8);
}

int64_t connection_eviction_credit(int64_t since_ns, size_t bytes, int64_t now_ns) {
    if (bytes / EVICT_BYTES_PER_SECOND > (uint64_t)(INT64_MAX / NS_PER_SECOND / 4)) return now_ns;
    int64_t whole = (int64_t)(bytes / EVICT_BYTES_PER_SECOND);
    int64_t part = (int64_t)(bytes % EVICT_BYTES_PER_SECOND);
    int64_t paid_ns = whole * NS_PER_SECOND + part * NS_PER_SECOND / EVICT_BYTES_PER_SECOND;
    return now_ns - since_ns < paid_ns ? now_ns : since_ns + paid_ns;
}

static bool may_leave(const struct evict_client *client, int64_t now_ns) {
    return client->idle_since_ns != EVICT_BUSY && now_ns - client->idle_since_ns >= EVICT_IDLE_NS;
}

static bool is_idler(const struct evict_client *clients, uint32_t one, uint32_t other) {
    return other == EVICT_NONE || clients[one].idle_since_ns < clients[other].idle_since_ns;
}

uint32_t connection_eviction_idlest(const struct evict_client *clients, uint32_t count,
                                    int64_t now_ns) {
    uint32_t idlest = EVICT_NONE;
    for (uint32_t i = 0; i < count; i++)
        if (may_leave(&clients[i], now_ns) && is_idler(clients, i, idlest)) idlest = i;
    return idlest;
}

uint32_t connection_eviction_of_network(const struct evict_client *clients, uint32_t count,
                                        uint64_t network, uint32_t bound_max, int64_t now_ns) {
    uint32_t idlest = EVICT_NONE, bound = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!clients[i].is_bound || clients[i].network != network) continue;
        bound++;
        if (may_leave(&clients[i], now_ns) && is_idler(clients, i, idlest)) idlest = i;
    }
    return bound > bound_max ? idlest : EVICT_NONE;
}

enum held { HELD_BODY, HELD_ANSWER };

static size_t held_bytes(const struct evict_client *client, enum held what) {
    return what == HELD_BODY ? client->body_bytes : client->answer_bytes;
}

static uint32_t find_holder(const struct evict_client *clients, uint32_t count, uint32_t except,
                            enum held what, int64_t now_ns) {
    uint32_t idlest = EVICT_NONE;
    for (uint32_t i = 0; i < count; i++) {
        if (i == except || held_bytes(&clients[i], what) == 0) continue;
        if (may_leave(&clients[i], now_ns) && is_idler(clients, i, idlest)) idlest = i;
    }
    return idlest;
}

uint32_t connection_eviction_body(const struct evict_client *clients, uint32_t count,
                                  uint32_t except, int64_t now_ns) {
    return find_holder(clients, count, except, HELD_BODY, now_ns);
}

uint32_t connection_eviction_answer(const struct evict_client *clients, uint32_t count,
                                    uint32_t except, int64_t now_ns) {
    return find_holder(clients, count, except, HELD_ANSWER, now_ns);
}

static size_t connection_eviction_share_of(const struct evict_client *client,
                                           enum evict_share what) {
    return what == EVICT_PLACES ? client->owner != 0 : client->body_bytes;
}

/* The owner of more than half, if any, by the weighted majority vote of Boyer and Moore. */
static uint64_t find_crowd(const struct evict_client *clients, uint32_t count,
                           enum evict_share what) {
    uint64_t owner = 0;
    size_t lead = 0, all = 0, its = 0;
    for (uint32_t i = 0; i < count; i++) {
        size_t share = connection_eviction_share_of(&clients[i], what);
        all += share;
        if (clients[i].owner == owner)
            lead += share;
        else if (share > lead)
            owner = clients[i].owner, lead = share - lead;
        else
            lead -= share;
    }
    for (uint32_t i = 0; i < count; i++)
        if (clients[i].owner == owner) its += connection_eviction_share_of(&clients[i], what);
    return its > all / 2 ? owner : 0;
}

uint32_t connection_eviction_of_crowd(const struct evict_client *clients, uint32_t count,
                                      enum evict_share what, uint64_t newcomer) {
    uint64_t owner = find_crowd(clients, count, what);
    uint32_t idlest = EVICT_NONE;
    if (!owner || owner == newcomer) return EVICT_NONE;
    for (uint32_t i = 0; i < count; i++) {
        bool is_of_crowd =
            clients[i].owner == owner && connection_eviction_share_of(&clients[i], what);
        bool works = clients[i].idle_since_ns == EVICT_BUSY || clients[i].answer_bytes;
        if (!is_of_crowd || works) continue;
        if (is_idler(clients, i, idlest)) idlest = i;
    }
    return idlest;
}

bool connection_eviction_has_room(size_t held, size_t held_max, size_t more, size_t body_bytes) {
    bool is_small = body_bytes <= EVICT_SMALL_BODY_BYTES;
    size_t kept = is_small ? 0 : held_max / EVICT_SMALL_SHARE;
    return held + more <= held_max - kept;
}
