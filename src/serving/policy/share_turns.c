/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/policy/share_turns.h"

uint64_t share_turns_turn(uint64_t now, uint64_t before, size_t bytes) {
    return (before > now ? before : now) + bytes;
}

uint64_t share_turns_after(uint64_t now, size_t bytes, uint32_t clients_max) {
    return now + bytes / clients_max + 1; /* it never stands still */
}

#define WORK_UNITS 65536 /* of a token, at a weight of 1 and low priority */

uint64_t share_turns_work(uint64_t tokens, uint32_t weight, enum account_priority priority) {
    static const uint32_t times[ACCOUNT_PRIORITY_COUNT] = {
        [ACCOUNT_LOW] = 1, [ACCOUNT_NORMAL] = 4, [ACCOUNT_HIGH] = 16};
    return tokens * WORK_UNITS / ((uint64_t)weight * times[priority]) + 1;
}

bool share_turns_admits(size_t bytes, size_t client_bytes, size_t free_bytes) {
    return bytes <= free_bytes / 2 && client_bytes <= free_bytes / 2 - bytes;
}
