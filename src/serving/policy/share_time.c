/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/policy/share_time.h"

static uint32_t share_time_place_of(const struct share_time *share, uint64_t client) {
    uint32_t place = 0;
    while (place < share->count && share->ahead[place].client != client)
        place++;
    return place;
}

uint64_t share_time_turn(const struct share_time *share, uint64_t client) {
    uint32_t place = share_time_place_of(share, client);
    return place < share->count ? share->ahead[place].turn : share->now;
}

static void forget_passed(struct share_time *share) {
    for (uint32_t i = share->count; i-- > 0;)
        if (share->ahead[i].turn <= share->now) share->ahead[i] = share->ahead[--share->count];
}

static uint32_t least_ahead(const struct share_time *share) {
    uint32_t least = 0;
    for (uint32_t i = 1; i < share->count; i++)
        if (share->ahead[i].turn < share->ahead[least].turn) least = i;
    return least;
}

void share_time_spend(struct share_time *share, uint64_t client, int64_t ns) {
    uint64_t begun = share_time_turn(share, client);
    /* at least 1, so that the turn advances */
    uint64_t end = begun + (ns > 0 ? (uint64_t)ns : 0) + 1;
    if (begun > share->now) share->now = begun;
    forget_passed(share);
    uint32_t place = share_time_place_of(share, client);
    if (place == SHARE_TIME_CLIENTS) place = least_ahead(share);
    if (place == share->count) share->count++;
    share->ahead[place].client = client;
    share->ahead[place].turn = end;
}
