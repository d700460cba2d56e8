/* SPDX-License-Identifier: Apache-2.0
 * Ranks of one host with devices that reach each other's memory: each has rooms that the others
 * map, one for the rows of its tokens and one for the results that come back. The exchange then
 * transports a row descriptor, which names the row's place and its experts. The computing rank
 * reads the row there, and writes the result where the descriptor says. Only messages announce
 * rows, and they leave when the device's work is done: so the exchange is unchanged, and orders all
 * that devices do with each other. Verified by emulation; CUDA's way (IPC handles) was never run.
 *
 * Owns the addresses of all rooms, and the form of a row descriptor. Only files gpu_*.c include it.
 */
#ifndef COMPUTE_GPU_GPU_PEERS_H
#define COMPUTE_GPU_GPU_PEERS_H

#include "compute/device/device.h"

struct gpu_rooms {
    char *rows;    /* [rows][row_bytes] as they travel */
    char *results; /* [rows][per_token][result_bytes], by the token's experts in ascending order */
};

struct gpu_peers;

/* `own`: shared memory of the device, this rank's; it outlives the peers. */
enum status gpu_peers_open(struct device *device, uint32_t ranks, uint32_t rank,
                           const struct gpu_rooms *own, struct gpu_peers **peers_out,
                           struct error *error) MUST_USE;
/* No work is in line. */
void gpu_peers_close(struct gpu_peers *peers);

/* Before a step, all ranks alike: who has come since the last is asked for its rooms, and who is
 * gone forgotten. No work is in line. Not OK: a room of a rank that lives cannot be mapped. */
enum status gpu_peers_meet(struct gpu_peers *peers, struct error *error) MUST_USE;
/* The memory of a rank; of an unreachable one this rank's own, because its results are ignored. */
struct gpu_rooms gpu_peers_rooms(const struct gpu_peers *peers, uint32_t rank);

/* Whether a failed operation with other ranks is explained by a death: true once the launcher has
 * reported it, or the job was broken before. False: no report came for some seconds. */
bool gpu_peers_died(void);

/* A ticket is a multiple of EXCHANGE_ALIGN. `row`: of the rank's rooms. `experts`: [per_token],
 * ascending. */
size_t gpu_peers_row_descriptor_bytes(uint32_t per_token);
void gpu_peers_row_descriptor_write(char *row_descriptor, uint32_t rank, uint32_t row,
                                    const uint32_t *experts, uint32_t per_token);
uint32_t gpu_peers_row_descriptor_rank(const char *row_descriptor);
uint32_t gpu_peers_row_descriptor_row(const char *row_descriptor);
/* Which of its experts, counted from 0, that one is, which is one of them. */
uint32_t gpu_peers_row_descriptor_place(const char *row_descriptor, uint32_t expert,
                                        uint32_t per_token);

#endif
