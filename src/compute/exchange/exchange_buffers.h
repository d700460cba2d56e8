/* SPDX-License-Identifier: Apache-2.0
 * State and memory of the exchange among ranks (exchange_ranks.c). Buffers have room for the worst
 * case, in which this rank receives every token of every rank. They lie in one mapping, and pages
 * are allocated at the first touch. Private to src/compute/exchange.
 */
#pragma once

#include "compute/exchange/dispatch_pack.h"
#include "compute/exchange/exchange_backend.h"
#include "compute/exchange/job.h"
#include "compute/exchange/replicas.h"
#include "compute/exchange/shared_window.h"

/* Tokens that this rank sends to the ranks of its node, and their results. With two levels there is
 * one relay for each node: its own tokens, and those that the rank with the same local rank on
 * another node sent for forwarding. With one level there is one relay: its own tokens to all
 * ranks. */
struct relay {
    struct dispatch_tokens list;
    struct dispatch_peer *peers; /* [ranks] of the node, by local rank */
    struct job_batch in;         /* receives of the list, later of results from the node's ranks */
    struct exchange_span span;
    uint32_t return_rows; /* result rows to send back to the other node */
    bool is_forwarded, is_returned;
    /* The arrays below lie in the mapping. */
    char *received_list;  /* the message from the other node */
    char *out;            /* messages to the node's ranks, one after another */
    uint32_t *own_row;    /* [tokens_max] */
    uint32_t *token_rows; /* [tokens_max][experts_per_token] row of each result of the node */
    char *results_out;    /* [tokens_max * experts_per_token][combine_bytes] to the other node */
};

/* A message that was just sent. Over a slow link its receiver is sent the time of its departure. */
struct sent {
    uint32_t to, node, expert_batch;
    uint64_t bytes;
};

/* Results that this rank returns to another. */
struct returning {
    uint32_t expert_batches[EXCHANGE_EXPERT_BATCHES]; /* rows of each batch */
    char *next[EXCHANGE_EXPERT_BATCHES];              /* of each batch: the next row to assign */
    char *rows;
    bool in_place; /* written directly to the other rank's window */
};

struct ranks_exchange {
    struct exchange exchange;    /* first: a struct exchange * points to both */
    struct ranks_exchange *next; /* in the list of open exchanges */
    uint32_t rank, rank_count, slots_per_rank, node_count;
    /* The current dispatch; with one level all ranks count as one node. */
    uint32_t nodes, node, node_ranks, local_rank;
    uint32_t row_count, rows_returned, group_count;
    bool dispatched;                      /* the transfer in progress is a combine */
    struct job_batch in_batch, out_batch; /* transfers in progress, except those of relays */
    struct replicas replicas;
    /* The window holds [ranks][in_bytes] received messages, by the owner of the tokens; then
     * [1 + nodes][results_bytes] results: those for this rank's tokens and, with two levels, those
     * for each node that this rank relays for. */
    struct shared_window window;
    struct relay *relays;              /* [node_count] by the node that owns the tokens */
    struct dispatch_peer *node_peers;  /* [node_count] the peers of the first of two levels */
    struct dispatch_message *messages; /* [ranks] received, by the owner of the tokens */
    struct returning *returning;       /* [ranks] the results for them */
    /* [ranks][EXCHANGE_EXPERT_BATCHES] departures of results; [0] also of the rank's tokens */
    struct exchange_span *spans_in;
    struct exchange_span *spans_out; /* departures of what was sent since the dispatch began */
    struct sent *sent;               /* [ranks + nodes] */
    uint32_t sent_count, span_count;
    struct exchange_group *groups; /* [slots_per_rank] */
    uint32_t *next_row;            /* [slots_per_rank] */
    /* Batches of results: the next to send; for each, how many rows must be computed before it is
     * sent, how many sums it has, and the next sum to assign. */
    uint32_t expert_batch;
    uint32_t expert_batch_rows[EXCHANGE_EXPERT_BATCHES];
    uint32_t expert_batch_sums[EXCHANGE_EXPERT_BATCHES], next_sum[EXCHANGE_EXPERT_BATCHES];
    /* The arrays below lie in the mapping. */
    uint32_t *pair_slot;  /* [tokens_max][experts_per_token] the chosen slot, across all ranks */
    uint32_t *token_rows; /* [tokens_max][experts_per_token] row of each result of this rank */
    uint32_t *own_token;  /* [tokens_max] two levels: tokens that this node computes, ascending */
    char *own_list;       /* two levels: the message of those tokens */
    char *out;            /* two levels: messages to the nodes, one after another */
    const char **token_data;   /* [ranks * tokens_max] */
    uint32_t *row_token;       /* [rows_max] */
    char **row_result;         /* [rows_max] */
    char *results_out;         /* [rows_max][combine_bytes] results to be sent */
    char *summands;            /* [rows_max][combine_bytes] results to be summed here */
    struct exchange_sum *sums; /* [rows_max] */
    const char **sum_rows;     /* [rows_max] */
    size_t in_bytes, results_bytes, node_message_bytes, out_bytes, mapped_bytes;
    void *memory;
};

/* Whether results are summed by groups of experts. */
bool exchange_buffers_sums_groups(const struct ranks_exchange *ranks);

/* Allocates the memory. The exchange's options and the counts of ranks, slots and nodes are set. */
enum status exchange_buffers_open(struct ranks_exchange *ranks, struct error *error) MUST_USE;
void exchange_buffers_close(struct ranks_exchange *ranks);
