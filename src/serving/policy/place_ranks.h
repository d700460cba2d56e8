/* SPDX-License-Identifier: Apache-2.0
 * Which ranks of a unit run on which host, and on which of a host's NUMA nodes. Ranks fill the
 * hosts in the order in which the hosts are named: each host has a run of ranks that follow one
 * another, so that rank 0 is on a unit's first host and most neighbours are on one machine.
 */
#ifndef SERVING_POLICY_PLACE_RANKS_H
#define SERVING_POLICY_PLACE_RANKS_H

#include <stdint.h>

#define PLACE_NO_NODE UINT32_MAX

struct place_part { /* of a unit */
    uint32_t host;  /* index of the host */
    uint32_t first; /* the unit's rank that comes first there */
    uint32_t count;
};

/* Takes `ranks` slots of slots_left[host_count], and writes the unit's parts, at most one a host, to
 * parts_out[host_count]. The number of parts; 0: there are too few slots, and none was taken. */
uint32_t place_ranks(uint32_t *slots_left, uint32_t host_count, uint32_t ranks,
                     struct place_part *parts_out);

/* The NUMA node, of `nodes`, for the rank at `index` among the `count` ranks of a host. Neighbours
 * share a node, and no node has more than one rank more than another. PLACE_NO_NODE: the rank is not
 * bound, because there is one node, or there are nodes without a rank, whose CPUs would lie idle. */
uint32_t place_node(uint32_t index, uint32_t count, uint32_t nodes);

#endif
