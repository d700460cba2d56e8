/* SPDX-License-Identifier: Apache-2.0
 * The parts for the ranks below a child are contiguous in a message, since parts and the tree both
 * ascend by rank, so a rank forwards them in place. It sends to all its children at once and then
 * waits for all, so that a slow child does not delay the others.
 */
#include "compute/exchange/job_tree.h"

#include "base/check.h"
#include "compute/exchange/job.h"

#include <stdlib.h>

struct part {
    uint32_t rank, bytes; /* that follow, padded to a multiple of 8 */
};

struct job_tree_position job_tree_position(uint32_t position, uint32_t count) {
    uint32_t parent = 0, root = 0, end = count;
    for (;;) {
        uint32_t rest = end - root - 1;
        struct job_tree_position place = {.parent = parent};
        place.child_count = rest < JOB_TREE_FAN ? rest : JOB_TREE_FAN;
        for (uint32_t i = 0; i <= place.child_count && rest; i++)
            place.first[i] = root + 1 + (uint32_t)((uint64_t)rest * i / place.child_count);
        if (root == position) return place;
        uint32_t child = 0;
        while (position >= place.first[child + 1])
            child++;
        parent = root;
        root = place.first[child];
        end = place.first[child + 1];
    }
}

/* ---- messages ---- */

void job_tree_clear(struct job_tree_parts *parts) {
    parts->bytes = 0;
}

void job_tree_free(struct job_tree_parts *parts) {
    free(parts->data);
    *parts = (struct job_tree_parts){.data = NULL};
}

static char *job_tree_make_room(struct job_tree_parts *parts, size_t bytes) {
    if (parts->bytes + bytes > parts->room) {
        parts->room = 2 * parts->room + bytes;
        parts->data = realloc(parts->data, parts->room);
        check(parts->data); /* the size of a few step plans or reports */
    }
    return parts->data + parts->bytes;
}

void *job_tree_add(struct job_tree_parts *parts, uint32_t rank, size_t bytes) {
    check(bytes <= UINT32_MAX);
    size_t whole = sizeof(struct part) + round_up_8(bytes);
    char *at = job_tree_make_room(parts, whole);
    memset(at + whole - 8, 0, 8);
    *(struct part *)(void *)at = (struct part){rank, (uint32_t)bytes};
    parts->bytes += whole;
    return at + sizeof(struct part);
}

bool job_tree_next(const struct job_tree_parts *parts, size_t *at, uint32_t *rank_out,
                   struct bytes *part_out) {
    struct part part;
    if (*at == parts->bytes) return false;
    check(parts->bytes - *at >= sizeof part);
    memcpy(&part, parts->data + *at, sizeof part);
    check(parts->bytes - *at - sizeof part >= round_up_8(part.bytes));
    *rank_out = part.rank;
    *part_out = (struct bytes){parts->data + *at + sizeof part, part.bytes};
    *at += sizeof part + round_up_8(part.bytes);
    return true;
}

/* ---- along the tree ---- */

/* This rank's position, with ranks instead of indices; the ranks below child i are less than
 * first[i + 1]. */
static struct job_tree_position own_place(void) {
    const uint32_t *row;
    uint32_t own, count = job_alive_ranks(&row, &own);
    struct job_tree_position place = job_tree_position(own, count);
    place.parent = row[place.parent];
    for (uint32_t i = 0; i <= place.child_count && place.child_count; i++)
        place.first[i] = place.first[i] < count ? row[place.first[i]] : job_count();
    return place;
}

/* The parts of ranks first .. end - 1, or the part for all ranks. */
static struct bytes parts_of(const struct job_tree_parts *parts, uint32_t first, uint32_t end) {
    struct bytes part;
    size_t at = 0, began = 0;
    uint32_t rank;
    while (job_tree_next(parts, &at, &rank, &part)) {
        if (rank == JOB_TREE_ALL) return (struct bytes){parts->data, parts->bytes};
        if (rank >= end)
            return (struct bytes){parts->data + began,
                                  at - began - (sizeof(struct part) + round_up_8(part.count))};
        if (rank < first) began = at;
    }
    return (struct bytes){parts->data + began, parts->bytes - began};
}

static void pass_down(const struct job_tree_parts *parts, const struct job_tree_position *place) {
    struct job_batch batch = {0};
    for (uint32_t i = 0; i < place->child_count; i++) {
        struct bytes run = parts_of(parts, place->first[i], place->first[i + 1]);
        check(run.count > 0);
        job_send_begin(&batch, JOB_CHANNEL_CONTROL, 0, place->first[i], run.data, run.count);
    }
    job_wait(&batch);
}

void job_tree_send(const struct job_tree_parts *parts) {
    check(job_rank() == 0);
    const struct job_tree_position place = own_place();
    if (!job_broken()) pass_down(parts, &place);
}

uint32_t job_tree_parent(void) {
    return own_place().parent;
}

bool job_tree_receive(struct job_tree_parts *parts, size_t bytes, struct bytes *part_out) {
    const struct job_tree_position place = own_place();
    uint32_t rank;
    size_t at = 0;
    job_tree_clear(parts);
    if (!job_receive(place.parent, job_tree_make_room(parts, bytes), bytes)) return false;
    parts->bytes = bytes;
    pass_down(parts, &place);
    if (job_broken()) return false;
    bool there = job_tree_next(parts, &at, &rank, part_out);
    check(there && (rank == JOB_TREE_ALL || rank == job_rank()));
    return true;
}

bool job_tree_gather(struct job_tree_parts *parts) {
    const struct job_tree_position place = own_place();
    size_t bytes;
    for (uint32_t i = 0; i < place.child_count; i++) {
        if (!job_wait_message(place.first[i], &bytes)) return false;
        bytes = job_receive(place.first[i], job_tree_make_room(parts, bytes), bytes);
        if (!bytes) return false;
        parts->bytes += bytes;
    }
    if (job_rank() && !job_broken()) job_send(place.parent, parts->data, parts->bytes);
    return !job_broken();
}
