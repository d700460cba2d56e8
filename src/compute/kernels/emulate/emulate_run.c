/* SPDX-License-Identifier: Apache-2.0
 * Runs a block's threads as fibers, each on a stack of its own. A fiber that waits switches
 * directly to another, which the random generator chooses among those that are ready.
 */
#undef _FORTIFY_SOURCE /* its longjmp refuses to go to another stack */
#include "compute/kernels/emulate/emulate_block.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "base/check.h"

#define STACK_BYTES (128u << 10)

enum host_return { HOST_STARTS, HOST_ALL_ENDED, HOST_NONE_RUNS, HOST_FOUND };

struct block emulate_block_now;

static struct fiber fibers[EMULATE_THREADS_MAX];
static char *stacks; /* [EMULATE_THREADS_MAX][STACK_BYTES] */
static uint32_t ready[EMULATE_THREADS_MAX], ready_count, ended_count;
static bool running;
static jmp_buf host;
static uint64_t random_state = 1;
static struct emulate_report *collected;

void emulate_seed(uint64_t seed) {
    random_state = seed * 0x9E3779B97F4A7C15u + 0x5DEECE66Du;
    if (!random_state) random_state = 1;
}

void emulate_collect(struct emulate_report *report) {
    collected = report;
}

uint32_t emulate_run_random(uint32_t below) {
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return (uint32_t)((random_state * 0x2545F4914F6CDD1Du >> 32) * below >> 32);
}

bool emulate_run_running(void) {
    return running;
}

struct fiber *emulate_run_self(void) {
    return &fibers[emulate_block_now.thread];
}

bool emulate_run_on_stack(uintptr_t address, uintptr_t *offset_out) {
    uintptr_t first = (uintptr_t)stacks + (size_t)emulate_block_now.thread * STACK_BYTES;
    *offset_out = address - first;
    return address >= first && address < first + STACK_BYTES;
}

static void fiber_main(void) {
    emulate_block_now.launch.run(emulate_block_now.closure);
    struct fiber *self = emulate_run_self();
    self->ended = true;
    ended_count++;
    emulate_run_sleep("nothing: it has ended", NULL, 0);
}

static _Noreturn void resume(uint32_t thread) {
    emulate_block_now.thread = thread;
    struct fiber *fiber = &fibers[thread];
    fiber->waits_for = NULL;
    if (fiber->started) _longjmp(fiber->context, 1);
    fiber->started = true;
    ucontext_t start;
    getcontext(&start);
    start.uc_stack.ss_sp = stacks + (size_t)thread * STACK_BYTES;
    start.uc_stack.ss_size = STACK_BYTES;
    start.uc_link = NULL;
    makecontext(&start, fiber_main, 0);
    setcontext(&start);
    abort();
}

/* The thread that goes on, or none. */
static bool draw_next(uint32_t *thread_out) {
    if (ended_count == emulate_block_now.launch.threads) return false;
    while (emulate_block_now.advance(ready_count == 0) && ready_count == 0) {
    }
    if (!ready_count) return false;
    uint32_t drawn = emulate_run_random(ready_count);
    *thread_out = ready[drawn];
    ready[drawn] = ready[--ready_count];
    return true;
}

static void emulate_run_hand_over(void) {
    uint32_t next;
    if (!draw_next(&next))
        _longjmp(host,
                 ended_count == emulate_block_now.launch.threads ? HOST_ALL_ENDED : HOST_NONE_RUNS);
    if (next == emulate_block_now.thread)
        emulate_run_self()->waits_for = NULL;
    else if (!_setjmp(emulate_run_self()->context))
        resume(next);
}

void emulate_run_sleep(const char *what, const char *file, int line) {
    struct fiber *self = emulate_run_self();
    self->waits_for = what;
    self->file = file;
    self->line = line;
    emulate_run_hand_over();
}

void emulate_run_wake(uint32_t thread) {
    ready[ready_count++] = thread;
}

void emulate_run_rest(void) {
    if (!ready_count || emulate_run_random(4)) return;
    emulate_run_wake(emulate_block_now.thread);
    emulate_run_hand_over();
}

bool emulate_run_knows(uint32_t epoch) {
    uint32_t index = clock_index(epoch), time = clock_time(epoch);
    if (index == emulate_block_now.thread) return true;
    const struct emulate_clock *known = emulate_run_self()->known;
    return index < known->count && time <= known->at[index];
}

bool emulate_run_knows_fenced(uint32_t epoch) {
    uint32_t index = clock_index(epoch), time = clock_time(epoch);
    if (index >= EMULATE_THREADS_MAX) return true; /* was asynchronous itself */
    const struct fiber *writer = &fibers[index];
    for (uint32_t i = 0; i < FENCES_KEPT && i < writer->fence_count; i++)
        if (time <= writer->fences[i] && emulate_run_knows(clock_epoch(index, writer->fences[i])))
            return true;
    return false;
}

uint32_t emulate_run_epoch(void) {
    return clock_epoch(emulate_block_now.thread, emulate_run_self()->now);
}

static void begin_time(struct fiber *fiber) {
    check(++fiber->now < CLOCK_TIME_MAX);
}

void emulate_run_report(struct emulate_clock **clock) {
    struct fiber *self = emulate_run_self();
    emulate_clock_learn(clock, self->known);
    emulate_clock_note(clock, emulate_block_now.thread, self->now);
    begin_time(self);
}

void emulate_run_learn(struct emulate_clock *clock) {
    emulate_clock_learn(&emulate_run_self()->known, clock);
}

void emulate_fence_proxy(void) {
    struct fiber *self = emulate_run_self();
    self->fences[self->fence_count++ % FENCES_KEPT] = self->now;
    begin_time(self);
}

uint32_t emulate_thread(void) {
    return emulate_block_now.thread;
}
uint32_t emulate_block(void) {
    return emulate_block_now.x;
}
uint32_t emulate_block_y(void) {
    return emulate_block_now.y;
}
uint32_t emulate_grid(void) {
    return emulate_block_now.launch.grid_x;
}

/* ---- reports ---- */

const char *emulate_check_name(enum emulate_check check) {
    static const char *const names[] = {"race",      "bounds",     "alignment", "unset",
                                        "pending",   "proxy",      "barrier",   "divergence",
                                        "registers", "descriptor", "deadlock",  "left"};
    return names[check];
}

static void report_fill(struct emulate_report *report, enum emulate_check check, const char *file,
                        int line, const char *format, va_list arguments) {
    const struct block *block = &emulate_block_now;
    report->made = true;
    report->check = check;
    const char *slash = file ? strrchr(file, '/') : NULL;
    char place[80] = "";
    if (file) snprintf(place, sizeof place, "%s:%d: ", slash ? slash + 1 : file, line);
    int used = snprintf(report->text, sizeof report->text,
                        "%s: %s%s, block %u,%u, thread %u: ", emulate_check_name(check), place,
                        block->launch.kernel, block->x, block->y, block->thread);
    vsnprintf(report->text + used, sizeof report->text - (size_t)used, format, arguments);
}

void emulate_run_found(enum emulate_check check, const char *file, int line, const char *format,
                       ...) {
    struct emulate_report printed, *report = collected ? collected : &printed;
    va_list arguments;
    va_start(arguments, format);
    report_fill(report, check, file, line, format, arguments);
    va_end(arguments);
    if (!collected) {
        fprintf(stderr, "%s\n", report->text);
        abort();
    }
    running = false;
    _longjmp(host, HOST_FOUND);
}

static bool waits_alike(const struct fiber *a, const struct fiber *b) {
    return a->ended == b->ended && a->waits_for == b->waits_for && a->file == b->file &&
           a->line == b->line;
}

/* Describes where threads wait; consecutive threads that wait at the same place are one entry. */
static void describe_waits(char *text, size_t size) {
    uint32_t threads = emulate_block_now.launch.threads;
    size_t used = 0;
    text[0] = 0;
    for (uint32_t first = 0, next; first < threads && used < size - 1; first = next) {
        for (next = first + 1; next < threads && waits_alike(&fibers[first], &fibers[next]);)
            next++;
        const struct fiber *fiber = &fibers[first];
        const char *slash = fiber->file ? strrchr(fiber->file, '/') : NULL;
        int wrote = snprintf(text + used, size - used, "%sthreads %u-%u wait for %s",
                             used ? "; " : "", first, next - 1, fiber->waits_for);
        used += (size_t)wrote;
        if (fiber->file && used < size) {
            wrote = snprintf(text + used, size - used, " at %s:%d", slash ? slash + 1 : fiber->file,
                             fiber->line);
            used += (size_t)wrote;
        }
    }
}

/* ---- threads ---- */

static void begin_threads(void) {
    struct block *block = &emulate_block_now;
    if (!stacks) {
        stacks = mmap(NULL, (size_t)EMULATE_THREADS_MAX * STACK_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        check(stacks != MAP_FAILED);
    }
    block->fibers = fibers;
    ready_count = ended_count = 0;
    struct emulate_clock *nothing = emulate_clock_new();
    for (uint32_t i = 0; i < block->launch.threads; i++) {
        emulate_clock_drop(fibers[i].known);
        fibers[i] = (struct fiber){.known = emulate_clock_hold(nothing), .now = 1};
        emulate_run_wake(i);
    }
    emulate_clock_drop(nothing);
}

bool emulate_run_threads(void (*end)(void)) {
    begin_threads();
    static volatile enum host_return how;
    how = (enum host_return)_setjmp(host);
    if (how == HOST_STARTS) {
        uint32_t first;
        running = true;
        check(draw_next(&first));
        resume(first);
    }
    if (how == HOST_NONE_RUNS) {
        char waits[400];
        describe_waits(waits, sizeof waits);
        how = (enum host_return)_setjmp(host);
        if (how == HOST_STARTS) emulate_run_found(EMULATE_DEADLOCK, NULL, 0, "%s", waits);
    } else if (how == HOST_ALL_ENDED) {
        how = (enum host_return)_setjmp(host);
        if (how == HOST_STARTS) end();
    }
    running = false;
    return how == HOST_STARTS;
}
