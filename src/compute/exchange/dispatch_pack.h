/* SPDX-License-Identifier: Apache-2.0
 * Packs a list of tokens into one message for each peer, and assigns a row to each result that will
 * return. A peer is a rank or, at the first of two levels, a node (exchange_ranks.c). Slots are
 * numbered across all peers.
 *
 * Consecutive pairs of a token that belong to one sum are marked: all but the first have
 * DISPATCH_SAME_SUM. If one peer other than the sender itself computes all of them, one row returns
 * for the sum; otherwise each pair has a row of its own. A message has this layout, in memory and
 * on the wire:
 *
 *   struct dispatch_header; u32 count[tokens]; u32 slot[pairs]; f32 weight[pairs]; pad to 64 bytes;
 *   row[tokens]
 *
 * The weights are there only if results are summed. If the sender can write to the peer's memory
 * (shared_window.h), it writes everything but the header there and sends only the header.
 *
 * Results return in EXCHANGE_EXPERT_BATCHES batches, so that the first leave while later experts
 * still compute. A batch holds the results of a range of the receiver's slots, in the order of the
 * message; lower slots are in earlier batches. Both sides derive the sizes from the message. A
 * small message returns everything in the last batch. Private to src/compute/exchange; sends
 * nothing.
 */
#pragma once

#include "compute/exchange/exchange.h"
#include "compute/exchange/shared_window.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DISPATCH_ALIGN 64
#define DISPATCH_SAME_SUM                                                                          \
    0x80000000u /* flag of a slot: the pair belongs to the previous pair's sum */
#define DISPATCH_EXPERT_BATCH_PAIRS 64 /* a message with fewer pairs is small */
#define DISPATCH_OWN_ROW                                                                           \
    (UINT32_MAX - 1) /* of a result: the second level's packing assigns its row */

struct dispatch_header {
    uint32_t tokens, pairs;
    uint32_t first_return;   /* the first row in the sender's memory that the results fill */
    struct shared_file from; /* the sender's shared memory */
};

struct dispatch_message {
    uint32_t tokens, pairs;
    uint32_t *count; /* [tokens] how many of the receiver's slots compute the token */
    uint32_t *slot;  /* [pairs] among the receiver's, with or without DISPATCH_SAME_SUM */
    float *weight;   /* [pairs] if results are summed */
    char *rows;      /* [tokens][row_bytes] */
    size_t bytes;
};

/* The tokens to send. */
struct dispatch_tokens {
    uint32_t tokens;
    const uint32_t *count; /* [tokens] slots of each token; NULL: `each` */
    uint32_t each;
    const uint32_t *slot; /* numbered across all peers, with or without DISPATCH_SAME_SUM */
    const float *weight;  /* NULL: results are not summed */
    const char *rows;     /* token's row is rows[row[token]]; if `row` is NULL: rows[token] */
    const uint32_t *row;
};

struct dispatch_peer {
    uint32_t tokens, pairs;               /* sent to the peer */
    uint32_t tokens_placed, pairs_placed; /* written to the message so far */
    uint32_t return_rows;                 /* rows of results; then how many of them in each batch */
    uint32_t expert_batch_returns[EXCHANGE_EXPERT_BATCHES];
    uint32_t first_return;                         /* the first row of the results */
    uint32_t next_return[EXCHANGE_EXPERT_BATCHES]; /* of each batch: the next row to assign */
    uint32_t last_token;                           /* the last token sent to the peer, plus one */
    char *target; /* where the peer reads its message, if the sender can write there; else NULL. The
                  * caller sets it between dispatch_pack_count and dispatch_pack_fill */
    struct dispatch_header *head; /* the bytes to send, head_bytes; with a target only the header */
    size_t head_bytes;
    struct dispatch_message out;
};

struct dispatch_pack {
    uint32_t peer_count, slots_each, own; /* own: the sender as a peer */
    uint32_t row_bytes;
    bool has_weights;       /* results are summed */
    bool in_expert_batches; /* else all results return in the last batch */
    bool forwards_own; /* the sender's own tokens are packed again at the second level: their sums
                        * stay marked and get no rows here */
    struct shared_file from;     /* for each header */
    struct dispatch_peer *peers; /* [peer_count] */
    uint32_t *own_row; /* [tokens] the sender's own tokens: index of each in the list's rows */
};

/* Bytes of a message before its rows. */
size_t dispatch_pack_rows_offset(uint32_t tokens, uint32_t pairs, bool has_weights);
/* Addresses of the parts of a message in memory. */
struct dispatch_message dispatch_pack_message_at(char *memory, uint32_t tokens, uint32_t pairs,
                                                 uint32_t row_bytes, bool has_weights);
/* How many pairs from `pair` on, below `end`, belong to one sum. */
uint32_t dispatch_pack_joined(const uint32_t *slot, uint32_t pair, uint32_t end);

/* The batch in which the results of a slot return; `slots`: of a rank. */
uint32_t dispatch_pack_batch_of_slot(uint32_t slot, uint32_t slots);
/* The batch in which a result returns. It is of `count` pairs, one sum if there are several, in a
 * message of `pairs` to a rank with `slots`. */
uint32_t dispatch_pack_expert_batch(const uint32_t *slot, uint32_t count, uint32_t slots,
                                    uint32_t pairs);

/* Counts the tokens, pairs and results of each peer. Returns the number of result rows, which begin
 * at `first_return`. */
uint32_t dispatch_pack_count(struct dispatch_pack *pack, const struct dispatch_tokens *list,
                             uint32_t first_return);
/* After dispatch_pack_count: writes the messages one after another to `out`; the sender's own
 * message goes to `own` and has no rows. token_rows receives for each pair the row of its result,
 * EXCHANGE_SUMMED or DISPATCH_OWN_ROW. Returns the bytes of `out` used. */
size_t dispatch_pack_fill(struct dispatch_pack *pack, const struct dispatch_tokens *list, char *out,
                          char *own, uint32_t *token_rows);
