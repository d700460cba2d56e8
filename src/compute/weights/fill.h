/* SPDX-License-Identifier: Apache-2.0
 * Fills a region of packed weights: private memory, or a file that other processes fill at the same
 * time (weights_file.h). The region's packing jobs are grouped into parts. In a file, the process
 * that first claims a part packs it, and complete parts are skipped.
 */
#pragma once

#include "compute/weights/pack.h"
#include "compute/weights/weights_file.h"

struct fill_part {
    uint32_t first_job, job_count; /* in the list of jobs */
    uint32_t place;                /* index of the part in the file */
    uint64_t what;                 /* name that the file stores for the complete part */
    char *first;                   /* memory written by the jobs, [bytes] */
    size_t bytes;
    bool done; /* packed, here or by another process */
};

struct fill {
    struct weights_file *file; /* NULL: private memory */
    struct fill_part *parts;
    uint32_t part_count;
};

/* Packs the parts that no other process is packing. *left_out: the number of parts that other
 * processes are packing. */
enum status fill_some(struct fill *fill, struct pack_run *run, uint32_t *left_out,
                      struct error *error);
/* Packs parts, and waits for other processes, until all parts are complete. If another process
 * dies, its part is packed here. */
enum status fill_all(struct fill *fill, struct pack_run *run, struct error *error);

/* Verifies a file's parts and empties those that do not match their digest. Returns their
 * number. */
uint32_t fill_verify(struct weights_file *file, struct team *team);
