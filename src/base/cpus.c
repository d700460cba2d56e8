/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cpus.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

uint32_t cpus_of_quota(const char *text, uint32_t cpus) {
    char *end;
    double quota = strtod(text, &end), period = strtod(end, NULL);
    if (!(quota > 0 && period > 0) || quota > period * (cpus - 1)) return cpus;
    uint32_t whole = (uint32_t)(quota / period);
    return whole + (quota > period * whole);
}

/* The first line of a file of the container's control group. */
static bool cpus_read_line(const char *path, char *out, int bytes) {
    FILE *file = fopen(path, "r");
    if (!file) return false;
    bool found = fgets(out, bytes, file);
    fclose(file);
    return found;
}

static uint32_t within_quota(uint32_t cpus) {
    char quota[64], period[64], both[132];
    if (cpus_read_line("/sys/fs/cgroup/cpu.max", quota, sizeof quota))
        return cpus_of_quota(quota, cpus);
    if (!cpus_read_line("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", quota, sizeof quota) ||
        !cpus_read_line("/sys/fs/cgroup/cpu/cpu.cfs_period_us", period, sizeof period))
        return cpus;
    snprintf(both, sizeof both, "%s %s", quota, period);
    return cpus_of_quota(both, cpus);
}

uint32_t cpus_usable(void) {
    cpu_set_t set;
    CPU_ZERO(&set);
    int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return within_quota(count > 0 ? (uint32_t)count : 1);
}
