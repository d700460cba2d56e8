/* SPDX-License-Identifier: Apache-2.0
 * The load of DeepSeek's published day (from 27 February 2025, 12:00 UTC+8 on), and of harder days,
 * for fleets that follow their load. Published data: the income by hour, read from the chart, for
 * the load's shape; 168 billion output tokens and 266 billion computed prompt tokens in a day;
 * 226.75 nodes on average, 278 at the peak. Derived from it: the number of nodes is 8 + 30 k, so 18
 * nodes of decode and 12 of prefill start and end together, in addition to 8 permanent nodes of
 * prefill; a prefill unit has 4 nodes. One parameter is not published and therefore free: the load
 * that a unit serves within DeepSeek's limits, in output tokens a second of a decode unit.
 */
#pragma once

#include "simulate/scaling/scaled_world.h"

#define SCALED_DAY_UNIT_RATE 286000.0 /* the free parameter; tokens a second */
#define SCALED_DAY_NODES_MEAN 226.75  /* published */

enum scaled_load {
    SCALED_PLAIN,
    SCALED_NOISE,      /* varies by 5 % within five minutes */
    SCALED_CROWD,      /* three times the load, 04:00 to 04:30 */
    SCALED_NO_MORNING, /* 08:00 to 12:00 has the load of the night */
    SCALED_SURPRISE,   /* 1.5 times the load of the days that the forecast has learnt */
    SCALED_HELD_OUT,   /* from here on: days that no rule was tuned on */
    SCALED_SLOW_NOISE = SCALED_HELD_OUT, /* varies by 10 % within half an hour */
    SCALED_RAMP,                         /* 1.4 times the load from 15:00 to 17:00, within ten
                                          * minutes */
    SCALED_EARLY,                        /* everything is two hours earlier than on the days
                                          * before */
    SCALED_WEEKEND,                      /* 60 % of the load, two hours later */
    SCALED_CONVERSATIONS,                /* Azure's hour, a minute for 1/58 of the day */
    SCALED_MOONCAKE,                     /* Mooncake's */
    SCALED_LOAD_COUNT
};

const char *scaled_day_load_name(enum scaled_load load);

/* The published load: requests per second at a time of day. */
double scaled_day_arrivals(int64_t at_ns);

struct scaled_day {
    enum scaled_load load;
    bool as_published; /* units start and end in groups of 18 + 12 nodes in addition to 8 nodes;
                       * otherwise each side by itself */
    double unit_rate;  /* the free parameter */
    double reserve;    /* share of it, for the product's manager */
    enum scaled_rule rule;
    uint64_t seed;
};

/* The third of three days. The other two are for learning, and not counted. */
void scaled_day_options(const struct scaled_day *day, struct scaled_options *options_out);

/* Nodes as published, at the middle of an hour of the day (UTC+8). */
uint32_t scaled_day_published(uint32_t hour);
