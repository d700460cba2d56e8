/* SPDX-License-Identifier: Apache-2.0
 * What a gateway's log says of its units: that one serves, with its role and its processes; that it
 * is told another role or to drain; that it is gone. It is read off the records that pass between
 * them, so the machine itself logs nothing.
 */
#ifndef HOST_FLEET_LINES_H
#define HOST_FLEET_LINES_H

#include "contract/record_unit.h"

/* What was said of each unit last. Zero it to start. */
struct fleet_lines {
    struct fleet_lines_unit {
        uint32_t number; /* 0: nobody */
        uint32_t role;   /* enum unit_role */
        int64_t pid;     /* of its rank 0 */
    } units[LIMIT_FLEET_UNITS];
};

/* A record has come from the unit of this number. */
void fleet_lines_heard(struct fleet_lines *lines, uint32_t number, const struct record *record);

/* A record goes to the unit of this number, or has come to the unit in this process (0). */
void fleet_lines_told(uint32_t number, const struct record *record);

/* Its connection has ended. is_asked: this process ends, and units with it. */
void fleet_lines_lost(struct fleet_lines *lines, uint32_t number, bool is_asked);

#endif
