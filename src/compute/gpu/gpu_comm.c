/* SPDX-License-Identifier: Apache-2.0
 * Each micro-batch has a communicator of its own. The buffers for rows and results of a round are
 * shared by all micro-batches, with one chunk for each rank, so a micro-batch's first round follows
 * the last round of the micro-batch before. Results that return have places of their own for each
 * micro-batch. gpu_comm_connect opens the communicators of all micro-batches; the first living rank
 * makes their ids.
 */
#include "compute/gpu/gpu_comm.h"

#include "base/check.h"
#include "base/number.h"
#include "compute/exchange/exchange.h"
#include "compute/exchange/job.h"
#include "compute/gpu/gpu_layers.h"
#include "compute/gpu/gpu_peers.h"
#include "compute/gpu/gpu_rounds.h"

#include <stdlib.h>
#include <string.h>

#define NOT_MEMBER UINT32_MAX
#define CONNECT_POLL_NS ((int64_t)200000) /* between two polls for the other ranks */

struct comm_ids {
    struct device_comm_id of_micro_batch[OVERLAP_MICRO_BATCHES];
};

/* Rows that this rank forwards for the rank with its local rank on another node. */
struct relayed {
    struct gpu_rounds
        rounds; /* chunks to the ranks of this node; rows are numbered in the order of arrival */
    uint32_t count;   /* rows */
    uint32_t *number; /* [rows_max] order of arrival of the sender's row */
    char *rows;       /* [rows_max][row_bytes] in the order of arrival */
};

struct gpu_comm {
    struct gpu_state *state;
    uint32_t rank, node_count, per_token, epoch; /* epoch: of the job, when last connected */
    bool connected;
    struct device_comm *micro_batches[OVERLAP_MICRO_BATCHES]; /* NULL: closed */
    uint32_t *member;          /* [ranks] index of the rank in the communicator, or NOT_MEMBER */
    struct comm_ids *out, *in; /* [ranks] */
    struct gpu_comm_buffers buffers;
    struct gpu_rounds rounds;
    struct relayed *relayed; /* [node_count], unused for this rank's node */
    uint32_t *slots;         /* [rows_max][per_token] slots of the micro-batch's own pairs */
    uint32_t *relayed_slots; /* [rows_max][per_token] slots of one node's pairs */
    char *rows_out;          /* [outgoing_max][row_bytes] */
    char *rows_in;           /* [ranks][chunk_pairs][row_bytes] */
    char *results_out;       /* [ranks][chunk_pairs][result_bytes] */
    uint32_t outgoing_max;
    /* The micro-batch's current stage: */
    uint32_t pair; /* index of its first pair */
    uint32_t nodes, node, node_ranks;
    /* The current round. In the first round, rows to other nodes precede it. */
    uint32_t outgoing_count, to_nodes;
    struct group {
        struct device_transfer *list;
        uint32_t count;
    } nodes_group, round_group; /* [2 * node_count], [2 * ranks] */
};

/* ---- opening and closing ---- */

/* Allocates host memory. */
static bool gpu_comm_allocate_lists(struct gpu_comm *comm) {
    uint32_t ranks = comm->rounds.ranks, rows = comm->state->rows_max;
    comm->member = calloc(ranks, sizeof *comm->member);
    comm->out = calloc(ranks, sizeof *comm->out);
    comm->in = calloc(ranks, sizeof *comm->in);
    comm->relayed = calloc(comm->node_count, sizeof *comm->relayed);
    comm->nodes_group.list = calloc(2 * (size_t)comm->node_count, sizeof(struct device_transfer));
    comm->round_group.list = calloc(2 * (size_t)ranks, sizeof(struct device_transfer));
    comm->slots = calloc((size_t)rows * comm->per_token, sizeof *comm->slots);
    comm->relayed_slots = calloc((size_t)rows * comm->per_token, sizeof *comm->slots);
    return comm->member && comm->out && comm->in && comm->relayed && comm->nodes_group.list &&
           comm->round_group.list && comm->slots && comm->relayed_slots;
}

static enum status allocate_relayed(struct gpu_comm *comm, struct gpu_allocator *allocator) {
    uint32_t node_ranks = comm->rounds.ranks / comm->node_count, rows = comm->state->rows_max;
    for (uint32_t node = 0; node < comm->node_count && !allocator->status; node++) {
        struct relayed *relayed = &comm->relayed[node];
        if (node == comm->rank / node_ranks) continue;
        relayed->rounds = (struct gpu_rounds){.ranks = node_ranks,
                                              .slots_each = comm->rounds.slots_each,
                                              .rows_max = rows,
                                              .chunk_pairs = comm->rounds.chunk_pairs};
        allocator->status =
            gpu_rounds_open(&relayed->rounds, rows * comm->per_token, allocator->error);
        relayed->number = calloc(rows, sizeof *relayed->number);
        if (!relayed->number && !allocator->status)
            allocator->status = error_set(allocator->error, STATUS_NO_MEMORY,
                                          "no memory to pass on another node's rows");
        relayed->rows = gpu_state_allocate(allocator, rows * comm->buffers.row_bytes, false,
                                           "rows of other nodes, to be passed on");
    }
    return allocator->status;
}

static enum status gpu_comm_allocate(struct gpu_comm *comm, struct gpu_allocator *allocator) {
    size_t chunk = (size_t)comm->rounds.ranks * comm->rounds.chunk_pairs;
    comm->rows_out = gpu_state_allocate(allocator, comm->outgoing_max * comm->buffers.row_bytes,
                                        false, "rows that leave over communicators");
    comm->rows_in = gpu_state_allocate(allocator, chunk * comm->buffers.row_bytes, false,
                                       "rows that came over communicators");
    comm->results_out = gpu_state_allocate(allocator, chunk * comm->buffers.result_bytes, false,
                                           "results that leave over communicators");
    return allocate_relayed(comm, allocator);
}

uint32_t gpu_comm_outgoing_max(const struct model *model, uint32_t chunk_pairs) {
    const struct placement *placement = &model->placement;
    uint32_t per_token = model->shape->experts_per_token, rows = model->gpu->rows_max;
    uint32_t nodes = gpu_rounds_nodes_of(placement->ranks, placement->node_ranks);
    return gpu_rounds_rows_to_nodes(nodes, rows, per_token) +
           gpu_rounds_rows_in_round(nodes, placement->ranks / nodes, rows, per_token, chunk_pairs);
}

enum status gpu_comm_open(struct model *model, struct gpu_allocator *allocator,
                          const struct gpu_comm_buffers *buffers, uint32_t chunk_pairs,
                          struct gpu_comm **comm_out, struct error *error) {
    struct gpu_state *state = model->gpu;
    const struct placement *placement = &model->placement;
    uint32_t per_token = model->shape->experts_per_token, rows = state->rows_max;
    uint32_t nodes = gpu_rounds_nodes_of(placement->ranks, placement->node_ranks);
    struct gpu_comm *comm = calloc(1, sizeof *comm);
    if (!comm) return error_set(error, STATUS_NO_MEMORY, "no memory for the ranks' communicators");
    *comm_out = comm;
    *comm = (struct gpu_comm){.state = state,
                              .rank = model->rank,
                              .node_count = nodes,
                              .per_token = per_token,
                              .buffers = *buffers,
                              .rounds = {.ranks = placement->ranks,
                                         .slots_each = placement->slots_per_rank,
                                         .rows_max = rows,
                                         .chunk_pairs = chunk_pairs}};
    comm->outgoing_max = gpu_comm_outgoing_max(model, chunk_pairs);
    enum status status = gpu_rounds_open(&comm->rounds, rows * per_token, error);
    if (!gpu_comm_allocate_lists(comm))
        status = error_set(error, STATUS_NO_MEMORY, "no memory for the ranks' communicators");
    return status ? status : gpu_comm_allocate(comm, allocator);
}

static void gpu_comm_disconnect(struct gpu_comm *comm) {
    for (uint32_t micro_batch = 0; micro_batch < OVERLAP_MICRO_BATCHES; micro_batch++) {
        device_close_comm(comm->state->device, comm->micro_batches[micro_batch]);
        comm->micro_batches[micro_batch] = NULL;
    }
}

void gpu_comm_close(struct gpu_comm *comm) {
    if (!comm) return;
    gpu_comm_disconnect(comm);
    gpu_rounds_close(&comm->rounds);
    for (uint32_t node = 0; comm->relayed && node < comm->node_count; node++) {
        gpu_rounds_close(&comm->relayed[node].rounds);
        free(comm->relayed[node].number);
    }
    free(comm->relayed);
    free(comm->member);
    free(comm->out);
    free(comm->in);
    free(comm->nodes_group.list);
    free(comm->round_group.list);
    free(comm->slots);
    free(comm->relayed_slots);
    free(comm);
}

/* ---- connecting ---- */

void gpu_comm_poll(struct gpu_comm *comm) {
    if (job_broken()) gpu_comm_disconnect(comm);
}

/* Returns when the communicator can be used. Not OK: it is broken, or the job is. */
static enum status gpu_comm_wait_ready(struct gpu_comm *comm, uint32_t micro_batch,
                                       const struct pass *pass, struct error *error) {
    bool settled = false;
    enum status status = STATUS_OK;
    while (!settled && !status && comm->micro_batches[micro_batch]) {
        status = device_comm_ready(comm->state->device, comm->micro_batches[micro_batch], &settled,
                                   error);
        if (settled || status) break;
        if (pass) {
            pass_progress(pass);
        } else {
            job_progress();
            job_sleep(CONNECT_POLL_NS);
        }
        gpu_comm_poll(comm);
    }
    return status;
}

static enum status gpu_comm_join(struct gpu_comm *comm, const struct comm_ids *names,
                                 uint32_t count, uint32_t own, struct error *error) {
    enum status status = STATUS_OK;
    for (uint32_t micro_batch = 0; micro_batch < OVERLAP_MICRO_BATCHES && !status; micro_batch++) {
        status = device_open_comm(comm->state->device, &names->of_micro_batch[micro_batch], count,
                                  own, &comm->micro_batches[micro_batch], error);
        if (!status) status = gpu_comm_wait_ready(comm, micro_batch, NULL, error);
        if (job_broken()) break;
    }
    return status;
}

/* The first living rank makes the ids, and sends them to all. */
static enum status exchange_ids(struct gpu_comm *comm, uint32_t count, bool names,
                                struct error *error) {
    struct comm_ids mine = {0};
    enum status status = STATUS_OK;
    for (uint32_t micro_batch = 0; micro_batch < OVERLAP_MICRO_BATCHES && names && !status;
         micro_batch++)
        status = device_make_comm_id(comm->state->device, count, &mine.of_micro_batch[micro_batch],
                                     error);
    for (uint32_t i = 0; i < comm->rounds.ranks; i++)
        comm->out[i] = mine;
    comm->in[comm->rank] = mine;
    job_all_to_all((const char *)comm->out, (char *)comm->in, sizeof *comm->in);
    return status;
}

/* A rank that fails while all ranks are alive must exit: the others would wait for it for ever. */
static void gpu_comm_explain(const struct error *error) {
    if (!gpu_peers_rank_died())
        job_abort("its device cannot be linked to the others'", error->text);
}

void gpu_comm_connect(struct gpu_comm *comm) {
    const uint32_t *row;
    struct error error;
    uint32_t epoch = job_epoch(), own;
    if (job_broken() || (comm->connected && comm->epoch == epoch)) return;
    gpu_comm_disconnect(comm);
    uint32_t count = job_alive_ranks(&row, &own), first = row[0];
    for (uint32_t rank = 0; rank < comm->rounds.ranks; rank++)
        comm->member[rank] = NOT_MEMBER;
    for (uint32_t i = 0; i < count; i++)
        comm->member[row[i]] = i;
    enum status status = exchange_ids(comm, count, own == 0, &error);
    if (!status && !job_broken())
        status = gpu_comm_join(comm, &comm->in[first], count, own, &error);
    if (status) gpu_comm_explain(&error);
    if (job_broken()) gpu_comm_disconnect(comm);
    comm->connected = !job_broken();
    comm->epoch = epoch;
}

/* ---- rows of a round ---- */

/* Reads the rows that other nodes' ranks sent for forwarding. Returns the most pairs for one
 * rank. */
static uint32_t read_relayed(struct gpu_comm *comm, const struct pass *pass) {
    size_t row_descriptor_bytes = pass->model->dispatch_bytes;
    uint32_t most = 0;
    const char *descriptors;
    for (uint32_t node = 0; node < comm->nodes; node++) {
        struct relayed *relayed = &comm->relayed[node];
        if (node == comm->node) continue;
        relayed->count = exchange_relayed(pass->exchange, node, comm->relayed_slots, &descriptors);
        gpu_rounds_sort(&relayed->rounds, comm->relayed_slots, relayed->count * comm->per_token,
                        NULL);
        most = max_u32(most, gpu_rounds_most_pairs(&relayed->rounds));
        for (uint32_t i = 0; i < relayed->count; i++) {
            uint32_t row = gpu_peers_row_descriptor_row(descriptors + i * row_descriptor_bytes);
            check(row < comm->rounds.rows_max);
            relayed->number[row] = i;
        }
    }
    return most;
}

uint32_t gpu_comm_begin(struct gpu_comm *comm, const struct pass *pass, uint32_t received,
                        uint32_t *places_out) {
    uint32_t pairs = pass->batch->token_count * comm->per_token;
    comm->pair = gpu_micro_batch_of(pass)->row * comm->per_token;
    comm->nodes = exchange_nodes(pass->exchange);
    comm->node_ranks = comm->rounds.ranks / comm->nodes;
    comm->node = comm->rank / comm->node_ranks;
    uint32_t most = max_u32(received, read_relayed(comm, pass));
    exchange_pair_slots(pass->exchange, comm->slots, pairs);
    gpu_rounds_sort(&comm->rounds, comm->slots, pairs, places_out);
    for (uint32_t pair = 0; pair < pairs; pair++)
        if (!job_is_alive(comm->slots[pair] / comm->rounds.slots_each))
            places_out[pair] = GPU_NO_PAIR;
    if (!job_broken()) most = max_u32(most, gpu_rounds_most_pairs(&comm->rounds));
    return gpu_rounds_count(&comm->rounds, most);
}

static void add(const struct gpu_comm *comm, struct group *group, char *memory, size_t bytes,
                uint32_t rank, bool receives) {
    uint32_t peer = comm->member[rank];
    if (!bytes || rank == comm->rank || peer == NOT_MEMBER) return;
    group->list[group->count++] = (struct device_transfer){memory, bytes, peer, receives};
}

/* Appends a row to the list of outgoing rows. */
static void list_row(struct gpu_comm *comm, const char *row) {
    check(comm->outgoing_count < comm->outgoing_max);
    comm->buffers.outgoing_host[comm->outgoing_count++] = row;
}

/* Adds the listed rows from `first` on as a send to one rank. */
static void add_listed(struct gpu_comm *comm, struct group *group, uint32_t first, uint32_t rank) {
    add(comm, group, comm->rows_out + first * comm->buffers.row_bytes,
        (comm->outgoing_count - first) * comm->buffers.row_bytes, rank, false);
}

/* Lists the rows for another node, each once, and adds the receive of those that this rank forwards
 * for that node. */
static void list_to_node(struct gpu_comm *comm, const struct pass *pass, uint32_t node) {
    uint32_t first = comm->outgoing_count, node_slots = comm->node_ranks * comm->rounds.slots_each;
    const struct relayed *relayed = &comm->relayed[node];
    const char *rows = comm->buffers.rows + gpu_micro_batch_of(pass)->row * comm->buffers.row_bytes;
    for (uint32_t token = 0; token < pass->batch->token_count; token++)
        if (gpu_rounds_goes_to_node(comm->slots + (size_t)token * comm->per_token, comm->per_token,
                                    node_slots, node))
            list_row(comm, rows + token * comm->buffers.row_bytes);
    uint32_t peer = gpu_rounds_relay_of(comm->rank, node * comm->node_ranks, comm->node_ranks);
    add_listed(comm, &comm->nodes_group, first, peer);
    add(comm, &comm->nodes_group, relayed->rows, relayed->count * comm->buffers.row_bytes, peer,
        true);
}

/* Lists the rows of this rank's chunk for a rank, each row once. */
static void list_chunk(struct gpu_comm *comm, const struct pass *pass, uint32_t rank) {
    uint32_t first, number, micro_batch_row = gpu_micro_batch_of(pass)->row,
                            begin = comm->outgoing_count;
    uint32_t count = gpu_rounds_to_send(&comm->rounds, rank, &first);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t row = micro_batch_row + comm->rounds.pair_at[first + i] / comm->per_token;
        if (gpu_rounds_row(&comm->rounds, rank, row, &number))
            list_row(comm, comm->buffers.rows + row * comm->buffers.row_bytes);
    }
    add_listed(comm, &comm->round_group, begin, rank);
}

/* Lists the rows of another node's chunk for a rank of this node. */
static void list_relayed(struct gpu_comm *comm, uint32_t node, uint32_t rank) {
    struct relayed *relayed = &comm->relayed[node];
    uint32_t first, number, place = rank % comm->node_ranks, begin = comm->outgoing_count;
    uint32_t count = gpu_rounds_to_send(&relayed->rounds, place, &first);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t row = relayed->rounds.pair_at[first + i] / comm->per_token;
        if (gpu_rounds_row(&relayed->rounds, place, row, &number))
            list_row(comm, relayed->rows + row * comm->buffers.row_bytes);
    }
    add_listed(comm, &comm->round_group, begin, rank);
}

/* Between two ranks, chunks are sent in the order of their senders' nodes. */
void gpu_comm_list_rows(struct gpu_comm *comm, const struct pass *pass, uint32_t round) {
    comm->outgoing_count = comm->nodes_group.count = comm->round_group.count = 0;
    for (uint32_t node = 0; node < comm->nodes && round == 0; node++)
        if (node != comm->node) list_to_node(comm, pass, node);
    comm->to_nodes = comm->outgoing_count;
    for (uint32_t node = 0; node < comm->nodes; node++) {
        bool own = node == comm->node;
        gpu_rounds_begin(own ? &comm->rounds : &comm->relayed[node].rounds, round);
        for (uint32_t place = 0; place < comm->node_ranks; place++) {
            uint32_t rank = comm->node * comm->node_ranks + place;
            if (rank == comm->rank) continue;
            if (own)
                list_chunk(comm, pass, rank);
            else
                list_relayed(comm, node, rank);
        }
    }
    gpu_rounds_begin(&comm->rounds, round);
}

uint32_t gpu_comm_outgoing(const struct gpu_comm *comm) {
    return comm->outgoing_count;
}

bool gpu_comm_locate(struct gpu_comm *comm, const char *row_descriptor, const char **from_out,
                     char **to_out) {
    uint32_t rank = gpu_peers_row_descriptor_rank(row_descriptor),
             row = gpu_peers_row_descriptor_row(row_descriptor), number;
    uint32_t place = gpu_rounds_receive(&comm->rounds, rank);
    size_t chunk = (size_t)rank * comm->rounds.chunk_pairs, bytes = comm->buffers.row_bytes;
    if (place == UINT32_MAX) return false;
    if (rank == comm->rank) {
        uint32_t at =
            comm->rounds.first[rank] + comm->rounds.round * comm->rounds.chunk_pairs + place;
        *from_out = comm->buffers.rows + row * bytes;
        *to_out = comm->buffers.results + ((size_t)comm->pair + at) * comm->buffers.result_bytes;
        return true;
    }
    if (gpu_rounds_relay_of(rank, comm->rank, comm->node_ranks) == comm->rank) {
        const struct relayed *relayed = &comm->relayed[rank / comm->node_ranks];
        *from_out = relayed->rows + relayed->number[row] * bytes;
    } else {
        (void)gpu_rounds_row(&comm->rounds, rank, row, &number);
        *from_out = comm->rows_in + (chunk + number) * bytes;
    }
    *to_out = comm->results_out + (chunk + place) * comm->buffers.result_bytes;
    return true;
}

/* ---- enqueued work ---- */

/* Copies the listed rows [first, end) to one buffer. Rows are copied as bytes. */
static void pack(const struct gpu_comm *comm, const struct pass *pass, uint32_t first,
                 uint32_t end) {
    struct gpu_state *state = comm->state;
    struct gpu_row_format format = {INPUT_F32, (uint32_t)comm->buffers.row_bytes, 1};
    struct gpu_gather packed = {.from_rows = comm->buffers.outgoing + first,
                                .to = comm->rows_out + first * comm->buffers.row_bytes,
                                .from_format = format,
                                .to_format = format,
                                .n = (uint32_t)(comm->buffers.row_bytes / sizeof(float)),
                                .rows = end - first};
    if (packed.rows) gpu_launch(state, gpu_micro_batch_of(pass)->stream, gather, packed);
}

static void pass_group(struct gpu_comm *comm, const struct pass *pass, const struct group *group) {
    struct error error;
    uint32_t micro_batch = (uint32_t)gpu_micro_batch_number(pass);
    if (!comm->micro_batches[micro_batch] || !group->count) return;
    device_transfer(comm->state->device, gpu_micro_batch_of(pass)->stream,
                    comm->micro_batches[micro_batch], group->list, group->count);
    if (gpu_comm_wait_ready(comm, micro_batch, pass, &error) == STATUS_OK) return;
    gpu_comm_explain(&error);
    gpu_comm_disconnect(comm);
}

void gpu_comm_send_rows(struct gpu_comm *comm, const struct pass *pass) {
    size_t bytes = comm->buffers.row_bytes;
    pack(comm, pass, 0, comm->to_nodes);
    pass_group(comm, pass, &comm->nodes_group);
    for (uint32_t rank = 0; rank < comm->rounds.ranks; rank++)
        add(comm, &comm->round_group,
            comm->rows_in + (size_t)rank * comm->rounds.chunk_pairs * bytes,
            comm->rounds.rows[rank] * bytes,
            gpu_rounds_relay_of(rank, comm->rank, comm->node_ranks), true);
    pack(comm, pass, comm->to_nodes, comm->outgoing_count);
    pass_group(comm, pass, &comm->round_group);
}

void gpu_comm_send_results(struct gpu_comm *comm, const struct pass *pass) {
    size_t bytes = comm->buffers.result_bytes;
    struct group *group = &comm->round_group;
    group->count = 0;
    for (uint32_t rank = 0; rank < comm->rounds.ranks; rank++) {
        uint32_t first = 0, count = gpu_rounds_to_send(&comm->rounds, rank, &first);
        add(comm, group, comm->results_out + (size_t)rank * comm->rounds.chunk_pairs * bytes,
            comm->rounds.pairs[rank] * bytes, rank, false);
        add(comm, group, comm->buffers.results + ((size_t)comm->pair + first) * bytes,
            count * bytes, rank, true);
    }
    pass_group(comm, pass, group);
}
