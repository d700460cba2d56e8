/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cpus.h"

#include "base/hash.h"

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

/* The first line of a file of the system. */
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

static cpu_set_t allowed; /* this process's affinity at its start */

__attribute__((constructor)) static void cpus_note_allowed(void) {
    sched_getaffinity(0, sizeof allowed, &allowed);
}

uint64_t cpus_allowed_hash(void) {
    return hash_bytes(0, &allowed, sizeof allowed);
}

/* Moves a thread to one of some CPUs. Afterwards it may run on all that are allowed. What its
 * affinity was before says nothing, since other threads may be moving it. */
static bool cpus_move(pid_t thread, const cpu_set_t *where) {
    bool moved = sched_setaffinity(thread, sizeof *where, where) == 0;
    return sched_setaffinity(thread, sizeof allowed, &allowed) == 0 && moved;
}

bool cpus_trade(pid_t thread, int there) {
    int here = sched_getcpu();
    cpu_set_t to, from;
    CPU_ZERO(&to);
    CPU_ZERO(&from);
    CPU_SET(there, &to);
    CPU_SET(here, &from);
    return there != here && cpus_move(thread, &from) && cpus_move(0, &to);
}

/* The time for which a thread has had a CPU, as far as the kernel has counted it. */
static uint64_t cpus_counted_ns(pid_t thread) {
    char path[64], line[128];
    snprintf(path, sizeof path, "/proc/%d/schedstat", thread);
    return cpus_read_line(path, line, sizeof line) ? strtoull(line, NULL, 10) : 0;
}

/* The kernel counts a thread's time when it loses its CPU, and when its affinity changes. Without
 * the caller's CPU the thread stays where it is. */
bool cpus_is_running(pid_t thread) {
    cpu_set_t others = allowed;
    CPU_CLR(sched_getcpu(), &others);
    uint64_t before = cpus_counted_ns(thread);
    return !before || !cpus_move(thread, &others) || cpus_counted_ns(thread) != before;
}
