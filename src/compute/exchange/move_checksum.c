/* SPDX-License-Identifier: Apache-2.0
 * Four lanes of 8-byte words. Each step is a bijection of the lane for a given word, and of the
 * word for a given lane, so a single changed word always changes the lane. At the end the lanes are
 * mixed with the finalizer of SplitMix64 (S. Vigna 2015).
 */
#include "compute/exchange/move_checksum.h"

#include "base/hash.h"

#include <string.h>

#define PRIME UINT64_C(0x9E3779B185EBCA87)

static uint64_t turned(uint64_t x, unsigned bits) {
    return x << bits | x >> (64 - bits);
}

void move_checksum_begin(struct move_checksum *sum) {
    *sum = (struct move_checksum){.channels = {1, 2, 3, 4}};
}

static void move_checksum_add_block(struct move_checksum *sum, const uint64_t *words) {
    for (int channel = 0; channel < 4; channel++)
        sum->channels[channel] = turned(sum->channels[channel] ^ words[channel], 29) * PRIME;
}

void move_checksum_add(struct move_checksum *sum, const char *data, size_t bytes) {
    uint64_t words[4];
    size_t at = 0;
    for (; at + sizeof words <= bytes; at += sizeof words) {
        memcpy(words, data + at, sizeof words);
        move_checksum_add_block(sum, words);
    }
    if (at < bytes) {
        memset(words, 0, sizeof words);
        memcpy(words, data + at, bytes - at);
        move_checksum_add_block(sum, words);
    }
    sum->bytes += bytes;
}

uint64_t move_checksum_end(const struct move_checksum *sum) {
    uint64_t all = sum->bytes;
    for (int channel = 0; channel < 4; channel++)
        all = hash_mix(all ^ sum->channels[channel]) + PRIME;
    return all;
}
