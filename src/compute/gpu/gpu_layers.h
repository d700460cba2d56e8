/* SPDX-License-Identifier: Apache-2.0
 * A layer on a device, put in line; and how kernels are given rows and matrices.
 */
#ifndef COMPUTE_GPU_GPU_LAYERS_H
#define COMPUTE_GPU_GPU_LAYERS_H

#include "compute/gpu/gpu_state.h"
#include "compute/model/compute_layer.h"

/* A matrix without its pointers, as kernels' arguments have it. */
static inline struct packed_matrix gpu_matrix_form(const struct packed_matrix *matrix) {
    struct packed_matrix form = *matrix;
    form.data = NULL;
    form.scales = NULL;
    return form;
}

static inline struct gpu_form gpu_form_of(const struct gpu_rows *rows, enum input_kind kind) {
    return (struct gpu_form){kind, rows->pitch, rows->scale_stride};
}

/* Prepared rows from a row on, a multiple of 4. */
static inline struct gpu_rows gpu_rows_from(const struct gpu_rows *rows, uint32_t row) {
    struct gpu_rows from = *rows;
    from.data += (size_t)row * rows->pitch;
    from.scales += row;
    return from;
}

/* Puts a kernel in line, of the table's entry `kernel`. */
#define gpu_launch(state, stream, kernel, arguments)                                               \
    ((state)->launches++, device_launch((state)->device, stream, &(state)->kernels->kernel,        \
                                        &(arguments), sizeof(arguments)))

/* rows of x, normalized by `norm` unless it is NULL, as `kind` wants them, from `row` on. */
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
    uint32_t room;         /* row of expert_input that groups' rows count from, a multiple of 4 */
    uint32_t first, count; /* rows, counted from there: those of the groups */
    const struct gpu_group *groups; /* on the device */
    uint32_t group_count;
    const uint32_t *live; /* how many times live_each rows are there; NULL: all */
    uint32_t live_each;
    const char *slots; /* the one that groups call 0 */
    uint32_t slot_count;
};

/* How the routed experts want their inputs. */
enum input_kind gpu_layers_routed_kind(const struct pass *pass);
/* The experts of the pairs with inputs in expert_input: results in expert_y. */
void gpu_layers_experts_multiply(const struct pass *pass, const struct gpu_pairs *pairs);

/* Stages as compute.h describes them. Those of the experts are for a rank without an exchange; with one,
 * gpu_exchange.h has dispatch, run_routed and finish. */
void gpu_layers_attention_begin(const struct pass *pass);
void gpu_layers_attention_finish(const struct pass *pass);
void gpu_layers_attention_write_rows(const struct pass *pass);
void gpu_layers_mlp_run(const struct pass *pass);
void gpu_layers_experts_route(const struct pass *pass);
void gpu_layers_experts_dispatch(const struct pass *pass);
void gpu_layers_experts_run_shared(const struct pass *pass);
void gpu_layers_experts_run_routed(const struct pass *pass);
/* The two halves of experts_finish: y = the weighted sums of the pairs' results; y += the shared expert. */
void gpu_layers_experts_combine(const struct pass *pass);
void gpu_layers_experts_add_shared(const struct pass *pass);
void gpu_layers_experts_chosen(const struct pass *pass, uint32_t token, uint32_t *experts_out);

#endif
