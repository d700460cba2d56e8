/* SPDX-License-Identifier: Apache-2.0
 * Lives of simulated fleets, for tests that live many: memory for them, what is told of one that
 * breaks, and the seeds that FATHOM_SEEDS="first count" asks for, with a third number for so many
 * of the last events.
 */
#pragma once

#include "simulate/engine/fleet_constraints.h"
#include "simulate/world/fleet_world.h"
#include "test_case.h"

#include <signal.h>
#include <unistd.h>

static struct {
    struct arena arena;
    void *memory, *constraints_memory;
    struct fleet_constraints *constraints; /* of all lives */
    struct fleet_log events;
    const char *program;
    unsigned long long seed;
    uint32_t events_shown;
} lives = {.events_shown = 60};

/* How to see it again, and what happened before. */
static void lives_report_how(void) {
    char line[FLEET_LOG_LINE_BYTES];
    for (uint32_t back = lives.events_shown; back-- > 0;)
        if (fleet_log_line(&lives.events, back, line, sizeof line)) fprintf(stderr, "# %s\n", line);
    fprintf(stderr,
            "# seed %llu; again: FATHOM_SEEDS=\"%llu 1 4000\" build/tests/simulate/world/%s\n",
            lives.seed, lives.seed, lives.program);
}

/* A check() within the machines, or a wrong address. */
static void lives_on_abort(int signal_number) {
    (void)signal_number;
    lives_report_how();
    _exit(1);
}

static struct fleet_world_report lives_live(struct fleet_world_options options) {
    struct fleet_world_report report;
    options.log = &lives.events;
    options.constraints = lives.constraints;
    lives.seed = options.seed;
    signal(SIGSEGV, lives_on_abort); /* cmocka's own handler knows no seed */
    fleet_world_run(&options, &lives.arena, &report);
    if (report.breach[0]) lives_report_how();
    if (report.breach[0]) fail_msg("seed %llu: %s", lives.seed, report.breach);
    return report;
}

/* Adds the counts of a life. */
static void lives_add(struct fleet_world_report *sum, const struct fleet_world_report *report) {
    size_t first = offsetof(struct fleet_world_report, asked);
    uint64_t *to = (uint64_t *)(void *)((char *)sum + first);
    const uint64_t *from = (const uint64_t *)(const void *)((const char *)report + first);
    for (size_t i = 0; i < (sizeof *sum - first) / sizeof *to; i++)
        to[i] += from[i];
}

/* The names of the counts, in the order of the report. */
static const char lives_names[] =
    "asked answered refused cut left chats constrained calls constrained_starts late forced "
    "refused_by:queue_full refused_by:no_memory refused_by:rate refused_by:unpaid "
    "refused_by:no_unit refused_by:failed refused_by:ledger refused_by:overloaded "
    "refused_by:numerics_gone abandoned deaths freezes cuts failed_steps drains roles "
    "rank_deaths gateway_deaths network_cuts disk_failures partitions undrains answered_renewed "
    "losses resumed handed_over arrived not_arrived late_slices loaded kept dropped "
    "refused_blocks in_step in_step_lost in_shared_step preempted entries rewritten "
    "compared gateways totals_match host_faults launches survived hosts_lost given_up abandons "
    "restarts ranks_given_up returned worked_again return_ends return_hangs return_cuts "
    "stuck:fine stuck:frozen stuck:stuck stuck:deadlock links_broken starts_failed "
    "refused_hosts late_answers doubled acts:start acts:drain acts:resume acts:role acts:stop "
    "acts:kill launched launches_failed stopped ended_at_once manager_lives manager_deaths "
    "managers_refused adopted nodes_lost lost_in_drain launcher_silences blindings "
    "stale_times preemptions commands records_lost records_doubled jobs_hung";

/* Prints the counts that are not zero. */
static void lives_print(const struct fleet_world_report *sum) {
    const uint64_t *count = &sum->asked, *end = (const uint64_t *)(const void *)(sum + 1);
    char names[sizeof lives_names], *rest = memcpy(names, lives_names, sizeof names), *name;
    uint32_t printed = 0;
    while ((name = strtok_r(rest, " ", &rest))) {
        assert_true(count < end);
        const char *before = printed % 8 ? ", " : printed ? "\n# " : "# ";
        if (*count) print_message("%s%s %lu", before, name, *count);
        printed += *count++ > 0;
    }
    print_message("\n");
    assert_ptr_equal(count, end);
}

/* False: nobody asks for other seeds than the usual. */
static bool lives_take_seeds(unsigned long *first_out, unsigned long *count_out) {
    const char *asked_for = getenv("FATHOM_SEEDS");
    if (!asked_for) return false;
    char *rest;
    *first_out = strtoul(asked_for, &rest, 10);
    *count_out = strtoul(rest, &rest, 10);
    if (*rest) lives.events_shown = (uint32_t)strtoul(rest, NULL, 10);
    return true;
}

/* `program`: the test's own name. */
static int lives_open(const char *program) {
    lives.program = program;
    lives.memory = malloc(FLEET_WORLD_BYTES);
    lives.constraints_memory = malloc(fleet_constraints_bytes());
    if (!lives.memory || !lives.constraints_memory) return 1;
    arena_over(&lives.arena, lives.constraints_memory, fleet_constraints_bytes());
    lives.constraints = fleet_constraints_open(&lives.arena);
    arena_over(&lives.arena, lives.memory, FLEET_WORLD_BYTES);
    signal(SIGABRT, lives_on_abort);
    return lives.constraints == NULL;
}

static int lives_close(void **state) {
    (void)state;
    free(lives.constraints_memory);
    free(lives.memory);
    return 0;
}
