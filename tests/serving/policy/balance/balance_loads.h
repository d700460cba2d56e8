/* SPDX-License-Identifier: Apache-2.0
 * Loads for tests of the balancers: the seven kinds of docs/performance/balance.md, drawn anew,
 * and some that are meant to hurt (ties, zeros, one expert with nearly everything).
 */
#pragma once

#include <math.h>
#include <stdint.h>

#include "base/random.h"

#define LOADS_EXPERTS_MAX 256
#define LOADS_DRAWN 7 /* the first kinds are smooth draws */
#define LOADS_KINDS 12

static inline double loads_normal(uint64_t seed, uint32_t at) {
    double a = random_uniform(seed, at, 1), b = random_uniform(seed, at, 2);
    return sqrt(-2 * log(1 - a)) * cos(2 * 3.14159265358979323846 * b);
}

static inline double loads_value(uint32_t kind, uint64_t seed, uint32_t e, uint32_t experts) {
    static const double sigmas[] = {0.35, 0.6, 0.8, 1.1};
    uint32_t scattered = (e * 101 + (uint32_t)seed * 31) % experts;
    double normal = loads_normal(seed, e);
    switch (kind) {
    case 0:
    case 1:
    case 2:
    case 3:
        return exp(sigmas[kind] * normal);
    case 4:
        return pow(scattered + 1, -0.6);
    case 5: /* squares of normals: as uneven as Dirichlet 0.7 */
        return 0.02 + normal * normal;
    case 6:
        return exp(0.7 * loads_normal(seed + 1000, e * 8 / experts) + 0.5 * normal);
    case 7:
        return 1; /* all alike */
    case 8:
        return e == seed % experts ? 1000 : 1;
    case 9:
        return e % 3 ? 0 : 1;
    case 10:
        return floor(3 * random_uniform(seed, e, 3));
    default:
        return e == seed % experts ? 1 : 0;
    }
}

static inline void loads_draw(uint32_t kind, uint64_t seed, uint32_t experts, uint64_t *loads_out) {
    for (uint32_t e = 0; e < experts; e++)
        loads_out[e] = (uint64_t)(loads_value(kind, seed * 64 + kind, e, experts) * 1e9);
}
