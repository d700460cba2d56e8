/* SPDX-License-Identifier: Apache-2.0
 * Each figure is a limit, so it is the best of several runs. Every thread gets one long share, so
 * that all threads run at the same time. Reads cover more memory than the caches.
 */
#include "bench/machine_limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "compute/kernels/probe.h"

#define RUNS 15
#define READ_BYTES_MIN ((size_t)256 << 20)
#define READ_CACHES 2 /* times the last-level cache, which virtual machines may share */
#define MULTIPLY_ROUNDS 500000

struct meter {
    struct team *team;
    uint32_t threads;
};

struct probe {
    enum probe_kind kind;
    const char *data;
    size_t share_bytes;
    uint32_t streams;
    double operations; /* of one share */
    volatile uint64_t sink;
};

double machine_limits_now(void) {
    return (double)clock_now_ns() * 1e-9;
}

static double best_of(const double *rates) {
    double best = rates[0];
    for (int run = 1; run < RUNS; run++)
        best = rates[run] > best ? rates[run] : best;
    return best;
}

static void multiply_share(void *context, uint32_t first, uint32_t count, uint32_t member) {
    struct probe *probe = context;
    double operations = probe_multiply(probe->kind, MULTIPLY_ROUNDS);
    if (first == 0) probe->operations = operations;
}

static void read_share(void *context, uint32_t first, uint32_t count, uint32_t member) {
    struct probe *probe = context;
    uint64_t sum =
        probe_read(probe->data + first * probe->share_bytes, probe->share_bytes, probe->streams);
    if (first == 0) probe->sink = sum;
}

static double multiply_rate(const struct meter *meter, enum probe_kind kind) {
    double rates[RUNS];
    struct probe probe = {.kind = kind};
    if (probe_multiply(kind, 1) == 0) return 0;
    for (int run = 0; run < RUNS; run++) {
        double start = machine_limits_now();
        team_run(meter->team, multiply_share, &probe, meter->threads, 1);
        rates[run] = probe.operations * meter->threads / (machine_limits_now() - start);
    }
    return best_of(rates);
}

/* The bytes to read: more than the caches hold, and no more than a quarter of free memory. */
static size_t read_bytes(void) {
    long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    size_t bytes = cache > 0 ? (size_t)cache * READ_CACHES : 0, room = machine_limits_memory() / 4;
    if (bytes > room) bytes = room;
    return bytes > READ_BYTES_MIN ? bytes / 4096 * 4096 : READ_BYTES_MIN;
}

static double read_rate(const struct meter *meter, const char *data, size_t bytes,
                        uint32_t streams) {
    double rates[RUNS];
    struct probe probe = {.data = data, .streams = streams};
    probe.share_bytes = bytes / meter->threads / 4096 * 4096;
    for (int run = 0; run < RUNS; run++) {
        double start = machine_limits_now();
        team_run(meter->team, read_share, &probe, meter->threads, 1);
        rates[run] = (double)probe.share_bytes * meter->threads / (machine_limits_now() - start);
    }
    return best_of(rates);
}

enum status machine_limits_measure(struct team *team, bool single,
                                   struct machine_limits *limits_out, struct error *error) {
    const struct meter all = {team, single ? 1 : team_threads(team)}, *meter = &all;
    const size_t bytes = read_bytes();
    void *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED)
        return error_set(error, STATUS_NO_MEMORY,
                         "not enough memory: the bandwidth test needs %zu MiB", bytes >> 20);
    madvise(data, bytes, MADV_HUGEPAGE);
    for (size_t i = 0; i < bytes; i += 64)
        *(uint64_t *)(void *)((char *)data + i) = i;
    double one = read_rate(meter, data, bytes, 1), four = read_rate(meter, data, bytes, 4);
    limits_out->threads = meter->threads;
    limits_out->read_bytes = one > four ? one : four;
    limits_out->fma_flops = multiply_rate(meter, PROBE_FMA);
    limits_out->bf16_flops = multiply_rate(meter, PROBE_BF16);
    munmap(data, bytes);
    return STATUS_OK;
}

bool machine_limits_line(const char *path, const char *key, char *out, size_t out_bytes) {
    FILE *file = fopen(path, "r");
    char line[512];
    bool found = false;
    if (!file) return false;
    while (!found && fgets(line, sizeof line, file))
        found = !strncmp(line, key, strlen(key));
    fclose(file);
    if (!found) return false;
    const char *text = line + strlen(key);
    text += strspn(text, " \t:");
    snprintf(out, out_bytes, "%.*s", (int)strcspn(text, "\n"), text);
    return true;
}

uint64_t machine_limits_memory(void) {
    char text[64];
    uint64_t bytes = UINT64_MAX;
    if (machine_limits_line("/proc/meminfo", "MemAvailable", text, sizeof text))
        bytes = strtoull(text, NULL, 10) * 1024;
    if (machine_limits_line("/sys/fs/cgroup/memory.max", "", text, sizeof text)) {
        uint64_t limit = strtoull(text, NULL, 10); /* "max": none */
        if (limit > 0 && limit < bytes) bytes = limit;
    }
    return bytes;
}
