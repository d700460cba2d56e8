/* SPDX-License-Identifier: Apache-2.0
 * The load of DeepSeek's published day (24 hours from 27 February 2025, 12:00 UTC+8), and harder
 * variants, for simulations of autoscaling. Published: the income by hour, read from the chart,
 * which gives the shape of the load; 168 billion output tokens and 266 billion computed prompt
 * tokens in the day; 226.75 nodes on average and 278 at the peak. Derived: the number of nodes is 8
 * + 30 k. So 18 decode nodes and 12 prefill nodes start and end together, in addition to 8
 * permanent prefill nodes, and a prefill unit has 4 nodes. One parameter is not published and
 * therefore free: the load that a unit serves within DeepSeek's limits, in output tokens per second
 * of a decode unit.
 */
#pragma once

#include "simulate/scaling/scaled_world.h"

#define SCALED_DAY_UNIT_RATE 286000.0 /* the free parameter, in tokens per second */
#define SCALED_DAY_NODES_MEAN 226.75  /* published */

enum scaled_load {
    SCALED_PLAIN,
    SCALED_NOISE,      /* varies by 5 % within five minutes */
    SCALED_CROWD,      /* three times the load from 04:00 to 04:30 */
    SCALED_NO_MORNING, /* the load of the night from 08:00 to 12:00 */
    SCALED_SURPRISE,   /* 1.5 times the load of the days that the forecast has learned */
    SCALED_HELD_OUT,   /* from here on: held-out days, on which no rule was tuned */
    SCALED_SLOW_NOISE = SCALED_HELD_OUT, /* varies by 10 % within half an hour */
    SCALED_RAMP,                         /* 1.4 times the load from 15:00 to 17:00, within ten
                                          * minutes */
    SCALED_EARLY,                        /* everything is two hours earlier than on the days
                                          * before it */
    SCALED_WEEKEND,                      /* 60 % of the load, two hours later */
    SCALED_CONVERSATIONS,                /* Azure's hour; each minute lasts 1/58 of the day */
    SCALED_MOONCAKE,                     /* Mooncake's hour, likewise */
    SCALED_LOAD_COUNT
};

const char *scaled_day_load_name(enum scaled_load load);

/* The published load: requests per second at a time of day. */
double scaled_day_arrivals(int64_t at_ns);

struct scaled_day {
    enum scaled_load load;
    bool as_published; /* units start and end in groups of 18 + 12 nodes, in addition to 8 nodes;
                        * otherwise prefill and decode scale separately */
    double unit_rate;  /* the free parameter */
    double reserve;    /* share of unit_rate that the product's manager keeps free */
    enum scaled_rule rule;
    uint64_t seed;
};

/* Options for three days. Only the third is measured; the forecast learns on the other two. */
void scaled_day_options(const struct scaled_day *day, struct scaled_options *options_out);

/* The published number of nodes in the middle of an hour of the day (UTC+8). */
uint32_t scaled_day_published(uint32_t hour);
