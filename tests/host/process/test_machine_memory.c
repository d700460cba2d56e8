/* SPDX-License-Identifier: Apache-2.0
 * Protects the answer to how much memory a process may use: the machine's, or that of its control
 * group or of any group above it, in both versions, with cached files counted as free.
 */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/process/machine_memory.h"
#include "host/process/private_room.h"
#include "test_case.h"

#define MIB ((uint64_t)1 << 20)

static char root[64];

/* Writes a file below the root, with its folders. */
static void put(const char *path, const char *text) {
    char whole[512];
    int bytes = snprintf(whole, sizeof whole, "%s%s", root, path);
    assert_true(bytes > 0 && (size_t)bytes < sizeof whole);
    for (char *slash = whole + strlen(root); (slash = strchr(slash + 1, '/'));) {
        *slash = 0;
        mkdir(whole, 0700);
        *slash = '/';
    }
    FILE *file = fopen(whole, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void begin(const char *groups) {
    snprintf(root, sizeof root, "/tmp/fathom_memory_XXXXXX");
    assert_non_null(mkdtemp(root));
    put("/proc/meminfo",
        "MemTotal:       8388608 kB\nMemFree:  100 kB\nMemAvailable: 4194304 kB\n");
    if (groups) put("/proc/self/cgroup", groups);
}

static void expect(uint64_t total_mib, uint64_t free_mib, bool limited) {
    struct machine_memory memory = machine_memory_look(root);
    assert_int_equal(memory.total_bytes / MIB, total_mib);
    assert_int_equal(memory.free_bytes / MIB, free_mib);
    assert_int_equal(memory.limited, limited);
    private_room_remove(root);
}

TEST(without_groups_it_is_the_machines) {
    begin(NULL);
    expect(8192, 4096, false);
}

TEST(a_group_limits_it) {
    begin("0::/a.slice/b.service\n");
    put("/sys/fs/cgroup/a.slice/b.service/memory.max", "1073741824\n");
    put("/sys/fs/cgroup/a.slice/b.service/memory.current", "536870912\n");
    put("/sys/fs/cgroup/a.slice/b.service/memory.stat",
        "anon 1\nfile 268435456\ninactive_file 134217728\nactive_file 134217728\n");
    expect(1024, 768, true);
}

TEST(the_groups_above_limit_it_too) {
    begin("0::/a.slice/b.service\n");
    put("/sys/fs/cgroup/a.slice/b.service/memory.max", "max\n");
    put("/sys/fs/cgroup/a.slice/memory.max", "2147483648\n");
    put("/sys/fs/cgroup/a.slice/memory.current",
        "3221225472\n"); /* it may exceed a lowered limit */
    expect(2048, 0, true);
}

TEST(version_1_limits_it_by_the_memory_controller) {
    begin("12:cpu,cpuacct:/x\n7:memory:/docker/abc\n1:name=systemd:/x\n0::/x\n");
    /* In a container the group's own files are at the top. */
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n");
    put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "805306368\n");
    put("/sys/fs/cgroup/memory/memory.stat",
        "inactive_file 1\ntotal_inactive_file 268435456\ntotal_active_file 0\n");
    expect(1024, 512, true);
}

TEST(no_limit_of_version_1_is_a_large_number) {
    begin("7:memory:/\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "4294967296\n");
    expect(8192, 4096, false);
}

TEST(a_system_without_proc_is_unknown) {
    snprintf(root, sizeof root, "/nowhere");
    assert_int_equal(machine_memory_look(root).total_bytes, 0);
}
