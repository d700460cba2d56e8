/* SPDX-License-Identifier: Apache-2.0
 * Estimates the network traffic between nodes that an expert placement causes. Dispatch sends a
 * token to a node once, no matter how many of its experts are there. The traffic of a layer is
 * therefore measured as the number of nodes that a token is sent to.
 *
 * The model: a token chooses k groups. The probability of a set of groups is proportional to the
 * product of their loads (the distribution of maximum entropy). From each group the token chooses m
 * experts independently, with probabilities proportional to their loads. All replicas of an expert
 * are equally likely. Let s_gn be the share of the load of group g that node n serves. The token is
 * then not sent to n with probability
 *
 *   e_k over groups of W_g (1 - s_gn)^m   /   e_k over groups of W_g
 *
 * where e_k is the k-th elementary symmetric polynomial: the sum over all sets of k groups of the
 * product. The number of copies is smallest if every group is entirely on one node.
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
    /* share of the load that is served outside the home node of its group (the node that serves
     * most of the group) */
    double away;
};

/* loads[experts]; groups, groups chosen <= BALANCE_TRAFFIC_GROUPS_MAX. */
void balance_traffic(const struct balance_shape *shape, const struct balance_choice *choice,
                     const uint64_t *loads, const uint16_t *slot_to_expert,
                     struct balance_traffic *traffic_out);
