/* SPDX-License-Identifier: Apache-2.0
 * What a step computes, as its flow asks for it (forward.c, stages.c, mtp.c, draft.c, plan.c). The
 * flow knows tokens, rows, pages, their order, and who is told what when; whatever touches an
 * activation, a weight or a KV row is done here. Of values the flow sees only what comes out:
 * logits, the likeliest tokens, the probed choice of experts.
 *
 * One set stands, on the CPU: compute.c, attention*.c, experts.c, mlp.c (compute_cpu.h). Another
 * has to be batch invariant likewise: what a token gets depends neither on the others nor on the
 * lanes. One caller; each call may lean on the calls before it, and on nothing that comes after.
 */
#ifndef COMPUTE_MODEL_COMPUTE_H
#define COMPUTE_MODEL_COMPUTE_H

#include "compute/model/forward.h"

/* x = the embeddings of the step's tokens. */
void compute_embed(struct model *model);

/* x += scratch.y for all tokens of the batch; x is scratch.x. */
void compute_add(const struct pass *pass);

/* Reads scratch.x; what it adds is left in scratch.y by attention_finish. */
void attention_begin(const struct pass *pass);
void attention_finish(const struct pass *pass);
void attention_write_rows(const struct pass *pass); /* the KV rows, and nothing else */

/* scratch.y = what the dense MLP adds; reads scratch.x. */
void mlp_run(const struct pass *pass);

/* The stages of a MoE layer, in order; experts_finish leaves in scratch.y what the layer adds. */
void experts_route(const struct pass *pass);
void experts_dispatch(const struct pass *pass);
void experts_run_shared(const struct pass *pass);
void experts_run_routed(const struct pass *pass);
void experts_finish(const struct pass *pass);
/* What a token of the batch has chosen: experts_out[experts_per_token], ascending. */
void experts_chosen(const struct pass *pass, uint32_t token, uint32_t *experts_out);

/* The final norm of x, of tokens [first, first + count) of the step, as rows of scratch.normed from
 * `row` on; or of all tokens, as scratch.hidden, for MTP. */
void compute_outputs(struct model *model, uint32_t first, uint32_t count, uint32_t row);
void compute_keep_outputs(struct model *model);

/* logits[i] = head(row i of `hidden`), rows [count][hidden] already normalized. */
void compute_logits(struct model *model, const float *hidden, uint32_t count, float *logits,
                    uint32_t *argmax_out /* or NULL; then logits may be NULL if argmax is not */);

/* Those of the step's tokens [first, first + count), norm and head, which nobody keeps: a whole
 * prompt's would be too many. Each token's, [vocab], are shown once, in any order and by several
 * threads at the same time; `index` is the token's among those. Takes scratch.normed. */
typedef void compute_logits_viewer(void *context, uint32_t index, const float *logits);
void compute_show_logits(struct model *model, uint32_t first, uint32_t count,
                         compute_logits_viewer *view, void *context);

/* MTP: u of the positions of scratch.mtp_rows, then of scratch.mtp_batch; x = u of `count` of them
 * from `first` on; and, behind the block, each position's likeliest token. */
void compute_mtp_project(struct model *model);
void compute_mtp_begin(struct model *model, uint32_t first, uint32_t count);
void compute_mtp_finish(const struct pass *pass, uint32_t *argmax_out);

/* A slot keeps the outputs (scratch.hidden) of `count` tokens of the step from `first` on. */
void compute_keep_slot(struct model *model, uint32_t slot, uint32_t first, uint32_t count);
/* Where they lie. */
const float *compute_kept(const struct model *model, uint32_t slot, uint32_t index);

/* A KV row becomes zeros. */
void compute_clear_row(const struct model *model, struct page_id page, uint32_t slice,
                       uint32_t row);

#endif
