/* SPDX-License-Identifier: Apache-2.0 */
#include "host/process/ranks/rank_health.h"

#include "contract/overlap.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2,
               "other processes read what is written here");

static enum status rank_health_failed(const char *path, struct error *error) {
    return error_set(error, STATUS_IO, "cannot map the health table %.300s: %s", path,
                     strerror(errno));
}

static struct rank_line *own;

/* Maps all lines of the open file. */
static struct rank_line *rank_health_map(int file, size_t bytes) {
    void *lines = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    return lines == MAP_FAILED ? NULL : lines;
}

enum status rank_health_create(const char *path, uint32_t rank_count,
                               struct rank_health *health_out, struct error *error) {
    size_t bytes = rank_count * sizeof(struct rank_line);
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    struct rank_line *lines = NULL;
    if (file >= 0 && ftruncate(file, (off_t)bytes) == 0) lines = rank_health_map(file, bytes);
    enum status status = lines ? STATUS_OK : rank_health_failed(path, error);
    if (file >= 0) close(file);
    if (!status) *health_out = (struct rank_health){lines, rank_count};
    return status;
}

void rank_health_close(struct rank_health *health) {
    if (health->lines) munmap(health->lines, health->rank_count * sizeof *health->lines);
    health->lines = NULL;
}

void rank_health_clear(struct rank_health *health, uint32_t rank) {
    struct rank_line *line = &health->lines[rank];
    atomic_store(&line->pid, 0);
    atomic_store(&line->heartbeat.state, HEARTBEAT_STARTS);
    atomic_store(&line->heartbeat.place, 0);
}

enum status rank_health_join(const char *path, uint32_t rank, struct error *error) {
    struct stat found;
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) return rank_health_failed(path, error);
    struct rank_line *lines = NULL;
    if (fstat(file, &found) == 0) {
        if ((size_t)found.st_size / sizeof *lines <= rank) {
            close(file);
            return error_set(error, STATUS_INVALID,
                             "the health table %.300s has no line for rank %u", path, rank);
        }
        lines = rank_health_map(file, (size_t)found.st_size);
    }
    enum status status = lines ? STATUS_OK : rank_health_failed(path, error);
    close(file);
    if (status) return status;
    struct rank_line *line = own = &lines[rank];
    if (gethostname(line->host, sizeof line->host - 1)) memcpy(line->host, "?", 2);
    heartbeat_memory = &line->heartbeat;
    atomic_store(&line->pid, getpid());
    return STATUS_OK;
}

void rank_health_report_role(enum unit_role role) {
    if (own) atomic_store(&own->role, (uint32_t)role + 1);
}

void rank_health_report_epoch(uint32_t epoch) {
    if (own) atomic_store(&own->epoch, epoch);
}

bool rank_health_read_role(const struct rank_health *health, enum unit_role *role_out) {
    uint32_t reported = health->lines ? atomic_load(&health->lines[0].role) : 0;
    if (reported == 0 || reported > UNIT_ROLE_COUNT) return false;
    *role_out = (enum unit_role)(reported - 1);
    return true;
}

void rank_health_describe(const struct rank_line *line, char text[static RANK_HEALTH_TEXT]) {
    uint32_t place = atomic_load(&line->heartbeat.place), stage = place & 0xFF;
    snprintf(text, RANK_HEALTH_TEXT, "%.60s, pid %" PRId64 ", layer %u %s", line->host,
             (int64_t)atomic_load(&line->pid), place >> 8,
             stage < STAGE_COUNT ? overlap_stage_name((enum stage)stage) : "?");
}

/* Reads a small file. Returns false if it cannot be read. */
static bool rank_health_read_text(const char *format, int64_t pid, char *text, size_t bytes) {
    char path[64];
    snprintf(path, sizeof path, format, pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return false;
    ssize_t count = read(file, text, bytes - 1);
    close(file);
    text[count > 0 ? count : 0] = 0;
    return count > 0;
}

uint64_t rank_health_run_ns(int64_t pid) {
    char text[128];
    return rank_health_read_text("/proc/%" PRId64 "/schedstat", pid, text, sizeof text)
               ? strtoull(text, NULL, 10)
               : 0;
}

int64_t rank_health_cpu_ns(int64_t pid) {
    char text[1024];
    if (!rank_health_read_text("/proc/%" PRId64 "/stat", pid, text, sizeof text)) return 0;
    char *at = strrchr(text, ')'); /* after the program's name, which may contain anything */
    for (int field = 2; at && field < 14; field++) {
        at = strchr(at, ' ');
        if (at) at++;
    }
    if (!at) return 0;
    uint64_t user = strtoull(at, &at, 10), system = strtoull(at, NULL, 10);
    return (int64_t)(user + system) * (1000000000 / sysconf(_SC_CLK_TCK));
}
