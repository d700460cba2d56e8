/* SPDX-License-Identifier: Apache-2.0 */
#include "host/process/agent/unit_places.h"

#include "serving/policy/place_ranks.h"

#include <stdlib.h>
#include <string.h>

struct unit_places {
    const struct host_list *list; /* or NULL */
    const char *own;
    uint32_t left[HOST_LIST_MAX], used[HOST_LIST_MAX];
    uint32_t count;
    struct place_part parts[HOST_LIST_MAX]; /* of the unit that is placed */
};

enum status unit_places_open(const struct host_list *list, const char *own,
                             struct unit_places **places_out, struct error *error) {
    struct unit_places *places = calloc(1, sizeof *places);
    if (!places) return error_set(error, STATUS_NO_MEMORY, "no memory for the units' places");
    places->list = list;
    places->own = own;
    places->count = list ? list->count : 1;
    places->left[0] = UINT32_MAX;
    if (list) memcpy(places->left, list->slots, list->count * sizeof *list->slots);
    *places_out = places;
    return STATUS_OK;
}

void unit_places_close(struct unit_places *places) {
    free(places);
}

bool unit_places_is_here(const char *own, const char *name) {
    size_t bytes = strcspn(own, ".");
    return strcmp(name, "localhost") == 0 || strcmp(name, own) == 0 ||
           (bytes && strlen(name) == bytes && strncmp(name, own, bytes) == 0);
}

static uint64_t slots_left(const struct unit_places *places) {
    uint64_t left = 0;
    for (uint32_t i = 0; i < places->count; i++)
        left += places->left[i];
    return left;
}

enum status unit_places_add(struct unit_places *places, uint32_t number, uint32_t ranks,
                            struct unit_host **hosts_out, struct supervise_host **parts_out,
                            uint32_t *count_out, struct error *error) {
    uint32_t count = place_ranks(places->left, places->count, ranks, places->parts);
    if (!count)
        return error_set(error, STATUS_INVALID,
                         "the hosts have too few slots for the %u ranks of unit %u: %llu are free; "
                         "name more hosts, or give them more slots",
                         ranks, number, (unsigned long long)slots_left(places));
    struct unit_host *hosts = calloc(count, sizeof *hosts);
    struct supervise_host *parts = calloc(count, sizeof *parts);
    if (!hosts || !parts) {
        free(hosts);
        free(parts);
        return error_set(error, STATUS_NO_MEMORY, "no memory for the units' places");
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct place_part *part = &places->parts[i];
        const char *name = places->list ? places->list->names[part->host] : places->own;
        hosts[i] =
            (struct unit_host){.name = name,
                               .is_here = !places->list || unit_places_is_here(places->own, name),
                               .before = places->used[part->host]};
        parts[i] = (struct supervise_host){.first = part->first, .count = part->count};
        places->used[part->host] += part->count;
    }
    *hosts_out = hosts;
    *parts_out = parts;
    *count_out = count;
    return STATUS_OK;
}

void unit_places_share(const struct unit_places *places, struct unit_host *hosts, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = 0;
        while (places->list && strcmp(places->list->names[at], hosts[i].name) != 0)
            at++;
        hosts[i].sharing = places->used[at];
    }
}

uint32_t unit_places_most(const struct unit_places *places) {
    uint32_t most = 0;
    for (uint32_t i = 0; i < places->count; i++)
        if (places->used[i] > most) most = places->used[i];
    return most;
}
