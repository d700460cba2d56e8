/* SPDX-License-Identifier: Apache-2.0
 * Ids that cross a door. One-field structs where two ids could be swapped by mistake.
 */
#ifndef CONTRACT_IDS_H
#define CONTRACT_IDS_H

#include <stdbool.h>
#include <stdint.h>

/* 128 random bits drawn by the gateway's host, and an attempt number: a request that is resubmitted
 * after the loss of a unit keeps its bits and counts its attempt up, so late messages of the first
 * attempt cannot be taken for the second's. */
struct request_id {
    uint64_t high, low;
    uint32_t attempt;
    uint32_t reserved; /* zero */
};

struct connection_id { /* a client's HTTP exchange, named by the host; never reused in a process */
    uint64_t value;
};

struct unit_id { /* a unit's connection, named by the gateway's host; never reused in a process */
    uint32_t value;
};

struct page_id { /* index of a KV page in one rank's memory */
    uint32_t index;
};

/* A KV block's name: SHA-256 over everything its numbers depend on (serving/cache/block_key.h). */
struct block_key {
    uint8_t bytes[32];
};

/* Requests find each other's cached blocks, in every tier, only if their salts are equal: the salt
 * enters the root of all block keys (serving/cache/block_key.h). The gateway derives it
 * (serving/gateway/accounts.h). Zeros: the request belongs to no account.
 *
 * A salt has 256 bits, as many as a key. It stands for the secret that it is made from, and a
 * client may choose a part of that (cache_salt). With 64 bits, somebody who tries salts at will
 * would meet one of a million others' after 2^44 tries; with 256 bits only the hash bounds that. */
struct tenant_salt {
    uint8_t bytes[32];
};

static inline bool request_id_equal(struct request_id a, struct request_id b) {
    return a.high == b.high && a.low == b.low && a.attempt == b.attempt;
}

#endif
