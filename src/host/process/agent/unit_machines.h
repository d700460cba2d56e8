/* SPDX-License-Identifier: Apache-2.0
 * The machines behind the names of hosts, for all units of a supervisor. Two names of one machine
 * would give its first devices to ranks twice. Pure.
 */
#pragma once

#include "host/process/configuration/host_list.h"

struct unit_machines { /* initialize with zeros */
    struct {
        char name[HOST_NAME_BYTES];
        uint32_t machine;
    } list[HOST_LIST_MAX];
    uint32_t count;
};

/* Notes the machine of a host, as agent_facts has it; 0: unknown. Returns another name of the same
 * machine that was noted earlier; NULL: there is none. */
const char *unit_machines_note(struct unit_machines *machines, const char *name, uint32_t machine);
