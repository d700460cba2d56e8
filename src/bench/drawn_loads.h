/* SPDX-License-Identifier: Apache-2.0
 * Loads of experts from fixed seeds, of seven kinds, for the benchmarks of placements: how often each
 * of a layer's 256 experts in 8 groups is chosen.
 */
#ifndef BENCH_DRAWN_LOADS_H
#define BENCH_DRAWN_LOADS_H

#include <stdint.h>

#define DRAWN_EXPERTS 256
#define DRAWN_GROUPS 8
#define DRAWN_KINDS 7

/* Numbers in a row. */
struct drawn_source {
    uint64_t seed;
    uint32_t at;
};

double drawn_loads_uniform(struct drawn_source *source); /* in (0, 1] */
double drawn_loads_normal(struct drawn_source *source);

/* kind < DRAWN_KINDS: "lognormal 0.35", ..., "hot groups" */
const char *drawn_loads_name(uint32_t kind);
void drawn_loads_layer(uint32_t kind, uint32_t layer, double *loads_out);

#endif
