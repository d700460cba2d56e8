/* SPDX-License-Identifier: Apache-2.0
 * Protects a supervisor's way to an agent: whatever the remote shell does instead of leading to one
 * ends in one reason that a person can use, told once; and what an agent sends is received.
 */
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <event2/event.h>

#include "host/process/agent/agent_link.h"

#define TEST_OWN_MAIN
#include "test_case.h"

static struct event_base *base;
static char why[AGENT_LINK_WHY];
static uint32_t lost, frames;

static void on_frame(void *context, const struct agent_frame *frame) {
    frames++;
}

static void on_lost(void *context, const char *text) {
    lost++;
    snprintf(why, sizeof why, "%s", text);
}

static struct agent_link *open_link(const char *const *command) {
    const struct agent_link_options options = {
        .base = base, .command = command, .take = on_frame, .lost = on_lost};
    struct agent_link *link;
    lost = frames = 0;
    assert_int_equal(agent_link_open(&options, &link, NULL), STATUS_OK);
    return link;
}

static void wait_for(const uint32_t *count) {
    while (!*count) {
        event_base_loop(base, EVLOOP_NONBLOCK);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

static void wait_for_loss(struct agent_link *link) {
    wait_for(&lost);
    for (int i = 0; i < 10; i++)
        agent_link_tend(link);
    assert_int_equal(lost, 1);
    agent_link_close(link, 0);
}

static void assert_lost(const char *script, const char *expected) {
    const char *const command[] = {"sh", "-c", script, NULL};
    wait_for_loss(open_link(command));
    assert_non_null(strstr(why, expected));
}

static int open_base(void **state) {
    base = event_base_new();
    return base ? 0 : -1;
}

static int close_base(void **state) {
    event_base_free(base);
    return 0;
}

TEST(what_a_shell_does_instead_is_reported_once) {
    assert_lost("exit 255", "the remote shell does not reach it, or may not in");
    assert_lost("exit 127", "it has to be where it is here, at the same path");
    assert_lost("exit 3", "its agent ended with status 3");
    assert_lost("kill -9 $$", "its agent ended with signal 9");
    assert_lost("echo Welcome; sleep 60", "what comes from there is no agent's: \"Welcome\"");
}

TEST(a_command_that_is_not_there_is_reported) {
    const char *const command[] = {"/nowhere/shell", NULL};
    const struct agent_link_options options = {.base = base, .command = command};
    struct agent_link *link;
    struct error error;
    assert_int_equal(agent_link_open(&options, &link, &error), STATUS_IO);
    assert_string_equal(error.text, "/nowhere/shell: No such file or directory");
}

TEST(what_an_agent_sends_is_received) {
    const char *const command[] = {
        "sh", "-c",
        "printf 'FATA\\012\\000\\000\\000\\000\\000\\000\\000\\000\\000\\000\\000'; "
        "exec sleep 60",
        NULL};
    struct agent_link *link = open_link(command);
    wait_for(&frames);
    assert_true(frames == 1 && lost == 0);
    agent_link_close(link, 0);
}

/* Whoever writes to a process that has ended sees it first. The end is told all the same, and the
 * event loop is not kept busy by a file whose end nobody reads. */
TEST(an_end_that_a_write_finds_is_reported_once) {
    static const char *const command[] = {"sh", "-c", "exit 255", NULL};
    struct agent_link *link = open_link(command);
    alarm(120); /* an event loop that is kept busy never comes back */
    for (int i = 0; !lost; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        agent_link_send(link, AGENT_PING, NULL, (struct bytes){NULL, 0});
        if (i >= 5) event_base_loop(base, EVLOOP_NONBLOCK);
    }
    alarm(0);
    assert_int_equal(lost, 1);
    assert_non_null(strstr(why, "the remote shell does not reach it"));
    agent_link_close(link, 0);
}

TEST_GROUP(open_base, close_base)

int main(void) {
    signal(SIGPIPE, SIG_IGN); /* as a supervisor's loop does */
    return test_cases_run();
}
