/* SPDX-License-Identifier: Apache-2.0
 * Peer memory between the devices of ranks on one host. Each rank has two buffers that the other
 * ranks map: one with the rows of its tokens, one for the results that return. The exchange then
 * transports a row descriptor, which names the row and its experts. The computing rank reads the
 * row in its owner's memory, and writes the result to its owner's memory. A message announces rows
 * only after the device has finished writing them, so the exchange orders the devices' accesses.
 * Verified by emulation; CUDA's IPC handles have not yet run on a GPU.
 *
 * Owns the addresses of all buffers, and the format of a row descriptor. Only files gpu_*.c include
 * it.
 */
#pragma once

#include "compute/device/device.h"

struct gpu_peer_buffers {
    char *rows;    /* [rows][row_bytes] packed rows */
    char *results; /* [rows][per_token][result_bytes], by the token's experts in ascending order */
};

struct gpu_peers;

/* `own`: this rank's buffers, shared memory of the device that outlives the peers. */
enum status gpu_peers_open(struct device *device, uint32_t ranks, uint32_t rank,
                           const struct gpu_peer_buffers *own, struct gpu_peers **peers_out,
                           struct error *error) MUST_USE;
/* No work is enqueued. */
void gpu_peers_close(struct gpu_peers *peers);

/* Before a step, on all ranks: if the set of living ranks has changed, maps the buffers of all
 * living ranks anew. No work is enqueued. Not OK: a living rank's buffer cannot be mapped. */
enum status gpu_peers_connect(struct gpu_peers *peers, struct error *error) MUST_USE;
/* The buffers of a rank; if it is gone this rank's own, since the results are discarded. */
struct gpu_peer_buffers gpu_peers_buffers(const struct gpu_peers *peers, uint32_t rank);

/* Whether a rank's death explains a failed operation: true if the job is broken, or the launcher
 * reports a death within some seconds. */
bool gpu_peers_rank_died(void);

/* A row descriptor: its bytes, a multiple of EXCHANGE_ALIGN; and writing one. `row`: index in the
 * rank's buffers. `experts`: [per_token], ascending. */
size_t gpu_peers_row_descriptor_bytes(uint32_t per_token);
void gpu_peers_row_descriptor_write(char *row_descriptor, uint32_t rank, uint32_t row,
                                    const uint32_t *experts, uint32_t per_token);
uint32_t gpu_peers_row_descriptor_rank(const char *row_descriptor);
uint32_t gpu_peers_row_descriptor_row(const char *row_descriptor);
/* The index of an expert among the descriptor's experts, which include it. */
uint32_t gpu_peers_row_descriptor_place(const char *row_descriptor, uint32_t expert,
                                        uint32_t per_token);
