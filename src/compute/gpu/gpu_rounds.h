/* SPDX-License-Identifier: Apache-2.0
 * Divides rows and results between ranks into rounds, because a rank has no memory for all rows
 * that may arrive. The pairs of one sender that one rank computes have an order that both know: by
 * slot, then by token. This list is cut into chunks of equal length, and a round has one chunk of
 * each sender. Both sides cut alike without communication, and a rank needs memory for one chunk of
 * each sender. A row is sent once per chunk, even if several pairs of the chunk use it.
 *
 * With two levels (compute/exchange/exchange_ranks.c) a token's row is sent once to each other node
 * before all rounds, to the rank there that has the sender's local rank. In the rounds that rank
 * forwards it to the ranks of its node, in the sender's chunks. With one level all ranks count as
 * one node, and each sender sends its rows itself.
 *
 * Pure except for its memory: it handles numbers of rows and pairs, and no device.
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define GPU_CHUNK_PAIRS 128 /* a chunk has at least as many, if that many are possible */

/* Pairs of a chunk, if a round should have about `round_rows` rows. Between two ranks a step has at
 * most `pairs_max`. */
uint32_t gpu_rounds_chunk_pairs(uint32_t ranks, uint32_t round_rows, uint32_t pairs_max);

/* The number of nodes for two levels. If nodes have one rank, no rank can forward, and all ranks
 * count as one node. */
uint32_t gpu_rounds_nodes_of(uint32_t ranks, uint32_t node_ranks);
/* The rank that sends a sender's rows to a receiver: the rank on the receiver's node with the
 * sender's local rank. */
uint32_t gpu_rounds_relay_of(uint32_t sender, uint32_t receiver, uint32_t node_ranks);
/* Whether a token's row is sent to a node: one of the token's slots is there. */
bool gpu_rounds_goes_to_node(const uint32_t *slots, uint32_t per_token, uint32_t node_slots,
                             uint32_t node);
/* The most rows that a rank sends to other nodes before the rounds; and in a round. */
uint32_t gpu_rounds_rows_to_nodes(uint32_t nodes, uint32_t rows_max, uint32_t per_token);
uint32_t gpu_rounds_rows_in_round(uint32_t nodes, uint32_t node_ranks, uint32_t rows_max,
                                  uint32_t per_token, uint32_t chunk_pairs);

struct gpu_rounds {
    uint32_t ranks, slots_each; /* of a rank */
    uint32_t rows_max;          /* row numbers are below it */
    uint32_t chunk_pairs;
    uint32_t round;
    /* This rank's own pairs, sorted by slot, then token, and so by rank: */
    uint32_t *first;   /* [ranks + 1] index of the first pair for a rank */
    uint32_t *pair_at; /* [pairs_max] */
    uint32_t *next;    /* [ranks * slots_each + 1] */
    /* The current round: */
    uint32_t *seen;  /* [ranks] pairs of the sender so far, in all rounds */
    uint32_t *pairs; /* [ranks] pairs in its chunk */
    uint32_t *rows;  /* [ranks] different rows in the chunk from, or to, that rank */
    /* [ranks][rows_max] a row's number in the chunk; valid if marked for this round */
    uint32_t *row_at, *row_mark;
    uint32_t mark;
};

/* `pairs_max`: pairs of a rank's tokens. Close it on any status. */
enum status gpu_rounds_open(struct gpu_rounds *rounds, uint32_t pairs_max, struct error *error);
void gpu_rounds_close(struct gpu_rounds *rounds);

/* Sorts this rank's pairs. `slots`: [pairs] the slot of each, numbered across all ranks, or
 * EXCHANGE_NO_SLOT. `places_out`: [pairs] the index of each in the sorted order, or NULL. A rank
 * that forwards another rank's pairs sorts them in the same way, among the ranks of its node. */
void gpu_rounds_sort(struct gpu_rounds *rounds, const uint32_t *slots, uint32_t pairs,
                     uint32_t *places_out);
/* The number of rounds for `most` pairs between two ranks. */
uint32_t gpu_rounds_count(const struct gpu_rounds *rounds, uint32_t most);
/* The largest number of this rank's pairs for one rank. */
uint32_t gpu_rounds_most_pairs(const struct gpu_rounds *rounds);

/* Begins a round, to list the rows to send or to locate received ones. */
void gpu_rounds_begin(struct gpu_rounds *rounds, uint32_t round);
/* This rank's chunk for a rank: sorted pairs from *first_out on. Returns their number. */
uint32_t gpu_rounds_to_send(const struct gpu_rounds *rounds, uint32_t rank, uint32_t *first_out);
/* Takes the sender's next received pair, in the order of slots. Returns its number in the chunk;
 * UINT32_MAX: it belongs to another round. */
uint32_t gpu_rounds_receive(struct gpu_rounds *rounds, uint32_t sender);
/* A row's number in the chunk from, or to, a rank. True: the row is new in the chunk. */
bool gpu_rounds_row(struct gpu_rounds *rounds, uint32_t rank, uint32_t row, uint32_t *number_out);
