/* SPDX-License-Identifier: Apache-2.0
 * Places the ranks of a unit on hosts, and on the NUMA nodes of a host. Ranks fill the hosts in the
 * given order. The ranks on each host are consecutive, so rank 0 is on the first host of a unit,
 * and most neighbours share a host.
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

/* The NUMA node, out of `nodes`, for the rank at `index` among the `count` ranks of a host.
 * Neighbours share a node, and the numbers of ranks per node differ by at most one. PLACE_NO_NODE:
 * the rank is not bound to a node, because there is only one node, or because nodes without a rank
 * would leave their CPUs idle. */
uint32_t place_ranks_node(uint32_t index, uint32_t count, uint32_t nodes);
