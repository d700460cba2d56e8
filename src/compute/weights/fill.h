/* SPDX-License-Identifier: Apache-2.0
 * Fills a region of packed weights: memory of this process alone, or a file that others fill at
 * the same time (weights_file.h). The region's jobs are cut into parts; of a file, the first
 * process that claims a part packs it, and complete parts are left alone.
 */
#pragma once

#include "compute/weights/pack.h"
#include "compute/weights/weights_file.h"

struct fill_part {
    uint32_t first_job, job_count; /* of the list */
    uint32_t place;                /* number of the file's part */
    uint64_t what;                 /* what the file's part says it holds, once it is whole */
    char *first;                   /* memory that the jobs write, [bytes] */
    size_t bytes;
    bool done; /* packed, here or by another process */
};

struct fill {
    struct weights_file *file; /* NULL: memory of this process alone */
    struct fill_part *parts;
    uint32_t part_count;
};

/* Packs the parts that no other process is packing. *left_out: the number of parts that others are
 * packing. */
enum status fill_some(struct fill *fill, struct pack_run *run, uint32_t *left_out,
                      struct error *error);
/* Packs, and waits for others, until all is there. A process that dies leaves its part to us. */
enum status fill_all(struct fill *fill, struct pack_run *run, struct error *error);

/* Empties the parts of a file that do not hold the packed bytes; returns their number. */
uint32_t fill_verify(struct weights_file *file, struct team *team);
