/* SPDX-License-Identifier: Apache-2.0
 * The seam between a step's flow and its values. The flow (forward.c, stages.c, mtp.c, draft.c)
 * knows tokens, rows, pages, their order, and who is told what when; whatever touches an
 * activation, a weight or a KV row stands behind this header and attention.h, experts.h, mlp.h. The
 * flow names values by the indices of tokens; where they lie it does not know. What comes out of
 * here is logits, likeliest tokens and the probed choice of experts.
 *
 * One set stands, on the CPU (compute_cpu.h). Another has to be batch invariant likewise: what a
 * token gets depends neither on the others nor on the lanes. One caller; each call may lean on the
 * calls before it, and on nothing that comes after.
 */
#ifndef COMPUTE_MODEL_COMPUTE_H
#define COMPUTE_MODEL_COMPUTE_H

#include "compute/model/pass.h"

/* Room for the values of a step of model.scratch_tokens, and for the outputs that slots keep. */
enum status compute_open(struct model *model, struct error *error);
void compute_close(struct model *model);

/* Where a lane's stages work: the step's values from a token on. It stays until the next call. */
struct scratch *compute_lane(struct model *model, uint32_t lane, uint32_t first_token);

/* The step's batch begins: x = its tokens' embeddings; the angles of their positions are known. */
void compute_begin(struct model *model);

/* x += what the last stage has left to be added: attention_finish, mlp_run or experts_finish. */
void compute_add(const struct pass *pass);

/* Gathers outputs, the final norm of x, of the step's tokens [first, first + count): as rows from
 * `row` on. */
void compute_outputs(struct model *model, uint32_t first, uint32_t count, uint32_t row);
/* Logits of the first `count` rows that compute_outputs gathered: [count][vocab]. */
void compute_logits(struct model *model, uint32_t count, float *logits);

/* Logits of the step's tokens [first, first + count), which nobody keeps: a whole prompt's would be
 * too many. Each token's, [vocab], are shown once, in any order and by several threads at the same
 * time; `index` is the token's among those. Undoes what compute_outputs gathered. */
typedef void compute_logits_viewer(void *context, uint32_t index, const float *logits);
void compute_show_logits(struct model *model, uint32_t first, uint32_t count,
                         compute_logits_viewer *view, void *context);

/* For MTP: the outputs of all of the step's tokens stay until the next step begins. */
void compute_keep_outputs(struct model *model);
/* The likeliest token behind a token of the step, by its kept output. */
uint32_t compute_greedy(struct model *model, uint32_t token);
/* A slot keeps, as its outputs 0..count-1, those of the step's tokens from `first` on, until it
 * keeps others. At most 1 + LIMIT_DRAFTS. */
void compute_keep_slot(struct model *model, uint32_t slot, uint32_t first, uint32_t count);

/* MTP (mtp.c has the formulas): u of the positions of model.mtp_rows, then of model.mtp_batch. */
void compute_mtp_project(struct model *model);
/* The pass's batch begins: x = u of its positions, the first of which was projected as the `first`
 * of all. */
void compute_mtp_begin(const struct pass *pass, uint32_t first);
/* Behind the block: each position's likeliest token. */
void compute_mtp_finish(const struct pass *pass, uint32_t *argmax_out);

/* A KV row becomes zeros. */
void compute_clear_row(const struct model *model, struct page_id page, uint32_t slice,
                       uint32_t row);

#endif
