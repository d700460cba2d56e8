/* SPDX-License-Identifier: Apache-2.0
 * The interface between a step's flow and its values. The flow (forward.c, stages.c, mtp.c,
 * draft.c) handles tokens, rows, pages, their order, and the reports of a step. Each function that
 * touches an activation, a weight or a KV row is in this table. The flow names values by the
 * indices of tokens and has no pointer to one. The table returns logits, drawn tokens and the
 * probed choice of experts.
 *
 * There are two tables: the CPU's (compute_cpu.c) and a device's (compute_gpu.h); model_options
 * selects one. Each is batch invariant: a token's values depend neither on other tokens nor on the
 * micro-batches. There is one caller. A call may depend on the calls before it only. A device only
 * enqueues its work, unless a function returns something to the host.
 */
#pragma once

#include "compute/model/pass.h"

/* Each token's logits, [vocab], are shown once, in any order and by several threads at the same
 * time; `index` is the token's among those asked for. */
typedef void compute_logits_viewer(void *context, uint32_t index, const float *logits);

struct compute {
    /* Kernels of the same name give the same bits. */
    const char *(*numerics)(const struct model *model);

    /* Room for the values of a step of model.scratch_tokens, and for the outputs that slots keep.
     * */
    enum status (*open)(struct model *model, struct error *error);
    void (*close)(struct model *model);

    /* Where a micro-batch's stages work: the step's values from a token on. It stays until the next
     * call. */
    struct scratch *(*micro_batch)(struct model *model, uint32_t micro_batch, uint32_t first_token);
    /* Begins the step's batch, after its micro-batches are set: x = its tokens' embeddings;
     * computes the angles of their positions. `number` identifies the fixed order of stages
     * that follows; 0: the order is dynamic, or probes values, and does not repeat (stages_number).
     * True: the device has enqueued the layers from a graph of that number, and the caller skips
     * them. */
    bool (*begin)(struct model *model, uint32_t number);
    /* Slices 0..slices-1 of the plan's rows are written when all work enqueued so far is done. Reports
     * them to the follower then, or at the latest in `end`. */
    void (*report)(struct model *model, uint64_t step, uint32_t slices);
    /* Waits for the end of the step. Not OK: the device has failed, and the results are invalid. */
    enum status (*end)(struct model *model, struct error *error);

    /* Records on the device the time at which `part` of the pass's work is done, or with
     * STAGE_PART_COUNT a stage begins. `end` calls model_trace.took. NULL: the host's clock is used. */
    void (*mark)(const struct pass *pass, enum stage_part part);

    /* x += what the last stage has left to be added: attention_finish, mlp_run or experts_finish.
     * */
    void (*add)(const struct pass *pass);

    /* Reads x: queries, and the batch's KV rows, written to their pages; the core of pass.early
     * tokens. */
    void (*attention_begin)(const struct pass *pass);
    /* The others' core and the output projection; leaves what is to be added to x. */
    void (*attention_finish)(const struct pass *pass);
    /* The KV rows, and nothing else. */
    void (*attention_write_rows)(const struct pass *pass);

    /* A dense layer's MLP. Reads x; leaves what is to be added to it. */
    void (*mlp_run)(const struct pass *pass);

    /* The stages of a MoE layer, in order. Reads x: each token's choice of experts. */
    void (*experts_route)(const struct pass *pass);
    void (*experts_dispatch)(const struct pass *pass);
    void (*experts_run_shared)(const struct pass *pass);
    void (*experts_run_routed)(const struct pass *pass);
    /* Leaves what is to be added to x. */
    void (*experts_finish)(const struct pass *pass);
    /* exchange_options.sum: sums of a token's results of one group, in the host's memory; `context`
     * is the model. */
    void (*experts_sum)(void *context, const struct exchange_sum *list, uint32_t count);
    /* Copies a token's chosen experts to the host: experts_out[experts_per_token], ascending. */
    void (*experts_chosen)(const struct pass *pass, uint32_t token, uint32_t *experts_out);

    /* Gathers outputs, the final norm of x, of the step's tokens [first, first + count): as rows
     * from `row` on. */
    void (*outputs)(struct model *model, uint32_t first, uint32_t count, uint32_t row);
    /* Logits of the first `count` rows that `outputs` gathered, to the host: [count][vocab]. */
    void (*logits)(struct model *model, uint32_t count, float *logits);
    /* The tokens that rules[count] draw from the logits of gathered rows [first, first + count), to
     * the host: those of sample_draw. NULL: logits lie there anyway. */
    void (*draw)(struct model *model, uint32_t first, uint32_t count, const struct draw_rule *rules,
                 uint32_t *tokens_out);
    /* Logits of the step's tokens [first, first + count), to the host, which keeps none: a whole
     * prompt's would be too many. Undoes what `outputs` gathered. */
    void (*show_logits)(struct model *model, uint32_t first, uint32_t count,
                        compute_logits_viewer *view, void *context);

    /* For MTP: the outputs of all of the step's tokens stay until the next step begins. */
    void (*keep_outputs)(struct model *model);
    /* The likeliest token behind a token of the step, by its kept output; to the host. */
    uint32_t (*greedy)(struct model *model, uint32_t token);
    /* A slot keeps, as its outputs 0..count-1, those of the step's tokens from `first` on, until it
     * keeps others. At most 1 + LIMIT_DRAFTS. */
    void (*keep_slot)(struct model *model, uint32_t slot, uint32_t first, uint32_t count);

    /* MTP (mtp.c has the formulas): u of the positions of model.mtp_rows, then of
     * model.mtp_batch. */
    void (*mtp_project)(struct model *model);
    /* The pass's batch begins: x = u of its positions, the first of which was projected as the
     * `first` of all. */
    void (*mtp_begin)(const struct pass *pass, uint32_t first);
    /* Behind the block: each position's likeliest token, to the host. */
    void (*mtp_finish)(const struct pass *pass, uint32_t *argmax_out);

    /* A KV row becomes zeros. */
    void (*clear_row)(const struct model *model, struct page_id page, uint32_t slice, uint32_t row);
};

struct model_options; /* compute/model/model.h */

/* Where a model lies, and what calculates there. */
struct model_device {
    const char *name; /* as --device has it */
    const struct compute *compute;
    /* Sets model.device, which holds the model in its memory. NULL: the host's memory holds it. */
    enum status (*open)(struct model *model, const struct model_options *options,
                        struct error *error);
};

extern const struct model_device model_on_cpu;
