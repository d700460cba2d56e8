/* SPDX-License-Identifier: Apache-2.0
 * Incremental SHA-256 (FIPS 180-4) in the caller's struct. It does not allocate, so pure modules
 * may compute KV block keys. It uses OpenSSL (with the CPU's SHA instructions) where it is linked,
 * and plain C in the engine-only build. Tests compare the two.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SHA256_BYTES 32

struct sha256 {
    uint64_t state[16]; /* private */
};

void sha256_init(struct sha256 *hash);
void sha256_update(struct sha256 *hash, const void *data, size_t bytes);
void sha256_final(struct sha256 *hash, uint8_t out[SHA256_BYTES]);

/* sha256_init, sha256_update and sha256_final in one call. */
void sha256_digest(const void *data, size_t bytes, uint8_t out[SHA256_BYTES]);

/* HMAC-SHA-256 (RFC 2104) under a key of SHA256_BYTES. */
void sha256_hmac(const uint8_t key[SHA256_BYTES], const void *data, size_t bytes,
                 uint8_t out[SHA256_BYTES]);

/* The plain C implementation, present in every build. */
void sha256_plain_init(struct sha256 *hash);
void sha256_plain_update(struct sha256 *hash, const void *data, size_t bytes);
void sha256_plain_final(struct sha256 *hash, uint8_t out[SHA256_BYTES]);
