/* SPDX-License-Identifier: Apache-2.0
 * Protects a supervisor's way to an agent: whatever the remote shell does instead of leading to one
 * ends in one reason that a person can use, told once; and an agent that speaks is not lost.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <event2/event.h>

#include "base/clock.h"
#include "host/process/agent/agent_link.h"

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

static struct agent_link *open_link(const char *const *command, int64_t first_ns) {
    const struct agent_link_options options = {.base = base,
                                               .command = command,
                                               .timeout_ns = 100000000,
                                               .first_ns = first_ns,
                                               .take = on_frame,
                                               .lost = on_lost};
    struct agent_link *link;
    lost = frames = 0;
    assert_int_equal(agent_link_open(&options, &link, NULL), STATUS_OK);
    return link;
}

/* Until it is lost; PINGs go out meanwhile. */
static void wait_for_loss(struct agent_link *link) {
    while (!lost) {
        agent_link_tick(link, clock_now_ns());
        event_base_loop(base, EVLOOP_NONBLOCK);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    for (int i = 0; i < 10; i++) {
        agent_link_tend(link);
        agent_link_tick(link, clock_now_ns());
    }
    assert_int_equal(lost, 1);
    assert_true(agent_link_is_lost(link));
    agent_link_close(link, 0);
}

static void assert_lost(const char *script, const char *expected) {
    const char *const command[] = {"sh", "-c", script, NULL};
    wait_for_loss(open_link(command, 60000000000));
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

static void what_a_shell_does_instead_is_reported_once(void **state) {
    assert_lost("exit 255", "the remote shell does not reach it, or may not in");
    assert_lost("exit 127", "it has to be where it is here, at the same path");
    assert_lost("exit 3", "its agent ended with status 3");
    assert_lost("kill -9 $$", "its agent ended with signal 9");
    assert_lost("echo Welcome; sleep 60", "what comes from there is no agent's: \"Welcome\"");
}

static void a_command_that_is_not_there_is_reported(void **state) {
    const char *const command[] = {"/nowhere/shell", NULL};
    wait_for_loss(open_link(command, 60000000000));
    assert_non_null(strstr(why, "cannot be run there"));
}

static void silence_from_the_start_has_its_own_time(void **state) {
    const char *const command[] = {"sleep", "60", NULL};
    static const char before[] = "nothing was heard from it for ";
    wait_for_loss(open_link(command, 300000000));
    const char *reported = strstr(why, before);
    assert_non_null(reported);
    assert_true(strtod(reported + sizeof before - 1, NULL) >= 0.3);
}

/* It answers nothing, but says a PONG now and then. */
static void an_agent_that_speaks_is_received(void **state) {
    const char *const command[] = {
        "sh", "-c",
        "while :; do printf 'FATA\\012\\000\\000\\000\\000\\000\\000\\000\\000\\000\\000\\000'; "
        "sleep 0.02; done",
        NULL};
    struct agent_link *link = open_link(command, 60000000000);
    const int64_t began_ns = clock_now_ns();
    int64_t now_ns = began_ns;
    /* However long the shell takes to begin. */
    while (now_ns - began_ns < 300000000 ||
           agent_link_silent_ns(link, now_ns) >= now_ns - began_ns) {
        event_base_loop(base, EVLOOP_NONBLOCK);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        now_ns = clock_now_ns();
    }
    assert_int_equal(lost, 0);
    assert_int_equal(frames, 0); /* a PONG is the link's own */
    agent_link_close(link, 0);
}

/* Whoever writes to a process that has ended sees it first. The end is told all the same, and the event
 * loop is not kept busy by a file whose end nobody reads. */
static void an_end_that_a_write_finds_is_reported_once(void **state) {
    static const char *const command[] = {"sh", "-c", "exit 255", NULL};
    struct agent_link *link = open_link(command, 60000000000);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_end_that_a_write_finds_is_reported_once),
        cmocka_unit_test(what_a_shell_does_instead_is_reported_once),
        cmocka_unit_test(a_command_that_is_not_there_is_reported),
        cmocka_unit_test(silence_from_the_start_has_its_own_time),
        cmocka_unit_test(an_agent_that_speaks_is_received),
    };
    signal(SIGPIPE, SIG_IGN); /* as a supervisor's loop does */
    return cmocka_run_group_tests(tests, open_base, close_base);
}
