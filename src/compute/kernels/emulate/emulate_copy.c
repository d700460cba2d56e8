/* SPDX-License-Identifier: Apache-2.0
 * Asynchronous copies: cp.async, which the issuing thread waits for, and TMA's boxes, which a
 * barrier in shared memory counts. What is on its way has not arrived until somebody has waited for
 * it: a cp.async arrives when its thread waits, a box at any time, drawn by seed.
 *
 * A box belongs to the phase of its barrier: only who has waited for that phase, or learned from
 * one who has, may read it.
 */
#include "compute/kernels/emulate/emulate_block.h"

#include <string.h>

#include "base/check.h"

#define BOXES_MAX 256
#define COPIES_MAX 32
#define BOX_SIDE_MAX 256
#define COPY_BYTES 16u

struct barrier {
    uint32_t offset, count, left;
    int64_t bytes; /* expected and not there */
    uint32_t phase;
    struct emulate_clock *gathering, *completed;
    uint32_t init_epoch;
    bool init_fenced;
    uint32_t waiting[EMULATE_THREADS_MAX], waiting_count;
};

struct box {
    struct emulate_map map;
    int32_t at[EMULATE_MAP_DIMENSIONS];
    uint32_t offset, barrier, phase;
};

struct copy {
    uint32_t offset, bytes, group;
    const void *from;
};

static struct barrier barriers[CLOCK_BARRIERS_MAX];
static uint32_t barrier_count;
static struct box boxes[BOXES_MAX];
static uint32_t box_count;
static struct copy copies[EMULATE_THREADS_MAX][COPIES_MAX];
static uint32_t copy_counts[EMULATE_THREADS_MAX], copy_groups[EMULATE_THREADS_MAX];

void emulate_copy_begin_block(void) {
    barrier_count = box_count = 0;
    memset(copy_counts, 0, sizeof copy_counts);
    memset(copy_groups, 0, sizeof copy_groups);
}

void emulate_copy_forget(void) {
    for (uint32_t i = 0; i < barrier_count; i++) {
        emulate_clock_drop(barriers[i].gathering);
        emulate_clock_drop(barriers[i].completed);
    }
    barrier_count = box_count = 0;
}

void emulate_copy_end_block(void) {
    if (box_count)
        emulate_run_found(EMULATE_LEFT, NULL, 0, "the block ends, and %u boxes are on their way",
                          box_count);
    for (uint32_t i = 0; i < emulate_block_now.launch.threads; i++)
        if (copy_counts[i])
            emulate_run_found(EMULATE_LEFT, NULL, 0,
                              "thread %u ends, and %u of its copies are on their "
                              "way",
                              i, copy_counts[i]);
    for (uint32_t i = 0; i < barrier_count; i++)
        if (barriers[i].left != barriers[i].count || barriers[i].bytes)
            emulate_run_found(
                EMULATE_LEFT, NULL, 0,
                "the block ends, and the barrier at shared+0x%x has %u of %u arrivals, "
                "%lld bytes to come",
                barriers[i].offset, barriers[i].count - barriers[i].left, barriers[i].count,
                (long long)barriers[i].bytes);
}

/* ---- barriers in shared memory ---- */

static uint32_t barrier_offset(const uint64_t *at, const char *file, int line) {
    return emulate_memory_shared_offset(at, sizeof *at, sizeof *at, file, line);
}

static struct barrier *barrier_at(const uint64_t *at, const char *file, int line) {
    uint32_t offset = barrier_offset(at, file, line);
    for (uint32_t i = 0; i < barrier_count; i++)
        if (barriers[i].offset == offset) {
            if (!emulate_run_knows(barriers[i].init_epoch))
                emulate_run_found(EMULATE_RACE, file, line,
                                  "the barrier at shared+0x%x: not ordered behind its init",
                                  offset);
            return &barriers[i];
        }
    emulate_run_found(EMULATE_BARRIER, file, line, "no barrier was initialised at shared+0x%x",
                      offset);
}

void emulate_barrier_init(uint64_t *at, uint32_t count, const char *file, int line) {
    uint32_t offset = barrier_offset(at, file, line);
    for (uint32_t i = 0; i < barrier_count; i++)
        if (barriers[i].offset == offset)
            emulate_run_found(EMULATE_BARRIER, file, line, "initialised twice: shared+0x%x",
                              offset);
    check(barrier_count < CLOCK_BARRIERS_MAX);
    if (!count) emulate_run_found(EMULATE_BARRIER, file, line, "a barrier of 0 arrivals");
    struct barrier *barrier = &barriers[barrier_count++];
    emulate_memory_reserve(offset, sizeof *at);
    barrier->offset = offset;
    barrier->count = barrier->left = count;
    barrier->bytes = 0;
    barrier->phase = barrier->waiting_count = 0;
    barrier->gathering = emulate_clock_new();
    barrier->completed = NULL;
    barrier->init_epoch = emulate_run_epoch();
    barrier->init_fenced = false;
}

void emulate_fence_barrier_init(void) {
    for (uint32_t i = 0; i < barrier_count; i++)
        if (clock_index(barriers[i].init_epoch) == emulate_block_now.thread)
            barriers[i].init_fenced = true;
}

static void complete_phase(struct barrier *barrier) {
    if (barrier->left || barrier->bytes) return;
    barrier->phase++;
    barrier->left = barrier->count;
    emulate_clock_drop(barrier->completed);
    barrier->completed = emulate_clock_hold(barrier->gathering);
    for (uint32_t i = 0; i < barrier->waiting_count; i++)
        emulate_run_wake(barrier->waiting[i]);
    barrier->waiting_count = 0;
}

void emulate_barrier_arrive(uint64_t *at, uint32_t bytes, const char *file, int line) {
    struct barrier *barrier = barrier_at(at, file, line);
    if (!barrier->left)
        emulate_run_found(EMULATE_BARRIER, file, line,
                          "the barrier at shared+0x%x has its %u arrivals already", barrier->offset,
                          barrier->count);
    emulate_run_report(&barrier->gathering);
    barrier->bytes += bytes;
    barrier->left--;
    complete_phase(barrier);
    emulate_run_rest();
}

void emulate_barrier_wait(uint64_t *at, uint32_t parity, const char *file, int line) {
    struct barrier *barrier = barrier_at(at, file, line);
    if (parity > 1) emulate_run_found(EMULATE_BARRIER, file, line, "a parity of %u", parity);
    emulate_run_rest();
    while ((barrier->phase & 1) == parity) {
        barrier->waiting[barrier->waiting_count++] = emulate_block_now.thread;
        emulate_run_sleep(parity ? "a barrier's odd phase" : "a barrier's even phase", file, line);
    }
    if (barrier->completed) emulate_run_learn(barrier->completed);
}

/* ---- TMA ---- */

static uint32_t swizzled(uint32_t offset) {
    return offset ^ ((offset >> 7 & 7) << 4);
}

static uint32_t emulate_copy_box_bytes(const struct emulate_map *map) {
    uint32_t bytes = map->element_bytes;
    for (uint32_t i = 0; i < map->dimensions; i++)
        bytes *= map->box[i];
    return bytes;
}

static void check_map(const struct emulate_map *map, const char *file, int line) {
    if (map->mark != EMULATE_MAP_MARK)
        emulate_run_found(EMULATE_DESCRIPTOR, file, line, "not a tensor map");
    uint32_t inner = map->box[0] * map->element_bytes;
    bool fits = (uintptr_t)map->base % 16 == 0 && inner % 16 == 0 && !(map->swizzle && inner > 128);
    for (uint32_t i = 0; i < map->dimensions; i++) {
        fits &= map->size[i] && map->box[i] && map->box[i] <= BOX_SIDE_MAX;
        if (i + 1 < map->dimensions) fits &= map->pitch[i] % 16 == 0;
    }
    if (!fits)
        emulate_run_found(
            EMULATE_DESCRIPTOR, file, line,
            "a tensor map that the machine refuses: base, pitches and a box's row are "
            "multiples of 16 bytes, a swizzled row has 128 at most, a side 256 elements");
}

/* Row `row` of a box: where it lies in global memory, and how many of its bytes exist. */
static const char *box_row(const struct box *box, uint32_t row, uint32_t *skip_out,
                           uint32_t *bytes_out) {
    const struct emulate_map *map = &box->map;
    const char *from = map->base;
    int64_t first = box->at[0], last = first + map->box[0];
    int64_t skip = first < 0 ? -first : 0;
    if (last > map->size[0]) last = map->size[0];
    *skip_out = (uint32_t)skip * map->element_bytes;
    *bytes_out = last > first + skip ? (uint32_t)(last - first - skip) * map->element_bytes : 0;
    for (uint32_t i = 1; i < map->dimensions; i++) {
        int64_t index = box->at[i] + (int64_t)(row % map->box[i]);
        row /= map->box[i];
        if (index < 0 || index >= map->size[i])
            *bytes_out = 0;
        else
            from += (uint64_t)index * map->pitch[i - 1];
    }
    return from + (first + skip) * map->element_bytes;
}

static uint32_t box_rows(const struct emulate_map *map) {
    return emulate_copy_box_bytes(map) / (map->box[0] * map->element_bytes);
}

static uint32_t box_epoch(const struct box *box) {
    return clock_epoch(CLOCK_BARRIERS + box->barrier, box->phase + 1);
}

void emulate_tma_load(void *to, const void *map, uint64_t *barrier_of, const int32_t *at,
                      uint32_t dimensions, const char *file, int line) {
    struct barrier *barrier = barrier_at(barrier_of, file, line);
    check(box_count < BOXES_MAX);
    struct box *box = &boxes[box_count];
    memcpy(&box->map, map, sizeof box->map);
    check_map(&box->map, file, line);
    if (box->map.dimensions != dimensions)
        emulate_run_found(EMULATE_DESCRIPTOR, file, line,
                          "%u coordinates for a map of %u dimensions", dimensions,
                          box->map.dimensions);
    if (!barrier->init_fenced)
        emulate_run_found(
            EMULATE_PROXY, file, line,
            "no fence.mbarrier_init stands behind the init of the barrier at shared+0x%x",
            barrier->offset);
    memcpy(box->at, at, dimensions * sizeof *at);
    uint32_t bytes = emulate_copy_box_bytes(&box->map);
    box->offset =
        emulate_memory_shared_offset(to, bytes, box->map.swizzle ? 1024 : 128, file, line);
    box->barrier = (uint32_t)(barrier - barriers);
    box->phase = barrier->phase;
    for (uint32_t row = 0, skip, there; row < box_rows(&box->map); row++) {
        const char *from = box_row(box, row, &skip, &there);
        if (there) emulate_memory_check_global(from, there, 1, file, line);
    }
    emulate_memory_write_begin(box->offset, bytes, box_epoch(box), true, file, line);
    box_count++;
    emulate_run_rest();
}

static void emulate_copy_arrive(struct box *box) {
    struct barrier *barrier = &barriers[box->barrier];
    uint32_t inner = box->map.box[0] * box->map.element_bytes;
    char values[BOX_SIDE_MAX * 8];
    if (barrier->phase != box->phase)
        emulate_run_found(
            EMULATE_BARRIER, NULL, 0,
            "a box arrives for a phase of the barrier at shared+0x%x that is over: it "
            "expects too few bytes",
            barrier->offset);
    for (uint32_t row = 0, skip, there; row < box_rows(&box->map); row++) {
        const char *from = box_row(box, row, &skip, &there);
        memset(values, 0, inner);
        if (there) memcpy(values + skip, from, there);
        for (uint32_t i = 0; i < inner; i += 16) {
            uint32_t offset = box->offset + row * inner + i;
            emulate_memory_write_end(box->map.swizzle ? swizzled(offset) : offset, values + i, 16,
                                     box_epoch(box));
        }
    }
    barrier->bytes -= emulate_copy_box_bytes(&box->map);
    if (barrier->bytes < 0 && !barrier->left)
        emulate_run_found(EMULATE_BARRIER, NULL, 0,
                          "the barrier at shared+0x%x gets %lld bytes more than it expects",
                          barrier->offset, (long long)-barrier->bytes);
    emulate_clock_note(&barrier->gathering, CLOCK_BARRIERS + box->barrier, box->phase + 1);
    complete_phase(barrier);
}

bool emulate_copy_advance(bool must) {
    if (!box_count) return false;
    if (must || emulate_run_random(4) == 0) {
        uint32_t drawn = emulate_run_random(box_count);
        struct box box = boxes[drawn];
        boxes[drawn] = boxes[--box_count];
        emulate_copy_arrive(&box);
    }
    return true;
}

/* ---- cp.async ---- */

void emulate_copy16(void *to, const void *from, uint32_t bytes, const char *file, int line) {
    uint32_t thread = emulate_block_now.thread;
    uint32_t offset = emulate_memory_shared_offset(to, COPY_BYTES, COPY_BYTES, file, line);
    if (bytes > COPY_BYTES)
        emulate_run_found(EMULATE_BOUNDS, file, line, "cp.async of %u bytes", bytes);
    if (bytes) emulate_memory_check_global(from, bytes, COPY_BYTES, file, line);
    if (copy_counts[thread] == COPIES_MAX)
        emulate_run_found(EMULATE_LEFT, file, line, "%u copies without a wait", COPIES_MAX);
    emulate_memory_write_begin(offset, COPY_BYTES, emulate_run_epoch(), false, file, line);
    copies[thread][copy_counts[thread]++] =
        (struct copy){offset, bytes, copy_groups[thread] + 1, from};
}

void emulate_copy_commit(void) {
    copy_groups[emulate_block_now.thread]++;
}

void emulate_copy_wait(uint32_t left) {
    uint32_t thread = emulate_block_now.thread, kept = 0, groups = copy_groups[thread];
    for (uint32_t i = 0; i < copy_counts[thread]; i++) {
        struct copy *copy = &copies[thread][i];
        if (copy->group + left > groups) {
            copies[thread][kept++] = *copy;
            continue;
        }
        char values[COPY_BYTES] = {0};
        if (copy->bytes) memcpy(values, copy->from, copy->bytes);
        emulate_memory_write_end(copy->offset, values, COPY_BYTES, emulate_run_epoch());
    }
    copy_counts[thread] = kept;
}
