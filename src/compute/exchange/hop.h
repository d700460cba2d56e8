/* SPDX-License-Identifier: Apache-2.0
 * One hop of a dispatch: a list of tokens, each with the slots that compute it, is dealt to peers, a
 * message to each, and where each result will come to lie is settled. A peer is a rank, or a whole
 * node (ranks.c); slots are counted through all peers.
 *
 * Pairs of a token that belong to one sum stand behind each other, all but the first with HOP_JOINS.
 * If all of them go to one peer they stay joined, and one row comes back for them; else, or if the
 * peer is oneself, each has its own row. A message is, in memory as on its way:
 *
 *   struct hop_head; u32 count[tokens]; u32 slot[pairs]; f32 weight[pairs]; (to 64 bytes) row[tokens]
 *
 * with weights where there are sums. Where the peer's memory is at hand, all but the head is written
 * there, and the head alone is sent.
 *
 * Results come back in waves, so that the first leave while others are still computed: a wave has
 * the results of some of the receiver's slots, those of lower slots earlier, in the order of the
 * message. Both sides know from the message how many there are. Of a small message all come in the
 * last wave. Private to src/compute/exchange; it sends nothing.
 */
#ifndef COMPUTE_EXCHANGE_HOP_H
#define COMPUTE_EXCHANGE_HOP_H

#include "compute/exchange/exchange.h"
#include "compute/exchange/near_memory.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HOP_ALIGN 64
#define HOP_JOINS 0x80000000u     /* of a slot: it is of the same sum as the pair before it */
#define HOP_EXPERT_BATCH_PAIRS 64 /* of a message that is not small */
#define HOP_OWN (UINT32_MAX - 1)  /* of a row: another hop says where it is */

struct hop_head {
    uint32_t tokens, pairs;
    uint32_t first_return;   /* where the sender has the results come to lie: a row */
    struct shared_file from; /* its memory */
};

struct hop_message {
    uint32_t tokens, pairs;
    uint32_t *count; /* [tokens] slots of the token */
    uint32_t *slot;  /* [pairs] of the receiver's, perhaps with HOP_JOINS */
    float *weight;   /* [pairs] where there are sums */
    char *rows;      /* [tokens][row_bytes] */
    size_t bytes;
};

/* Tokens to be dealt. */
struct hop_list {
    uint32_t tokens;
    const uint32_t *count; /* [tokens] slots of the token; NULL: `each` */
    uint32_t each;
    const uint32_t *slot; /* of all peers, perhaps with HOP_JOINS */
    const float *weight;  /* NULL: there are no sums */
    const char *rows;     /* a token's is at row[token]; NULL: at the token's own number */
    const uint32_t *row;
};

struct hop_peer {
    uint32_t tokens, pairs;             /* that go there */
    uint32_t tokens_placed, pairs_laid; /* in the message so far */
    uint32_t returns;                   /* rows that come back for them, of them in each wave */
    uint32_t expert_batch_returns[EXCHANGE_EXPERT_BATCHES];
    uint32_t first_return;                         /* the first of those rows */
    uint32_t next_return[EXCHANGE_EXPERT_BATCHES]; /* to be laid */
    uint32_t last_token;                           /* the last that goes there, plus one */
    char *target; /* where the peer reads its message, if it can be written to; else NULL. To be set
                  * between hop_count and hop_fill */
    struct hop_head *head; /* what is sent, head_bytes of it: with a target no more than the head */
    size_t head_bytes;
    struct hop_message out;
};

struct hop {
    uint32_t peer_count, slots_each, own; /* own: the peer that is oneself */
    uint32_t row_bytes;
    bool weighs;            /* there are sums */
    bool in_expert_batches; /* else all comes back in the last wave */
    bool own_goes_on; /* what is one's own is dealt again: it stays joined, without rows here */
    struct shared_file from; /* of each head */
    struct hop_peer *peers;  /* [peer_count] */
    uint32_t *own_row;       /* [tokens] of one's own tokens: where its row is in the list's rows */
};

size_t hop_rows_at(uint32_t tokens, uint32_t pairs, bool weighs);
/* The parts of a message that lies, or will lie, in memory. */
struct hop_message hop_message_at(char *memory, uint32_t tokens, uint32_t pairs, uint32_t row_bytes,
                                  bool weighs);
/* How many pairs from `pair` on, which is before `end`, are of one sum. */
uint32_t hop_joined(const uint32_t *slot, uint32_t pair, uint32_t end);

/* The wave in which a slot's results leave, of a rank's `slots`. */
uint32_t hop_expert_batch_of_slot(uint32_t slot, uint32_t slots);
/* The wave in which the result of `count` pairs leaves, one sum if they are several; of a message of
 * `pairs` to a rank of `slots`. */
uint32_t hop_expert_batch(const uint32_t *slot, uint32_t count, uint32_t slots, uint32_t pairs);

/* Says how much goes to each peer. Returns how many rows come back, from `first_return` on. */
uint32_t hop_count(struct hop *hop, const struct hop_list *list, uint32_t first_return);
/* Behind hop_count: writes the messages behind each other, one's own elsewhere and without rows, and
 * for each pair the row of its result, EXCHANGE_SUMMED or HOP_OWN. Returns the bytes of `out` used.
 */
size_t hop_fill(struct hop *hop, const struct hop_list *list, char *out, char *own,
                uint32_t *token_rows);

#endif
