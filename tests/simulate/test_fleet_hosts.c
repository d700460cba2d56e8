/* SPDX-License-Identifier: Apache-2.0
 * Whole fleets whose units stand on hosts, seed by seed (simulate/fleet_hosts.h says what must hold
 * besides what always must): 100 lives under faults of ranks, agents, hosts, supervisors and the network
 * between them. FATHOM_SEEDS="first count" asks for others, and with a third number for so many of the
 * last events where one breaks.
 *
 * Bugs planted by hand lie in tests/simulate/mutations/hosts (./dev mutants).
 */
#include "simulate/fleet_constraints.h"
#include "simulate/fleet_world.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "../slow.h"

static struct arena arena;
static void *memory, *constraints_memory;
static struct fleet_constraints *constraints; /* of all lives */
static struct fleet_log events;
static unsigned long long seed_now;
static uint32_t events_shown = 60;

/* How to see it again, and what happened before. */
static void tell_how(void) {
    char line[FLEET_LOG_LINE_BYTES];
    for (uint32_t back = events_shown; back-- > 0;)
        if (fleet_log_line(&events, back, line, sizeof line)) fprintf(stderr, "# %s\n", line);
    fprintf(
        stderr,
        "# seed %llu; again: FATHOM_SEEDS=\"%llu 1 4000\" build/tests/simulate/test_fleet_hosts\n",
        seed_now, seed_now);
}

/* A check() within the machines. */
static void on_abort(int signal_number) {
    (void)signal_number;
    tell_how();
    _exit(1);
}

static struct fleet_world_report live(uint64_t seed) {
    struct fleet_world_options options = {.seed = seed,
                                          .faults = true,
                                          .gateway_dies = true,
                                          .hosts = true,
                                          .log = &events,
                                          .constraints = constraints};
    struct fleet_world_report report;
    seed_now = seed;
    fleet_world_run(&options, &arena, &report);
    if (report.breach[0]) tell_how();
    if (report.breach[0]) fail_msg("seed %llu: %s", (unsigned long long)seed, report.breach);
    return report;
}

static void units_come_back_whatever_happens_to_their_hosts(void **state) {
    (void)state;
    unsigned long first = 0, count = test_times(100, 10); /* one thread: TSan has little to see */
    struct fleet_world_report sum = {0};
    const char *asked_for = getenv("FATHOM_SEEDS");
    if (asked_for) {
        char *rest;
        first = strtoul(asked_for, &rest, 10);
        count = strtoul(rest, &rest, 10);
        if (*rest) events_shown = (uint32_t)strtoul(rest, NULL, 10);
    }
    for (uint64_t seed = first; seed < first + count; seed++) {
        struct fleet_world_report report = live(seed);
        sum.asked += report.asked;
        sum.answered += report.answered;
        sum.resumed += report.resumed;
        sum.losses += report.losses;
        sum.host_faults += report.host_faults;
        sum.launches += report.launches;
        sum.survived += report.survived;
        sum.hosts_lost += report.hosts_lost;
        sum.given_up += report.given_up;
        sum.abandons += report.abandons;
        for (uint32_t i = 0; i < SUPERVISE_VERDICT_COUNT; i++)
            sum.stuck[i] += report.stuck[i];
    }
    print_message("# %u asked: %u answered; %u losses, %u resumed\n", sum.asked, sum.answered,
                  (unsigned)sum.losses, (unsigned)sum.resumed);
    print_message("# %u faults of hosts, %u agents lost, %u launches, %u given up; %u times the "
                  "others went on; stuck: %u ranks not run, %u computed nothing, %u deadlocks\n",
                  sum.host_faults, sum.hosts_lost, sum.launches, sum.given_up, sum.survived,
                  sum.stuck[SUPERVISE_FROZEN], sum.stuck[SUPERVISE_STUCK],
                  sum.stuck[SUPERVISE_DEADLOCK]);
    if (asked_for || count < 100) return; /* fewer may not meet each fault */
    assert_true(sum.host_faults > 1000 && sum.hosts_lost > 300 && sum.launches > 500);
    assert_true(sum.survived > 50 && sum.resumed > 500);
    assert_true(sum.stuck[SUPERVISE_FROZEN] > 20 && sum.stuck[SUPERVISE_DEADLOCK] > 5);
}

static void a_seed_gives_the_same_life_again(void **state) {
    (void)state;
    if (getenv("FATHOM_SEEDS")) return;
    struct fleet_world_report first = live(1), second = live(1);
    assert_true(first.digest == second.digest && first.rest_ns == second.rest_ns);
}

static int open_memory(void **state) {
    (void)state;
    memory = malloc(fleet_world_bytes());
    constraints_memory = malloc(fleet_constraints_bytes());
    if (!memory || !constraints_memory) return 1;
    arena_over(&arena, constraints_memory, fleet_constraints_bytes());
    constraints = fleet_constraints_open(&arena);
    arena_over(&arena, memory, fleet_world_bytes());
    signal(SIGABRT, on_abort);
    return constraints == NULL;
}

static int close_memory(void **state) {
    (void)state;
    free(constraints_memory);
    free(memory);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(units_come_back_whatever_happens_to_their_hosts),
        cmocka_unit_test(a_seed_gives_the_same_life_again),
    };
    return cmocka_run_group_tests(tests, open_memory, close_memory);
}
