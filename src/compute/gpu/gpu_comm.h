/* SPDX-License-Identifier: Apache-2.0
 * Rows and results between the devices of ranks on several hosts, by communicators
 * (compute/device/device.h; NCCL on GPUs). The exchange transports row descriptors (gpu_peers.h),
 * which announce rows to the computing rank. Sender and receiver derive the same rounds from them
 * (gpu_rounds.h). Each round enqueues two groups of sends and receives on the micro-batch's stream:
 * the rows, and after the experts their results. With two levels, a group before the first round
 * sends rows once to each node, and the rounds' groups forward them there. Verified by emulation;
 * NCCL has not yet run on a GPU.
 *
 * Why there is no deadlock. Each micro-batch has a communicator, and on all ranks its groups have
 * the same order: rows to nodes, rows of round 0, results of round 0, rows of round 1 and so on,
 * layer after layer. All ranks run their stages in one fixed order (model.fixed_order), and a stage
 * waits only for the same or earlier stages of other ranks: a group for groups of the same or
 * earlier stages, a message for messages begun in earlier stages. So the earliest stage that waits
 * can always proceed. If a rank has died, the communicator is closed and its groups end; what they
 * should have received is arbitrary, and the step's results are discarded.
 *
 * Owns the communicators, the rounds, and the buffers of a round. Only files gpu_*.c include it.
 */
#pragma once

#include "compute/gpu/gpu_state.h"

struct gpu_comm;

/* The exchange's device memory, for the rows of all micro-batches. */
struct gpu_comm_buffers {
    char *rows; /* [rows_max][row_bytes] packed rows */
    /* [rows_max * per_token][result_bytes] results of a micro-batch's pairs, in the order of
     * gpu_rounds.h */
    char *results;
    size_t row_bytes, result_bytes;
    /* [gpu_comm_outgoing_max] addresses of the rows to send; in page-locked memory too */
    const char **outgoing, **outgoing_host;
};

/* The most rows that a rank sends in a round and before it. */
uint32_t gpu_comm_outgoing_max(const struct model *model, uint32_t chunk_pairs);

/* A round has chunk_pairs pairs of each rank. Close it on any status. */
enum status gpu_comm_open(struct model *model, struct gpu_allocator *allocator,
                          const struct gpu_comm_buffers *buffers, uint32_t chunk_pairs,
                          struct gpu_comm **comm_out, struct error *error);
void gpu_comm_close(struct gpu_comm *comm);

/* Before a step, on all ranks: if the set of living ranks has changed, opens new communicators
 * among them. No work is enqueued. Ends the process (job_abort) if it cannot connect, or if a
 * communicator breaks although no rank has died. */
void gpu_comm_connect(struct gpu_comm *comm);

/* Closes the communicators if the job is broken. Called while the host waits for the device. */
void gpu_comm_poll(struct gpu_comm *comm);

/* Begins the experts' stage. `received`: the most pairs received from one rank. places_out receives
 * for each of the micro-batch's own pairs the index of its result among the micro-batch's results,
 * or GPU_NO_PAIR if the computing rank is gone. Returns the number of rounds. */
uint32_t gpu_comm_begin(struct gpu_comm *comm, const struct pass *pass, uint32_t received,
                        uint32_t *places_out);
/* Lists the rows to send in a round, and before the first round those to other nodes. The device
 * must have read the previous list. gpu_comm_outgoing returns their number. */
void gpu_comm_list_rows(struct gpu_comm *comm, const struct pass *pass, uint32_t round);
uint32_t gpu_comm_outgoing(const struct gpu_comm *comm);
/* The addresses of a received pair's row and of its result; called in the order of the exchange.
 * False: the pair belongs to another round. */
bool gpu_comm_locate(struct gpu_comm *comm, const char *row_descriptor, const char **from_out,
                     char **to_out);
/* Enqueue on the micro-batch's stream: after the copy of the list, the packing and the groups of
 * rows; after the experts, the group of results. */
void gpu_comm_send_rows(struct gpu_comm *comm, const struct pass *pass);
void gpu_comm_send_results(struct gpu_comm *comm, const struct pass *pass);
