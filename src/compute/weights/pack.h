/* SPDX-License-Identifier: Apache-2.0
 * Packing: converts tensors of the mapped checkpoint to the layouts that kernels read, in parallel.
 * It releases mapped pages after use, so that memory does not hold both forms. NaN and infinite
 * values are errors, which name file and tensor.
 */
#pragma once

#include "compute/kernels/kernels.h"
#include "compute/kernels/team.h"
#include "compute/weights/checkpoint.h"
#include "compute/weights/load_progress.h"
#include "compute/weights/upload.h"

/* Increase it whenever the packed layout of the same tensors changes. It is part of the key of
 * files that outlive this program (compute/weights/weights_file.h). */
#define PACK_VERSION 2

enum pack_form {
    PACK_PANELS,            /* rows of W, as panels (compute/kernels/matmul.h) */
    PACK_PANELS_TRANSPOSED, /* rows of W, transposed, as panels */
    PACK_FLOATS,            /* rows of W, as floats, row-major */
    PACK_ROWS,              /* unchanged rows of W, each at a multiple of the pitch; for a device */
    PACK_SCAN, /* only checks the rows for values that are not finite; writes nothing */
};

/* Rows [source_row, source_row + row_count) of a tensor. */
struct pack_job {
    enum pack_form form;
    enum weight_type type; /* of the packed values */
    const struct tensor *tensor;
    const struct tensor *scale; /* multiplied in when codes become F32 or BF16; else NULL */
    uint64_t source_row;
    uint32_t row_count;
    void *data;   /* destination of the first panel or value; PACK_SCAN: NULL */
    void *scales; /* blocks that stay codes: destination of their scales; else NULL */
    size_t pitch; /* PACK_ROWS: bytes from row to row at the destination */
};

struct pack_list {
    struct pack_job *jobs;
    uint32_t count, capacity;
    size_t piece_bytes;    /* approximate maximum of a job; 0: a few MiB */
    struct device *device; /* the jobs' `data` is in its memory; NULL: host memory */
};

/* Splits `whole` into jobs and appends them. A transposed job is not split. */
enum status pack_list_add(struct pack_list *list, const struct pack_job *whole,
                          struct error *error);
void pack_list_free(struct pack_list *list);

/* A run of a list. Jobs may run in any order, and other processes may do some of them. */
struct pack_run {
    const struct pack_list *list;
    struct team *team;
    const struct load_progress *progress;
    uint64_t total_bytes, done_bytes; /* of the checkpoint */
    uint64_t read_bytes;              /* of the checkpoint, read by this process */
    /* The rest is private. */
    uint32_t first_job; /* of the current round */
    size_t buffer_bytes;
    char *buffers;         /* [threads][buffer_bytes]; NULL with a device */
    struct upload *upload; /* with a device */
    uint32_t *bad_jobs;    /* [threads] each thread's first job with a value that is not finite,
                         * or UINT32_MAX */
};

/* Begins a run of the list. Call pack_run_close even after a failure. */
enum status pack_run_open(struct pack_run *run, const struct pack_list *list, struct team *team,
                          const struct load_progress *progress, struct error *error);
enum status pack_run_jobs(struct pack_run *run, uint32_t first, uint32_t count,
                          struct error *error);
/* Marks jobs [first, first + count) as done by another process. */
void pack_run_skip(struct pack_run *run, uint32_t first, uint32_t count);
/* Waits until everything packed so far is at its destination. Copies to a device are
 * asynchronous. */
enum status pack_run_finish(struct pack_run *run, struct error *error);
void pack_run_close(struct pack_run *run);

/* The type in memory of a matrix, unless it is one of a kind that must all have the same. */
enum weight_type pack_type(const struct tensor *tensor);

/* Bytes that a job reads from the checkpoint. */
uint64_t pack_job_bytes(const struct pack_job *job);

/* Columns of a tensor: its second dimension, or its only one. A vector counts as one row. */
uint64_t pack_columns(const struct tensor *tensor);
