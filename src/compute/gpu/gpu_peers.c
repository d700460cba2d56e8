/* SPDX-License-Identifier: Apache-2.0
 * Handles are swapped over the job whenever other ranks live than at the last swap: one that has
 * come back has other rooms than it had.
 */
#include "compute/gpu/gpu_peers.h"

#include "base/bytes.h"
#include "base/check.h"
#include "compute/exchange/exchange.h"
#include "compute/exchange/job.h"

#include <stdlib.h>
#include <string.h>

#define WORD_NS_MAX ((int64_t)10000000) /* that a rank waits at a time for the launcher's word */
#define WORDS_MAX 500

struct peer_handles {
    struct device_handle rows, results;
};

struct gpu_peers {
    struct device *device;
    uint32_t ranks, rank, epoch; /* epoch: of the job, at the last swap */
    bool met;
    struct gpu_rooms own, *rooms;  /* [ranks] mapped; NULL: not */
    struct peer_handles *out, *in; /* [ranks] */
};

enum status gpu_peers_open(struct device *device, uint32_t ranks, uint32_t rank,
                           const struct gpu_rooms *own, struct gpu_peers **peers_out,
                           struct error *error) {
    struct peer_handles handles;
    struct gpu_peers *peers = calloc(1, sizeof *peers);
    if (peers) {
        *peers = (struct gpu_peers){.device = device,
                                    .ranks = ranks,
                                    .rank = rank,
                                    .own = *own,
                                    .rooms = calloc(ranks, sizeof *peers->rooms),
                                    .out = calloc(ranks, sizeof *peers->out),
                                    .in = calloc(ranks, sizeof *peers->in)};
        *peers_out = peers;
    }
    if (!peers || !peers->rooms || !peers->out || !peers->in)
        return error_set(error, STATUS_NO_MEMORY, "no memory for the ranks' rooms");
    enum status status = device_share(device, own->rows, &handles.rows, error);
    if (!status) status = device_share(device, own->results, &handles.results, error);
    for (uint32_t i = 0; !status && i < ranks; i++)
        peers->out[i] = handles;
    return status;
}

static void gpu_peers_forget(struct gpu_peers *peers) {
    for (uint32_t i = 0; peers->rooms && i < peers->ranks; i++) {
        device_unmap(peers->device, peers->rooms[i].rows);
        device_unmap(peers->device, peers->rooms[i].results);
        peers->rooms[i] = (struct gpu_rooms){NULL, NULL};
    }
}

void gpu_peers_close(struct gpu_peers *peers) {
    if (!peers) return;
    gpu_peers_forget(peers);
    free(peers->rooms);
    free(peers->out);
    free(peers->in);
    free(peers);
}

static enum status map_rooms(struct gpu_peers *peers, uint32_t rank, struct error *error) {
    const struct peer_handles *in = &peers->in[rank];
    struct gpu_rooms *rooms = &peers->rooms[rank];
    void *rows = NULL, *results = NULL;
    enum status status = device_map(peers->device, &in->rows, "another rank's rows", &rows, error);
    if (!status)
        status = device_map(peers->device, &in->results, "another rank's results", &results, error);
    *rooms = (struct gpu_rooms){rows, results};
    return status;
}

bool gpu_peers_died(void) {
    for (uint32_t words = 0; words < WORDS_MAX && !job_poll(); words++)
        job_sleep(WORD_NS_MAX);
    return job_broken();
}

/* While the job is broken no rank answers; results are not used then. */
enum status gpu_peers_meet(struct gpu_peers *peers, struct error *error) {
    uint32_t epoch = job_epoch();
    enum status status = STATUS_OK;
    if (job_broken() || (peers->met && peers->epoch == epoch)) return STATUS_OK;
    gpu_peers_forget(peers);
    job_all_to_all((const char *)peers->out, (char *)peers->in, sizeof *peers->in);
    if (job_broken()) return STATUS_OK;
    for (uint32_t rank = 0; !status && rank < peers->ranks; rank++)
        if (rank != peers->rank && job_is_alive(rank)) status = map_rooms(peers, rank, error);
    if (status && gpu_peers_died()) return STATUS_OK;
    peers->met = status == STATUS_OK;
    peers->epoch = epoch;
    return status;
}

struct gpu_rooms gpu_peers_rooms(const struct gpu_peers *peers, uint32_t rank) {
    check(rank < peers->ranks);
    return peers->rooms[rank].results ? peers->rooms[rank] : peers->own;
}

/* ---- tickets ---- */

struct row_descriptor { /* as it travels; the experts, of 16 bits each, follow */
    uint32_t rank, row;
};

static uint16_t *experts_of(char *row_descriptor) {
    return (uint16_t *)(void *)(row_descriptor + sizeof(struct row_descriptor));
}

size_t gpu_peers_row_descriptor_bytes(uint32_t per_token) {
    return round_up(sizeof(struct row_descriptor) + per_token * sizeof(uint16_t), EXCHANGE_ALIGN);
}

void gpu_peers_row_descriptor_write(char *row_descriptor, uint32_t rank, uint32_t row,
                                    const uint32_t *experts, uint32_t per_token) {
    const struct row_descriptor head = {rank, row};
    memset(row_descriptor, 0, gpu_peers_row_descriptor_bytes(per_token));
    memcpy(row_descriptor, &head, sizeof head);
    for (uint32_t i = 0; i < per_token; i++)
        experts_of(row_descriptor)[i] = (uint16_t)experts[i];
}

static struct row_descriptor gpu_peers_head_of(const char *row_descriptor) {
    struct row_descriptor head;
    memcpy(&head, row_descriptor, sizeof head);
    return head;
}

uint32_t gpu_peers_row_descriptor_rank(const char *row_descriptor) {
    return gpu_peers_head_of(row_descriptor).rank;
}

uint32_t gpu_peers_row_descriptor_row(const char *row_descriptor) {
    return gpu_peers_head_of(row_descriptor).row;
}

uint32_t gpu_peers_row_descriptor_place(const char *row_descriptor, uint32_t expert,
                                        uint32_t per_token) {
    const uint16_t *experts =
        (const uint16_t *)(const void *)(row_descriptor + sizeof(struct row_descriptor));
    uint32_t place = 0;
    while (place < per_token && experts[place] != expert)
        place++;
    check(place < per_token);
    return place;
}
