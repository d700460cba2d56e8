/* SPDX-License-Identifier: Apache-2.0
 * The ids of the requests that a unit holds for the gateway it is connected to: few thousands at
 * most, so a list.
 */
#ifndef HOST_WIRE_REQUEST_SET_H
#define HOST_WIRE_REQUEST_SET_H

#include "contract/ids.h"

struct request_set {
    struct request_id *ids; /* [count] */
    uint32_t count, capacity;
};

/* Twice is once. */
void request_set_add(struct request_set *set, struct request_id id);
bool request_set_has(const struct request_set *set, struct request_id id);
/* False: it was not there. */
bool request_set_remove(struct request_set *set, struct request_id id);
/* Empties the set and names each that was in it. */
void request_set_take_all(struct request_set *set,
                          void (*take)(void *context, struct request_id id), void *context);
void request_set_close(struct request_set *set);

static inline uint32_t request_set_count(const struct request_set *set) {
    return set->count;
}

#endif
