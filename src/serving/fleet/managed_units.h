/* SPDX-License-Identifier: Apache-2.0
 * The fleet manager's table of units. The states of units change only here:
 *
 *   none ──order──► ordered ──serves──► serving ──drain──► draining ──end──► ending ──gone──► none
 *                      │                   ▲                   │                ▲
 *                      │                   ├──────call back────┘                │
 *                      └──────give up──────┴───────not reported────────────────►┘
 *
 * A unit that is gone is removed, in any state. An unknown unit is adopted in its observed
 * state.
 */
#pragma once

#include "serving/fleet/fleet_manager.h"

#define MANAGED_NOBODY UINT32_MAX

struct managed_units {
    struct managed_unit units[MANAGED_UNITS_MAX];
    uint32_t last_number; /* the largest number ever reported or assigned */
};

enum managed_end { /* the effect of a FLEET_UNIT on the fleet, in addition to the state */
                   MANAGED_GOES_ON,
                   MANAGED_BEGINS, /* the unit serves for the first time */
                   MANAGED_ENDS,   /* the unit is gone, as ordered */
                   MANAGED_FAILS,  /* the unit is gone without having served */
                   MANAGED_LOST    /* the unit is gone, but should be serving */
};

enum managed_end managed_units_see(struct managed_units *units,
                                   const struct record_fleet_unit *seen, int64_t now_ns);

/* The index of the unit with that number; MANAGED_NOBODY if there is none. */
uint32_t managed_units_find(const struct managed_units *units, uint32_t number);

/* Adds an ordered unit and returns its index; MANAGED_NOBODY if the table is full. */
uint32_t managed_units_order(struct managed_units *units, uint32_t role, int64_t now_ns);
void managed_units_drain(struct managed_units *units, uint32_t index, int64_t now_ns);
void managed_units_call_back(struct managed_units *units, uint32_t index, int64_t now_ns);
void managed_units_end(struct managed_units *units, uint32_t index, int64_t now_ns);
void managed_units_assign(struct managed_units *units, uint32_t index, uint32_t role);
void managed_units_hold(struct managed_units *units, uint32_t index, bool drained);

/* Records the action that was just sent. */
void managed_units_report(struct managed_units *units, uint32_t index, enum fleet_act act,
                          enum scale_reason reason, int64_t now_ns);

/* The number of units of a role that are ordered or serving. */
uint32_t managed_units_count(const struct managed_units *units, uint32_t role);
