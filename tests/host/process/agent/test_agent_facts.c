/* SPDX-License-Identifier: Apache-2.0
 * Protects the check before a start over hosts: what a host lacks is found on it and named in one
 * line, with what to do; a host that has all is let through.
 */
#include <sys/stat.h>
#include <unistd.h>

#include "host/process/agent/agent_facts.h"
#include "host/process/private_room.h"
#include "test_case.h"

static struct agent_check good_check(void) {
    struct agent_check check = {.count = 2, .total = 4};
    snprintf(check.model, sizeof check.model, "%s/models/tiny-r1", getenv("FATHOM_SOURCE"));
    snprintf(check.interface, sizeof check.interface, "lo");
    return check;
}

static struct agent_facts take(struct agent_check check) {
    struct agent_facts facts;
    agent_facts_take(&check, &facts);
    return facts;
}

static bool passes(const struct agent_facts *facts, const struct agent_facts *first, char *text) {
    struct agent_facts own;
    agent_facts_name_program(&own);
    return agent_facts_verify(facts, &own, first, text);
}

TEST(a_host_that_has_all_passes) {
    char text[512];
    struct agent_facts facts = take(good_check());
    assert_true(passes(&facts, &facts, text));
    assert_string_equal(text, "");
    assert_string_equal(facts.address, "127.0.0.1");
    assert_in_range(facts.port, 1, UINT16_MAX);
    assert_true(facts.free_bytes > 0);
}

TEST(memory_is_that_of_the_hosts_share) {
    struct agent_check check = good_check();
    check.count = check.total = 1;
    uint64_t all = take(check).needed_bytes;
    check.total = 4;
    uint64_t quarter = take(check).needed_bytes;
    check.kv_bytes = 4 << 20;
    assert_int_equal(take(check).needed_bytes, quarter + (1 << 20));
    assert_in_range(quarter, all / 4 + 1, all - 1); /* what is shared stays whole */
    check.kv_bytes = 0;
    check.redundant = 1;
    assert_true(take(check).needed_bytes > quarter);
}

TEST(what_a_host_lacks_is_named) {
    char text[512];
    struct agent_facts good = take(good_check());
    struct agent_check check = good_check();
    snprintf(check.model, sizeof check.model, "/nowhere/m");
    struct agent_facts facts = take(check);
    assert_false(passes(&facts, &good, text));
    assert_string_equal(text,
                        "/nowhere/m: no such folder; expected the folder of a checkpoint, with "
                        "config.json");
    check = good_check();
    snprintf(check.interface, sizeof check.interface, "none0");
    facts = take(check);
    assert_false(passes(&facts, &good, text));
    assert_non_null(strstr(text, "interface none0 is not there"));
}

TEST(hosts_that_differ_are_named) {
    char text[512];
    struct agent_facts good = take(good_check()), other = good;
    other.model[3] ^= 1;
    snprintf(good.host, sizeof good.host, "a");
    assert_false(passes(&other, &good, text));
    assert_string_equal(text, "its model is another than that of host a; copy that one there");
    other = good;
    other.build[0] ^= 1;
    assert_false(passes(&other, &good, text));
    assert_non_null(strstr(text, "another build"));
    other = good;
    snprintf(other.version, sizeof other.version, "0.0.9");
    assert_false(passes(&other, &good, text));
    assert_non_null(strstr(text, "version 0.0.9"));
    other = good;
    other.needed_bytes = (uint64_t)3 << 30;
    other.free_bytes = (uint64_t)1 << 30;
    assert_false(passes(&other, &good, text));
    assert_non_null(strstr(text, "need about 3.2 GB of memory, and 1.1 are free"));
}

static void make(const char *sys, const char *path, const char *text) {
    char whole[512];
    snprintf(whole, sizeof whole, "%s/%s", sys, path);
    if (!text) {
        assert_int_equal(mkdir(whole, 0700), 0);
        return;
    }
    FILE *file = fopen(whole, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

TEST(an_interfaces_rdma_device_is_found) {
    char sys[] = "/tmp/fathom_sys_XXXXXX", text[256];
    assert_non_null(mkdtemp(sys));
    static const char *const folders[] = {"class",
                                          "class/net",
                                          "class/net/ib0",
                                          "class/net/ib0/device",
                                          "class/net/ib0/device/infiniband",
                                          "class/net/ib0/device/infiniband/mlx5_0",
                                          "class/net/eth0"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        make(sys, folders[i], NULL);
    make(sys, "class/net/ib0/dev_port", "1\n");
    agent_facts_name_devices(sys, "ib0", text);
    assert_string_equal(text, "ib0,mlx5_0:2");
    agent_facts_name_devices(sys, "eth0", text);
    assert_string_equal(text, "eth0");
    private_room_remove(sys);
}

TEST(an_address_is_a_number_or_an_interfaces) {
    char address[64];
    assert_true(agent_facts_read_address("10.0.0.7", address));
    assert_string_equal(address, "10.0.0.7");
    assert_true(agent_facts_read_address("fd00::7", address));
    assert_string_equal(address, "fd00::7");
    assert_true(agent_facts_read_address("lo", address));
    assert_string_equal(address, "127.0.0.1");
    assert_false(agent_facts_read_address("", address));
    assert_false(agent_facts_read_address("nosuch0", address));
}
