/* SPDX-License-Identifier: Apache-2.0
 * Each window uses a correction learned from earlier windows: simulated decode steps take longer
 * than the step clock predicts for equal ranks, since contexts differ. A short window runs before
 * the first one, only to learn this, unless the scenario gives the value to assume.
 */
#include "programs/sim_day.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/number.h"
#include "host/process/lazy_memory.h"
#include "serving/policy/speculate.h"

struct day_job {
    struct scenario *scenario;
    struct day_outcome *outcome;
    struct outcome *window; /* of the latest window */
    struct simulator_options window_options;
    struct lazy_memory memory; /* of windows; each one reuses it. Its old content has no
                                * meaning */
    struct lazy_memory clock_memory;
    struct step_clock *clock; /* of a decode unit */
    double stretch;           /* time of simulated decode steps divided by the clock's, in the
                               * previous window */
    double short_s;           /* day_short_seconds of the previous window */
    bool verbose;
};

static struct step_clock_options sim_day_clock_options(const struct scenario *scenario) {
    const struct simulator_unit_kind *decode = &scenario->options.kinds[1];
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

/* Reused memory costs no page faults. Windows differ in the number of prefill units, which are at
 * its end. */
static bool sim_day_take_memory(struct day_job *job, size_t bytes) {
    if (job->memory.start && job->memory.bytes >= bytes) return true;
    lazy_memory_free(&job->memory);
    job->memory = lazy_memory_take(bytes);
    lazy_memory_widen(&job->memory);
    return job->memory.start != NULL;
}

/* The acceptance rate of the decode units' drafts; 0: they do not draft, or choose adaptively. */
static double acceptance(const struct scenario *scenario) {
    bool always = scenario->options.kinds[1].speculate == SPECULATE_ALWAYS;
    return always ? scenario->options.model->mtp_acceptance : 0;
}

static enum status run_window(struct day_job *job, const struct day_segment *segment, bool whole,
                              double standing, struct error *error) {
    struct arena arena;
    struct day_load load;
    struct scenario *scenario = job->scenario;
    struct simulator_options fleet = scenario->options;
    day_window_options(&scenario->load.day, segment, &fleet, whole, standing,
                       &job->outcome->lengths, &load, &scenario->options);
    size_t bytes = simulator_bytes(&scenario->options);
    if (!sim_day_take_memory(job, bytes)) {
        scenario->options = fleet;
        return error_set(error, STATUS_NO_MEMORY, "no memory for a window of %zu MiB", bytes >> 20);
    }
    arena_over(&arena, job->memory.start, job->memory.bytes);
    outcome_listen(job->window, scenario);
    int64_t begin_ns = clock_now_ns();
    enum status status = simulator_run(&scenario->options, &arena, &job->window->report, error);
    double seconds = (double)(clock_now_ns() - begin_ns) * 1e-9;
    const struct simulator_report *report = &job->window->report;
    char name[40];
    snprintf(name, sizeof name, "the window at hour %.2f", segment->hour);
    if (!status) status = simulator_verify(report, name, error);
    if (!status && job->verbose)
        fprintf(stderr,
                "fathom sim: hour %5.2f: %.2f s; %.3g M records (%.3g M/s); %zu MiB reserved; "
                "steps of decode "
                "%.3f times the clock's of equal ranks in the window before, which was short of "
                "%.2f s of arrivals\n",
                segment->hour, seconds, (double)report->records * 1e-6,
                (double)report->records * 1e-6 / seconds, bytes >> 20, job->stretch, job->short_s);
    return status;
}

/* Runs a window. Afterwards the scenario's options are the whole fleet's again. */
static enum status live_window(struct day_job *job, const struct day_segment *segment, bool whole,
                               struct error *error) {
    struct simulator_options fleet = job->scenario->options;
    const struct simulator_unit_kind *decode = &fleet.kinds[1];
    double kv = job->scenario->load.day.moments.kv_mean;
    enum overlap_kind overlap = decode_overlap(job->scenario);
    double rate = segment->output_rate / segment->decode_units; /* of a unit */
    double ends =
        rate / decode->ranks / job->outcome->lengths.answer_mean; /* requests per rank and second */
    double standing = day_standing(job->clock, decode->ranks, decode->rows_max, overlap, kv, rate,
                                   job->stretch, acceptance(job->scenario)) +
                      job->short_s * ends;
    enum status status = run_window(job, segment, whole, standing, error);
    const struct simulator_role_counts *counted = &job->window->report.roles[UNIT_DECODE];
    if (!status && counted->steps) {
        double rows = (double)counted->rows * (double)counted->units / (double)counted->steps /
                      (double)counted->ranks;
        double context = (double)counted->context / (double)counted->rows;
        job->stretch = counted->step_ns / (double)counted->steps * 1e-9 /
                       day_step_seconds(job->clock, decode->ranks, overlap, context, rows,
                                        acceptance(job->scenario) > 0);
        job->short_s = day_short_seconds(&job->scenario->load.day, standing, rows, ends);
    }
    job->window_options = job->scenario->options;
    job->scenario->options = fleet;
    return status;
}

#define LEARN_S 1 /* some twenty decode steps; settling takes as long before */

/* A window's initial state follows from the previous one. The first window has none, so it runs
 * twice, the first time briefly. */
static enum status learn_start(struct day_job *job, const struct day_segment *segment,
                               struct error *error) {
    struct day_options *day = &job->scenario->load.day;
    double warm_s = day->warm_s, measure_s = day->measure_s;
    if (warm_s > day->settle_s + LEARN_S) day->warm_s = day->settle_s + LEARN_S;
    if (measure_s > LEARN_S) day->measure_s = LEARN_S;
    enum status status = live_window(job, segment, false, error);
    day->warm_s = warm_s;
    day->measure_s = measure_s;
    return status;
}

/* Segments with the same units and with loads within this share have one window. */
#define ALIKE 0.03

static bool sim_day_is_alike(const struct day_segment *segment, const struct day_segment *other) {
    return segment->decode_units == other->decode_units &&
           segment->prefill_units == other->prefill_units &&
           other->output_rate >= segment->output_rate &&
           other->output_rate <= segment->output_rate * (1 + ALIKE);
}

/* The window's load is the mean over its segments: the one with the least load that has no window
 * yet, and those with similar loads. */
static struct day_segment shared_segment(const struct day_segment *segments, uint32_t count,
                                         const bool *done, uint32_t least) {
    struct day_segment shared = segments[least];
    double hours = 0, input = 0, output = 0, sampled = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct day_segment *segment = &segments[i];
        if (done[i] || !sim_day_is_alike(&segments[least], segment)) continue;
        hours += segment->hours;
        input += segment->input_rate * segment->hours;
        output += segment->output_rate * segment->hours;
        sampled += segment->sample_prefill_units * segment->hours;
    }
    shared.input_rate = input / hours;
    shared.output_rate = output / hours;
    shared.sample_prefill_units = (uint32_t)(sampled / hours + 0.5);
    return shared;
}

static uint32_t least_loaded(const struct day_segment *segments, uint32_t count, const bool *done) {
    uint32_t least = count;
    for (uint32_t i = 0; i < count; i++)
        if (!done[i] && (least == count || segments[i].output_rate < segments[least].output_rate))
            least = i;
    return least;
}

static enum status live_day(struct day_job *job, struct error *error) {
    struct day_segment segments[DAY_SEGMENTS_MAX];
    bool done[DAY_SEGMENTS_MAX] = {false};
    uint32_t least, count = day_segments(&job->scenario->load.day, segments);
    bool first = true;
    while ((least = least_loaded(segments, count, done)) < count) {
        struct day_segment shared = shared_segment(segments, count, done, least);
        const struct day_segment lightest = segments[least];
        enum status status = first ? learn_start(job, &shared, error) : STATUS_OK;
        if (!status) status = live_window(job, &shared, false, error);
        if (status) return status;
        first = false;
        for (uint32_t i = 0; i < count; i++) {
            if (done[i] || !sim_day_is_alike(&lightest, &segments[i])) continue;
            day_outcome_add(job->outcome, &segments[i], &shared, false, job->window,
                            &job->window_options);
            done[i] = true;
        }
    }
    return STATUS_OK;
}

/* Runs the segment with that hour, as a sample and with all units. */
static enum status live_hour(struct day_job *job, double hour, struct error *error) {
    struct day_segment segments[DAY_SEGMENTS_MAX];
    uint32_t i = 0, count = day_segments(&job->scenario->load.day, segments);
    while (i + 1 < count && hour >= segments[i].hour + segments[i].hours)
        i++;
    enum status status = learn_start(job, &segments[i], error);
    for (int whole = 0; !status && whole < 2; whole++) {
        status = live_window(job, &segments[i], whole, error);
        if (!status)
            day_outcome_add(job->outcome, &segments[i], &segments[i], whole, job->window,
                            &job->window_options);
    }
    return status;
}

static enum status sim_day_open_clock(struct day_job *job, struct error *error) {
    struct arena arena;
    const struct scenario *scenario = job->scenario;
    struct step_clock_options options = sim_day_clock_options(scenario);
    size_t bytes = max_u64(step_clock_bytes(&options), (size_t)64 << 20);
    job->clock_memory = lazy_memory_take(bytes);
    if (!job->clock_memory.start)
        return error_set(error, STATUS_NO_MEMORY, "no memory for a clock of %zu MiB", bytes >> 20);
    arena_over(&arena, job->clock_memory.start, job->clock_memory.bytes);
    enum status status = day_figures_profile_steps(options.hardware, options.model, &arena,
                                                   &job->outcome->profile, error);
    arena_clear(&arena);
    return status ? status : step_clock_open(&arena, &options, &job->clock, error);
}

enum status sim_day_run(struct scenario *scenario, double whole_hour, bool verbose,
                        struct day_outcome *outcome, struct error *error) {
    struct day_job job = {
        .scenario = scenario, .outcome = outcome, .stretch = 1, .verbose = verbose};
    *outcome = (struct day_outcome){.scenario = scenario};
    if (!day_load_solve(&scenario->load.day.moments, &outcome->lengths))
        return error_set(error, STATUS_INVALID, "no lengths have the day's means");
    job.window = malloc(sizeof *job.window);
    if (!job.window) return error_set(error, STATUS_NO_MEMORY, "no memory for a window");
    enum status status = sim_day_open_clock(&job, error);
    if (!status)
        status = whole_hour < 0 ? live_day(&job, error) : live_hour(&job, whole_hour, error);
    if (!status) day_outcome_end(outcome);
    free(job.window);
    lazy_memory_free(&job.memory);
    lazy_memory_free(&job.clock_memory);
    return status;
}
