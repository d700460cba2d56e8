/* SPDX-License-Identifier: Apache-2.0
 * Memory as a kernel's threads may see it. Each byte has a cell: who wrote it last, who has read it
 * or added to it since (two of each: the others are in order with what comes, or are found by
 * another seed), and whether it was ever written or waits for a copy. Cells of shared memory lie
 * side by side, those of global memory in pages that appear when a thread touches them; a stamp
 * tells what is old.
 *
 * A kernel's plain accesses come through the hooks that the compiler's thread sanitizer calls; we
 * are its runtime.
 */
#include "compute/kernels/emulate/emulate_block.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

#define RANGES_MAX 4096
#define RANGE_NEAR 4096 /* bytes: a report names the range for an address so near */
#define PAGE_BITS 10
#define PAGE_BYTES (1u << PAGE_BITS)
#define PAGES_KEPT 4096 /* 100 MB of cells */

enum cell_state { CELL_UNSET, CELL_SET, CELL_PENDING, CELL_RESERVED };

struct cell {
    uint32_t stamp;
    uint32_t writer, readers[2]; /* epochs; 0: none */
    uint16_t writer_block, reader_block;
    uint8_t state;
    bool several_blocks; /* have read it */
    bool added;          /* to, since it was written: shared_adders has who did */
};

struct cell_page {
    uintptr_t number;
    struct cell_page *next; /* in its bucket */
    struct cell cells[PAGE_BYTES];
};

struct range {
    uintptr_t first, end;
    char name[48];
};

extern const char __executable_start, end;

static struct range ranges[RANGES_MAX];
static uint32_t range_count;
static struct cell shared_cells[EMULATE_SHARED_MAX];
static uint32_t shared_adders[EMULATE_SHARED_MAX][2]; /* of cells that say so; epochs; 0: none */
static _Alignas(1024) char shared[EMULATE_SHARED_MAX];
static struct cell_page *pages[1 << 12], *last_page;
static uint32_t page_count, launch_stamp, block_stamp;

/* ---- ranges ---- */

/* The first range that ends behind the address. */
static uint32_t range_behind(uintptr_t address) {
    uint32_t low = 0, high = range_count;
    while (low < high) {
        uint32_t intermediate = (low + high) / 2;
        if (ranges[intermediate].end > address)
            high = intermediate;
        else
            low = intermediate + 1;
    }
    return low;
}

void emulate_memory_add(const void *base, size_t bytes, const char *name) {
    uint32_t at = range_behind((uintptr_t)base);
    check(range_count < RANGES_MAX);
    check(at == range_count || ranges[at].first >= (uintptr_t)base + bytes);
    memmove(&ranges[at + 1], &ranges[at], (range_count++ - at) * sizeof *ranges);
    ranges[at] = (struct range){.first = (uintptr_t)base, .end = (uintptr_t)base + bytes};
    snprintf(ranges[at].name, sizeof ranges[at].name, "%s", name);
}

void emulate_memory_drop(const void *base) {
    uint32_t at = range_behind((uintptr_t)base);
    check(at < range_count && ranges[at].first == (uintptr_t)base);
    memmove(&ranges[at], &ranges[at + 1], (--range_count - at) * sizeof *ranges);
}

static bool in_range(uintptr_t address, size_t bytes) {
    static uint32_t last;
    if (last < range_count && address >= ranges[last].first && address + bytes <= ranges[last].end)
        return true;
    last = range_behind(address);
    return last < range_count && address >= ranges[last].first &&
           address + bytes <= ranges[last].end;
}

/* The range that the address lies in, or next to; NULL: far from all. */
static const struct range *range_near(uintptr_t address) {
    uint32_t at = range_behind(address);
    const struct range *before = at ? &ranges[at - 1] : NULL;
    const struct range *behind = at < range_count ? &ranges[at] : NULL;
    if (behind && address >= behind->first) return behind;
    uintptr_t from_before = before ? address - before->end : UINTPTR_MAX;
    uintptr_t to_behind = behind ? behind->first - address : UINTPTR_MAX;
    if (from_before < RANGE_NEAR && from_before <= to_behind) return before;
    return to_behind < RANGE_NEAR ? behind : NULL;
}

void emulate_memory_name(uintptr_t address, char *name, size_t size) {
    uintptr_t offset;
    const struct range *near = range_near(address);
    if (address >= (uintptr_t)shared && address < (uintptr_t)(shared + sizeof shared))
        snprintf(name, size, "shared+0x%zx", (size_t)(address - (uintptr_t)shared));
    else if (emulate_run_on_stack(address, &offset))
        snprintf(name, size, "the thread's own stack");
    else if (near)
        snprintf(name, size, "%s%+td of %zu bytes", near->name, (ptrdiff_t)(address - near->first),
                 (size_t)(near->end - near->first));
    else
        snprintf(name, size, "%p", (void *)address);
}

/* ---- cells ---- */

void emulate_memory_begin_launch(void) {
    launch_stamp++;
    if (page_count < PAGES_KEPT) return;
    for (uint32_t i = 0; i < sizeof pages / sizeof *pages; i++)
        while (pages[i]) {
            struct cell_page *next = pages[i]->next;
            free(pages[i]);
            pages[i] = next;
        }
    page_count = 0;
    last_page = NULL;
}

void emulate_memory_begin_block(void) {
    block_stamp++;
    memset(shared, 0xA5, emulate_block_now.launch.shared_bytes);
}

static struct cell *global_cell(uintptr_t address) {
    uintptr_t number = address >> PAGE_BITS;
    if (!last_page || last_page->number != number) {
        struct cell_page **bucket = &pages[number % (sizeof pages / sizeof *pages)];
        struct cell_page *page = *bucket;
        while (page && page->number != number)
            page = page->next;
        if (!page) {
            page = calloc(1, sizeof *page);
            check(page);
            page->number = number;
            page->next = *bucket;
            *bucket = page;
            page_count++;
        }
        last_page = page;
    }
    return &last_page->cells[address % PAGE_BYTES];
}

/* An access: which bytes, by whom, and where in the source: a place, or an instruction. */
struct access {
    uintptr_t address;
    uint32_t epoch;
    bool in_shared, writes, adds, proxy;
    const char *file;
    int line;
    const void *instruction;
};

static _Noreturn void emulate_memory_complain(const struct access *access, uintptr_t address,
                                              enum emulate_check check, const char *text) {
    char name[120];
    emulate_memory_name(address, name, sizeof name);
    const char *verb = access->adds ? "adds to" : access->writes ? "writes" : "reads";
    if (access->instruction)
        emulate_report_at(check, access->instruction, "%s %s: %s", verb, name, text);
    emulate_run_found(check, access->file, access->line, "%s %s: %s", verb, name, text);
}

static const char *actor(uint32_t epoch, char *text, size_t size) {
    uint32_t index = clock_index(epoch);
    if (index < CLOCK_WARPGROUPS)
        snprintf(text, size, "thread %u", index);
    else if (index < CLOCK_BARRIERS)
        snprintf(text, size, "a wgmma of warpgroup %u", index - CLOCK_WARPGROUPS);
    else
        snprintf(text, size, "a copy of barrier %u", index - CLOCK_BARRIERS);
    return text;
}

static _Noreturn void complain_race(const struct access *access, uintptr_t address, uint32_t epoch,
                                    bool wrote, uint32_t block) {
    char text[200], who[60];
    actor(epoch, who, sizeof who);
    if (block && block != (uint16_t)emulate_block_now.number)
        snprintf(text, sizeof text, "another block has %s it in this launch",
                 wrote ? "written" : "read");
    else
        snprintf(text, sizeof text, "not ordered behind what %s has %s", who,
                 wrote ? "written" : "read");
    emulate_memory_complain(access, address, EMULATE_RACE, text);
}

static void refresh(struct cell *cell, bool in_shared) {
    uint32_t stamp = in_shared ? block_stamp : launch_stamp;
    if (cell->stamp != stamp)
        *cell = (struct cell){.stamp = stamp, .state = in_shared ? CELL_UNSET : CELL_SET};
}

static inline bool foreign(const struct access *access, uint16_t block) {
    return !access->in_shared && block && block != (uint16_t)emulate_block_now.number;
}

static void check_state(const struct access *access, const struct cell *cell, uintptr_t address) {
    if (cell->state == CELL_PENDING)
        emulate_memory_complain(access, address, EMULATE_PENDING, "a copy to it is on its way");
    if (cell->state == CELL_RESERVED)
        emulate_memory_complain(access, address, EMULATE_BARRIER, "it is a barrier's");
    if (cell->state == CELL_UNSET && (!access->writes || access->adds))
        emulate_memory_complain(access, address, EMULATE_UNSET, "it was never written");
}

static void check_writer(const struct access *access, const struct cell *cell, uintptr_t address) {
    if (!cell->writer) return;
    if (foreign(access, cell->writer_block) || !emulate_run_knows(cell->writer))
        complain_race(access, address, cell->writer, true, cell->writer_block);
    if (access->proxy && !emulate_run_knows_fenced(cell->writer))
        emulate_memory_complain(access, address, EMULATE_PROXY,
                                "written plainly, and no fence.proxy.async stands between");
}

static void check_adders(const struct access *access, const struct cell *cell, uintptr_t address) {
    if (!cell->added) return;
    const uint32_t *adders = shared_adders[cell - shared_cells];
    for (uint32_t i = 0; i < 2; i++)
        if (adders[i] && !emulate_run_knows(adders[i]))
            complain_race(access, address, adders[i], true, 0);
}

static void check_readers(const struct access *access, const struct cell *cell, uintptr_t address) {
    for (uint32_t i = 0; i < 2; i++)
        if (cell->readers[i] && !emulate_run_knows(cell->readers[i]))
            complain_race(access, address, cell->readers[i], false, 0);
}

/* Among the two that are kept. */
static void note_actor(uint32_t kept[2], uint32_t epoch) {
    for (uint32_t i = 0; i < 2; i++)
        if (!kept[i] || clock_index(kept[i]) == clock_index(epoch)) {
            kept[i] = epoch;
            return;
        }
    uint32_t place = emulate_run_knows(kept[0])   ? 0
                     : emulate_run_knows(kept[1]) ? 1
                                                  : emulate_run_random(2);
    kept[place] = epoch;
}

static void note_reader(const struct access *access, struct cell *cell) {
    if (foreign(access, cell->reader_block)) {
        cell->several_blocks = true;
        cell->readers[0] = cell->readers[1] = 0;
    }
    cell->reader_block = (uint16_t)emulate_block_now.number;
    note_actor(cell->readers, access->epoch);
}

static void read_cell(const struct access *access, struct cell *cell, uintptr_t address) {
    refresh(cell, access->in_shared);
    if ((cell->readers[0] == access->epoch || cell->readers[1] == access->epoch) &&
        !foreign(access, cell->reader_block))
        return; /* has read it since its last write */
    check_state(access, cell, address);
    check_writer(access, cell, address);
    check_adders(access, cell, address);
    note_reader(access, cell);
}

/* Additions need no order among themselves. */
static void add_cell(const struct access *access, struct cell *cell, uintptr_t address) {
    refresh(cell, access->in_shared);
    check_state(access, cell, address);
    check_writer(access, cell, address);
    check_readers(access, cell, address);
    uint32_t *adders = shared_adders[cell - shared_cells];
    if (!cell->added) adders[0] = adders[1] = 0;
    cell->added = true;
    note_actor(adders, access->epoch);
}

static void emulate_memory_write_cell(const struct access *access, struct cell *cell,
                                      uintptr_t address) {
    refresh(cell, access->in_shared);
    bool own = cell->state == CELL_SET && cell->writer == access->epoch && !cell->readers[0] &&
               !cell->added && !foreign(access, cell->writer_block);
    if (!own) {
        check_state(access, cell, address);
        check_writer(access, cell, address);
        if (cell->several_blocks || foreign(access, cell->reader_block))
            complain_race(access, address, 0, false, UINT16_MAX);
        check_readers(access, cell, address);
        check_adders(access, cell, address);
    }
    cell->writer = access->epoch;
    cell->writer_block = (uint16_t)emulate_block_now.number;
    cell->readers[0] = cell->readers[1] = 0;
    cell->added = false;
    cell->reader_block = 0;
    cell->state = CELL_SET;
}

static void emulate_memory_visit(const struct access *access, size_t bytes) {
    for (uintptr_t at = access->address; at < access->address + bytes; at++) {
        struct cell *cell =
            access->in_shared ? &shared_cells[at - (uintptr_t)shared] : global_cell(at);
        if (access->writes)
            emulate_memory_write_cell(access, cell, at);
        else
            read_cell(access, cell, at);
    }
}

/* ---- plain accesses ---- */

static bool emulate_memory_lies_in(uintptr_t address, size_t bytes, const void *first,
                                   size_t count) {
    return address >= (uintptr_t)first && address + bytes <= (uintptr_t)first + count;
}

/* The launch's arguments, and constants of the program. */
static bool may_be_read(uintptr_t address, size_t bytes) {
    if (emulate_memory_lies_in(address, bytes, emulate_block_now.closure,
                               emulate_block_now.closure_bytes))
        return true;
    return address >= (uintptr_t)&__executable_start && address < (uintptr_t)&end &&
           !emulate_memory_lies_in(address, 1, shared, sizeof shared);
}

static void emulate_memory_touch(const void *at, size_t bytes, bool writes, bool aligned,
                                 const void *instruction) {
    uintptr_t address = (uintptr_t)at, offset;
    if (!emulate_run_running()) return;
    if (emulate_run_on_stack(address, &offset)) {
        emulate_block_now.check_stack(address, bytes, instruction);
        return;
    }
    struct access access = {.address = address,
                            .epoch = emulate_run_epoch(),
                            .writes = writes,
                            .instruction = instruction};
    access.in_shared =
        emulate_memory_lies_in(address, bytes, shared, emulate_block_now.launch.shared_bytes);
    if (!access.in_shared && !in_range(address, bytes)) {
        if (!writes && may_be_read(address, bytes)) return;
        emulate_memory_complain(&access, address, EMULATE_BOUNDS, "it is not the kernel's");
    }
    if (aligned && address % bytes)
        emulate_memory_complain(&access, address, EMULATE_ALIGNMENT, "not aligned to its size");
    emulate_memory_visit(&access, bytes);
}

#define HOOK(kind, bytes, writes)                                                                  \
    void __tsan_##kind##bytes(void *at);                                                           \
    void __tsan_##kind##bytes(void *at) {                                                          \
        emulate_memory_touch(at, bytes, writes, true, __builtin_return_address(0));                \
    }                                                                                              \
    void __tsan_unaligned_##kind##bytes(void *at);                                                 \
    void __tsan_unaligned_##kind##bytes(void *at) {                                                \
        emulate_memory_touch(at, bytes, writes, false, __builtin_return_address(0));               \
    }
HOOK(read, 1, false)
HOOK(read, 2, false)
HOOK(read, 4, false)
HOOK(read, 8, false)
HOOK(read, 16, false)
HOOK(write, 1, true)
HOOK(write, 2, true)
HOOK(write, 4, true)
HOOK(write, 8, true)
HOOK(write, 16, true)

void __tsan_init(void);
void __tsan_init(void) {
}
void __tsan_read_range(void *at, size_t bytes);
void __tsan_read_range(void *at, size_t bytes) {
    emulate_memory_touch(at, bytes, false, false, __builtin_return_address(0));
}
void __tsan_write_range(void *at, size_t bytes);
void __tsan_write_range(void *at, size_t bytes) {
    emulate_memory_touch(at, bytes, true, false, __builtin_return_address(0));
}

/* ---- for copies and products ---- */

char *emulate_memory_shared(void) {
    return shared;
}

void *emulate_shared(void) {
    return shared;
}

uint32_t emulate_shared_address(const void *at, const char *file, int line) {
    return emulate_memory_shared_offset(at, 1, 1, file, line) + EMULATE_SHARED_BASE;
}

uint32_t emulate_memory_shared_offset(const void *at, size_t bytes, size_t alignment,
                                      const char *file, int line) {
    struct access access = {.file = file, .line = line};
    uintptr_t address = (uintptr_t)at, first = (uintptr_t)shared;
    if (address < first || address + bytes > first + emulate_block_now.launch.shared_bytes)
        emulate_memory_complain(&access, address, EMULATE_BOUNDS,
                                "not in the block's shared memory");
    if (address % alignment)
        emulate_memory_complain(&access, address, EMULATE_ALIGNMENT,
                                "the machine wants it aligned further");
    return (uint32_t)(address - first);
}

void emulate_aligned(const void *at, uint32_t bytes, const char *file, int line) {
    struct access access = {.file = file, .line = line};
    if ((uintptr_t)at % bytes)
        emulate_memory_complain(&access, (uintptr_t)at, EMULATE_ALIGNMENT,
                                "not aligned to its size");
}

uint32_t emulate_add(uint32_t *at, uint32_t value, const char *file, int line) {
    struct access access = {.address = (uintptr_t)at,
                            .epoch = emulate_run_epoch(),
                            .in_shared = true,
                            .writes = true,
                            .adds = true,
                            .file = file,
                            .line = line};
    uint32_t offset = emulate_memory_shared_offset(at, sizeof *at, sizeof *at, file, line);
    for (uint32_t i = 0; i < sizeof *at; i++)
        add_cell(&access, &shared_cells[offset + i], access.address + i);
    uint32_t before = *at;
    *at = before + value;
    return before;
}

void emulate_memory_check_global(const void *at, size_t bytes, size_t alignment, const char *file,
                                 int line) {
    struct access access = {.file = file, .line = line};
    if (!in_range((uintptr_t)at, bytes))
        emulate_memory_complain(&access, (uintptr_t)at, EMULATE_BOUNDS, "it is not the kernel's");
    if ((uintptr_t)at % alignment)
        emulate_memory_complain(&access, (uintptr_t)at, EMULATE_ALIGNMENT,
                                "the machine wants it aligned further");
}

void emulate_memory_read_async(uint32_t offset, uint32_t bytes, uint32_t epoch, const char *file,
                               int line) {
    struct access access = {.address = (uintptr_t)shared + offset,
                            .epoch = epoch,
                            .in_shared = true,
                            .proxy = true,
                            .file = file,
                            .line = line};
    emulate_memory_visit(&access, bytes);
}

void emulate_memory_write_begin(uint32_t offset, uint32_t bytes, uint32_t epoch, bool proxy,
                                const char *file, int line) {
    struct access access = {.address = (uintptr_t)shared + offset,
                            .epoch = epoch,
                            .in_shared = true,
                            .writes = true,
                            .proxy = proxy,
                            .file = file,
                            .line = line};
    emulate_memory_visit(&access, bytes);
    for (uint32_t i = offset; i < offset + bytes; i++)
        shared_cells[i].state = CELL_PENDING;
    memset(shared + offset, 0xA5, bytes);
}

void emulate_memory_write_end(uint32_t offset, const void *data, uint32_t bytes, uint32_t epoch) {
    memcpy(shared + offset, data, bytes);
    for (uint32_t i = offset; i < offset + bytes; i++) {
        shared_cells[i].state = CELL_SET;
        shared_cells[i].writer = epoch;
    }
}

void emulate_memory_reserve(uint32_t offset, uint32_t bytes) {
    for (uint32_t i = offset; i < offset + bytes; i++)
        shared_cells[i] = (struct cell){.stamp = block_stamp, .state = CELL_RESERVED};
}
