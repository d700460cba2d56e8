/* SPDX-License-Identifier: Apache-2.0
 * fathom inspect cpu: the kernel level and threads that the engine will use here, and the caches
 * and memory that bound its speed. Container limits of cgroup v2 are taken into account.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/check.h"
#include "base/cpus.h"
#include "bench/machine_limits.h"
#include "compute/kernels/kernels.h"
#include "programs/programs.h"

struct cpu_values {
    const char *cpu_mask;
};

static const struct option cpu_rows[] = {
    {"cpu-mask", OPTION_CHOICE, "auto", "use no kernels above this level",
     .offset = offsetof(struct cpu_values, cpu_mask), .choices = KERNEL_LEVEL_CHOICES},
};

const struct option_table inspect_cpu_options = {
    .command = "inspect cpu",
    .arguments = "",
    .description =
        "Prints the kernel levels this processor has, the one chosen, threads, caches and "
        "memory.",
    .options = cpu_rows,
    .option_count = ARRAY_COUNT(cpu_rows),
};

static void print_bytes(const char *label, uint64_t bytes) {
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t unit = 0;
    for (; value >= 1024 && unit + 1 < ARRAY_COUNT(units); unit++)
        value /= 1024;
    printf("%-18s %.4g %s\n", label, value, units[unit]);
}

static enum status print_levels(const char *mask, struct error *error) {
    enum kernel_level chosen;
    const struct kernels *kernels;
    enum status status = kernels_level_named(mask, &chosen, error);
    if (status == STATUS_OK) status = kernels_select(chosen, &kernels, error);
    if (status != STATUS_OK) return status;
    printf("%-18s", "levels available");
    for (int level = 0; level <= (int)kernels_detect(); level++) {
        const struct kernels *available;
        if (kernels_select((enum kernel_level)level, &available, NULL) == STATUS_OK)
            printf(" %s", available->name);
    }
    printf("\n%-18s %s (numerics %s)\n", "level chosen", kernels->name, kernels->numerics);
    return STATUS_OK;
}

static void print_threads(void) {
    char text[64];
    printf("%-18s %u of %ld\n", "threads", cpus_usable(), sysconf(_SC_NPROCESSORS_ONLN));
    if (!machine_limits_line("/sys/fs/cgroup/cpu.max", "", text, sizeof text)) return;
    char *end;
    double quota = strtod(text, &end), period = strtod(end, NULL);
    if (quota > 0 && period > 0) printf("%-18s %.4g CPUs\n", "container limit", quota / period);
}

static void print_caches(void) {
    static const struct {
        const char *label;
        int name;
    } caches[] = {{"L1 data cache", _SC_LEVEL1_DCACHE_SIZE},
                  {"L2 cache", _SC_LEVEL2_CACHE_SIZE},
                  {"L3 cache", _SC_LEVEL3_CACHE_SIZE}};
    for (size_t i = 0; i < ARRAY_COUNT(caches); i++) {
        long bytes = sysconf(caches[i].name);
        if (bytes > 0) print_bytes(caches[i].label, (uint64_t)bytes);
    }
}

static void print_memory(void) {
    char text[64];
    long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    if (pages > 0 && page_bytes > 0) print_bytes("memory", (uint64_t)pages * (uint64_t)page_bytes);
    if (machine_limits_line("/proc/meminfo", "MemAvailable", text, sizeof text))
        print_bytes("memory available", strtoull(text, NULL, 10) * 1024);
    if (!machine_limits_line("/sys/fs/cgroup/memory.max", "", text, sizeof text)) return;
    uint64_t limit = strtoull(text, NULL, 10); /* "max": none */
    if (limit > 0) print_bytes("container limit", limit);
}

int inspect_cpu(void *given, const struct option_result *result) {
    struct cpu_values *values = given;
    struct error error;
    char name[128] = "unknown";
    machine_limits_line("/proc/cpuinfo", "model name", name, sizeof name);
    printf("%-18s %s\n", "processor", name);
    enum status status = print_levels(values->cpu_mask, &error);
    if (status != STATUS_OK) return command_failed(status, &error);
    print_threads();
    print_caches();
    print_memory();
    return command_end(STATUS_OK, NULL);
}
