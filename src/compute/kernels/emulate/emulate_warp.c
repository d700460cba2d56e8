/* SPDX-License-Identifier: Apache-2.0
 * What threads do together: the block's barriers, the warp's barrier, shuffles and votes. Barriers
 * order memory; shuffles and votes do not. Who must act together must come from one place.
 */
#include "compute/kernels/emulate/emulate_block.h"

#include <string.h>

struct meeting {
    const char *what, *file;
    int line;
    uint32_t arrived, first_thread;
};

#define NAMED_BARRIERS 16

struct named_barrier {
    uint32_t threads; /* expected; 0: none is here */
    uint32_t arrived;
    uint32_t thread[EMULATE_THREADS_MAX];
};

static struct meeting warps[EMULATE_THREADS_MAX / WARP];
static struct meeting warpgroups[EMULATE_THREADS_MAX / WARPGROUP];
static struct named_barrier barriers[NAMED_BARRIERS];
static uint32_t values[EMULATE_THREADS_MAX], sources[EMULATE_THREADS_MAX];
static uint32_t results[EMULATE_THREADS_MAX];

void emulate_warp_begin_block(void) {
    memset(warps, 0, sizeof warps);
    memset(warpgroups, 0, sizeof warpgroups);
    for (uint32_t i = 0; i < NAMED_BARRIERS; i++)
        barriers[i].threads = barriers[i].arrived = 0;
}

static struct meeting *meeting_of(uint32_t size) {
    uint32_t thread = emulate_block_now.thread;
    return size == WARP ? &warps[thread / WARP] : &warpgroups[thread / WARPGROUP];
}

bool emulate_warp_meet(uint32_t size, const char *what, const char *file, int line) {
    struct meeting *meeting = meeting_of(size);
    if (!meeting->arrived) {
        *meeting = (struct meeting){what, file, line, 0, emulate_block_now.thread};
    } else if (strcmp(meeting->what, what) || meeting->line != line ||
               strcmp(meeting->file, file)) {
        emulate_run_found(EMULATE_DIVERGENCE, file, line,
                          "comes to %s, while thread %u of its group is at %s, line %d", what,
                          meeting->first_thread, meeting->what, meeting->line);
    }
    if (++meeting->arrived == size) return true;
    emulate_run_sleep(what, file, line);
    return false;
}

void emulate_warp_part(uint32_t size) {
    meeting_of(size)->arrived = 0;
    uint32_t first = emulate_block_now.thread / size * size;
    for (uint32_t i = first; i < first + size; i++)
        if (i != emulate_block_now.thread) emulate_run_wake(i);
}

/* All of them know what each knew. */
static void share_knowledge(const uint32_t *threads, uint32_t first, uint32_t count) {
    struct fiber *fibers = emulate_block_now.fibers;
    struct emulate_clock *all = emulate_clock_new();
    for (uint32_t i = 0; i < count; i++)
        emulate_clock_learn(&all, fibers[threads ? threads[i] : first + i].known);
    emulate_clock_own(&all, emulate_block_now.launch.threads);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t thread = threads ? threads[i] : first + i;
        all->at[thread] = fibers[thread].now++;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct fiber *fiber = &fibers[threads ? threads[i] : first + i];
        emulate_clock_drop(fiber->known);
        fiber->known = emulate_clock_hold(all);
    }
    emulate_clock_drop(all);
}

void emulate_warp_barrier(const char *file, int line) {
    if (!emulate_warp_meet(WARP, "__syncwarp", file, line)) return;
    share_knowledge(NULL, emulate_block_now.thread / WARP * WARP, WARP);
    emulate_warp_part(WARP);
}

void emulate_block_barrier(uint32_t id, uint32_t threads, const char *file, int line) {
    struct named_barrier *barrier = &barriers[id % NAMED_BARRIERS];
    if (!threads) threads = emulate_block_now.launch.threads;
    if (id >= NAMED_BARRIERS || threads % WARP)
        emulate_run_found(EMULATE_BARRIER, file, line, "barrier %u of %u threads", id, threads);
    if (barrier->arrived && barrier->threads != threads)
        emulate_run_found(EMULATE_BARRIER, file, line,
                          "barrier %u: expects %u threads, while thread %u expects %u", id, threads,
                          barrier->thread[0], barrier->threads);
    for (uint32_t i = 0; i < barrier->arrived; i++)
        if (barrier->thread[i] == emulate_block_now.thread)
            emulate_run_found(EMULATE_BARRIER, file, line, "barrier %u: comes twice", id);
    barrier->threads = threads;
    barrier->thread[barrier->arrived++] = emulate_block_now.thread;
    if (barrier->arrived < threads) {
        emulate_run_sleep(id ? "a named barrier" : "__syncthreads", file, line);
        return;
    }
    share_knowledge(barrier->thread, 0, threads);
    barrier->arrived = 0;
    for (uint32_t i = 0; i + 1 < threads; i++)
        emulate_run_wake(barrier->thread[i]);
}

uint32_t emulate_shuffle(uint32_t value, uint32_t from_lane, const char *file, int line) {
    uint32_t thread = emulate_block_now.thread, first = thread / WARP * WARP;
    values[thread] = value;
    sources[thread] = from_lane;
    if (emulate_warp_meet(WARP, "a shuffle", file, line)) {
        for (uint32_t i = first; i < first + WARP; i++)
            results[i] = values[first + sources[i] % WARP];
        emulate_warp_part(WARP);
    }
    return results[thread];
}

uint32_t emulate_vote(bool value, const char *file, int line) {
    uint32_t thread = emulate_block_now.thread, first = thread / WARP * WARP;
    values[thread] = value;
    if (emulate_warp_meet(WARP, "a vote", file, line)) {
        uint32_t mask = 0;
        for (uint32_t i = 0; i < WARP; i++)
            mask |= values[first + i] << i;
        for (uint32_t i = first; i < first + WARP; i++)
            results[i] = mask;
        emulate_warp_part(WARP);
    }
    return results[thread];
}

void emulate_set_registers(uint32_t count, bool more, const char *file, int line) {
    if (count % 8 || count < 24 || count > 240)
        emulate_run_found(EMULATE_REGISTERS, file, line, "setmaxnreg of %u: 24, 32, ... 240",
                          count);
    if (emulate_warp_meet(WARPGROUP, more ? "setmaxnreg.inc" : "setmaxnreg.dec", file, line))
        emulate_warp_part(WARPGROUP);
}
