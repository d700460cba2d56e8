/* SPDX-License-Identifier: Apache-2.0
 * Orders from rank 0 to all ranks, and reports back to it, along a tree of the living ranks: no
 * rank sends or receives more than JOB_TREE_FAN messages, and among 144 ranks an order is three
 * messages deep.
 *
 * The living stand in a row, by number. The first is the root; the rest is cut into up to
 * JOB_TREE_FAN runs of equal length, in each of which the first is the root again. So the ranks
 * below a rank are its neighbours, most of them on its own host, and the tree of nine ranks is rank
 * 0 and its eight.
 *
 * A message is parts behind each other, by ascending rank: one part for all, or one for each. A
 * rank passes on what is for those below before it does its own; its report goes up when theirs
 * have come.
 *
 * Ranks may die (job.h): in a broken job nothing is passed on, and waiting calls return. After
 * job_regroup the tree is that of the living.
 */
#ifndef COMPUTE_EXCHANGE_JOB_TREE_H
#define COMPUTE_EXCHANGE_JOB_TREE_H

#include "base/bytes.h"

#include <stdbool.h>
#include <stdint.h>

#define JOB_TREE_FAN 8u
#define JOB_TREE_ALL UINT32_MAX

/* Where one of `count` stands: its parent, and the runs first[i] .. first[i + 1] - 1 below it. */
struct job_tree_place {
    uint32_t parent; /* the root's: itself */
    uint32_t child_count;
    uint32_t first[JOB_TREE_FAN + 1];
};

struct job_tree_place job_tree_place(uint32_t position, uint32_t count);

/* A message. Zeros: no parts. */
struct job_tree_parts {
    char *data;
    size_t bytes, room;
};

void job_tree_clear(struct job_tree_parts *parts); /* its memory stays */
void job_tree_free(struct job_tree_parts *parts);
/* Adds a part for, or of, a rank; returns where its bytes go, aligned to 8, until the next is
 * added. */
void *job_tree_add(struct job_tree_parts *parts, uint32_t rank, size_t bytes);
/* Walks the parts; `at` is 0 at first. False: there is no more. */
bool job_tree_next(const struct job_tree_parts *parts, size_t *at, uint32_t *rank_out,
                   struct bytes *part_out);

/* Rank 0: one part for all, or one for each other rank that lives, ascending. Returns when they may
 * be overwritten. */
void job_tree_send(const struct job_tree_parts *parts);

/* The rank from which this one's orders come: for job_ready. */
uint32_t job_tree_parent(void);
/* For the other ranks: receives the next message, of the `bytes` that job_ready returned, passes on
 * what is for the ranks below, and returns this rank's part. False: a rank has died, and there is
 * none. */
bool job_tree_take(struct job_tree_parts *parts, size_t bytes, struct bytes *part_out);

/* All: `parts` has this rank's own. Rank 0 has those of all that live, ascending, when it returns.
 * False: a rank has died, and some may be missing. */
bool job_tree_gather(struct job_tree_parts *parts);

#endif
