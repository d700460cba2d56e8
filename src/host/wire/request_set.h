/* SPDX-License-Identifier: Apache-2.0
 * The ids of a unit's requests with the gateway of each. A unit of many ranks has tens of thousands
 * of requests, and each token needs a lookup.
 */
#pragma once

#include "base/map.h"
#include "contract/ids.h"

#define REQUEST_SET_NOBODY UINT32_MAX

struct request_held {
    struct request_id id;
    uint32_t owner;
};

struct request_set {           /* zeros: empty */
    struct request_held *held; /* [count] */
    uint32_t count, capacity;
    struct map places; /* index of each id in `held` */
    void *places_memory;
};

/* Adds a request. If it is present, its owner does not change. */
void request_set_add(struct request_set *set, struct request_id id, uint32_t owner);
/* The owner of a request; REQUEST_SET_NOBODY if it is not present. */
uint32_t request_set_owner(const struct request_set *set, struct request_id id);
/* Removes a request and returns its owner; REQUEST_SET_NOBODY if it is not present. */
uint32_t request_set_remove(struct request_set *set, struct request_id id);
/* Removes each request of `owner` and calls `take` for it. Returns their number. */
uint32_t request_set_take(struct request_set *set, uint32_t owner,
                          void (*take)(void *context, struct request_id id), void *context);
void request_set_close(struct request_set *set);

static inline uint32_t request_set_count(const struct request_set *set) {
    return set->count;
}
