/* SPDX-License-Identifier: Apache-2.0
 * The ids of the requests that a unit holds for the gateways it is connected to, each with the
 * gateway it belongs to. A unit of many ranks holds tens of thousands, and each token asks.
 */
#ifndef HOST_WIRE_REQUEST_SET_H
#define HOST_WIRE_REQUEST_SET_H

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
    struct map places; /* of ids in `held` */
    void *places_memory;
};

/* Twice is once, for who came first. */
void request_set_add(struct request_set *set, struct request_id id, uint32_t owner);
/* REQUEST_SET_NOBODY: it is not there. */
uint32_t request_set_owner(const struct request_set *set, struct request_id id);
/* Likewise; and it is there no more. */
uint32_t request_set_remove(struct request_set *set, struct request_id id);
/* Removes each that belongs to `owner`, and names it. How many there were. */
uint32_t request_set_take(struct request_set *set, uint32_t owner,
                          void (*take)(void *context, struct request_id id), void *context);
void request_set_close(struct request_set *set);

static inline uint32_t request_set_count(const struct request_set *set) {
    return set->count;
}

#endif
