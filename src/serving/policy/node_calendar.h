/* SPDX-License-Identifier: Apache-2.0
 * The calendar of a fleet's nodes: how many are promised to others at which time of the day, and what
 * an hour of one is worth then. Promises that overlap add up; of prices the last line that holds
 * counts. A line whose end lies before its beginning goes over midnight.
 */
#ifndef SERVING_POLICY_NODE_CALENDAR_H
#define SERVING_POLICY_NODE_CALENDAR_H

#include <stdbool.h>
#include <stdint.h>

#define NODE_CALENDAR_LINES 64

struct node_calendar_line {
    int64_t from_ns, until_ns; /* within a period: 0 <= ns <= period_ns; equal: the whole period */
    uint32_t promised;         /* nodes */
    double price; /* of a node for an hour, in whatever money; < 0: says nothing of it */
};

struct node_calendar {
    int64_t period_ns; /* a day */
    double price;      /* where no line says one */
    uint32_t count;
    struct node_calendar_line lines[NODE_CALENDAR_LINES];
};

/* The most that are promised at any time between, ends included. */
uint32_t node_calendar_promised(const struct node_calendar *calendar, int64_t from_ns,
                                int64_t until_ns);

double node_calendar_price(const struct node_calendar *calendar, int64_t at_ns);

/* Its mean over the period. */
double node_calendar_price_mean(const struct node_calendar *calendar);

#endif
