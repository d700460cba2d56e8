/* SPDX-License-Identifier: Apache-2.0
 * Protects links between emulated devices, here of one process: a group brings what lies there when
 * the stream comes to it, whatever other streams do and in whatever order they run; it is over when
 * all of it is, so two devices that would both send before they receive wait for ever; one that is
 * closed ends its groups; and misuse is reported.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "compute/device/device.h"
#include "compute/emulated/device_emulated.h"

enum { DEVICES = 3, COUNT = 9000, SEEDS = 12, LOOKS = 2000 };
static const size_t bytes = COUNT * sizeof(uint32_t);

/* A device, a stream, a link to the others, and memory: one's own, and what comes from each. */
struct member {
    struct device *device;
    struct device_stream *stream;
    struct device_event *event;
    struct device_comm *comm;
    uint32_t *own, *in[DEVICES], *host;
};

static struct {
    uint32_t count;
    char last[512];
} reports;

static void note(void *context, const char *text) {
    reports.count++;
    snprintf(reports.last, sizeof reports.last, "%s", text);
}

static void expect_reported(const char *part) {
    if (!strstr(reports.last, part)) fail_msg("expected '%s', found '%s'", part, reports.last);
    reports.count = 0;
}

static uint32_t *take(struct device *device, enum device_memory kind) {
    struct error error;
    void *memory;
    assert_int_equal(device_allocate_kind(device, bytes, "memory", kind, &memory, &error),
                     STATUS_OK);
    return memory;
}

static void open_all(struct member *members, uint32_t count, uint64_t seed) {
    struct device_comm_id id;
    struct error error;
    reports.count = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct member *member = &members[i];
        struct device_emulation emulation = {
            .seed = seed + i, .memory_bytes = 64 << 20, .report = note};
        assert_int_equal(device_emulated_open(&emulation, &member->device, &error), STATUS_OK);
        assert_int_equal(device_load_comm(member->device, &error), STATUS_OK);
        if (!i)
            assert_int_equal(device_make_comm_id(member->device, count, &id, &error), STATUS_OK);
        assert_int_equal(device_open_comm(member->device, &id, count, i, &member->comm, &error),
                         STATUS_OK);
        assert_int_equal(device_open_stream(member->device, &member->stream, &error), STATUS_OK);
        assert_int_equal(device_open_event(member->device, &member->event, &error), STATUS_OK);
        member->own = take(member->device, DEVICE_PLAIN);
        for (uint32_t k = 0; k < count; k++)
            member->in[k] = take(member->device, DEVICE_PLAIN);
        member->host = take(member->device, DEVICE_PINNED);
    }
    for (uint32_t i = 0; i < count; i++) {
        bool ready;
        assert_int_equal(device_comm_ready(members[i].device, members[i].comm, &ready, &error),
                         STATUS_OK);
        assert_true(ready);
    }
}

static void close_all(struct member *members, uint32_t count) {
    struct error error;
    for (uint32_t i = 0; i < count; i++) {
        struct member *member = &members[i];
        device_close_comm(member->device, member->comm);
        assert_int_equal(device_synchronize_stream(member->device, member->stream, &error),
                         STATUS_OK);
        device_close_event(member->device, member->event);
        device_close_stream(member->device, member->stream);
        device_release(member->device, member->own);
        for (uint32_t k = 0; k < count; k++)
            device_release(member->device, member->in[k]);
        device_release(member->device, member->host);
        device_close(member->device);
    }
    assert_int_equal(reports.count, 0);
}

/* One group: its own to all others, theirs to it. */
static void swap(struct member *members, uint32_t count, uint32_t own) {
    struct device_transfer list[2 * DEVICES];
    uint32_t next = 0;
    for (uint32_t peer = 0; peer < count; peer++) {
        if (peer == own) continue;
        list[next++] = (struct device_transfer){members[own].own, bytes, peer, false};
        list[next++] = (struct device_transfer){members[own].in[peer], bytes, peer, true};
    }
    device_transfer(members[own].device, members[own].stream, members[own].comm, list, next);
}

static void wait_for(struct member *member) {
    struct error error;
    device_record(member->device, member->event, member->stream);
    while (!device_event_done(member->device, member->event))
        ;
    assert_int_equal(device_synchronize_event(member->device, member->event, &error), STATUS_OK);
}

static void groups_bring_what_lies_there_at_their_turn(void **state) {
    struct member members[DEVICES];
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        open_all(members, DEVICES, seed);
        for (uint8_t turn = 1; turn <= 3; turn++) {
            for (uint32_t i = 0; i < DEVICES; i++) {
                device_fill(members[i].device, members[i].stream, members[i].own,
                            (uint8_t)(16 * i + turn), bytes);
                swap(members, DEVICES, i);
            }
            for (uint32_t i = 0; i < DEVICES; i++)
                for (uint32_t from = 0; from < DEVICES; from++) {
                    uint32_t byte = 16 * from + turn;
                    if (from == i) continue;
                    device_copy(members[i].device, members[i].stream, members[i].host,
                                members[i].in[from], bytes, DEVICE_TO_HOST);
                    wait_for(&members[i]);
                    for (uint32_t k = 0; k < COUNT; k++)
                        assert_int_equal(members[i].host[k], byte * 0x01010101u);
                }
        }
        close_all(members, DEVICES);
    }
}

/* What NCCL promises no more than this: so the engine may not lean on it. */
static void
two_that_send_before_they_receive_wait_for_one_another_until_they_are_closed(void **state) {
    struct member members[2];
    open_all(members, 2, 5);
    for (uint32_t i = 0; i < 2; i++) {
        struct member *member = &members[i];
        const struct device_transfer out = {member->own, bytes, !i, false};
        const struct device_transfer in = {member->in[!i], bytes, !i, true};
        device_transfer(member->device, member->stream, member->comm, &out, 1);
        device_transfer(member->device, member->stream, member->comm, &in, 1);
        device_record(member->device, member->event, member->stream);
    }
    for (uint32_t look = 0; look < LOOKS; look++)
        assert_false(device_event_done(members[look % 2].device, members[look % 2].event));
    for (uint32_t i = 0; i < 2; i++) {
        device_close_comm(members[i].device, members[i].comm);
        members[i].comm = NULL;
        wait_for(&members[i]);
    }
    close_all(members, 2);
}

static void a_link_that_is_closed_ends_nobody_elses_groups(void **state) {
    struct member members[2];
    open_all(members, 2, 6);
    swap(members, 2, 0);
    device_record(members[0].device, members[0].event, members[0].stream);
    device_close_comm(members[1].device, members[1].comm);
    members[1].comm = NULL;
    for (uint32_t look = 0; look < LOOKS; look++)
        assert_false(device_event_done(members[0].device, members[0].event));
    device_close_comm(members[0].device, members[0].comm);
    members[0].comm = NULL;
    wait_for(&members[0]);
    close_all(members, 2);
}

static void misuse_is_reported(void **state) {
    struct member members[2];
    struct error error;
    struct device_graph *graph;
    open_all(members, 2, 7);
    struct member *first = &members[0];
    struct device_transfer list = {first->own, bytes, 0, false};
    device_transfer(first->device, first->stream, first->comm, &list, 1);
    expect_reported("a transfer to a device that is not another of the link");
    list = (struct device_transfer){first->own, 0, 1, false};
    device_transfer(first->device, first->stream, first->comm, &list, 1);
    expect_reported("a transfer of no bytes");
    device_begin_capture(first->device, first->stream);
    list.bytes = bytes;
    device_transfer(first->device, first->stream, first->comm, &list, 1);
    assert_int_equal(device_end_capture(first->device, first->stream, &graph, &error), STATUS_OK);
    expect_reported("a transfer in a capture");
    device_close_graph(first->device, graph);
    list.bytes = bytes + 4;
    device_transfer(first->device, first->stream, first->comm, &list, 1);
    wait_for(first);
    expect_reported("a transfer: 36004 bytes reach beyond the end of memory");
    list.memory = first->host;
    device_transfer(first->device, first->stream, first->comm, &list, 1);
    wait_for(first);
    expect_reported("a transfer: expected device memory");
    list = (struct device_transfer){first->own, bytes, 1, false};
    device_transfer(first->device, first->stream, first->comm, &list, 1);
    list = (struct device_transfer){members[1].own, bytes - 4, 0, true};
    device_transfer(members[1].device, members[1].stream, members[1].comm, &list, 1);
    wait_for(&members[1]);
    expect_reported("a transfer of 35996 bytes from device 0 is of another size there");
    close_all(members, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_bring_what_lies_there_at_their_turn),
        cmocka_unit_test(
            two_that_send_before_they_receive_wait_for_one_another_until_they_are_closed),
        cmocka_unit_test(a_link_that_is_closed_ends_nobody_elses_groups),
        cmocka_unit_test(misuse_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
