/* SPDX-License-Identifier: Apache-2.0
 * A unit's ranks are a launch (host/process/rank_launch.h): a death is an event, not a question
 * asked now and then, and a signal can never hit a stranger.
 *
 * A job that fails is killed rather than asked. Before it is ready it gets a moment: rank 0 lets the
 * others go, and says why and with which status it ends.
 */
#include "host/process/supervisor.h"

#include "base/check.h"
#include "base/clock.h"
#include "host/process/log.h"
#include "host/process/private_room.h"
#include "host/process/rank_board.h"
#include "host/process/rank_launch.h"
#include "serving/policy/supervise.h"

#include <errno.h>
#include <event2/event.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SUBJECT "supervisor"
#define TICK_START_US 20000 /* while a unit starts */
#define TICK_US 100000
#define LOOKS_A_TIMEOUT 8
#define LAST_WORDS_NS ((int64_t)50000000) /* of a job that failed, before it is killed */
#define END_NS_MAX                                                                                 \
    ((int64_t)5000000000) /* to be gone in; and to end by itself before it was ready */
#define LOST_NS_MAX ((int64_t)2000000000)    /* until a unit says that it goes on without a rank */
#define FINISH_NS_MAX ((int64_t)15000000000) /* when asked to */

enum job_state {
    JOB_RUNS,
    JOB_FAILS, /* before it was ready: it is given a moment */
    JOB_ENDS,  /* it was killed */
    JOB_PAUSES,
    JOB_GIVEN_UP
};

struct supervisor_job {
    struct supervisor *supervisor;
    uint32_t number, starts;
    enum job_state state;
    char folder[300], board_path[320];
    struct rank_board board;
    bool has_role; /* when it ran last: */
    enum unit_role role;
    struct rank_launch *launch; /* NULL: nothing was started */
    struct event *event;        /* of the launch */
    bool ended;                 /* a rank has: the first, or the first that failed, and how: */
    uint32_t ended_rank;
    int status; /* as waitpid says */
    bool *lost; /* [rank_count] ranks that have died while the unit was ready */
    uint32_t lost_count;
    int64_t lost_ns; /* since when the unit has not said that it goes on without them; 0: it has */
    bool ready;
    int64_t began_ns, state_ns; /* when this life, and this state, began */
    int64_t failed_ns;          /* when the last failure was seen; 0: it is over */
    int64_t wait_ns;            /* JOB_PAUSES */
    struct supervise_watch watch;
    struct supervise_signs *signs; /* [rank_count] */
    struct supervise_history history;
};

struct supervisor {
    struct supervisor_options options;
    struct private_room room;
    struct event *tick;
    struct supervisor_job *jobs; /* [unit_count] */
    struct supervise_timeout timeout;
    int64_t looked_ns;
    uint32_t rank_count; /* of all units */
    char host[64];
};

static void enter(struct supervisor_job *job, enum job_state state) {
    job->state = state;
    job->state_ns = clock_now_ns();
}

uint32_t supervisor_job_of(const struct supervisor *supervisor, int64_t pid) {
    for (uint32_t i = 0; pid > 0 && i < supervisor->options.unit_count; i++) {
        const struct supervisor_job *job = &supervisor->jobs[i];
        for (uint32_t rank = 0; job->launch && rank < job->watch.rank_count; rank++)
            if (rank_launch_pid(job->launch, rank) == pid) return job->number;
    }
    return 0;
}

/* ---- starting ---- */

static void on_launch(evutil_socket_t file, short what, void *context);
static void on_rank(void *context, uint32_t rank, int status);

static enum status start_ranks(struct supervisor_job *job, const char **arguments,
                               struct error *error) {
    struct supervisor *supervisor = job->supervisor;
    const struct rank_launch_options options = {.arguments = arguments,
                                                .count = job->watch.rank_count,
                                                .total = job->watch.rank_count,
                                                .sharing = supervisor->rank_count,
                                                .context = job,
                                                .ended = on_rank};
    enum status status = rank_launch_open(&options, &job->launch, error);
    if (status) return status;
    job->event = event_new(supervisor->options.base, rank_launch_file(job->launch),
                           EV_READ | EV_PERSIST, on_launch, job);
    check(job->event);
    event_add(job->event, NULL);
    return STATUS_OK;
}

static enum status launch(struct supervisor_job *job, struct error *error) {
    struct supervisor *supervisor = job->supervisor;
    const struct supervisor_unit unit = {job->number, job->folder, job->board_path, job->has_role,
                                         job->role};
    snprintf(job->folder, sizeof job->folder, "%s/%u.%u", supervisor->room.path, job->number,
             ++job->starts);
    snprintf(job->board_path, sizeof job->board_path, "%s/board", job->folder);
    if (mkdir(job->folder, 0700))
        return error_set(error, STATUS_IO, "cannot make %s: %s", job->folder, strerror(errno));
    enum status status =
        rank_board_create(job->board_path, job->watch.rank_count, &job->board, error);
    if (status) return status;
    const char **arguments = supervisor->options.command(supervisor->options.context, &unit);
    if (!arguments) return error_set(error, STATUS_NO_MEMORY, "no memory for a command line");
    status = start_ranks(job, arguments, error);
    free(arguments);
    if (status) return status;
    log_say(LOG_INFO, SUBJECT, "starts a unit job=%u pid=%d ranks=%u", job->number,
            (int)rank_launch_pid(job->launch, 0), job->watch.rank_count);
    return STATUS_OK;
}

static void clean(struct supervisor_job *job) {
    if (job->event) event_free(job->event);
    job->event = NULL;
    rank_launch_close(job->launch);
    job->launch = NULL;
    if (rank_board_read_role(&job->board, &job->role)) job->has_role = true;
    rank_board_close(&job->board);
    if (job->folder[0]) private_room_remove(job->folder);
    job->folder[0] = 0;
}

static void give_up(struct supervisor_job *job, const struct error *error) {
    struct supervisor *supervisor = job->supervisor;
    enter(job, JOB_GIVEN_UP);
    uint32_t left = 0;
    for (uint32_t i = 0; i < supervisor->options.unit_count; i++)
        left += supervisor->jobs[i].state != JOB_GIVEN_UP;
    if (left)
        log_say(LOG_ERROR, SUBJECT, "a unit is given up, others are left job=%u left=%u why=%s",
                job->number, left, error->text);
    else
        supervisor->options.gave_up(supervisor->options.context, error);
}

static void start(struct supervisor_job *job) {
    struct error error;
    uint32_t count = job->watch.rank_count;
    memset(job->watch.ranks, 0, count * sizeof *job->watch.ranks);
    job->watch.looked_ns = 0;
    job->ready = job->ended = false;
    job->status = 0;
    memset(job->lost, 0, count * sizeof *job->lost);
    job->lost_count = 0;
    job->lost_ns = 0;
    enter(job, JOB_RUNS);
    job->began_ns = job->state_ns;
    if (!launch(job, &error)) return;
    clean(job);
    give_up(job, &error);
}

/* ---- ending ---- */

static void kill_all(struct supervisor_job *job) {
    if (job->launch) rank_launch_signal_all(job->launch, SIGKILL);
    enter(job, JOB_ENDS);
}

/* One line has told what is wrong. */
static void fail(struct supervisor_job *job) {
    if (!job->failed_ns) job->failed_ns = clock_now_ns();
    kill_all(job);
}

static bool all_gone(const struct supervisor_job *job) {
    return rank_launch_left(job->launch) == 0;
}

/* "signal 9" */
static const char *how_it_ended(const struct supervisor_job *job, char text[static 32]) {
    bool exited = WIFEXITED(job->status);
    snprintf(text, 32, "%s %d", exited ? "status" : "signal",
             exited ? WEXITSTATUS(job->status) : WTERMSIG(job->status));
    return text;
}

static void say_end(const struct supervisor_job *job, const struct supervise_next *next,
                    struct error *error) {
    char how[32];
    how_it_ended(job, how);
    if (next->gives_up)
        error_write(error, "unit %u could not be started: it ended with %s before it was ready",
                    job->number, how);
    else if (!job->ready)
        log_say(LOG_WARNING, SUBJECT,
                "a unit ended before it was ready, it starts again job=%u how=%s", job->number,
                how);
    if (!next->gives_up && next->wait_ns)
        log_say(LOG_INFO, SUBJECT, "a unit waits before it starts again job=%u wait_s=%.1f",
                job->number, (double)next->wait_ns * 1e-9);
}

static void over(struct supervisor_job *job) {
    struct error error = {""};
    bool by_itself = WIFEXITED(job->status) && WEXITSTATUS(job->status) <= 2;
    struct supervise_end end = {
        .was_ready = job->ready, .refused = by_itself, .lived_ns = clock_now_ns() - job->began_ns};
    if (!job->failed_ns) job->failed_ns = clock_now_ns();
    struct supervise_next next = supervise_ended(&job->history, &end);
    say_end(job, &next, &error);
    clean(job);
    if (next.gives_up) {
        give_up(job, &error);
    } else if (next.wait_ns) {
        job->wait_ns = next.wait_ns;
        enter(job, JOB_PAUSES);
    } else {
        start(job);
    }
}

/* Whether ranks have ended. */
static void look_at_end(struct supervisor_job *job) {
    if (job->state == JOB_PAUSES || job->state == JOB_GIVEN_UP) return;
    bool late = job->state == JOB_ENDS && clock_now_ns() - job->state_ns > END_NS_MAX;
    if (late && !all_gone(job))
        log_say(LOG_WARNING, SUBJECT,
                "a killed rank does not go away, its unit starts without it job=%u", job->number);
    if (late || all_gone(job)) over(job);
}

static void on_launch(evutil_socket_t file, short what, void *context) {
    struct supervisor_job *job = context;
    rank_launch_tend(job->launch);
    look_at_end(job);
}

static void say_restart(const struct supervisor_job *job, uint32_t rank) {
    char text[RANK_BOARD_TEXT];
    rank_board_describe(&job->board.lines[rank], text);
    log_say(LOG_ERROR, SUBJECT, "a rank died, its unit starts again job=%u rank=%u where=%s",
            job->number, rank, text);
}

/* The others may go on without it: rank 0 says so, or ends. */
static void lose(struct supervisor_job *job, uint32_t rank) {
    job->lost[rank] = true;
    job->lost_count++;
    if (!job->lost_ns) job->lost_ns = clock_now_ns();
}

static uint32_t first_lost(const struct supervisor_job *job) {
    uint32_t rank = 0;
    while (rank < job->watch.rank_count && !job->lost[rank])
        rank++;
    return rank;
}

static void on_rank(void *context, uint32_t rank, int status) {
    struct supervisor_job *job = context;
    char how[32];
    if (!job->ended || (job->status == 0 && status != 0)) {
        job->ended = true;
        job->ended_rank = rank;
        job->status = status;
    }
    if (job->state != JOB_RUNS) return;
    if (job->ready && job->watch.rank_count == 1) {
        log_say(LOG_ERROR, SUBJECT, "a unit ended, it starts again job=%u how=%s", job->number,
                how_it_ended(job, how));
        fail(job);
    } else if (job->ready && rank != 0) {
        lose(job, rank);
    } else if (job->ready) {
        say_restart(job, job->lost_ns ? first_lost(job) : rank);
        fail(job);
    } else {
        enter(job, JOB_FAILS);
    }
}

/* ---- watching ---- */

static void look_whether_ready(struct supervisor_job *job) {
    if (job->ready || atomic_load(&job->board.lines[0].pulse.state) == PULSE_STARTS) return;
    job->ready = true;
    if (job->failed_ns)
        log_say(LOG_INFO, SUBJECT, "a unit is there again job=%u pid=%d after_s=%.2f", job->number,
                (int)rank_launch_pid(job->launch, 0),
                (double)(clock_now_ns() - job->failed_ns) * 1e-9);
    else
        log_say(LOG_INFO, SUBJECT, "a unit is ready job=%u pid=%d after_s=%.2f", job->number,
                (int)rank_launch_pid(job->launch, 0),
                (double)(clock_now_ns() - job->began_ns) * 1e-9);
    job->failed_ns = 0;
}

static void look_for_stuck(struct supervisor_job *job) {
    struct supervisor *supervisor = job->supervisor;
    char text[RANK_BOARD_TEXT];
    for (uint32_t i = 0; i < job->watch.rank_count; i++) {
        struct rank_line *line = &job->board.lines[i];
        bool here = strcmp(line->host, supervisor->host) == 0;
        job->signs[i] = (struct supervise_signs){
            .state = (enum pulse_state)atomic_load(&line->pulse.state),
            .tiles = atomic_load(&line->pulse.tiles),
            .gone = job->lost[i],
            .ran = here ? rank_board_run_ns(atomic_load(&line->pid)) : 0,
            .cpu_ns = here ? rank_board_cpu_ns(atomic_load(&line->pid)) : 0};
    }
    struct supervise_finding finding =
        supervise_look(&job->watch, job->signs, supervisor->timeout, clock_now_ns());
    double silent = (double)finding.silent_ns * 1e-9;
    if (finding.verdict == SUPERVISE_FINE) return;
    rank_board_describe(&job->board.lines[finding.rank], text);
    if (finding.verdict == SUPERVISE_DEADLOCK)
        log_say(LOG_ERROR, SUBJECT,
                "all ranks wait for one another, the unit starts again job=%u silent_s=%.1f",
                job->number, silent);
    else if (finding.verdict == SUPERVISE_FROZEN)
        log_say(LOG_ERROR, SUBJECT,
                "a rank was not run, its unit starts again job=%u rank=%u silent_s=%.1f where=%s",
                job->number, finding.rank, silent, text);
    else
        log_say(
            LOG_ERROR, SUBJECT,
            "a rank computed nothing, its unit starts again job=%u rank=%u silent_s=%.1f where=%s",
            job->number, finding.rank, silent, text);
    fail(job);
}

static void look_for_lost(struct supervisor_job *job) {
    uint32_t left = atomic_load(&job->board.lines[0].left);
    if (!job->lost_ns) return;
    if (left && left <= job->watch.rank_count - job->lost_count) {
        job->lost_ns = 0;
    } else if (clock_now_ns() - job->lost_ns > LOST_NS_MAX) {
        say_restart(job, first_lost(job));
        fail(job);
    }
}

/* A rank that died leaves the others waiting; they are not asked. */
static int64_t last_words_ns(const struct supervisor_job *job) {
    return job->status != 0 && job->ended_rank != 0 ? LAST_WORDS_NS : END_NS_MAX;
}

static void tick_job(struct supervisor_job *job, bool looks) {
    int64_t now_ns = clock_now_ns();
    switch (job->state) {
    case JOB_RUNS:
        look_whether_ready(job);
        look_for_lost(job);
        if (job->state != JOB_RUNS) break;
        if (looks && job->ready && job->supervisor->timeout.wall_ns) look_for_stuck(job);
        break;
    case JOB_FAILS:
        if (now_ns - job->state_ns > last_words_ns(job)) kill_all(job);
        break;
    case JOB_ENDS:
        look_at_end(job);
        break;
    case JOB_PAUSES:
        if (now_ns - job->state_ns >= job->wait_ns) start(job);
        break;
    case JOB_GIVEN_UP:
        break;
    }
}

static void on_tick(evutil_socket_t file, short what, void *context) {
    struct supervisor *supervisor = context;
    int64_t now_ns = clock_now_ns();
    bool looks = now_ns - supervisor->looked_ns >= supervisor->timeout.wall_ns / LOOKS_A_TIMEOUT;
    bool starting = false;
    if (looks) supervisor->looked_ns = now_ns;
    for (uint32_t i = 0; i < supervisor->options.unit_count; i++) {
        tick_job(&supervisor->jobs[i], looks);
        starting |= !supervisor->jobs[i].ready || supervisor->jobs[i].state != JOB_RUNS;
    }
    event_add(supervisor->tick, &(struct timeval){.tv_usec = starting ? TICK_START_US : TICK_US});
}

/* ---- life ---- */

static uint32_t cpus(void) {
    cpu_set_t set;
    CPU_ZERO(&set);
    return sched_getaffinity(0, sizeof set, &set) == 0 ? (uint32_t)CPU_COUNT(&set) : 1;
}

static enum status open_jobs(struct supervisor *supervisor) {
    const struct supervisor_options *options = &supervisor->options;
    supervisor->jobs = calloc(options->unit_count, sizeof *supervisor->jobs);
    for (uint32_t i = 0; supervisor->jobs && i < options->unit_count; i++) {
        struct supervisor_job *job = &supervisor->jobs[i];
        job->supervisor = supervisor;
        job->number = i + 1;
        job->state = JOB_GIVEN_UP;
        job->watch.rank_count = options->rank_counts[i];
        job->signs = calloc(job->watch.rank_count, sizeof *job->signs);
        job->watch.ranks = calloc(job->watch.rank_count, sizeof *job->watch.ranks);
        job->lost = calloc(job->watch.rank_count, sizeof *job->lost);
        if (!job->signs || !job->watch.ranks || !job->lost) return STATUS_NO_MEMORY;
    }
    return supervisor->jobs ? STATUS_OK : STATUS_NO_MEMORY;
}

enum status supervisor_open(const struct supervisor_options *options,
                            struct supervisor **supervisor_out, struct error *error) {
    struct supervisor *supervisor = calloc(1, sizeof *supervisor);
    if (!supervisor) return error_set(error, STATUS_NO_MEMORY, "no memory for the supervisor");
    supervisor->options = *options;
    for (uint32_t i = 0; i < options->unit_count; i++)
        supervisor->rank_count += options->rank_counts[i];
    supervisor->timeout =
        supervise_timeout(options->rank_timeout_ns, supervisor->rank_count, cpus());
    if (gethostname(supervisor->host, sizeof supervisor->host - 1)) supervisor->host[0] = 0;
    enum status status = private_room_open(NULL, &supervisor->room, error);
    supervisor->tick = evtimer_new(options->base, on_tick, supervisor);
    if (!status && (!supervisor->tick || open_jobs(supervisor)))
        status = error_set(error, STATUS_NO_MEMORY, "no memory for the supervisor");
    if (status)
        supervisor_close(supervisor);
    else
        *supervisor_out = supervisor;
    return status;
}

const char *supervisor_folder(const struct supervisor *supervisor) {
    return supervisor->room.path;
}

void supervisor_start(struct supervisor *supervisor) {
    for (uint32_t i = 0; i < supervisor->options.unit_count; i++)
        start(&supervisor->jobs[i]);
    event_add(supervisor->tick, &(struct timeval){.tv_usec = TICK_START_US});
}

static bool one_runs(struct supervisor *supervisor) {
    bool runs = false;
    for (uint32_t i = 0; i < supervisor->options.unit_count; i++) {
        struct supervisor_job *job = &supervisor->jobs[i];
        if (!job->launch) continue;
        rank_launch_tend(job->launch);
        runs |= !all_gone(job);
    }
    return runs;
}

static void wait_for_all(struct supervisor *supervisor, int64_t ns_max) {
    int64_t until_ns = clock_now_ns() + ns_max;
    while (one_runs(supervisor) && clock_now_ns() < until_ns)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
}

void supervisor_stop(struct supervisor *supervisor) {
    event_del(supervisor->tick);
    for (uint32_t i = 0; i < supervisor->options.unit_count; i++) {
        struct supervisor_job *job = &supervisor->jobs[i];
        if (!job->launch) continue;
        if (job->state == JOB_RUNS && job->ready) /* rank 0 lets the others go */
            rank_launch_signal(job->launch, 0, SIGTERM);
        else
            kill_all(job);
        enter(job, JOB_ENDS); /* from now on a rank's end is no news */
    }
    wait_for_all(supervisor, FINISH_NS_MAX);
}

void supervisor_close(struct supervisor *supervisor) {
    if (!supervisor) return;
    for (uint32_t i = 0; supervisor->jobs && i < supervisor->options.unit_count; i++)
        if (supervisor->jobs[i].launch) kill_all(&supervisor->jobs[i]);
    if (supervisor->jobs) wait_for_all(supervisor, END_NS_MAX);
    for (uint32_t i = 0; supervisor->jobs && i < supervisor->options.unit_count; i++) {
        struct supervisor_job *job = &supervisor->jobs[i];
        clean(job);
        free(job->signs);
        free(job->lost);
        free(job->watch.ranks);
    }
    if (supervisor->tick) event_free(supervisor->tick);
    private_room_close(&supervisor->room);
    free(supervisor->jobs);
    free(supervisor);
}
