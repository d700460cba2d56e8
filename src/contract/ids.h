/* SPDX-License-Identifier: Apache-2.0
 * Ids in records. Ids that could be confused are structs of one field.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* 128 random bits drawn by the gateway's host, and an attempt number. A request that is resubmitted
 * after the loss of a unit keeps its bits and increments the attempt, so that late messages of the
 * first attempt are not mistaken for messages of the second. */
struct request_id {
    uint64_t high, low;
    uint32_t attempt;
    uint32_t reserved; /* zero */
};

/* A client's HTTP exchange. The host assigns it and never reuses it in a process. */
struct connection_id {
    uint64_t value;
};

/* A unit's connection. The gateway's host assigns it and never reuses it in a process. */
struct unit_id {
    uint32_t value;
};

struct page_id { /* index of a KV page in one rank's memory */
    uint32_t index;
};

/* The key of a KV block in the prefix cache: a SHA-256 of everything that determines its contents
 * (serving/cache/block_key.h). */
struct block_key {
    uint8_t bytes[32];
};

/* The salt of the root of all block keys (serving/cache/block_key.h). Requests share cached blocks,
 * in pages, host memory or on disk, only if their salts are equal. The gateway derives it
 * (serving/gateway/accounts.h). All zeros: the request has no account.
 *
 * A salt has 256 bits, as a key has. It is derived from a secret, and a client may choose a part of
 * the input (cache_salt). With 64 bits, an attacker who tries salts at random would match one of a
 * million other salts after 2^44 tries. With 256 bits, only the hash bounds the attack. */
struct tenant_salt {
    uint8_t bytes[32];
};

static inline bool request_id_equal(struct request_id a, struct request_id b) {
    return a.high == b.high && a.low == b.low && a.attempt == b.attempt;
}
