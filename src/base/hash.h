/* SPDX-License-Identifier: Apache-2.0
 * Hashes for tables in memory. Their values may change between versions, so data that is stored or
 * sent uses a checksum (base/checksum.h) or SHA-256 (base/sha256.h). Only hash_mix is stable,
 * because generated loads and random checkpoints depend on it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define HASH_STEP UINT64_C(0x9E3779B97F4A7C15) /* 2^64 / the golden ratio, odd */

/* The multipliers of SplitMix64's finalizer (Steele, Lea, Flood, 2014). */
#define HASH_FACTOR_1 UINT64_C(0xBF58476D1CE4E5B9)
#define HASH_FACTOR_2 UINT64_C(0x94D049BB133111EB)

/* SplitMix64's finalizer: a bijection with hash_mix(0) = 0. */
static inline uint64_t hash_mix(uint64_t value) {
    value = (value ^ value >> 30) * HASH_FACTOR_1;
    value = (value ^ value >> 27) * HASH_FACTOR_2;
    return value ^ value >> 31;
}

/* The XOR of both halves of a 128-bit product: each bit of the result depends on all bits of a and
 * b. */
static inline uint64_t hash_fold(uint64_t a, uint64_t b) {
    __extension__ unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Adds one word to a hash. */
static inline uint64_t hash_word(uint64_t hash, uint64_t word) {
    return hash_fold(hash ^ word, HASH_STEP);
}

/* Hash of `count` bytes. Without the seed, an attacker cannot choose bytes that collide. */
static inline uint64_t hash_bytes(uint64_t seed, const void *data, size_t count) {
    uint64_t hash = hash_fold(seed ^ HASH_STEP, count ^ HASH_FACTOR_1);
    for (size_t at = 0; at < count; at += sizeof hash) {
        uint64_t word = 0;
        size_t left = count - at;
        memcpy(&word, (const char *)data + at, left < sizeof word ? left : sizeof word);
        hash = hash_fold(hash ^ word, seed ^ HASH_FACTOR_2);
    }
    return hash;
}
