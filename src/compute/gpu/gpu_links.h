/* SPDX-License-Identifier: Apache-2.0
 * Ranks of several hosts with devices that are joined by links (compute/device/device.h; NCCL on
 * GPUs): rows of a dispatch and results of a combine go from device to device. The exchange
 * transports row descriptors (gpu_peers.h), which announce the rows to the computing rank; the
 * sender knows from its own choices what goes where. So both sides cut rounds alike (gpu_pieces.h),
 * and each round is two groups on the micro-batch's stream: rows, and behind the experts their
 * results. Where the exchange goes by nodes, a group ahead of the rounds brings rows once to each
 * node, and the rounds' groups pass them on there. Verified by emulation; NCCL's way was never run
 * on a GPU.
 *
 * Why no ring of waiting forms. A micro-batch has a link of its own, and its groups run in the
 * order rows to nodes, rows 0, results 0, rows 1 and so on of layer after layer, on all ranks.
 * Ranks run their stages in one order, the same on all (model.fixed_order), and a stage waits for
 * nothing that a later stage of any rank puts in line: a group for groups of the same stage and
 * earlier ones, a message for what was begun in earlier ones. So of all that is waited for, the
 * first can always go on. A link that is closed, as a rank has died, ends its groups; what they
 * should have brought means nothing, like all of that step.
 *
 * Owns the links, the cut, and rooms for what leaves and comes in a round. Only files gpu_*.c
 * include it.
 */
#ifndef COMPUTE_GPU_GPU_LINKS_H
#define COMPUTE_GPU_GPU_LINKS_H

#include "compute/gpu/gpu_state.h"

struct gpu_links;

/* The exchange's memory on the device, for the rows of each micro-batch. */
struct gpu_links_rooms {
    char *rows; /* [rows_max][row_bytes] as they travel */
    /* [rows_max * per_token][result_bytes] of a micro-batch's pairs, in the order of pieces */
    char *results;
    size_t row_bytes, result_bytes;
    const char **leaves,
        **leaves_host; /* [gpu_links_leaves] where rows lie that leave; and page-locked */
};

/* The most rows that leave in a round and ahead of it. */
uint32_t gpu_links_leaves(const struct model *model, uint32_t piece_pairs);

/* A round of a rank: piece_pairs of each rank. Close it whatever it returns. */
enum status gpu_links_open(struct model *model, struct gpu_taker *taker,
                           const struct gpu_links_rooms *rooms, uint32_t piece_pairs,
                           struct gpu_links **links_out, struct error *error);
void gpu_links_close(struct gpu_links *links);

/* Before a step, on all ranks: if the set of living ranks has changed since the last rendezvous,
 * links the living ranks anew. No work is enqueued. A rank exits here if it cannot be linked, or if
 * a link breaks although no rank has died (job_abort). */
void gpu_links_meet(struct gpu_links *links);

/* While the host waits for the device: once the job is broken, links are closed. */
void gpu_links_look(struct gpu_links *links);

/* The experts' stage begins. `received`: the most pairs that came of one rank. Says where the
 * result of each of the micro-batch's own pairs comes to lie: its place among the micro-batch's
 * results, GPU_NO_PAIR if its rank is gone. Returns how many rounds there are. */
uint32_t gpu_links_begin(struct gpu_links *links, const struct pass *pass, uint32_t received,
                         uint32_t *places_out);
/* Lists the rows that leave in a round, before the first those to other nodes, too; nothing on the
 * device reads the list before it. How many there are. */
void gpu_links_list(struct gpu_links *links, const struct pass *pass, uint32_t round);
uint32_t gpu_links_left(const struct gpu_links *links);
/* Finds a received pair's row and the place of its result, in the order of the exchange. False: it
 * belongs to another round. */
bool gpu_links_place(struct gpu_links *links, const char *row_descriptor, const char **from_out,
                     char **to_out);
/* Puts in line, on the micro-batch's stream, behind a copy of the list: the rows' groups, each
 * behind its packing; behind the experts, the results' group. */
void gpu_links_pass_rows(struct gpu_links *links, const struct pass *pass);
void gpu_links_pass_results(struct gpu_links *links, const struct pass *pass);

#endif
