/* SPDX-License-Identifier: Apache-2.0
 * Broadcast, scatter and gather between rank 0 and all ranks, along a tree of the ranks that are
 * alive. No rank sends or receives more than JOB_TREE_FAN messages; among 144 ranks the tree is
 * three levels deep.
 *
 * The living ranks form a row, ascending. The first is the root. The rest is divided into up to
 * JOB_TREE_FAN runs of equal length, and the first rank of each run is again the root of that run.
 * So the ranks below a rank have adjacent numbers and are mostly on its own host.
 *
 * A message is a list of parts, ascending by rank: one part for all ranks, or one for each. A rank
 * forwards the parts for the ranks below before it handles its own. It sends its report upwards
 * when the reports from below have arrived.
 *
 * Ranks may die (job.h). In a broken job nothing is forwarded, and waiting calls return. After
 * job_regroup the tree consists of the ranks that are alive.
 */
#pragma once

#include "base/bytes.h"

#include <stdbool.h>
#include <stdint.h>

#define JOB_TREE_FAN 8u
#define JOB_TREE_ALL UINT32_MAX

/* A position in the tree: its parent, and the ranges first[i] .. first[i + 1] - 1 below it. */
struct job_tree_position {
    uint32_t parent; /* of the root: itself */
    uint32_t child_count;
    uint32_t first[JOB_TREE_FAN + 1];
};

struct job_tree_position job_tree_position(uint32_t position, uint32_t count);

/* A message. Zeros: no parts. */
struct job_tree_parts {
    char *data;
    size_t bytes, room;
};

void job_tree_clear(struct job_tree_parts *parts); /* keeps the memory */
void job_tree_free(struct job_tree_parts *parts);
/* Appends a part for, or from, a rank. Returns the address of its bytes, aligned to 8 and valid
 * until the next call. */
void *job_tree_add(struct job_tree_parts *parts, uint32_t rank, size_t bytes);
/* Iterates over the parts; `at` is 0 at first. False: no more parts. */
bool job_tree_next(const struct job_tree_parts *parts, size_t *at, uint32_t *rank_out,
                   struct bytes *part_out);

/* Rank 0 sends one part for all ranks, or one for each other living rank, ascending. Returns when
 * the parts may be overwritten. */
void job_tree_send(const struct job_tree_parts *parts);

/* The rank that sends this rank its messages, for job_probe. */
uint32_t job_tree_parent(void);
/* The other ranks: receives the next message, of the `bytes` that job_probe returned, forwards the
 * parts for the ranks below, and returns this rank's part. False: a rank has died. */
bool job_tree_receive(struct job_tree_parts *parts, size_t bytes, struct bytes *part_out);

/* All ranks: `parts` holds this rank's part, and at rank 0 on return those of all living ranks,
 * ascending. False: a rank has died, and parts may be missing. */
bool job_tree_gather(struct job_tree_parts *parts);
