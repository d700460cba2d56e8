/* SPDX-License-Identifier: Apache-2.0
 * Places the ranks of a unit on hosts, and on a host's NUMA nodes. Ranks fill the hosts in the
 * given order. Each host has consecutive ranks, so rank 0 is on a unit's first host and most
 * neighbours are on one machine.
 */
#pragma once

#include <stdint.h>

#define PLACE_NO_NODE UINT32_MAX

struct place_part { /* a part of a unit */
    uint32_t host;  /* index of the host */
    uint32_t first; /* first of the unit's ranks on this host */
    uint32_t count;
};

/* Allocates `ranks` slots from slots_left[host_count], and writes the unit's parts, at most one per
 * host, to parts_out[host_count]. Returns the number of parts, or 0 if there are too few slots;
 * none is allocated then. */
uint32_t place_ranks(uint32_t *slots_left, uint32_t host_count, uint32_t ranks,
                     struct place_part *parts_out);

/* The NUMA node, of `nodes`, for the rank at `index` among the `count` ranks of a host. Neighbours
 * share a node, and the nodes' counts of ranks differ by at most one. PLACE_NO_NODE: the rank is
 * not bound, because there is one node, or there are nodes without a rank, which would leave their
 * CPUs idle. */
uint32_t place_ranks_node(uint32_t index, uint32_t count, uint32_t nodes);
