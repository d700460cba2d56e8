/* SPDX-License-Identifier: Apache-2.0
 * Fleets of the twin under faults, seed by seed. A seed of even number draws a fleet and faults of
 * all kinds; one of odd number takes the plain fleet, one kind of fault, and the same requests once
 * more without it, which says what that kind costs. The twin itself says when something that must
 * hold did not (simulator_report.breach).
 *
 * FATHOM_SEEDS="first count" asks for other seeds than the few of each test run, and
 * FATHOM_FLEET=whole for the published fleet in the place of the shrunken one (minutes a seed).
 * tests/simulate/twin_seeds.py lives many at a time and adds up what they print (./dev twin-seeds).
 */
#include "simulate/simulator/simulator.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../slow.h"
#include "base/random.h"
#include "simulator_fleets.h"
#include "test_case.h"

#define FAULTS_MAX 64
#define RECORDS_EACH_MAX 2000 /* of a request: many more are machines that ask again and again */
#define MEMORY_BYTES ((size_t)512 << 30) /* of address space; little of it is touched */

static unsigned long long seed_now;

/* What the seeds have met so far. */
static struct {
    uint64_t runs, asked, answered, refused, records;
    uint64_t times[SIMULATOR_FAULT_KIND_COUNT]; /* in runs with all kinds */
    struct fault_cost costs[SIMULATOR_FAULT_KIND_COUNT];
    double recomputed[SIMULATOR_FAULT_KIND_COUNT], tokens[SIMULATOR_FAULT_KIND_COUNT];
} sum;

static void report_how(void) {
    fprintf(stderr,
            "# seed %llu; again: FATHOM_SEEDS=\"%llu 1\" "
            "build/tests/simulate/simulator/test_simulator_seeds\n",
            seed_now, seed_now);
}

/* A check() within the machines. */
static void on_abort(int signal_number) {
    (void)signal_number;
    report_how();
    _exit(1);
}

static int read_files(void **state) {
    static char memory[16 << 20];
    struct arena arena;
    struct error error;
    (void)state;
    signal(SIGABRT, on_abort);
    arena_over(&arena, memory, sizeof memory);
    if (!simulator_fleets_read(&arena, &error)) return 0;
    print_message("# %s\n", error.text);
    return -1;
}

/* ---- a run ---- */

static void *take_memory(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    return memory;
}

static struct simulator_report live(const struct simulator_fleet *fleet, struct fault_ends *ends) {
    struct simulator_options options = fleet->options;
    struct arena arena;
    struct error error;
    struct simulator_report report;
    struct load_mix *mix;
    void *memory = take_memory(MEMORY_BYTES);
    arena_over(&arena, memory, MEMORY_BYTES);
    if (load_mix_open(&arena, &fleet->mix, &mix, &error)) fail_msg("%s", error.text);
    options.source = load_mix_source(mix);
    ends->count = 0;
    ends->max = fleet->requests_max;
    ends->ends = arena_take_zeroed(&arena, ends->max * sizeof *ends->ends);
    options.context = ends;
    options.ended = fault_costs_note;
    if (simulator_run(&options, &arena, &report, &error)) fail_msg("%s", error.text);
    struct simulator_ended *kept = take_memory(ends->max * sizeof *kept);
    memcpy(kept, ends->ends, ends->max * sizeof *kept);
    ends->ends = kept;
    munmap(memory, MEMORY_BYTES);
    if (report.breach[0]) report_how();
    if (report.breach[0]) fail_msg("seed %llu: %s", seed_now, report.breach);
    if (report.records > RECORDS_EACH_MAX * (report.asked + 1)) report_how();
    assert_true(report.records <= RECORDS_EACH_MAX * (report.asked + 1));
    sum.runs++;
    sum.asked += report.asked;
    sum.answered += report.answered;
    sum.refused += report.refused + report.failed;
    sum.records += report.records;
    return report;
}

static void forget(struct fault_ends *ends) {
    munmap(ends->ends, ends->max * sizeof *ends->ends);
}

static double computed(const struct simulator_report *report) {
    double tokens = 0;
    for (int role = 0; role < UNIT_ROLE_COUNT; role++)
        tokens +=
            (double)(report->roles[role].computed_tokens + report->roles[role].answered_tokens);
    return tokens;
}

/* ---- seeds ---- */

static void live_under_all(const struct simulator_fleet *plain, uint64_t seed) {
    struct simulator_fault faults[FAULTS_MAX];
    struct simulator_fleet fleet = *plain;
    struct fault_ends ends;
    simulator_fleets_vary(&fleet, seed);
    fleet.options.faults = faults;
    fleet.options.fault_count = draw_faults(&fleet.options, &fleet.rates, fleet.begin_ns,
                                            fleet.end_ns, seed, faults, FAULTS_MAX);
    for (uint32_t i = 0; i < fleet.options.fault_count; i++)
        sum.times[faults[i].kind]++;
    live(&fleet, &ends);
    forget(&ends);
}

static void live_under_one(const struct simulator_fleet *plain, uint64_t seed, uint32_t kind) {
    const struct fault_rate *rate = &plain->rates.kinds[kind];
    double at = random_uniform(seed, 1, 0);
    struct simulator_fault fault = {
        .at_ns = plain->begin_ns + (int64_t)(at * (double)(plain->end_ns - plain->begin_ns) / 2),
        .lasts_ns = (int64_t)(2 * rate->lasts_s * 1e9),
        .kind = kind,
        .factor = rate->factor};
    struct simulator_fleet fleet = *plain;
    struct fault_ends with, without;
    struct simulator_report reports[2];
    reports[0] = live(&fleet, &without);
    draw_faults_place(&fleet.options, seed, 0, &fault);
    fleet.options.faults = &fault;
    fleet.options.fault_count = 1;
    reports[1] = live(&fleet, &with);
    fault_costs_add(&fleet.limits, &fault, 1, &with, &without, sum.costs);
    sum.recomputed[kind] += computed(&reports[1]) - computed(&reports[0]);
    sum.tokens[kind] += computed(&reports[0]);
    forget(&with);
    forget(&without);
}

/* Lines that tests/simulate/twin_seeds.py reads. */
static void report_sum(void) {
    print_message("# sum runs %llu asked %llu answered %llu refused %llu records %llu\n",
                  (unsigned long long)sum.runs, (unsigned long long)sum.asked,
                  (unsigned long long)sum.answered, (unsigned long long)sum.refused,
                  (unsigned long long)sum.records);
    for (uint32_t i = 0; i < SIMULATOR_FAULT_KIND_COUNT; i++) {
        const struct fault_cost *cost = &sum.costs[i];
        print_message("# kind %s among_others %llu times %llu requests %llu ttft %llu "
                      "ttft_without %llu tpot %llu tpot_without %llu failed %llu "
                      "recomputed %.0f tokens %.0f\n",
                      simulator_faults_name((enum simulator_fault_kind)i),
                      (unsigned long long)sum.times[i], (unsigned long long)cost->times,
                      (unsigned long long)cost->requests, (unsigned long long)cost->ttft_missed,
                      (unsigned long long)cost->ttft_without, (unsigned long long)cost->tpot_missed,
                      (unsigned long long)cost->tpot_without, (unsigned long long)cost->failed,
                      sum.recomputed[i], sum.tokens[i]);
    }
}

TEST(every_request_is_answered_once_or_refused_for_a_reason) {
    const char *asked_for = getenv("FATHOM_SEEDS"), *which = getenv("FATHOM_FLEET");
    unsigned long first = 0, count = test_times(24, 2);
    struct simulator_fleet fleet;
    if (asked_for) {
        char *rest;
        first = strtoul(asked_for, &rest, 10);
        count = strtoul(rest, NULL, 10);
    }
    for (uint64_t seed = first; seed < first + count; seed++) {
        bool whole = which && !strcmp(which, "whole");
        seed_now = seed;
        simulator_fleets_make(&fleet, whole, seed);
        if (seed % 2 && !whole)
            live_under_one(&fleet, seed, (uint32_t)(seed / 2) % SIMULATOR_FAULT_KIND_COUNT);
        else if (whole)
            live_under_one(&fleet, seed, (uint32_t)seed % SIMULATOR_FAULT_KIND_COUNT);
        else
            live_under_all(&fleet, seed);
    }
    report_sum();
}

TEST_GROUP(read_files, NULL)
