/* SPDX-License-Identifier: Apache-2.0
 * Experts' tokens between ranks that are on devices. The exchange (compute/exchange/exchange.h)
 * transports rows of bytes in the host's memory. So rows are packed on the device, go to
 * page-locked memory in one copy, and on as a CPU's rows do; received rows take the same path back.
 * Between ranks of one host it transports row descriptors instead, and rows go from device to
 * device (gpu_peers.h).
 *
 * The micro-batch's stream is waited for in two stages alone, as the exchange is given what lies on
 * the host: in experts_dispatch for the rows that leave, in experts_run_routed for results, wave by
 * wave while later waves are computed. Between ranks' devices nothing is ordered but by what
 * travels.
 */
#ifndef COMPUTE_GPU_GPU_EXCHANGE_H
#define COMPUTE_GPU_GPU_EXCHANGE_H

#include "compute/gpu/gpu_state.h"

/* Behind gpu_state_open, for a model that is one of several ranks; whatever it returns, close it.
 * */
enum status gpu_exchange_open(struct model *model, struct error *error);
/* Before a step, all ranks alike; no work is in line. Nothing where rows pass the host. */
void gpu_exchange_meet(struct model *model);
/* No work is in line. Nothing if it was never opened. */
void gpu_exchange_close(struct model *model);

/* The stages of compute.h, where the exchange carries. Every rank runs them, tokens or none. */
void gpu_exchange_dispatch(const struct pass *pass);
void gpu_exchange_run_routed(const struct pass *pass);
/* The micro-batch's y = the sums of its tokens' results. */
void gpu_exchange_finish(const struct pass *pass);

/* exchange_options.sum, `context` being the model: a stream of its own is waited for. */
void gpu_exchange_sum(void *context, const struct exchange_sum *list, uint32_t count);

#endif
