/* SPDX-License-Identifier: Apache-2.0 */
#include "base/random.h"

void random_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    /* The multipliers and key increments are those of the paper named in random.h. */
    for (int round = 0; round < 10; round++) {
        uint64_t product0 = (uint64_t)0xD2511F53u * c0, product1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t high0 = (uint32_t)(product0 >> 32), high1 = (uint32_t)(product1 >> 32);
        c0 = high1 ^ c1 ^ k0;
        c1 = (uint32_t)product1;
        c2 = high0 ^ c3 ^ k1;
        c3 = (uint32_t)product0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

double random_uniform(uint64_t seed, uint32_t choice, uint32_t output_position) {
    const uint32_t counter[4] = {output_position, choice, 0, 0};
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t out[4];
    random_philox(counter, key, out);
    uint64_t bits = ((uint64_t)out[0] << 32 | out[1]) >> 11;
    return (double)bits * 0x1p-53;
}
