/* SPDX-License-Identifier: Apache-2.0
 * Decides how many units of each role a fleet should have. A unit can serve some number of tokens
 * per second within the limits of TTFT and TPOT: computed prompt tokens for prefill, answer tokens
 * for decode. The share `reserve` of that rate is kept free. The load is what arrives, not the
 * throughput. It includes requests that wait because of overload, since they have a time limit,
 * too.
 *
 *   needed  the larger of the present load and the highest forecast until a unit that is ordered
 *           now serves, over a unit's rate minus the reserve
 *   kept    the units with which the fleet would still be well below its limits: the same, from the
 *           highest forecast until a unit that is given back now would have paid for its return,
 *           and a unit's rate minus the reserve and `give_back`. So the load of N - 1 units is
 *           checked before the Nth is given back.
 *
 * Below `needed` the fleet grows at once. Above `kept` it shrinks if it has not grown for
 * `rest_ns`, or for twice that time if it had to grow soon after it shrank. Between the two its
 * size stays. The gap and the rest time prevent oscillation by noise: in the long run the fleet
 * reverses at most once per `rest_ns`. If a limit is missed in spite of enough units, one more is
 * added, at most once in the time of a start. If nodes are short because some are promised to
 * others, the fleet first returns unneeded units, then stops growing, and then returns running
 * units, each time from the side with the most spare capacity.
 *
 * The caller keeps the state; otherwise pure.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum scale_side { SCALE_PREFILL, SCALE_DECODE, SCALE_SIDES };

enum scale_reason {
    SCALE_ENOUGH,   /* stays: the fleet has as many as it needs */
    SCALE_LOAD,     /* grows: the present load */
    SCALE_FORECAST, /* grows: the forecast for the time at which a unit ordered now serves */
    SCALE_LIMIT,    /* grows: a limit is missed */
    SCALE_LEAST,    /* grows: below the configured minimum */
    SCALE_NEAR,     /* stays: with one unit fewer it would be near its limits */
    SCALE_RETURNS,  /* stays: a returned unit would be needed again too soon */
    SCALE_RESTS,    /* stays: it grew recently */
    SCALE_SPARE,    /* shrinks: the load and the forecast allow it */
    SCALE_PROMISED, /* shrinks, or cannot grow: nodes are promised to others */
    SCALE_PINNED,   /* set by an operator */
    SCALE_REASON_COUNT
};

/* The reason as short lower-case text. */
const char *scale_fleet_reason_name(enum scale_reason reason);

struct scale_rule_side {
    double unit_rate;    /* tokens per second that one unit serves within the limits; > 0 */
    uint32_t unit_nodes; /* >= 1 */
    uint32_t least;      /* minimum of units */
    uint32_t most;
    uint32_t extra; /* units in addition to those that the load needs */
    uint32_t group; /* units are added and removed in groups of this size; >= 1 */
};

struct scale_rule {
    struct scale_rule_side sides[SCALE_SIDES];
    double reserve; /* share of a unit's rate that is kept free; 0 to < 1 */
    /* additional free share before a unit is returned; reserve + give_back < 1 */
    double give_back;
    int64_t rest_ns;  /* time after growth during which the fleet does not shrink */
    int64_t start_ns; /* time from an order until the unit serves */
};

struct scale_demand { /* tokens per second */
    /* arriving load, plus the waiting load divided by the time in which it must be served */
    double now;
    double soon;  /* highest forecast until a unit ordered now serves */
    double later; /* highest forecast until a unit returned now would have paid for its return */
};

#define SCALE_FREE UINT32_MAX

struct scale_view {
    struct scale_demand demand[SCALE_SIDES];
    uint32_t units[SCALE_SIDES];  /* serving, starting or ordered; not draining */
    uint32_t pinned[SCALE_SIDES]; /* set by an operator, or SCALE_FREE */
    /* the side's limit was missed recently by more than is allowed */
    bool missed[SCALE_SIDES];
    uint32_t nodes_max; /* nodes that the fleet may have after the draining units end */
};

struct scale_state { /* zeros at first */
    bool has_grown[SCALE_SIDES];
    int64_t grew_ns[SCALE_SIDES];
    bool has_shrunk[SCALE_SIDES];
    int64_t shrank_ns[SCALE_SIDES];
    bool was_rash[SCALE_SIDES]; /* the side grew soon after it had shrunk */
};

struct scale_choice {
    uint32_t wanted[SCALE_SIDES];
    enum scale_reason reason[SCALE_SIDES];
};

/* The units needed for `rate` tokens per second if `free_share` of each is kept free, regardless of
 * `least` and `most`. */
uint32_t scale_fleet_units(const struct scale_rule_side *side, double rate, double free_share);

struct scale_choice scale_fleet(struct scale_state *state, const struct scale_rule *rule,
                                const struct scale_view *view, int64_t now_ns);

/* The nodes that these units of both sides need. */
uint32_t scale_fleet_nodes(const struct scale_rule *rule, const uint32_t units[SCALE_SIDES]);
