/* SPDX-License-Identifier: Apache-2.0
 * Protects the list of NUMA nodes: CPUs as the kernel writes them, without those that the process
 * may not use and nodes that have none left.
 */
#include <sys/stat.h>

#include "host/process/numa_nodes.h"
#include "host/process/private_room.h"

#include "test_case.h"

static char sys[] = "/tmp/fathom_sys_XXXXXX";
static cpu_set_t sets[NUMA_NODES_MAX], allowed;

static void make_node(uint32_t node, const char *cpus) {
    char path[512];
    snprintf(path, sizeof path, "%s/devices/system/node/node%u", sys, node);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/devices/system/node/node%u/cpulist", sys, node);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "%s\n", cpus);
    fclose(file);
}

static int make_machine(void **state) {
    static const char *const folders[] = {"devices", "devices/system", "devices/system/node"};
    char path[512];
    if (!mkdtemp(sys)) return -1;
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", sys, folders[i]);
        if (mkdir(path, 0700)) return -1;
    }
    return 0;
}

static int remove_machine(void **state) {
    private_room_remove(sys);
    return 0;
}

static void allow(int from, int to) {
    CPU_ZERO(&allowed);
    for (int cpu = from; cpu <= to; cpu++)
        CPU_SET((size_t)cpu, &allowed);
}

TEST(nodes_have_the_cpus_that_may_be_used) {
    make_node(0, "0-3,8-11");
    make_node(1, "4-7,12-15");
    make_node(3, ""); /* memory alone */
    make_node(4, "16");
    allow(0, 63);
    assert_int_equal(numa_nodes_read(sys, &allowed, sets), 3);
    assert_int_equal(CPU_COUNT(&sets[0]), 8);
    assert_true(CPU_ISSET(11, &sets[0]) && !CPU_ISSET(4, &sets[0]));
    assert_true(CPU_ISSET(4, &sets[1]) && CPU_ISSET(15, &sets[1]));
    assert_int_equal(CPU_COUNT(&sets[2]), 1);
    allow(2, 5);
    assert_int_equal(numa_nodes_read(sys, &allowed, sets), 2);
    assert_int_equal(CPU_COUNT(&sets[0]), 2);
    allow(0, 1);
    assert_int_equal(numa_nodes_read(sys, &allowed, sets), 1);
}

TEST(a_machine_that_reports_nothing_has_no_nodes) {
    allow(0, 63);
    assert_int_equal(numa_nodes_read("/nowhere", &allowed, sets), 0);
}

TEST_GROUP(make_machine, remove_machine)
