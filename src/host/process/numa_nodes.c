/* SPDX-License-Identifier: Apache-2.0 */
#include "host/process/numa_nodes.h"

#include <stdio.h>
#include <stdlib.h>

/* Parses a list such as "0-3,8-11". */
static void read_list(const char *text, cpu_set_t *set_out) {
    CPU_ZERO(set_out);
    while (*text >= '0' && *text <= '9') {
        char *end;
        unsigned long from = strtoul(text, &end, 10), to = from;
        if (*end == '-') to = strtoul(end + 1, &end, 10);
        for (unsigned long cpu = from; cpu <= to && cpu < CPU_SETSIZE; cpu++)
            CPU_SET(cpu, set_out);
        text = *end == ',' ? end + 1 : end;
    }
}

uint32_t numa_nodes_read(const char *sys, const cpu_set_t *allowed,
                         cpu_set_t sets_out[static NUMA_NODES_MAX]) {
    char path[512], line[4096];
    uint32_t count = 0;
    for (uint32_t node = 0; node < NUMA_NODES_MAX; node++) {
        snprintf(path, sizeof path, "%.400s/devices/system/node/node%u/cpulist", sys, node);
        FILE *file = fopen(path, "re");
        if (!file) continue; /* node numbers may have gaps */
        if (fgets(line, sizeof line, file)) {
            cpu_set_t all;
            read_list(line, &all);
            CPU_AND(&sets_out[count], &all, allowed);
            count += CPU_COUNT(&sets_out[count]) > 0;
        }
        fclose(file);
    }
    return count;
}
