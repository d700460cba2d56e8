/* SPDX-License-Identifier: Apache-2.0
 * Packing: turns tensors of the mapped checkpoint into the forms that kernels read, in parallel,
 * and lets go of the mapped pages behind it, so that the packed form replaces the raw one in
 * memory. Refuses NaN and infinite values, naming file and tensor.
 */
#ifndef MODEL_PACK_H
#define MODEL_PACK_H

#include "kernels/kernels.h"
#include "kernels/team.h"
#include "model/checkpoint.h"

enum pack_form {
    PACK_PANELS,            /* rows of W, as panels (kernels/matmul.h) */
    PACK_PANELS_TRANSPOSED, /* the same rows, transposed first */
    PACK_FLOATS,            /* as floats, row-major */
    PACK_SCAN, /* nothing is kept: only looked through for values that are not finite */
};

/* Rows [source_row, source_row + row_count) of a tensor. */
struct pack_job {
    enum pack_form form;
    enum weight_type type; /* of the panels */
    const struct tensor *tensor;
    const struct tensor *scale; /* multiplied in when E4M3 becomes F32; else NULL */
    uint64_t source_row;
    uint32_t row_count;
    void *data; /* where the rows' first panel, or first float, goes; PACK_SCAN: NULL */
};

struct pack_list {
    struct pack_job *jobs;
    uint32_t count, capacity;
};

/* Appends jobs for the rows, cut into pieces of a few MiB (a transposed one stays whole). */
enum status pack_list_add(struct pack_list *list, const struct pack_job *whole,
                          struct error *error);
void pack_list_free(struct pack_list *list);

struct pack_progress {
    void (*report)(void *context, uint64_t done_bytes, uint64_t total_bytes); /* may be NULL */
    void *context;
};

enum status pack_list_run(const struct pack_list *list, struct team *team,
                          const struct pack_progress *progress, struct error *error);

/* Columns of a tensor: its second dimension, or its only one. A vector counts as one row. */
uint64_t pack_columns(const struct tensor *tensor);

#endif
