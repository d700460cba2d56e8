/* SPDX-License-Identifier: Apache-2.0
 * What the emulator's files share: the block that runs, its threads, and how one waits. Private to
 * this folder and its tests.
 */
#pragma once

#include <setjmp.h>

#include "compute/kernels/emulate/emulate_clock.h"

#define WARP 32u
#define WARPGROUP 128u
#define FENCES_KEPT 8u

struct fiber {
    jmp_buf context;
    bool started, ended;
    /* The event it waits for, and where; NULL: none. */
    const char *waits_for, *file;
    int line;
    /* Vector clock of the thread: `now` of itself, `known` of others. A release publishes the time
     * and begins a new one. */
    struct emulate_clock *known;
    uint32_t now;
    /* The times at which it fenced its writes for the asynchronous proxy: a ring. */
    uint32_t fences[FENCES_KEPT], fence_count;
    bool wgmma_fenced;
};

struct block {
    struct emulate_launch launch;
    const void *closure; /* the launch's arguments */
    size_t closure_bytes;
    uint32_t x, y;
    uint32_t number; /* of the launch's blocks, from 1 */
    uint32_t thread; /* the one that runs */
    struct fiber *fibers;
    /* Functions of files above emulate_run.c: emulate_copy_advance, emulate_wgmma_check_stack. */
    bool (*advance)(bool must);
    void (*check_stack)(uintptr_t address, size_t bytes, const void *place);
};

extern struct block emulate_block_now;

/* Runs all threads of the block, then calls `end`, which may report what is left over. False:
 * something was found. */
bool emulate_run_threads(void (*end)(void));
/* Whether a kernel's thread runs, and not the host. */
bool emulate_run_running(void);
struct fiber *emulate_run_self(void);
bool emulate_run_on_stack(uintptr_t address, uintptr_t *offset_out);
uint32_t emulate_run_random(uint32_t below);

/* The thread sleeps until it is woken; others may run where it only rests. */
void emulate_run_sleep(const char *what, const char *file, int line);
void emulate_run_rest(void);
void emulate_run_wake(uint32_t thread);

/* Whether the running thread is ordered after the epoch; and whether the epoch's thread had fenced
 * its writes before it signalled. */
bool emulate_run_knows(uint32_t epoch);
bool emulate_run_knows_fenced(uint32_t epoch);
uint32_t emulate_run_epoch(void);
/* The running thread publishes its clock, or merges another. */
void emulate_run_report(struct emulate_clock **clock);
void emulate_run_learn(struct emulate_clock *clock);

/* Ends the launch. */
_Noreturn void emulate_run_found(enum emulate_check check, const char *file, int line,
                                 const char *format, ...) __attribute__((format(printf, 4, 5)));

/* ---- emulate_memory.c ---- */

/* A launch, then a block begins: nothing is known of the memory's history. */
void emulate_memory_begin_launch(void);
void emulate_memory_begin_block(void);
/* The offset in shared memory of `bytes` at an address, which lie there and are aligned. */
uint32_t emulate_memory_shared_offset(const void *at, size_t bytes, size_t alignment,
                                      const char *file, int line);
char *emulate_memory_shared(void);
/* Checks `bytes` of global memory that a copy reads. */
void emulate_memory_check_global(const void *at, size_t bytes, size_t alignment, const char *file,
                                 int line);
/* Something asynchronous reads shared memory, as the actor `epoch`, on behalf of this thread. */
void emulate_memory_read_async(uint32_t offset, uint32_t bytes, uint32_t epoch, const char *file,
                               int line);
/* An asynchronous write begins: ordered behind all that was; then arrives. `proxy`: by TMA. */
void emulate_memory_write_begin(uint32_t offset, uint32_t bytes, uint32_t epoch, bool proxy,
                                const char *file, int line);
void emulate_memory_write_end(uint32_t offset, const void *data, uint32_t bytes, uint32_t epoch);
/* The memory of a barrier: only barrier operations may touch it. */
void emulate_memory_reserve(uint32_t offset, uint32_t bytes);
/* Writes an address's name: a range of the device's memory, shared memory, a stack. */
void emulate_memory_name(uintptr_t address, char *name, size_t size);

/* ---- emulate_warp.c ---- */

void emulate_warp_begin_block(void);
/* The thread joins the others of its group of `size`, who must come from the same place. True for
 * the last, who acts for all, and then calls emulate_warp_part. */
bool emulate_warp_meet(uint32_t size, const char *what, const char *file, int line);
void emulate_warp_part(uint32_t size);

/* ---- emulate_copy.c ---- */

void emulate_copy_begin_block(void);
/* Something arrives, perhaps; false: nothing is on its way. */
bool emulate_copy_advance(bool must);
void emulate_copy_end_block(void);
void emulate_copy_forget(void);

/* ---- emulate_wgmma.c ---- */

void emulate_wgmma_begin_block(void);
void emulate_wgmma_end_block(void);
/* A plain access to the running thread's stack: no product in flight may own it. */
void emulate_wgmma_check_stack(uintptr_t address, size_t bytes, const void *place);

/* ---- emulate_report.c ---- */

/* "file:line" of an instruction. */
void emulate_report_place(const void *instruction, char *text, size_t size);
_Noreturn void emulate_report_at(enum emulate_check check, const void *instruction,
                                 const char *format, ...) __attribute__((format(printf, 3, 4)));
