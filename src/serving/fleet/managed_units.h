/* SPDX-License-Identifier: Apache-2.0
 * The units of a fleet as its manager knows them. Their states change only here:
 *
 *   none ──order──► ordered ──seen serving──► serving ──drain──► draining ──end──► ending ──gone──► none
 *                      │                         ▲                   │                ▲
 *                      │                         ├──────call back────┘                │
 *                      └─────────give up─────────┴───────not reported────────────────►┘
 *
 * A unit that is gone is removed, in any state. An unknown one is adopted in its observed state.
 */
#ifndef SERVING_FLEET_MANAGED_UNITS_H
#define SERVING_FLEET_MANAGED_UNITS_H

#include "serving/fleet/fleet_manager.h"

#define MANAGED_NOBODY UINT32_MAX

struct managed_units {
    struct managed_unit units[MANAGED_UNITS_MAX];
    uint32_t last_number; /* the largest number ever reported or assigned */
};

enum managed_end { /* what a FLEET_UNIT means for the fleet, in addition to the table */
                   MANAGED_GOES_ON,
                   MANAGED_BEGINS, /* it serves for the first time */
                   MANAGED_ENDS,   /* it is gone, as ordered */
                   MANAGED_FAILS,  /* it is gone, and never served */
                   MANAGED_LOST    /* it is gone, and should be serving */
};

enum managed_end managed_units_see(struct managed_units *units,
                                   const struct record_fleet_unit *seen, int64_t now_ns);

/* MANAGED_NOBODY if there is none with that number. */
uint32_t managed_units_find(const struct managed_units *units, uint32_t number);

/* Adds a unit, or returns MANAGED_NOBODY if the table is full. */
uint32_t managed_units_order(struct managed_units *units, uint32_t role, int64_t now_ns);
void managed_units_drain(struct managed_units *units, uint32_t index, int64_t now_ns);
void managed_units_call_back(struct managed_units *units, uint32_t index, int64_t now_ns);
void managed_units_end(struct managed_units *units, uint32_t index, int64_t now_ns);
void managed_units_assign(struct managed_units *units, uint32_t index, uint32_t role);
void managed_units_hold(struct managed_units *units, uint32_t index, bool held);

/* Notes the action that was just sent. */
void managed_units_report(struct managed_units *units, uint32_t index, enum fleet_act act,
                          enum scale_reason reason, int64_t now_ns);

/* Units of a role that count for the fleet: ordered and serving. */
uint32_t managed_units_count(const struct managed_units *units, uint32_t role);

#endif
