/* SPDX-License-Identifier: Apache-2.0
 * What the windows before taught is used by the next ones: the twin's decode steps take longer than
 * a clock says that is asked about equal ranks, since contexts differ. The first window runs twice
 * for that.
 */
#include "programs/sim_day.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/number.h"
#include "host/process/lazy_memory.h"

struct day_job {
    struct scenario *scenario;
    struct day_outcome *outcome;
    struct outcome *window;
    struct lazy_memory clock_memory;
    struct step_clock *clock; /* of a decode unit */
    double stretch;           /* twin's decode steps over the clock's */
    bool verbose;
};

static struct step_clock_options clock_options(const struct scenario *scenario) {
    const struct twin_unit_kind *decode = &scenario->options.kinds[1];
    return (struct step_clock_options){.hardware = decode->hardware,
                                       .model = scenario->options.model,
                                       .ranks = decode->ranks,
                                       .ranks_per_node = decode->ranks_per_node,
                                       .redundant_experts = decode->redundant_experts,
                                       .balance_experts = decode->balance_experts,
                                       .expert_skew = scenario->options.expert_skew,
                                       .expert_drift = scenario->options.expert_drift,
                                       .seed = scenario->options.seed};
}

static enum overlap_kind decode_overlap(const struct scenario *scenario) {
    int overlap = scenario->options.kinds[1].overlap;
    return overlap < 0 ? OVERLAP_DECODE_FIVE_STAGE : (enum overlap_kind)overlap;
}

static enum status run_window(struct day_job *job, const struct day_segment *segment, bool whole,
                              double standing, struct error *error) {
    struct arena arena;
    struct day_load load;
    struct scenario *scenario = job->scenario;
    struct twin_options fleet = scenario->options;
    day_window_options(&scenario->load.day, segment, &fleet, whole, standing,
                       &job->outcome->lengths, &load, &scenario->options);
    size_t bytes = twin_bytes(&scenario->options);
    struct lazy_memory memory = lazy_memory_take(bytes);
    if (!memory.start) {
        scenario->options = fleet;
        return error_set(error, STATUS_NO_MEMORY, "no memory for a window of %zu MiB", bytes >> 20);
    }
    arena_over(&arena, memory.start, memory.bytes);
    outcome_listen(job->window, scenario);
    int64_t begin_ns = clock_now_ns();
    enum status status = twin_run(&scenario->options, &arena, &job->window->report, error);
    double seconds = (double)(clock_now_ns() - begin_ns) * 1e-9;
    const struct twin_report *report = &job->window->report;
    lazy_memory_free(&memory);
    if (!status && report->breach[0])
        status = error_set(error, STATUS_CORRUPT, "the window at hour %.2f: %.200s", segment->hour,
                           report->breach);
    if (!status && job->verbose)
        fprintf(stderr, "fathom sim: hour %5.2f: %.2f s; %.3g M records (%.3g M/s); %zu MiB reserved\n",
                segment->hour, seconds, (double)report->records * 1e-6,
                (double)report->records * 1e-6 / seconds, bytes >> 20);
    return status;
}

/* Afterwards the scenario's options are the fleet's again. */
static enum status live_window(struct day_job *job, const struct day_segment *segment, bool whole,
                               bool counts, struct error *error) {
    struct twin_options fleet = job->scenario->options;
    const struct twin_unit_kind *decode = &fleet.kinds[1];
    double kv = job->scenario->load.day.moments.kv_mean;
    enum overlap_kind overlap = decode_overlap(job->scenario);
    double standing = day_standing(job->clock, decode->ranks, decode->rows_max, overlap, kv,
                                   segment->output_rate / segment->decode_units, job->stretch);
    enum status status = run_window(job, segment, whole, standing, error);
    const struct twin_role_counts *counted = &job->window->report.roles[UNIT_DECODE];
    if (!status && counted->steps) {
        double rows = (double)counted->rows * (double)counted->units / (double)counted->steps /
                      (double)counted->ranks;
        double context = (double)counted->context / (double)counted->rows;
        job->stretch = counted->step_ns / (double)counted->steps * 1e-9 /
                       day_step_seconds(job->clock, decode->ranks, overlap, context, rows);
    }
    if (!status && counts)
        day_outcome_add(job->outcome, segment, whole, job->window, &job->scenario->options);
    job->scenario->options = fleet;
    return status;
}

static enum status live_day(struct day_job *job, double whole_hour, struct error *error) {
    struct day_segment segments[DAY_SEGMENTS_MAX];
    enum status status = STATUS_OK;
    uint32_t count = day_segments(&job->scenario->load.day, segments);
    for (uint32_t i = 0; !status && i < count; i++) {
        const struct day_segment *segment = &segments[i];
        bool holds = whole_hour >= segment->hour && whole_hour < segment->hour + segment->hours;
        if (whole_hour >= 0 && !holds) continue;
        if (i == 0 || whole_hour >= 0) status = live_window(job, segment, false, false, error);
        if (!status) status = live_window(job, segment, false, true, error);
        if (!status && whole_hour >= 0) status = live_window(job, segment, true, true, error);
    }
    return status;
}

static enum status open_clock(struct day_job *job, struct error *error) {
    struct arena arena;
    const struct scenario *scenario = job->scenario;
    struct step_clock_options options = clock_options(scenario);
    size_t bytes = max_u64(step_clock_bytes(&options), (size_t)64 << 20);
    job->clock_memory = lazy_memory_take(bytes);
    if (!job->clock_memory.start)
        return error_set(error, STATUS_NO_MEMORY, "no memory for a clock of %zu MiB", bytes >> 20);
    arena_over(&arena, job->clock_memory.start, job->clock_memory.bytes);
    enum status status = day_profile_steps(options.hardware, options.model, &arena,
                                           &job->outcome->profile, error);
    arena_clear(&arena);
    return status ? status : step_clock_open(&arena, &options, &job->clock, error);
}

enum status sim_day_run(struct scenario *scenario, double whole_hour, bool verbose,
                        struct day_outcome *outcome, struct error *error) {
    struct day_job job = {.scenario = scenario, .outcome = outcome, .stretch = 1, .verbose = verbose};
    *outcome = (struct day_outcome){.scenario = scenario};
    if (!day_load_solve(&scenario->load.day.moments, &outcome->lengths))
        return error_set(error, STATUS_INVALID, "no lengths have the day's means");
    job.window = malloc(sizeof *job.window);
    if (!job.window) return error_set(error, STATUS_NO_MEMORY, "no memory for a window");
    enum status status = open_clock(&job, error);
    if (!status) status = live_day(&job, whole_hour, error);
    if (!status) day_outcome_end(outcome);
    free(job.window);
    lazy_memory_free(&job.clock_memory);
    return status;
}
