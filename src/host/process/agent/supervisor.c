/* SPDX-License-Identifier: Apache-2.0
 * A machine (serving/supervision/supervise_unit.h) makes the decisions about a job, and
 * host/process/agent/unit_hosts.h executes its orders. This file passes the time, and logs reports.
 */
#include "host/process/agent/supervisor.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/cpus.h"
#include "base/limits.h"
#include "base/number.h"
#include "host/process/agent/unit_places.h"
#include "host/process/log/log.h"
#include "host/process/private_room.h"
#include "host/process/ranks/rank_health.h"
#include "serving/supervision/supervise_unit.h"

#include <event2/event.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define SUBJECT "supervisor"
#define FINISH_NS ((int64_t)15000000000) /* limit for units to end without running requests */

struct supervisor_job {
    struct supervisor *supervisor;
    uint32_t number;
    struct unit_hosts *hosts;
    struct unit_host *parts; /* [unit.host_count] */
    struct supervise_unit unit;
};

struct supervisor {
    struct supervisor_options options;
    struct private_room room;
    struct event *tick;
    struct supervisor_job *jobs; /* [unit_count] */
    struct supervise_timeout timeout;
    char host[HOST_NAME_MAX + 1];
};

uint32_t supervisor_job_of(const struct supervisor *supervisor, int64_t pid) {
    for (uint32_t i = 0; pid > 0 && i < supervisor->options.unit_count; i++) {
        const struct supervisor_job *job = &supervisor->jobs[i];
        const struct rank_line *lines = unit_hosts_lines(job->hosts);
        for (uint32_t rank = 0; rank < job->unit.watch.rank_count; rank++)
            if (atomic_load(&lines[rank].pid) == pid) return job->number;
    }
    return 0;
}

/* ---- giving up, and ending ---- */

/* Prints the way a process ended, such as "signal 9". */
static const char *how_it_ended(struct supervise_how how, char text[static 32]) {
    snprintf(text, 32, "%s %d", how.by_signal ? "signal" : "status", how.number);
    return text;
}

static void supervisor_give_up(struct supervisor_job *job) {
    struct supervisor *supervisor = job->supervisor;
    struct error error;
    char how[32] = "a lost host";
    const char *why = unit_hosts_why(job->hosts);
    uint32_t left = 0;
    if (job->unit.has_ended) how_it_ended(job->unit.how, how);
    if (why[0])
        status_error_write(&error, "unit %u could not be started: %.400s", job->number, why);
    else
        status_error_write(&error,
                           "unit %u could not be started: it ended with %s before it was ready",
                           job->number, how);
    for (uint32_t i = 0; i < supervisor->options.unit_count; i++)
        left += supervisor->jobs[i].unit.state != SUPERVISE_GIVEN_UP;
    if (left)
        log_say(LOG_ERROR, SUBJECT, "a unit is given up, others are left job=%u left=%u why=%s",
                job->number, left, error.text);
    else
        supervisor->options.gave_up(supervisor->options.units.context, &error);
}

static void say_unready(const struct supervisor_job *job, const struct supervise_order *order) {
    char how[32] = "a lost host";
    if (order->has_ended) how_it_ended(order->how, how);
    log_say(LOG_WARNING, SUBJECT, "a unit ended before it was ready, it starts again job=%u how=%s",
            job->number, how);
}

static void supervisor_say_ready(const struct supervisor_job *job,
                                 const struct supervise_order *order) {
    int pid = (int)atomic_load(&unit_hosts_lines(job->hosts)[0].pid);
    log_say(LOG_INFO, SUBJECT,
            order->again ? "a unit is there again job=%u pid=%d after_s=%.2f"
                         : "a unit is ready job=%u pid=%d after_s=%.2f",
            job->number, pid, (double)order->ns * 1e-9);
}

static bool name_cut(const struct supervisor_job *job, char text[static RANK_HEALTH_TEXT]) {
    static uint32_t hosts[LIMIT_RANKS];
    const struct supervise_unit *unit = &job->unit;
    uint32_t cut[2];
    for (uint32_t i = 0; i < unit->host_count; i++)
        for (uint32_t k = 0; k < unit->hosts[i].count; k++)
            hosts[unit->hosts[i].first + k] = i;
    if (!supervise_find_cut(unit->signs, hosts, unit->watch.rank_count, cut)) return false;
    snprintf(text, RANK_HEALTH_TEXT, "%.70s,%.70s", job->parts[cut[0]].name,
             job->parts[cut[1]].name);
    return true;
}

static void say_stuck(const struct supervisor_job *job, struct supervise_finding finding) {
    char text[RANK_HEALTH_TEXT];
    double silent = (double)finding.silent_ns * 1e-9;
    bool frozen = finding.verdict == SUPERVISE_FROZEN;
    rank_health_describe(&unit_hosts_lines(job->hosts)[finding.rank], text);
    if (finding.verdict == SUPERVISE_DEADLOCK && name_cut(job, text))
        log_say(LOG_ERROR, SUBJECT,
                "two hosts do not hear each other, their unit starts again job=%u hosts=%s "
                "silent_s=%.1f",
                job->number, text, silent);
    else if (finding.verdict == SUPERVISE_DEADLOCK)
        log_say(LOG_ERROR, SUBJECT,
                "all ranks wait for one another, the unit starts again job=%u silent_s=%.1f",
                job->number, silent);
    else if (finding.rank == 0)
        log_say(LOG_ERROR, SUBJECT,
                frozen ? "a rank was not run, its unit starts again job=%u rank=%u silent_s=%.1f "
                         "where=%s"
                       : "a rank computed nothing, its unit starts again job=%u rank=%u "
                         "silent_s=%.1f where=%s",
                job->number, finding.rank, silent, text);
    else
        log_say(LOG_ERROR, SUBJECT,
                frozen
                    ? "a rank was not run, it is killed job=%u rank=%u silent_s=%.1f where=%s"
                    : "a rank computed nothing, it is killed job=%u rank=%u silent_s=%.1f where=%s",
                job->number, finding.rank, silent, text);
}

static void say_died(const struct supervisor_job *job) {
    char text[RANK_HEALTH_TEXT];
    rank_health_describe(&unit_hosts_lines(job->hosts)[job->unit.ended_rank], text);
    log_say(LOG_ERROR, SUBJECT, "a rank died, its unit starts again job=%u rank=%u where=%s",
            job->number, job->unit.ended_rank, text);
}

/* Logs a rank that rejoins while the others serve. */
static void say_rank(const struct supervisor_job *job, const struct supervise_order *order) {
    char how[32];
    double s = (double)order->ns * 1e-9;
    how_it_ended(order->how, how);
    if (order->kind == SUPERVISE_SAY_RANK_BACK)
        log_say(LOG_INFO, SUBJECT,
                "a rank is there again job=%u rank=%u pid=%" PRId64 " after_s=%.2f", job->number,
                order->rank, (int64_t)atomic_load(&unit_hosts_lines(job->hosts)[order->rank].pid),
                s);
    else if (order->kind == SUPERVISE_SAY_RANK_ENDED)
        log_say(
            LOG_WARNING, SUBJECT,
            "a rank ended before it was back, it starts again job=%u rank=%u how=%s wait_s=%.1f",
            job->number, order->rank, how, s);
    else
        log_say(LOG_ERROR, SUBJECT,
                "a rank is given up, its unit continues without it job=%u rank=%u how=%s",
                job->number, order->rank, how);
}

/* Logs the processes that agents have launched. */
static void say_starts(const struct supervisor_job *job) {
    int pid = (int)atomic_load(&unit_hosts_lines(job->hosts)[0].pid);
    if (job->unit.host_count == 1)
        log_say(LOG_INFO, SUBJECT, "starts a unit job=%u pid=%d ranks=%u", job->number, pid,
                job->unit.watch.rank_count);
    else
        log_say(LOG_INFO, SUBJECT, "starts a unit job=%u pid=%d ranks=%u hosts=%u", job->number,
                pid, job->unit.watch.rank_count, job->unit.host_count);
}

static void supervisor_on_report(void *context, const struct supervise_order *order) {
    struct supervisor_job *job = context;
    char how[32];
    switch (order->kind) {
    case SUPERVISE_GIVE_UP:
        supervisor_give_up(job);
        break;
    case SUPERVISE_SAY_STARTS:
        say_starts(job);
        break;
    case SUPERVISE_SAY_READY:
        supervisor_say_ready(job, order);
        break;
    case SUPERVISE_SAY_STUCK:
        say_stuck(job, order->finding);
        break;
    case SUPERVISE_SAY_ENDED:
        log_say(LOG_ERROR, SUBJECT, "a unit ended, it starts again job=%u how=%s", job->number,
                how_it_ended(job->unit.how, how));
        break;
    case SUPERVISE_SAY_DIED:
        say_died(job);
        break;
    case SUPERVISE_SAY_UNREADY:
        say_unready(job, order);
        break;
    case SUPERVISE_SAY_WAITS:
        log_say(LOG_INFO, SUBJECT, "a unit waits before it starts again job=%u wait_s=%.1f",
                job->number, (double)order->ns * 1e-9);
        break;
    default:
        say_rank(job, order);
        break;
    }
}

/* ---- watching ---- */

static void supervisor_on_tick(evutil_socket_t file, short what, void *context) {
    struct supervisor *supervisor = context;
    int64_t wait_ns = SUPERVISE_TICK_NS;
    for (uint32_t i = 0; i < supervisor->options.unit_count; i++)
        wait_ns = min_i64(wait_ns, unit_hosts_tick(supervisor->jobs[i].hosts));
    event_add(supervisor->tick, &(struct timeval){.tv_usec = wait_ns / 1000});
}

/* ---- life ---- */

static enum status open_hosts(struct supervisor_job *job, uint64_t token, struct error *error) {
    const struct supervisor *supervisor = job->supervisor;
    char name[sizeof supervisor->options.units.check.unit];
    snprintf(name, sizeof name, "%016" PRIx64 "-%u", token, job->number);
    const struct unit_hosts_unit unit = {.number = job->number,
                                         .name = name,
                                         .machine = &job->unit,
                                         .hosts = job->parts,
                                         .context = job,
                                         .report = supervisor_on_report};
    return unit_hosts_open(&supervisor->options.units, &unit, &job->hosts, error);
}

static enum status supervisor_open_unit(struct supervise_unit *unit, uint32_t ranks,
                                        struct error *error) {
    unit->watch.rank_count = ranks;
    unit->watch.ranks = calloc(ranks, sizeof *unit->watch.ranks);
    unit->signs = calloc(ranks, sizeof *unit->signs);
    unit->members = calloc(ranks, sizeof *unit->members);
    return unit->watch.ranks && unit->signs && unit->members
               ? STATUS_OK
               : error_set(error, STATUS_NO_MEMORY, "no memory for the supervisor");
}

/* Places all jobs. Assumes that all hosts have as many CPUs as this one. */
static enum status place_jobs(struct supervisor *supervisor, struct error *error) {
    const struct supervisor_options *options = &supervisor->options;
    struct unit_places *places;
    enum status status = unit_places_open(options->hosts, supervisor->host, &places, error);
    if (status) return status;
    for (uint32_t i = 0; !status && i < options->unit_count; i++) {
        struct supervisor_job *job = &supervisor->jobs[i];
        status = unit_places_add(places, job->number, job->unit.watch.rank_count, &job->parts,
                                 &job->unit.hosts, &job->unit.host_count, error);
    }
    supervisor->timeout =
        supervise_timeout(options->rank_timeout_ns, unit_places_most(places), cpus_usable());
    for (uint32_t i = 0; !status && i < options->unit_count; i++) {
        struct supervisor_job *job = &supervisor->jobs[i];
        unit_places_share(places, job->parts, job->unit.host_count);
        job->unit.timeout = supervisor->timeout;
    }
    unit_places_close(places);
    return status;
}

static enum status open_jobs(struct supervisor *supervisor, struct error *error) {
    const struct supervisor_options *options = &supervisor->options;
    enum status status = STATUS_OK;
    uint64_t token = 0;
    supervisor->jobs = calloc(options->unit_count, sizeof *supervisor->jobs);
    check(getrandom(&token, sizeof token, 0) == sizeof token);
    if (!supervisor->jobs)
        return error_set(error, STATUS_NO_MEMORY, "no memory for the supervisor");
    for (uint32_t i = 0; !status && i < options->unit_count; i++) {
        struct supervisor_job *job = &supervisor->jobs[i];
        job->supervisor = supervisor;
        job->number = i + 1;
        status = supervisor_open_unit(&job->unit, options->rank_counts[i], error);
    }
    if (!status) status = place_jobs(supervisor, error);
    for (uint32_t i = 0; !status && i < options->unit_count; i++)
        status = open_hosts(&supervisor->jobs[i], token, error);
    return status;
}

enum status supervisor_open(const struct supervisor_options *options,
                            struct supervisor **supervisor_out, struct error *error) {
    struct supervisor *supervisor = calloc(1, sizeof *supervisor);
    if (!supervisor) return error_set(error, STATUS_NO_MEMORY, "no memory for the supervisor");
    supervisor->options = *options;
    if (gethostname(supervisor->host, sizeof supervisor->host)) supervisor->host[0] = 0;
    enum status status = private_room_open(NULL, &supervisor->room, error);
    supervisor->tick = evtimer_new(options->units.base, supervisor_on_tick, supervisor);
    if (!status && !supervisor->tick)
        status = error_set(error, STATUS_NO_MEMORY, "no memory for the supervisor");
    if (!status) status = open_jobs(supervisor, error);
    if (status)
        supervisor_close(supervisor);
    else
        *supervisor_out = supervisor;
    return status;
}

const char *supervisor_folder(const struct supervisor *supervisor) {
    return supervisor->room.path;
}

bool supervisor_leads_here(const struct supervisor *supervisor) {
    for (uint32_t i = 0; i < supervisor->options.unit_count; i++)
        if (!supervisor->jobs[i].parts[0].is_here) return false;
    return true;
}

void supervisor_give_files(struct supervisor *supervisor, const struct unit_host_file *files,
                           uint32_t count) {
    for (uint32_t i = 0; i < supervisor->options.unit_count; i++)
        unit_hosts_give_files(supervisor->jobs[i].hosts, files, count);
}

void supervisor_start(struct supervisor *supervisor) {
    for (uint32_t i = 0; i < supervisor->options.unit_count; i++) {
        supervise_unit_start(&supervisor->jobs[i].unit, clock_now_ns());
        unit_hosts_obey(supervisor->jobs[i].hosts);
    }
    event_add(supervisor->tick, &(struct timeval){.tv_usec = 0});
}

static bool one_runs(struct supervisor *supervisor) {
    bool runs = false;
    for (uint32_t i = 0; i < supervisor->options.unit_count; i++) {
        unit_hosts_tick(supervisor->jobs[i].hosts);
        unit_hosts_tend(supervisor->jobs[i].hosts);
        runs |= supervise_unit_left(&supervisor->jobs[i].unit) != 0;
    }
    return runs;
}

void supervisor_stop(struct supervisor *supervisor) {
    int64_t until_ns = clock_now_ns() + supervisor->options.finish_ns_max + FINISH_NS;
    event_del(supervisor->tick);
    for (uint32_t i = 0; i < supervisor->options.unit_count; i++) {
        supervise_unit_stop(&supervisor->jobs[i].unit);
        unit_hosts_obey(supervisor->jobs[i].hosts);
    }
    while (one_runs(supervisor) && clock_now_ns() < until_ns)
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
}

void supervisor_close(struct supervisor *supervisor) {
    if (!supervisor) return;
    for (uint32_t i = 0; supervisor->jobs && i < supervisor->options.unit_count; i++) {
        struct supervisor_job *job = &supervisor->jobs[i];
        unit_hosts_close(job->hosts);
        free(job->parts);
        free(job->unit.hosts);
        free(job->unit.watch.ranks);
        free(job->unit.signs);
        free(job->unit.members);
    }
    if (supervisor->tick) event_free(supervisor->tick);
    private_room_close(&supervisor->room);
    free(supervisor->jobs);
    free(supervisor);
}
