/* SPDX-License-Identifier: Apache-2.0
 * A job that fails is killed rather than asked. It gets a moment first: before it is ready, it says
 * why and with which status it ends; later, ranks that end may have lost another one, which then is
 * told of.
 */
#include "host/process/supervisor.h"

#include "base/check.h"
#include "base/clock.h"
#include "host/process/log.h"
#include "host/process/private_room.h"
#include "host/process/rank_board.h"
#include "serving/policy/place_ranks.h"
#include "serving/policy/supervise.h"

#include <event2/event.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SUBJECT "supervisor"
#define TICK_START_US 20000 /* while a unit starts */
#define TICK_US 100000
#define LOOKS_A_TIMEOUT 8
#define LAST_WORDS_NS ((int64_t)50000000) /* of a job that fails before it is ready */
#define END_NS_MAX ((int64_t)5000000000)  /* for killed ranks to be gone in */
#define CHANGE_NS_MAX                                                                              \
    ((int64_t)10000000000) /* until a unit goes on when a rank died or came back */
#define FINISH_NS_MAX ((int64_t)15000000000) /* when asked to */

enum job_state {
    JOB_CHECKS, /* its hosts are looked at */
    JOB_RUNS,
    JOB_FAILS, /* a rank ended by itself: the others are given a moment */
    JOB_ENDS,  /* it was killed */
    JOB_PAUSES,
    JOB_GIVEN_UP
};

enum rank_state { RANK_LIVES, RANK_PAUSES, RANK_RETURNS, RANK_GIVEN_UP };

/* A rank, after its unit was ready. */
struct supervisor_rank {
    enum rank_state state;
    int64_t began_ns, state_ns; /* when this life, and this state, began */
    int64_t died_ns;            /* for the first time since it last lived */
    int64_t wait_ns;            /* RANK_PAUSES */
    struct supervise_history history;
};

struct supervisor_job {
    struct supervisor *supervisor;
    uint32_t number, starts;
    enum job_state state;
    struct unit_hosts *hosts;
    uint32_t host_count;
    struct unit_host *parts; /* [host_count] */
    bool has_role;           /* when it ran last: */
    enum unit_role role;
    bool has_status, is_refused;
    uint32_t ended_rank;           /* the first that ended, or the first that failed, and how: */
    int status;                    /* as waitpid says */
    struct supervisor_rank *ranks; /* [watch.rank_count] */
    int64_t change_ns; /* since when the unit has not said that it goes on with the ranks that live
                        * by now; 0: it has */
    bool ready;
    struct error why;           /* why it could not be started, if that is known */
    int64_t began_ns, state_ns; /* when this life, and this state, began */
    int64_t failed_ns;          /* when the last failure was seen; 0: it is over */
    int64_t wait_ns;            /* JOB_PAUSES */
    struct supervise_watch watch;
    struct supervise_history history;
};

struct supervisor {
    struct supervisor_options options;
    struct private_room room;
    struct event *tick;
    struct supervisor_job *jobs; /* [unit_count] */
    struct supervise_timeout timeout;
    int64_t looked_ns;
    char host[64];
};

static void enter(struct supervisor_job *job, enum job_state state) {
    job->state = state;
    job->state_ns = clock_now_ns();
}

uint32_t supervisor_job_of(const struct supervisor *supervisor, int64_t pid) {
    for (uint32_t i = 0; pid > 0 && i < supervisor->options.unit_count; i++) {
        const struct supervisor_job *job = &supervisor->jobs[i];
        const struct rank_line *lines = unit_hosts_lines(job->hosts);
        for (uint32_t rank = 0; rank < job->watch.rank_count; rank++)
            if (atomic_load(&lines[rank].pid) == pid) return job->number;
    }
    return 0;
}

/* ---- giving up, and ending ---- */

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

static void kill_all(struct supervisor_job *job) {
    unit_hosts_signal(job->hosts, AGENT_ALL_RANKS, SIGKILL);
    enter(job, JOB_ENDS);
}

/* One line has told what is wrong. */
static void fail(struct supervisor_job *job) {
    if (!job->failed_ns) job->failed_ns = clock_now_ns();
    kill_all(job);
}

/* "signal 9" */
static const char *how_it_ended(int status, char text[static 32]) {
    bool exited = WIFEXITED(status);
    snprintf(text, 32, "%s %d", exited ? "status" : "signal",
             exited ? WEXITSTATUS(status) : WTERMSIG(status));
    return text;
}

static void say_end(const struct supervisor_job *job, const struct supervise_next *next,
                    struct error *error) {
    char how[32] = "a lost host";
    if (job->has_status) how_it_ended(job->status, how);
    if (next->gives_up && job->why.text[0])
        error_write(error, "unit %u could not be started: %.400s", job->number, job->why.text);
    else if (next->gives_up)
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

static void start(struct supervisor_job *job);

static void over(struct supervisor_job *job) {
    struct error error = {""};
    bool by_itself = job->has_status && WIFEXITED(job->status) && WEXITSTATUS(job->status) <= 2;
    struct supervise_end end = {.was_ready = job->ready,
                                .refused = by_itself || job->is_refused,
                                .lived_ns = clock_now_ns() - job->began_ns};
    struct rank_board board = {(struct rank_line *)(uintptr_t)unit_hosts_lines(job->hosts),
                               job->watch.rank_count};
    if (!job->failed_ns) job->failed_ns = clock_now_ns();
    if (rank_board_read_role(&board, &job->role)) job->has_role = true;
    struct supervise_next next = supervise_ended(&job->history, &end);
    say_end(job, &next, &error);
    if (next.gives_up) {
        give_up(job, &error);
    } else if (next.wait_ns) {
        job->wait_ns = next.wait_ns;
        enter(job, JOB_PAUSES);
    } else {
        start(job);
    }
}

/* ---- starting ---- */

static void start(struct supervisor_job *job) {
    memset(job->watch.ranks, 0, job->watch.rank_count * sizeof *job->watch.ranks);
    job->watch.looked_ns = 0;
    job->ready = job->has_status = job->is_refused = false;
    memset(job->ranks, 0, job->watch.rank_count * sizeof *job->ranks);
    job->change_ns = 0;
    job->why.text[0] = 0;
    enter(job, JOB_CHECKS);
    job->began_ns = job->state_ns;
    unit_hosts_check(job->hosts);
}

static void on_checked(void *context, const struct error *lacks) {
    struct supervisor_job *job = context;
    struct error error;
    if (job->state != JOB_CHECKS) return;
    if (!lacks) {
        enter(job, JOB_RUNS);
        if (unit_hosts_launch(job->hosts, ++job->starts, &error) == STATUS_OK) return;
        lacks = &error;
    }
    job->why = *lacks;
    job->is_refused = true;
    kill_all(job); /* over at the next tick: this may have been called from start */
}

static const char **on_words(void *context, const struct unit_host_start *start) {
    const struct supervisor_job *job = context;
    const struct supervisor *supervisor = job->supervisor;
    const struct supervisor_unit unit = {.number = job->number,
                                         .start = start,
                                         .is_here = job->parts[start->host].is_here,
                                         .is_spread = job->host_count > 1,
                                         .has_role = job->has_role,
                                         .role = job->role};
    return supervisor->options.command(supervisor->options.context, &unit);
}

/* ---- what happens ---- */

/* The end of a unit that was ready, by the rank that ended it. */
static void say_loss(struct supervisor_job *job) {
    char how[32], text[RANK_BOARD_TEXT];
    rank_board_describe(&unit_hosts_lines(job->hosts)[job->ended_rank], text);
    if (job->watch.rank_count == 1 || WIFEXITED(job->status))
        log_say(LOG_ERROR, SUBJECT, "a unit ended, it starts again job=%u how=%s", job->number,
                how_it_ended(job->status, how));
    else
        log_say(LOG_ERROR, SUBJECT, "a rank died, its unit starts again job=%u rank=%u where=%s",
                job->number, job->ended_rank, text);
    fail(job);
}

/* A rank that died says more than those that ended because they lost it, and may be told later. */
static bool says_more(const struct supervisor_job *job, int status) {
    if (!job->has_status) return true;
    return job->status == 0 ? status != 0 : WIFEXITED(job->status) && WIFSIGNALED(status);
}

/* The others may go on without it: rank 0 says so, or ends. When it has, the rank comes back: at
 * once, or after ever longer pauses where it ends soon. */
static void lose(struct supervisor_job *job, uint32_t number, int status) {
    struct supervisor_rank *rank = &job->ranks[number];
    const int64_t now_ns = clock_now_ns();
    bool by_itself = WIFEXITED(status) && WEXITSTATUS(status) <= 2,
         lived = rank->state == RANK_LIVES;
    struct supervise_end end = {.was_ready = lived,
                                .refused = by_itself,
                                .lived_ns =
                                    now_ns - (rank->began_ns ? rank->began_ns : job->began_ns)};
    struct supervise_next next = supervise_ended(&rank->history, &end);
    char how[32];
    if (lived) rank->died_ns = now_ns;
    if (!job->change_ns) job->change_ns = now_ns;
    rank->state = next.gives_up ? RANK_GIVEN_UP : RANK_PAUSES;
    rank->state_ns = now_ns;
    rank->wait_ns = next.wait_ns;
    how_it_ended(status, how);
    if (next.gives_up)
        log_say(LOG_ERROR, SUBJECT,
                "a rank is given up, its unit goes on without it job=%u rank=%u how=%s",
                job->number, number, how);
    else if (!lived)
        log_say(
            LOG_WARNING, SUBJECT,
            "a rank ended before it was back, it starts again job=%u rank=%u how=%s wait_s=%.1f",
            job->number, number, how, (double)next.wait_ns * 1e-9);
}

static void on_ended(void *context, uint32_t rank, int status) {
    struct supervisor_job *job = context;
    if (job->state != JOB_RUNS && job->state != JOB_FAILS) return; /* it was killed */
    if (says_more(job, status)) {
        job->status = status;
        job->ended_rank = rank;
    }
    job->has_status = true;
    if (job->state == JOB_RUNS && job->ready && rank != 0)
        lose(job, rank, status);
    else if (job->ready && (WIFSIGNALED(status) || job->watch.rank_count == 1))
        say_loss(job);
    else if (job->state == JOB_RUNS)
        enter(job, JOB_FAILS);
}

static void on_lost(void *context, const char *host, const char *why) {
    struct supervisor_job *job = context;
    if (job->state == JOB_PAUSES || job->state == JOB_GIVEN_UP) return;
    log_say(LOG_ERROR, SUBJECT, "a host is lost, its unit starts again job=%u host=%s why=%s",
            job->number, host, why);
    error_write(&job->why, "host %s: %s", host, why);
    if (job->state != JOB_ENDS) fail(job);
}

/* ---- watching ---- */

/* Agents tell at once which processes they launched. */
static void on_launched(void *context) {
    const struct supervisor_job *job = context;
    int pid = (int)atomic_load(&unit_hosts_lines(job->hosts)[0].pid);
    if (job->host_count == 1)
        log_say(LOG_INFO, SUBJECT, "starts a unit job=%u pid=%d ranks=%u", job->number, pid,
                job->watch.rank_count);
    else
        log_say(LOG_INFO, SUBJECT, "starts a unit job=%u pid=%d ranks=%u hosts=%u", job->number,
                pid, job->watch.rank_count, job->host_count);
}

static void look_whether_ready(struct supervisor_job *job) {
    const struct rank_line *line = &unit_hosts_lines(job->hosts)[0];
    if (job->ready || atomic_load(&line->pulse.state) == PULSE_STARTS) return;
    int pid = (int)atomic_load(&line->pid);
    job->ready = true;
    if (job->failed_ns)
        log_say(LOG_INFO, SUBJECT, "a unit is there again job=%u pid=%d after_s=%.2f", job->number,
                pid, (double)(clock_now_ns() - job->failed_ns) * 1e-9);
    else
        log_say(LOG_INFO, SUBJECT, "a unit is ready job=%u pid=%d after_s=%.2f", job->number, pid,
                (double)(clock_now_ns() - job->began_ns) * 1e-9);
    job->failed_ns = 0;
}

/* A rank that stands still dies, upon which the others go on. Rank 0's end is that of the unit, and
 * so is a wait of all for one another. */
static void end_stuck(struct supervisor_job *job, const struct supervise_finding *finding) {
    char text[RANK_BOARD_TEXT];
    double silent = (double)finding->silent_ns * 1e-9;
    uint32_t rank = finding->rank;
    bool is_all = finding->verdict == SUPERVISE_DEADLOCK || rank == 0;
    rank_board_describe(&unit_hosts_lines(job->hosts)[rank], text);
    if (finding->verdict == SUPERVISE_DEADLOCK)
        log_say(LOG_ERROR, SUBJECT,
                "all ranks wait for one another, the unit starts again job=%u silent_s=%.1f",
                job->number, silent);
    else if (is_all)
        log_say(LOG_ERROR, SUBJECT,
                finding->verdict == SUPERVISE_FROZEN
                    ? "a rank was not run, its unit starts again job=%u rank=%u silent_s=%.1f "
                      "where=%s"
                    : "a rank computed nothing, its unit starts again job=%u rank=%u "
                      "silent_s=%.1f where=%s",
                job->number, rank, silent, text);
    else
        log_say(LOG_ERROR, SUBJECT,
                finding->verdict == SUPERVISE_FROZEN
                    ? "a rank was not run, it is killed job=%u rank=%u silent_s=%.1f where=%s"
                    : "a rank computed nothing, it is killed job=%u rank=%u silent_s=%.1f where=%s",
                job->number, rank, silent, text);
    if (is_all) {
        fail(job);
        return;
    }
    job->watch.ranks[rank] = (struct supervise_rank){.seen = false};
    unit_hosts_signal(job->hosts, rank, SIGKILL);
}

/* An agent that is not heard is told of before ranks whose signs it does not bring. */
static void look_for_stuck(struct supervisor_job *job) {
    struct supervisor *supervisor = job->supervisor;
    if (!unit_hosts_heard(job->hosts, supervisor->timeout.wall_ns / 2)) return;
    struct supervise_finding finding = supervise_look(&job->watch, unit_hosts_signs(job->hosts),
                                                      supervisor->timeout, clock_now_ns());
    if (finding.verdict != SUPERVISE_FINE) end_stuck(job, &finding);
}

/* Rank 0 that fails lets the others go, which takes a while; another rank leaves them waiting. */
static int64_t moment_ns(const struct supervisor_job *job) {
    bool waits = !job->ready && (job->status == 0 || job->ended_rank == 0);
    return waits ? END_NS_MAX : LAST_WORDS_NS;
}

/* ---- ranks that come back ---- */

/* All go on together. */
static void count_in(struct supervisor_job *job, uint32_t number, int64_t now_ns) {
    struct supervisor_rank *rank = &job->ranks[number];
    rank->state = RANK_LIVES;
    job->watch.ranks[number] = (struct supervise_rank){.seen = false};
    unit_hosts_count_in(job->hosts, number);
    log_say(LOG_INFO, SUBJECT, "a rank is there again job=%u rank=%u pid=%" PRId64 " after_s=%.2f",
            job->number, number, (int64_t)atomic_load(&unit_hosts_lines(job->hosts)[number].pid),
            (double)(now_ns - rank->died_ns) * 1e-9);
}

static void look_after_rank(struct supervisor_job *job, uint32_t number, int64_t now_ns) {
    struct supervisor_rank *rank = &job->ranks[number];
    if (rank->state == RANK_RETURNS && unit_hosts_has(job->hosts, number)) {
        count_in(job, number, now_ns);
    } else if (rank->state == RANK_PAUSES && now_ns - rank->state_ns >= rank->wait_ns) {
        rank->state = RANK_RETURNS;
        rank->began_ns = rank->state_ns = now_ns;
        unit_hosts_again(job->hosts, number);
    }
}

/* While the unit has not said that it goes on with those who live, nobody is sent after them. */
static void look_after_ranks(struct supervisor_job *job, int64_t now_ns) {
    uint32_t epoch = atomic_load(&unit_hosts_lines(job->hosts)[0].epoch);
    if (epoch != unit_hosts_epoch(job->hosts)) {
        if (!job->change_ns) job->change_ns = now_ns;
        if (now_ns - job->change_ns > CHANGE_NS_MAX) say_loss(job);
        return;
    }
    if (job->change_ns) job->has_status = false; /* the next end has a cause of its own */
    job->change_ns = 0;
    for (uint32_t rank = 1; rank < job->watch.rank_count; rank++)
        look_after_rank(job, rank, now_ns);
}

static void tick_job(struct supervisor_job *job, bool looks) {
    int64_t now_ns = clock_now_ns();
    unit_hosts_tick(job->hosts, now_ns);
    switch (job->state) {
    case JOB_CHECKS:
    case JOB_GIVEN_UP:
        break;
    case JOB_RUNS:
        look_whether_ready(job);
        if (job->ready) look_after_ranks(job, now_ns);
        if (job->state == JOB_RUNS && looks && job->ready && job->supervisor->timeout.wall_ns)
            look_for_stuck(job);
        break;
    case JOB_FAILS:
        if (unit_hosts_left(job->hosts) && now_ns - job->state_ns <= moment_ns(job)) break;
        if (job->ready)
            say_loss(job);
        else
            kill_all(job);
        break;
    case JOB_ENDS:
        if (unit_hosts_left(job->hosts) && now_ns - job->state_ns > END_NS_MAX) {
            log_say(LOG_WARNING, SUBJECT,
                    "a killed rank does not go away, its unit starts without it job=%u",
                    job->number);
            unit_hosts_lose_left(job->hosts);
        }
        if (!unit_hosts_left(job->hosts)) over(job);
        break;
    case JOB_PAUSES:
        if (now_ns - job->state_ns >= job->wait_ns) start(job);
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

static bool is_here(const struct supervisor *supervisor, const char *name) {
    size_t own = strcspn(supervisor->host, ".");
    return strcmp(name, "localhost") == 0 || strcmp(name, supervisor->host) == 0 ||
           (own && strlen(name) == own && strncmp(name, supervisor->host, own) == 0);
}

/* Hosts of all units: how many slots each has left. */
struct slots {
    uint32_t left[HOST_LIST_MAX], used[HOST_LIST_MAX];
    uint32_t count;
    struct place_part parts[HOST_LIST_MAX];
};

static enum status place_job(struct supervisor_job *job, struct slots *slots, struct error *error) {
    const struct supervisor *supervisor = job->supervisor;
    const struct host_list *list = supervisor->options.hosts;
    job->host_count = place_ranks(slots->left, slots->count, job->watch.rank_count, slots->parts);
    if (!job->host_count)
        return error_set(error, STATUS_INVALID,
                         "the hosts have too few slots for the %u ranks of unit %u",
                         job->watch.rank_count, job->number);
    job->parts = calloc(job->host_count, sizeof *job->parts);
    if (!job->parts) return error_set(error, STATUS_NO_MEMORY, "no memory for the supervisor");
    for (uint32_t i = 0; i < job->host_count; i++) {
        const struct place_part *part = &slots->parts[i];
        const char *name = list ? list->names[part->host] : supervisor->host;
        job->parts[i] = (struct unit_host){.name = name,
                                           .is_here = !list || is_here(supervisor, name),
                                           .first = part->first,
                                           .count = part->count};
        slots->used[part->host] += part->count;
    }
    return STATUS_OK;
}

static enum status open_hosts(struct supervisor_job *job, uint64_t token, struct error *error) {
    const struct supervisor *supervisor = job->supervisor;
    char name[sizeof supervisor->options.check.unit];
    snprintf(name, sizeof name, "%016" PRIx64 "-%u", token, job->number);
    struct unit_hosts_options options = {.base = supervisor->options.base,
                                         .name = name,
                                         .hosts = job->parts,
                                         .host_count = job->host_count,
                                         .rank_count = job->watch.rank_count,
                                         .remote_shell = supervisor->options.remote_shell,
                                         .agent_options = supervisor->options.agent_options,
                                         .check = supervisor->options.check,
                                         .timeout_ns = supervisor->timeout.wall_ns,
                                         .context = job,
                                         .checked = on_checked,
                                         .words = on_words,
                                         .launched = on_launched,
                                         .ended = on_ended,
                                         .lost = on_lost};
    return unit_hosts_open(&options, &job->hosts, error);
}

/* Ranks of all units on a host make each other slower. */
static uint32_t sharing(const struct supervisor *supervisor, const struct slots *slots,
                        const char *host) {
    const struct host_list *list = supervisor->options.hosts;
    uint32_t at = 0;
    while (list && strcmp(list->names[at], host) != 0)
        at++;
    return slots->used[at];
}

/* Hosts are taken to have as many CPUs as this one. */
static struct supervise_timeout timeout(const struct supervisor *supervisor,
                                        const struct slots *slots) {
    uint32_t most = 0;
    for (uint32_t i = 0; i < slots->count; i++)
        if (slots->used[i] > most) most = slots->used[i];
    return supervise_timeout(supervisor->options.rank_timeout_ns, most, cpus());
}

static enum status open_jobs(struct supervisor *supervisor, struct error *error) {
    const struct supervisor_options *options = &supervisor->options;
    struct slots *slots = calloc(1, sizeof *slots);
    enum status status = STATUS_OK;
    uint64_t token = 0;
    supervisor->jobs = calloc(options->unit_count, sizeof *supervisor->jobs);
    check(getrandom(&token, sizeof token, 0) == sizeof token);
    if (!slots || !supervisor->jobs)
        status = error_set(error, STATUS_NO_MEMORY, "no memory for the supervisor");
    if (!status) {
        slots->count = options->hosts ? options->hosts->count : 1;
        slots->left[0] = UINT32_MAX;
        if (options->hosts)
            memcpy(slots->left, options->hosts->slots, slots->count * sizeof *slots->left);
    }
    for (uint32_t i = 0; !status && i < options->unit_count; i++) {
        struct supervisor_job *job = &supervisor->jobs[i];
        job->supervisor = supervisor;
        job->number = i + 1;
        job->watch.rank_count = options->rank_counts[i];
        job->state = JOB_GIVEN_UP;
        job->watch.ranks = calloc(job->watch.rank_count, sizeof *job->watch.ranks);
        job->ranks = calloc(job->watch.rank_count, sizeof *job->ranks);
        status = job->watch.ranks && job->ranks
                     ? place_job(job, slots, error)
                     : error_set(error, STATUS_NO_MEMORY, "no memory for the supervisor");
    }
    if (!status) supervisor->timeout = timeout(supervisor, slots);
    for (uint32_t i = 0; !status && i < options->unit_count; i++) {
        struct supervisor_job *job = &supervisor->jobs[i];
        for (uint32_t part = 0; part < job->host_count; part++)
            job->parts[part].sharing = sharing(supervisor, slots, job->parts[part].name);
        status = open_hosts(job, token, error);
    }
    free(slots);
    return status;
}

enum status supervisor_open(const struct supervisor_options *options,
                            struct supervisor **supervisor_out, struct error *error) {
    struct supervisor *supervisor = calloc(1, sizeof *supervisor);
    if (!supervisor) return error_set(error, STATUS_NO_MEMORY, "no memory for the supervisor");
    supervisor->options = *options;
    if (gethostname(supervisor->host, sizeof supervisor->host - 1)) supervisor->host[0] = 0;
    enum status status = private_room_open(NULL, &supervisor->room, error);
    supervisor->tick = evtimer_new(options->base, on_tick, supervisor);
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
    for (uint32_t i = 0; i < supervisor->options.unit_count; i++)
        start(&supervisor->jobs[i]);
    event_add(supervisor->tick, &(struct timeval){.tv_usec = TICK_START_US});
}

static bool one_runs(struct supervisor *supervisor) {
    bool runs = false;
    for (uint32_t i = 0; i < supervisor->options.unit_count; i++) {
        unit_hosts_tick(supervisor->jobs[i].hosts, clock_now_ns());
        unit_hosts_tend(supervisor->jobs[i].hosts);
        runs |= unit_hosts_left(supervisor->jobs[i].hosts) != 0;
    }
    return runs;
}

void supervisor_stop(struct supervisor *supervisor) {
    int64_t until_ns = clock_now_ns() + FINISH_NS_MAX;
    event_del(supervisor->tick);
    for (uint32_t i = 0; i < supervisor->options.unit_count; i++) {
        struct supervisor_job *job = &supervisor->jobs[i];
        if (job->state == JOB_RUNS && job->ready) /* rank 0 says when it is over */
            unit_hosts_signal(job->hosts, 0, SIGTERM);
        else
            unit_hosts_signal(job->hosts, AGENT_ALL_RANKS, SIGKILL);
        job->state = JOB_GIVEN_UP; /* its end is no failure */
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
        free(job->watch.ranks);
        free(job->ranks);
    }
    if (supervisor->tick) event_free(supervisor->tick);
    private_room_close(&supervisor->room);
    free(supervisor->jobs);
    free(supervisor);
}
