/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/policy/share_tokenizer.h"

uint64_t share_tokenizer_turn(uint64_t now, uint64_t before, size_t bytes) {
    return (before > now ? before : now) + bytes;
}

uint64_t share_tokenizer_after(uint64_t now, size_t bytes, uint32_t clients_max) {
    return now + bytes / clients_max + 1; /* it never stands still */
}

bool share_tokenizer_admits(size_t bytes, size_t client_bytes, size_t free_bytes) {
    return bytes <= free_bytes / 2 && client_bytes <= free_bytes / 2 - bytes;
}
