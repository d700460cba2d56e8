/* SPDX-License-Identifier: Apache-2.0
 * /proc/self/cgroup names the process's group. Its parents limit it, too, so all levels are read.
 * In a container that path may be the host's, while the container's own group is mounted at the
 * top; the walk ends there in any case. Files that a group has cached count as free, as in
 * MemAvailable.
 */
#include "host/process/machine_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_BYTES 4096
#define LINE_BYTES 512

/* The files of a version of control groups. */
struct group_files {
    const char *mount, *limit, *used;
    const char *cached[2]; /* lines of memory.stat */
};

static const struct group_files version_2 = {
    "/sys/fs/cgroup", "memory.max", "memory.current", {"inactive_file ", "active_file "}};
static const struct group_files version_1 = {"/sys/fs/cgroup/memory",
                                             "memory.limit_in_bytes",
                                             "memory.usage_in_bytes",
                                             {"total_inactive_file ", "total_active_file "}};

/* Returns the number behind `key` at the start of a line; 0: there is none. */
static uint64_t read_key(const char *path, const char *key) {
    char line[LINE_BYTES];
    uint64_t value = 0;
    bool found = false;
    FILE *file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof line, file)) {
        found = strncmp(line, key, strlen(key)) == 0;
        if (found) value = strtoull(line + strlen(key), NULL, 10);
    }
    if (file) fclose(file);
    return value;
}

/* Lowers the memory to that of the group at `path`. "max" is read as 0: no limit. */
static void apply_group(const char *root, const struct group_files *files, const char *path,
                        struct machine_memory *memory) {
    char name[2 * PATH_BYTES];
    snprintf(name, sizeof name, "%s%s%s/%s", root, files->mount, path, files->limit);
    uint64_t limit = read_key(name, ""), cached = 0;
    if (!limit) return;
    snprintf(name, sizeof name, "%s%s%s/%s", root, files->mount, path, files->used);
    uint64_t used = read_key(name, "");
    snprintf(name, sizeof name, "%s%s%s/memory.stat", root, files->mount, path);
    for (int i = 0; i < 2; i++)
        cached += read_key(name, files->cached[i]);
    used = used > cached ? used - cached : 0;
    uint64_t left = limit > used ? limit - used : 0;
    if (left < memory->free_bytes) memory->free_bytes = left;
    if (limit >= memory->total_bytes) return;
    memory->total_bytes = limit;
    memory->limited = true;
}

static void apply_groups(const char *root, const struct group_files *files, char *path,
                         struct machine_memory *memory) {
    path[strcspn(path, "\n")] = 0;
    for (char *end = path + strlen(path); end; end = strrchr(path, '/')) {
        *end = 0;
        apply_group(root, files, path, memory);
    }
}

struct machine_memory machine_memory_look(const char *root) {
    char path[PATH_BYTES], line[PATH_BYTES], *first, *second;
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    struct machine_memory memory = {.total_bytes = read_key(path, "MemTotal:") << 10,
                                    .free_bytes = read_key(path, "MemAvailable:") << 10};
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    while (file && memory.total_bytes && fgets(line, sizeof line, file)) {
        /* hierarchy:controllers:path; version 2 has hierarchy 0 and no controllers */
        if (!(first = strchr(line, ':')) || !(second = strchr(first + 1, ':'))) continue;
        *second = 0;
        if (first[1] == 0)
            apply_groups(root, &version_2, second + 1, &memory);
        else if (strstr(first + 1, "memory"))
            apply_groups(root, &version_1, second + 1, &memory);
    }
    if (file) fclose(file);
    return memory;
}
