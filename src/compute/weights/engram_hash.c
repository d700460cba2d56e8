/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/weights/engram_hash.h"

#include "base/check.h"

#define SEED_WORDS 4
#define MIX_SHIFT 16

__extension__ typedef unsigned __int128 uint128;

/* numpy's SeedSequence: spreads a seed over a pool of words. */
struct seed_pool {
    uint32_t words[SEED_WORDS], constant;
};

static uint32_t spread_word(struct seed_pool *pool, uint32_t value, uint32_t factor) {
    value ^= pool->constant;
    pool->constant *= factor;
    value *= pool->constant;
    return value ^ value >> MIX_SHIFT;
}

static uint32_t mix_words(uint32_t x, uint32_t y) {
    const uint32_t mixed = 0xCA01F9DDu * x - 0x4973F715u * y;
    return mixed ^ mixed >> MIX_SHIFT;
}

static void fill_pool(struct seed_pool *pool, uint64_t seed) {
    const uint32_t entropy[] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const uint32_t count = seed >> 32 ? 2 : 1;
    pool->constant = 0x43B0D7E5u;
    for (uint32_t i = 0; i < SEED_WORDS; i++)
        pool->words[i] = spread_word(pool, i < count ? entropy[i] : 0, 0x931E8875u);
    for (uint32_t from = 0; from < SEED_WORDS; from++)
        for (uint32_t to = 0; to < SEED_WORDS; to++)
            if (from != to)
                pool->words[to] =
                    mix_words(pool->words[to], spread_word(pool, pool->words[from], 0x931E8875u));
    pool->constant = 0x8B51F9DDu;
}

/* Eight words of state, as four numbers of 64 bits. */
static void draw_state(struct seed_pool *pool, uint64_t state[4]) {
    uint32_t words[8];
    for (uint32_t i = 0; i < 8; i++)
        words[i] = spread_word(pool, pool->words[i % SEED_WORDS], 0x58F38DEDu);
    for (uint32_t i = 0; i < 4; i++)
        state[i] = words[2 * i] | (uint64_t)words[2 * i + 1] << 32;
}

/* PCG64: a linear congruential generator of 128 bits; its output is xored and rotated. */
struct pcg64 {
    uint128 state, increment;
};

static void pcg64_step(struct pcg64 *pcg) {
    const uint128 factor = (uint128)2549297995355413924u << 64 | 4865540595714422341u;
    pcg->state = pcg->state * factor + pcg->increment;
}

static uint64_t pcg64_next(struct pcg64 *pcg) {
    pcg64_step(pcg);
    const uint64_t value = (uint64_t)(pcg->state >> 64) ^ (uint64_t)pcg->state;
    const uint32_t turn = (uint32_t)(pcg->state >> 122);
    return value >> turn | value << (-turn & 63);
}

void engram_hash_draw(uint64_t seed, uint64_t below, uint32_t count, uint64_t *out) {
    struct seed_pool pool;
    uint64_t state[4];
    check(below > 0);
    fill_pool(&pool, seed);
    draw_state(&pool, state);
    struct pcg64 pcg = {.increment = ((uint128)state[2] << 64 | state[3]) << 1 | 1};
    pcg64_step(&pcg);
    pcg.state += (uint128)state[0] << 64 | state[1];
    pcg64_step(&pcg);
    for (uint32_t i = 0; i < count; i++) {
        out[i] = 0;
        if (below == 1) continue; /* nothing is drawn */
        uint128 product;          /* Lemire: the upper half, unless the lower one is too small */
        do
            product = (uint128)pcg64_next(&pcg) * below;
        while ((uint64_t)product < -below % below);
        out[i] = (uint64_t)(product >> 64);
    }
}

static bool is_prime(uint32_t number) {
    for (uint32_t divisor = 2; (uint64_t)divisor * divisor <= number; divisor++)
        if (number % divisor == 0) return false;
    return number > 1;
}

static bool is_used(const struct engram_hash *hash, uint32_t layer, uint32_t rows, uint32_t each,
                    uint32_t prime) {
    for (uint32_t i = 0; i <= layer; i++)
        for (uint32_t k = 0; k < (i < layer ? each : rows); k++)
            if (hash->primes[i][k] == prime) return true;
    return false;
}

static void find_primes(const struct shape *shape, struct engram_hash *hash, uint32_t layer) {
    const uint32_t each = shape_engram_rows(shape);
    uint32_t prime = 0;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < each; i++) {
        if (i % shape->engram_heads == 0) prime = shape->engram_vocab - 1;
        do
            prime++;
        while (!is_prime(prime) || is_used(hash, layer, i, each, prime));
        hash->primes[layer][i] = prime;
        hash->offsets[layer][i] = (uint32_t)sum;
        sum += prime;
    }
    hash->rows[layer] = sum;
}

void engram_hash_open(const struct shape *shape, struct engram_hash *hash_out) {
    const uint64_t most = INT64_MAX / shape->engram_folded / 2;
    *hash_out = (struct engram_hash){.layers = shape->engram_layers};
    for (uint32_t i = 0; i < shape->engram_layers; i++) {
        uint64_t *multipliers = hash_out->multipliers[i];
        engram_hash_draw(10007 * (uint64_t)shape->engram_layer[i], most ? most : 1,
                         shape->engram_ngram, multipliers);
        for (uint32_t n = 0; n < shape->engram_ngram; n++)
            multipliers[n] = 2 * multipliers[n] + 1;
        find_primes(shape, hash_out, i);
    }
}

void engram_hash_rows(const struct shape *shape, const struct engram_hash *hash, uint32_t layer,
                      const uint32_t *ids, uint32_t *rows_out) {
    uint64_t x = ids[0] * hash->multipliers[layer][0];
    for (uint32_t n = 1, row = 0; n < shape->engram_ngram; n++) {
        x ^= ids[n] * hash->multipliers[layer][n];
        for (uint32_t head = 0; head < shape->engram_heads; head++, row++)
            rows_out[row] = (uint32_t)(x % hash->primes[layer][row]) + hash->offsets[layer][row];
    }
}
