/* SPDX-License-Identifier: Apache-2.0
 * The calendar of a fleet's nodes: the number of nodes promised to others at each time of the day,
 * and the price of a node at that time. Overlapping promises add up. If prices overlap, the last
 * line applies. A line that ends before it begins spans midnight.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define NODE_CALENDAR_LINES 64

struct node_calendar_line {
    /* within a period: 0 <= ns <= period_ns; equal: the whole period */
    int64_t from_ns, until_ns;
    uint32_t promised; /* nodes promised to others */
    double price;      /* price of a node per hour, in any currency; < 0: none */
};

struct node_calendar {
    int64_t period_ns; /* a day */
    double price;      /* price if no line has one */
    uint32_t count;
    struct node_calendar_line lines[NODE_CALENDAR_LINES];
};

/* The largest number of promised nodes between the two times, ends included. */
uint32_t node_calendar_promised(const struct node_calendar *calendar, int64_t from_ns,
                                int64_t until_ns);

double node_calendar_price(const struct node_calendar *calendar, int64_t at_ns);

/* The mean price over the period. */
double node_calendar_price_mean(const struct node_calendar *calendar);
