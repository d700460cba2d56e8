/* SPDX-License-Identifier: Apache-2.0
 * Protects what emulated devices hand each other (device_mailboxes.h), here two and three in one
 * process: messages of any size come whole and in order, one is sent only when it was taken, a
 * group's messages wait for no order, groups run in theirs, and what does not fit together is
 * refused.
 */
#include "test_case.h"

#include "compute/emulated/device_mailboxes.h"

static void open_links(uint32_t count, struct device_comm **links) {
    struct device_comm_id name;
    struct error error;
    assert_int_equal(device_mailboxes_name(count, &name, &error), STATUS_OK);
    for (uint32_t i = 0; i < count; i++) {
        if (i) assert_false(device_mailboxes_is_whole(links[0]));
        assert_int_equal(device_mailboxes_open(&name, count, i, &links[i], &error), STATUS_OK);
    }
    for (uint32_t i = 0; i < count; i++)
        assert_true(device_mailboxes_is_whole(links[i]));
}

static void close_links(uint32_t count, struct device_comm **links) {
    for (uint32_t i = 0; i < count; i++)
        device_mailboxes_close(links[i]);
}

static void fill(char *memory, size_t bytes, uint32_t seed) {
    for (size_t i = 0; i < bytes; i++)
        memory[i] = (char)(i * 31 + i / 251 + seed);
}

TEST(messages_of_any_size_come_whole) {
    static const size_t sizes[] = {1, 16, 4096, 16384, 16385, 200000};
    struct device_comm *links[2];
    open_links(2, links);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *from = malloc(sizes[i]), *to = calloc(1, sizes[i]);
        assert_true(from && to);
        fill(from, sizes[i], (uint32_t)i);
        struct device_message out = {.memory = from, .bytes = sizes[i], .peer = 1};
        struct device_message in = {.memory = to, .bytes = sizes[i], .receives = true};
        uint32_t moves = 0;
        for (; !out.is_over || !in.is_over; moves++) {
            assert_true(moves < 64);
            assert_true(device_mailboxes_move(links[0], &out));
            assert_true(device_mailboxes_move(links[1], &in));
        }
        assert_memory_equal(from, to, sizes[i]);
        free(from);
        free(to);
    }
    close_links(2, links);
}

TEST(a_message_is_sent_when_it_was_taken_and_no_sooner) {
    struct device_comm *links[2];
    char from[8] = "sent", to[8] = "";
    struct device_message out = {.memory = from, .bytes = 8, .peer = 1};
    struct device_message in = {.memory = to, .bytes = 8, .receives = true};
    open_links(2, links);
    assert_false(device_mailboxes_may_move(links[1], &in));
    for (int i = 0; i < 3; i++)
        assert_true(device_mailboxes_move(links[0], &out));
    assert_false(out.is_over || device_mailboxes_may_move(links[0], &out));
    assert_true(device_mailboxes_move(links[1], &in) && in.is_over && !out.is_over);
    assert_true(device_mailboxes_move(links[0], &out) && out.is_over);
    assert_string_equal(to, "sent");
    close_links(2, links);
}

TEST(a_message_of_another_size_is_refused) {
    struct device_comm *links[2];
    char from[8] = "", to[8];
    struct device_message out = {.memory = from, .bytes = 8, .peer = 1};
    struct device_message in = {.memory = to, .bytes = 7, .receives = true};
    open_links(2, links);
    assert_true(device_mailboxes_move(links[0], &out));
    assert_false(device_mailboxes_move(links[1], &in));
    close_links(2, links);
}

/* Three devices, each sending to both others and receiving from both: in whatever order. */
TEST(groups_wait_for_no_order_within_and_run_in_their_own) {
    enum { COUNT = 3, BYTES = 40000, GROUPS = 2 };
    static char out[COUNT][COUNT][BYTES], in[GROUPS][COUNT][COUNT][BYTES];
    struct device_comm *links[COUNT];
    struct device_group *groups[GROUPS][COUNT];
    open_links(COUNT, links);
    for (uint32_t from = 0; from < COUNT; from++)
        for (uint32_t to = 0; to < COUNT; to++)
            fill(out[from][to], BYTES, from * COUNT + to);
    for (uint32_t turn = 0; turn < GROUPS; turn++)
        for (uint32_t own = 0; own < COUNT; own++) {
            struct device_transfer list[2 * COUNT];
            uint32_t count = 0;
            for (uint32_t peer = 0; peer < COUNT; peer++) {
                if (peer == own) continue;
                list[count++] = (struct device_transfer){out[own][peer], BYTES, peer, false};
                list[count++] = (struct device_transfer){in[turn][peer][own], BYTES, peer, true};
            }
            assert_null(device_mailboxes_fault(links[own], list, count));
            groups[turn][own] = device_mailboxes_group_open(links[own], list, count);
        }
    assert_false(device_mailboxes_group_may_move(links[0], groups[1][0])); /* not its turn */
    uint32_t dice = 1, open[COUNT] = {0};
    for (uint32_t moves = 0; open[0] + open[1] + open[2] < GROUPS * COUNT; moves++) {
        assert_true(moves < 10000);
        dice = dice * 1664525 + 1013904223;
        uint32_t own = (dice >> 16) % COUNT;
        if (open[own] == GROUPS ||
            !device_mailboxes_group_may_move(links[own], groups[open[own]][own]))
            continue;
        struct device_group *group = groups[open[own]][own];
        if (device_mailboxes_group_is_over(group)) {
            device_mailboxes_group_close(links[own], group);
            open[own]++;
        } else {
            assert_true(device_mailboxes_move(
                links[own], device_mailboxes_group_next(links[own], group, dice % 4)));
        }
    }
    for (uint32_t turn = 0; turn < GROUPS; turn++)
        for (uint32_t from = 0; from < COUNT; from++)
            for (uint32_t to = 0; to < COUNT; to++)
                if (from != to) assert_memory_equal(in[turn][from][to], out[from][to], BYTES);
    close_links(COUNT, links);
}

TEST(lists_that_make_no_sense_are_named) {
    struct device_comm *links[2], *alone;
    struct device_comm_id name;
    struct error error;
    char byte;
    const struct device_transfer own = {&byte, 1, 0, false}, none = {&byte, 0, 1, false},
                                 good = {&byte, 1, 1, false};
    open_links(2, links);
    assert_non_null(strstr(device_mailboxes_fault(links[0], &own, 1), "not another"));
    assert_non_null(strstr(device_mailboxes_fault(links[0], &none, 1), "no bytes"));
    assert_null(device_mailboxes_fault(links[0], &good, 1));
    close_links(2, links);
    assert_int_equal(device_mailboxes_name(2, &name, &error), STATUS_OK);
    assert_int_equal(device_mailboxes_open(&name, 2, 0, &alone, &error), STATUS_OK);
    assert_non_null(strstr(device_mailboxes_fault(alone, &good, 1), "not settled"));
    device_mailboxes_close(alone);
    assert_int_equal(device_mailboxes_open(&name, 2, 1, &alone, &error), STATUS_IO);
    assert_non_null(strstr(error.text, "device-rows=host"));
}
