/* SPDX-License-Identifier: Apache-2.0
 * Rooms for rows and results that come, or leave, in a stage are one for all micro-batches, in a
 * round a piece for each rank; results that come have places of their micro-batch's. So a
 * micro-batch's first round follows the last of the micro-batch before it. A rendezvous makes all
 * micro-batches' links; its first rank names them.
 */
#include "compute/gpu/gpu_links.h"

#include "base/check.h"
#include "base/number.h"
#include "compute/exchange/exchange.h"
#include "compute/exchange/job.h"
#include "compute/gpu/gpu_layers.h"
#include "compute/gpu/gpu_peers.h"
#include "compute/gpu/gpu_pieces.h"

#include <stdlib.h>
#include <string.h>

#define NOT_LINKED UINT32_MAX
#define RENDEZVOUS_NS ((int64_t)200000) /* between two looks who has come */

struct link_names {
    struct device_link_name of_micro_batch[OVERLAP_MICRO_BATCHES];
};

/* Rows that this rank forwards for the rank of its place on another node. */
struct relayed {
    struct gpu_pieces pieces; /* to the ranks of this node; rows are numbered as they came */
    uint32_t count;           /* rows */
    uint32_t *number;         /* [rows_max] of a sender's row that came */
    char *rows;               /* [rows_max][row_bytes] as they came */
};

struct gpu_links {
    struct gpu_state *state;
    uint32_t rank, node_count, per_token, epoch; /* epoch: of the job, at the last meeting */
    bool met;
    struct device_link *micro_batches[OVERLAP_MICRO_BATCHES]; /* NULL: closed */
    uint32_t *member;            /* [ranks] which of the links' devices, or NOT_LINKED */
    struct link_names *out, *in; /* [ranks] */
    struct gpu_links_rooms rooms;
    struct gpu_pieces pieces;
    struct relayed *relayed; /* [node_count], but for this rank's node */
    uint32_t *slots;         /* [rows_max][per_token] of the micro-batch's own pairs */
    uint32_t *relayed_slots; /* [rows_max][per_token] of one node's */
    char *leaving;           /* [leaves_max][row_bytes] */
    char *arrived;           /* [ranks][piece_pairs][row_bytes] */
    char *given;             /* [ranks][piece_pairs][result_bytes] */
    uint32_t leaves_max;
    /* The micro-batch's current stage: */
    uint32_t pair; /* where its pairs begin */
    uint32_t nodes, node, places;
    /* The current round; in the first, rows to other nodes come before it. */
    uint32_t leave_count, to_nodes;
    struct group {
        struct device_transfer *list;
        uint32_t count;
    } nodes_group, round_group; /* [2 * node_count], [2 * ranks] */
};

/* ---- opening and closing ---- */

/* Memory on the host. */
static bool gpu_links_take_lists(struct gpu_links *links) {
    uint32_t ranks = links->pieces.ranks, rows = links->state->rows_max;
    links->member = calloc(ranks, sizeof *links->member);
    links->out = calloc(ranks, sizeof *links->out);
    links->in = calloc(ranks, sizeof *links->in);
    links->relayed = calloc(links->node_count, sizeof *links->relayed);
    links->nodes_group.list = calloc(2 * (size_t)links->node_count, sizeof(struct device_transfer));
    links->round_group.list = calloc(2 * (size_t)ranks, sizeof(struct device_transfer));
    links->slots = calloc((size_t)rows * links->per_token, sizeof *links->slots);
    links->relayed_slots = calloc((size_t)rows * links->per_token, sizeof *links->slots);
    return links->member && links->out && links->in && links->relayed && links->nodes_group.list &&
           links->round_group.list && links->slots && links->relayed_slots;
}

static enum status take_relayed(struct gpu_links *links, struct gpu_taker *taker) {
    uint32_t places = links->pieces.ranks / links->node_count, rows = links->state->rows_max;
    for (uint32_t node = 0; node < links->node_count && !taker->status; node++) {
        struct relayed *relayed = &links->relayed[node];
        if (node == links->rank / places) continue;
        relayed->pieces = (struct gpu_pieces){.ranks = places,
                                              .slots_each = links->pieces.slots_each,
                                              .rows_max = rows,
                                              .piece_pairs = links->pieces.piece_pairs};
        taker->status = gpu_pieces_open(&relayed->pieces, rows * links->per_token, taker->error);
        relayed->number = calloc(rows, sizeof *relayed->number);
        if (!relayed->number && !taker->status)
            taker->status = error_set(taker->error, STATUS_NO_MEMORY,
                                      "no memory to pass on another node's rows");
        relayed->rows = gpu_state_take(taker, rows * links->rooms.row_bytes, false,
                                       "rows of other nodes, to be passed on");
    }
    return taker->status;
}

static enum status gpu_links_take(struct gpu_links *links, struct gpu_taker *taker) {
    size_t piece = (size_t)links->pieces.ranks * links->pieces.piece_pairs;
    links->leaving = gpu_state_take(taker, links->leaves_max * links->rooms.row_bytes, false,
                                    "rows that leave over links");
    links->arrived =
        gpu_state_take(taker, piece * links->rooms.row_bytes, false, "rows that came over links");
    links->given = gpu_state_take(taker, piece * links->rooms.result_bytes, false,
                                  "results that leave over links");
    return take_relayed(links, taker);
}

uint32_t gpu_links_leaves(const struct model *model, uint32_t piece_pairs) {
    const struct placement *placement = &model->placement;
    uint32_t per_token = model->shape->experts_per_token, rows = model->gpu->rows_max;
    uint32_t nodes = gpu_pieces_nodes_of(placement->ranks, placement->node_ranks);
    return gpu_pieces_rows_to_nodes(nodes, rows, per_token) +
           gpu_pieces_rows_in_round(nodes, placement->ranks / nodes, rows, per_token, piece_pairs);
}

enum status gpu_links_open(struct model *model, struct gpu_taker *taker,
                           const struct gpu_links_rooms *rooms, uint32_t piece_pairs,
                           struct gpu_links **links_out, struct error *error) {
    struct gpu_state *state = model->gpu;
    const struct placement *placement = &model->placement;
    uint32_t per_token = model->shape->experts_per_token, rows = state->rows_max;
    uint32_t nodes = gpu_pieces_nodes_of(placement->ranks, placement->node_ranks);
    struct gpu_links *links = calloc(1, sizeof *links);
    if (!links) return error_set(error, STATUS_NO_MEMORY, "no memory for the ranks' links");
    *links_out = links;
    *links = (struct gpu_links){.state = state,
                                .rank = model->rank,
                                .node_count = nodes,
                                .per_token = per_token,
                                .rooms = *rooms,
                                .pieces = {.ranks = placement->ranks,
                                           .slots_each = placement->slots_per_rank,
                                           .rows_max = rows,
                                           .piece_pairs = piece_pairs}};
    links->leaves_max = gpu_links_leaves(model, piece_pairs);
    enum status status = gpu_pieces_open(&links->pieces, rows * per_token, error);
    if (!gpu_links_take_lists(links))
        status = error_set(error, STATUS_NO_MEMORY, "no memory for the ranks' links");
    return status ? status : gpu_links_take(links, taker);
}

static void gpu_links_forget(struct gpu_links *links) {
    for (uint32_t micro_batch = 0; micro_batch < OVERLAP_MICRO_BATCHES; micro_batch++) {
        device_close_link(links->state->device, links->micro_batches[micro_batch]);
        links->micro_batches[micro_batch] = NULL;
    }
}

void gpu_links_close(struct gpu_links *links) {
    if (!links) return;
    gpu_links_forget(links);
    gpu_pieces_close(&links->pieces);
    for (uint32_t node = 0; links->relayed && node < links->node_count; node++) {
        gpu_pieces_close(&links->relayed[node].pieces);
        free(links->relayed[node].number);
    }
    free(links->relayed);
    free(links->member);
    free(links->out);
    free(links->in);
    free(links->nodes_group.list);
    free(links->round_group.list);
    free(links->slots);
    free(links->relayed_slots);
    free(links);
}

/* ---- meeting ---- */

void gpu_links_look(struct gpu_links *links) {
    if (job_broken()) gpu_links_forget(links);
}

/* Returns when the link can be used; not OK: it never will, or the job is broken. */
static enum status gpu_links_settle(struct gpu_links *links, uint32_t micro_batch,
                                    const struct pass *pass, struct error *error) {
    bool settled = false;
    enum status status = STATUS_OK;
    while (!settled && !status && links->micro_batches[micro_batch]) {
        status = device_settled(links->state->device, links->micro_batches[micro_batch], &settled,
                                error);
        if (settled || status) break;
        if (pass) {
            pass_progress(pass);
        } else {
            job_progress();
            job_sleep(RENDEZVOUS_NS);
        }
        gpu_links_look(links);
    }
    return status;
}

static enum status gpu_links_join(struct gpu_links *links, const struct link_names *names,
                                  uint32_t count, uint32_t own, struct error *error) {
    enum status status = STATUS_OK;
    for (uint32_t micro_batch = 0; micro_batch < OVERLAP_MICRO_BATCHES && !status; micro_batch++) {
        status = device_open_link(links->state->device, &names->of_micro_batch[micro_batch], count,
                                  own, &links->micro_batches[micro_batch], error);
        if (!status) status = gpu_links_settle(links, micro_batch, NULL, error);
        if (job_broken()) break;
    }
    return status;
}

/* The first of those that live names the links for all. */
static enum status swap_names(struct gpu_links *links, uint32_t count, bool names,
                              struct error *error) {
    struct link_names mine = {0};
    enum status status = STATUS_OK;
    for (uint32_t micro_batch = 0; micro_batch < OVERLAP_MICRO_BATCHES && names && !status;
         micro_batch++)
        status =
            device_name_link(links->state->device, count, &mine.of_micro_batch[micro_batch], error);
    for (uint32_t i = 0; i < links->pieces.ranks; i++)
        links->out[i] = mine;
    links->in[links->rank] = mine;
    job_all_to_all((const char *)links->out, (char *)links->in, sizeof *links->in);
    return status;
}

/* A rank that fails while all ranks are alive must exit: the others would wait for it for ever. */
static void gpu_links_explain(const struct error *error) {
    if (!gpu_peers_died()) job_abort("its device cannot be linked to the others'", error->text);
}

void gpu_links_meet(struct gpu_links *links) {
    const uint32_t *row;
    struct error error;
    uint32_t epoch = job_epoch(), own;
    if (job_broken() || (links->met && links->epoch == epoch)) return;
    gpu_links_forget(links);
    uint32_t count = job_alive_ranks(&row, &own), first = row[0];
    for (uint32_t rank = 0; rank < links->pieces.ranks; rank++)
        links->member[rank] = NOT_LINKED;
    for (uint32_t i = 0; i < count; i++)
        links->member[row[i]] = i;
    enum status status = swap_names(links, count, own == 0, &error);
    if (!status && !job_broken())
        status = gpu_links_join(links, &links->in[first], count, own, &error);
    if (status) gpu_links_explain(&error);
    if (job_broken()) gpu_links_forget(links);
    links->met = !job_broken();
    links->epoch = epoch;
}

/* ---- the cut ---- */

/* Reads the rows that other nodes' ranks sent for forwarding. Returns the most pairs for one rank. */
static uint32_t read_relayed(struct gpu_links *links, const struct pass *pass) {
    size_t row_descriptor_bytes = pass->model->dispatch_bytes;
    uint32_t most = 0;
    const char *tickets;
    for (uint32_t node = 0; node < links->nodes; node++) {
        struct relayed *relayed = &links->relayed[node];
        if (node == links->node) continue;
        relayed->count = exchange_relayed(pass->exchange, node, links->relayed_slots, &tickets);
        gpu_pieces_sort(&relayed->pieces, links->relayed_slots, relayed->count * links->per_token,
                        NULL);
        most = max_u32(most, gpu_pieces_most(&relayed->pieces));
        for (uint32_t i = 0; i < relayed->count; i++) {
            uint32_t row = gpu_peers_row_descriptor_row(tickets + i * row_descriptor_bytes);
            check(row < links->pieces.rows_max);
            relayed->number[row] = i;
        }
    }
    return most;
}

uint32_t gpu_links_begin(struct gpu_links *links, const struct pass *pass, uint32_t received,
                         uint32_t *places_out) {
    uint32_t pairs = pass->batch->token_count * links->per_token;
    links->pair = gpu_micro_batch_of(pass)->row * links->per_token;
    links->nodes = exchange_nodes(pass->exchange);
    links->places = links->pieces.ranks / links->nodes;
    links->node = links->rank / links->places;
    uint32_t most = max_u32(received, read_relayed(links, pass));
    exchange_pair_slots(pass->exchange, links->slots, pairs);
    gpu_pieces_sort(&links->pieces, links->slots, pairs, places_out);
    for (uint32_t pair = 0; pair < pairs; pair++)
        if (!job_is_alive(links->slots[pair] / links->pieces.slots_each))
            places_out[pair] = GPU_NO_PAIR;
    if (!job_broken()) most = max_u32(most, gpu_pieces_most(&links->pieces));
    return gpu_pieces_rounds(&links->pieces, most);
}

static void add(const struct gpu_links *links, struct group *group, char *memory, size_t bytes,
                uint32_t rank, bool receives) {
    uint32_t peer = links->member[rank];
    if (!bytes || rank == links->rank || peer == NOT_LINKED) return;
    group->list[group->count++] = (struct device_transfer){memory, bytes, peer, receives};
}

/* The next row that leaves, behind those before it. */
static void list_row(struct gpu_links *links, const char *row) {
    check(links->leave_count < links->leaves_max);
    links->rooms.leaves_host[links->leave_count++] = row;
}

/* The rows from the `first` that leaves on are for one rank. */
static void add_listed(struct gpu_links *links, struct group *group, uint32_t first,
                       uint32_t rank) {
    add(links, group, links->leaving + first * links->rooms.row_bytes,
        (links->leave_count - first) * links->rooms.row_bytes, rank, false);
}

/* Rows that go once to a node; and those of that node that this rank passes on. */
static void list_to_node(struct gpu_links *links, const struct pass *pass, uint32_t node) {
    uint32_t first = links->leave_count, node_slots = links->places * links->pieces.slots_each;
    const struct relayed *relayed = &links->relayed[node];
    const char *rows = links->rooms.rows + gpu_micro_batch_of(pass)->row * links->rooms.row_bytes;
    for (uint32_t token = 0; token < pass->batch->token_count; token++)
        if (gpu_pieces_goes_to_node(links->slots + (size_t)token * links->per_token,
                                    links->per_token, node_slots, node))
            list_row(links, rows + token * links->rooms.row_bytes);
    uint32_t peer = gpu_pieces_relay_of(links->rank, node * links->places, links->places);
    add_listed(links, &links->nodes_group, first, peer);
    add(links, &links->nodes_group, relayed->rows, relayed->count * links->rooms.row_bytes, peer,
        true);
}

/* The rows of one's own piece that goes to a rank, each once. */
static void list_piece(struct gpu_links *links, const struct pass *pass, uint32_t rank) {
    uint32_t first, number, micro_batch_row = gpu_micro_batch_of(pass)->row,
                            begin = links->leave_count;
    uint32_t count = gpu_pieces_given(&links->pieces, rank, &first);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t row = micro_batch_row + links->pieces.pair_at[first + i] / links->per_token;
        if (gpu_pieces_row(&links->pieces, rank, row, &number))
            list_row(links, links->rooms.rows + row * links->rooms.row_bytes);
    }
    add_listed(links, &links->round_group, begin, rank);
}

/* Lists another node's piece. */
static void list_relayed(struct gpu_links *links, uint32_t node, uint32_t rank) {
    struct relayed *relayed = &links->relayed[node];
    uint32_t first, number, place = rank % links->places, begin = links->leave_count;
    uint32_t count = gpu_pieces_given(&relayed->pieces, place, &first);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t row = relayed->pieces.pair_at[first + i] / links->per_token;
        if (gpu_pieces_row(&relayed->pieces, place, row, &number))
            list_row(links, relayed->rows + row * links->rooms.row_bytes);
    }
    add_listed(links, &links->round_group, begin, rank);
}

/* Between two ranks, pieces go in the order of their senders' nodes. */
void gpu_links_list(struct gpu_links *links, const struct pass *pass, uint32_t round) {
    links->leave_count = links->nodes_group.count = links->round_group.count = 0;
    for (uint32_t node = 0; node < links->nodes && round == 0; node++)
        if (node != links->node) list_to_node(links, pass, node);
    links->to_nodes = links->leave_count;
    for (uint32_t node = 0; node < links->nodes; node++) {
        bool own = node == links->node;
        gpu_pieces_begin(own ? &links->pieces : &links->relayed[node].pieces, round);
        for (uint32_t place = 0; place < links->places; place++) {
            uint32_t rank = links->node * links->places + place;
            if (rank == links->rank) continue;
            if (own)
                list_piece(links, pass, rank);
            else
                list_relayed(links, node, rank);
        }
    }
    gpu_pieces_begin(&links->pieces, round);
}

uint32_t gpu_links_left(const struct gpu_links *links) {
    return links->leave_count;
}

bool gpu_links_place(struct gpu_links *links, const char *row_descriptor, const char **from_out,
                     char **to_out) {
    uint32_t rank = gpu_peers_row_descriptor_rank(row_descriptor),
             row = gpu_peers_row_descriptor_row(row_descriptor), number;
    uint32_t place = gpu_pieces_take(&links->pieces, rank);
    size_t piece = (size_t)rank * links->pieces.piece_pairs, bytes = links->rooms.row_bytes;
    if (place == UINT32_MAX) return false;
    if (rank == links->rank) {
        uint32_t at =
            links->pieces.first[rank] + links->pieces.round * links->pieces.piece_pairs + place;
        *from_out = links->rooms.rows + row * bytes;
        *to_out = links->rooms.results + ((size_t)links->pair + at) * links->rooms.result_bytes;
        return true;
    }
    if (gpu_pieces_relay_of(rank, links->rank, links->places) == links->rank) {
        const struct relayed *relayed = &links->relayed[rank / links->places];
        *from_out = relayed->rows + relayed->number[row] * bytes;
    } else {
        (void)gpu_pieces_row(&links->pieces, rank, row, &number);
        *from_out = links->arrived + (piece + number) * bytes;
    }
    *to_out = links->given + (piece + place) * links->rooms.result_bytes;
    return true;
}

/* ---- what is put in line ---- */

/* Those that are listed from the `first` on, before the `end`. A row is so many bytes, whatever is
 * in it. */
static void pack(const struct gpu_links *links, const struct pass *pass, uint32_t first,
                 uint32_t end) {
    struct gpu_state *state = links->state;
    struct gpu_form form = {INPUT_F32, (uint32_t)links->rooms.row_bytes, 1};
    struct gpu_gather packed = {.from_rows = links->rooms.leaves + first,
                                .to = links->leaving + first * links->rooms.row_bytes,
                                .from_form = form,
                                .to_form = form,
                                .n = (uint32_t)(links->rooms.row_bytes / sizeof(float)),
                                .rows = end - first};
    if (packed.rows) gpu_launch(state, gpu_micro_batch_of(pass)->stream, gather, packed);
}

static void pass_group(struct gpu_links *links, const struct pass *pass,
                       const struct group *group) {
    struct error error;
    uint32_t micro_batch = (uint32_t)gpu_micro_batch_number(pass);
    if (!links->micro_batches[micro_batch] || !group->count) return;
    device_transfer(links->state->device, gpu_micro_batch_of(pass)->stream,
                    links->micro_batches[micro_batch], group->list, group->count);
    if (gpu_links_settle(links, micro_batch, pass, &error) == STATUS_OK) return;
    gpu_links_explain(&error);
    gpu_links_forget(links);
}

void gpu_links_pass_rows(struct gpu_links *links, const struct pass *pass) {
    size_t bytes = links->rooms.row_bytes;
    pack(links, pass, 0, links->to_nodes);
    pass_group(links, pass, &links->nodes_group);
    for (uint32_t rank = 0; rank < links->pieces.ranks; rank++)
        add(links, &links->round_group,
            links->arrived + (size_t)rank * links->pieces.piece_pairs * bytes,
            links->pieces.rows[rank] * bytes, gpu_pieces_relay_of(rank, links->rank, links->places),
            true);
    pack(links, pass, links->to_nodes, links->leave_count);
    pass_group(links, pass, &links->round_group);
}

void gpu_links_pass_results(struct gpu_links *links, const struct pass *pass) {
    size_t bytes = links->rooms.result_bytes;
    struct group *group = &links->round_group;
    group->count = 0;
    for (uint32_t rank = 0; rank < links->pieces.ranks; rank++) {
        uint32_t first = 0, count = gpu_pieces_given(&links->pieces, rank, &first);
        add(links, group, links->given + (size_t)rank * links->pieces.piece_pairs * bytes,
            links->pieces.pairs[rank] * bytes, rank, false);
        add(links, group, links->rooms.results + ((size_t)links->pair + first) * bytes,
            count * bytes, rank, true);
    }
    pass_group(links, pass, group);
}
