/* SPDX-License-Identifier: Apache-2.0 */
#include "host/wire/request_set.h"

#include <stdlib.h>

#include "base/check.h"

static uint32_t find(const struct request_set *set, struct request_id id) {
    uint32_t at = 0;
    while (at < set->count && !request_id_equal(set->ids[at], id))
        at++;
    return at;
}

void request_set_add(struct request_set *set, struct request_id id) {
    if (find(set, id) < set->count) return;
    if (set->count == set->capacity) {
        set->capacity = set->capacity ? 2 * set->capacity : 64;
        set->ids = realloc(set->ids, set->capacity * sizeof *set->ids);
        check(set->ids);
    }
    set->ids[set->count++] = id;
}

bool request_set_has(const struct request_set *set, struct request_id id) {
    return find(set, id) < set->count;
}

bool request_set_remove(struct request_set *set, struct request_id id) {
    uint32_t at = find(set, id);
    if (at == set->count) return false;
    set->ids[at] = set->ids[--set->count];
    return true;
}

void request_set_take_all(struct request_set *set,
                          void (*take)(void *context, struct request_id id), void *context) {
    for (uint32_t i = 0; i < set->count; i++)
        take(context, set->ids[i]);
    set->count = 0;
}

void request_set_close(struct request_set *set) {
    free(set->ids);
    *set = (struct request_set){.count = 0};
}
