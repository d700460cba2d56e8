/* SPDX-License-Identifier: Apache-2.0 */
#include "host/process/agent/unit_machines.h"

#include <stdio.h>
#include <string.h>

const char *unit_machines_note(struct unit_machines *machines, const char *name, uint32_t machine) {
    uint32_t at = 0;
    while (at < machines->count && strcmp(machines->list[at].name, name) != 0)
        at++;
    if (at == HOST_LIST_MAX) return NULL;
    if (at == machines->count) machines->count++;
    snprintf(machines->list[at].name, HOST_NAME_BYTES, "%s", name);
    machines->list[at].machine = machine;
    for (uint32_t i = 0; machine && i < at; i++)
        if (machines->list[i].machine == machine) return machines->list[i].name;
    return NULL;
}
