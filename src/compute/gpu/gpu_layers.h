/* SPDX-License-Identifier: Apache-2.0
 * The stages of a layer, enqueued on a device; and the arguments of kernels for rows and matrices.
 */
#pragma once

#include "compute/gpu/gpu_state.h"
#include "compute/model/compute_layer.h"

/* A matrix without its pointers, which kernel arguments contain separately. */
static inline struct packed_matrix gpu_matrix_layout(const struct packed_matrix *matrix) {
    struct packed_matrix format = *matrix;
    format.data = NULL;
    format.scales = NULL;
    return format;
}

static inline struct gpu_row_format gpu_row_format_of(const struct gpu_rows *rows,
                                                      enum input_kind kind) {
    return (struct gpu_row_format){kind, rows->pitch, rows->scale_stride};
}

/* Prepared rows from a row on, a multiple of 4. */
static inline struct gpu_rows gpu_rows_from(const struct gpu_rows *rows, uint32_t row) {
    struct gpu_rows from = *rows;
    from.data += (size_t)row * rows->pitch;
    from.scales += row;
    return from;
}

/* Enqueues the kernel `kernel` of the table. */
#define gpu_launch(state, stream, kernel, arguments)                                               \
    ((state)->launches++, device_launch((state)->device, stream, &(state)->kernels->kernel,        \
                                        &(arguments), sizeof(arguments)))

/* Prepares rows of x in the format `kind`; the other arguments are set. */
void gpu_layers_prepare_rows(const struct model *model, struct device_stream *stream,
                             const struct gpu_rows *to, enum input_kind kind,
                             struct gpu_prepare arguments);

/* y[rows][y_stride] = W x of prepared rows; `live` as in gpu_kernels.h. */
void gpu_layers_multiply(const struct model *model, struct device_stream *stream,
                         const struct packed_matrix *weights, const struct gpu_rows *x,
                         enum input_kind kind, float *y, uint32_t y_stride, uint32_t rows,
                         const uint32_t *live);

/* (token, expert) pairs that are computed together. */
struct gpu_pairs {
    uint32_t base_row;     /* first row in expert_input, from which groups count; a multiple of 4 */
    uint32_t first, count; /* range of rows, counted from base_row */
    const struct gpu_group *groups; /* in device memory */
    uint32_t group_count;
    const uint32_t *live; /* number of live tokens, each with live_each rows; NULL: all */
    uint32_t live_each;
    const char *slots; /* memory of slot 0 of the groups */
    uint32_t slot_count;
};

/* The format of the routed experts' inputs. */
enum input_kind gpu_layers_routed_kind(const struct pass *pass);
/* Computes the experts of the pairs, from expert_input to expert_y. */
void gpu_layers_experts_multiply(const struct pass *pass, const struct gpu_pairs *pairs);

/* Stages of compute.h. Those of experts are for one rank; gpu_exchange.h has dispatch, run_routed
 * and finish for several. */
void gpu_layers_attention_begin(const struct pass *pass);
void gpu_layers_attention_finish(const struct pass *pass);
void gpu_layers_attention_write_rows(const struct pass *pass);
void gpu_layers_mlp_run(const struct pass *pass);
void gpu_layers_experts_route(const struct pass *pass);
void gpu_layers_experts_dispatch(const struct pass *pass);
void gpu_layers_experts_run_shared(const struct pass *pass);
void gpu_layers_experts_run_routed(const struct pass *pass);
/* The two halves of experts_finish: y = the weighted sums of the pairs' results; y += the shared
 * expert. */
void gpu_layers_experts_combine(const struct pass *pass);
void gpu_layers_experts_add_shared(const struct pass *pass);
void gpu_layers_experts_chosen(const struct pass *pass, uint32_t token, uint32_t *experts_out);
