/* SPDX-License-Identifier: Apache-2.0
 * How many units of each role a fleet should have. A unit can bear so many tokens a second within the
 * limits of TTFT and TPOT (for prefill the prompts' computed tokens, for decode the answers'), of
 * which `reserve` is kept free. The load is what arrives, not what comes out: what overload holds back
 * is in it, since what waits is to be worked off within a limit.
 *
 *   needed  the larger of the load now and the most that is expected until a unit that is ordered
 *           now serves, over a unit's rate less the reserve
 *   kept    those with which the fleet would still be well below its limits: the same, by the most
 *           that is expected until a unit that is given back now would have paid for its return,
 *           and a unit's rate less the reserve and `give_back`. So what N - 1 units would have to bear
 *           is looked at before the Nth goes.
 *
 * Fewer than needed: it grows, at once. More than kept: it shrinks, if it has not grown for `rest_ns`;
 * twice that if it had to grow so soon after it shrank. Between the two it stays; that, and the rest, is
 * why noise makes nothing swing: in the long run it turns once in `rest_ns` at most. A limit that is
 * missed in spite of enough units is worth one more, once in the time that a start takes. Where there are
 * too few nodes, because some are promised, what is not needed goes first, then growth waits, then
 * what runs goes, each time of the side that has most to spare.
 *
 * The state is the caller's; else pure.
 */
#ifndef SERVING_POLICY_SCALE_FLEET_H
#define SERVING_POLICY_SCALE_FLEET_H

#include <stdbool.h>
#include <stdint.h>

enum scale_side { SCALE_PREFILL, SCALE_DECODE, SCALE_SIDES };

enum scale_reason {
    SCALE_ENOUGH,   /* stays: as many as are needed */
    SCALE_LOAD,     /* grows: the load of now */
    SCALE_FORECAST, /* grows: what is expected when a unit that is ordered now serves */
    SCALE_LIMIT,    /* grows: a limit is missed */
    SCALE_LEAST,    /* grows: fewer than there always have to be */
    SCALE_NEAR,     /* stays: with one unit fewer it would be near its limits */
    SCALE_RETURNS,  /* stays: a unit that is given back would be wanted again too soon */
    SCALE_RESTS,    /* stays: it grew not long ago */
    SCALE_SPARE,    /* shrinks: the load and the forecast allow it */
    SCALE_PROMISED, /* shrinks, or cannot grow: nodes are promised to others */
    SCALE_PINNED,   /* as an operator wants it */
    SCALE_REASON_COUNT
};

/* Short lower-case text. */
const char *scale_reason_name(enum scale_reason reason);

struct scale_rule_side {
    double unit_rate;    /* tokens a second that one unit bears within the limits; > 0 */
    uint32_t unit_nodes; /* >= 1 */
    uint32_t least;      /* units that always have to be there */
    uint32_t most;
    uint32_t beside; /* units that stand beside those that the load needs */
    uint32_t group;  /* units come and go in groups of so many; >= 1 */
};

struct scale_rule {
    struct scale_rule_side sides[SCALE_SIDES];
    double reserve;   /* share of a unit's rate, 0 to < 1 */
    double give_back; /* share of a unit's rate; reserve + give_back < 1 */
    int64_t rest_ns;  /* after it has grown it shrinks no more for so long */
    int64_t start_ns; /* from an order to a unit that serves */
};

struct scale_demand { /* tokens a second */
    double now;       /* what arrives, and what waits over the time in which it has to be gone */
    double soon;      /* the most until a unit that is ordered now serves */
    double later;     /* the most until one that is given back now would have paid for its return */
};

#define SCALE_FREE UINT32_MAX

struct scale_view {
    struct scale_demand demand[SCALE_SIDES];
    uint32_t units[SCALE_SIDES];  /* that serve, start or are ordered; not those that drain */
    uint32_t pinned[SCALE_SIDES]; /* units that an operator wants, or SCALE_FREE */
    bool missed[SCALE_SIDES];     /* lately the side's limit was missed by more than is allowed */
    uint32_t nodes_max;           /* that the fleet may have when what drains now is gone */
};

struct scale_state { /* zeros at first */
    bool has_grown[SCALE_SIDES];
    int64_t grew_ns[SCALE_SIDES];
    bool has_shrunk[SCALE_SIDES];
    int64_t shrank_ns[SCALE_SIDES];
    bool was_rash[SCALE_SIDES]; /* it grew soon after it had shrunk */
};

struct scale_choice {
    uint32_t wanted[SCALE_SIDES];
    enum scale_reason reason[SCALE_SIDES];
};

/* Units that bear `rate` tokens a second with so much of theirs kept free; `least` and `most`
 * apart. */
uint32_t scale_fleet_units(const struct scale_rule_side *side, double rate, double free_share);

struct scale_choice scale_fleet(struct scale_state *state, const struct scale_rule *rule,
                                const struct scale_view *view, int64_t now_ns);

/* Nodes of so many units of each side. */
uint32_t scale_fleet_nodes(const struct scale_rule *rule, const uint32_t units[SCALE_SIDES]);

#endif
