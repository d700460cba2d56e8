/* SPDX-License-Identifier: Apache-2.0
 * DeepSeek's published day (27 February 2025, 12:00 UTC+8 on) for fleets that follow their load, and days
 * that are harder. What is published: the income by hour, read from the chart, for the load's shape; 168
 * billion output tokens and 266 billion computed prompt tokens in a day; 226.75 nodes on average, 278 at the
 * peak. Read from it: nodes are 8 + 30 k, so 18 nodes of decode and 12 of prefill come and go together, beside
 * 8 nodes of prefill that stay; a prefill unit has 4 nodes. What is not published is how much a unit
 * bears within DeepSeek's limits: output tokens a second of a decode unit, the one free parameter.
 */
#ifndef SIMULATE_SCALING_SCALED_DAY_H
#define SIMULATE_SCALING_SCALED_DAY_H

#include "simulate/scaling/scaled_world.h"

#define SCALED_DAY_UNIT_RATE 286000.0 /* the free parameter; tokens a second */
#define SCALED_DAY_NODES_MEAN 226.75  /* published */

enum scaled_load {
    SCALED_PLAIN,
    SCALED_NOISE,      /* wanders by a twentieth, within five minutes */
    SCALED_CROWD,      /* three times as much, 04:00 to 04:30 */
    SCALED_NO_MORNING, /* 08:00 to 12:00 stays as the night was */
    SCALED_SURPRISE,   /* half as much again as on the days that the forecast was learnt from */
    SCALED_HELD_OUT,   /* from here on: days on which no rule was tried while it was made */
    SCALED_SLOW_NOISE = SCALED_HELD_OUT, /* wanders by a tenth, within half an hour */
    SCALED_RAMP,                         /* 1.4 times as much 15:00 to 17:00, within ten minutes */
    SCALED_EARLY,                        /* all comes two hours earlier than on the days before */
    SCALED_WEEKEND,                      /* three fifths, and two hours later */
    SCALED_CONVERSATIONS,                /* Azure's hour, a minute for 1/58 of the day */
    SCALED_MOONCAKE,                     /* Mooncake's */
    SCALED_LOAD_COUNT
};

const char *scaled_load_name(enum scaled_load load);

/* The published load, requests a second at a time of day. */
double scaled_day_arrivals(int64_t at_ns);

struct scaled_day {
    enum scaled_load load;
    bool
        as_published; /* units come in groups of 18 + 12 nodes beside 8; else each side by itself */
    double unit_rate; /* the free parameter */
    double reserve;   /* of it, for the product's manager */
    enum scaled_rule rule;
    uint64_t seed;
};

/* The third of three days; the other two are there to learn from, and not counted. */
void scaled_day_options(const struct scaled_day *day, struct scaled_options *options_out);

/* Nodes as published, at the middle of an hour of the day (UTC+8). */
uint32_t scaled_day_published(uint32_t hour);

#endif
