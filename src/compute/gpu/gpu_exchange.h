/* SPDX-License-Identifier: Apache-2.0
 * The exchange of expert parallelism for ranks on devices. The exchange
 * (compute/exchange/exchange.h) transports rows of bytes in host memory. So rows are packed on the
 * device, copied to page-locked memory at once, and sent as a CPU's rows are. Received rows take
 * the same path back. With peer memory (gpu_peers.h) or communicators (gpu_comm.h) the exchange
 * transports only row descriptors, and rows go from device to device.
 *
 * The host waits for a micro-batch's stream in two stages, since the exchange needs data on the
 * host: in experts_dispatch for outgoing rows, and in experts_run_routed for results, batch by
 * batch while later batches are computed. Only messages order the work of different ranks' devices.
 */
#pragma once

#include "compute/gpu/gpu_state.h"

/* After gpu_state_open, for a model of several ranks. Close it on any status. */
enum status gpu_exchange_open(struct model *model, struct error *error);
/* Before a step, on all ranks: connects the ranks' devices. No work is enqueued. Does nothing if
 * rows pass through the host. */
void gpu_exchange_connect(struct model *model);
/* No work is enqueued. Does nothing if it was never opened. */
void gpu_exchange_close(struct model *model);

/* Stages of compute.h, for several ranks. Every rank runs them, with or without tokens. */
void gpu_exchange_dispatch(const struct pass *pass);
void gpu_exchange_run_routed(const struct pass *pass);
/* y of the micro-batch = the sums of its tokens' results. */
void gpu_exchange_finish(const struct pass *pass);

/* exchange_options.sum; `context` is the model. Waits for a stream of its own. */
void gpu_exchange_sum(void *context, const struct exchange_sum *list, uint32_t count);
