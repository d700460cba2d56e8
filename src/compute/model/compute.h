/* SPDX-License-Identifier: Apache-2.0
 * The interface between a step's control flow and its arithmetic. The flow (forward.c, stages.c,
 * mtp.c, draft.c) handles tokens, rows, pages, their order, and the reports of a step. This table
 * has every function that touches an activation, a weight or a KV row. The flow refers to values by
 * token indices and has no pointers to them. The table returns logits, sampled tokens and the
 * probed choice of experts.
 *
 * There are two tables: the CPU's (compute_cpu.c) and a device's (compute_gpu.h); model_options
 * selects one. Each is batch invariant: a token's values depend neither on other tokens nor on the
 * micro-batches. There is one calling thread. A call depends only on earlier calls. A device only
 * enqueues its work, unless a function returns something to the host.
 */
#pragma once

#include "compute/model/pass.h"

/* Receives the logits [vocab] of each requested token once, in any order and on several threads at
 * the same time. `index`: the token's index among the requested ones. */
typedef void compute_logits_viewer(void *context, uint32_t index, const float *logits);

struct compute {
    /* The kernels' name. Kernels with the same name give bit-identical results. */
    const char *(*numerics)(const struct model *model);

    /* Allocates memory for a step of model.scratch_tokens, and for the outputs kept by slots. */
    enum status (*open)(struct model *model, struct error *error);
    void (*close)(struct model *model);

    /* The scratch of a micro-batch: the step's values from `first_token` on. Valid until the next
     * call. */
    struct scratch *(*micro_batch)(struct model *model, uint32_t micro_batch, uint32_t first_token);
    /* Begins the step's batch, after its micro-batches are set: x = the tokens' embeddings, and the
     * RoPE angles of their positions. `number` identifies the fixed order of stages that follows;
     * 0: the order is dynamic, or values are probed, so that it does not repeat (stages_number).
     * Returns true if the device has enqueued the layers from a graph of that number. The caller
     * then skips them. */
    bool (*begin)(struct model *model, uint32_t number);
    /* Reports slices 0..slices-1 of the plan's rows to the follower as written, once all work that
     * is enqueued so far is done; in `end` at the latest. */
    void (*report)(struct model *model, uint64_t step, uint32_t slices);
    /* Waits for the end of the step. An error means that the device failed and the results are
     * invalid. */
    enum status (*end)(struct model *model, struct error *error);

    /* Records on the device when `part` of the pass's work is done or, with STAGE_PART_COUNT, when
     * a stage begins. `end` then calls model_trace.took. NULL: the host's clock is used. */
    void (*mark)(const struct pass *pass, enum stage_part part);

    /* x += the output of the last stage: attention_finish, mlp_run or experts_finish. */
    void (*add)(const struct pass *pass);

    /* Reads x. Computes the queries, writes the batch's KV rows to their pages, and runs the core
     * attention of the first pass.early generated tokens. */
    void (*attention_begin)(const struct pass *pass);
    /* Core attention of the other tokens, and the output projection. `add` adds the result to x. */
    void (*attention_finish)(const struct pass *pass);
    /* Computes and writes only the KV rows. */
    void (*attention_write_rows)(const struct pass *pass);

    /* A dense layer's MLP. Reads x. `add` adds the result to x. */
    void (*mlp_run)(const struct pass *pass);

    /* The stages of a MoE layer, in order. The first reads x and chooses each token's experts. */
    void (*experts_route)(const struct pass *pass);
    void (*experts_dispatch)(const struct pass *pass);
    void (*experts_run_shared)(const struct pass *pass);
    void (*experts_run_routed)(const struct pass *pass);
    /* `add` adds the result to x. */
    void (*experts_finish)(const struct pass *pass);
    /* For exchange_options.sum: sums a token's results of one group in host memory. `context`: the
     * model. */
    void (*experts_sum)(void *context, const struct exchange_sum *list, uint32_t count);
    /* Copies a token's chosen experts to the host: experts_out[experts_per_token], ascending. */
    void (*experts_chosen)(const struct pass *pass, uint32_t token, uint32_t *experts_out);
    /* The positions that a token of the batch attends to: [index_top_k], ascending, then
     * UINT32_MAX. Only for models with an indexer. */
    void (*rows_attended)(const struct pass *pass, uint32_t token, uint32_t *positions_out);

    /* Gathers the outputs (final norm of x) of the step's tokens [first, first + count) as rows
     * from `row` on. */
    void (*outputs)(struct model *model, uint32_t first, uint32_t count, uint32_t row);
    /* Copies the logits of the first `count` gathered rows to the host: [count][vocab]. */
    void (*logits)(struct model *model, uint32_t count, float *logits);
    /* Samples tokens from the logits of gathered rows [first, first + count) by rules[count], and
     * copies them to the host. Same tokens as sample_draw. NULL: logits are in host memory
     * anyway. */
    void (*draw)(struct model *model, uint32_t first, uint32_t count, const struct draw_rule *rules,
                 uint32_t *tokens_out);
    /* Passes the logits of the step's tokens [first, first + count) to `view` on the host, one by
     * one, as a whole prompt's logits would not fit. Invalidates the rows gathered by `outputs`. */
    void (*show_logits)(struct model *model, uint32_t first, uint32_t count,
                        compute_logits_viewer *view, void *context);

    /* For MTP: keeps the outputs of all of the step's tokens until the next step begins. */
    void (*keep_outputs)(struct model *model);
    /* The most likely token after a token of the step, from its kept output. */
    uint32_t (*greedy)(struct model *model, uint32_t token);
    /* Replaces the slot's kept outputs 0..count-1 by those of the step's tokens from `first` on. At
     * most 1 + LIMIT_DRAFTS. */
    void (*keep_slot)(struct model *model, uint32_t slot, uint32_t first, uint32_t count);

    /* MTP (formulas in mtp.c): computes u of the positions of model.mtp_rows, then of
     * model.mtp_batch. */
    void (*mtp_project)(struct model *model);
    /* Begins the pass's batch: x = u of its positions, which begin at index `first` of all
     * projected positions. */
    void (*mtp_begin)(const struct pass *pass, uint32_t first);
    /* After the MTP block: copies each position's most likely token to the host. */
    void (*mtp_finish)(const struct pass *pass, uint32_t *argmax_out);

    /* Zeroes a KV row. */
    void (*clear_row)(const struct model *model, struct page_id page, uint32_t slice, uint32_t row);
};

struct model_options; /* compute/model/model.h */

/* A device that can hold a model and compute it. */
struct model_device {
    const char *name; /* the value of --device */
    const struct compute *compute;
    /* Sets model.device, which holds the model in its memory. NULL: the model is in host memory. */
    enum status (*open)(struct model *model, const struct model_options *options,
                        struct error *error);
};

extern const struct model_device model_on_cpu;
