/* SPDX-License-Identifier: Apache-2.0
 * The ranks exchange memory handles by a job_all_to_all whenever the set of living ranks has
 * changed. A rank that has come back has new buffers.
 */
#include "compute/gpu/gpu_peers.h"

#include "base/bytes.h"
#include "base/check.h"
#include "compute/exchange/exchange.h"
#include "compute/exchange/job.h"

#include <stdlib.h>
#include <string.h>

#define WORD_NS_MAX ((int64_t)10000000) /* one wait for the launcher's report */
#define WORDS_MAX 500

struct peer_handles {
    struct device_handle rows, results;
};

struct gpu_peers {
    struct device *device;
    uint32_t ranks, rank, epoch; /* epoch: of the job, when last connected */
    bool connected;
    struct gpu_peer_buffers own, *buffers; /* [ranks] mapped; NULL: not mapped */
    struct peer_handles *out, *in;         /* [ranks] */
};

enum status gpu_peers_open(struct device *device, uint32_t ranks, uint32_t rank,
                           const struct gpu_peer_buffers *own, struct gpu_peers **peers_out,
                           struct error *error) {
    struct peer_handles handles;
    struct gpu_peers *peers = calloc(1, sizeof *peers);
    if (peers) {
        *peers = (struct gpu_peers){.device = device,
                                    .ranks = ranks,
                                    .rank = rank,
                                    .own = *own,
                                    .buffers = calloc(ranks, sizeof *peers->buffers),
                                    .out = calloc(ranks, sizeof *peers->out),
                                    .in = calloc(ranks, sizeof *peers->in)};
        *peers_out = peers;
    }
    if (!peers || !peers->buffers || !peers->out || !peers->in)
        return error_set(error, STATUS_NO_MEMORY, "no memory for the ranks' buffers");
    enum status status = device_share(device, own->rows, &handles.rows, error);
    if (!status) status = device_share(device, own->results, &handles.results, error);
    for (uint32_t i = 0; !status && i < ranks; i++)
        peers->out[i] = handles;
    return status;
}

static void gpu_peers_unmap_all(struct gpu_peers *peers) {
    for (uint32_t i = 0; peers->buffers && i < peers->ranks; i++) {
        device_unmap(peers->device, peers->buffers[i].rows);
        device_unmap(peers->device, peers->buffers[i].results);
        peers->buffers[i] = (struct gpu_peer_buffers){NULL, NULL};
    }
}

void gpu_peers_close(struct gpu_peers *peers) {
    if (!peers) return;
    gpu_peers_unmap_all(peers);
    free(peers->buffers);
    free(peers->out);
    free(peers->in);
    free(peers);
}

static enum status gpu_peers_map(struct gpu_peers *peers, uint32_t rank, struct error *error) {
    const struct peer_handles *in = &peers->in[rank];
    struct gpu_peer_buffers *buffers = &peers->buffers[rank];
    void *rows = NULL, *results = NULL;
    enum status status = device_map(peers->device, &in->rows, "another rank's rows", &rows, error);
    if (!status)
        status = device_map(peers->device, &in->results, "another rank's results", &results, error);
    *buffers = (struct gpu_peer_buffers){rows, results};
    return status;
}

bool gpu_peers_rank_died(void) {
    for (uint32_t words = 0; words < WORDS_MAX && !job_poll(); words++)
        job_sleep(WORD_NS_MAX);
    return job_broken();
}

/* In a broken job no rank answers, and results are discarded. */
enum status gpu_peers_connect(struct gpu_peers *peers, struct error *error) {
    uint32_t epoch = job_epoch();
    enum status status = STATUS_OK;
    if (job_broken() || (peers->connected && peers->epoch == epoch)) return STATUS_OK;
    gpu_peers_unmap_all(peers);
    job_all_to_all((const char *)peers->out, (char *)peers->in, sizeof *peers->in);
    if (job_broken()) return STATUS_OK;
    for (uint32_t rank = 0; !status && rank < peers->ranks; rank++)
        if (rank != peers->rank && job_is_alive(rank)) status = gpu_peers_map(peers, rank, error);
    if (status && gpu_peers_rank_died()) return STATUS_OK;
    peers->connected = status == STATUS_OK;
    peers->epoch = epoch;
    return status;
}

struct gpu_peer_buffers gpu_peers_buffers(const struct gpu_peers *peers, uint32_t rank) {
    check(rank < peers->ranks);
    return peers->buffers[rank].results ? peers->buffers[rank] : peers->own;
}

/* ---- row descriptors ---- */

struct row_descriptor { /* in a message; the experts follow, 16 bits each */
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
