/* SPDX-License-Identifier: Apache-2.0
 * The thread team. Members spin for a short while after a loop (the next one follows within
 * microseconds inside a forward pass), then sleep on a condition until the caller opens the next
 * loop.
 *
 * One 64-bit word holds the loop's generation, whether it is open, and how many members are inside.
 * A member enters only while the loop is open; the caller closes it when the shares are gone and
 * waits for those inside. So a member that is slow to wake never holds a loop up, and the loop's
 * fields never change under a member's eyes.
 *
 * On a busy machine another process takes a thread's CPU in the middle of a share, for
 * milliseconds, while the rest of the team waits on other CPUs. So a thread that waits looks
 * whether those inside run, which their clocks show. It trades places with one that does not: each
 * moves to the other's CPU.
 */
#include "compute/kernels/team.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/cpus.h"
#include "base/heartbeat.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define cpu_relax() _mm_pause()
#else
#define cpu_relax() ((void)0)
#endif

#define TEAM_THREADS_MAX 1024
#define SPIN_NS 50000   /* about the longest gap between two loops of one step */
#define SPINS_A_LOOK 64 /* pauses between two looks at the clock */
#define SHARES_AHEAD 2  /* that each member finds left when it takes one of a loop that tapers */

#define PATIENCE_NS 20000 /* of a thread that waits for a share of another one */
#define TRADE_NS 200000   /* between two trades of a thread */

#define STATE_OPEN ((uint64_t)1 << 63)
#define STATE_GENERATION_UNIT ((uint64_t)1 << 32)
#define STATE_INSIDE 0xFFFFFFFFu

struct member {
    _Alignas(64) _Atomic int cpu; /* where it entered the loop; OUTSIDE: it is in none */
    _Atomic pid_t id;             /* of the thread; this and the clock are set before it enters */
    _Atomic clockid_t clock;      /* of the time that it had a CPU */
    struct team *team;
    uint32_t index;
    pthread_t thread;
};

#define OUTSIDE (-1)

/* How long a thread waits before it looks at the others. */
struct patience {
    int64_t look_ns; /* when it looks next at who is inside */
    int64_t step_ns;
};

struct team {
    _Alignas(64) _Atomic uint64_t state; /* open : 1, generation : 31, members inside : 32 */
    _Alignas(64) _Atomic uint32_t next;  /* first item that no thread has taken */
    _Alignas(64) _Atomic uint32_t sleepers;
    _Atomic bool stop;
    team_work *work;
    void *context;
    uint32_t count, grain;
    bool tapers; /* shares are large at first and small at the end */
    uint32_t threads;
    bool
        spins; /* false when there are more threads than CPUs: a spinning one would be in the way */
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    struct member *members; /* [threads]; 0: the caller */
};

static void name_thread(struct member *member) {
    static _Thread_local pid_t id;
    if (!id) id = gettid();
    if (member->id == id) return;
    clockid_t clock;
    member->id = id;
    member->clock = pthread_getcpuclockid(pthread_self(), &clock) ? CLOCK_MONOTONIC : clock;
}

static struct patience patience_from(int64_t now_ns) {
    return (struct patience){now_ns + PATIENCE_NS, PATIENCE_NS};
}

/* Takes the next share: a grain, or of items of one length so many grains that each member could
 * have SHARES_AHEAD such shares of what is left. 0: nothing is left. */
static uint32_t take_share(struct team *team, uint32_t *first_out) {
    uint32_t grain = team->grain, first = atomic_load_explicit(&team->next, memory_order_relaxed);
    for (;;) {
        uint32_t left = team->count - first;
        uint32_t grains = team->tapers ? left / (team->threads * SHARES_AHEAD) / grain : 1;
        uint32_t share = grains ? grains * grain : grain;
        if (share > left) share = left;
        *first_out = first;
        if (!share ||
            atomic_compare_exchange_weak_explicit(&team->next, &first, first + share,
                                                  memory_order_relaxed, memory_order_relaxed))
            return share;
    }
}

static void take_shares(struct team *team, uint32_t member) {
    uint32_t first, share;
    while ((share = take_share(team, &first)) != 0) {
        team->work(team->context, first, share, member);
        if (member == 0) heartbeat_tile();
    }
}

/* The same where others may wait for this thread. */
static void take_shares_watched(struct team *team, struct member *member) {
    atomic_store(&member->cpu, sched_getcpu());
    take_shares(team, member->index);
    atomic_store(&member->cpu, OUTSIDE);
}

/* Whether a thread has a CPU now: its clock runs. */
static bool is_running(clockid_t clock) {
    struct timespec before, after;
    if (clock_gettime(clock, &before) != 0) return true;
    for (int i = 0; i < SPINS_A_LOOK; i++)
        cpu_relax();
    return clock_gettime(clock, &after) != 0 || after.tv_nsec != before.tv_nsec ||
           after.tv_sec != before.tv_sec;
}

/* Looks after a member, or the caller, that is inside a loop and has lost its CPU: gives it this
 * thread's CPU and takes its place. Looks at one that runs become rarer. */
static void trade_places(struct team *team, const struct member *self, struct patience *patience) {
    int64_t now_ns = clock_now_ns();
    if (now_ns < patience->look_ns) return;
    patience->step_ns *= 2;
    for (uint32_t i = 0; i < team->threads; i++) {
        struct member *other = &team->members[i];
        int there = atomic_load(&other->cpu);
        if (other == self || there == OUTSIDE || is_running(other->clock)) continue;
        int here = sched_getcpu();
        if (cpus_trade(other->id, there))
            atomic_compare_exchange_strong(&other->cpu, &there, here);
        else
            sched_yield();
        patience->step_ns = TRADE_NS;
        break;
    }
    patience->look_ns = clock_now_ns() + patience->step_ns;
}

/* True once a loop newer than `seen` is open, or the team stops. */
static bool something_new(struct team *team, uint64_t seen) {
    uint64_t state = atomic_load(&team->state);
    return ((state & STATE_OPEN) && (state & ~(uint64_t)STATE_INSIDE) != seen) ||
           atomic_load(&team->stop);
}

static void wait_for_loop(struct team *team, struct member *self, uint64_t seen) {
    if (team->spins) {
        int64_t until_ns = clock_now_ns() + SPIN_NS;
        struct patience patience = patience_from(until_ns - SPIN_NS);
        for (;;) {
            for (int i = 0; i < SPINS_A_LOOK; i++) {
                if (something_new(team, seen)) return;
                cpu_relax();
            }
            if (atomic_load(&team->members[0].cpu) != OUTSIDE) {
                trade_places(team, self, &patience);
                until_ns = clock_now_ns() + SPIN_NS;
            } else if (clock_now_ns() > until_ns)
                break;
        }
    }
    pthread_mutex_lock(&team->mutex);
    atomic_fetch_add(&team->sleepers, 1);
    while (!something_new(team, seen))
        pthread_cond_wait(&team->wake, &team->mutex);
    atomic_fetch_sub(&team->sleepers, 1);
    pthread_mutex_unlock(&team->mutex);
}

static void *member_main(void *argument) {
    struct member *self = argument;
    struct team *team = self->team;
    uint64_t seen = 0;
    name_thread(self);
    for (;;) {
        wait_for_loop(team, self, seen);
        if (atomic_load(&team->stop)) return NULL;
        uint64_t state = atomic_load(&team->state);
        if (!(state & STATE_OPEN)) continue;
        if (!atomic_compare_exchange_strong(&team->state, &state, state + 1)) continue;
        seen = state & ~(uint64_t)STATE_INSIDE;
        take_shares_watched(team, self);
        atomic_fetch_sub(&team->state, 1);
    }
}

static void run_loop(struct team *team, team_work *work, void *context, uint32_t count,
                     uint32_t grain, bool tapers) {
    check(grain > 0);
    team->work = work;
    team->context = context;
    team->count = count;
    team->grain = grain;
    team->tapers = tapers;
    atomic_store_explicit(&team->next, 0, memory_order_relaxed);
    if (team->threads == 1 || count <= grain) {
        take_shares(team, 0);
        return;
    }
    name_thread(&team->members[0]);
    uint64_t generation = atomic_load(&team->state) + STATE_GENERATION_UNIT;
    atomic_store(&team->state, generation | STATE_OPEN);
    if (atomic_load(&team->sleepers) > 0) {
        pthread_mutex_lock(&team->mutex);
        pthread_cond_broadcast(&team->wake);
        pthread_mutex_unlock(&team->mutex);
    }
    take_shares_watched(team, &team->members[0]);
    atomic_fetch_and(&team->state, ~STATE_OPEN);
    struct patience patience = patience_from(clock_now_ns());
    for (uint32_t spin = 1; atomic_load(&team->state) & STATE_INSIDE; spin++) {
        if (!team->spins)
            sched_yield();
        else if (spin % SPINS_A_LOOK)
            cpu_relax();
        else
            trade_places(team, &team->members[0], &patience);
    }
}

void team_run(struct team *team, team_work *work, void *context, uint32_t count, uint32_t grain) {
    run_loop(team, work, context, count, grain, false);
}

void team_run_even(struct team *team, team_work *work, void *context, uint32_t count,
                   uint32_t grain) {
    run_loop(team, work, context, count, grain, true);
}

static void stop_members(struct team *team, uint32_t started) {
    pthread_mutex_lock(&team->mutex);
    atomic_store(&team->stop, true);
    pthread_cond_broadcast(&team->wake);
    pthread_mutex_unlock(&team->mutex);
    for (uint32_t i = 1; i < started; i++)
        pthread_join(team->members[i].thread, NULL);
    pthread_cond_destroy(&team->wake);
    pthread_mutex_destroy(&team->mutex);
    free(team->members);
    free(team);
}

enum status team_open(uint32_t threads, struct team **team_out, struct error *error) {
    uint32_t cpus = cpus_usable();
    if (threads == 0) threads = cpus < TEAM_THREADS_MAX ? cpus : TEAM_THREADS_MAX;
    if (threads > TEAM_THREADS_MAX)
        return error_set(error, STATUS_TOO_LARGE, "%u threads are more than the limit of %d",
                         threads, TEAM_THREADS_MAX);
    struct team *team = aligned_alloc(64, sizeof *team);
    if (!team) return error_set(error, STATUS_NO_MEMORY, "no memory for a team of threads");
    memset(team, 0, sizeof *team);
    team->threads = threads;
    team->spins = threads <= cpus;
    size_t bytes = threads * sizeof *team->members;
    team->members = aligned_alloc(64, bytes);
    if (team->members) memset(team->members, 0, bytes);
    pthread_mutex_init(&team->mutex, NULL);
    pthread_cond_init(&team->wake, NULL);
    uint32_t started = 0;
    for (; team->members && started < threads; started++) {
        struct member *member = &team->members[started];
        *member = (struct member){.cpu = OUTSIDE, .team = team, .index = started};
        if (started && pthread_create(&member->thread, NULL, member_main, member) != 0) break;
    }
    if (!team->members || started < threads) {
        stop_members(team, started);
        return error_set(
            error, STATUS_NO_MEMORY,
            "could only start %u of %u threads: lower --threads or raise the process limit",
            started, threads);
    }
    *team_out = team;
    return STATUS_OK;
}

void team_close(struct team *team) {
    if (team) stop_members(team, team->threads);
}

uint32_t team_threads(const struct team *team) {
    return team->threads;
}
