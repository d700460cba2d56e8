/* SPDX-License-Identifier: Apache-2.0
 * Content-based keys of KV blocks, for the prefix cache and the KV storage. A key is a hash chain
 * over everything that the values of a block depend on: the key of the block before it, its 64
 * tokens, and the mode of each token (prompt or generated, see contract/step_plan.h). The root of
 * the chain covers block format, model, numerics and tenant. Equal keys therefore mean equal bytes,
 * and the keys of one tenant reveal nothing about other tenants.
 *
 * A second chain omits the modes. It only finds candidates, when generated text returns in a later
 * prompt. A candidate may be used only if its true key fits the use.
 *
 *   root = SHA-256(domain, format version, model id, numerics id, salt bytes, salt)
 *   next = SHA-256(domain, previous key, 64 x token u32 LE, [64 x form u8])
 */
#pragma once

#include "base/bytes.h"
#include "base/limits.h"
#include "contract/ids.h"

#define BLOCK_KEY_FORMAT_VERSION 1

enum block_key_chain { BLOCK_KEY_TRUE, BLOCK_KEY_MODE_FREE, BLOCK_KEY_CHAIN_COUNT };

struct block_key_identity {
    uint8_t model_id[32];
    struct bytes numerics_id;
    struct bytes tenant_salt; /* derived by the server, never chosen by a client */
};

struct block_key block_key_root(enum block_key_chain chain,
                                const struct block_key_identity *identity);

/* forms[KV_BLOCK_TOKENS]: enum mla_mode of each token; read only for the true chain. */
struct block_key block_key_next(enum block_key_chain chain, const struct block_key *previous,
                                const uint32_t tokens[KV_BLOCK_TOKENS],
                                const uint8_t forms[KV_BLOCK_TOKENS]);

static inline bool block_key_equal(const struct block_key *a, const struct block_key *b) {
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}
