/* SPDX-License-Identifier: Apache-2.0
 * Protects fleet.yaml: what it says is what the manager gets, times of the day hold for any length
 * of a day, and what is not known, missing or absurd is an error that names it.
 */
#include <unistd.h>

#include "host/fleet/fleet_file.h"

#include "test_case.h"

#define FILE_TEXT                                                                                  \
    "name: night\nfolder: /tmp/night\nconnect: ipc:///tmp/wire\n"                                  \
    "gateways: [http://127.0.0.1:8001]\nnodes: 12\n"                                               \
    "roles:\n  prefill: {tokens_per_s: 4000, nodes: 4, least: 2, most: 8}\n"                       \
    "  decode: {tokens_per_s: 900, arguments: [--max-batch-rows, \"8\"]}\n"

static char memory[8 << 20];
static struct fleet_file file;
static struct error error;

static enum status read_text(const char *more) {
    char path[] = "/tmp/fleet-file-XXXXXX";
    struct arena arena;
    int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    assert_true(dprintf(descriptor, "%s%s", FILE_TEXT, more) > 0);
    close(descriptor);
    arena_over(&arena, memory, sizeof memory);
    enum status status = fleet_file_read(path, &arena, &file, &error);
    unlink(path);
    return status;
}

TEST(what_it_says_is_what_the_manager_gets) {
    assert_int_equal(read_text("day_s: 600\ncalendar:\n"
                               "  - {from: \"00:00\", until: \"08:00\", promised: 4}\n"
                               "limits: {ttft_s: 1.5}\nconverts: true\n"),
                     STATUS_OK);
    const struct fleet_manager_options *manager = &file.manager;
    assert_string_equal(file.name, "night");
    assert_string_equal(file.launcher, "local");
    assert_int_equal(manager->rule.sides[SCALE_PREFILL].unit_nodes, 4);
    assert_int_equal(manager->rule.sides[SCALE_PREFILL].least, 2);
    assert_true(manager->rule.sides[SCALE_DECODE].unit_rate == 900);
    assert_int_equal(file.arguments[SCALE_DECODE].count, 2);
    assert_string_equal(file.arguments[SCALE_DECODE].words[1], "8");
    assert_null(file.arguments[SCALE_DECODE].words[2]);
    assert_true(manager->ttft_limit_ns == 1500000000 && manager->converts);
    assert_true(manager->calendar.period_ns == 600000000000);
    assert_true(manager->calendar.lines[0].until_ns == 200000000000); /* a third of the day */
    assert_int_equal(manager->calendar.lines[0].promised, 4);
    assert_true(manager->rule.rest_ns == 18750000000); /* three quarters of an hour of it */
}

TEST(what_is_wrong_is_named) {
    static const char *const wrong[][2] = {
        {"nodez: 3\n", "nodez is not known"},
        {"limits: {ttft: 3}\n", "limits.ttft is not known"},
        {"reserve: 2\n", "reserve: expected a number from 0 to 0.9"},
        {"reserve: 0.6\ngive_back: 0.5\n", "give_back: expected less than"},
        {"launcher: kubernetes\n", "launcher: expected local, hosts or slurm"},
        {"calendar:\n  - {from: 8, until: \"09:00\"}\n", "from: expected a time of the day"},
        {"calendar:\n  - {from: \"0800\", until: \"09:00\"}\n", "from: expected a time of the day"},
        {"calendar:\n  - {from: \"8:\", until: \"09:00\"}\n", "from: expected a time of the day"},
        {"calendar:\n  - {from: \"008:00\", until: \"09:00\"}\n",
         "from: expected a time of the day"},
        {"calendar:\n  - {from: \"08:000\", until: \"09:00\"}\n",
         "from: expected a time of the day"},
        {"calendar:\n  - {from: \"08:60\", until: \"09:00\"}\n",
         "from: expected a time of the day"},
        {"calendar:\n  - {from: \"24:01\", until: \"09:00\"}\n",
         "from: expected a time of the day"},
        {"calendar:\n  - {from: \"-8:00\", until: \"09:00\"}\n",
         "from: expected a time of the day"},
        {"calendar:\n  - {from: \"08:00 \", until: \"09:00\"}\n",
         "from: expected a time of the day"},
        {"calendar:\n  - {from: \"25:00\", until: \"09:00\"}\n", "from: expected a time"},
        {"launcher: hosts\nhosts: [a, a]\n", "hosts: expected each host once"},
        {"launcher: hosts\n", "hosts: expected where units may run"},
        {"hosts: [a]\n", "hosts: expected to be absent with launcher local, only hosts uses it"},
        {"remote_shell: [ssh]\n", "remote_shell: expected to be absent with launcher local"},
        {"host_units: 2\n", "host_units: expected to be absent with launcher local"},
        {"slurm: [-p, x]\n", "slurm: expected to be absent with launcher local, only slurm"},
        {"launcher: slurm\nslurm: [--job-name=x]\n", "slurm: expected no --job-name"},
        {"launcher: slurm\nslurm: [-p, x, -Jother]\n", "slurm: expected no -J"},
        {"launcher: slurm\nslurm: [--array, 1-4]\n", "slurm: expected no --array"},
        {"arguments: [\"a\\0b\"]\n", "arguments: expected a list of words without control"},
        {"kv_listen: \"a\\nb\"\n", "kv_listen: expected a text without control"},
        {"converts: perhaps\n", "converts: expected true or false"},
        {"arguments: [1]\n", "arguments: expected a list of words"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(read_text(wrong[i][0]), STATUS_INVALID);
        if (!strstr(error.text, wrong[i][1])) fail_msg("%s", error.text);
    }
    struct arena arena;
    arena_over(&arena, memory, sizeof memory);
    assert_int_equal(fleet_file_read("/nowhere.yaml", &arena, &file, &error), STATUS_NOT_FOUND);
}

TEST(words_that_are_no_host_names_are_left_out) {
    assert_int_equal(
        read_text("launcher: hosts\n"
                  "hosts: [\"-oProxyCommand=touch x\", a, \"a b; touch x\", \"\", b]\n"),
        STATUS_OK);
    assert_int_equal(file.hosts.count, 2);
    assert_string_equal(file.hosts.words[0], "a");
    assert_string_equal(file.hosts.words[1], "b");
    assert_null(file.hosts.words[2]);
    assert_int_equal(read_text("launcher: hosts\nhosts: [\"-oProxyCommand=touch x\"]\n"),
                     STATUS_OK);
    assert_int_equal(file.hosts.count, 0);
}
