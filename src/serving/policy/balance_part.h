/* SPDX-License-Identifier: Apache-2.0
 * The parts of the expert balancer. Each can be left out, so that `fathom bench eplb --parts` shows
 * what it brings.
 */
#ifndef SERVING_POLICY_BALANCE_PART_H
#define SERVING_POLICY_BALANCE_PART_H

enum balance_part {
    /* of balance_experts */
    BALANCE_EXCHANGE = 1 << 0,      /* items of the busiest rank for lighter ones */
    BALANCE_REPLICA = 1 << 1,       /* a replica more for an expert of the busiest rank */
    BALANCE_RELIEF = 1 << 2,        /* a replica less on the busiest rank */
    BALANCE_SPREAD = 1 << 3,        /* no rank holds an expert twice */
    BALANCE_NEAR = 1 << 4,          /* exchanges within a node first */
    BALANCE_SECOND_START = 1 << 5,  /* nodes forgotten, where they keep the bound out of reach */
    BALANCE_PAIRS = 1 << 6,         /* the search over counts, where ranks have two slots */
    BALANCE_GAIN_FIRST = 1 << 7,    /* there, who gets a replica is chosen before who gives one */
    BALANCE_STRICT_GROUPS = 1 << 8, /* exchanges of whole groups between nodes */
    /* of balance_keep */
    BALANCE_REPAIR = 1 << 9,        /* a search from the old placement */
    BALANCE_KEEP_PAIRS = 1 << 10,   /* pairs stay together, where ranks have two slots */
    BALANCE_NAMES = 1 << 11,        /* ranks are renamed to what they hold already */
    BALANCE_BETTER_NAMES = 1 << 12, /* and exchange names */
    BALANCE_ALIGN = 1 << 13,        /* what stays on a rank stays in its slot */
};

#endif
