/* SPDX-License-Identifier: Apache-2.0
 * Protects the list of hosts: each way to name hosts gives the same names and slots, and what could
 * be an option or a command of a remote shell is not a host's name.
 */
#include "host/process/configuration/host_list.h"

#include "test_case.h"

static char *said(const struct host_list *list) {
    static char text[2048];
    size_t at = 0;
    text[0] = 0;
    for (uint32_t i = 0; i < list->count; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s:%u", i ? " " : "", list->names[i],
                               list->slots[i]);
    return text;
}

static void assert_list(enum status status, struct host_list *list, const char *expected) {
    assert_int_equal(status, STATUS_OK);
    assert_string_equal(said(list), expected);
    host_list_free(list);
}

static void assert_hosts(const char *text, const char *expected) {
    struct host_list list;
    struct error error;
    assert_list(host_list_parse(bytes_of(text), &list, &error), &list, expected);
}

static void assert_refused(const char *text, const char *why) {
    struct host_list list;
    struct error error = {""};
    assert_int_not_equal(host_list_parse(bytes_of(text), &list, &error), STATUS_OK);
    assert_non_null(strstr(error.text, why));
}

TEST(hosts_are_named_in_an_option) {
    assert_hosts("a:8,b:8", "a:8 b:8");
    assert_hosts("me@node-1.cluster_x, b:1024", "me@node-1.cluster_x:1 b:1024");
}

TEST(what_is_no_host_is_refused) {
    assert_refused("", "no host is named");
    assert_refused("a,,b", "is not a host's name");
    assert_refused("-oProxyCommand=x", "is not a host's name");
    assert_refused("a;reboot", "is not a host's name");
    assert_refused("$(x)", "is not a host's name");
    assert_refused("a b", "is not a host's name");
    assert_refused("a:0", "not a number of ranks");
    assert_refused("a:1025", "not a number of ranks");
    assert_refused("a:99999999999", "not a number of ranks");
    assert_refused("a:", "not a number of ranks");
    assert_refused("a:8x", "not a number of ranks");
    assert_refused("a:4,b,a:4", "named twice");
}

TEST(a_file_has_a_line_for_each_host) {
    struct host_list list;
    struct error error;
    const char *text = "# the cluster\n\na slots=8 max-slots=9\r\n  b:4 # old\nc\nd   slots=2";
    assert_list(host_list_parse_file(bytes_of(text), "f", &list, &error), &list, "a:8 b:4 c:1 d:2");
    assert_int_equal(host_list_parse_file(bytes_of("a\nb slots=x\n"), "f", &list, &error),
                     STATUS_INVALID);
    assert_string_equal(error.text,
                        "f, line 2: \"slots=x\": a number of ranks is expected, 1 to 1024");
}

static void assert_slurm(const char *nodes, const char *tasks, const char *expected) {
    struct host_list list;
    struct error error;
    assert_list(host_list_parse_slurm(bytes_of(nodes), bytes_of(tasks), &list, &error), &list,
                expected);
}

TEST(slurm_names_ranges) {
    assert_slurm("n[01-03,7]-ib,login", "8(x3),4,2", "n01-ib:8 n02-ib:8 n03-ib:8 n7-ib:4 login:2");
    assert_slurm("n9", "1", "n9:1");
    assert_slurm("n[9-11]", "1(x3)", "n9:1 n10:1 n11:1");
    assert_slurm("r[1-2]n[1-2]", "2(x4)", "r1n1:2 r1n2:2 r2n1:2 r2n2:2");
}

TEST(a_broken_allocation_is_refused) {
    static const char *const nodes[] = {"n[1-2", "n[2-1]",        "n[]",    "n[1-x]",
                                        "n[a]",  "n[0-99999999]", "n[1-2]", "n[1-2-3]"};
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
        struct host_list list;
        struct error error;
        assert_int_not_equal(
            host_list_parse_slurm(bytes_of(nodes[i]), bytes_of("1"), &list, &error), STATUS_OK);
    }
    static const char *const tasks[] = {"", "0", "8(x0)", "8(3)", "8(x1", "x"};
    for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++) {
        struct host_list list;
        struct error error;
        assert_int_not_equal(
            host_list_parse_slurm(bytes_of("n"), bytes_of(tasks[i]), &list, &error), STATUS_OK);
    }
}
