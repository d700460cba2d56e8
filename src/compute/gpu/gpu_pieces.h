/* SPDX-License-Identifier: Apache-2.0
 * Which rows, and which results, go from rank to rank in which round, where a rank has no room for
 * all that may come. The pairs of a sender that one rank computes stand in an order that both know:
 * by the slot that computes them, then by token. So many of them are a piece, and a round has one
 * piece of each sender: both sides cut alike, without a word, and a rank has room for one piece of
 * each. Of a token that several pairs of a piece are of, its row goes once.
 *
 * By nodes (compute/exchange/exchange_ranks.c), a token's row goes once to each other node, ahead of all
 * rounds, to the rank there that has the sender's place. In the rounds that rank passes it on to
 * those of its node, in the sender's pieces. At one level all ranks are one node, and every sender
 * brings its rows itself.
 *
 * Pure but for its memory: it knows numbers of rows and pairs, no device.
 */
#ifndef COMPUTE_GPU_GPU_PIECES_H
#define COMPUTE_GPU_GPU_PIECES_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define GPU_PIECE_PAIRS 128 /* a piece has no fewer, if there may be as many */

/* Pairs of a piece, if all pieces of a round should be about `round_rows`; between two ranks there
 * are no more than `pairs_max` of a step. */
uint32_t gpu_pieces_pairs(uint32_t ranks, uint32_t round_rows, uint32_t pairs_max);

/* Between how many nodes rows may go once to each: at nodes of one rank there is no rank to pass
 * them on to, and all ranks count as one node. */
uint32_t gpu_pieces_nodes_of(uint32_t ranks, uint32_t node_ranks);
/* Who brings a receiver the rows of a sender, where a node has so many places: the rank of the
 * receiver's node that has the sender's place. */
uint32_t gpu_pieces_relay_of(uint32_t sender, uint32_t receiver, uint32_t places);
/* Whether a token's row goes to a node, that is, one of its slots computes it. */
bool gpu_pieces_goes_to_node(const uint32_t *slots, uint32_t per_token, uint32_t node_slots,
                             uint32_t node);
/* The most rows that leave a rank: for other nodes, ahead of the rounds; and in a round. */
uint32_t gpu_pieces_rows_to_nodes(uint32_t nodes, uint32_t rows_max, uint32_t per_token);
uint32_t gpu_pieces_rows_in_round(uint32_t nodes, uint32_t places, uint32_t rows_max,
                                  uint32_t per_token, uint32_t piece_pairs);

struct gpu_pieces {
    uint32_t ranks, slots_each; /* of a rank */
    uint32_t rows_max;          /* a rank's rows are below it */
    uint32_t piece_pairs;
    uint32_t round;
    /* This rank's own pairs, by their places in the order: rank by rank */
    uint32_t *first;   /* [ranks + 1] the place where a rank's begin */
    uint32_t *pair_at; /* [pairs_max] */
    uint32_t *next;    /* [ranks * slots_each + 1] */
    /* The current round: */
    uint32_t *seen;  /* [ranks] pairs of the sender, of all rounds */
    uint32_t *pairs; /* [ranks] of its piece */
    uint32_t *rows;  /* [ranks] of its piece, or of the piece that goes there: tokens, each once */
    uint32_t *row_at, *row_mark; /* [ranks][rows_max] which of those; of this round, if marked so */
    uint32_t mark;
};

/* `pairs_max`: of a rank's tokens. Close it whatever it returns. */
enum status gpu_pieces_open(struct gpu_pieces *pieces, uint32_t pairs_max, struct error *error);
void gpu_pieces_close(struct gpu_pieces *pieces);

/* Puts one's own pairs in order. `slots`: [pairs] the slot of each, counted through all ranks,
 * EXCHANGE_NO_SLOT where there is no pair; `places_out`: [pairs] the place of each, or NULL. Who
 * passes on another's pairs sorts them as its own, and the ranks are those of its node. */
void gpu_pieces_sort(struct gpu_pieces *pieces, const uint32_t *slots, uint32_t pairs,
                     uint32_t *places_out);
/* Rounds that take `most` pairs between two ranks. */
uint32_t gpu_pieces_rounds(const struct gpu_pieces *pieces, uint32_t most);
/* The most of one's own pairs that go to one rank. */
uint32_t gpu_pieces_most(const struct gpu_pieces *pieces);

/* A round begins, of what one gives away or of what one takes. */
void gpu_pieces_begin(struct gpu_pieces *pieces, uint32_t round);
/* The places of one's own piece that goes to a rank: from *first_out on; returns how many. */
uint32_t gpu_pieces_given(const struct gpu_pieces *pieces, uint32_t rank, uint32_t *first_out);
/* The next pair of a sender's that came, in the order of slots: its number among the piece's pairs.
 * UINT32_MAX: it is of another round. */
uint32_t gpu_pieces_take(struct gpu_pieces *pieces, uint32_t sender);
/* The row's number among those of the piece from, or to, that rank. True: it is new there. */
bool gpu_pieces_row(struct gpu_pieces *pieces, uint32_t rank, uint32_t row, uint32_t *number_out);

#endif
