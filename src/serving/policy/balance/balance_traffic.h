/* SPDX-License-Identifier: Apache-2.0
 * The network traffic between nodes that a placement causes. A token is sent to a node once, no
 * matter how many of its experts are there, so a layer's traffic is the number of nodes that a
 * token visits.
 *
 * The model: a token chooses k groups, with the probability of a set proportional to the product of
 * the groups' loads (the distribution of greatest entropy). From each it chooses m experts
 * independently, each with a probability proportional to its load, and each replica of an expert
 * with the same probability. If s is the share of group g's load that node n serves, the token does
 * not visit n with probability
 *
 *   e_k over groups of W_g (1 - s_gn)^m   /   e_k over groups of W_g
 *
 * where e_k is the k-th elementary symmetric polynomial: the sum over all sets of k groups of the
 * product. Groups that are entirely on one node give the fewest copies.
 */
#pragma once

#include "serving/policy/balance/balance_experts.h"

#define BALANCE_TRAFFIC_GROUPS_MAX 64
#define BALANCE_TRAFFIC_EMPTY UINT16_MAX /* a slot without an expert */

struct balance_choice {
    uint32_t groups, experts; /* chosen by a token; experts / groups are from one group */
};

struct balance_traffic {
    double copies; /* expected number of nodes that a token of this layer is sent to */
    /* share of all load served outside the home node of its group (the node that serves most of the
     * group) */
    double away;
};

/* loads[experts]; groups, groups chosen <= BALANCE_TRAFFIC_GROUPS_MAX. */
void balance_traffic(const struct balance_shape *shape, const struct balance_choice *choice,
                     const uint64_t *loads, const uint16_t *slot_to_expert,
                     struct balance_traffic *traffic_out);
