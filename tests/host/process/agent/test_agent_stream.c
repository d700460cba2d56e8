/* SPDX-License-Identifier: Apache-2.0
 * Protects the way between supervisor and agent: frames arrive whole and in order however the bytes
 * fall and however much waits, and an end or nonsense ends it.
 */
#include <sys/socket.h>
#include <unistd.h>

#include <event2/event.h>

#include "host/process/agent/agent_stream.h"

#include "test_case.h"

static struct event_base *base;
static struct agent_stream supervisor, agent;
static int others; /* the bare end of `agent`, where a test writes by itself */

static void nothing(int file, short what, void *context) {
}

static void open_streams(bool both) {
    int files[2];
    struct error error;
    base = event_base_new();
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, files), 0);
    assert_int_equal(
        agent_stream_open(&agent, base, files[0], files[0], false, nothing, NULL, &error),
        STATUS_OK);
    others = files[1];
    if (both)
        assert_int_equal(
            agent_stream_open(&supervisor, base, files[1], files[1], true, nothing, NULL, &error),
            STATUS_OK);
}

static void close_streams(bool both) {
    if (both)
        agent_stream_close(&supervisor);
    else
        close(others);
    agent_stream_close(&agent);
    event_base_free(base);
}

TEST(much_that_waits_arrives_in_order) {
    const size_t bytes = (size_t)3 << 20; /* far more than a socket takes */
    char *tail = malloc(bytes);
    struct agent_frame frame;
    open_streams(true);
    for (uint32_t i = 0; i < 3; i++) {
        memset(tail, 'a' + (int)i, bytes);
        agent_stream_send(&supervisor, AGENT_REPORT, NULL, (struct bytes){tail, bytes});
    }
    for (uint32_t i = 0; i < 3; i++) {
        while (!agent_stream_next(&agent, &frame)) {
            agent_stream_tend(&supervisor);
            agent_stream_tend(&agent);
        }
        assert_int_equal(frame.kind, AGENT_REPORT);
        assert_int_equal(frame.tail.count, bytes);
        assert_int_equal(frame.tail.data[0], 'a' + (int)i);
        assert_int_equal(frame.tail.data[bytes - 1], 'a' + (int)i);
    }
    assert_false(agent_stream_next(&agent, &frame));
    close_streams(true);
    free(tail);
}

TEST(frames_may_come_byte_by_byte) {
    struct agent_head head = agent_frame_head(AGENT_PING, 0);
    struct agent_frame frame;
    open_streams(false);
    for (size_t i = 0; i < sizeof head; i++) {
        assert_false(agent_stream_next(&agent, &frame));
        assert_int_equal(write(others, (const char *)&head + i, 1), 1);
        agent_stream_tend(&agent);
    }
    assert_true(agent_stream_next(&agent, &frame));
    assert_int_equal(frame.kind, AGENT_PING);
    assert_false(agent.is_over);
    close_streams(false);
}

TEST(what_came_before_an_end_is_read) {
    struct agent_frame frame;
    open_streams(true);
    agent_stream_send(&supervisor, AGENT_PING, NULL, (struct bytes){NULL, 0});
    agent_stream_close(&supervisor);
    agent_stream_tend(&agent);
    assert_true(agent.is_over);
    assert_true(agent_stream_next(&agent, &frame));
    assert_false(agent_stream_next(&agent, &frame));
    agent_stream_close(&agent);
    event_base_free(base);
}

TEST(nonsense_ends_it_and_can_be_quoted) {
    struct agent_frame frame;
    char text[64];
    open_streams(false);
    assert_int_equal(write(others, "Last login: \033[2Jnow\nmore", 24), 24);
    agent_stream_tend(&agent);
    assert_false(agent_stream_next(&agent, &frame));
    assert_true(agent.is_over && agent.is_nonsense);
    agent_stream_quote(&agent, text);
    assert_string_equal(text, "Last login: ?[2Jnow");
    close_streams(false);
}
