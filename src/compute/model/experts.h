/* SPDX-License-Identifier: Apache-2.0
 * The stages of a MoE layer on the CPU. compute/model/compute.h documents each function.
 */
#pragma once

#include "compute/model/pass.h"

void experts_route(const struct pass *pass);
void experts_dispatch(const struct pass *pass);
void experts_run_shared(const struct pass *pass);
void experts_run_routed(const struct pass *pass);
void experts_finish(const struct pass *pass);

/* For exchange_options.sum: sums a token's results of one group. `context`: the model. */
void experts_sum(void *context, const struct exchange_sum *list, uint32_t count);

void experts_chosen(const struct pass *pass, uint32_t token, uint32_t *experts_out);
