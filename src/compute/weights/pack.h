/* SPDX-License-Identifier: Apache-2.0
 * Packing: turns tensors of the mapped checkpoint into the forms that kernels read, in parallel,
 * and lets go of the mapped pages behind it, so that the packed form replaces the raw one in
 * memory. Refuses NaN and infinite values, naming file and tensor.
 */
#pragma once

#include "compute/kernels/kernels.h"
#include "compute/kernels/team.h"
#include "compute/weights/checkpoint.h"
#include "compute/weights/upload.h"

/* Counts up whenever the same tensors are packed, or laid out, in another way: part of the key of
 * files that outlive this program (compute/weights/weights_file.h). */
#define PACK_VERSION 1

enum pack_form {
    PACK_PANELS,            /* rows of W, as panels (compute/kernels/matmul.h) */
    PACK_PANELS_TRANSPOSED, /* rows of W, transposed, as panels */
    PACK_FLOATS,            /* rows of W, as floats, row-major */
    PACK_ROWS, /* rows of W as they are, each at a multiple of the pitch; for a device */
    PACK_SCAN, /* rows are only looked through for values that are not finite; none is kept */
};

/* Rows [source_row, source_row + row_count) of a tensor. */
struct pack_job {
    enum pack_form form;
    enum weight_type type; /* of the values that are kept */
    const struct tensor *tensor;
    const struct tensor *scale; /* multiplied in when E4M3 becomes F32 or BF16; else NULL */
    uint64_t source_row;
    uint32_t row_count;
    void *data;   /* where the rows' first panel, or first float, goes; PACK_SCAN: NULL */
    size_t pitch; /* PACK_ROWS: bytes between two rows there */
};

struct pack_list {
    struct pack_job *jobs;
    uint32_t count, capacity;
    size_t piece_bytes;    /* that a job has about, at most; 0: a few MiB */
    struct device *device; /* the memory of the jobs' data; NULL: the host's */
};

/* Appends jobs for the rows, cut into pieces (a transposed one stays whole). */
enum status pack_list_add(struct pack_list *list, const struct pack_job *whole,
                          struct error *error);
void pack_list_free(struct pack_list *list);

struct pack_progress {
    void (*report)(void *context, uint64_t done_bytes, uint64_t total_bytes); /* may be NULL */
    void *context;
};

/* A list under way: its jobs are run in any order, some by other processes perhaps. */
struct pack_run {
    const struct pack_list *list;
    struct team *team;
    const struct pack_progress *progress;
    uint64_t total_bytes, done_bytes; /* of the checkpoint */
    uint64_t read_bytes;              /* of the checkpoint, read by this process */
    /* The rest is private. */
    uint32_t first_job; /* of the round under way */
    size_t buffer_bytes;
    char *buffers;         /* [threads][buffer_bytes]; with a device none */
    struct upload *upload; /* with a device */
    uint32_t *bad_jobs;    /* [threads] each thread's lowest index of a job with a value that is not
                         * finite, or UINT32_MAX */
};

/* Begins a run of the list. Whatever it returns, pack_run_close has to follow. */
enum status pack_run_open(struct pack_run *run, const struct pack_list *list, struct team *team,
                          const struct pack_progress *progress, struct error *error);
enum status pack_run_jobs(struct pack_run *run, uint32_t first, uint32_t count,
                          struct error *error);
/* Jobs [first, first + count) were done by somebody else. */
void pack_run_skip(struct pack_run *run, uint32_t first, uint32_t count);
/* Returns when what was packed so far is there: on a device it is still on its way before. */
enum status pack_run_finish(struct pack_run *run, struct error *error);
void pack_run_close(struct pack_run *run);

/* Bytes that a job reads of the checkpoint. */
uint64_t pack_job_bytes(const struct pack_job *job);

/* Columns of a tensor: its second dimension, or its only one. A vector counts as one row. */
uint64_t pack_columns(const struct tensor *tensor);
