/* SPDX-License-Identifier: Apache-2.0
 * Incremental SHA-256 (FIPS 180-4). The state is in a struct owned by the caller and nothing is
 * allocated, so code that may not allocate or make system calls (the pure modules) can compute KV
 * block keys with it.
 *
 * Builds that link OpenSSL use its implementation, which uses the CPU's SHA instructions. The
 * engine-only build (without serving) uses the plain C one. Tests check that both give the same
 * digests.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SHA256_BYTES 32

struct sha256 {
    uint64_t state[16]; /* private; large enough for either implementation */
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
