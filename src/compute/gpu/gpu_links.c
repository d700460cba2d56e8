/* SPDX-License-Identifier: Apache-2.0
 * Rooms for rows and results that come, or leave, in a round are one for all lanes, a piece for each rank; rows
 * that leave and results that come have places of their lane's. So a lane's first round follows the last of
 * the lane before it. All lanes' links are made at a meeting, whose first rank names them.
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
#define MEETING_NS ((int64_t)200000)    /* between two looks who has come */
#define WORD_NS_MAX ((int64_t)10000000) /* that a rank waits at a time for the launcher's word */
#define WORDS_MAX 500

struct link_names {
    struct device_link_name of_lane[OVERLAP_LANES];
};

struct gpu_links {
    struct device *device;
    struct gpu_state *state;
    uint32_t ranks, rank, per_token, epoch; /* epoch: of the job, at the last meeting */
    bool met;
    struct device_link *lanes[OVERLAP_LANES]; /* NULL: closed */
    uint32_t *member;            /* [ranks] which of the links' devices, or NOT_LINKED */
    struct link_names *out, *in; /* [ranks] */
    struct gpu_links_rooms rooms;
    struct gpu_pieces pieces;
    uint32_t *slots;                    /* [rows_max][per_token] of the lane's own pairs */
    char *leaving;                      /* [rows_max * per_token][row_bytes] by lanes' pairs */
    char *arrived;                      /* [ranks][piece_pairs][row_bytes] */
    char *given;                        /* [ranks][piece_pairs][result_bytes] */
    const char **leaves, **leaves_host; /* [rows_max * per_token] where rows lie that leave */
    uint32_t leave_count;
    struct device_transfer *list; /* [2 * ranks] a group */
    uint32_t list_count;
    /* Of the lane's stage at hand: */
    uint32_t pair; /* where its pairs begin */
};

/* ---- opening and closing ---- */

static enum status take(struct gpu_links *links, struct gpu_taker *taker) {
    uint32_t ranks = links->ranks, pairs = links->state->rows_max * links->per_token;
    size_t piece = (size_t)ranks * links->pieces.piece_pairs, words = pairs * sizeof(char *);
    links->leaving =
        gpu_take(taker, pairs * links->rooms.row_bytes, false, "rows that leave for other hosts");
    links->arrived =
        gpu_take(taker, piece * links->rooms.row_bytes, false, "rows from other hosts");
    links->given =
        gpu_take(taker, piece * links->rooms.result_bytes, false, "results to other hosts");
    links->leaves = gpu_take(taker, words, false, "places of rows that leave");
    links->leaves_host = gpu_take(taker, words, true, "places of rows that leave, on the host");
    return taker->status;
}

enum status gpu_links_open(struct model *model, struct gpu_taker *taker,
                           const struct gpu_links_rooms *rooms, uint32_t piece_pairs,
                           struct gpu_links **links_out, struct error *error) {
    struct gpu_state *state = model->gpu;
    uint32_t ranks = model->placement.ranks, per_token = model->shape->experts_per_token;
    struct gpu_links *links = calloc(1, sizeof *links);
    if (!links) return error_set(error, STATUS_NO_MEMORY, "no memory for the ranks' links");
    *links_out = links;
    *links = (struct gpu_links){.device = state->device,
                                .state = state,
                                .ranks = ranks,
                                .rank = model->rank,
                                .per_token = per_token,
                                .rooms = *rooms,
                                .pieces = {.ranks = ranks,
                                           .slots_each = model->placement.slots_per_rank,
                                           .rows_max = state->rows_max,
                                           .piece_pairs = piece_pairs}};
    links->member = calloc(ranks, sizeof *links->member);
    links->out = calloc(ranks, sizeof *links->out);
    links->in = calloc(ranks, sizeof *links->in);
    links->list = calloc(2 * (size_t)ranks, sizeof *links->list);
    links->slots = calloc((size_t)state->rows_max * per_token, sizeof *links->slots);
    enum status status = gpu_pieces_open(&links->pieces, state->rows_max * per_token, error);
    if (!links->member || !links->out || !links->in || !links->list || !links->slots)
        status = error_set(error, STATUS_NO_MEMORY, "no memory for the ranks' links");
    return status ? status : take(links, taker);
}

static void forget(struct gpu_links *links) {
    for (uint32_t lane = 0; lane < OVERLAP_LANES; lane++) {
        device_close_link(links->device, links->lanes[lane]);
        links->lanes[lane] = NULL;
    }
}

void gpu_links_close(struct gpu_links *links) {
    if (!links) return;
    forget(links);
    gpu_pieces_close(&links->pieces);
    free(links->member);
    free(links->out);
    free(links->in);
    free(links->list);
    free(links->slots);
    free(links);
}

/* ---- meeting ---- */

void gpu_links_look(struct gpu_links *links) {
    if (job_broken()) forget(links);
}

/* Returns when the link can be used; not OK: it never will, or the job is broken. */
static enum status settle(struct gpu_links *links, uint32_t lane, const struct pass *pass,
                          struct error *error) {
    bool settled = false;
    enum status status = STATUS_OK;
    while (!settled && !status && links->lanes[lane]) {
        status = device_settled(links->device, links->lanes[lane], &settled, error);
        if (settled || status) break;
        if (pass) {
            pass_progress(pass);
        } else {
            job_progress();
            job_doze(MEETING_NS);
        }
        gpu_links_look(links);
    }
    return status;
}

static enum status join(struct gpu_links *links, const struct link_names *names, uint32_t count,
                        uint32_t own, struct error *error) {
    enum status status = STATUS_OK;
    for (uint32_t lane = 0; lane < OVERLAP_LANES && !status; lane++) {
        status = device_open_link(links->device, &names->of_lane[lane], count, own,
                                  &links->lanes[lane], error);
        if (!status) status = settle(links, lane, NULL, error);
        if (job_broken()) break;
    }
    return status;
}

/* The first of those that live names the links for all. */
static enum status swap_names(struct gpu_links *links, uint32_t count, bool names,
                              struct error *error) {
    struct link_names mine = {0};
    enum status status = STATUS_OK;
    for (uint32_t lane = 0; lane < OVERLAP_LANES && names && !status; lane++)
        status = device_name_link(links->device, count, &mine.of_lane[lane], error);
    for (uint32_t i = 0; i < links->ranks; i++)
        links->out[i] = mine;
    links->in[links->rank] = mine;
    job_swap((const char *)links->out, (char *)links->in, sizeof *links->in);
    return status;
}

/* What fails because a rank has just died is no failure; the launcher's word may be late. Else the others wait for
 * this rank. */
static void explain(const struct error *error) {
    for (uint32_t words = 0; words < WORDS_MAX && !job_look(); words++)
        job_doze(WORD_NS_MAX);
    if (!job_broken()) job_give_up("its device cannot be linked to the others'", error->text);
}

void gpu_links_meet(struct gpu_links *links) {
    const uint32_t *row;
    struct error error;
    uint32_t epoch = job_epoch(), own;
    if (job_broken() || (links->met && links->epoch == epoch)) return;
    forget(links);
    uint32_t count = job_row(&row, &own), first = row[0];
    for (uint32_t rank = 0; rank < links->ranks; rank++)
        links->member[rank] = NOT_LINKED;
    for (uint32_t i = 0; i < count; i++)
        links->member[row[i]] = i;
    enum status status = swap_names(links, count, own == 0, &error);
    if (!status && !job_broken()) status = join(links, &links->in[first], count, own, &error);
    if (status) explain(&error);
    if (job_broken()) forget(links);
    links->met = !job_broken();
    links->epoch = epoch;
}

/* ---- the cut ---- */

uint32_t gpu_links_begin(struct gpu_links *links, const struct pass *pass, uint32_t received,
                         uint32_t *places_out) {
    uint32_t pairs = pass->batch->token_count * links->per_token;
    links->pair = gpu_lane_of(pass)->row * links->per_token;
    exchange_pair_slots(pass->exchange, links->slots, pairs);
    gpu_pieces_sort(&links->pieces, links->slots, pairs, places_out);
    for (uint32_t pair = 0; pair < pairs; pair++)
        if (!job_lives(links->slots[pair] / links->pieces.slots_each))
            places_out[pair] = GPU_NO_PAIR;
    if (job_broken()) return received ? gpu_pieces_rounds(&links->pieces, received) : 0;
    return gpu_pieces_rounds(&links->pieces, max_u32(received, gpu_pieces_most(&links->pieces)));
}

static void add(struct gpu_links *links, char *memory, size_t bytes, uint32_t rank, bool receives) {
    uint32_t peer = links->member[rank];
    if (!bytes || rank == links->rank || peer == NOT_LINKED) return;
    links->list[links->list_count++] = (struct device_transfer){memory, bytes, peer, receives};
}

/* The rows of the piece that goes to a rank, each once, behind those of the ranks before it. */
static void list_piece(struct gpu_links *links, const struct pass *pass, uint32_t rank) {
    uint32_t first = 0, number, lane_row = gpu_lane_of(pass)->row, begin = links->leave_count;
    uint32_t count = gpu_pieces_given(&links->pieces, rank, &first);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t row = lane_row + links->pieces.pair_at[first + i] / links->per_token;
        if (!gpu_pieces_row(&links->pieces, rank, row, &number)) continue;
        links->leaves_host[links->leave_count++] =
            links->rooms.rows + (size_t)row * links->rooms.row_bytes;
    }
    add(links, links->leaving + ((size_t)links->pair + begin) * links->rooms.row_bytes,
        (links->leave_count - begin) * links->rooms.row_bytes, rank, false);
}

void gpu_links_list(struct gpu_links *links, const struct pass *pass, uint32_t round) {
    links->leave_count = links->list_count = 0;
    gpu_pieces_begin(&links->pieces, round);
    for (uint32_t rank = 0; rank < links->ranks; rank++)
        if (rank != links->rank) list_piece(links, pass, rank);
    gpu_pieces_begin(&links->pieces, round);
}

bool gpu_links_place(struct gpu_links *links, const char *ticket, const char **from_out,
                     char **to_out) {
    uint32_t rank = gpu_ticket_rank(ticket), row = gpu_ticket_row(ticket), number;
    uint32_t place = gpu_pieces_take(&links->pieces, rank);
    size_t piece = (size_t)rank * links->pieces.piece_pairs;
    if (place == UINT32_MAX) return false;
    if (rank == links->rank) {
        uint32_t at =
            links->pieces.first[rank] + links->pieces.round * links->pieces.piece_pairs + place;
        *from_out = links->rooms.rows + (size_t)row * links->rooms.row_bytes;
        *to_out = links->rooms.results + ((size_t)links->pair + at) * links->rooms.result_bytes;
        return true;
    }
    (void)gpu_pieces_row(&links->pieces, rank, row, &number);
    *from_out = links->arrived + (piece + number) * links->rooms.row_bytes;
    *to_out = links->given + (piece + place) * links->rooms.result_bytes;
    return true;
}

/* ---- what is put in line ---- */

void gpu_links_copy_list(struct gpu_links *links, const struct pass *pass) {
    device_copy(links->device, gpu_lane_of(pass)->stream, links->leaves, links->leaves_host,
                links->leave_count * sizeof *links->leaves, DEVICE_FROM_HOST);
}

/* A row is so many bytes, whatever is in it. */
static void pack(const struct gpu_links *links, const struct pass *pass) {
    struct gpu_state *state = links->state;
    struct gpu_form form = {INPUT_F32, (uint32_t)links->rooms.row_bytes, 1};
    struct gpu_gather packed = {.from_rows = links->leaves,
                                .to = links->leaving + (size_t)links->pair * links->rooms.row_bytes,
                                .from_form = form,
                                .to_form = form,
                                .n = (uint32_t)(links->rooms.row_bytes / sizeof(float)),
                                .rows = links->leave_count};
    if (packed.rows) gpu_launch(state, gpu_lane_of(pass)->stream, gather, packed);
}

static void pass_group(struct gpu_links *links, const struct pass *pass) {
    struct error error;
    uint32_t lane = (uint32_t)gpu_lane_number(pass);
    if (!links->lanes[lane] || !links->list_count) return;
    device_transfer(links->device, gpu_lane_of(pass)->stream, links->lanes[lane], links->list,
                    links->list_count);
    if (settle(links, lane, pass, &error) == STATUS_OK) return;
    explain(&error);
    forget(links);
}

void gpu_links_pass_rows(struct gpu_links *links, const struct pass *pass) {
    size_t bytes = links->rooms.row_bytes;
    for (uint32_t rank = 0; rank < links->ranks; rank++)
        add(links, links->arrived + (size_t)rank * links->pieces.piece_pairs * bytes,
            links->pieces.rows[rank] * bytes, rank, true);
    pack(links, pass);
    pass_group(links, pass);
}

void gpu_links_pass_results(struct gpu_links *links, const struct pass *pass) {
    size_t bytes = links->rooms.result_bytes;
    links->list_count = 0;
    for (uint32_t rank = 0; rank < links->ranks; rank++) {
        uint32_t first = 0, count = gpu_pieces_given(&links->pieces, rank, &first);
        add(links, links->given + (size_t)rank * links->pieces.piece_pairs * bytes,
            links->pieces.pairs[rank] * bytes, rank, false);
        add(links, links->rooms.results + ((size_t)links->pair + first) * bytes, count * bytes,
            rank, true);
    }
    pass_group(links, pass);
}
