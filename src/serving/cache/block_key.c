/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/cache/block_key.h"

#include "base/check.h"
#include "base/sha256.h"

_Static_assert(sizeof(struct block_key) == SHA256_BYTES, "a key is a whole hash");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are hashed as they stand");

#define DOMAIN_BYTES_MAX 32

/* Roots, links and the two chains have different domains, so that they never hash the same
 * bytes. */
static struct bytes domain_of(enum block_key_chain chain, bool root) {
    static const char *const domains[BLOCK_KEY_CHAIN_COUNT][2] = {
        [BLOCK_KEY_TRUE] = {"fathom kv block, link", "fathom kv block, root"},
        [BLOCK_KEY_MODE_FREE] = {"fathom kv text, link", "fathom kv text, root"},
    };
    check(chain < BLOCK_KEY_CHAIN_COUNT);
    const char *domain = domains[chain][root];
    return (struct bytes){domain, strlen(domain) + 1};
}

static void add_u32(struct sha256 *hash, uint32_t value) {
    sha256_update(hash, &value, sizeof value);
}

static void block_key_add_text(struct sha256 *hash, struct bytes text) {
    add_u32(hash, (uint32_t)text.count);
    if (text.count) sha256_update(hash, text.data, text.count);
}

struct block_key block_key_root(enum block_key_chain chain,
                                const struct block_key_identity *identity) {
    struct bytes domain = domain_of(chain, true);
    struct block_key key;
    struct sha256 hash;
    sha256_init(&hash);
    sha256_update(&hash, domain.data, domain.count);
    add_u32(&hash, BLOCK_KEY_FORMAT_VERSION);
    sha256_update(&hash, identity->model_id, sizeof identity->model_id);
    block_key_add_text(&hash, identity->numerics_id);
    block_key_add_text(&hash, identity->tenant_salt);
    sha256_final(&hash, key.bytes);
    return key;
}

/* Hashes everything in one call, because separate calls for each part take 20 % longer. */
struct block_key block_key_next(enum block_key_chain chain, const struct block_key *previous,
                                const uint32_t tokens[KV_BLOCK_TOKENS],
                                const uint8_t forms[KV_BLOCK_TOKENS]) {
    uint8_t text[DOMAIN_BYTES_MAX + sizeof *previous + 5 * KV_BLOCK_TOKENS], *at = text;
    struct bytes domain = domain_of(chain, false);
    struct block_key key;
    check(domain.count <= DOMAIN_BYTES_MAX);
    memcpy(at, domain.data, domain.count);
    at += domain.count;
    memcpy(at, previous->bytes, sizeof previous->bytes);
    at += sizeof previous->bytes;
    memcpy(at, tokens, KV_BLOCK_TOKENS * sizeof *tokens);
    at += KV_BLOCK_TOKENS * sizeof *tokens;
    if (chain == BLOCK_KEY_TRUE) {
        memcpy(at, forms, KV_BLOCK_TOKENS);
        at += KV_BLOCK_TOKENS;
    }
    sha256_digest(text, (size_t)(at - text), key.bytes);
    return key;
}
