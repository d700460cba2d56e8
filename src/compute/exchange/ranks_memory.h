/* SPDX-License-Identifier: Apache-2.0
 * What the exchange among ranks (ranks.c) holds, and the memory that it lies in. Buffers are for
 * the worst case, every token of every rank here, in one mapping; pages are allocated at the first
 * touch. Private to src/compute/exchange.
 */
#ifndef COMPUTE_EXCHANGE_RANKS_MEMORY_H
#define COMPUTE_EXCHANGE_RANKS_MEMORY_H

#include "compute/exchange/carrier.h"
#include "compute/exchange/hop.h"
#include "compute/exchange/job.h"
#include "compute/exchange/near_memory.h"
#include "compute/exchange/replicas.h"

/* Tokens that this rank sends to the ranks of its node: its own, or those from the rank of its place on
 * another node. At one level, its own tokens to all ranks. */
struct relay {
    struct hop_list list;
    struct hop_peer *peers; /* [ranks] those of the node, by place */
    struct job_batch in;    /* the list; then results of the node's ranks */
    struct exchange_span span;
    uint32_t returns; /* rows that go home, to another node */
    bool is_dealt, is_returned;
    /* The arrays below lie in the mapping. */
    char *list_in;        /* as it came from another node */
    char *out;            /* messages to the node's ranks, behind each other */
    uint32_t *own_row;    /* [tokens_max] */
    uint32_t *token_rows; /* [tokens_max][experts_per_token] row of the node's results */
    char *back; /* [tokens_max * experts_per_token][combine_bytes] of another node's, on their way
                 * home */
};

/* A message that was just sent, to be reported to its receiver when it leaves a slow link. */
struct sent {
    uint32_t to, node, expert_batch;
    uint64_t bytes;
};

/* Results on their way back to a rank. */
struct returning {
    uint32_t expert_batches[EXCHANGE_EXPERT_BATCHES]; /* rows of each */
    char *next[EXCHANGE_EXPERT_BATCHES];              /* of them, to be placed */
    char *rows;
    bool in_place; /* they are written where they are wanted, in the other rank's memory */
};

struct ranks {
    struct exchange exchange; /* first: a struct exchange * points to both */
    struct ranks *behind;     /* among those that are open */
    uint32_t rank, rank_count, slots_per_rank, node_count;
    /* The current dispatch; at one level all ranks are one node. */
    uint32_t nodes, node, places, place;
    uint32_t row_count, rows_returned, group_count;
    bool dispatched;                      /* the transfer under way is a combine */
    struct job_batch in_batch, out_batch; /* of the transfers under way, but for the relays' */
    struct replicas replicas;
    /* Received rows, by the owner of the tokens; then results that came back to this rank and, with
     * nodes, results for each node that this rank relays for: [ranks][in_bytes], [1 +
     * nodes][results_bytes]. */
    struct near_memory in;
    struct relay *relays;         /* [node_count] by the node that owns the tokens */
    struct hop_peer *node_peers;  /* [node_count] of the first of two hops */
    struct hop_message *messages; /* [ranks] received, by the owner of the tokens */
    struct returning *returning;  /* [ranks] what goes back for them */
    /* [ranks][EXCHANGE_EXPERT_BATCHES] of results from there; the first also of those messages */
    struct exchange_span *spans_in;
    struct exchange_span *spans_out; /* of what was sent since the dispatch began */
    struct sent *sent;               /* [ranks + nodes] */
    uint32_t sent_count, span_count;
    struct exchange_group *groups;                       /* [slots_per_rank] */
    uint32_t *next_row;                                  /* [slots_per_rank] */
    uint32_t expert_batch;                               /* of the results that leave next */
    uint32_t expert_batch_rows[EXCHANGE_EXPERT_BATCHES]; /* rows that are computed when it leaves */
    uint32_t expert_batch_sums[EXCHANGE_EXPERT_BATCHES],
        next_sum[EXCHANGE_EXPERT_BATCHES]; /* sums that leave with it */
    /* The arrays below lie in the mapping. */
    uint32_t *pair_slot;  /* [tokens_max][experts_per_token] the slot chosen, among all ranks' */
    uint32_t *token_rows; /* [tokens_max][experts_per_token] row of this rank's results */
    uint32_t *own_token;  /* [tokens_max] of two hops: those that this node computes, ascending */
    char *own_list;       /* of two hops: the list of those */
    char *out;            /* of two hops: messages to the nodes, behind each other */
    const char **token_data;   /* [ranks * tokens_max] */
    uint32_t *row_token;       /* [rows_max] */
    char **row_result;         /* [rows_max] */
    char *back;                /* [rows_max][combine_bytes] on their way back to others */
    char *held;                /* [rows_max][combine_bytes] by groups: results to be summed here */
    struct exchange_sum *sums; /* [rows_max] by groups */
    const char **sum_rows;     /* [rows_max] by groups */
    size_t in_bytes, results_bytes, list_bytes, out_bytes, mapped_bytes;
    void *memory;
};

/* Sums are by groups. */
bool ranks_memory_sum_groups(const struct ranks *ranks);

/* Behind the exchange's options and the counts of ranks, slots and nodes. */
enum status ranks_memory_open(struct ranks *ranks, struct error *error) MUST_USE;
void ranks_memory_close(struct ranks *ranks);

#endif
