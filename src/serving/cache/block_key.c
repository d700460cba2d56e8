/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/cache/block_key.h"

#include "base/check.h"
#include "base/sha256.h"

_Static_assert(sizeof(struct block_key) == SHA256_BYTES, "a key is a whole hash");

/* Roots, links and the two chains never hash the same bytes. */
static void begin(struct sha256 *hash, enum block_key_chain chain, bool root) {
    static const char *const domains[BLOCK_KEY_CHAIN_COUNT][2] = {
        [BLOCK_KEY_TRUE] = {"fathom kv block, link", "fathom kv block, root"},
        [BLOCK_KEY_FORM_FREE] = {"fathom kv text, link", "fathom kv text, root"},
    };
    check(chain < BLOCK_KEY_CHAIN_COUNT);
    const char *domain = domains[chain][root];
    sha256_init(hash);
    sha256_update(hash, domain, strlen(domain) + 1);
}

static void add_u32(struct sha256 *hash, uint32_t value) {
    uint8_t bytes[4] = {(uint8_t)value, (uint8_t)(value >> 8), (uint8_t)(value >> 16),
                        (uint8_t)(value >> 24)};
    sha256_update(hash, bytes, sizeof bytes);
}

static void add_tokens(struct sha256 *hash, const uint32_t tokens[KV_BLOCK_TOKENS]) {
    uint8_t bytes[KV_BLOCK_TOKENS][4];
    for (uint32_t i = 0; i < KV_BLOCK_TOKENS; i++)
        for (int byte = 0; byte < 4; byte++)
            bytes[i][byte] = (uint8_t)(tokens[i] >> 8 * byte);
    sha256_update(hash, bytes, sizeof bytes);
}

static void add_text(struct sha256 *hash, struct bytes text) {
    add_u32(hash, (uint32_t)text.count);
    if (text.count) sha256_update(hash, text.data, text.count);
}

static struct block_key finish(struct sha256 *hash) {
    struct block_key key;
    sha256_final(hash, key.bytes);
    return key;
}

struct block_key block_key_root(enum block_key_chain chain,
                                const struct block_key_identity *identity) {
    struct sha256 hash;
    begin(&hash, chain, true);
    add_u32(&hash, BLOCK_KEY_FORMAT_VERSION);
    sha256_update(&hash, identity->model_id, sizeof identity->model_id);
    add_text(&hash, identity->numerics_id);
    add_text(&hash, identity->tenant_salt);
    return finish(&hash);
}

struct block_key block_key_next(enum block_key_chain chain, const struct block_key *previous,
                                const uint32_t tokens[KV_BLOCK_TOKENS],
                                const uint8_t forms[KV_BLOCK_TOKENS]) {
    struct sha256 hash;
    begin(&hash, chain, false);
    sha256_update(&hash, previous->bytes, sizeof previous->bytes);
    add_tokens(&hash, tokens);
    if (chain == BLOCK_KEY_TRUE) sha256_update(&hash, forms, KV_BLOCK_TOKENS);
    return finish(&hash);
}
