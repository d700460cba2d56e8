/* SPDX-License-Identifier: Apache-2.0
 * What a placement costs on the network between nodes. A token goes to a node once, however many
 * of its experts live there, so a layer's traffic is the number of nodes that a token touches.
 *
 * The model: a token chooses k groups, a set of groups being as likely as the product of their
 * loads (the distribution of greatest entropy), and m experts of each, independently, an expert as
 * likely as its load, a replica of it as likely as any other. With s the share of group g's load
 * that node n serves, n is spared with probability
 *
 *   e_k over groups of W_g (1 - s_gn)^m   /   e_k over groups of W_g
 *
 * where e_k is the k-th elementary symmetric polynomial: the sum over all sets of k groups of the
 * product. Groups that live whole on one node give the fewest copies.
 */
#ifndef SERVING_POLICY_BALANCE_TRAFFIC_H
#define SERVING_POLICY_BALANCE_TRAFFIC_H

#include "serving/policy/balance_experts.h"

#define BALANCE_TRAFFIC_GROUPS_MAX 64
#define BALANCE_TRAFFIC_EMPTY UINT16_MAX /* a slot without an expert */

struct balance_choice {
    uint32_t groups, experts; /* that a token chooses; experts / groups are of one group */
};

struct balance_traffic {
    double copies; /* expected nodes that a token of this layer is sent to */
    double away;   /* share of all load that is served outside its group's home node, which is the
                    * node that serves most of the group */
};

/* loads[experts]; groups, groups chosen <= BALANCE_TRAFFIC_GROUPS_MAX. */
void balance_traffic(const struct balance_shape *shape, const struct balance_choice *choice,
                     const uint64_t *loads, const uint16_t *slot_to_expert,
                     struct balance_traffic *traffic_out);

#endif
