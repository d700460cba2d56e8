/* SPDX-License-Identifier: Apache-2.0
 * Two implementations of SHA-256. The plain C code (sha256_plain_*) follows FIPS 180-4, sections
 * 4.1.2, 5 and 6.2, step by step. If OpenSSL is linked, the public functions use its low-level
 * calls instead. Version 3 deprecates them, but their replacement (EVP) allocates and locks, and a
 * hash must be in the caller's struct.
 */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "base/sha256.h"

#include <string.h>

#if FATHOM_HAVE_CRYPTO
#include <openssl/sha.h>
#endif

#define BLOCK_BYTES 64

/* The state of the plain C code. It needs may_alias, because the caller's struct sha256 is declared
 * as 64-bit words. */
struct __attribute__((may_alias)) plain {
    uint32_t h[8];              /* hash value of the complete blocks */
    uint8_t block[BLOCK_BYTES]; /* the first bytes % BLOCK_BYTES of the next one */
    uint64_t bytes;             /* bytes hashed so far */
};
_Static_assert(sizeof(struct plain) <= sizeof(struct sha256), "struct plain fits the public one");

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

/* ROTR of the standard; `by` is 1..31. */
static uint32_t rotate_right(uint32_t value, int by) {
    return value >> by | value << (32 - by);
}

/* Section 6.2.2 for one block; v holds the standard's variables a to h. */
static void mix_block(uint32_t h[8], const uint8_t block[BLOCK_BYTES]) {
    uint32_t w[64], v[8];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t sigma0 = rotate_right(w[i - 15], 7) ^ rotate_right(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t sigma1 = rotate_right(w[i - 2], 17) ^ rotate_right(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + sigma0 + w[i - 7] + sigma1;
    }
    memcpy(v, h, sizeof v);
    for (int i = 0; i < 64; i++) {
        uint32_t e = v[4], a = v[0];
        uint32_t t1 = v[7] + (rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25)) +
                      ((e & v[5]) ^ (~e & v[6])) + round_constants[i] + w[i];
        uint32_t t2 = (rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22)) +
                      ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof v[0]);
        v[4] += t1;
        v[0] = t1 + t2;
    }
    for (int i = 0; i < 8; i++)
        h[i] += v[i];
}

void sha256_plain_init(struct sha256 *hash) {
    static const uint32_t initial_hash[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                             0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    struct plain *plain = (struct plain *)hash;
    memcpy(plain->h, initial_hash, sizeof initial_hash);
    plain->bytes = 0;
}

void sha256_plain_update(struct sha256 *hash, const void *data, size_t bytes) {
    struct plain *plain = (struct plain *)hash;
    const uint8_t *at = data;
    while (bytes > 0) {
        size_t filled = plain->bytes % BLOCK_BYTES;
        size_t count = BLOCK_BYTES - filled < bytes ? BLOCK_BYTES - filled : bytes;
        memcpy(plain->block + filled, at, count);
        plain->bytes += count;
        at += count;
        bytes -= count;
        if (filled + count == BLOCK_BYTES) mix_block(plain->h, plain->block);
    }
}

void sha256_plain_final(struct sha256 *hash, uint8_t out[SHA256_BYTES]) {
    struct plain *plain = (struct plain *)hash;
    static const uint8_t padding[BLOCK_BYTES] = {0x80};
    const uint64_t bits = plain->bytes * 8;
    uint8_t length[8];
    /* Padding (section 5.1.1): 0x80 and zeros until 8 bytes are left in a block, for the length. */
    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)(bits >> (56 - 8 * i));
    sha256_plain_update(hash, padding, 1 + (119 - plain->bytes % BLOCK_BYTES) % BLOCK_BYTES);
    sha256_plain_update(hash, length, sizeof length);
    for (int i = 0; i < 32; i++)
        out[i] = (uint8_t)(plain->h[i / 4] >> (24 - 8 * (i % 4)));
}

#if FATHOM_HAVE_CRYPTO
_Static_assert(sizeof(SHA256_CTX) <= sizeof(struct sha256), "OpenSSL's context fits the struct");

void sha256_init(struct sha256 *hash) {
    SHA256_Init((SHA256_CTX *)hash);
}

void sha256_update(struct sha256 *hash, const void *data, size_t bytes) {
    SHA256_Update((SHA256_CTX *)hash, data, bytes);
}

void sha256_final(struct sha256 *hash, uint8_t out[SHA256_BYTES]) {
    SHA256_Final(out, (SHA256_CTX *)hash);
}
#else
void sha256_init(struct sha256 *hash) {
    sha256_plain_init(hash);
}

void sha256_update(struct sha256 *hash, const void *data, size_t bytes) {
    sha256_plain_update(hash, data, bytes);
}

void sha256_final(struct sha256 *hash, uint8_t out[SHA256_BYTES]) {
    sha256_plain_final(hash, out);
}
#endif

void sha256_digest(const void *data, size_t bytes, uint8_t out[SHA256_BYTES]) {
    struct sha256 hash;
    sha256_init(&hash);
    sha256_update(&hash, data, bytes);
    sha256_final(&hash, out);
}

void sha256_hmac(const uint8_t key[SHA256_BYTES], const void *data, size_t bytes,
                 uint8_t out[SHA256_BYTES]) {
    struct sha256 hash;
    uint8_t pad[BLOCK_BYTES] = {0}; /* the key, XORed with ipad (0x36), then with opad (0x5c) */
    memcpy(pad, key, SHA256_BYTES);
    for (int i = 0; i < BLOCK_BYTES; i++)
        pad[i] ^= 0x36;
    sha256_init(&hash);
    sha256_update(&hash, pad, sizeof pad);
    sha256_update(&hash, data, bytes);
    sha256_final(&hash, out);
    for (int i = 0; i < BLOCK_BYTES; i++)
        pad[i] ^= 0x36 ^ 0x5c; /* from ipad to opad */
    sha256_init(&hash);
    sha256_update(&hash, pad, sizeof pad);
    sha256_update(&hash, out, SHA256_BYTES);
    sha256_final(&hash, out);
}
