/* SPDX-License-Identifier: Apache-2.0
 * The stages of a MoE layer, in order; part of the seam (compute/model/compute.h).
 */
#ifndef COMPUTE_MODEL_EXPERTS_H
#define COMPUTE_MODEL_EXPERTS_H

#include "compute/model/pass.h"

/* Reads x: each token's choice of experts. */
void experts_route(const struct pass *pass);
void experts_dispatch(const struct pass *pass);
void experts_run_shared(const struct pass *pass);
void experts_run_routed(const struct pass *pass);
/* Leaves what is to be added to x. */
void experts_finish(const struct pass *pass);

/* exchange_options.sum: sums of a token's results of one group, `context` being the model. */
void experts_sum(void *context, const struct exchange_sum *list, uint32_t count);

/* What a token of the batch has chosen: experts_out[experts_per_token], ascending. */
void experts_chosen(const struct pass *pass, uint32_t token, uint32_t *experts_out);

#endif
